"""The trade-off of an outcome: disparity removed against utility along its path, and its pictures."""

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

from isrr.errors import MissingExtraError
from isrr.outcome.findings import Point

BLUE, GREEN, ORANGE, GREY = "#0072B2", "#009E73", "#D55E00", "#666666"  # Okabe and Ito: safe for the colour-blind
WIDTH, HEIGHT, LEFT, BOTTOM = 380, 210, 48, 34  # of the small picture and its margins, in pixels


class Tradeoff(NamedTuple):
    """The data that every picture of the trade-off draws.

    Attributes:
        utility_name: What utility is measured by.
        utility, gain: Of each configuration of the path, the gain as a share of the disparity.
        certified: Whether each is certified.
        used: Which one is in use; None where it is not one of the path.
    """

    utility_name: str
    utility: tuple[float, ...]
    gain: tuple[float, ...]
    certified: tuple[bool, ...]
    used: int | None

    @classmethod
    def along(cls, curve: Sequence[Point], used: int | None, utility_name: str) -> "Tradeoff":
        """Return the trade-off of a path."""
        points = [(p.utility.value, p.fairness_gain.value, p.certified) for p in curve]
        utility, gain, certified = zip(*points, strict=True) if points else ((), (), ())
        return cls(utility_name, utility, gain, certified, used)

    @property
    def is_curve(self) -> bool:
        """Whether the path follows a curve; where it serves several promises, it may go back and forth."""
        rising = [later > earlier for earlier, later in pairwise(self.gain) if later != earlier]
        return sum(before != after for before, after in pairwise(rising)) <= len(rising) / 4

    def svg(self) -> str:
        """Draw it as a small picture for a notebook."""
        low, high, bottom, top = min(self.utility), max(self.utility), min(*self.gain, 0.0), max(*self.gain, 0.01)
        base, end = HEIGHT - BOTTOM, WIDTH - 12

        def at(i: int) -> tuple[float, float]:
            across, up = (high - self.utility[i]) / ((high - low) or 1.0), (self.gain[i] - bottom) / (top - bottom)
            return LEFT + across * (end - LEFT), 10 + (1 - up) * (base - 10)

        def line(which: Sequence[int], colour: str, width: float) -> str:
            points = [at(i) for i in which]
            if not self.is_curve:
                return "".join(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{width}' fill='{colour}'/>" for x, y in points)
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            return f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='{width}'/>"

        def label(x: float, y: float, words: str, anchor: str) -> str:
            return f"<text x='{x}' y='{y}' font-size='11' fill='{GREY}' text-anchor='{anchor}'>{escape(words)}</text>"

        what = f"disparity removed, by expected {self.utility_name}; green: certified"
        shapes = [
            f"<path d='M{LEFT},10V{base}H{end}' fill='none' stroke='{GREY}'/>",
            line(range(len(self.gain)), BLUE, 1.5),
            line([i for i, certified in enumerate(self.certified) if certified], GREEN, 4),
            label(LEFT - 4, 16, f"{100 * top:.0f} %", "end"),
            label(LEFT - 4, base, f"{100 * bottom:.0f} %", "end"),
            label(LEFT, base + 14, f"{high:.3f}", "start"),
            label(end, base + 14, f"{low:.3f}", "end"),
            label((LEFT + end) / 2, base + 28, what, "middle"),
        ]
        if self.used is not None:
            x, y = at(self.used)
            shapes.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='5' fill='{ORANGE}'/>")
        size = f"width='{WIDTH}' height='{HEIGHT}' viewBox='0 0 {WIDTH} {HEIGHT}'"
        head = f"<svg xmlns='http://www.w3.org/2000/svg' {size} role='img' style='display:block'>"
        return f"{head}<title>Trade-off of disparity and utility</title>{''.join(shapes)}</svg>"

    def plot(self, ax: Any = None) -> Any:
        """Draw it with matplotlib, on the axes given or on new ones; returns the axes."""
        try:
            from matplotlib import pyplot
        except ImportError:
            raise MissingExtraError("matplotlib", "report") from None
        ax = pyplot.subplots(layout="constrained")[1] if ax is None else ax
        points = [(utility, 100 * gain) for utility, gain in zip(self.utility, self.gain, strict=True)]
        certified = [point for point, certified in zip(points, self.certified, strict=True) if certified]
        for line, style in (
            (points, {"color": BLUE, "lw": 1.5, "ms": 3, "label": "searched path"}),
            (certified, {"color": GREEN, "lw": 4, "ms": 8, "alpha": 0.6, "label": "certified"}),
        ):
            ax.plot([x for x, _ in line], [y for _, y in line], "-" if self.is_curve else ".", **style)
        if self.used is not None:
            ax.plot(*points[self.used], "*", color=ORANGE, ms=14, zorder=5, label="in use")
        ax.invert_xaxis()
        ax.set_xlabel(f"expected {self.utility_name} (order by score on the left)")
        ax.set_ylabel("disparity removed, %")
        ax.legend(frameon=False)
        return ax


def card(title: str, rows: Sequence[tuple[str, str]], tradeoff: Tradeoff, abstained: bool) -> str:
    """Return the lines of an outcome beside its trade-off, as HTML for a notebook."""
    cells = "".join(
        f"<tr><td style='text-align:left;color:{GREY};vertical-align:top;white-space:nowrap'>{escape(label)}</td>"
        f"<td style='text-align:left'>{escape(sentence)}</td></tr>"
        for label, sentence in rows
    )
    picture = tradeoff.svg() if len(tradeoff.gain) > 1 else ""
    return (
        f"<div style='border-left:4px solid {ORANGE if abstained else GREEN};padding:4px 12px;font-family:sans-serif;"
        f"max-width:60em'><b>{escape(title)}</b>{picture}"
        f"<table style='font-size:90%;border-collapse:collapse'>{cells}</table></div>"
    )


def frame(curve: Sequence[Point]) -> Any:
    """Return one row per configuration of a path, as a frame of pandas or polars."""
    rankers = [point.ranker for point in curve]
    dials = ("temperature", "threshold", "decay", "floor")
    columns: dict[str, list[Any]] = {name: [getattr(ranker, name) for ranker in rankers] for name in dials}
    columns["deterministic"] = [ranker.is_deterministic for ranker in rankers]
    for name in ("utility", "disparity", "fairness_gain"):
        for part, ending in (("value", ""), ("low", "_low"), ("high", "_high")):
            columns[f"{name}{ending}"] = [float(getattr(getattr(point, name), part)) for point in curve]
    columns["certified"] = [point.certified for point in curve]
    from isrr.metrics.evaluate import frame_of

    return frame_of(columns)
