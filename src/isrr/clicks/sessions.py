"""The sessions of a rollout: which arm each is in, and what its clicks are worth, from the served-ranking log."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from isrr.clicks.click_table import Clicks
from isrr.clicks.rollout import Rollout, step_and_arm
from isrr.clicks.served import Served, codes, counted_clicks, first_of, hashes
from isrr.data.log import log_parts
from isrr.data.queries import FloatArray


@dataclass(frozen=True, eq=False)
class Sessions:
    """Sessions of a rollout, in the order in which they started.

    Attributes:
        treated: Whether each is in the treatment, (n,).
        same: Whether its treatment equals the order by score, over all that is shown, (n,).
        clicks: Its clicks, or what they are worth, (n,).
        n_excluded: Sessions left out because an earlier step has counted them.
        names: Hashes of their ids, (n,); empty where they are not known.
        starts: When each began, (n,), in seconds since 1970.
        open_starts: When those began whose time for clicks is not over, likewise.
        left_out: How many lists and clicks of the log do not count, by reason.
    """

    treated: NDArray[np.bool_]
    same: NDArray[np.bool_]
    clicks: FloatArray
    n_excluded: int = 0
    names: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    starts: FloatArray = field(default_factory=lambda: np.empty(0))
    open_starts: FloatArray = field(default_factory=lambda: np.empty(0))
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.treated.size)

    def __getitem__(self, which: slice | NDArray[Any]) -> "Sessions":
        arrays: tuple[NDArray[Any], ...] = (self.treated, self.same, self.clicks, self.names, self.starts)
        treated, same, clicks, names, starts = (array[which] if array.size else array for array in arrays)
        return replace(self, treated=treated, same=same, clicks=clicks, names=names, starts=starts)

    @property
    def n_open(self) -> int:
        """Sessions whose time for clicks is not over."""
        return int(self.open_starts.size)

    @property
    def digest(self) -> str:
        """Names the sessions."""
        return blake2b(self.names.tobytes(), digest_size=16).hexdigest()


def sessions_of(
    log: str | PathLike[str], clicks: Clicks, rollout: Rollout, k: int, *, now: float, every_step: bool = False
) -> Sessions:
    """Return the sessions whose time for clicks is over, of the present step or of every step.

    A session belongs to the step of its first list. With w the time within which clicks count, its lists within w of
    the first one count, and its time is over w after the last of them can have been served, so that what is known of a
    session is the same at every look. The first k positions count; `now` is in seconds since 1970.
    """
    within, first = rollout.rules
    served = Served.of(log_parts(log))
    rows = served.rows
    rows = rows.filter(pc.and_(pc.equal(rows["certificate"], rollout.certificate), rows["arm"].is_valid()))
    left_out = served.left_out + Counter({"lists outside this rollout": served.rows.num_rows - rows.num_rows})
    if not rows.num_rows:
        return Sessions(np.empty(0, bool), np.empty(0, bool), np.empty(0), left_out=left_out)
    rows = rows.append_column("unit", pc.coalesce(rows["session"], rows["list_id"]))
    rows = rows.sort_by([("unit", "ascending"), ("time", "ascending"), ("list_id", "ascending")])
    opens = np.flatnonzero(first_of(codes(rows["unit"])))
    unit = np.repeat(np.arange(opens.size), np.diff(np.append(opens, rows.num_rows)))
    time, arms = rows["time"].to_numpy(), [step_and_arm(name) for name in rows["arm"].to_pylist()]
    step, treated = (np.array(column) for column in zip(*arms, strict=True))
    start, close = time[opens], time[opens] + rollout.rules.wait
    counts = (
        (np.arange(unit.size) - opens[unit] < first) & (time <= (start + within)[unit]) & (step == step[opens][unit])
    )
    served = replace(served, rows=rows)
    counted, row, _, of_clicks = counted_clicks(clicks, served, np.arange(rows.num_rows), k, within, most_items=np.inf)
    worth = np.bincount(row, clicks.value[counted], rows.num_rows)
    y = np.bincount(unit, np.where(counts, worth, 0.0)).astype(np.float64)
    alike = np.bincount(unit, ~rows["alike"].to_numpy() & (time <= close[unit])) == 0
    present = np.ones(opens.size, bool) if every_step else step[opens] == rollout.step
    returned = np.bincount(unit, step == rollout.step) > 0
    closed = np.flatnonzero(present & (close <= now))
    closed = closed[np.argsort(start[closed], kind="stable")]
    return Sessions(
        treated[opens][closed], alike[closed], y[closed], int((returned & ~present).sum()),
        hashes(rows["unit"].take(pa.array(opens[closed]))), start[closed], start[present & (close > now)],
        left_out + of_clicks,
    )  # fmt: skip
