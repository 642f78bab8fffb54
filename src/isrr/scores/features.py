"""What a scorer sees of the features: as they are, or brought to [0, 1] within each query.

    x' = (x − min over the query) / (max over the query − min over the query),        0 where they are equal

Normalising by query, as is customary for MSLR and Istella, makes features of different scale comparable for a net and
needs nothing but the query at hand. A missing value (NaN) stays missing and says nothing about the others. The choice
is stored with the scorer.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import IntArray, Queries
from isrr.errors import DataError, ScorerError
from isrr.parallel import over_queries

Normalize = Literal["none", "query"]
FeatureMatrix = NDArray[np.float32]


def feature_matrix(
    queries: Queries, normalize: Normalize, n_features: int | None = None, names: Sequence[str] = ()
) -> FeatureMatrix:
    """The features of the queries, normalised as asked, rows in query order.

    Args:
        queries: Queries with features.
        normalize: "none" or "query".
        n_features: How many features a trained scorer needs; None accepts any number.
        names: Names of those features, in its order; empty where they had none.
    """
    features = (queries.with_features(names) if names else queries).features
    if features is None:
        unnamed = "these queries have no features; expected a feature matrix, one row per item (`features=`)"
        raise DataError(queries.absent.get("features", unnamed))
    if features.shape[1] == 0:
        raise DataError("these queries have a feature matrix without columns; expected at least one feature")
    if n_features is not None and features.shape[1] != n_features:
        found = f"these queries have {features.shape[1]} features"
        raise ScorerError(
            f"{found}, the scorer was trained on {n_features}; expected the same columns in the same order"
        )
    if normalize == "none":
        return features
    if normalize == "query":
        return normalized_by_query(features, queries.offsets)
    raise ValueError(f"normalize must be one of {', '.join(get_args(Normalize))}; got {normalize!r}")


def refuse_constant(queries: Queries) -> None:
    """Refuse to learn from features that are the same on every row."""
    matrix = queries.features
    assert matrix is not None
    if not (matrix[:1000] != matrix[0]).any() and not (matrix != matrix[0]).any():
        raise DataError("every feature has the same value in all rows; there is nothing to learn from")


def refuse_gaps(queries: Queries) -> None:
    """Refuse features that are missing or infinite, by the caller's row."""
    if queries.features is None or np.isfinite(queries.features).all():
        return
    stored, feature = np.argwhere(~np.isfinite(queries.features))[0]
    row = stored if queries.rows is None else queries.rows[stored]
    found = f"row {row + 1}: feature {feature} is {queries.features[stored, feature]}"
    raise DataError(f"{found}, missing or infinite; expected finite features")


def normalized_by_query(features: FeatureMatrix, offsets: IntArray) -> FeatureMatrix:
    """Each feature on [0, 1] within each query; 0 where a query's values are all equal.

    Example:
        >>> normalized_by_query(np.array([[1, 5], [3, 5], [9, 0]], np.float32), np.array([0, 2, 3]))
        array([[0., 0.],
               [1., 0.],
               [0., 0.]], dtype=float32)
    """
    out = np.empty_like(features)

    def work(start: int, stop: int) -> None:
        rows = slice(offsets[start], offsets[stop])
        heads = offsets[start:stop] - offsets[start]
        lengths = np.diff(offsets[start : stop + 1])
        low = np.fmin.reduceat(features[rows], heads, axis=0)
        span = np.fmax.reduceat(features[rows], heads, axis=0) - low
        scale = np.divide(1.0, span, out=np.zeros_like(span), where=span > 0)
        np.subtract(features[rows], np.repeat(low, lengths, axis=0), out=out[rows])
        out[rows] *= np.repeat(scale, lengths, axis=0)

    over_queries(work, offsets)
    return out
