"""Figures. They draw what is handed to them and compute nothing."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from isrr.errors import MissingExtraError
from isrr.files import replacing
from isrr.outcome.certificate import Abstention, Certificate
from isrr.outcome.tradeoff import BLUE, GREEN, GREY, ORANGE


def axes(width: float = 6.4, height: float = 4.0, n_rows: int = 1, n_columns: int = 1) -> tuple[Any, list[Any]]:
    """An empty figure in the house style, and its subplots."""
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


def tradeoff(outcome: Certificate | Abstention, file: Path, reference: dict[str, Any]) -> None:
    """Utility against fairness gain along the path, the promise and the ranker in use: the axes of the page.

    The reference is a second curve to compare with: "label", "utility" and "gain"; and the "deterministic" utility.
    """
    figure, (subplot,) = axes()
    utility = np.array([point.utility.value for point in outcome.curve])
    shown = 100 * np.array([point.fairness_gain.value for point in outcome.curve])
    certified = np.array([point.certified for point in outcome.curve])
    subplot.plot(
        100 * np.asarray(reference["gain"]), reference["utility"], color=GREY, lw=1.2, ls="--", label=reference["label"]
    )
    subplot.plot(shown, utility, color=BLUE, lw=1.5, label="settings tried, as measured")
    subplot.plot(shown[certified], utility[certified], color=GREEN, lw=4, alpha=0.6, label="proven to keep the promise")
    promise = outcome.promises[0]
    best, worst = float(np.max(utility)), float(np.min(utility))
    if promise.safe_end == "cold":
        level = promise.target * (reference["deterministic"] if promise.of else 1.0)
        subplot.axhline(level, color=ORANGE, lw=1.2, label=str(promise))
        worst = max(worst, level - 2.5 * (best - level))  # what lies far beyond the promise is of no interest
        subplot.set_xlim(-1.5, 1.08 * float(np.max(shown[utility >= worst])))
    subplot.set_ylim(worst, best + 0.05 * (best - worst))
    if isinstance(outcome, Certificate):
        point = (100 * outcome.fairness_gain.value, outcome.utility.value)
        subplot.plot(*point, "*", color=ORANGE, ms=14, zorder=5)
        label = f"in use: {point[0]:.0f} % less disparity"
        subplot.annotate(label, point, xytext=(8, 8), textcoords="offset points", color=ORANGE)
    subplot.set_ylabel(f"expected {outcome.utility_name}")
    subplot.set_xlabel("disparity removed, % (order by score on the left)")
    subplot.legend(frameon=False, fontsize=8, loc="lower left")
    save(figure, file)


def exposure_over_time(moments: ArrayLike, items: ArrayLike, groups: ArrayLike | None, file: Path) -> None:
    """Share of exposure in the wrong place up to each moment (seconds since 1970), among items and among groups."""
    from matplotlib.dates import ConciseDateFormatter

    figure, (subplot,) = axes()
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


def save(figure: Any, file: Path) -> None:
    """Write a picture, all of it or nothing, in the format its suffix names; the same bytes for the same figure."""
    from matplotlib import rc_context

    kind = file.suffix.removeprefix(".") or "png"
    settings = {"metadata": {"Date": None}} if kind == "svg" else {"dpi": 160}
    with rc_context({"svg.hashsalt": "isrr"}), replacing(file) as partial:
        figure.savefig(partial, format=kind, **settings)
