"""What worker processes and their supervisor exit with."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes; those above 1 are those of sysexits.h."""

    CLEAN = 0
    """Everything that ran has ended or was given back, and is written."""
    CRASHED = 1
    """It ended by a fault, or something that ran had to be cut off."""
    UNFINISHED = 70
    """Of a worker process alone: something still ran; the supervisor settles it."""
    CONFIGURATION = 78
    """Starting again changes nothing: somebody has to change what it was started with."""
