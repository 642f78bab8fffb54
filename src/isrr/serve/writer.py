"""Writing the served-ranking log: one JSON line per list, in its file before the answer leaves.

Each worker appends to files of its own, a request's lines in one write, so that lines of two workers never mix. A write
that fails is taken back. A worker that is killed leaves at most an unfinished last line, of an answer that was never
sent; readers skip it.

A line counts as written once its file is still found under its name: a folder that was removed or moved away takes no
lines that anybody would find. `isrr.data.served_log` reads what is written here.
"""

import errno
import gzip
import logging
import os
import shutil
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

import msgspec
import numpy as np

from isrr.data.queries import FloatArray
from isrr.files import replacing
from isrr.serve.current import Snapshot
from isrr.serve.ranking import RankCall, RankedList

log = logging.getLogger("isrr.serve")
NEVER = 1e-9  # the chance of the first k places below which a candidate is said not to reach them
LEVEL = 1  # of compression: a worker writes and compresses in the same process


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
    production: list[int] | None = None
    arm: str | None = None
    other_arm: list[int] | None = None
    n_items: int | None = None
    hottest: float | None = None


def log_line(snapshot: Snapshot, call: RankCall, ranked: RankedList, hottest: float | None = None) -> LogLine:
    """Return a list as logged: all candidates, or those that a ranker up to the `hottest` temperature can show."""
    note, shown = ranked.note, call.stop - call.start
    session = None if call.session is None else str(call.session)
    groups = None if call.groups is None else [names or [] for names in call.groups]
    production = None if call.production is None else call.production[: len(ranked.ranking)]
    line = LogLine(
        ranked.list_id, time.time(), note.id, note.status, note.order, str(call.query), session, call.start + 1, shown,
        call.names, _packed(ranked.scores), ranked.ranking, ranked.propensity,
        ranked.deterministic[: snapshot.outcome.k], groups, production, ranked.arm, ranked.other_arm,
    )  # fmt: skip
    if hottest is not None and not snapshot.outcome.ranker.boost:  # a boost may lift any item
        _prune(line, ranked.scores, snapshot, hottest)
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
    shown = [line.ranking, line.deterministic, line.other_arm or [], line.production or []]
    keep = np.unique([*order[:n_kept].tolist(), *(i for places in shown for i in places)])
    place = dict(zip(keep.tolist(), range(keep.size), strict=True))
    line.item_ids = [line.item_ids[i] for i in place]
    line.scores = _packed(scores[keep])
    line.groups = None if line.groups is None else [line.groups[i] for i in place]
    for name in ("ranking", "deterministic", "other_arm", "production"):
        if (places := getattr(line, name)) is not None:
            setattr(line, name, [place[i] for i in places])


def _packed(scores: FloatArray) -> bytes:
    return scores.astype("<f8", copy=False).tobytes()


class LogWriter:
    """Appends lines to files in a folder; a new file is begun when one reaches its size, or is gone.

    The folder is never made here: one that is missing is somebody's doing, and nothing is served until it is back.
    """

    def __init__(self, folder: Path, max_bytes: int, *, compress: bool = False) -> None:
        self._folder, self._max_bytes, self._compress = folder, max_bytes, compress
        self._path, self._file = "", -1
        self._failed = 0  # bytes that could not be written at the last attempt

    def write(self, *lines: bytes) -> None:
        """Append lines (their ends are added), all of them or nothing; raises OSError where that cannot be done."""
        data = b"\n".join((*lines, b""))
        try:
            size = self._append(data)
        except OSError:
            self._failed = len(data)
            raise
        self._failed = 0
        if size > self._max_bytes:
            self.close()

    def problem(self) -> str | None:
        """Return why lines cannot be written now, or None; after a failure, by writing as much once more."""
        try:
            self._append(b"\n" * self._failed)
            self._take_back(self._failed)
        except OSError as error:
            return str(error)
        self._failed = 0
        return None

    def close(self) -> None:
        """Close the file, which keeps what was written, and compress it on the side."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            if self._compress:
                Thread(target=compress, args=(Path(self._path),), name="compress-log").start()

    def _append(self, data: bytes) -> int:
        """Write at the end of a file that is in its place, or take back what was written; the size of the file."""
        if self._file < 0:
            self._begin()
        written = os.write(self._file, data)
        if written == len(data):
            with suppress(OSError):
                named = os.stat(self._path)
                if (named.st_dev, named.st_ino) == self._identity:
                    return named.st_size
        self._take_back(written)
        if written < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        self._leave()
        return self._append(data)

    def _take_back(self, n_bytes: int) -> None:
        """Cut bytes off the end of the file, wherever others may have moved it; one that cannot be cut is left."""
        try:
            if n_bytes:
                os.ftruncate(self._file, max(os.fstat(self._file).st_size - n_bytes, 0))
        except OSError:
            self._leave()
            raise

    def _leave(self) -> None:
        os.close(self._file)
        self._file = -1

    def _begin(self) -> None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
        path = f"{self._folder}/served-{stamp}-{os.getpid()}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o640)
        self._path, opened = path, os.fstat(self._file)
        self._identity = opened.st_dev, opened.st_ino


def compress(path: Path) -> None:
    """Replace a log file by `….jsonl.gz`; one that cannot be compressed stays as it is."""
    try:
        with replacing(f"{path}.gz") as partial, path.open("rb") as whole, gzip.open(partial, "wb", LEVEL) as file:
            shutil.copyfileobj(whole, file, 1 << 20)
        path.unlink()
    except OSError as error:
        log.warning("a file of the served-ranking log cannot be compressed", extra={"error": str(error)})


def prepare(folder: Path) -> None:
    """Make the folder of a log, and see that files can be written to it; raises OSError where they cannot."""
    folder.mkdir(parents=True, exist_ok=True)
    writer = LogWriter(folder, 0)
    writer.write()
    writer.close()
    os.unlink(writer._path)
