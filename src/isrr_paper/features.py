"""Queries with features, read from LETOR text or tables, and how a scorer sees the features.

A scorer takes features as they are, or brought to [0, 1] within each query:

    x' = (x − min over the query) / (max over the query − min over the query),        0 where they are equal

Normalising by query, as is customary for MSLR and Istella, makes features of different scale comparable for a net and
needs nothing but the query at hand. A missing value (NaN) stays missing and says nothing about the others. The choice
is stored with the scorer.
"""

import fnmatch
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from isrr.data.columns import Columns, usual_column
from isrr.data.copies import table_of
from isrr.data.formats import File, Table, kind_of, open_table, reading, write_table
from isrr.data.queries import IntArray, Queries
from isrr.data.tables import read_queries
from isrr.errors import DataError
from isrr.parallel import over_queries
from isrr_paper.paper_errors import ScorerError

Normalize = Literal["none", "query"]
FeatureMatrix = NDArray[np.float32]
LARGEST = 1e38  # in a float32, with room for differences
COLUMN = "features"  # the column of lists in which features are written


@dataclass(frozen=True, eq=False, repr=False)
class Featured(Queries):
    """Queries whose items have features.

    Attributes:
        features: float32 matrix, (n_rows, n_features), rows in query order.
        feature_names: Names of its columns; empty where they have none.
    """

    features: FeatureMatrix | None = None
    feature_names: tuple[str, ...] = ()

    @classmethod
    def from_arrays(cls, *, features: ArrayLike, feature_names: Sequence[str] = (), **columns: Any) -> "Featured":  # type: ignore[override]
        """Build queries from columns of equal length, see `Queries.from_arrays`, and a matrix of features.

        Example:
            >>> Featured.from_arrays(features=[[1.0], [2.0], [3.0]], query_ids=["a", "b", "a"]).features.ravel()
            array([1., 3., 2.], dtype=float32)
        """
        if any(columns.get(name) is not None for name in ("relevance", "scores", "query_ids")):
            return cls.of(super().from_arrays(**columns), features, feature_names)
        unjudged = super().from_arrays(**columns, relevance=np.zeros(np.shape(features)[0]))
        return cls.of(replace(unjudged, relevance=None), features, feature_names)

    @classmethod
    def of(cls, queries: Queries, features: ArrayLike, feature_names: Sequence[str] = ()) -> "Featured":
        """Add features to queries; their rows come in the order in which the rows of the queries came."""
        matrix = _checked(features, queries.n_rows)
        stored = matrix if queries.rows is None else matrix[queries.rows]
        fields = {name: value for name, value in vars(queries).items() if name in Queries.__dataclass_fields__}
        return cls(**fields, features=stored, feature_names=tuple(feature_names))

    @property
    def without_features(self) -> Queries:
        """Return the queries without features."""
        return Queries(**{name: getattr(self, name) for name in Queries.__dataclass_fields__})

    def of_rows(self, take: NDArray[Any], offsets: IntArray, **changes: Any) -> Self:
        """Return the same queries with some of their rows; see `Queries.of_rows`."""
        features = {} if self.features is None else {"features": self.features[take]}
        return super().of_rows(take, offsets, **(features | changes))

    @staticmethod
    def concatenate(parts: Sequence["Featured"]) -> "Featured":  # type: ignore[override]
        """All queries of the parts, in order, with the features that the first one names."""
        names = next((part.feature_names for part in parts if part.feature_names), ())
        matrices = [part.with_features(names).features for part in parts]
        widths = {0 if matrix is None else matrix.shape[1] for matrix in matrices}
        if len(widths) > 1:
            raise DataError(f"parts have different numbers of features: {', '.join(map(str, sorted(widths)))}")
        return Featured.of(Queries.concatenate(parts), np.concatenate(matrices), names)  # type: ignore[arg-type]

    def with_features(self, names: Sequence[str]) -> "Featured":
        """Return the queries with only these features, in this order; unchanged without names."""
        if not self.feature_names or self.feature_names == tuple(names):
            return self
        missing = [name for name in names if name not in self.feature_names]
        if missing:
            raise DataError(
                f"features {', '.join(map(repr, missing))} are missing; these queries have "
                f"{', '.join(self.feature_names)}"
            )
        chosen = [self.feature_names.index(name) for name in names]
        features = None if self.features is None else np.ascontiguousarray(self.features[:, chosen])
        return replace(self, features=features, feature_names=tuple(names))


def read_featured(
    source: str | os.PathLike[str],
    *,
    features: str | Sequence[str] | None = None,
    group: Any = None,
    zero_based: bool = False,
    comment_ids: bool = False,
    **columns: Any,
) -> Featured:
    """Read queries with features from LETOR text or a table (Parquet, Arrow, CSV, JSONL).

    Args:
        source: Path of the file.
        features: For tables: a column of equally long lists (by default `features`), or columns of numbers, also by a
            pattern such as "f*".
        group: For LETOR text without `qid:`, see `read_letor`.
        zero_based: For LETOR text whose first feature has index 0.
        comment_ids: For LETOR text: take item ids from the comments, see `read_letor`.
        columns: For tables: names of columns, see `isrr.Columns`.
    """
    from isrr_paper.letor import read_letor

    file = Path(source)
    if kind_of(File.of(file)) == "letor":
        if unused := next((name for name, value in (columns | {COLUMN: features}).items() if value is not None), None):
            raise DataError(f"{file}: LETOR text has no named columns; omit `{unused}=`")
        return read_letor(file, group=group, zero_based=zero_based, comment_ids=comment_ids)
    if zero_based or group is not None:
        raise DataError(f"{file}: `{'zero_based' if zero_based else 'group'}=` is for LETOR text only")
    names = feature_columns(file, features)
    with reading(str(file)):
        table = _opened(file).read(names, [])
    try:
        matrix = _stacked(table, names)
    except (ValueError, pa.ArrowException) as error:
        said = str(error).partition("\n")[0]
        raise DataError(
            f"{file}: the features cannot be read: {said}; expected numbers, equally many per row"
        ) from None
    return Featured.of(_queries(file, columns), matrix, () if _holds_lists(table, names) else names)


def _queries(file: Path, columns: dict[str, Any]) -> Queries:
    """Queries of a table, which may have neither scores nor grades."""
    table, named = _opened(file), Columns(**columns)
    if any(getattr(named, role) or usual_column(role, table.columns) for role in ("score", "relevance")):
        return read_queries(file, named)
    ids = {getattr(named, role) or usual_column(role, table.columns) for role in ("query", "item")}
    wanted = [name for name in table.columns if name in ids]
    rows = table.read(wanted, wanted)
    unscored = rows.append_column("score", pa.array(np.zeros(rows.num_rows)))
    return replace(read_queries(unscored, named), scores=None)


def _opened(file: Path) -> Table:
    return open_table(File.of(file), kind_of(File.of(file)))


def feature_columns(file: Path, features: str | Sequence[str] | None) -> list[str]:
    """Return the columns of a table that hold features, with patterns resolved."""
    have = _opened(file).columns
    listed = ", ".join(have)
    if features is None:
        if COLUMN not in have:
            raise DataError(f"{file}: no features column (features, or named by `features=`); the columns are {listed}")
        return [COLUMN]
    matched: list[str] = []
    for pattern in [features] if isinstance(features, str) else features:
        fitting = [name for name in have if fnmatch.fnmatchcase(name, pattern)]
        if not fitting:
            raise DataError(f"{file}: there is no column {pattern!r}; the columns are {listed}")
        matched += [name for name in fitting if name not in matched]
    return matched


def write_featured(queries: Featured, path: str | os.PathLike[str]) -> None:
    """Write queries with features to Parquet or Arrow, as `read_featured` reads them; the file is written atomically.

    Features go to one column of lists, or to a column each where they have names.
    """
    file, kind = Path(path), {".parquet": "parquet", ".arrow": "arrow"}.get(Path(path).suffix.lower())
    if kind is None:
        raise DataError(f"{file}: queries are written to .parquet or .arrow, inferred from the file name")
    table, matrix = table_of(queries), queries.features
    assert matrix is not None
    if queries.feature_names:
        for name, column in zip(queries.feature_names, matrix.T, strict=True):
            table = table.append_column(name, pa.array(column))
    else:
        lists = pa.FixedSizeListArray.from_arrays(pa.array(matrix.reshape(-1)), matrix.shape[1])
        table = table.append_column(COLUMN, lists)
    write_table(table, file, kind)


def _checked(features: ArrayLike, n_rows: int) -> FeatureMatrix:
    """Features as a float32 matrix with one row per item."""
    matrix = np.asarray(features)
    if matrix.ndim != 2 or len(matrix) != n_rows:
        raise DataError(f"features have shape {matrix.shape}; expected ({n_rows}, n_features)")
    if matrix.dtype != np.float32:
        matrix = matrix.astype(np.float64)
        if (np.isfinite(matrix) & (np.abs(matrix) > LARGEST)).any():
            raise DataError(f"a feature is kept as a float32 and must lie within ±{LARGEST:g}")
    return np.ascontiguousarray(matrix, np.float32)


def _holds_lists(table: Any, names: Sequence[str]) -> bool:
    return len(names) == 1 and pa.types.is_nested(table[names[0]].type)


def _stacked(table: Any, names: Sequence[str]) -> NDArray[Any]:
    if _holds_lists(table, names):
        lists = table[names[0]]
        return np.asarray(pc.list_flatten(lists).to_numpy()).reshape(len(lists), -1)
    return np.stack([table[name].cast(pa.float64()).to_numpy() for name in names], axis=1)


def feature_matrix(
    queries: Queries, normalize: Normalize, n_features: int | None = None, names: Sequence[str] = ()
) -> FeatureMatrix:
    """Return the features of the queries, normalised as asked, rows in query order.

    Args:
        queries: Queries with features.
        normalize: "none" or "query".
        n_features: How many features a trained scorer needs; None accepts any number.
        names: Names of those features, in its order; empty where they had none.
    """
    features = None
    if isinstance(queries, Featured):
        features = (queries.with_features(names) if names else queries).features
    if features is None:
        raise DataError("these queries have no features; expected `Featured` queries, see `read_featured`")
    if features.shape[1] == 0:
        raise DataError("these queries have a feature matrix without columns; expected at least one feature")
    if n_features is not None and features.shape[1] != n_features:
        raise ScorerError(
            f"these queries have {features.shape[1]} features, the scorer was trained on {n_features}; expected the "
            "same columns in the same order"
        )
    if normalize == "none":
        return features
    if normalize == "query":
        return normalized_by_query(features, queries.offsets)
    raise ValueError(f"normalize must be one of {', '.join(get_args(Normalize))}; got {normalize!r}")


def refuse_constant(queries: Featured) -> None:
    """Refuse to learn from features that are the same on every row."""
    matrix = queries.features
    assert matrix is not None
    if not (matrix[:1000] != matrix[0]).any() and not (matrix != matrix[0]).any():
        raise DataError("every feature has the same value in all rows; there is nothing to learn from")


def refuse_gaps(queries: Queries) -> None:
    """Refuse features that are missing or infinite, by the caller's row."""
    features = getattr(queries, "features", None)
    if features is None or np.isfinite(features).all():
        return
    stored, feature = np.argwhere(~np.isfinite(features))[0]
    row = stored if queries.rows is None else queries.rows[stored]
    value = features[stored, feature]
    raise DataError(f"row {row + 1}: feature {feature} is {value}, missing or infinite; expected finite features")


def normalized_by_query(features: FeatureMatrix, offsets: IntArray) -> FeatureMatrix:
    """Return each feature on [0, 1] within each query; 0 where a query's values are all equal.

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
