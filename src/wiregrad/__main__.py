"""`python -m wiregrad` is the `wiregrad` command."""

from wiregrad.cli import main

main()
