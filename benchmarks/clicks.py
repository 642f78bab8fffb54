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
from isrr import GPLRanker, Queries, read_queries
from isrr.clicks.click_certificate import calibrate_clicks, click_path, click_sample
from isrr.clicks.promised import checked_promise
from isrr.metrics.disparity import disparity
from isrr.ranker.scale import mean_and_deviation, scale_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from click_oracles import expected_clicks, shares_by_enumeration
from simulated_users import Users, estimated, simulate

SIZES = (3_000, 10_000, 30_000, 100_000, 1_000_000)
LOGGER = GPLRanker(temperature=0.4, anchor=0.8)


def rows() -> list[dict[str, Any]]:
    """Seconds and memory beside the limits that were set for them."""
    table = []
    for n_lists, limit in ((1_500, 180.0), (100_000, 1_800.0)):
        code = f"from benchmarks.clicks import large; large({n_lists})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        what = f"certify 1,000,000 impressions × 24 candidates × 60 configurations, {n_lists:,} distinct lists, a limit"
        for name, value, most, unit in zip(
            (what, "the same, memory"), map(float, done.stdout.split()), (limit, 3.0), ("s", "GiB"), strict=True
        ):
            table.append({"what": name, "ours": value, "baseline": most, "ratio": most / value, "unit": unit})
    return table


def large(n_lists: int, n: int = 1_000_000) -> None:
    """Print the seconds of one certificate, and the memory of the process in GiB."""
    rng = np.random.default_rng(20230)
    relevance = rng.choice(3, n_lists * 24, p=[0.6, 0.3, 0.1])
    scores = 0.8 * relevance + rng.normal(size=relevance.size)
    queries = Queries.from_arrays(scores=scores, relevance=relevance, group=[24] * n_lists)
    shown = simulate(queries, LOGGER, n, seed=1).impressions()
    start = time.perf_counter()
    calibrate_clicks(shown, checked_promise("clicks@5 >= 95% of deterministic"))
    print(time.perf_counter() - start, peak_memory())


def bias(pool: str, n_items: int = 8, n_queries: int = 150) -> None:
    """Print what clicks say of rankers, and what is true, where clicks depend on the other items shown.

    Some items of each query, evenly from best to worst score, and every list weighed by its chance: no noise.
    """
    queries = read_queries(pool)
    queries = queries[np.flatnonzero(queries.n_items >= n_items)[:n_queries]]
    ranks = np.linspace(0, queries.n_items - 1, n_items, axis=1).astype(np.int64) + queries.offsets[:-1, None]
    rows = (np.repeat(queries.offsets[:-1], queries.n_items) + queries.by_score)[ranks.ravel()]
    scores, relevance = queries.need_scores()[rows], queries.need_relevance()[rows]
    few = Queries.from_arrays(scores=scores, relevance=relevance, group=[n_items] * len(queries))
    mean, deviation = mean_and_deviation(few)
    logger = replace(LOGGER, mean=mean, deviation=deviation)
    rankers = [replace(logger, temperature=float(t), anchor=0.0) for t in np.geomspace(0.05, 5.0, 25)]
    print(f"{pool}: {few}\n| users | true share | estimated | off by, points |\n|---|---|---|---|")
    cascades = [Users(model="cascade", patience=0.8, satisfaction=share) for share in (0.0, 0.3, 0.6, 1.0)]
    halos = [Users(halo=halo) for halo in (0.25, 0.5, 1.0)]
    for users in (*cascades, Users(model="cascade", patience=1.0, satisfaction=1.0), *halos):
        name = f"halo {users.halo:.0%}"
        if users.model == "cascade":
            name = f"cascade, patience {users.patience}, {users.satisfaction:.0%} satisfied"
        said, true = shares_by_enumeration(few, logger, rankers, users)
        for share in (0.95, 0.9):
            at = int(np.argmin(np.abs(true - share)))
            print(f"| {name} | {true[at]:.1%} | {said[at]:.1%} | {100 * (said[at] - true[at]):+.2f} |", flush=True)
        print(f"| {name} | any | | {100 * np.abs(said - true).max():.2f} at most |", flush=True)


def power(pool: str, repetitions: int = 10, sizes: tuple[int, ...] = SIZES) -> None:
    """Print the fairness gain of the ranker that is certified, in %, by number of impressions."""
    queries, users = read_queries(pool), Users()
    logger = replace(LOGGER, **scale_of(queries))
    path = click_path(simulate(queries, logger, 10, users).impressions(), 5)
    unfair = np.array([disparity(ranker.exposure(queries), queries).mean() for ranker in path.rankers])
    gain = 100 * (1 - unfair / unfair[0])
    kept = np.array([expected_clicks(queries, ranker, users) for ranker in path.rankers])
    print(f"{pool}: {queries}\n| s | impressions | gain | oracle |\n|---|---|---|---|")
    for n in sizes:
        logs = [simulate(queries, logger, n, users, seed=s).impressions() for s in range(max(repetitions, 2))]
        measured = [estimated(log, path.rankers) for log in logs]
        for share in (0.95, 0.9):
            promise = checked_promise(f"clicks@5 >= {100 * share:g}% of deterministic")
            gains = []
            for estimates in measured:
                sample = click_sample(estimates, promise, path)
                passing = np.append(sample.exempt | sample.holds(0.05), False)
                gains.append(gain[: int(np.argmin(passing))].max())
            error = np.std(gains) / np.sqrt(len(gains))
            oracle = gain[kept >= share * kept[0]].max()
            print(f"| {share} | {n:,} | {np.mean(gains):.1f} ± {error:.1f} | {oracle:.1f} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "bias":
        bias(sys.argv[2])
    else:
        numbers = [int(word) for word in sys.argv[2:]]
        power(sys.argv[1], *numbers[:1], *([tuple(numbers[1:])] if numbers[1:] else []))
