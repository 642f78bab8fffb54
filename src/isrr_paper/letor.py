"""Read LETOR and SVMLight text: `label qid:ID 1:value 2:value … # comment`, plain or gzipped.

scikit-learn parses the lines. Query ids are whole numbers there; the features of a line that names none are 0.
"""

import io
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrr.data.formats import File
from isrr.errors import DataError, MissingExtraError
from isrr_paper.features import Featured

Group = str | os.PathLike[str] | Sequence[int]
MAX_FEATURES = 100_000  # rows are dense: a larger index is a slip, or needs another kind of reader
EXPECTED = "expected lines like `2 qid:7 1:0.5 2:1.25`"
_COMMENT = re.compile(rb"[ \t\r]*(?:docid[ \t\r]*[=:][ \t\r]*([^ \t\r]+).*|([^ \t\r]+)[ \t\r]*)")  # an id, if any


def read_letor(
    source: str | os.PathLike[str],
    *,
    group: Group | None = None,
    zero_based: bool = False,
    comment_ids: bool = False,
) -> Featured:
    """Read a LETOR or SVMLight file, plain or .gz.

    Args:
        source: Path of the file.
        group: For a file without `qid:`, the sizes of consecutive queries, or the file that lists them one per
            line, as LightGBM's `.query` does.
        zero_based: Whether the first feature has index 0; LETOR files count from 1.
        comment_ids: Take item ids from the comments, `#docid = GX000-00-0000000` or `# MED-1887`, where every row has
            one and none appears twice in a query.
    """
    file = Path(source)
    File.of(file).check()
    text = File.of(file).content().to_pybytes()
    matrix, relevance, query_ids = _parsed(text, file, zero_based, with_qid=group is None)
    sizes = None if group is None else _sizes(group)
    items = _item_ids(text, relevance.size) if comment_ids else None
    columns: dict[str, Any] = {"relevance": relevance, "group": sizes, "query_ids": query_ids, "features": matrix}
    try:
        if items is not None:
            try:
                return Featured.from_arrays(**columns, item_ids=items)
            except DataError as error:
                if "appears twice" not in str(error):
                    raise
        return Featured.from_arrays(**columns)
    except DataError as error:
        raise DataError(f"{file}: {error}") from None


def _parsed(
    text: bytes, file: Path, zero_based: bool, with_qid: bool
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
    """Dense features, labels and, where asked for, the query id of each row."""
    try:
        from sklearn.datasets import load_svmlight_file
    except ImportError:
        raise MissingExtraError("scikit-learn", "paper") from None
    try:
        sparse, labels, *ids = load_svmlight_file(
            io.BytesIO(text), dtype=np.float32, zero_based=zero_based, query_id=with_qid
        )
    except (ValueError, OverflowError, UnicodeDecodeError, IndexError) as error:
        said = str(error).partition("\n")[0]
        raise DataError(f"{file}: not LETOR text with whole-number query ids ({said}); {EXPECTED}") from None
    if labels.size == 0:
        raise DataError(f"{file}: no rows; {EXPECTED}")
    if with_qid and ids[0].size != labels.size:
        raise DataError(
            f"{file}: {labels.size - ids[0].size:,} of {labels.size:,} rows have no `qid:ID`; {EXPECTED}, or group "
            "sizes (`group=`)"
        )
    if sparse.shape[1] > MAX_FEATURES:
        raise DataError(f"{file}: feature {sparse.shape[1]}, but the largest index is {MAX_FEATURES}")
    if not np.isfinite(sparse.data).all():
        raise DataError(f"{file}: a feature is missing, infinite or too large for a float32; expected finite numbers")
    return sparse.toarray(), labels, ids[0] if with_qid else None


def _sizes(group: Group) -> Sequence[int]:
    """Return the sizes of consecutive queries, from a list or a file with one per line."""
    if not isinstance(group, str | os.PathLike):
        return group
    try:
        return [int(line) for line in Path(group).read_text(encoding="ascii").split()]
    except (OSError, ValueError) as error:
        raise DataError(f"{group}: not a list of group sizes, one whole number per line: {error}") from None


def _item_ids(text: bytes, n_rows: int) -> list[str] | None:
    """Return the item id in each row's comment; None where a row has none."""
    ids = []
    for line in text.splitlines():
        row, _, comment = line.partition(b"#")
        if row.strip():
            match = _COMMENT.fullmatch(comment)
            if match is None:
                return None
            ids.append((match[1] or match[2]).decode(errors="replace"))
    return ids if len(ids) == n_rows else None
