"""How much fairness a promise buys on real pools, beside the paper's procedure and beside an oracle.

    python -m benchmarks.power [--splits 200]

The protocol is that of `isrr.experiments.protocol`. An abstention counts as no gain. The oracle knows the risk of every
configuration of the same path; the joint oracle also chooses the family.
"""

import argparse

import numpy as np

from benchmarks.pools import SCORERS, pool
from isrr.calibration.paths import Path, _families
from isrr.experiments.protocol import K, Measured, Procedure, Protocol, bootstrap_violations, run_splits
from isrr.guarantee import Guarantee


def joint_oracle(protocol: Protocol, guarantee: Guarantee) -> float:
    """The best gain at a promise over all families, risk known."""
    found = []
    for family in _families(protocol.pool.validation, K, guarantee):
        curve = family.curve(np.geomspace(0.02, 5.0, 120), protocol.pool.validation)
        measured = Measured.of(protocol.pool, Path(tuple(curve), "family", ""))
        known = Procedure("", guarantee, lambda _, m=measured: m, "betting", "fixed_sequence")
        found.append(protocol.oracle(known))
    return max(found)


def main(n_splits: int, names: list[str], scorers: list[str]) -> None:
    for name in names:
        for scorer in scorers:
            protocol = Protocol(pool(name, scorer))
            cells = [f"{name}, {scorer}"]
            for procedure in (protocol.paper(), *protocol.defaults):
                runs = run_splits(protocol.pool, procedure, n_splits)
                wrong = bootstrap_violations(protocol.pool, procedure, n_splits)
                cells.append(
                    f"{procedure.name}: {100 * runs.gain_overall:.1f} % of {100 * protocol.oracle(procedure):.1f} "
                    f"(abstained {runs.abstained.sum()}, violations {wrong:.3f})"
                )
            relative = protocol.defaults[-1].guarantee
            cells.append(f"joint oracle: {100 * joint_oracle(protocol, relative):.1f} %")
            print(" | ".join(cells), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--pools", nargs="*", default=["mq2007", "nfcorpus"])
    parser.add_argument("--scorers", nargs="*", default=list(SCORERS))
    arguments = parser.parse_args()
    main(arguments.splits, arguments.pools, arguments.scorers)
