"""A module whose client has no handler."""

from awa import AsyncClient

client = AsyncClient()
