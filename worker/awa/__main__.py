"""`python -m awa` is the `awa` command."""

from awa.cli import main

main()
