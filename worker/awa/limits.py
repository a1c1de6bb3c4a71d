"""What names, numbers and times are accepted, and the checks that say so.

The same limits stand in the database; checking here gives a better message and costs no round trip.
"""

from datetime import UTC, datetime

from awa.errors import ValidationError

MAX_NAME_LENGTH = 200
"""Limit of kinds, queue names and tags, in characters."""
MAX_TAGS = 20
"""Limit of tags of one job."""
MAX_ATTEMPTS_LIMIT = 1000
"""The largest max_attempts."""
HIGHEST_PRIORITY, LOWEST_PRIORITY = 1, 4


def check_name(what: str, name: object) -> None:
    """Raise `ValidationError` unless `name` is 1 to 200 printable characters."""
    if not isinstance(name, str):
        raise ValidationError(f"{what} is a str, not a {type(name).__name__}")
    if not 1 <= len(name) <= MAX_NAME_LENGTH:
        raise ValidationError(f"{what} has {len(name)} characters; it takes 1 to {MAX_NAME_LENGTH}")
    if not name.isprintable():
        raise ValidationError(f"{what} contains a character that is not printable; remove it")


def check_number(what: str, number: object, lowest: int, highest: int) -> None:
    """Raise `ValidationError` unless `number` is an int within the bounds."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise ValidationError(f"{what} is an int, not a {type(number).__name__}")
    if not lowest <= number <= highest:
        raise ValidationError(f"{what} is {number}; it takes {lowest} to {highest}")


def parse_time(what: str, at: datetime | str) -> datetime:
    """Return an aware datetime, or the time that an RFC 3339 text gives, in UTC.

    Raises `ValidationError` for a text of another form and for a time without a zone: it would mean
    another instant on every machine.
    """
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at)
        except ValueError:
            raise ValidationError(
                f"{what} is not a time; write it as 2030-01-31T09:00:00+01:00"
            ) from None
    if not isinstance(at, datetime):
        raise ValidationError(f"{what} is a datetime with a zone, not a {type(at).__name__}")
    if at.tzinfo is None or at.utcoffset() is None:
        raise ValidationError(
            f"{what} has no time zone; use datetime.now(UTC) + …, or name the zone that it is in "
            "with .replace(tzinfo=…)"
        )
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValidationError(f"{what} is outside the years 1 to 9999 in UTC") from None
