"""A random sample of the queries of any table: the same one whatever its format, engine or order of rows.

    digest(id) = the first eight bytes of SHA-256(id)
    key        = the sum of the digests of the table's queries, mod 2⁶⁴
    order(id)  = the first eight bytes of SHA-256(key, id)          the queries with the smallest order are kept

The sample knows nothing of scores and relevance, and the same table always gives the same sample, so running a
calibration again cannot draw another one until a certificate comes. SHA-256 is a built-in of Spark as well.
"""

import os
from collections.abc import Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isrr.data.columns import Columns
from isrr.data.formats import File, kind_of, matching_files
from isrr.data.parquet import ParquetFiles
from isrr.data.queries import Queries
from isrr.data.tables import as_queries, ids_of, queries_of
from isrr.errors import DataError
from isrr.noise import mixed
from isrr.parallel import threads

HASHED_AT_ONCE = 1 << 17  # ids
SAMPLE = 200_000  # queries; the bound of the paired test then lies about 0.0002 above the mean loss
Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class Sample:
    """Queries drawn from a table.

    Attributes:
        queries: The queries of the sample, or all where the table has no more.
        n_queries: Queries in the whole table.
        key: Names the queries of the whole table, whatever order they come in; 16 hex digits.
    """

    queries: Queries
    n_queries: int
    key: str

    def uniform(self, sample: int | None) -> NDArray[np.bool_]:
        """Return which queries are in the uniform sample, not only in that of their segment, (n,)."""
        if sample is None or len(self.queries) <= sample:
            return np.ones(len(self.queries), bool)
        return in_sample(digests(self.queries.query_ids, self.key), sample)


def digests(ids: Any, key: str = "") -> Hashes:
    """Return the first eight bytes of the SHA-256 of each id's text, or of a key and the text.

    Args:
        ids: Ids as an array of numpy or Arrow, integers or text; 7 and "7" are the same id.
        key: What comes before each text: with the table's key, queries with the smallest digests are in the sample.

    Example:
        >>> digests(np.array([7])) == digests(np.array(["7"]))
        array([ True])
    """
    before, hashes = key.encode(), np.empty(len(ids), np.uint64)
    for start in range(0, len(ids), HASHED_AT_ONCE):
        part = ids[start : start + HASHED_AT_ONCE]
        texts = part.to_pylist() if hasattr(part, "to_pylist") else part.tolist()
        several = b"".join([sha256(before + str(text).encode()).digest()[:8] for text in texts])
        hashes[start : start + HASHED_AT_ONCE] = np.frombuffer(several, ">u8")
    return hashes


def table_key(of: Hashes) -> str:
    """Return the sum of the distinct digests mod 2**64, in 16 hex digits: a name of the table's queries.

    Example:
        >>> table_key(digests(np.array(["a", "b"]))) == table_key(digests(np.array(["b", "a", "a"])))
        True
    """
    ordered = np.sort(of)
    distinct = ordered[np.diff(ordered, prepend=ordered[:1] ^ np.uint64(1)) != 0]
    return f"{int(distinct.sum(dtype=np.uint64)):016x}"


def in_sample(order: Hashes, sample: int, segments: NDArray[Any] | None = None) -> NDArray[np.bool_]:
    """Return which queries are drawn, given their digests with the table's key, (n,).

    Args:
        order: Distinct numbers, one per query.
        sample: How many queries are drawn.
        segments: The segment of each query, where promises are about segments: the sample is then drawn in addition
            from the segments, the same number from each.
    """
    drawn = _smallest(order, sample)
    if segments is not None:
        names, codes = np.unique(segments.astype(str), return_inverse=True)
        for code in range(names.size):
            of_segment = np.flatnonzero(codes == code)
            drawn[of_segment[_smallest(order[of_segment], max(sample // names.size, 1))]] = True
    return drawn


def canonical_order(keys: Hashes, digest: str) -> NDArray[np.int64]:
    """Return rows in the order of their keys mixed with a digest of all ids and scores.

    Queries are set aside and tested in this order, the same whatever order they came in. The digest knows no labels,
    and whoever chooses ids alone does not decide where a query falls.
    """
    first, second = np.frombuffer(blake2b(digest.encode(), digest_size=16).digest(), np.uint64)
    return np.lexsort((keys, mixed(keys ^ first) ^ mixed(keys + second)))


def sample_queries(
    data: Any,
    columns: Columns | None = None,
    *,
    roles: Sequence[str] = (),
    unjudged: str = "refuse",
    sample: int | None = SAMPLE,
    per_segment: bool = False,
) -> Sample:
    """Draw at most so many whole queries of a table, the same ones every time.

    Parquet files are streamed: their ids first, then the rows of the queries drawn. The rows of a query may be in
    several files.

    Args:
        data: `Queries`, or what `read_queries` takes.
        columns: The names of columns that are not called as usual.
        roles: Roles to read beside the usual ones, such as "value:margin".
        unjudged: How items without a grade count, for tables that do not say.
        sample: Number of queries; None for all.
        per_segment: Draw so many queries in addition from the segments, the same number from each.
    """
    if sample is not None and sample < 1:
        raise DataError(f"`sample=` must be at least 1, got {sample}")
    if isinstance(data, str | os.PathLike) and sample is not None and unjudged == "refuse":
        files = matching_files(data)
        if all(kind_of(file) == "parquet" for file in files):
            table = ParquetFiles.of(files, (columns or Columns()).with_roles(roles))
            if table.n_rows > sample and (drawn := _streamed(table, sample, per_segment=per_segment)) is not None:
                return drawn
            queries = queries_of(table.rows(), table.roles, table.name)  # no more of them than the sample would have
            return Sample(queries, len(queries), table_key(digests(queries.query_ids)))
    queries = as_queries(data, columns, unjudged, roles)
    key = table_key(digests(queries.query_ids))
    if sample is None or len(queries) <= sample:
        return Sample(queries, len(queries), key)
    segments = queries.need_segments() if per_segment else None
    chosen = in_sample(digests(queries.query_ids, key), sample, segments)
    return Sample(queries[np.flatnonzero(chosen)], len(queries), key)


def _streamed(table: ParquetFiles, sample: int, *, per_segment: bool) -> Sample | None:
    """Return the sample of files; None where they have no more queries than it would."""
    roles = ["query", "segment"] if per_segment and "segment" in table.roles.names else ["query"]
    with ThreadPoolExecutor(threads()) as pool:
        of_files = [*pool.map(lambda file: _first_of_each(_starts(table, file, roles)), table.files)]
    queries = _first_of_each(pa.concat_tables(of_files))
    if queries.num_rows <= sample:
        return None
    ids, *segments = (column.combine_chunks() for column in queries.columns)
    key = table_key(digests(ids))
    drawn = in_sample(digests(ids, key), sample, *(column.to_numpy(zero_copy_only=False) for column in segments))
    texts = {*ids.filter(pa.array(drawn)).to_pylist()}
    with ThreadPoolExecutor(threads()) as pool:
        of_files = [*pool.map(lambda file: _rows_of(table, file, texts), table.files)]
    rows = pa.concat_tables([part for parts in of_files for part in parts])
    name = f"{table.name}, rows of the sample"  # that an error counts
    return Sample(queries_of(rows.replace_schema_metadata(table.metadata), table.roles, name), queries.num_rows, key)


def _starts(table: ParquetFiles, file: File, roles: Sequence[str]) -> Any:
    """Return as text, of every row of a file where another query begins, the query's id and other roles."""
    columns = [table.roles.names[role] for role in roles]
    parts, done = [pa.table({role: pa.array([], pa.large_string()) for role in roles})], 0
    for batch in table.batches(file, columns):
        of_rows = [ids_of(batch, column, f"{file.name}, rows from {done + 1}") for column in columns]
        done += batch.num_rows
        starts = of_rows[0].runs()
        parts.append(pa.table([column.take(starts).texts for column in of_rows], names=list(roles)))
    return pa.concat_tables(parts)


def _first_of_each(queries: Any) -> Any:
    """Return the first row of each query of an Arrow table."""
    codes = queries["query"].combine_chunks().dictionary_encode().indices.to_numpy()
    return queries.take(pa.array(np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1))))


def _rows_of(table: ParquetFiles, file: File, ids: Set[str]) -> list[Any]:
    """Return the rows of a file that belong to the queries with some ids, as Arrow tables; none of an empty file."""
    parts = []
    for batch in table.batches(file):
        of_rows = ids_of(batch, table.roles.names["query"], file.name)
        starts = of_rows.runs()
        drawn = [text in ids for text in of_rows.take(starts).texts.to_pylist()]
        parts.append(batch.filter(pa.array(np.repeat(drawn, np.diff(starts, append=batch.num_rows)))))
    return parts


def _smallest(order: Hashes, n: int) -> NDArray[np.bool_]:
    """Return which of the numbers are the n smallest."""
    if order.size <= n:
        return np.ones(order.size, bool)
    return np.asarray(order <= np.partition(order, n - 1)[n - 1])
