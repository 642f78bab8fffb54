"""Writing the served-ranking log: one JSON line per list, in its file before the answer leaves.

Each worker appends to its own files, whole lines in one write, so lines of two workers never mix. A worker that is
killed in the middle of a line leaves a tail without an end, for an answer that was never sent; the writer holds a lock
on its file for as long as it lives, and whoever starts next cuts the tails of files that nobody holds.

A line counts as written once the file that holds it is still found under its name: a folder that was removed or moved
away takes no lines that anybody would find. `isrr.data.served_log` reads what is written here.
"""

import errno
import logging
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np

from isrr.data.queries import FloatArray
from isrr.files import hold
from isrr.serve.current import Snapshot
from isrr.serve.ranking import Made, Wanted

log = logging.getLogger("isrr.serve")
STEP = 64 << 10  # bytes read at a time, from the end of a file, in search of the end of a line
ATTEMPTS = 3  # names tried for a new file
NEVER = 1e-9  # the chance of the first k places below which a candidate is said not to reach them


class Served(msgspec.Struct, frozen=True, gc=False):
    """A list on its way out, with its line in the log; None where no log is kept."""

    made: Made
    snapshot: Snapshot
    line: bytes | None


class LogLine(msgspec.Struct, gc=False, omit_defaults=True):
    """What the log keeps of a served list; docs/serving.md describes the fields."""

    list_id: str
    time: float
    certificate: str
    status: str
    order: str
    query_id: str
    session: str | None
    first_rank: int
    n_shown: int
    item_ids: list[str]
    scores: bytes
    ranking: list[int]
    propensities: list[float]
    deterministic: list[int]
    groups: list[list[str]] | None = None
    arm: str | None = None
    other_arm: list[int] | None = None
    n_items: int | None = None
    hottest: float | None = None


def log_line(snapshot: Snapshot, ask: Wanted, made: Made, hottest: float | None = None) -> LogLine:
    """A list as the log keeps it: all candidates, or those that a ranker up to the `hottest` temperature can show."""
    line = LogLine(
        made.list_id,
        time.time(),
        made.note.id,
        made.note.status,
        made.note.order,
        str(ask.query),
        None if ask.session is None else str(ask.session),
        ask.start + 1,
        ask.stop - ask.start,
        ask.names,
        made.scores.astype("<f8", copy=False).tobytes(),
        made.ranking,
        made.propensity,
        made.deterministic[: snapshot.outcome.k],
        None if ask.groups is None else [groups or [] for groups in ask.groups],
        made.arm,
        made.other_arm,
    )
    if hottest is not None and not snapshot.outcome.ranker.boost:  # a boost may lift any item
        _prune(line, made.scores, snapshot, hottest)
    return line


def _prune(line: LogLine, scores: FloatArray, snapshot: Snapshot, hottest: float) -> None:
    """Leave out candidates that reach the first k places with a chance of at most 1e-9, all of them together.

    With k − 1 items placed, at least the mass Σ_{j ≥ k} w₍ⱼ₎ is left, so the lowest items reach the first k places with
    a chance of at most k · Σ_{left out} w / Σ_{j ≥ k} w₍ⱼ₎. The bound falls with the temperature, and a threshold
    admits no item before all better ones: it holds for every colder ranker.
    """
    ranker, k = snapshot.outcome.ranker, snapshot.outcome.k
    mapped = ranker.mapped(scores)
    line.n_items, line.hottest = scores.size, hottest
    if scores.size <= k or not np.isfinite(mapped).all():
        return
    order = np.argsort(-mapped, kind="stable")
    weights = np.exp((mapped[order[k - 1 :]] - mapped[order[k - 1]]) / (ranker.deviation * hottest))
    share = k * np.cumsum(weights[::-1])[::-1] / weights.sum()  # of each item of the tail and all below it
    n_kept = k - 1 + max(int(np.searchsorted(-share, -NEVER)), 1)
    keep = np.unique([*order[:n_kept].tolist(), *line.ranking, *line.deterministic, *(line.other_arm or [])])
    place = dict(zip(keep.tolist(), range(keep.size), strict=True))
    line.item_ids = [line.item_ids[i] for i in place]
    line.scores = scores[keep].astype("<f8", copy=False).tobytes()
    line.ranking, line.deterministic = ([place[i] for i in order] for order in (line.ranking, line.deterministic))
    if line.other_arm is not None:
        line.other_arm = [place[i] for i in line.other_arm]
    if line.groups is not None:
        line.groups = [line.groups[i] for i in place]


class ServedLog:
    """Appends lines to files in a folder; a new file is begun when one reaches its size, or is gone.

    The folder is never made here: one that is missing is somebody's doing, and nothing is served until it is back.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._path, self._file, self._identity = "", -1, (0, 0)
        self._failed = 0  # bytes that could not be written at the last attempt
        mend(folder)

    def write(self, *lines: bytes) -> None:
        """Append lines (their ends are added), all of them or nothing; raises OSError where that cannot be done."""
        data = b"\n".join((*lines, b""))
        try:
            if self._append(data) > self._max_bytes:
                self.close()
            self._failed = 0
        except OSError:
            self._failed = len(data)
            raise

    def problem(self) -> str | None:
        """Why lines cannot be written now, or None; after a failure, found out by writing as much once more."""
        try:
            size = self._append(b"\n" * self._failed)
            if self._failed:
                os.ftruncate(self._file, max(size - self._failed, 0))
        except OSError as error:
            return str(error)
        self._failed = 0
        return None

    def close(self) -> None:
        """Close the file; what was written stays."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _append(self, data: bytes) -> int:
        """Write at the end of a file that is in its place; the size of the file.

        What did not fit, or went to a file that is no longer in its place, is taken back. The file's own size says from
        where, not what was written so far: others may cut it.
        """
        if self._file < 0:
            self._begin()
        done = os.write(self._file, data)
        if done == len(data):
            try:
                found = os.stat(self._path)
                if (found.st_dev, found.st_ino) == self._identity:
                    return found.st_size
            except OSError:
                pass
        os.ftruncate(self._file, max(os.fstat(self._file).st_size - done, 0))
        if done < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        self.close()
        return self._append(data)

    def _begin(self) -> None:
        """A new file, held. One that another worker's `mend` looks at just now is given up for another."""
        for _ in range(ATTEMPTS):
            stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
            path = self._folder / f"served-{stamp}-{os.getpid()}.jsonl"
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o640)
            if hold(file):
                found = os.fstat(file)
                self._path, self._file, self._identity = str(path), file, (found.st_dev, found.st_ino)
                return
            os.close(file)
            path.unlink()
        raise OSError(errno.ENOLCK, "files of the served-ranking log cannot be locked here", str(path))


def prepare(folder: Path) -> None:
    """Make the folder of a log, and see that files can be written to it; raises OSError where they cannot."""
    folder.mkdir(parents=True, exist_ok=True)
    log = ServedLog(folder, 0)
    log._begin()
    log.close()
    os.unlink(log._path)


def mend(folder: Path) -> int:
    """Cut unfinished last lines off files that no living worker holds; how many were cut.

    A file that cannot be opened or cut is skipped with a line in the log: readers skip unfinished lines.
    """
    cut = 0
    for path in sorted(folder.glob("served-*.jsonl")):
        try:
            with path.open("r+b") as file:
                cut += hold(file.fileno()) and _cut(file)
        except OSError as error:
            log.warning("a file of the served-ranking log is left as it is", extra={"error": str(error)})
    return cut


def _cut(file: BinaryIO) -> bool:
    """Cut what follows the last end of a line; whether there was anything."""
    size = end = file.seek(0, os.SEEK_END)
    whole = 0
    while end and not whole:
        start = max(end - STEP, 0)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        whole, end = start + found + 1 if found >= 0 else 0, start
    if whole < size:
        file.truncate(whole)
    return whole < size
