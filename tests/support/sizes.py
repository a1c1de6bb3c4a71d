"""How large a field case or pitfall is: small in every run, as its recipe in `make test-field`."""

import os

IS_FULL = os.environ.get("AWA_TEST_FULL_SIZE") == "1"


def sized[T](small: T, full: T) -> T:
    """Return `small`, or `full` when AWA_TEST_FULL_SIZE is 1."""
    return full if IS_FULL else small
