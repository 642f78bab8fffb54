"""How much fairness a promise buys on real pools, beside the paper's procedure and beside an oracle.

    python -m benchmarks.power [--splits 200]

Pools and protocol are those of `isrr reproduce coverage`; the paper's procedure makes the same absolute promise as
isrr's here, U* from validation queries. Fairness gain is measured on the test part, an abstention counts as 0, and the
number of abstentions stands behind it. The oracle is that of the relative promise on the path that validation queries
fix; the joint oracle also chooses the family.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from isrr.calibration.path import SearchPath, _families
from isrr.experiments.datasets import data_sets
from isrr.experiments.pools import Pools
from isrr.experiments.procedure import EvaluatedPath, Procedure, always
from isrr.experiments.protocol import K, Protocol
from isrr.experiments.repetition import bootstrap_violations, run_splits
from isrr.ranker.gpl import GPLRanker
from isrr.report.tables import markdown

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
POOLS = Pools(ROOT / "out" / "reproduction" / "pools")
SETS = ("mq2007", "nfcorpus")
SCORERS = ("lightgbm", "lightgbm-lambdarank", "catboost", "catboost-yetirank")


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
    for family in _families(validation, K, procedure.promise.metric.gain):
        curve = family.curve(np.geomspace(0.02, 5.0, 120), validation)
        evaluated = EvaluatedPath.of(protocol.pool, SearchPath((GPLRanker.deterministic(K), *curve), "family", ""))
        best = max(best, protocol.oracle(replace(procedure, evaluated=always(evaluated))))
    return best


def main(sets: Sequence[str], scorers: Sequence[str], n_splits: int) -> None:
    """Print one row a pool."""
    found = data_sets([str(DATA / name) for name in sets])
    rows = [row(Protocol(POOLS.get(data_set, scorer)), n_splits) for data_set in found for scorer in scorers]
    print(markdown(rows), end="")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--pools", nargs="*", default=SETS)
    parser.add_argument("--scorers", nargs="*", default=SCORERS)
    arguments = parser.parse_args()
    main(arguments.pools, arguments.scorers, arguments.splits)
