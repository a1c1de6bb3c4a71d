"""`python -m awa` is the `awa` command."""

from awa.cli import main

if __name__ == "__main__":
    main()
