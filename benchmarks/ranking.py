"""Evaluation of a grid of rankers, against a straightforward vectorised numpy evaluation by sampling."""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace

import numpy as np
from numba import njit

from benchmarks.calibration import exponentials, judged
from isrr import GPLRanker, Queries, evaluate
from isrr.gains import discount, gain_of
from isrr.noise import stream, uniform
from isrr.parallel import use_threads
from isrr_paper.paths import uniform_grid

K, N_THRESHOLDS, N_DRAWS = 5, 21, 100


def mslr_shaped(n_queries: int = 3_145, seed: int = 20230) -> Queries:
    """Standardised scores and grades with the list lengths and proportions of MSLR's calibration part."""
    rng = np.random.default_rng(seed)
    sizes = np.maximum(rng.gamma(3.3, 36.3, n_queries).round().astype(int), 1)
    relevance = rng.choice(5, sizes.sum(), p=[0.515, 0.325, 0.134, 0.018, 0.008])
    scores = 0.5 * relevance + rng.normal(size=relevance.size)
    return Queries.from_arrays(scores=(scores - scores.mean()) / scores.std(), relevance=relevance, group=sizes)


def numpy_baseline(queries: Queries, thresholds: np.ndarray, n_draws: int = N_DRAWS, seed: int = 0):
    """NDCG and disparity of each query and threshold from Gumbel-sampled rankings; vectorised over draws."""
    rng = np.random.default_rng(seed)
    theta = discount(K)
    ndcg, disparity = np.empty((len(queries), thresholds.size)), np.empty((len(queries), thresholds.size))
    for q in range(len(queries)):
        rows = slice(queries.offsets[q], queries.offsets[q + 1])
        scores, gains = queries.scores[rows], gain_of(queries.relevance[rows])
        n, k = scores.size, min(K, scores.size)
        weights = np.exp(scores - scores.max())
        eligibility = weights / weights.sum()
        ideal = np.sort(gains)[::-1][:k] @ theta[:k]
        following = -1e6 - np.argsort(np.argsort(-scores, kind="stable"))  # unadmitted items come after, best first
        for c, threshold in enumerate(thresholds):
            admitted = eligibility >= threshold
            keys = np.where(admitted, scores + rng.gumbel(size=(n_draws, n)), following)
            if k < n:
                top = np.argpartition(-keys, k - 1, axis=1)[:, :k]
            else:
                top = np.broadcast_to(np.arange(n), (n_draws, n))
            order = np.take_along_axis(top, np.argsort(-np.take_along_axis(keys, top, 1), axis=1), 1)
            exposure = np.bincount(order.ravel(), np.tile(theta[:k], n_draws), minlength=n) / n_draws
            ndcg[q, c] = exposure @ gains / ideal if ideal > 0 else np.nan
            cross = exposure @ gains
            spread = (exposure @ exposure) * (gains @ gains) - cross * cross
            disparity[q, c] = 4 * spread / (n * (n - 1)) if n > 1 else 0.0
    return ndcg, disparity


@njit(cache=True)
def _drawn(keys, sizes, n_draws):
    total = 0.0
    for q in range(keys.size):
        for d in range(n_draws):
            name = stream(np.uint64(0), keys[q], d)
            for i in range(sizes[q]):
                total += np.log(uniform(name, i))
    return total


def timed(work, repeats: int = 5) -> float:
    work()
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def rows() -> list[dict]:
    """Ratios to the numpy baseline and to the floor, in one run."""
    queries = mslr_shaped()
    thresholds = uniform_grid(GPLRanker().eligibility(queries), N_THRESHOLDS)
    grid = [GPLRanker(k=K, threshold=float(t)) for t in thresholds]
    sample = queries[:150]
    start = time.perf_counter()
    numpy_baseline(sample, thresholds)
    baseline = (time.perf_counter() - start) * queries.n_rows / sample.n_rows
    # floors: an exponential per score, with scores and grades read and an order written; the uniforms and logarithms
    drawn = timed(lambda: _drawn(queries.keys, queries.n_items, N_DRAWS), 2)
    moved = timed(lambda: np.copyto(np.empty((3, queries.n_rows)), queries.scores), 15)

    def fresh() -> Queries:  # nothing cached from an earlier pass: sorting and hashing count
        return Queries.from_arrays(scores=queries.scores, relevance=queries.relevance, group=queries.n_items)

    results, exact, sampled = [], exponentials(queries.n_rows) + moved, [replace(one, decay=0.9) for one in grid]
    for rankers, what, least in ((grid, "exact (1e-7)", exact), (sampled, f"decay .9, {N_DRAWS} draws", drawn)):
        for n_threads in (1, 2):
            with use_threads(n_threads):
                ours = timed(lambda: evaluate(fresh(), rankers, n_draws=N_DRAWS), 5)  # noqa: B023
            row = {"what": f"evaluate 3,145 × ~120 × 21, {what}, {n_threads} thread(s)", "ours": ours}
            row |= {"baseline": baseline, "ratio": baseline / ours, "unit": "s", "floor": least / n_threads}
            results.append(row)
    results += _another_metric() + _plain_twins() + _linear(grid) + _served() + _started() + _memory()
    return results


def _another_metric() -> list[dict]:
    """Processor seconds with one metric more, beside those without; all measured in turns."""
    usual = ("ndcg", "disparity", "normalized_disparity")
    chosen = {"": usual, "dcg": (*usual, "dcg"), "precision": (*usual, "precision")}
    rankers = [GPLRanker(temperature=float(t)) for t in np.geomspace(0.02, 5, 99)]
    found = []
    for n_items in (24, 120):
        queries, least = judged(1_000, n_items), dict.fromkeys(chosen, np.inf)
        with use_threads(1):
            for _ in range(50):
                for name, metrics in chosen.items():
                    start = time.process_time()
                    evaluate(queries, rankers, metrics)
                    least[name] = min(least[name], time.process_time() - start)
        for name, weights in (("dcg", "the same"), ("precision", "other")):
            what = f"{name} as well, {weights} weights of places: 1,000 × {n_items} × 99; without it beside"
            row = {"what": what, "ours": least[name], "baseline": least[""], "ratio": least[name] / least[""]}
            found.append(row | {"unit": "s"})
    return found


def _plain_twins() -> list[dict]:
    """Processor seconds of the loops for one number at a time, beside those for eight."""
    code = """
import sys, time
if sys.argv[1] == "plain":
    import platform
    platform.machine = lambda: "a processor that nobody tried"
import numpy as np
from isrr import GPLRanker, evaluate
from isrr.parallel import use_threads
from isrr.risk.betting import pvalue
from benchmarks.calibration import judged
queries, losses = judged(300, 24), np.random.default_rng(0).uniform(size=(1_000, 100))
works = (
    lambda: evaluate(queries, [GPLRanker(temperature=float(t)) for t in np.geomspace(0.02, 5, 100)], ["ndcg"]),
    lambda: pvalue(losses, 0.52, 0.05),
)
with use_threads(1):
    for work in works:
        work()
        seconds = []
        for _ in range(9):
            start = time.process_time()
            work()
            seconds.append(time.process_time() - start)
        print(min(seconds))
"""
    seconds = {}
    for kind in ("eight", "plain"):
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {"NUMBA_CACHE_DIR": folder}
            done = subprocess.run(
                [sys.executable, "-c", code, kind], env=environment, capture_output=True, text=True, check=True
            )
        seconds[kind] = [float(line) for line in done.stdout.split()]
    whats = "evaluate 300 × 24 × 100, exact", "p-values of 1,000 × 100 losses by betting"
    return [
        {"what": f"{what}; the plain loops beside", "ours": ours, "baseline": plain, "ratio": plain / ours, "unit": "s"}
        for what, ours, plain in zip(whats, seconds["eight"], seconds["plain"], strict=True)
    ]


def _linear(grid) -> list[dict]:
    seconds = {}
    for factor in (1, 10, 100):
        queries = mslr_shaped(300 * factor)
        seconds[factor] = timed(lambda: evaluate(queries, grid), 1)  # noqa: B023
    return [
        {"what": f"time for {factor}× the queries, over {factor}× the time", "ours": seconds[factor],
         "baseline": factor * seconds[1], "ratio": seconds[factor] / (factor * seconds[1]), "unit": "s"}
        for factor in (10, 100)
    ]  # fmt: skip


def _served() -> list[dict]:
    """Lists that differ, as those of traffic do: branches that a single list teaches the processor cost their time."""
    lists = list(np.random.default_rng(0).normal(size=(1_000, 100)))

    def microseconds(rank) -> float:
        def serve() -> None:
            for i, scores in enumerate(lists):
                rank(scores, i)

        return 1e6 * timed(serve, 15) / len(lists)

    def ranked(ranker: GPLRanker) -> float:
        return microseconds(lambda scores, i: ranker.rank(scores, query_id="q", session=i))

    plain, argsort = ranked(GPLRanker(k=10)), microseconds(lambda scores, i: np.argsort(-scores)[:10])
    what = "rank one query of 100 items, k = 10, against numpy's argsort"
    found = [{"what": what, "ours": plain, "baseline": argsort, "ratio": argsort / plain, "unit": "µs"}]
    for name, ranker in (("a floor", GPLRanker(k=10, floor=0.5)), ("an anchor", GPLRanker(k=10, anchor=0.5))):
        ours = ranked(ranker)
        found.append(
            {"what": f"the same with {name} of .5, against none", "ours": ours, "baseline": plain,
             "ratio": plain / ours, "unit": "µs"}
        )  # fmt: skip
    return found


def _started() -> list[dict]:
    def process(code: str, **environment: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | environment)
        return time.perf_counter() - start

    bare = min(process("pass") for _ in range(3))
    query = "isrr.Queries.from_arrays(scores=[2., 1., 0.], query_ids=[1, 1, 1])"
    first = f"import isrr; isrr.GPLRanker().exposure({query})"
    process(first)
    with tempfile.TemporaryDirectory() as empty:
        cold = process(first, NUMBA_CACHE_DIR=empty)
    what = "first result ever, kernels compiled, whole process"
    results = [{"what": what, "ours": cold, "baseline": bare, "ratio": bare / cold, "unit": "s"}]
    for what, code in (("import isrr", "import isrr"), ("first result from the kernel cache", first)):
        ours = min(process(code) for _ in range(3))
        results.append(
            {"what": f"{what}, whole process", "ours": ours, "baseline": bare, "ratio": bare / ours, "unit": "s"}
        )
    return results


def _memory() -> list[dict]:
    code = (
        "import numpy as np, isrr; from benchmarks.calibration import peak_memory;"
        "r = np.random.default_rng(0); n = 1_000_000;"
        "s, y = r.normal(size=24 * n), r.integers(0, 5, 24 * n);"
        "q = isrr.Queries.from_arrays(scores=s, relevance=y, group=[24] * n);"
        "g = [isrr.GPLRanker(threshold=float(t)) for t in np.linspace(0, .6, 21)]; isrr.evaluate(q, g);"
        "print(peak_memory())"
    )
    peak = float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    what = "peak memory, 1,000,000 queries × 24 items × 21 thresholds, against a limit of 3 GB"
    return [{"what": what, "ours": peak, "baseline": 3.0, "ratio": 3.0 / peak, "unit": "GiB"}]
