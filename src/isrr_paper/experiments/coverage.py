"""Coverage, utility and FairGain over random splits (RQ3, tables 2, 4 and 5, figures 2, 6 and 7)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from isrr.counting import percent
from isrr_paper.experiments.pools import Pool
from isrr_paper.experiments.protocol import PAPER_TESTS, Procedure, Protocol
from isrr_paper.experiments.repetition import Runs, bootstrap_violations, run_splits
from isrr_paper.experiments.result import Rows

READING = """\
Coverage is the share of certified runs whose promise holds on the test part, as in the paper. The promise is about the
expected risk, not about the mean over a finite test part: a test of exactly 5 % level shows violations on a 75 % test
part in 7.7 % of the splits, and 50 splits tell a rate to ± 3.8 points only. The bootstrap column is the one to hold
against δ = 5 %: there the pool's mean is the true risk. "violations" counts all runs, abstentions included.
"FairGain" leaves abstentions out, as in the paper; "FairGain, all" counts them as no gain. The oracle knows the risk of
every configuration of the same path."""

READING_AVERAGES = """\
"× the paper's" divides averages over pools: pools on which much disparity can be removed decide it. "× the paper's, by
pool" averages each pool's own ratio: pools on which the paper's procedure hardly ever certifies decide it, and those on
which it never does are left out and counted."""


def measure(pool: Pool, *, n_splits: int, many_splits: int, n_bootstrap: int) -> dict[str, Any]:
    """Every procedure on one pool: the paper's with both of its tests, then isrr's defaults."""
    protocol = Protocol(pool)
    paper = [protocol.paper(test) for test in PAPER_TESTS]
    procedures = [("paper", p) for p in paper] + [("isrr", p) for p in protocol.defaults]
    return {
        "deterministic": protocol.deterministic_utility,
        "procedures": [
            {"by": by, **_figures(protocol, procedure, n_splits, many_splits, n_bootstrap)}
            for by, procedure in procedures
        ],
    }


def _figures(
    protocol: Protocol, procedure: Procedure, n_splits: int, many_splits: int, n_bootstrap: int
) -> dict[str, Any]:
    many = run_splits(protocol.pool, procedure, max(n_splits, many_splits))
    few = Runs(many.utility[:n_splits], many.gain[:n_splits], many.kept[:n_splits])
    return {
        "name": procedure.name,
        "promise": str(procedure.promise),
        "target": procedure.promise.target,
        **summary(few),
        "many": summary(many),
        "bootstrap_violations": bootstrap_violations(protocol.pool, procedure, n_bootstrap),
        "oracle": protocol.oracle(procedure),
        "utilities": [None if np.isnan(u) else float(u) for u in few.utility],
    }


def summary(runs: Runs) -> dict[str, Any]:
    """Return the paper's columns, and FairGain with abstentions counted.

    Coverage is the share of the runs with a certificate in which the promise held on the test part, as in the paper;
    violations are the share of all runs in which a promise was made and did not hold there.
    """
    return {
        "runs": len(runs.utility),
        "coverage": runs.over_certified(runs.kept),
        "violations": float((~runs.kept & ~runs.abstained).mean()),
        "utility": runs.over_certified(runs.utility),
        "utility_deviation": runs.over_certified(runs.utility, np.std),
        "gain": runs.over_certified(runs.gain),
        "gain_overall": runs.gain_overall,
        "abstentions": int(runs.abstained.sum()),
    }


def rows(records: list[dict[str, Any]]) -> Rows:
    """One row a pool and procedure."""
    return [
        {
            "data": record["data"],
            "scorer": record["title"],
            "by": figures["by"],
            "procedure": figures["name"],
            "coverage": or_dash(figures["coverage"], percent),
            "1 − α": level(figures),
            "NDCG@5": or_dash(figures["utility"]),
            "FairGain": or_dash(figures["gain"], percent),
            "abstentions": f"{figures['abstentions']} of {figures['runs']}",
            "FairGain, all": percent(figures["gain_overall"]),
            f"violations, {figures['many']['runs']} splits": percent(figures["many"]["violations"]),
            "violations, bootstrap": percent(figures["bootstrap_violations"]),
            "oracle": percent(figures["oracle"]),
        }
        for record in records
        for figures in record["procedures"]
    ]


def averages(records: list[dict[str, Any]]) -> Rows:
    """One row a data set and procedure, then one a procedure over all: its gain beside the paper's and the oracle's."""
    names = list(dict.fromkeys(record["data"] for record in records))
    groups = {name: [record for record in records if record["data"] == name] for name in names}
    groups |= {"all": records} if len(names) > 1 else {}
    return [
        {"data": name, **_average([record["procedures"][p] for record in group], group)}
        for name, group in groups.items()
        for p in range(len(group[0]["procedures"]))
    ]


def _average(figures: list[dict[str, Any]], records: list[dict[str, Any]]) -> dict[str, Any]:
    gain = float(np.mean([f["gain_overall"] for f in figures]))
    of_paper = [record["procedures"][0]["gain_overall"] for record in records]
    paper = float(np.mean(of_paper))
    ratios = [f["gain_overall"] / other for f, other in zip(figures, of_paper, strict=True) if other > 0]
    shares = [f["gain_overall"] / f["oracle"] for f in figures if f["oracle"] > 0]
    covered = [f["coverage"] for f in figures if f["coverage"] is not None]
    return {
        "by": figures[0]["by"],
        "procedure": figures[0]["name"],
        "pools": len(figures),
        "FairGain, all": percent(gain),
        "× the paper's": f"{gain / paper:.1f}" if paper > 0 else "–",
        "× the paper's, by pool": f"{np.mean(ratios):.1f}" if ratios else "–",
        "pools left out": len(figures) - len(ratios),
        "share of the oracle": or_dash(float(np.mean(shares)) if shares else None, percent),
        "least share": or_dash(min(shares, default=None), percent),
        "least coverage": or_dash(min(covered, default=None), percent),
        "most violations, bootstrap": percent(max(f["bootstrap_violations"] for f in figures)),
    }


def level(figures: dict[str, Any]) -> float | str:
    """Format the promised level: a number, or a share of the deterministic ranker's."""
    relative = "deterministic" in figures["promise"]
    return f"{100 * figures['target']:g} % of Det" if relative else float(figures["target"])


def or_dash(value: float | None, shown: Callable[[float], float | str] = float) -> float | str:
    """A figure, or a dash where there is none."""
    return "–" if value is None else shown(value)
