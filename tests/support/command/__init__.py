"""The command `awa worker` as a user starts it, and handlers that misbehave."""
