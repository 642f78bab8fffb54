"""A result on disk: one JSON a result and pool, with everything needed to redo it; made once, then read."""

import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isrr.errors import DataError
from isrr.experiments.pools import Pool, Pools, Source
from isrr.files import write_atomically

Record = dict[str, Any]
Rows = list[dict[str, Any]]


def remembered(file: Path, identity: Record, work: Callable[[], Record]) -> Record:
    """What an earlier run with the same identity wrote to the file, or what the work finds now.

    Args:
        file: The JSON file.
        identity: What is measured, on what, with which settings; kept beside the figures.
        work: Measures; its figures join the identity.
    """
    if file.exists():
        try:
            found: Record = json.loads(file.read_text())
        except ValueError as error:
            raise DataError(f"{file}: is no JSON ({error}); delete it to measure again") from None
        if {name: found.get(name) for name in identity} == identity:
            return found
    began = time.perf_counter()
    figures = work()
    import isrr

    circumstances = {"seconds": time.perf_counter() - began, "machine": machine(), "isrr": isrr.__version__}
    record: Record = {**identity, **circumstances, **figures}
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(record, indent=1).encode())
    return record


def on_pool(
    result: str, measure: Callable[..., Record], pools: Pools, source: Source, scorer: str, settings: Record, out: Path
) -> Record:
    """One result on one pool, remembered in the folder `out`."""
    identity = {
        "result": result,
        "data": source.data,
        "scorer": scorer,
        "training": pools.settings(scorer, source.data),
        "settings": settings,
    }

    def work() -> Record:
        pool = pools.get(source, scorer)
        return {**_facts(pool), **measure(pool, **settings)}

    return remembered(out / f"{result}-{source.data}-{scorer}.json", identity, work)


def _facts(pool: Pool) -> Record:
    return {
        "label": pool.label,
        "n_validation": len(pool.validation),
        "n_judged": len(pool.judged),
        "fingerprints": {"validation": pool.validation.fingerprint, "judged": pool.judged.fingerprint},
    }


def machine() -> str:
    """The machine, in words."""
    model, info = platform.machine(), Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return f"{model}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}"
