"""How much fairness a promise buys on real pools, beside the paper's procedure, beside an oracle, and with a floor.

    python -m benchmarks.power [--splits 200]
    python -m benchmarks.power --floors [--splits 100]

Pools and protocol are those of `isrr reproduce coverage`; the paper's procedure makes the same absolute promise as
isrr's here, U* from validation queries. Fairness gain is measured on the test part, an abstention counts as 0, and the
number of abstentions stands behind it. The oracle is that of the relative promise on the path that validation queries
fix; the joint oracle also chooses the family.

With `--floors`: the gain of relative promises by the number of judged queries tested on, without a floor, with floors
of 30 % to 70 %, and with the floor that `calibrate` takes for that number; measured on the pool's other queries, or on
all of them where all are tested on.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from isrr.calibration.path import SHARES_TURNED_AWAY, SearchPath, _bases, _curves, front_path, temperature_path
from isrr.calibration.request import NO_FLOOR, Floor, Request
from isrr.experiments.pools import Pool, Pools, data_sets
from isrr.experiments.protocol import EvaluatedPath, K, Procedure, Protocol, always
from isrr.experiments.repetition import SEED, bootstrap_violations, run_splits
from isrr.gains import discount
from isrr.promises.promise import Promise
from isrr.ranker.gpl import GPLRanker
from isrr.report.tables import markdown
from isrr.scores.standardize import scale_of

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
POOLS = Pools(ROOT / "out" / "reproduction" / "pools")
SETS = ("mq2007", "nfcorpus")
SCORERS = ("lightgbm", "lightgbm-lambdarank", "catboost", "catboost-yetirank")

FLOORS, SHARES, SIZES = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7), (0.9, 0.95), (60, 100, 200, 300)


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
    bases = _bases(validation, K, [procedure.promise], [(NO_FLOOR, {})])
    temperatures = np.geomspace(0.02, 5.0, 120)
    for curve in (c for base in bases for c in _curves(base, SHARES_TURNED_AWAY, temperatures, validation)):
        evaluated = EvaluatedPath.of(protocol.pool, SearchPath((GPLRanker.deterministic(K), *curve), "family", ""))
        best = max(best, protocol.oracle(replace(procedure, evaluated=always(evaluated))))
    return best


def floor_rows(pool: Pool, share: float, n_splits: int) -> list[dict[str, str]]:
    """Fairness gains of one relative promise with and without floors, along both paths."""
    promise = Promise("ndcg", K, at_least=share, of="deterministic")
    rows = []
    for name in ("temperature", "validation path"):
        procedures = {}
        for floor in FLOORS:
            mixed: Floor = {"floor": floor, "floor_weights": (tuple(discount(K).tolist()),)} if floor else {}
            path = (
                temperature_path(K, scale_of(pool.validation), [promise], "", mixed)
                if name == "temperature"
                else front_path(pool.validation, K, [promise], "", mixed)
            )
            evaluated = always(EvaluatedPath.of(pool, path))
            procedures[floor] = Procedure(name, promise, evaluated, "betting", "fixed_sequence")
        for n_tested in (*SIZES, len(pool.judged)):
            usual = Request((promise,)).floor_for(n_tested)
            gains = {floor: _mean_gain(pool, found, n_tested, n_splits) for floor, found in procedures.items()}
            rows.append(
                {"pool": f"{pool.data}, {pool.title}", "promise": f"{share:.0%}", "path": name, "n": f"{n_tested:,}"}
                | {f"floor {floor:.0%}": f"{100 * gain:.1f}" for floor, gain in gains.items()}
                | {"calibrate": f"{100 * gains[usual]:.1f}"}
            )
    return rows


def _mean_gain(pool: Pool, procedure: Procedure, n_tested: int, n_splits: int) -> float:
    rng, gains, n_judged = np.random.default_rng(SEED), [], len(pool.judged)
    for _ in range(n_splits if n_tested < n_judged else 1):
        order = rng.permutation(n_judged)
        tested, others = order[:n_tested], order[n_tested:] if n_tested < n_judged else order
        evaluated = procedure.evaluated(tested)
        column = procedure.choose(evaluated, tested, pool.judged.keys[tested])
        gains.append(0.0 if column is None else evaluated.gain(others, column))
    return float(np.mean(gains))


def main(sets: Sequence[str], scorers: Sequence[str], n_splits: int, *, floors: bool) -> None:
    """Print one row a pool; with floors, one for each promise, path and number of queries."""
    found = data_sets([str(DATA / name) for name in sets])
    pools = [POOLS.get(data_set, scorer) for data_set in found for scorer in scorers]
    if floors:
        rows = [line for pool in pools for share in SHARES for line in floor_rows(pool, share, n_splits)]
    else:
        rows = [row(Protocol(pool), n_splits) for pool in pools]
    print(markdown(rows), end="")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--pools", nargs="*", default=SETS)
    parser.add_argument("--scorers", nargs="*", default=SCORERS)
    parser.add_argument("--floors", action="store_true")
    arguments = parser.parse_args()
    main(arguments.pools, arguments.scorers, arguments.splits, floors=arguments.floors)
