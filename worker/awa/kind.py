"""The kind of a job, derived from the name of its args type."""


def derive_kind(type_name: str) -> str:
    """Return the snake_case kind of a type name: `SendEmail` → `send_email`.

    An underscore goes before an upper-case letter that follows a lower-case letter or a digit, and
    before the last letter of a run of upper-case letters when a lower-case letter follows.
    """
    return "".join(_separated(type_name)).lower()


def _separated(name: str) -> list[str]:
    parts = []
    for index, letter in enumerate(name):
        if index and letter.isupper() and _starts_word(name, index):
            parts.append("_")
        parts.append(letter)
    return parts


def _starts_word(name: str, index: int) -> bool:
    before = name[index - 1]
    after = name[index + 1 : index + 2]
    return before.islower() or before.isdigit() or (before.isupper() and after.islower())
