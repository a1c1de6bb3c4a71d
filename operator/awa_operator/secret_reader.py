"""Secrets that Queues refer to: fetched one by one, never listed or watched, remembered a while.

What a Secret holds stays here and goes to the databases; everybody else sees only that it is there
and a mark that changes with it.
"""

import asyncio
import base64
import binascii
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from awa.manifest.queue import SecretKey
from awa_operator.dsn import Dsn, read_dsn
from awa_operator.errors import ApiForbidden, ApiGone
from awa_operator.identity import secret_hash
from awa_operator.kube import Kube
from awa_operator.observed import SecretState, SecretView
from awa_operator.resources import SECRETS

SOONEST_SECONDS = 2.0
"""How soon a Secret that is of no use is fetched again; later the longer that lasts."""
LATEST_SECONDS = 60.0
LONGEST_VALUE = 32 * 1024
"""Characters of one value that are kept; no connection string is longer."""


@dataclass(frozen=True, slots=True)
class _Content:
    """What one Secret held when it was fetched; `data` is None when it could not be."""

    uid: str
    data: Mapping[str, str] | None
    is_forbidden: bool
    read_at: float


class SecretReader:
    """Fetches Secrets and says what is in them."""

    def __init__(
        self,
        kube: Kube,
        *,
        fresh_for: timedelta = timedelta(seconds=300),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._fresh_for = fresh_for.total_seconds()
        self._clock = clock
        self._contents: dict[tuple[str, str], _Content] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}
        self._useless: dict[tuple[str, str], dict[str, float]] = {}
        """Since when which key of a Secret has been of no use."""

    async def view(
        self, namespace: str, ref: SecretKey, *, not_before: float | None = None
    ) -> tuple[SecretView, Dsn | None]:
        """Return what a reference leads to, and the connection string for the databases.

        `not_before` asks for content fetched after that moment of the clock, for when a database
        refused what was known until then. Raises an `ApiError` when the API server does not answer.
        """
        content = await self._content(namespace, ref.name, not_before)
        view, dsn = self._judge(namespace, ref, content)
        keys = self._useless.setdefault((namespace, ref.name), {})
        if dsn is None:
            keys.setdefault(ref.key, self._clock())
        else:
            keys.pop(ref.key, None)
        return view, dsn

    def _judge(
        self, namespace: str, ref: SecretKey, content: _Content
    ) -> tuple[SecretView, Dsn | None]:
        if content.is_forbidden:
            message = f"the operator may not read Secret {ref.name} in namespace {namespace}"
            return SecretView(ref.name, ref.key, SecretState.FORBIDDEN, message=message), None
        found = read_dsn(ref.name, ref.key, content.data)
        if isinstance(found, Dsn):
            mark = secret_hash(content.uid, _bytes((content.data or {})[ref.key]))
            return SecretView(ref.name, ref.key, SecretState.FOUND, mark), found
        return SecretView(ref.name, ref.key, found.state, message=found.message), None

    def retry_after(self, namespace: str, name: str) -> timedelta | None:
        """Return when a Secret that is of no use is to be fetched again."""
        content = self._contents.get((namespace, name))
        if content is None or not self._useless.get((namespace, name)):
            return None
        due = content.read_at + self._patience((namespace, name), content) - self._clock()
        return timedelta(seconds=max(due, 0.0))

    async def _content(self, namespace: str, name: str, not_before: float | None) -> _Content:
        ref = namespace, name
        async with self._locks.setdefault(ref, asyncio.Lock()):
            known, now = self._contents.get(ref), self._clock()
            if known is not None and self._is_good(ref, known, now, not_before):
                return known
            content = await self._fetch(namespace, name)
            self._contents[ref] = content
            return content

    async def _fetch(self, namespace: str, name: str) -> _Content:
        now = self._clock()
        try:
            body = await self._kube.get(SECRETS, namespace, name)
        except (ApiGone, ApiForbidden) as error:
            return _Content("", None, isinstance(error, ApiForbidden), now)
        data = {key: str(value) for key, value in (body.get("data") or {}).items()}
        kept = {key: value if len(value) <= LONGEST_VALUE else "" for key, value in data.items()}
        uid = str((body.get("metadata") or {}).get("uid", ""))
        return _Content(uid, kept, is_forbidden=False, read_at=now)

    def _is_good(
        self, ref: tuple[str, str], known: _Content, now: float, not_before: float | None
    ) -> bool:
        is_refused = not_before is not None and known.read_at < not_before
        return not is_refused and now - known.read_at < self._patience(ref, known)

    def _patience(self, ref: tuple[str, str], content: _Content) -> float:
        """Return for how many seconds what was fetched is good."""
        keys = self._useless.get(ref)
        if not keys:
            return self._fresh_for
        useless_for = content.read_at - min(keys.values())
        return min(max(useless_for / 10, SOONEST_SECONDS), LATEST_SECONDS)


def _bytes(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return value.encode()
