"""`python -m wiregrad` is the `wiregrad` command."""

from wiregrad.cli import main

if __name__ == "__main__":
    main()
