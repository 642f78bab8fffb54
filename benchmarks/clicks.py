"""Certificates from clicks: how long a million impressions take, and what they certify.

python -m benchmarks.clicks POOL.parquet [REPETITIONS [IMPRESSIONS …]]   the power table: fairness gain by impressions
python -m benchmarks.clicks bias POOL.parquet                            how far cascades and halos mislead, exactly

Simulated clicks: Zipf traffic, examination 1/j, 10 % noise clicks; the logger is that of `isrr start --explore`
without its floor.
"""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.calibration import peak_memory
from isrr import GPLRanker, read_queries
from isrr.calibration.start import exploring
from isrr.clicks.estimate import estimated
from isrr.clicks.evidence import certified as certify
from isrr.clicks.evidence import checked_promise, click_path, click_sample
from isrr.clicks.simulate import Users, simulate
from isrr.data.queries import Queries
from isrr.metrics.disparity import disparity
from isrr.ranker.scale import mean_and_deviation, scale_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
SIZES = (3_000, 10_000, 30_000, 100_000, 1_000_000)
ANCHOR, TEMPERATURE = 0.8, 0.4


def rows() -> list[dict[str, Any]]:
    """Seconds and memory beside the limits that were set for them."""
    found = []
    for n_lists, limit in ((1_500, 180.0), (100_000, 1_800.0)):
        code = f"from benchmarks.clicks import large; large({n_lists})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        seconds, memory = map(float, done.stdout.split())
        what = f"certify 1,000,000 impressions × 24 candidates × 60 configurations, {n_lists:,} distinct lists, a limit"
        found.append({"what": what, "ours": seconds, "baseline": limit, "ratio": limit / seconds, "unit": "s"})
        found.append({"what": "the same, memory", "ours": memory, "baseline": 3.0, "ratio": 3 / memory, "unit": "GiB"})
    return found


def large(n_lists: int, n: int = 1_000_000) -> None:
    """Print the seconds of one certificate, and the memory of the process in GiB."""
    rng = np.random.default_rng(20230)
    relevance = rng.choice(3, n_lists * 24, p=[0.6, 0.3, 0.1])
    scores = 0.8 * relevance + rng.normal(size=relevance.size)
    queries = Queries.from_arrays(scores=scores, relevance=relevance, group=[24] * n_lists)
    shown = simulate(queries, GPLRanker(temperature=TEMPERATURE, anchor=ANCHOR), n, seed=1).impressions()
    start = time.perf_counter()
    certify(shown, checked_promise("clicks@5 >= 95% of deterministic"))
    print(time.perf_counter() - start, peak_memory())


def bias(pool: str, n_items: int = 8, n_queries: int = 150) -> None:
    """Print what clicks say of rankers, and what is true, where clicks depend on the other items shown.

    Some items of each query, evenly from best to worst score, and every list weighed by its chance: no noise.
    """
    from click_oracles import shares_by_enumeration

    queries = read_queries(pool)
    queries = queries[np.flatnonzero(queries.n_items >= n_items)[:n_queries]]
    ranks = np.linspace(0, queries.n_items - 1, n_items, axis=1).astype(np.int64) + queries.offsets[:-1, None]
    rows = (np.repeat(queries.offsets[:-1], queries.n_items) + queries.by_score)[ranks.ravel()]
    scores, relevance = queries.need_scores()[rows], queries.need_relevance()[rows]
    few = Queries.from_arrays(scores=scores, relevance=relevance, group=[n_items] * len(queries))
    mean, deviation = mean_and_deviation(few)
    logger = GPLRanker(temperature=TEMPERATURE, mean=mean, deviation=deviation, anchor=ANCHOR)
    temperatures = np.geomspace(0.05, 5.0, 25)
    rankers = [replace(logger, temperature=float(t), anchor=0.0) for t in temperatures]
    print(f"{pool}: {few}\n| users | true share | estimated | off by, points |\n|---|---|---|---|")
    cascades = ((0.8, 0.0), (0.8, 0.3), (0.8, 0.6), (0.8, 1.0), (1.0, 1.0))
    kinds = {
        f"cascade, patience {p}, {s:.0%} satisfied": Users(model="cascade", patience=p, satisfaction=s)
        for p, s in cascades
    }
    for name, users in (kinds | {f"halo {halo:.0%}": Users(halo=halo) for halo in (0.25, 0.5, 1.0)}).items():
        said, true = shares_by_enumeration(few, logger, rankers, users)
        for share in (0.95, 0.9):
            at = int(np.argmin(np.abs(true - share)))
            off = f"{100 * (said[at] - true[at]):+.2f}"
            print(f"| {name} | {true[at]:.1%} | {said[at]:.1%} | {off} |", flush=True)
        print(f"| {name} | any | | {100 * np.abs(said - true).max():.2f} at most |", flush=True)


def power(pool: str, repetitions: int = 10, sizes: tuple[int, ...] = SIZES) -> None:
    """Print the fairness gain of the ranker that is certified, in %, by number of impressions."""
    from click_oracles import expected_clicks

    queries, users = read_queries(pool), Users()
    queries = queries[np.arange(len(queries))]
    logger = exploring(GPLRanker(**scale_of(queries)), queries)
    path = click_path(simulate(queries, logger, 10, users).impressions(), 5)
    before = disparity(path.rankers[0].exposure(queries), queries).mean()
    gain = [100 * (1 - disparity(ranker.exposure(queries), queries).mean() / before) for ranker in path.rankers]
    kept = np.array([expected_clicks(queries, ranker, users) for ranker in path.rankers])
    print(f"{pool}: {queries}\n| s | {' | '.join(f'{n:,}' for n in sizes)} | oracle |\n|{'---|' * (len(sizes) + 2)}")
    found: dict[float, list[str]] = {0.95: [], 0.9: []}
    for n in sizes:
        chosen: dict[float, list[float]] = {share: [] for share in found}
        for seed in range(max(repetitions * 10_000 // max(n, 10_000), 2)):
            shown = simulate(queries, logger, n, users, seed=seed).impressions()
            measured = estimated(shown, path.rankers)
            for share in found:
                promise = checked_promise(f"clicks@5 >= {100 * share:g}% of deterministic")
                sample = click_sample(measured, promise, path, ANCHOR, 1)
                passing = sample.exempt | sample.holds(sample.targets, 0.05)
                last = int(np.argmin(passing)) if not passing.all() else passing.size
                chosen[share].append(max(gain[:last]))
        for share, gains in chosen.items():
            found[share].append(f"{np.mean(gains):.1f} ± {np.std(gains) / np.sqrt(len(gains)):.1f}")
    for share, cells in found.items():
        oracle = max(g for g, k in zip(gain, kept, strict=True) if k >= share * kept[0])
        print(f"| {share} | {' | '.join(cells)} | {oracle:.1f} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "bias":
        bias(sys.argv[2])
    else:
        numbers = [int(word) for word in sys.argv[2:]]
        power(sys.argv[1], *numbers[:1], *([tuple(numbers[1:])] if numbers[1:] else []))
