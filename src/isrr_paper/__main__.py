"""`python -m isrr_paper` and `isrr-paper` are the command line."""

from isrr_paper.cli import main

if __name__ == "__main__":
    main()
