"""Which functions of isrr a piece of work calls, and how deep they call each other.

python tests/functions_called.py calibrate judged.parquet -p PROMISE    prints them by file, after a first run
"""

import inspect
import sys
import threading
from collections import defaultdict
from pathlib import Path

import isrr

SOURCE = str(Path(isrr.__file__).parent)


def functions_called(work):
    """Return the named functions of isrr that a call of `work` enters, by file, and the deepest stack of them."""
    names, deepest = defaultdict(set), 0

    def note(frame, event, _):
        nonlocal deepest
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(SOURCE):
            return
        if not code.co_name.startswith("<") and code.co_flags & inspect.CO_OPTIMIZED:  # no module, no class body
            names[code.co_filename[len(SOURCE) + 1 :]].add(code.co_qualname)
        depth = 0
        while frame:
            depth += frame.f_code.co_filename.startswith(SOURCE)
            frame = frame.f_back
        deepest = max(deepest, depth)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return dict(names), deepest


if __name__ == "__main__":
    from command_line import isrr as run_command

    run_command(*sys.argv[1:])  # what is called while modules are imported is no part of the work
    found, stack = functions_called(lambda: run_command(*sys.argv[1:]))
    for file in sorted(found):
        print(f"{len(found[file]):4} {file}: {', '.join(sorted(found[file]))}")
    print(f"{sum(map(len, found.values()))} functions in {len(found)} files, deepest stack {stack}")
