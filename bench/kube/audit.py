"""What was asked of the API server, from its audit log."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from support.operating import ACCOUNT, Site


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was answered; `at` in seconds since 1970, `manager` of the fields written."""

    at: float
    verb: str
    resource: str
    subresource: str
    name: str
    user: str
    code: int
    uri: str

    @classmethod
    def of(cls, event: dict[str, Any]) -> Self:
        """Read an event of the log."""
        about = event.get("objectRef") or {}
        return cls(
            at=datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(),
            verb=event["verb"],
            resource=about.get("resource", ""),
            subresource=about.get("subresource", ""),
            name=about.get("name", ""),
            user=event["user"].get("username", ""),
            code=event.get("responseStatus", {}).get("code", 0),
            uri=event.get("requestURI", ""),
        )

    @property
    def took_effect(self) -> bool:
        """Whether it was neither a trial nor refused."""
        return self.code < 400 and "dryRun" not in self.uri

    @property
    def writes(self) -> bool:
        """Whether it changed something."""
        return self.took_effect and self.verb not in {"get", "list", "watch"}

    def does(self, verb: str, resource: str, subresource: str = "") -> bool:
        """Whether it did this."""
        asked = (self.verb, self.resource, self.subresource)
        return self.took_effect and asked == (verb, resource, subresource)

    @property
    def is_operators(self) -> bool:
        """Whether the operator asked."""
        return self.user.endswith(f":{ACCOUNT}")


def requests(site: Site, since: float) -> list[Request]:
    """Return what was asked of the API server since a moment, in its order."""
    events = (one for one in site.cluster.audit() if one["stage"] == "ResponseComplete")
    found = (Request.of(one) for one in events)
    return sorted((one for one in found if one.at >= since), key=lambda one: one.at)


def gaps(before: Sequence[Request], after: Sequence[Request]) -> Iterator[float]:
    """Yield the seconds from each request to the next one of the others about the same object."""
    for first in before:
        later = [one.at for one in after if one.name == first.name and one.at >= first.at]
        if later:
            yield min(later) - first.at


def now() -> float:
    """Return the moment, as the log tells it."""
    return datetime.now(UTC).timestamp()
