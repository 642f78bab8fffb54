"""The figure of the exposure ledger."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from isrr.report.figures import BLUE, ORANGE, axes, save


def exposure_over_time(moments: ArrayLike, items: ArrayLike, groups: ArrayLike | None, file: Path) -> None:
    """Disparity of cumulated exposure over time, among items and among groups.

    Args:
        moments: When, seconds since 1970.
        items: Share of exposure in the wrong place up to each moment, among items.
        groups: The same among groups, or None.
        file: Where to write the picture; the suffix says how.
    """
    from matplotlib.dates import ConciseDateFormatter

    figure, subplot = axes()
    when = [datetime.fromtimestamp(moment, UTC) for moment in np.asarray(moments, float).tolist()]
    subplot.plot(np.array(when), 100 * np.asarray(items), color=BLUE, lw=1.5, label="items")
    if groups is not None:
        subplot.plot(np.array(when), 100 * np.asarray(groups), color=ORANGE, lw=1.5, label="groups")
    subplot.set_ylim(0, 1.1 * subplot.get_ylim()[1])
    subplot.set_ylabel("exposure in the wrong place, %")
    subplot.set_xlabel("when lists were served, UTC")
    dates = ConciseDateFormatter(subplot.xaxis.get_major_locator())  # type: ignore[no-untyped-call]
    subplot.xaxis.set_major_formatter(dates)
    subplot.legend(frameon=False, fontsize=8)
    save(figure, file)
