"""`python -m isrr` and `isrr` are the command line; Ctrl-C while it is still being loaded is one line, too."""

import sys


def main() -> None:
    """Load the command line and run it."""
    try:
        from isrr.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("isrr: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
