"""How long the watch takes to notice, as the Markdown table in docs/monitoring.md.

The promise is ndcg@5 ≥ 0.70 (α = 0.3), losses have a deviation of about 0.2, and until the change the ranker is two
points better than promised.

python -m benchmarks.monitor_delay [STREAMS]
"""

import sys

import numpy as np

from isrr.risk.eprocess import EProcess

ALPHA, DELTA, SLACK = 0.3, 0.05, 0.02
DROPS, CHANGES = (0.02, 0.05, 0.10), (0, 2_000, 10_000)
LONGEST = 8_000


def delays(drop: float, change: int, n_streams: int, seed: int) -> np.ndarray:
    """Judged queries from the change to the alarm; the longest watched for where there is none."""
    rng, process = np.random.default_rng(seed), EProcess.start(ALPHA, n_streams)
    found = np.full(n_streams, LONGEST)
    for t in range(change + LONGEST):
        risk = ALPHA - SLACK if t < change else ALPHA + drop
        process = process.after(rng.beta(4 * risk, 4 * (1 - risk), n_streams))
        new = (process.evidence >= 1 / DELTA) & (found == LONGEST) & (t >= change)
        found[new] = t - change + 1
        if t >= change and (found < LONGEST).all():
            break
    return found


def main(n_streams: int) -> None:
    print("| NDCG below the promise by | " + " | ".join(f"after {change:,} good queries" for change in CHANGES) + " |")
    print("|---|" + "---|" * len(CHANGES))
    for row, drop in enumerate(DROPS):
        cells = []
        for column, change in enumerate(CHANGES):
            found = delays(drop, change, n_streams, 20230 + 10 * row + column)
            cells.append(f"{np.median(found):,.0f} ({np.quantile(found, 0.9):,.0f})")
        print(f"| {100 * drop:.0f} points | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
