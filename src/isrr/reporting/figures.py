"""Pictures by matplotlib, written whole or not at all."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from isrr.errors import MissingExtraError
from isrr.files import replacing
from isrr.outcome.certificate import Abstention, Certificate
from isrr.outcome.pictures import BLUE, ORANGE
from isrr.reporting.exposure_ledger import Account


def axes(width: float = 6.4, height: float = 4.0, n_rows: int = 1, n_columns: int = 1) -> tuple[Any, list[Any]]:
    """Return an empty figure in the house style, and its subplots."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "report") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    subplots = figure.subplots(n_rows, n_columns, squeeze=False, sharex=n_rows > 1).ravel().tolist()
    for subplot in subplots:
        subplot.spines[["top", "right"]].set_visible(False)
        if n_rows == 1:
            subplot.grid(alpha=0.25)
    return figure, subplots


def tradeoff(outcome: Certificate | Abstention, file: Path) -> None:
    """Draw utility against disparity removed along the path, with the promise where it is about that utility."""
    figure, (subplot,) = axes()
    outcome.plot(subplot)
    promise = outcome.promises[0]
    if promise.safe_end == "cold" and promise.measure.title == outcome.utility_name:
        before = max(outcome.tradeoff.utility)
        level = promise.target * (before if promise.of else 1.0)
        subplot.axvline(level, color=ORANGE, lw=1.2, label=str(promise))
        beyond = level - 2.5 * (before - level)  # what lies far beyond the promise is of no interest
        shown = [100 * g for u, g in zip(outcome.tradeoff.utility, outcome.tradeoff.gain, strict=True) if u >= beyond]
        subplot.set_xlim(before + 0.05 * (before - beyond), max(beyond, min(outcome.tradeoff.utility)))
        subplot.set_ylim(-1.5, 1.08 * max(shown))
        subplot.legend(frameon=False, fontsize=8, loc="lower right")
    save(figure, file)


def exposure_over_time(accounts: Mapping[str, Account], file: Path) -> None:
    """Draw the share of exposure at the wrong position up to each moment, one line for each account."""
    from matplotlib.dates import ConciseDateFormatter

    figure, (subplot,) = axes()
    for (kind, account), colour in zip(accounts.items(), (BLUE, ORANGE), strict=False):
        when = [datetime.fromtimestamp(moment, UTC) for moment in account.moments.tolist()]
        subplot.plot(np.array(when), 100 * account.disparity, color=colour, lw=1.5, label=f"{kind}s")
    subplot.set_ylim(0, 1.1 * subplot.get_ylim()[1])
    subplot.set_ylabel("exposure at the wrong position, %")
    subplot.set_xlabel("when lists were served, UTC")
    dates = ConciseDateFormatter(subplot.xaxis.get_major_locator())  # type: ignore[no-untyped-call]
    subplot.xaxis.set_major_formatter(dates)
    subplot.legend(frameon=False, fontsize=8)
    save(figure, file)


def save(figure: Any, file: Path) -> None:
    """Write a picture, all of it or nothing, in the format its suffix names; the same bytes for the same figure."""
    from matplotlib import rc_context

    kind = file.suffix.removeprefix(".") or "png"
    settings = {"metadata": {"Date": None}} if kind == "svg" else {"dpi": 160}
    with rc_context({"svg.hashsalt": "isrr"}), replacing(file) as partial:
        figure.savefig(partial, format=kind, **settings)
