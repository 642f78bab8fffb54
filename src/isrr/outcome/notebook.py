"""What a notebook shows of an outcome: a short page with a picture, a plot, a table."""

from collections.abc import Sequence
from html import escape
from typing import Any

from isrr.data.dataframes import frame_of
from isrr.errors import MissingExtraError
from isrr.outcome.findings import Point

BLUE, GREEN, ORANGE, GREY = "#0072B2", "#009E73", "#D55E00", "#666666"  # Okabe and Ito: safe for the colour-blind
WIDTH, HEIGHT, LEFT, BOTTOM = 380, 210, 48, 34  # of the small picture and its margins, in pixels


def curve_frame(curve: Sequence[Point]) -> Any:
    """One row per configuration of a path."""
    rankers = [point.ranker for point in curve]
    columns: dict[str, list[Any]] = {
        name: [getattr(ranker, name) for ranker in rankers] for name in ("temperature", "threshold", "decay", "floor")
    }
    columns["deterministic"] = [ranker.is_deterministic for ranker in rankers]
    for name in ("utility", "disparity", "fairness_gain"):
        for part, ending in (("value", ""), ("low", "_low"), ("high", "_high")):
            columns[f"{name}{ending}"] = [float(getattr(getattr(point, name), part)) for point in curve]
    columns["certified"] = [point.certified for point in curve]
    return frame_of(columns)


def card(text: str, curve: Sequence[Point], used: Point | None, utility_name: str, abstained: bool) -> str:
    """Verdict, promise and figures of an outcome beside its trade-off, as HTML.

    Args:
        text: The outcome as text: a title, then lines whose first twelve characters name what follows.
        curve: The configurations that were tried.
        used: The one in use, where one is.
        utility_name: What utility is measured by.
        abstained: Whether nothing was certified.
    """
    title, *lines = text.splitlines()
    colour = ORANGE if abstained else GREEN
    rows = "".join(
        f"<tr><td style='text-align:left;color:{GREY};vertical-align:top;white-space:nowrap'>{escape(line[:12])}</td>"
        f"<td style='text-align:left'>{escape(line[13:])}</td></tr>"
        for line in lines
    )
    picture = tradeoff_svg(curve, used, utility_name) if len(curve) > 1 else ""
    return (
        f"<div style='border-left:4px solid {colour};padding:4px 12px;font-family:sans-serif;max-width:60em'>"
        f"<b>{escape(title)}</b>{picture}<table style='font-size:90%;border-collapse:collapse'>{rows}</table></div>"
    )


def tradeoff_svg(curve: Sequence[Point], used: Point | None, utility_name: str) -> str:
    """Disparity removed against utility along a path, as a small picture."""
    utility = [point.utility.value for point in curve]
    gain = [100 * point.fairness_gain.value for point in curve]
    low, high, bottom, top = min(utility), max(utility), min(*gain, 0.0), max(*gain, 1.0)

    def at(x: float, y: float) -> str:
        across = (high - x) / ((high - low) or 1.0)
        up = (y - bottom) / (top - bottom)
        return f"{LEFT + across * (WIDTH - LEFT - 12):.1f},{(1 - up) * (HEIGHT - BOTTOM - 10) + 10:.1f}"

    def line(points: Sequence[Point], colour: str, width: float) -> str:
        path = " ".join(at(point.utility.value, 100 * point.fairness_gain.value) for point in points)
        return f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='{width}'/>"

    def label(x: float, y: float, text: str, anchor: str) -> str:
        return (
            f"<text x='{x:.1f}' y='{y:.1f}' font-size='11' fill='{GREY}' text-anchor='{anchor}'>{escape(text)}</text>"
        )

    base, end = HEIGHT - BOTTOM, WIDTH - 12
    shapes = [
        f"<path d='M{LEFT},10V{base}H{end}' fill='none' stroke='{GREY}'/>",
        line(curve, BLUE, 1.5),
        line([point for point in curve if point.certified], GREEN, 4),
        label(LEFT - 4, 16, f"{top:.0f} %", "end"),
        label(LEFT - 4, base, f"{bottom:.0f} %", "end"),
        label(LEFT, base + 14, f"{high:.3f}", "start"),
        label(end, base + 14, f"{low:.3f}", "end"),
        label(
            (LEFT + end) / 2, base + 28, f"disparity removed, by expected {utility_name}; green: certified", "middle"
        ),
    ]
    if used is not None:
        x, y = at(used.utility.value, 100 * used.fairness_gain.value).split(",")
        shapes.append(f"<circle cx='{x}' cy='{y}' r='5' fill='{ORANGE}'/>")
    size = f"width='{WIDTH}' height='{HEIGHT}' viewBox='0 0 {WIDTH} {HEIGHT}'"
    head = f"<svg xmlns='http://www.w3.org/2000/svg' {size} role='img' style='display:block'>"
    return f"{head}<title>Trade-off of disparity and utility</title>{''.join(shapes)}</svg>"


def plot(curve: Sequence[Point], used: Point | None, utility_name: str, ax: Any = None) -> Any:
    """Draw the trade-off with matplotlib, arguments as for `card`, on the axes given or on new ones; the axes."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtraError("matplotlib", "report") from None
    ax = pyplot.subplots(layout="constrained")[1] if ax is None else ax
    for points, style in (
        (curve, {"color": BLUE, "lw": 1.5, "label": "searched path"}),
        ([point for point in curve if point.certified], {"color": GREEN, "lw": 4, "alpha": 0.6, "label": "certified"}),
    ):
        ax.plot([p.utility.value for p in points], [100 * p.fairness_gain.value for p in points], **style)
    if used is not None:
        ax.plot(used.utility.value, 100 * used.fairness_gain.value, "o", color=ORANGE, label="in use")
    ax.invert_xaxis()
    ax.set_xlabel(f"expected {utility_name} (order by score on the left)")
    ax.set_ylabel("disparity removed, %")
    ax.legend(frameon=False)
    return ax
