"""`python -m isrr` and `isrr` are the command line.

Ctrl-C while it is still being loaded is one line, too, and a service that is told to reload before it can answer is not
ended by it.
"""

import atexit
import gc
import signal
import sys


def main() -> None:
    """Load the command line and run it."""
    atexit.register(gc.freeze)  # at its end, Python would search everything that was loaded for garbage, twice
    if sys.argv[1:2] == ["serve"]:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        from isrr.cli.interrupts import remember_interrupts

        remember_interrupts()
        from isrr.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("isrr: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
