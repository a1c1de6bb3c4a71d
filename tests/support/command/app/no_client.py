"""A module without a client."""

nothing = None
