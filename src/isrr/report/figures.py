"""Figures. They draw what is handed to them and compute nothing."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from isrr.certificate import Abstention, Certificate
from isrr.errors import MissingExtraError
from isrr.files import replacing
from isrr.notebook import BLUE, GREEN, GREY, ORANGE


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


def threshold_curves(record: Mapping[str, Any], title: str, file: Path) -> None:
    """Risk (left axis) and disparity (right axis) against the threshold, both limits as lines, ± 1 deviation shaded.

    The record has "thresholds", and for "risk" and "disparity" the "mean", "deviation", "deterministic" and
    "plackett_luce" values.
    """
    figure, (left,) = axes(4.2, 3.0)
    right = left.twinx()
    right.spines["top"].set_visible(False)
    handles = []
    for subplot, name, colour, label, heights in (
        (left, "risk", BLUE, "risk, 1 − NDCG@5", (0.20, 0.95)),
        (right, "disparity", ORANGE, "disparity", (0.06, 0.80)),
    ):
        values = record[name]
        mean, deviation = np.array(values["mean"]), np.array(values["deviation"])
        subplot.fill_between(record["thresholds"], mean - deviation, mean + deviation, color=colour, alpha=0.2, lw=0)
        handles += subplot.plot(record["thresholds"], mean, color=colour, lw=1.5, marker="o", ms=2.5, label=name)
        for limit, style, short in (("deterministic", "--", "Det"), ("plackett_luce", ":", "Sto")):
            handles += [subplot.axhline(values[limit], color=colour, ls=style, lw=1.2, label=f"{name} of {short}")]
        _place(subplot, values["deterministic"], values["plackett_luce"], heights)
        subplot.set_ylabel(label, color=colour)
        subplot.tick_params(axis="y", colors=colour)
    left.set_xlabel("threshold")
    left.set_title(title, fontsize=10)
    figure.legend(handles=handles, frameon=False, fontsize=8, loc="outside lower center", ncols=2)
    _save_both(figure, file)


def _place(subplot: Any, one: float, other: float, heights: tuple[float, float]) -> None:
    """Stretch the vertical axis so that two values stand at given heights, and hide no line of another axis."""
    low, high = sorted((one, other))
    if low < high:
        unit = (high - low) / (heights[1] - heights[0])
        subplot.set_ylim(low - heights[0] * unit, high + (1.0 - heights[1]) * unit)


def utility_histograms(panels: Sequence[Mapping[str, Any]], title: str, file: Path) -> None:
    """How NDCG@5 on test parts is spread over the runs, one panel a procedure, with the promised level.

    A panel has its "name", "utilities" (None where it abstained), "level" promised and "deterministic" NDCG@5.
    """
    figure, subplots = axes(4.2, 0.6 + 1.0 * len(panels), n_rows=len(panels))
    seen = [u for panel in panels for u in panel["utilities"] if u is not None]
    ends = [panel[name] for panel in panels for name in ("level", "deterministic")]
    low, high = min(seen + ends), max(seen + ends)
    bins = np.linspace(low - 0.05 * (high - low), high + 0.05 * (high - low), 41)
    for subplot, panel in zip(subplots, panels, strict=True):
        shown = [u for u in panel["utilities"] if u is not None]
        counts, *_ = subplot.hist(shown, bins=bins, color=BLUE)
        subplot.set_ylim(0, 1.05 * max(1.0, counts.max()))
        subplot.axvline(panel["level"], color=ORANGE, lw=1.5, label="promised")
        subplot.axvline(panel["deterministic"], color=GREY, lw=1.5, ls="--", label="deterministic")
        subplot.set_title(f"{panel['name']}: {len(shown)} of {len(panel['utilities'])} certified", fontsize=8)
        subplot.set_ylabel("runs", fontsize=8)
        subplot.yaxis.get_major_locator().set_params(integer=True)
    subplots[-1].set_xlabel("NDCG@5 on the test part")
    figure.suptitle(title, fontsize=10)
    figure.legend(
        *subplots[0].get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside lower center", ncols=2
    )
    _save_both(figure, file)


def decay_curves(records: Sequence[Mapping[str, Any]], title: str, file: Path) -> None:
    """Risk and disparity against the first position's threshold, a line a decay.

    Records are as for `threshold_curves`, each with its "decay".
    """
    figure, subplots = axes(6.4, 3.0, n_columns=2)
    from matplotlib import colormaps  # `axes` says how to install it

    shades = [colormaps["viridis"](x) for x in np.linspace(0.0, 0.9, len(records))]
    for subplot, name, label in zip(subplots, ("risk", "disparity"), ("risk, 1 − NDCG@5", "disparity"), strict=True):
        for record, colour in zip(records, shades, strict=True):
            mean, deviation = np.array(record[name]["mean"]), np.array(record[name]["deviation"])
            subplot.fill_between(record["thresholds"], mean - deviation, mean + deviation, color=colour, alpha=0.1)
            subplot.plot(record["thresholds"], mean, color=colour, lw=1.3, label=f"ζ = {record['decay']:g}")
        subplot.axhline(records[0][name]["deterministic"], color=GREY, ls="--", lw=1, label="Det")
        subplot.axhline(records[0][name]["plackett_luce"], color=GREY, ls=":", lw=1, label="Sto")
        subplot.set_xlabel("threshold of the first position")
        subplot.set_ylabel(label)
    handles = subplot.get_legend_handles_labels()
    figure.suptitle(title, fontsize=10)
    figure.legend(*handles, frameon=False, fontsize=8, loc="outside lower center", ncols=4)
    _save_both(figure, file)


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


def _save_both(figure: Any, file: Path) -> None:
    """PNG and SVG."""
    for suffix in (".png", ".svg"):
        save(figure, file.with_suffix(suffix))


def save(figure: Any, file: Path) -> None:
    """Write a picture, all of it or nothing, in the format its suffix names; the same bytes for the same figure."""
    from matplotlib import rc_context

    kind = file.suffix.removeprefix(".") or "png"
    settings = {"metadata": {"Date": None}} if kind == "svg" else {"dpi": 160}
    with rc_context({"svg.hashsalt": "isrr"}), replacing(file) as partial:
        figure.savefig(partial, format=kind, **settings)
