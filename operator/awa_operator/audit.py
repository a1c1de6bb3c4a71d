"""Compares what watches told with lists: once at the start, then every few minutes.

The first list is how the operator learns what there is. A later difference that a watch had time to
tell of and did not is a watch gone deaf: it is repaired from the list, and watching begins anew.

A namespace whose lists are forbidden is left alone, as half of what there is would be unknown; it
holds up no other, and is asked again until it is allowed.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from datetime import timedelta

from awa_operator import labels
from awa_operator.cache import Cache, Object, is_newer, ref_of, version_number, version_of
from awa_operator.errors import ApiError, ApiForbidden, ApiGone
from awa_operator.kube import Kube, Listing
from awa_operator.metrics import Metrics
from awa_operator.resources import AUTOSCALERS, LISTED, QUEUES, WATCHED, Resource

log = logging.getLogger(__name__)

OURS = labels.selector({labels.MANAGED_BY: labels.OPERATOR})
_RETRY_SECONDS = 2.0
_LONGEST_RETRY_SECONDS = 30.0


def selector_of(resource: Resource) -> str:
    """Return the label selector by which a kind is listed and watched."""
    return "" if resource in (QUEUES, AUTOSCALERS) else OURS


def _cannot_list(namespace: str | None) -> str:
    return "cannot list anything" if namespace is None else f"cannot list namespace {namespace}"


def _jitter() -> float:
    return random.uniform(0.9, 1.1)  # noqa: S311 - no secret depends on it


class Audit:
    """Lists and compares.

    `known` is called whenever lists have told what there is, of all namespaces or of one more.
    `restart` begins watching anew.
    """

    def __init__(
        self,
        kube: Kube,
        cache: Cache,
        metrics: Metrics,
        *,
        namespaces: Sequence[str],
        every: timedelta,
        grace: timedelta,
        known: Callable[[], None],
        restart: Callable[[], None],
    ) -> None:
        self._kube = kube
        self._cache = cache
        self._metrics = metrics
        self._namespaces: tuple[str | None, ...] = tuple(namespaces) or (None,)
        self._every = every
        self._grace = grace
        self._known = known
        self._restart = restart
        self._refused: set[str | None] = set()
        self._ask_after = _RETRY_SECONDS
        self._relist = asyncio.Event()
        self.synced = False
        """Whether all that there was at the start is known."""
        self.failed_in_a_row = 0
        """Audits one after the other that found what no watch had told of."""

    def serves(self, namespace: str) -> bool:
        """Whether all that there is in a namespace can be known."""
        return not self._refused & {namespace, None}

    async def sync(self) -> None:
        """List everything, as often as it takes; of namespaces that forbid it, at least of one."""
        for namespace in self._namespaces:
            await self._sync(namespace)
        while self._refused == {*self._namespaces}:
            await asyncio.sleep(self._ask_after * _jitter())
            await self._ask_again()
        if not self.synced:
            log.info("knows what there is", extra={"queues": len(self._cache.queues())})
        self.synced = True
        self._known()

    def relist_soon(self) -> None:
        """List again soon: a watch began anew, and what went in between was not told."""
        self._relist.set()

    async def run(self) -> None:
        """List all, then compare, until cancelled."""
        await self.sync()
        clock = asyncio.get_running_loop().time
        due = clock() + self._pause()
        while True:
            again = clock() + self._ask_after * _jitter() if self._refused else due
            try:
                async with asyncio.timeout_at(min(due, again)):
                    await self._relist.wait()
            except TimeoutError:
                pass
            else:
                await asyncio.sleep(_RETRY_SECONDS)
                self._relist.clear()
                await self.sync()
                due = clock() + self._pause()
                continue
            await self._ask_again()
            if clock() < due:
                continue
            try:
                await self.compare()
            except ApiError as error:
                log.info("no audit, as the API server does not answer", extra={"error": str(error)})
            due = clock() + self._pause()

    async def compare(self) -> int:
        """Return how many objects a list shows and no watch told of, and repair that.

        Raises an `ApiError` when a list cannot be had; then nothing is concluded.
        """
        missed = 0
        for namespace in self._namespaces:
            if namespace not in self._refused:
                try:
                    missed += await self._compare(namespace)
                except ApiForbidden as error:
                    self._refuse(namespace, error)
        self.failed_in_a_row = self.failed_in_a_row + 1 if missed else 0
        if missed:
            log.error("watches missed what lists show", extra={"objects": missed})
            self._restart()
        return missed

    def _pause(self) -> float:
        return self._every.total_seconds() * _jitter()

    async def _compare(self, namespace: str | None) -> int:
        for resource in LISTED:
            await self._take(resource, namespace)
        listings = {one: await self._list(one, namespace) for one in WATCHED}
        suspects = {
            one: self._differences(one, listing, namespace) for one, listing in listings.items()
        }
        if any(suspects.values()):
            await asyncio.sleep(self._grace.total_seconds())
        return sum(
            self._settle(resource, listing, suspects[resource], namespace)
            for resource, listing in listings.items()
        )

    async def _ask_again(self) -> None:
        """List the namespaces that were forbidden; those that are not any more are served."""
        self._ask_after = min(self._ask_after * 2, _LONGEST_RETRY_SECONDS)
        for namespace in tuple(self._refused):
            await self._sync(namespace)
            if namespace not in self._refused and self.synced:
                self._known()

    async def _sync(self, namespace: str | None) -> None:
        """List a namespace as soon as the API server answers, which may be that it is forbidden."""
        try:
            for resource in (*WATCHED, *LISTED):
                await self._take_at_last(resource, namespace)
        except ApiForbidden as error:
            self._refuse(namespace, error)
        else:
            if namespace in self._refused:
                self._refused.discard(namespace)
                self._metrics.degraded.labels(_cannot_list(namespace)).set(0)

    def _refuse(self, namespace: str | None, error: ApiForbidden) -> None:
        if namespace not in self._refused:
            self._ask_after = _RETRY_SECONDS
            log.error("%s: left alone", _cannot_list(namespace), extra={"error": str(error)})
        self._refused.add(namespace)
        self._metrics.degraded.labels(_cannot_list(namespace)).set(1)

    async def _take_at_last(self, resource: Resource, namespace: str | None) -> None:
        """Take a list as soon as the API server gives it."""
        taken = await self._take(resource, namespace)
        while not taken:
            await asyncio.sleep(_RETRY_SECONDS * _jitter())
            taken = await self._take(resource, namespace)

    async def _take(self, resource: Resource, namespace: str | None) -> bool:
        """Take a list into the cache; return whether that worked.

        Raises `ApiForbidden` for a kind that has to be known.
        """
        try:
            listing = await self._list(resource, namespace)
        except (ApiGone, ApiForbidden) as error:
            if resource in LISTED:
                # A kind that is not installed, or that we may not write either.
                return True
            if isinstance(error, ApiForbidden):
                raise
            log.error("cannot list %s", resource.plural, extra={"error": str(error)})
            return False
        except ApiError as error:
            log.warning("cannot list %s", resource.plural, extra={"error": str(error)})
            return False
        self._cache.take_list(resource, listing.items, listing.resource_version, namespace)
        return True

    async def _list(self, resource: Resource, namespace: str | None) -> Listing:
        self._cache.listing(resource)
        return await self._kube.list(resource, namespace, selector=selector_of(resource))

    def _differences(
        self, resource: Resource, listing: Listing, namespace: str | None
    ) -> dict[tuple[str, str], Object | None]:
        """Return what a list shows otherwise than the cache; None is what it does not show."""
        known = self._cache.versions(resource)
        listed = {ref_of(body): body for body in listing.items}
        found: dict[tuple[str, str], Object | None] = {
            ref: body
            for ref, body in listed.items()
            if ref not in known or known[ref] != version_of(body)
            if is_newer(version_of(body), known.get(ref))
        }
        for ref, version in known.items():
            if ref in listed or (namespace is not None and ref[0] != namespace):
                continue
            if version_number(version) <= version_number(listing.resource_version):
                found[ref] = None
        return found

    def _settle(
        self,
        resource: Resource,
        listing: Listing,
        suspects: dict[tuple[str, str], Object | None],
        namespace: str | None,
    ) -> int:
        """Repair what still differs after the grace; return how much that was."""
        if not suspects:
            self._cache.listed(resource)
            return 0
        changed = self._cache.take_list(
            resource, listing.items, listing.resource_version, namespace
        )
        missed = len(set(changed) & set(suspects))
        self._metrics.watch_audit_mismatch.labels(resource.plural).inc(missed)
        return missed
