"""`python -m isrr` is the command line."""

from isrr.cli.main import main

main()
