"""What can go wrong with the cluster of the tests."""


class ClusterError(Exception):
    """The cluster cannot be had, or a part of it failed. The message says what to do."""


class CommandFailed(ClusterError):
    """A command ended with another code than 0; `code`, `out` and `err` say how."""

    def __init__(self, command: list[str], code: int, out: str, err: str) -> None:
        super().__init__(f"{' '.join(command)} ended with {code}:\n{(err or out)[-4000:]}")
        self.code = code
        self.out = out
        self.err = err
