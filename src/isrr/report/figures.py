"""Figures. They draw what is handed to them and compute nothing."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from isrr.certificate import Abstention, Certificate
from isrr.errors import MissingExtraError

BLUE, ORANGE, GREY, GREEN = "#0072B2", "#D55E00", "#666666", "#009E73"  # Okabe and Ito: safe for the colour-blind


def axes(width: float = 6.4, height: float = 4.0) -> tuple[Any, Any]:
    """An empty figure in the house style."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "report") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    subplot = figure.add_subplot()
    subplot.spines[["top", "right"]].set_visible(False)
    subplot.grid(alpha=0.25)
    return figure, subplot


def tradeoff(
    utility: ArrayLike, gain: ArrayLike, file: Path, *, outcome: Certificate | Abstention, reference: dict[str, Any]
) -> None:
    """Fairness gain against utility along the path, the promise and the ranker in use.

    Args:
        utility, gain: Mean NDCG and fairness gain of each configuration, in the order of the path.
        file: Where to write the picture; the suffix says how.
        outcome: What calibration said.
        reference: A second curve to compare with: "label", "utility" and "gain"; and the "deterministic" utility.
    """
    figure, subplot = axes()
    shown = 100 * np.asarray(gain)
    certified = np.array([point.certified for point in outcome.curve])
    subplot.plot(
        reference["utility"], 100 * np.asarray(reference["gain"]), color=GREY, lw=1.2, ls="--", label=reference["label"]
    )
    subplot.plot(utility, shown, color=BLUE, lw=1.5, label="searched path")
    subplot.plot(np.asarray(utility)[certified], shown[certified], color=GREEN, lw=4, alpha=0.6, label="certified")
    promise = outcome.guarantees[0]
    best, worst = float(np.max(utility)), float(np.min(utility))
    if promise.utility:
        level = promise.target * (reference["deterministic"] if promise.relative else 1.0)
        subplot.axvline(level, color=ORANGE, lw=1.2, label=str(promise))
        worst = max(worst, level - 2.5 * (best - level))  # what lies far beyond the promise is of no interest
        subplot.set_ylim(-3, 1.15 * float(np.max(shown[np.asarray(utility) >= worst])))
    subplot.set_xlim(best + 0.03 * (best - worst), worst)
    if isinstance(outcome, Certificate):
        point = (outcome.utility.value, 100 * outcome.fairness_gain.value)
        subplot.plot(*point, "o", color=ORANGE, ms=8, zorder=5)
        label = f"in use: {point[1]:.0f} % fairer"
        subplot.annotate(label, point, xytext=(-12, 4), textcoords="offset points", ha="right", color=ORANGE)
    subplot.set_xlabel(f"expected NDCG@{outcome.k} (deterministic on the left)")
    subplot.set_ylabel("disparity removed, %")
    subplot.legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(file, dpi=160)
