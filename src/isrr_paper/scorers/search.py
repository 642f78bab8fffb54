"""Search over a grid of boosted trees; the point with the highest NDCG@5 on the validation set wins.

Each finished point is a line of a ledger in the output folder, and the best scorer so far lies in the same folder. A
search that was killed goes on after its last finished point; a ledger of another search is refused.

Paper: appendix B, "Experimental Setup Details".
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import product
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from isrr.counting import counted
from isrr.files import read_json_lines, write_atomically
from isrr_paper.features import Featured
from isrr_paper.paper_errors import ScorerError
from isrr_paper.scorers.scorer import Scorer, TrainingInterruptedError, TrainingProgress

Point = dict[str, Any]

PAPER_GRID: Mapping[str, Sequence[Any]] = {
    "learning_rate": (0.03, 0.07, 0.15, 0.3),
    "max_bin": (64, 128, 254),
    "depth": (4, 6, 8, 10),
}
LEDGER = "ledger.jsonl"


@dataclass(frozen=True)
class Finished:
    """A point of the grid that was trained: its parameters, mean NDCG@5 over the validation queries, and its time."""

    point: Point
    validation_ndcg: float
    seconds: float


def search(
    make: Callable[..., Scorer],
    train: Featured,
    validation: Featured,
    folder: str | PathLike[str],
    *,
    grid: Mapping[str, Sequence[Any]] = PAPER_GRID,
    settings: Mapping[str, Any] | None = None,
    progress: TrainingProgress | None = None,
) -> list[Finished]:
    """Train a scorer at each point of a grid; the best is left in the folder, where `load_scorer` finds it.

    Args:
        make: Class of the scorer; called with the settings and a point of the grid.
        train: Judged queries with features.
        validation: Others; they choose the point.
        folder: Where the ledger and the best scorer go.
        grid: Values of each parameter; all combinations are tried.
        settings: Parameters that stay the same.
        progress: Called with (points done, of how many, best NDCG@5 so far).

    Returns:
        All points, finished now or before, in grid order.

    Raises:
        TrainingInterruptedError: After Ctrl-C; the same call goes on later.
    """
    path, fixed = Path(folder), dict(settings or {})
    path.mkdir(parents=True, exist_ok=True)
    points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    ledger = path / LEDGER
    done = {_key(entry.point): entry for entry in _entries(ledger, _heading(make, fixed, train, validation))}
    best = max((entry.validation_ndcg for entry in done.values()), default=-1.0)
    try:
        for point in points:
            if _key(point) not in done:
                started = perf_counter()
                scorer = make(**fixed, **point).fit(train, validation)
                if scorer.validation_ndcg > best:
                    scorer.save(path)
                    best = scorer.validation_ndcg
                entry = Finished(point, scorer.validation_ndcg, round(perf_counter() - started, 3))
                with ledger.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(asdict(entry)) + "\n")
                done[_key(point)] = entry
            if progress:
                progress(sum(_key(other) in done for other in points), len(points), best)
    except KeyboardInterrupt:
        state = f"the best of them is saved in {folder}" if done else "nothing is saved yet"
        message = f"search stopped after {counted(len(done), 'point')}; {state}; the same search goes on from here"
        raise TrainingInterruptedError(message) from None
    return [done[_key(point)] for point in points]


def _entries(ledger: Path, heading: dict[str, Any]) -> list[Finished]:
    """Read a ledger's finished points; start it, or drop a line that was cut off, if need be."""
    lines = read_json_lines(ledger) if ledger.exists() else []
    if lines and lines[0] != heading:
        raise ScorerError(f"{ledger}: belongs to another search ({_difference(lines[0], heading)}); use another folder")
    try:
        entries = [Finished(**line) for line in lines[1:]]
    except TypeError:
        raise ScorerError(f"{ledger}: damaged; remove it to start a new search") from None
    lines = [heading, *map(asdict, entries)]
    write_atomically(ledger, "".join(json.dumps(line) + "\n" for line in lines).encode())
    return entries


def _heading(make: Any, settings: dict[str, Any], train: Featured, validation: Featured) -> dict[str, Any]:
    heading = {"kind": make.kind, "settings": settings, "train": _digest(train), "validation": _digest(validation)}
    return json.loads(json.dumps(heading))  # type: ignore[no-any-return]


def _digest(queries: Featured) -> str:
    digest = sha256()
    for column in (queries.offsets, queries.relevance, queries.features):
        digest.update(b"none" if column is None else np.ascontiguousarray(column).view(np.uint8).data)
    return digest.hexdigest()[:16]


def _difference(recorded: dict[str, Any], heading: dict[str, Any]) -> str:
    names = [name for name in heading if recorded.get(name) != heading[name]]
    return "; ".join(f"{name} {recorded.get(name)!r}, now {heading[name]!r}" for name in names) or "unknown fields"


def _key(point: Point) -> str:
    return json.dumps(point, sort_keys=True)
