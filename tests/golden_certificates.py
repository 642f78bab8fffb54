"""Golden certificates: what calibration, its neighbours and serving answered when they were last recorded on purpose.

    python tests/golden_certificates.py [NAME …]    record them again, all or those named

Each case is a function that returns what is stored: the ranker in use, how many configurations are certified, what was
measured and proven, and beside it what `check`, `plan` and the monitor say, and the lists of ten sessions with their
propensities. Every change of a golden file is named in the changelog.
"""

import json
import math
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import isrr
from isrr import GPLRanker, Promise, Queries
from isrr.data.synthetic import generate

FOLDER = Path(__file__).parent / "golden" / "certificates"
SHARED = Path(__file__).parents[2] / "shared" / "data"
RELATIVE = "ndcg@5 >= 95% of deterministic"
SCORES = [2.1, 1.9, 1.9, 0.3, -0.2, 1.2]  # of the query that ten sessions rank; two are tied
Document = dict[str, Any]


class MissingDataError(Exception):
    """The real data that a case needs is not beside the checkout."""


@cache
def demo() -> tuple[Queries, Queries]:
    """The demo's judged and validation queries, scored by least squares."""
    made = generate("small", seed=0)
    parts = [
        part if isinstance(part, tuple) else (part, part.features) for part in (made.train, made.validation, made.test)
    ]
    weights, *_ = np.linalg.lstsq(parts[0][1], parts[0][0].relevance, rcond=None)
    validation, judged = (
        Queries.from_arrays(
            scores=np.round(features @ weights, 9), relevance=queries.relevance,  # beyond, processors differ
            query_ids=np.repeat(queries.query_ids, queries.n_items),
        )
        for queries, features in parts[1:]
    )  # fmt: skip
    return judged, validation


@cache
def shop(n_queries: int = 600, seed: int = 20230) -> Queries:
    """Lists of a shop: three grades, a margin, new items that the scores underrate, two segments."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(6, 25, n_queries)
    n_rows = int(sizes.sum())
    relevance = rng.choice(4, n_rows, p=[0.5, 0.3, 0.15, 0.05])
    new = rng.random(n_rows) < 0.2
    return Queries.from_arrays(
        scores=relevance + rng.normal(scale=1.2, size=n_rows) - 0.5 * new,
        relevance=relevance,
        query_ids=np.repeat([f"q{seed}-{q}" for q in range(n_queries)], sizes),
        item_ids=[f"d{i}" for i in range(n_rows)],
        item_groups=np.where(new, "new", "known"),
        segments=np.repeat(rng.choice(["app", "web"], n_queries), sizes),
        values={"margin": np.clip(rng.gamma(2.0, 3.0, n_rows), 0, 25)},
    )


@cache
def letor(*names: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, grades and query ids of real LETOR files."""
    from sklearn.datasets import load_svmlight_file

    files = [SHARED / name for name in names]
    if not all(file.is_file() for file in files):
        raise MissingDataError(f"the real data sets are not at {SHARED}")
    parts = [load_svmlight_file(str(file), dtype=np.float32, query_id=True) for file in files]
    width = max(features.shape[1] for features, _, _ in parts)
    matrices = [np.pad(features.toarray(), ((0, 0), (0, width - features.shape[1]))) for features, _, _ in parts]
    grades, ids = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    return np.concatenate(matrices), grades, ids


@cache
def mq2007() -> Queries:
    """Three parts of MQ2007, scored by least squares on the other two."""
    features, grades, _ = letor("mq2007/S1.txt", "mq2007/S2.txt")
    weights, *_ = np.linalg.lstsq(features.astype(float), grades, rcond=None)
    features, grades, ids = letor("mq2007/S3.txt", "mq2007/S4.txt", "mq2007/S5.txt")
    scores = np.round(features.astype(float) @ weights, 9)  # what is beyond differs between processors
    return Queries.from_arrays(scores=scores, relevance=grades, query_ids=ids)


@cache
def nfcorpus() -> Queries:
    """NFCorpus's training queries in the order of BM25, 25 items each."""
    features, grades, ids = letor("nfcorpus/train.txt.gz")
    scores = features[:, 0].astype(float)
    order = np.lexsort((-scores, ids))
    place = np.arange(order.size) - np.searchsorted(ids[order], ids[order])
    rows = order[place < 25]
    return Queries.from_arrays(scores=scores[rows], relevance=grades[rows], query_ids=ids[rows])


def answered(outcome: Any, fresh: Queries | None = None, pilot: Queries | None = None) -> Document:
    """What is stored of an outcome, and what is said about it."""
    document: Document = {"kind": type(outcome).__name__.lower(), "ranker": of_ranker(outcome.ranker)}
    document["certified"] = sum(point.certified for point in outcome.curve)
    document["tests"] = [
        {name: getattr(test, name) for name in ("segment", "n_queries", "measured", "level", "risk", "bound", "pvalue")}
        for test in outcome.tests
    ]
    if document["kind"] == "abstention":
        document |= {"cause": outcome.cause, "reason": outcome.reason, "queries_needed": outcome.queries_needed}
    if document["kind"] == "certificate":
        names = ("utility", "disparity", "fairness_gain", "deterministic_utility", "deterministic_disparity")
        document |= {name: getattr(outcome, name).value for name in names}
    if document["kind"] != "abstention":
        names = ("before", "after", "remaining", "halved", "changed")
        document["quality"] = [getattr(outcome.quality, name).value for name in names]
    document["lists"] = lists_of(outcome.ranker)
    if fresh is not None:
        document["check"] = checked(outcome, fresh)
        document["monitor"] = monitored(outcome, fresh)
    if pilot is not None:
        document["plan"] = planned(outcome, pilot)
    return document


def of_ranker(ranker: GPLRanker) -> Document:
    """Its fields; of a score map, the number of knots and their sums."""
    document = {field.name: getattr(ranker, field.name) for field in fields(ranker)}
    if (score_map := document.pop("score_map")) is not None:
        document["score_map"] = [len(score_map.inputs), sum(score_map.inputs), sum(score_map.outputs)]
    return document


def portable(ranker: GPLRanker) -> GPLRanker:
    """The ranker without boosts and score map, numbers rounded: draws depend on digits that processors differ in."""
    numbers = {
        field.name: round(number, 9)
        for field in fields(ranker)
        if isinstance(number := getattr(ranker, field.name), float)
    }
    return replace(ranker, boost={}, score_map=None, **numbers)


def lists_of(ranker: GPLRanker) -> list[Document]:
    """The lists of ten sessions, with their propensities."""
    plain = portable(ranker)
    found = [plain.rank_with_propensity(SCORES, "query", f"session {s}") for s in range(10)]
    return [{"order": order.tolist(), "propensities": chances.tolist()} for order, chances, *_ in found]


def checked(outcome: Any, fresh: Queries) -> Document:
    """Each promise on fresh queries, and what becomes of utility and disparity."""
    found = isrr.check(outcome, fresh)
    kept = [{"segment": kept.segment, "value": kept.value.value, "low": kept.value.low} for kept in found.promises]
    verdicts = [promise.verdict for promise in found.promises]
    return {"promises": kept, "verdicts": verdicts, "utility": found.utility.value, "gain": found.fairness_gain}


def monitored(outcome: Any, fresh: Queries) -> Document | str:
    """What a monitor says after fifty lists."""
    try:
        monitor = isrr.Monitor(outcome)
    except ValueError:
        return "not watched"
    judged = (fresh if fresh.item_ids is not None else with_item_ids(fresh))[:50]
    lines = []
    for query in judged:
        items, name = query.item_ids, query.query_ids[0]
        ranking = portable(outcome.ranker).rank(query.need_scores(), name, "s")[: outcome.k]
        lines.append(
            {
                "certificate": outcome.id, "status": "valid", "query_id": name, "session": "s", "time": 1.0e9,
                "top": items[ranking].tolist(), "deterministic": items[query.by_score[: outcome.k]].tolist(),
            }
        )  # fmt: skip
    monitor.update(lines, judged)
    return {"counted": monitor.n_counted, "evidence": monitor.evidence, "alarm": monitor.alarm is not None}


def with_item_ids(queries: Queries) -> Queries:
    """The same queries, items numbered."""
    return Queries.from_arrays(
        scores=queries.scores, relevance=queries.relevance,
        query_ids=np.repeat(queries.query_ids, queries.n_items), item_ids=np.arange(queries.n_rows),
    )  # fmt: skip


def planned(outcome: Any, pilot: Queries) -> int | str | None:
    """How many judged queries a plan asks for."""
    try:
        return isrr.plan(pilot, str(outcome.promises[0]), outcome.confidence).queries_needed
    except ValueError as error:
        return str(error)


def thresholds(queries: Queries) -> tuple[GPLRanker, ...]:
    """The paper's 21 thresholds over these queries, from the safest down."""
    scores = queries.need_scores()
    base = GPLRanker(mean=float(scores.mean()), deviation=float(scores.std()))
    grid = np.linspace(0.0, float(base.eligibility(queries).max()), 21)[::-1]
    return (GPLRanker.deterministic(5), *(replace(base, threshold=float(t)) for t in grid))


def clicked(n_impressions: int = 4_000) -> tuple[pa.Table, GPLRanker]:
    """A table of impressions with clicks that fall with the place and rise with the grade, and their logger."""
    rng, queries = np.random.default_rng(20230), shop(40, 7)
    logger = GPLRanker(k=3, temperature=0.4, deviation=1.5, anchor=0.8)
    columns: dict[str, list[Any]] = {
        name: [] for name in ("impression_id", "query_id", "item_id", "score", "position", "click")
    }
    lists = [(query, query.query_ids[0], query.item_ids.tolist()) for query in queries]
    for impression in range(n_impressions):
        query, name, items = lists[rng.integers(len(lists))]
        place = {row: j for j, row in enumerate(logger.rank(query.scores, name, f"s{impression}").tolist(), 1)}
        for row, item in enumerate(items):
            position = place.get(row)
            chance = 0.0 if position is None or position > 3 else (0.1 + 0.3 * query.relevance[row]) / position
            values = (f"i{impression}", name, item, query.scores[row], position, int(rng.random() < chance))
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
    return pa.table(columns), logger


def by_clicks() -> Document:
    table, logger = clicked()
    return answered(isrr.calibrate_clicks(table, "clicks@3 >= 80% of deterministic", logger=logger))


CASES: dict[str, Callable[[], Document]] = {
    "demo-relative": lambda: answered(isrr.calibrate(demo()[0], RELATIVE), demo()[1], demo()[1][:100]),
    "demo-validation": lambda: answered(isrr.calibrate(demo()[0], RELATIVE, validation=demo()[1]), demo()[1]),
    "demo-absolute": lambda: answered(isrr.calibrate(demo()[0], "ndcg@5 >= 0.55"), demo()[1], demo()[1][:100]),
    "demo-60": lambda: answered(isrr.calibrate(demo()[0][:60], "ndcg@5 >= 90% of deterministic"), demo()[1]),
    "demo-200": lambda: answered(isrr.calibrate(demo()[0][:200], "ndcg@5 >= 90% of deterministic"), demo()[1]),
    "demo-200-validation": lambda: answered(
        isrr.calibrate(demo()[0][:200], "ndcg@5 >= 90% of deterministic", validation=demo()[1])
    ),
    "demo-precision": lambda: answered(isrr.calibrate(demo()[0], "precision@10 >= 0.61"), demo()[1]),
    "demo-recall": lambda: answered(isrr.calibrate(demo()[0], "recall@10 >= 95% of deterministic"), demo()[1]),
    "demo-dcg": lambda: answered(isrr.calibrate(demo()[0], "dcg@5 >= 90% of deterministic with bound 15"), demo()[1]),
    "demo-disparity": lambda: answered(
        isrr.calibrate(demo()[0], "normalized_disparity@5 <= 70% of deterministic"), demo()[1]
    ),
    "demo-two": lambda: answered(
        isrr.calibrate(demo()[0], ["ndcg@5 >= 85% of deterministic", "normalized_disparity@5 <= 90% of deterministic"]),
        demo()[1],
    ),
    "demo-abstention": lambda: answered(isrr.calibrate(demo()[0], "ndcg@5 >= 0.95"), None, demo()[1][:100]),
    "demo-unproven": lambda: answered(isrr.calibrate(demo()[0][:100], "ndcg@5 >= 0.62"), None, demo()[1][:100]),
    "demo-thresholds": lambda: answered(
        isrr.calibrate(demo()[0], "ndcg@5 >= 0.55", path=thresholds(demo()[1]), evidence="hoeffding_bentkus"), demo()[1]
    ),
    "demo-holm": lambda: answered(isrr.calibrate(demo()[0], "ndcg@5 >= 85% of deterministic", selection="holm")),
    "demo-attempts": lambda: answered(isrr.calibrate(demo()[0], RELATIVE, 0.9, n_analyses=2, floor=0.5), demo()[1]),
    "demo-start": lambda: answered(isrr.start(demo()[0], RELATIVE)),
    "demo-start-explore": lambda: answered(isrr.start(demo()[0], "ndcg@5 >= 90% of deterministic", explore=True)),
    "shop-value": lambda: answered(
        isrr.calibrate(shop(), "value(margin)@10 >= 95% of deterministic with bound 25"), shop(200, 1)
    ),
    "shop-exposure": lambda: answered(isrr.calibrate(shop(), "exposure(new)@10 >= 20%"), shop(200, 1)),
    "shop-exposure-ndcg": lambda: answered(
        isrr.calibrate(shop(), ["exposure(new)@10 >= 18%", "ndcg@10 >= 90% of deterministic"]), shop(200, 1)
    ),
    "shop-segments": lambda: answered(
        isrr.calibrate(shop(), Promise.parse("ndcg@5 >= 90% of deterministic per segment")), shop(200, 1)
    ),
    "shop-kept": lambda: answered(isrr.calibrate(shop(), "kept@5 >= 0.8")),
    "shop-clicks": by_clicks,
    "mq2007-relative": lambda: answered(isrr.calibrate(mq2007(), RELATIVE)),
    "mq2007-absolute": lambda: answered(isrr.calibrate(mq2007()[:800], "ndcg@5 >= 0.4")),
    "mq2007-60": lambda: answered(isrr.calibrate(mq2007()[:60], "ndcg@5 >= 90% of deterministic")),
    "nfcorpus-relative": lambda: answered(isrr.calibrate(nfcorpus()[:800], RELATIVE)),
    "nfcorpus-validation": lambda: answered(
        isrr.calibrate(nfcorpus()[:800], "ndcg@10 >= 90% of deterministic", validation=nfcorpus()[800:1_200])
    ),
    "lists-decay": lambda: {"lists": lists_of(GPLRanker(threshold=0.1, decay=0.7, temperature=0.8))},
    "lists-dials": lambda: {"lists": lists_of(GPLRanker(floor=0.6, anchor=0.3, temperature=0.9, k=3))},
}  # fmt: skip


def record(names: list[str]) -> None:
    """Write the golden files of these cases, or of all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names or CASES:
        document = json.loads(json.dumps(CASES[name]()))
        (FOLDER / f"{name}.json").write_text(json.dumps(document, indent=1, allow_nan=True) + "\n")
        print(name)


def differences(found: Any, golden: Any, where: str = "") -> list[str]:
    """Where two documents differ: choices, orders and words exactly, numbers by more than 1e-6."""
    if isinstance(golden, dict) and isinstance(found, dict):
        keys = sorted(found.keys() | golden.keys())
        return [line for key in keys for line in differences(found.get(key), golden.get(key), f"{where}.{key}")]
    if isinstance(golden, list) and isinstance(found, list) and len(golden) == len(found):
        pairs = enumerate(zip(found, golden, strict=True))
        return [line for i, (one, other) in pairs for line in differences(one, other, f"{where}[{i}]")]
    if isinstance(golden, float) and isinstance(found, float | int) and not isinstance(found, bool):
        same = math.isclose(found, golden, rel_tol=1e-6, abs_tol=1e-6) or (math.isnan(found) and math.isnan(golden))
    else:
        same = found == golden
    return [] if same else [f"{where}: {found!r}, recorded {golden!r}"]


if __name__ == "__main__":
    record(sys.argv[1:])
