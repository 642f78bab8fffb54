"""How much fairness a promise buys on real pools, beside the paper's procedure, beside an oracle, and with a floor.

    python -m benchmarks.power [--splits 200]
    python -m benchmarks.power --floors --splits 24

Pools and protocol are those of `isrr reproduce coverage`; the paper's procedure makes the same absolute promise as
isrr's here, U* from validation queries. Fairness gain is measured on the test part, an abstention counts as 0, and the
number of abstentions stands behind it. The oracle is that of the relative promise on the path that validation queries
fix; the joint oracle also chooses the family.

With `--floors`: the gain of relative promises by the number of queries tested on, without a floor and with floors of
30 % to 80 %, the one that `calibrate` takes for that number in bold; the mean over scorers, and over the paths without
and with validation queries. Queries are drawn from the pool with replacement, and the gain is that on the whole pool.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from isrr.calibration.path import SHARES_TURNED_AWAY, SearchPath, _curves, front_path, temperature_path
from isrr.calibration.request import LARGEST_SHARE_OF_PROMISE, Floor, Request
from isrr.gains import discount
from isrr.promises import Promise
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.scale import fit_log_gain, scale_of
from isrr_paper.experiments.pools import Pool, Pools, data_sets
from isrr_paper.experiments.protocol import EvaluatedPath, K, Procedure, Protocol, always
from isrr_paper.experiments.repetition import SEED, bootstrap_violations, run_splits
from isrr_paper.paper_tables import markdown

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
POOLS = Pools(ROOT / "out" / "reproduction" / "pools")
SETS = ("mq2007", "nfcorpus")
SCORERS = ("lightgbm", "lightgbm-lambdarank", "catboost", "catboost-yetirank")

FLOORED_SETS, FLOORED_SCORERS = (*SETS, "jester5k"), ("lightgbm", "lightgbm-lambdarank")
FLOORS, SHARES = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8), (0.9, 0.95, 0.97)
SIZES = (40, 60, 100, 200, 300, 1_000, 3_000)


def row(protocol: Protocol, n_splits: int) -> dict[str, str]:
    """Every procedure on one pool."""
    absolute, *_, relative = protocol.defaults
    same_promise = replace(protocol.paper(), name="paper", promise=absolute.promise)
    found, broken = {"pool": f"{protocol.pool.data}, {protocol.pool.title}"}, []
    for procedure in (same_promise, *protocol.defaults):
        runs = run_splits(protocol.pool, procedure, n_splits)
        found[procedure.name] = f"{100 * runs.gain_overall:.1f} ({runs.abstained.sum()})"
        broken.append(bootstrap_violations(protocol.pool, procedure, n_splits))
    return found | {
        "oracle": f"{100 * protocol.oracle(relative):.1f}",
        "joint oracle": f"{100 * joint_oracle(protocol, relative):.1f}",
        "most violations, bootstrap": f"{100 * max(broken):.1f}",
    }


def joint_oracle(protocol: Protocol, procedure: Procedure) -> float:
    """The best gain that keeps the promise in any family, risk known."""
    validation, best = protocol.pool.validation, 0.0
    maps = {None, fit_log_gain(validation, procedure.promise.metric.gain)}
    bases = [GPLRanker(k=K, **scale_of(validation, score_map)) for score_map in maps]
    temperatures = np.geomspace(0.02, 5.0, 120)
    for curve in (c for base in bases for c in _curves(base, SHARES_TURNED_AWAY, temperatures, validation)):
        evaluated = EvaluatedPath.of(protocol.pool, SearchPath((GPLRanker.deterministic(K), *curve), "family", ""))
        best = max(best, protocol.oracle(replace(procedure, evaluated=always(evaluated))))
    return best


def floor_rows(pools: Sequence[Pool], share: float, n_splits: int) -> list[dict[str, str]]:
    """Fairness gains of one relative promise, the mean over the pools of a data set and both paths, by floor."""
    promise = Promise("ndcg", K, at_least=share, of="deterministic")
    floors = {floor: min(floor, LARGEST_SHARE_OF_PROMISE * share) for floor in FLOORS}
    procedures = {floor: [p for pool in pools for p in _procedures(pool, promise, floors[floor])] for floor in FLOORS}
    rows = []
    for n in SIZES:
        line = {"pool": pools[0].data, "promise": f"{share:.0%}", "queries": f"{n:,}"}
        for floor in FLOORS:
            gain = np.mean([_mean_gain(pool, procedure, n, n_splits) for pool, procedure in procedures[floor]])
            marks = "**" if floors[floor] == Request((promise,)).floor_for(n) else ""
            line[f"{floor:.0%}" if floor else "no floor"] = f"{marks}{100 * gain:.1f}{marks}"
        rows.append(line)
    return rows


def _procedures(pool: Pool, promise: Promise, floor: float) -> list[tuple[Pool, Procedure]]:
    """Calibration with a floor, along the temperature path and the one that validation queries fix."""
    mixed: Floor = {"floor": floor, "floor_weights": (tuple(discount(K).tolist()),)} if floor else {}
    paths = (
        temperature_path(K, scale_of(pool.validation), [promise], "", mixed),
        front_path(pool.validation, K, [promise], "", mixed),
    )
    evaluated = [always(EvaluatedPath.of(pool, path)) for path in paths]
    return [(pool, Procedure("", promise, each, "betting", "fixed_sequence")) for each in evaluated]


def _mean_gain(pool: Pool, procedure: Procedure, n_tested: int, n_splits: int) -> float:
    rng, gains = np.random.default_rng(SEED), []
    for _ in range(n_splits):
        tested = rng.integers(len(pool.judged), size=n_tested)
        evaluated = procedure.evaluated(tested)
        column = procedure.choose(evaluated, tested, rng.integers(2**62, size=n_tested).astype(np.uint64))
        gains.append(0.0 if column is None else evaluated.gain(slice(None), column))
    return float(np.mean(gains))


def main(sets: Sequence[str], scorers: Sequence[str], n_splits: int, *, floors: bool) -> None:
    """Print one row a pool; with floors, one for each data set, promise and number of queries."""
    rows = []
    for data_set in data_sets([str(DATA / name) for name in sets]):
        pools = [POOLS.get(data_set, scorer) for scorer in scorers]
        if floors:
            rows += [line for share in SHARES for line in floor_rows(pools, share, n_splits)]
        else:
            rows += [row(Protocol(pool), n_splits) for pool in pools]
    print(markdown(rows), end="")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--pools", nargs="*")
    parser.add_argument("--scorers", nargs="*")
    parser.add_argument("--floors", action="store_true")
    arguments = parser.parse_args()
    sets, scorers = (FLOORED_SETS, FLOORED_SCORERS) if arguments.floors else (SETS, SCORERS)
    main(arguments.pools or sets, arguments.scorers or scorers, arguments.splits, floors=arguments.floors)
