"""The parameters with which an SQL engine draws as a ranker does; docs/sql.md has the statements."""

from isrr.ranker.gpl import GPLRanker


def sql_scale(ranker: GPLRanker) -> float:
    """Return the factor of the scores in the ORDER BY; refuse a ranker that no ORDER BY follows."""
    for name in ("threshold", "score_map", "floor", "anchor", "boost"):
        if getattr(ranker, name):
            raise ValueError(f"the ranker has a {name}; expected one of calibrate(…, path='temperature', floor=0)")
    return ranker.scale


def sql_stream(ranker: GPLRanker, query_id: object, session: object) -> int:
    """Return the number of 64 bits that names the noise of `rank(…, query_id, session)`."""
    return ranker.noise_stream(query_id, session) % 2**64
