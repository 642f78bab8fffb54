"""Say when kernels are compiled, and compile all of them in advance."""

from pathlib import Path
from tempfile import TemporaryDirectory

from isrr.cli import console
from isrr.compiled import kernel


@kernel
def _probe(number):
    return number


def kernel_cache() -> str | None:
    """Return the folder of compiled kernels; None if no folder is writable."""
    path: str | None = _probe.stats.cache_path if hasattr(_probe, "stats") else None
    return path


def compiles_anew() -> bool:
    """Return whether this process compiles kernels: the first after installing, or one that cannot keep them."""
    _probe(0)
    return hasattr(_probe, "stats") and not _probe.stats.cache_hits


def say_if_compiling() -> None:
    """Tell who watches a first command why it takes seconds."""
    if console.err.is_terminal and compiles_anew():
        console.say_aside("compiling, once")


def compile_all() -> None:
    """Compile what commands and the service have in common, by using it once on a few queries."""
    import numpy as np

    from isrr import GPLRanker, Queries, calibrate, evaluate, read_queries

    rng = np.random.default_rng(0)
    scores, relevance = rng.normal(size=400), rng.choice(3, 400)
    queries = Queries.from_arrays(scores=scores, relevance=relevance, query_ids=np.arange(400) // 10)
    calibrate(queries, "ndcg@5 >= 10% of deterministic")
    widening = GPLRanker(threshold=0.1, decay=0.9)
    widening.propensity(widening.rank_queries(queries), queries)
    for ranker in (GPLRanker(), GPLRanker(k=8), GPLRanker(floor=0.5), widening):
        evaluate(queries, [ranker], ["ndcg", "normalized_disparity", "rr"])
        ranker.exposure(queries)
        ranker.rank([2.0, 1.0], "q", "s")
        ranker.rank_with_propensity([2.0, 1.0], "q", "s")
    with TemporaryDirectory() as folder:
        run, table = Path(folder, "run.txt"), Path(folder, "table.jsonl")
        run.write_text("q Q0 a 1 2.0 tag\nq Q0 b 2 1.0 tag\n")
        table.write_text('{"query": 1, "score": 2.0}\n')
        read_queries(run)
        read_queries(table)
