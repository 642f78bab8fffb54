"""`python -m isrr` and `isrr`: the command line, with Ctrl-C as one line even while it is being loaded."""

import atexit
import gc
import signal
import sys


def main() -> None:
    """Load the command line and run it."""
    atexit.register(gc.freeze)  # Python would search all loaded objects for garbage when it ends
    if sys.argv[1:2] == ["serve"]:  # a service that is told to reload while it loads must not end
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
