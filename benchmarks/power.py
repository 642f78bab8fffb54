"""How much fairness a promise buys on real pools, beside the paper's procedure and beside an oracle.

    python -m benchmarks.power [--splits 200]

Protocol: out-of-fold scores; 20 % of the queries are validation queries, fixed; the others are split 25 / 75 into
calibration and test, again and again. δ = 0.05, k = 5. Fairness gain is measured on the test part, an abstention
counts as 0. The oracle knows the risk of every configuration of the same path on the whole pool; the joint oracle also
chooses the family.
"""

import argparse

import numpy as np

from benchmarks.pools import SCORERS, pool
from isrr import GPLRanker, Queries
from isrr.calibration.certify import certify
from isrr.calibration.paths import Path, _families, front_path, temperature_path, threshold_path
from isrr.calibration.table import Cell, Moments, RiskTable
from isrr.gains import ideal_dcg, ndcg
from isrr.guarantee import Guarantee
from isrr.metrics.evaluate import Evaluation, evaluate
from isrr.risk.select import split_mask
from isrr.scores.standardize import mean_and_deviation

DELTA, KEEP, K = 0.05, 0.9, 5


class Bench:
    """One pool, split once into validation queries and the rest, evaluated once per path."""

    def __init__(self, name: str, scorer: str) -> None:
        queries = pool(name, scorer)
        queries = queries[ideal_dcg(queries, k=K) > 0]
        aside = split_mask(queries.keys, 0.2)
        self.validation, self.rest = queries[aside], queries[~aside]
        self.target = KEEP * float(ndcg(self.validation, k=K).mean())
        self.relative = Guarantee("ndcg", K, KEEP, relative=True)
        self.absolute = Guarantee("ndcg", K, self.target)

    def paths(self, guarantee: Guarantee) -> dict[str, Path]:
        mean, deviation = mean_and_deviation(self.validation)
        return {
            "temperature": temperature_path(K, deviation, mean, [guarantee], ""),
            "front": front_path(self.validation, K, [guarantee], ""),
        }

    def paper_path(self) -> Path:
        return threshold_path(self.rest, K, [self.absolute], paper=True, basis="", fixed_by=self.validation)


def splits(queries: Queries, n_splits: int, seed: int = 20230):
    rng = np.random.default_rng(seed)
    for _ in range(n_splits):
        order = rng.permutation(len(queries))
        yield order[: len(queries) // 4], order[len(queries) // 4 :]


def run(bench: Bench, path: Path, guarantee: Guarantee, n_splits: int, evidence="betting", selection="fixed_sequence"):
    """Mean fairness gain on test parts (abstention 0), abstentions, violations of the promise on the whole pool."""
    grid = tuple(dict.fromkeys([GPLRanker.deterministic(K), *path.rankers]))
    measured = evaluate(bench.rest, grid)
    losses = guarantee.losses(measured.ndcg, measured.ndcg[:, 0])
    risk = losses.mean(axis=0)
    gains, abstained, wrong = [], 0, 0
    for calibration, test in splits(bench.rest, n_splits):
        cell = Cell(guarantee, None, bench.rest.keys[calibration], losses[calibration])
        moments = Moments.of(measured.ndcg[calibration], measured.disparity[calibration])
        table = RiskTable(grid, moments, (cell,), 0, "exact", 0)
        chosen = certify(table, path, delta=DELTA, evidence=evidence, selection=selection).chosen
        abstained += chosen is None
        wrong += chosen is not None and risk[chosen] > guarantee.alpha
        gains.append(0.0 if chosen is None else gain_of(measured, test, chosen))
    return float(np.mean(gains)), abstained, wrong / n_splits, oracle(measured, risk, guarantee)


def gain_of(measured: Evaluation, rows, column: int) -> float:
    return 1.0 - measured.disparity[rows, column].mean() / measured.disparity[rows, 0].mean()


def oracle(measured: Evaluation, risk, guarantee: Guarantee) -> float:
    kept = np.flatnonzero(risk <= guarantee.alpha)
    return max(gain_of(measured, slice(None), c) for c in kept) if kept.size else 0.0


def joint_oracles(bench: Bench):
    """The best gain at the relative promise within each family, risk known."""
    for family in _families(bench.validation, K, bench.relative):
        curve = family.curve(np.geomspace(0.02, 5.0, 120), bench.validation)
        measured = evaluate(bench.rest, [GPLRanker.deterministic(K), *curve])
        losses = bench.relative.losses(measured.ndcg, measured.ndcg[:, 0])
        yield oracle(measured, losses.mean(axis=0), bench.relative)


def rows(n_splits: int = 200, names=("mq2007", "nfcorpus"), scorers=SCORERS) -> list[dict]:
    """One row per pool and scorer."""
    found = []
    for name in names:
        for scorer in scorers:
            bench = Bench(name, scorer)
            row: dict = {"pool": f"{name}, {scorer}"}
            paper = run(bench, bench.paper_path(), bench.absolute, n_splits, "hoeffding_bentkus", "pointwise")
            row["paper"] = paper
            for kind, guarantee in (("absolute", bench.absolute), ("relative", bench.relative)):
                for label, path in bench.paths(guarantee).items():
                    row[f"{kind} {label}"] = run(bench, path, guarantee, n_splits)
            row["joint oracle"] = max(joint_oracles(bench))
            found.append(row)
            print(markdown(row), flush=True)
    return found


def markdown(row: dict) -> str:
    cells = []
    for label, value in row.items():
        if isinstance(value, tuple):
            gain, abstained, wrong, best = value
            cells.append(
                f"{label}: {100 * gain:.1f} % of {100 * best:.1f} (abstained {abstained}, violations {wrong:.3f})"
            )
        else:
            cells.append(f"{label}: {value if isinstance(value, str) else f'{100 * value:.1f} %'}")
    return " | ".join(cells)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--pools", nargs="*", default=["mq2007", "nfcorpus"])
    parser.add_argument("--scorers", nargs="*", default=list(SCORERS))
    arguments = parser.parse_args()
    rows(arguments.splits, arguments.pools, arguments.scorers)
