"""A result on disk: one JSON file per result and pool, with everything needed to redo it; made once, then read.

From these records come the tables of a result and its drawings.
"""

import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import isrr
from isrr.errors import DataError
from isrr.files import write_atomically
from isrr.parallel import available_cores
from isrr_paper import drawings
from isrr_paper.experiments.pools import DataSet, Pools
from isrr_paper.paper_tables import write_tables

Record = dict[str, Any]
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Job:
    """One piece of a result.

    Attributes:
        name: What it is, in words.
        file: Where its record is kept.
        identity: What is measured, on what, with which settings; kept beside the drawings.
        work: Measures; its figures join the identity.
    """

    name: str
    file: Path
    identity: Record
    work: Callable[[], Record]

    def remembered(self) -> Record | None:
        """Read what an earlier run with the same identity wrote, if any."""
        if not self.file.exists():
            return None
        try:
            record: Record = json.loads(self.file.read_text())
        except ValueError as error:
            raise DataError(f"{self.file}: not JSON ({error}); delete it to measure again") from None
        return record if {name: record.get(name) for name in self.identity} == self.identity else None

    def measure(self) -> Record:
        """Do the work, and write its result."""
        began = time.perf_counter()
        figures = self.work()
        circumstances = {"seconds": time.perf_counter() - began, "machine": machine(), "isrr": isrr.__version__}
        record: Record = {**self.identity, **circumstances, **figures}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.file, json.dumps(record, indent=1).encode())
        return record


def on_pool(
    result: str,
    measure: Callable[..., Record],
    pools: Pools,
    data_set: DataSet,
    scorer: str,
    settings: Record,
    out: Path,
) -> Job:
    """One result on one pool, its record kept in the folder `out`."""
    identity = {
        "result": result,
        "data": data_set.name,
        "content": data_set.content,
        "scorer": scorer,
        "training": pools.settings(scorer, data_set.name),
        "settings": settings,
    }

    def work() -> Record:
        pool = pools.get(data_set, scorer)
        facts = {
            "title": pool.title,
            "n_validation": len(pool.validation),
            "n_judged": len(pool.judged),
            "fingerprints": {"validation": pool.validation.fingerprint, "judged": pool.judged.fingerprint},
        }
        return {**facts, **measure(pool, **settings)}

    name = f"{result} on {data_set.name} with {scorer}"
    return Job(name, out / f"{result}-{data_set.name}-{scorer}.json", identity, work)


def machine() -> str:
    """Describe the machine."""
    model, info = platform.machine(), Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return f"{model}, {available_cores()} cores, Python {platform.python_version()}"


def draw(result: str, records: list[Record], folder: Path) -> list[Path]:
    """Write the tables and figures of one result; the files written."""
    experiment = import_module(f"isrr_paper.experiments.{result}")
    folder.mkdir(parents=True, exist_ok=True)
    written = write_tables(experiment.rows(records), folder / result, getattr(experiment, "READING", ""))
    if hasattr(experiment, "averages"):
        written += write_tables(
            experiment.averages(records), folder / f"{result}-averages", experiment.READING_AVERAGES
        )
    if picture := _PICTURES.get(result):
        for record in records:
            file = folder / f"{result}-{record['data']}-{record['scorer']}"
            picture(record, f"{record['title']} on {record['data']}", file)
            written += [file.with_suffix(suffix) for suffix in (".png", ".svg")]
    return written


def _histograms(record: Record, title: str, file: Path) -> None:
    deterministic = record["deterministic"]
    panels = [
        {
            "name": f"{figures_of['by']}: {figures_of['name']}",
            "utilities": figures_of["utilities"],
            "level": figures_of["target"] * (deterministic if "deterministic" in figures_of["promise"] else 1.0),
            "deterministic": deterministic,
        }
        for figures_of in record["procedures"]
    ]
    drawings.utility_histograms(panels, title, file)


_PICTURES: dict[str, Callable[[Any, str, Path], None]] = {
    "tradeoff": drawings.threshold_curves,
    "coverage": _histograms,
    "stochastic": _histograms,
    "decay": lambda record, title, file: drawings.decay_curves(record["decays"], title, file),
}
