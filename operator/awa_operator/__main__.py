"""`python -m awa_operator`: says that this release cannot run as an operator."""

import sys

from awa_operator import __version__


def main() -> int:
    """Explain on stderr what is missing and return 2, so that a Deployment never looks healthy."""
    print(
        f"awa-operator {__version__} contains no operator yet: it reads no Queue resources and"
        " starts no workers. Run workers with `awa up` or `awa worker`.",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    sys.exit(main())
