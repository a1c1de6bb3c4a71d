"""Everything that is said to the API server; the only module that imports the client.

Answers are plain JSON values. Every request has a limit, is counted, and fails with one of the
errors of `awa_operator.errors`.
"""

import asyncio
import functools
import json
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

from awa_operator import __version__, errors
from awa_operator.resources import Resource, resource_of

log = logging.getLogger(__name__)

# The client says nothing of the types of these.
_load_kube_config: Callable[..., Awaitable[None]] = load_kube_config
_load_incluster_config: Callable[..., None] = load_incluster_config

PAGE = 500
"""Objects of one page of a list."""
CONNECT_SECONDS = 5.0
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"

type Object = dict[str, Any]
type Counted = Callable[[str, str, str], None]
"""Called with verb, resource and status code of each request; `error` if there was no answer."""


@dataclass(frozen=True, slots=True)
class Listing:
    """All objects of one kind at one moment."""

    items: tuple[Object, ...]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change that a watch told of: ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: Object


class Access:
    """How to reach the API server and prove who we are.

    Certificates are always verified; only the flag that refuses authorities without key usage or
    key identifiers, which many clusters have, is not asked for.
    """

    def __init__(self, configuration: Configuration, counted: Counted) -> None:
        configuration.disable_strict_ssl_verification = True
        configuration.retries = None
        self.configuration = configuration
        self._counted = counted
        self.noticed: Counted = lambda *_: None
        """Called as `counted` is, by whoever else wants to know; perhaps in another thread."""
        self.heard: Callable[[str], None] = lambda _: None
        """Called with the resource whenever a watch of a session says anything, or a bookmark."""
        # The environment's proxies are for other addresses, and looking for them opens a file each
        # time.
        configuration.client_session_kwargs = {
            "middlewares": (self._send,),
            "trust_env": False,
        }

    @property
    def server(self) -> str:
        """Address of the API server."""
        return str(self.configuration.host)

    def open_session(self) -> aiohttp.ClientSession:
        """Return a session for whoever speaks to the API server without this module."""
        client = ApiClient(self.configuration)
        context: ssl.SSLContext = client.rest_client.ssl_context
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=context),
            headers={"User-Agent": user_agent()},
            middlewares=(self._send,),
        )

    async def _send(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Add the token of this moment and count; a token may be replaced while we run."""
        token = (await self.configuration.auth_settings()).get("BearerToken")
        if token and token.get("value"):
            request.headers["Authorization"] = str(token["value"])
        if self.configuration.tls_server_name:
            request.server_hostname = self.configuration.tls_server_name
        verb, resource = _verb_and_resource(request)
        try:
            response = await send(request)
        except (aiohttp.ClientError, OSError, asyncio.CancelledError):
            self._counted(verb, resource, "error")
            raise
        self._counted(verb, resource, str(response.status))
        self.noticed(verb, resource, str(response.status))
        if verb == "watch" and response.status == 200:
            heard = functools.partial(self.heard, resource)
            response.content = cast("aiohttp.StreamReader", _Overheard(response.content, heard))
        return response


class _Overheard:
    """The content of an answer that tells whenever a piece of it comes."""

    __slots__ = ("_content", "_heard")

    def __init__(self, content: aiohttp.StreamReader, heard: Callable[[], None]) -> None:
        self._content = content
        self._heard = heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _closed_as_disconnected():
            async for line in self._content:
                self._heard()
                yield line

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """Yield pieces of at most `size` bytes as they come."""
        with _closed_as_disconnected():
            async for piece in self._content.iter_chunked(size):
                self._heard()
                yield piece


@contextmanager
def _closed_as_disconnected() -> Iterator[None]:
    """Say of a connection that was closed on this side that it ended, which readers know of.

    A session is closed while watches read when one request of it was refused for who we are.
    """
    try:
        yield
    except RuntimeError as error:
        raise aiohttp.ClientPayloadError(str(error)) from error


async def find_access(kubeconfig: Path | None, counted: Counted) -> Access:
    """Return how to reach the API server: by a kubeconfig, else by the pod's service account.

    Raises `SettingsError` if neither can be used.
    """
    configuration = Configuration()
    try:
        if kubeconfig is not None:
            await _load_kube_config(str(kubeconfig), client_configuration=configuration)
        else:
            _load_incluster_config(configuration)
    except (ConfigException, OSError) as error:
        raise errors.SettingsError(
            f"no access to an API server: {error}; set AWA_OPERATOR_KUBECONFIG or run in a pod "
            "with a service account"
        ) from error
    return Access(configuration, counted)


def user_agent() -> str:
    """Return what we call ourselves to the API server."""
    return f"awa-operator/{__version__}"


class Kube:
    """The requests that the operator makes. Close it at the end.

    `may_write` is asked before each request that changes something: it says for how long that may
    take, or raises.
    """

    def __init__(
        self,
        access: Access,
        timeout: timedelta = timedelta(seconds=15),
        may_write: Callable[[], timedelta] | None = None,
    ) -> None:
        self._client = ApiClient(access.configuration)
        self._server = access.server
        self._timeout = timeout
        self._may_write = may_write
        self._held_until = 0.0

    async def close(self) -> None:
        """Close the connections."""
        close: Callable[[], Awaitable[None]] = self._client.close
        await close()

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """Return an object. Raises `ApiGone` if there is none."""
        return await self._json("GET", resource.path(namespace, name))

    async def get_path(self, path: str) -> Object:
        """Return what a path of the API server answers, such as the OpenAPI of a group."""
        return await self._json("GET", path)

    async def list(
        self, resource: Resource, namespace: str | None, *, selector: str = ""
    ) -> Listing:
        """Return all objects of a namespace, or of all namespaces, that fit a label selector."""
        items: list[Object] = []
        query = {"limit": str(PAGE)} | ({"labelSelector": selector} if selector else {})
        while True:
            page = await self._json("GET", resource.path(namespace), query=query)
            items += page.get("items") or ()
            meta = page.get("metadata") or {}
            if not meta.get("continue"):
                return Listing(tuple(items), str(meta.get("resourceVersion", "")))
            query["continue"] = meta["continue"]

    async def apply(
        self,
        manifest: Mapping[str, Any],
        *,
        manager: str,
        dry_run: bool = False,
        strict: bool = False,
    ) -> Object:
        """Create or change an object so that the manifest's fields are as they say.

        The fields of the manifest belong to `manager` from then on, whoever had them before; the
        fields that it applied before and that are not in the manifest any more are removed. With
        `dry_run` the API server checks everything and writes nothing; with `strict` it refuses
        fields that it does not know.
        """
        meta = manifest["metadata"]
        resource = resource_of(manifest["apiVersion"], manifest["kind"])
        query = {"fieldManager": manager, "force": "true"} | _dry(dry_run)
        if strict:
            query["fieldValidation"] = "Strict"
        path = resource.path(meta.get("namespace"), meta["name"])
        return await self._json("PATCH", path, query=query, body=manifest, content=_APPLY)

    async def apply_status(self, manifest: Mapping[str, Any], *, manager: str) -> Object:
        """As `apply`, for the status of an object."""
        meta = manifest["metadata"]
        resource = resource_of(manifest["apiVersion"], manifest["kind"])
        path = resource.path(meta.get("namespace"), meta["name"], "status")
        query = {"fieldManager": manager, "force": "true"}
        return await self._json("PATCH", path, query=query, body=manifest, content=_APPLY)

    async def create(
        self, manifest: Mapping[str, Any], *, manager: str, dry_run: bool = False
    ) -> Object:
        """Create an object. Raises `AlreadyExists` if there is one of that name."""
        resource = resource_of(manifest["apiVersion"], manifest["kind"])
        path = resource.path(manifest["metadata"].get("namespace"))
        query = {"fieldManager": manager} | _dry(dry_run)
        return await self._json("POST", path, query=query, body=manifest)

    async def replace(self, manifest: Mapping[str, Any], *, manager: str) -> Object:
        """Replace an object. Raises `ApiConflict` if its resourceVersion is not the current."""
        meta = manifest["metadata"]
        resource = resource_of(manifest["apiVersion"], manifest["kind"])
        path = resource.path(meta.get("namespace"), meta["name"])
        return await self._json("PUT", path, query={"fieldManager": manager}, body=manifest)

    async def merge(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Mapping[str, Any],
        *,
        manager: str,
        subresource: str = "",
    ) -> Object:
        """Merge `patch` into an object: lists are replaced whole, None removes.

        Raises `ApiConflict` if the patch names a resourceVersion that is not the current one.
        """
        path = resource.path(namespace, name, subresource)
        query = {"fieldManager": manager}
        return await self._json("PATCH", path, query=query, body=patch, content=_MERGE)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        foreground: bool = False,
    ) -> None:
        """Delete an object; one that is not there is fine.

        With `uid` only that very object. In the foreground it stays, marked, until what it owns is
        gone. Raises `ApiConflict` if it is another one or has changed since.
        """
        conditions = {"uid": uid, "resourceVersion": resource_version}
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground" if foreground else "Background",
            "preconditions": {key: value for key, value in conditions.items() if value},
        }
        try:
            await self._json("DELETE", resource.path(namespace, name), body=body)
        except errors.ApiGone:
            return

    async def watch(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        since: str,
        fields: str = "",
        silence: timedelta = timedelta(seconds=70),
    ) -> AsyncIterator[WatchEvent]:
        """Yield changes since a version until the server ends the stream or says nothing.

        Raises `ApiGone` when the version is too old: list again.
        """
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": since}
        if fields:
            query["fieldSelector"] = fields
        what = f"watch {resource.plural}"
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=silence.total_seconds()
        )
        try:
            response = await self._open("GET", resource.path(namespace), query, None, "", timeout)
            async with response:
                if response.status >= 400:
                    raise _error(what, response.status, response.headers, await response.read())
                async for line in response.content:
                    yield _watch_event(what, line)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise errors.ApiUnavailable(what, detail=_said(error)) from error

    async def _json(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content: str = "application/json",
    ) -> Object:
        """Make a request and return its answer. Raises an `ApiError`."""
        what = f"{method} {path}"
        seconds = self._timeout.total_seconds()
        if method != "GET":
            self._be_patient(what)
            if self._may_write is not None:
                seconds = min(seconds, self._may_write().total_seconds())
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=min(CONNECT_SECONDS, seconds))
        try:
            response = await self._open(method, path, query, body, content, timeout)
            async with response:
                data = await response.read()
                if response.status >= 400:
                    raise self._told(_error(what, response.status, response.headers, data))
            answer = json.loads(data) if data else {}
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise errors.ApiUnavailable(what, detail=_said(error)) from error
        return answer if isinstance(answer, dict) else {}

    def _be_patient(self, what: str) -> None:
        """Write nothing while the server asked for patience, whoever wants to write now."""
        wait = self._held_until - time.monotonic()
        if wait > 0:
            raise errors.ApiTooManyRequests(
                what,
                detail="the API server asked for patience",
                retry_after=timedelta(seconds=wait),
            )

    def _told(self, error: errors.ApiError) -> errors.ApiError:
        """Remember what an answer asks for."""
        if isinstance(error, errors.ApiTooManyRequests):
            self._held_until = time.monotonic() + error.retry_after.total_seconds()
        return error

    async def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        content: str,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """Send a request and return its answer, of which only the head was read."""
        url = f"{self._server}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json", "User-Agent": user_agent()}
        if body is not None:
            headers["Content-Type"] = content
        send: Callable[..., Awaitable[Any]] = self._client.rest_client.request
        answer = await send(method, url, headers=headers, body=body, _request_timeout=limits)
        response: aiohttp.ClientResponse = answer.response
        return response


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _said(error: BaseException) -> str:
    """Return what to tell of a failed connection."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _watch_event(what: str, line: bytes) -> WatchEvent:
    """Return the event of a line. Raises the error that the line is, or `ValueError`."""
    event = json.loads(line)
    kind, subject = event["type"], event["object"]
    if kind == "ERROR":
        code = int(subject.get("code") or 500)
        raise _error(what, code, {}, json.dumps(subject).encode())
    return WatchEvent(kind, subject)


def _error(what: str, status: int, headers: Mapping[str, str], data: bytes) -> errors.ApiError:
    """Return the error that an answer means."""
    try:
        told = json.loads(data)
    except ValueError:
        told = None
    told = told if isinstance(told, dict) and told.get("kind") == "Status" else {}
    reason, detail = str(told.get("reason") or ""), str(told.get("message") or "")
    if status == 429 or (status >= 500 and "Retry-After" in headers):
        wait = _retry_after(headers, told)
        return errors.ApiTooManyRequests(
            what, status=status, reason=reason, detail=detail, retry_after=wait
        )
    kind = _ERRORS.get(status, errors.ApiInvalid if status < 500 else errors.ApiUnavailable)
    if status == 409 and reason == "AlreadyExists":
        kind = errors.AlreadyExists
    return kind(what, status=status, reason=reason, detail=detail)


_ERRORS: dict[int, type[errors.ApiError]] = {
    401: errors.ApiForbidden,
    403: errors.ApiForbidden,
    404: errors.ApiGone,
    408: errors.ApiUnavailable,
    409: errors.ApiConflict,
    410: errors.ApiGone,
}


def _retry_after(headers: Mapping[str, str], told: Mapping[str, Any]) -> timedelta:
    """Return how long the server asks to wait: 1 s if it does not say, 60 s at most."""
    said = headers.get("Retry-After") or (told.get("details") or {}).get("retryAfterSeconds") or 1
    try:
        return timedelta(seconds=min(max(float(said), 0.1), 60.0))
    except ValueError:
        return timedelta(seconds=1)


def _verb_and_resource(request: aiohttp.ClientRequest) -> tuple[str, str]:
    """Return what a request does to what, in words of which there are few."""
    parts = request.url.path.strip("/").split("/")
    parts = {"api": parts[2:], "apis": parts[3:]}.get(parts[0], [])
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    resource = "/".join([parts[0], *parts[2:3]]) if parts else "discovery"
    verb = request.method.lower()
    if verb == "get":
        is_one = len(parts) != 1
        verb = "get" if is_one else "watch" if "watch" in request.url.query else "list"
    return _VERBS.get(verb, verb), resource


_VERBS = {"post": "create", "put": "update"}
