"""The one value that is ever substituted into SQL text: the name of the schema."""

import hashlib
import re
from dataclasses import dataclass

from awa_migrations.errors import InvalidSchemaName

# 48 characters leave room for what is derived from the name within PostgreSQL's 63 bytes.
_VALID = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_RESERVED = "information_schema"


@dataclass(frozen=True, slots=True)
class SchemaName:
    """A schema name that is safe inside an identifier and inside a string literal.

    Raises InvalidSchemaName for anything but a lower-case letter or underscore followed by at
    most 47 letters, digits and underscores, and for the names PostgreSQL keeps for itself.
    """

    value: str

    def __post_init__(self) -> None:
        if not _VALID.fullmatch(self.value):
            raise InvalidSchemaName(self.value)
        if self.value.startswith("pg_") or self.value == _RESERVED:
            raise InvalidSchemaName(self.value)

    @property
    def quoted(self) -> str:
        """The name as an SQL identifier; quoted, because it may be a reserved word."""
        return f'"{self.value}"'

    @property
    def lock_key(self) -> int:
        """The advisory lock (signed 64 bits) by which migrators of this schema take turns."""
        digest = hashlib.sha256(f"awa_migrations:{self.value}".encode()).digest()
        return int.from_bytes(digest[:8], "big", signed=True)

    def render(self, text: str) -> str:
        """Replace `{schema}` by the quoted identifier and `{schema_name}` by the bare name."""
        return text.replace("{schema}", self.quoted).replace("{schema_name}", self.value)
