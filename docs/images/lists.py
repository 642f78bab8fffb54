"""Draw the README's picture: the lists of eight visitors of one search, before and after.

isrr demo && python docs/images/lists.py isrr-demo 972 docs/images/lists.svg
"""

import sys
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

import isrr

N_VISITORS, K, N_OFFERS = 8, 5, 9
CELL, GAP, TOP = 34, 4, 92
BLUE, ORANGE, GREY, INK = "#2f6f9f", "#d9730d", "#5d6874", "#1d2733"


def visitors_lists(folder: Path, query_id: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of one search, best first, and the offers that each visitor sees, shape (visitor, position)."""
    queries, ranker = isrr.read_queries(folder / "judged.parquet"), isrr.load(folder / "ranker.json").ranker
    query = queries[int(np.flatnonzero(queries.query_ids.astype(str) == query_id)[0])]
    scores = np.sort(query.scores)[::-1]
    sessions = [f"visitor {number}" for number in range(1, N_VISITORS + 1)]
    return scores, np.array([ranker.rank(scores, query_id=query_id, session=session, k=K) for session in sessions])


def text(x: float, y: float, words: str, size: int = 14, **style: str) -> str:
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}"{attributes}>{escape(words)}</text>'


def tile(x: float, y: float, offer: int) -> str:
    """Return one offer as a square with its letter; offers that the order by score never shows are orange."""
    fill = BLUE if offer < K else ORANGE
    square = f'<rect x="{x:g}" y="{y:g}" width="{CELL}" height="{CELL}" rx="5" fill="{fill}"/>'
    letter = text(
        x + CELL / 2, y + CELL / 2 + 6, chr(65 + offer), 17, fill="#fff", text_anchor="middle", font_weight="600"
    )
    return square + letter


def panel(x: float, title: str, subtitle: str, lists: np.ndarray) -> list[str]:
    parts = [text(x, 32, title, 18, font_weight="600"), text(x, 54, subtitle, 14, fill=GREY)]
    for visitor, shown in enumerate(lists):
        column = x + visitor * (CELL + GAP)
        parts.append(text(column + CELL / 2, TOP - 10, str(visitor + 1), 13, fill=GREY, text_anchor="middle"))
        parts += [tile(column, TOP + position * (CELL + GAP), offer) for position, offer in enumerate(shown)]
    return parts


def picture(scores: np.ndarray, lists: np.ndarray) -> str:
    """Return the picture as SVG."""
    width, left, right = 960, 296, 640
    parts = [
        text(24, 32, "The model's scores", 18, font_weight="600"),
        text(24, 54, "F and G almost tie with E", 14, fill=GREY),
    ]
    for offer, score in enumerate(scores[:N_OFFERS]):
        y = TOP + offer * 26
        fill = BLUE if offer < K else ORANGE
        parts.append(text(24, y + 16, chr(65 + offer), 15, font_weight="600"))
        parts.append(
            f'<rect x="46" y="{y + 3:g}" width="{190 * score / scores[0]:.1f}" height="16" rx="3" fill="{fill}"/>'
        )
    by_score = np.tile(np.arange(K), (N_VISITORS, 1))
    parts += panel(left, "Sorted by score", "all eight visitors see the same five", by_score)
    parts += panel(right, "With isrr", "near-equals take turns", lists)
    below = TOP + K * (CELL + GAP) + 24
    parts.append(text(left, below, "F, G, H, I: never seen", 14, fill=ORANGE, font_weight="600"))
    parts.append(text(right, below, "the clear winner A stays first;", 14, fill=BLUE, font_weight="600"))
    parts.append(text(right, below + 20, "F, G, H, I get their turn", 14, fill=ORANGE, font_weight="600"))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 344" font-family="system-ui, sans-serif" '
        f'fill="{INK}" role="img" aria-label="The lists of eight visitors before and after">'
    )
    return "\n".join([head, f'<rect width="{width}" height="344" rx="10" fill="#fff"/>', *parts, "</svg>\n"])


if __name__ == "__main__":
    folder, query_id, out = sys.argv[1:]
    Path(out).write_text(picture(*visitors_lists(Path(folder), query_id)))
