"""The paper's figures. They draw what is handed to them and compute nothing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isrr.outcome.pictures import BLUE, GREY, ORANGE
from isrr.reporting.figures import axes, save


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


def _save_both(figure: Any, file: Path) -> None:
    """PNG and SVG."""
    for suffix in (".png", ".svg"):
        save(figure, file.with_suffix(suffix))
