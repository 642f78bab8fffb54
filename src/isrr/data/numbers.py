"""Columns of numbers, checked: which numbers can be scores and grades.

All later arithmetic, squares of sums included, must be able to bear them. Integers and decimals become floats, and a
float must hold every digit of them: two different scores must not become a tie. A refusal names the row and the column;
`isrr.data.columns` adds the file.
"""

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.errors import DataError, shown

LARGEST = 1e50
EXACT = 2**53


def finite(values: ArrayLike, column: str, n_rows: int, least: float = -LARGEST) -> NDArray[np.float64]:
    """A copy of a column of numbers: one finite number per row, none below the least and none too large.

    Example:
        >>> finite([1, 2], "scores", 2)
        array([1., 2.])
    """
    array = numbers(values, column, n_rows)
    if array.size and unfit(np.array([array.min(), array.max()]), least).any():  # both are NaN if any is
        row = int(np.argmax(unfit(array, least)))
        raise DataError(f"{array[row]}; {_expected(array[row], least)}", row=row, column=column)
    copy: NDArray[np.float64] = np.add(array, 0.0, dtype=np.float64)  # −0 and 0 are the same number
    return copy


def numbers(values: ArrayLike, column: str, n_rows: int) -> NDArray[Any]:
    """One number per row, NaN and infinity included: integers as they are, all others as float64."""
    array = _as_numbers(values, column)
    if array.shape != (n_rows,):
        raise DataError(f"{column} has shape {array.shape}; expected ({n_rows},), one number per row")
    return array


def unfit(values: NDArray[Any], least: float = -LARGEST) -> NDArray[np.bool_]:
    """Where floats or integers are missing, infinite, below the least, too large or, as floats, no longer exact.

    Example:
        >>> unfit(np.array([1.0, np.nan, 1e60])), unfit(np.array([2**53, 2**53 + 1]))
        (array([False,  True,  True]), array([False,  True]))
    """
    if values.dtype.kind in "iu":
        return (values < max(least, -EXACT)) | (values > EXACT)
    return ~((values >= least) & (values <= LARGEST))


def _expected(found: Any, least: float = -LARGEST) -> str:
    """What is expected in place of a number found unfit."""
    if isinstance(found, int | np.integer) and abs(int(found)) > EXACT:
        return "it may lose digits as a float; expected integers within ±2^53, or floats"
    if isinstance(found, Decimal) and found.is_finite():
        return "it would lose digits as a float; expected at most 15 digits, or floats"
    return f"expected a finite number {'within ±' if least < 0 else '≥ 0, at most '}{LARGEST:g}"


def _as_numbers(values: ArrayLike, column: str) -> NDArray[Any]:
    """An array of integers as they are, or of float64."""
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        row = int(np.argwhere(values.mask)[0, 0])
        raise DataError("no value; expected one in every row", row=row, column=column)
    try:
        given = np.asarray(values)
        floats = given if given.dtype.kind in "iucMmUS" else np.asarray(given, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise _no_number(np.asarray(values, dtype=object), column, str(error)) from None
    if given.dtype.kind in "cMmUS":
        raise _no_number(given, column, "text" if given.dtype.kind in "US" else str(given.dtype))
    if given.dtype.kind == "O" or (given.dtype.kind == "f" and isinstance(values, list | tuple)):
        _refuse_rounding(np.asarray(values, dtype=object), column)
    return floats


def _no_number(values: NDArray[Any], column: str, found: str) -> DataError:
    """The refusal of the first value that does not read as a number, else of the first that is text."""
    if values.ndim != 1:
        return DataError(f"{column} must be numbers, found {found}")
    given = values.tolist()
    odd = [row for row, value in enumerate(given) if not _reads_as_number(value)]
    row = next((row for row in (odd or range(len(given))) if odd or isinstance(given[row], str | bytes)), 0)
    kind = "text" if isinstance(given[row], str) else type(given[row]).__name__
    return DataError(f"{shown(given[row])} ({kind}); expected a number", row=row, column=column)


def _reads_as_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def _refuse_rounding(values: NDArray[Any], column: str) -> None:
    """Refuse text, and integers and decimals that would be rounded as floats."""
    for place, value in np.ndenumerate(values):
        if isinstance(value, str | bytes):
            raise _no_number(values, column, "text")
        if _rounded(value):
            raise DataError(f"{value}; {_expected(value)}", row=place[0], column=column)


def _rounded(value: object) -> bool:
    """Whether an integer or a decimal would lose digits as a float."""
    if isinstance(value, Decimal):
        return value.is_finite() and Decimal(repr(float(value))) != value
    return isinstance(value, int) and abs(value) > EXACT
