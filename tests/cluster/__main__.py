"""`python -m cluster [MINOR]`: do what takes minutes before tests on a cluster, and say so."""

import sys

from cluster.cache import cache_root, say
from cluster.images import prepare_images
from cluster.source import choose, newest, prepare


def main(minor: str) -> None:
    """Build the programs of a node if one will be started, and the images."""
    prepare(minor)
    prepare_images()
    say(f"Kubernetes {minor}, source: {choose(minor)}, kept in {cache_root()}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else newest())
