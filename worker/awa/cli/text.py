"""Texts for people: made harmless for a terminal, and times in words."""

from datetime import timedelta

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def visible(text: str) -> str:
    """Return a text whose control characters, escape sequences included, are spelled out."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def visible_json(text: str) -> str:
    """Return a JSON text that a terminal may show; it still means the same.

    Only the characters that JSON itself leaves bare need it: those above 0x1f.
    """
    return "".join(
        character if character.isprintable() or character == "\n" else _escaped(character)
        for character in text
    )


def span(duration: timedelta) -> str:
    """Return a duration in words, to about two digits, such as `3.2 s` or `5 min`."""
    seconds = duration.total_seconds()
    for size, unit in _UNITS:
        if seconds >= size * 1.5:
            return f"{seconds / size:.0f} {unit}"
    if seconds >= 10:
        return f"{seconds:.0f} s"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def count(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 job` or `1,200 jobs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
