"""Whether `isrr plan` keeps its word: plan on a pilot, calibrate at the planned size, count the certificates.

    python -m benchmarks.plan [--repeats 40]

Pools are those of `benchmarks.power`. Each repeat draws a pilot from a pool, plans, and calibrates once at the planned
size and once at that of a milestone, the one halfway to the most that can be certified, on queries drawn with
replacement from the pool. A pilot for which no number is enough is counted, and nothing is calibrated.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from benchmarks.power import DATA, POOLS
from isrr.calibration.calibrate import calibrate
from isrr.calibration.plan import plan
from isrr.data.queries import Queries
from isrr.metrics.evaluate import evaluate
from isrr.outcome.certificate import Certificate
from isrr.promises import Promise
from isrr.ranker.gpl import GPLRanker
from isrr_paper.experiments.pools import data_sets
from isrr_paper.paper_tables import markdown

SETS, SCORERS = ("mq2007", "nfcorpus", "jester5k"), ("lightgbm", "lightgbm-lambdarank")
SHARES = ("certified", "predicted gain", "certified gain", "reached")
PILOTS, LARGEST, SEED = (100, 400), 6_000, 20230


def promises(pool: Queries) -> list[Promise]:
    """One promise beside the order by score, and one in plain NDCG, 0.06 below what the order by score reaches."""
    relative = Promise("ndcg", 5, at_least=0.95, of="deterministic")
    reached = evaluate(pool, [GPLRanker.deterministic(5)], [relative.measure]).mean(relative.measure)[0]
    return [relative, Promise("ndcg", 5, at_least=round(float(reached) - 0.06, 2))]


def drawn(pool: Queries, n_queries: int, rng: np.random.Generator) -> Queries:
    """Queries drawn with replacement, each under an id of its own."""
    chosen = rng.integers(len(pool), size=n_queries)
    rows = np.concatenate([np.arange(pool.offsets[q], pool.offsets[q + 1]) for q in chosen])
    return Queries.from_arrays(
        scores=pool.need_scores()[rows],
        relevance=pool.need_relevance()[rows],
        query_ids=np.repeat([f"q{number}" for number in rng.integers(2**62, size=n_queries)], pool.n_items[chosen]),
    )


def row(title: str, pool: Queries, promise: Promise, n_pilot: int, repeats: int) -> dict[str, float | str]:
    """One combination of pool, promise and size of the pilot."""
    rng, n_none = np.random.default_rng(SEED), 0
    sizes, certified, predicted, reached, gains, steps = [], [], [], [], [], []
    for _ in range(repeats):
        found = plan(pool[np.sort(rng.permutation(len(pool))[:n_pilot])], promise)
        if found.queries_needed is None or found.queries_needed > LARGEST:
            n_none += 1
            continue
        sizes.append(found.queries_needed)
        certified.append(isinstance(calibrate(drawn(pool, found.queries_needed, rng), promise), Certificate))
        within = [m for m in found.milestones if m.queries_needed is not None and m.queries_needed <= LARGEST]
        if within:
            milestone = within[len(within) // 2]
            assert milestone.queries_needed is not None
            outcome = calibrate(drawn(pool, milestone.queries_needed, rng), promise)
            gains.append(outcome.fairness_gain.value if isinstance(outcome, Certificate) else 0.0)
            predicted.append(milestone.fairness_gain)
            reached.append(gains[-1] >= milestone.fairness_gain)
            steps.append(milestone.queries_needed)
    return {
        "pool": title, "promise": str(promise).removeprefix("ndcg@5 "), "pilot": n_pilot, "no plan": n_none,
        "planned queries": float(np.median(sizes)), "certified": float(np.mean(certified)),
        "queries for a milestone": float(np.median(steps)), "predicted gain": float(np.mean(predicted)),
        "certified gain": float(np.mean(gains)), "reached": float(np.mean(reached)),
    }  # fmt: skip


def main(sets: Sequence[str], scorers: Sequence[str], pilots: Sequence[int], repeats: int) -> None:
    """Print one row a combination, and their mean."""
    rows: list[dict[str, float | str]] = []
    for data_set in data_sets([str(DATA / name) for name in sets]):
        for scorer in scorers:
            pool = POOLS.get(data_set, scorer)
            for promise in promises(pool.judged):
                for n_pilot in pilots:
                    rows.append(row(f"{pool.data}, {pool.title}", pool.judged, promise, n_pilot, repeats))
    print(table(rows), end="")


def table(rows: list[dict[str, float | str]]) -> str:
    """The rows and the mean of their shares, in Markdown."""
    means = {name: float(np.mean([float(found[name]) for found in rows])) for name in SHARES}
    every = [*rows, dict.fromkeys(rows[0], "") | {"pool": "mean"} | means]
    return markdown([{name: _shown(name, value) for name, value in found.items()} for found in every])


def _shown(name: str, value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{100 * value:.1f} %" if name in SHARES else f"{value:,.0f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--pools", nargs="*", default=SETS)
    parser.add_argument("--scorers", nargs="*", default=SCORERS)
    parser.add_argument("--pilots", nargs="*", type=int, default=PILOTS)
    arguments = parser.parse_args()
    main(arguments.pools, arguments.scorers, arguments.pilots, arguments.repeats)
