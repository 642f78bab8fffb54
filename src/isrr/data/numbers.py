"""Columns of numbers, checked: which numbers can be scores and grades.

All later arithmetic, squares of sums included, must be able to bear them. Integers and decimals become floats, and a
float must hold every digit of them: two different scores must not become a tie. An error names the row and the column;
`isrr.data.tables` adds the file.
"""

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.errors import DataError, shown

LARGEST = 1e50
EXACT = 2**53


def such_rows(n: int) -> str:
    """Return how many rows have the same problem, to go on a message with; nothing for a single one.

    Example:
        >>> such_rows(31), such_rows(1)
        (' (31 such rows)', '')
    """
    return f" ({n:,} such rows)" if n > 1 else ""


def finite(values: ArrayLike, column: str, n_rows: int, least: float = -LARGEST) -> NDArray[np.float64]:
    """Return a copy of a column: one finite number per row, none below the least and none too large.

    Example:
        >>> finite([1, 2], "scores", 2)
        array([1., 2.])
    """
    array = numbers(values, column, n_rows)
    if array.size and unfit(np.array([array.min(), array.max()]), least).any():  # both are NaN if any is
        bad = unfit(array, least)
        row = int(np.argmax(bad))
        said = f"{array[row]}{such_rows(int(bad.sum()))}; {_expected(array[row], least)}"
        raise DataError(said, row=row, column=column)
    copy: NDArray[np.float64] = np.add(array, 0.0, dtype=np.float64)  # −0 and 0 are the same number
    return copy


def numbers(values: ArrayLike, column: str, n_rows: int) -> NDArray[Any]:
    """Return one number per row, NaN and infinity included: integers as they are, all others as float64."""
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        said = f"no value{such_rows(int(values.mask.sum()))}; expected one in every row"
        raise DataError(said, row=int(np.argmax(values.mask)), column=column)
    try:
        array = np.asarray(values)
        floats = array if array.dtype.kind in "iucMmUS" else np.asarray(array, np.float64)
    except (TypeError, ValueError, OverflowError):
        array = np.asarray(values, dtype=object)
        floats = array
    if array.dtype.kind in "cMmUS" or floats.dtype.kind == "O":
        raise _no_number(np.asarray(values, dtype=object), column)
    if array.dtype.kind == "O" or (array.dtype.kind == "f" and isinstance(values, list | tuple)):
        _refuse_rounding(np.asarray(values, dtype=object), column)
    if array.shape != (n_rows,):
        raise DataError(f"{column} has shape {array.shape}; expected ({n_rows},), one number per row")
    return floats


def unfit(values: NDArray[Any], least: float = -LARGEST) -> NDArray[np.bool_]:
    """Return where numbers are missing, infinite, below the least, too large or, as floats, no longer exact.

    Example:
        >>> unfit(np.array([1.0, np.nan, 1e60])), unfit(np.array([2**53, 2**53 + 1]))
        (array([False,  True,  True]), array([False,  True]))
    """
    if values.dtype.kind in "iu":
        return (values < max(least, -EXACT)) | (values > EXACT)
    return ~((values >= least) & (values <= LARGEST))


def _expected(number: Any, least: float = -LARGEST) -> str:
    """Return what is expected in place of a number."""
    if isinstance(number, int | np.integer) and abs(int(number)) > EXACT:
        return "it may lose digits as a float; expected integers within ±2^53, or floats"
    if isinstance(number, Decimal) and number.is_finite():
        return "it would lose digits as a float; expected at most 15 digits, or floats"
    return f"expected a finite number {'within ±' if least < 0 else '≥ 0, at most '}{LARGEST:g}"


def _no_number(values: NDArray[Any], column: str) -> DataError:
    """Return the refusal of the first value that does not read as a number, else of the first that is text."""
    if values.ndim != 1:
        return DataError(f"{column} must be one number per row, found an array with shape {values.shape}")
    listed = values.tolist()
    odd = [row for row, value in enumerate(listed) if not _reads_as_number(value)]
    odd = odd or [row for row, value in enumerate(listed) if isinstance(value, str | bytes)] or [0]
    value = listed[odd[0]]
    kind = "text" if isinstance(value, str) else type(value).__name__
    said = f"{shown(value)} ({kind}){such_rows(len(odd))}; expected a number"
    return DataError(said, row=odd[0], column=column)


def _reads_as_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _refuse_rounding(values: NDArray[Any], column: str) -> None:
    """Refuse text, and integers and decimals that would be rounded as floats."""
    if any(isinstance(value, str | bytes) for value in values.flat):
        raise _no_number(values, column)
    rounded = [row for row, value in enumerate(values.flat) if _is_rounded(value)]
    if rounded:
        value = values.flat[rounded[0]]
        said = f"{shown(value) if isinstance(value, int) else value}{such_rows(len(rounded))}; {_expected(value)}"
        raise DataError(said, row=rounded[0], column=column)


def _is_rounded(value: object) -> bool:
    """Return whether an integer or a decimal would lose digits as a float."""
    if isinstance(value, Decimal):
        return value.is_finite() and Decimal(repr(float(value))) != value
    return isinstance(value, int) and abs(value) > EXACT
