"""Two rankings of 97 TREC queries, and how often a true lead is told, by each answer of `isrr compare`.

python -m benchmarks.compare            the 20 ordered pairs of five systems
python -m benchmarks.compare power      a true lead of 0 … 3.5 standard errors, n = 50, 100 and 400
python -m benchmarks.compare knobs      the weight of a fusion, and the depth of reranking
"""

import sys
from itertools import permutations
from pathlib import Path

import numpy as np
from scipy import stats

import isrr
from isrr import GPLRanker, Promise, Queries
from isrr.calibration.compare import compared, randomisation_pvalue
from isrr.data.production import complete
from isrr.risk import betting

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "trec_dl"
SYSTEMS = ("bm25", "bm25_rm3", "splade", "tasb", "ada2")
PROMISE = Promise.parse("ndcg@10 >= 100% of production")
N_BOOTSTRAP, N_REPEATS, LEVEL = 10_000, 1_000, 0.05


def rankings() -> dict[str, Queries]:
    """Return the five systems' runs with the assessors' grades, all of the same queries."""
    qrels = FOLDER / "qrels.human.txt.gz"
    read = [isrr.read_queries(FOLDER / "runs" / f"{name}.txt.gz", qrels=qrels) for name in SYSTEMS]
    return dict(zip(SYSTEMS, complete(read), strict=True))


def ndcg(queries: Queries) -> np.ndarray:
    """Return NDCG@10 of the order by score, (n_queries,)."""
    return isrr.evaluate(queries, [GPLRanker.deterministic(10)], ["ndcg@10"])["ndcg@10"][:, 0]


def pairs() -> None:
    """Print all ordered pairs."""
    values = {name: ndcg(queries) for name, queries in rankings().items()}
    rng = np.random.default_rng(20230)
    print("| new | production | difference | proven, p | approximate, p | paired t-test, p | bootstrap, p |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for new, old in permutations(SYSTEMS, 2):
        difference = values[new] - values[old]
        row = compared(new, PROMISE, None, values[new], values[old], LEVEL)
        drawn = difference[rng.integers(0, difference.size, (N_BOOTSTRAP, difference.size))].mean(axis=1)
        t = stats.ttest_1samp(difference, 0.0, alternative="greater").pvalue
        numbers = (row.pvalue, row.approximate, t, (drawn <= 0).mean())
        print(f"| {new} | {old} | {difference.mean():+.3f} | {' | '.join(f'{p:.3g}' for p in numbers)} |")


def power() -> None:
    """Print how often a lead of so many standard errors is told, on differences of SPLADE and TAS-B, recentred."""
    values = {name: ndcg(queries) for name, queries in rankings().items() if name in ("splade", "tasb")}
    pool = values["splade"] - values["tasb"]
    pool = pool - pool.mean()
    rng = np.random.default_rng(20231)
    print("| queries | lead in standard errors | proven | randomisation | paired t-test |\n|---:|---:|---:|---:|---:|")
    for n in (50, 100, 400):
        for lead in (0.0, 1.0, 2.0, 2.5, 3.0, 3.5):
            drawn = pool[rng.integers(0, pool.size, (n, N_REPEATS))] + lead * pool.std() / np.sqrt(n)
            losses = (1.0 - np.clip(drawn, -1, 1)) / 2
            proven = betting.certifies(losses, PROMISE.loss().level, LEVEL, PROMISE.loss().prior)
            t = stats.ttest_1samp(drawn, 0.0, axis=0, alternative="greater").pvalue <= LEVEL
            flips = np.mean([randomisation_pvalue(column) <= LEVEL for column in drawn[:, :100].T])
            print(f"| {n} | {lead:g} | {proven.mean():.1%} | {flips:.0%} | {t.mean():.1%} |")


def knobs() -> None:
    """Certify the weight of a fusion of BM25 and ada2, and the depth to which ada2 reranks BM25."""
    runs = rankings()
    items = {name: _by_query(queries) for name, queries in runs.items()}
    production = ndcg(runs["ada2"])
    names, fused = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5], []
    for weight in names:
        fused.append(_ndcg_of(runs["ada2"], lambda q, w=weight: _fused(items["ada2"][q], items["bm25"][q], w)))
    print(isrr.certify(np.transpose(fused), "ndcg@10 >= 90% of production", reference=production, names=names))
    depths = [100, 50, 30, 20, 10]
    reranked = [
        _ndcg_of(runs["bm25"], lambda q, d=depth: _reranked(items["bm25"][q], items["ada2"][q], d)) for depth in depths
    ]
    print(isrr.certify(np.transpose(reranked), "ndcg@10 >= 90% of production", reference=reranked[0], names=depths))


def _by_query(queries: Queries) -> list[dict[str, float]]:
    return [dict(zip(map(str, one.item_ids), one.need_scores().tolist(), strict=True)) for one in queries]


def _scaled(scores: dict[str, float]) -> dict[str, float]:
    low, high = min(scores.values()), max(scores.values())
    return {item: (score - low) / max(high - low, 1e-9) for item, score in scores.items()}


def _fused(dense: dict[str, float], sparse: dict[str, float], weight: float) -> dict[str, float]:
    dense, sparse = _scaled(dense), _scaled(sparse)
    return {item: (1 - weight) * dense.get(item, 0) + weight * sparse.get(item, 0) for item in {**dense, **sparse}}


def _reranked(first: dict[str, float], second: dict[str, float], depth: int) -> dict[str, float]:
    order = sorted(first, key=lambda item: -first[item])
    return {item: (second.get(item, 0.0) + 100 if i < depth else -i) for i, item in enumerate(order)}


def _ndcg_of(queries: Queries, scored) -> np.ndarray:
    names = [str(query) for query in queries.query_ids]
    run = {name: {k: float(v) for k, v in scored(q).items()} for q, name in enumerate(names)}
    read = isrr.read_queries(run, qrels=FOLDER / "qrels.human.txt.gz")
    return ndcg(complete([read, queries])[0])


if __name__ == "__main__":
    {"power": power, "knobs": knobs}.get("".join(sys.argv[1:2]), pairs)()
