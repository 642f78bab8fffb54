"""Columns of numbers, checked: which numbers can be scores and grades.

All later arithmetic, squares of sums included, must be able to bear them. Integers and decimals become floats, and a
float must hold every digit of them: two different scores must not become a tie. An error names the row and the column;
`isrr.data.tables` adds the file.
"""

from collections.abc import Callable
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


def refuse_any(bad: NDArray[np.bool_], column: str, said: Callable[[int], str], expected: str) -> None:
    """Raise an error about the first bad row, if there is any: what it has, how many do, and what is expected."""
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(f"{said(row)}{such_rows(int(bad.sum()))}; {expected}", row=row, column=column)


def finite(values: ArrayLike, column: str, n_rows: int, least: float = -LARGEST) -> NDArray[np.float64]:
    """Return a copy of a column: one finite number per row, none below the least and none too large.

    Example:
        >>> finite([1, 2], "scores", 2)
        array([1., 2.])
    """
    array = numbers(values, column, n_rows)
    if array.size and unfit(np.array([array.min(), array.max()]), least).any():  # both are NaN if any is
        bad = unfit(array, least)
        refuse_any(bad, column, lambda row: str(array[row]), _expected(array[np.argmax(bad)], least))
    copy: NDArray[np.float64] = np.add(array, 0.0, dtype=np.float64)  # −0 and 0 are the same number
    return copy


def numbers(values: ArrayLike, column: str, n_rows: int) -> NDArray[Any]:
    """Return one number per row, NaN and infinity included: integers as they are, all others as float64."""
    if isinstance(values, np.ma.MaskedArray):
        refuse_any(np.ma.getmaskarray(values), column, lambda _: "no value", "expected one in every row")
    try:
        array = np.asarray(values)
        floats = array if array.dtype.kind in "iucMmUS" else np.asarray(array, np.float64)
    except (TypeError, ValueError, OverflowError):
        array = np.asarray(values, dtype=object)
        floats = array
    if array.dtype.kind in "OcMmUS" or (array.dtype.kind == "f" and isinstance(values, list | tuple)):
        _refuse_objects(np.asarray(values, dtype=object), column, floats.dtype.kind in "iuf")
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


def _refuse_objects(values: NDArray[Any], column: str, are_numbers: bool) -> None:
    """Refuse what does not read as a number, else text, and integers and decimals that would be rounded as floats."""
    listed = values.ravel().tolist()
    odd = [] if are_numbers else [not _reads_as_number(value) for value in listed]
    odd = odd if any(odd) else [isinstance(value, str | bytes) for value in listed]
    if any(odd) or not are_numbers:
        if values.ndim != 1:
            raise DataError(f"{column} must be one number per row, found an array with shape {values.shape}")
        odd = odd if any(odd) else [True, *odd[1:]]

        def said(row: int) -> str:
            return f"{shown(listed[row])} ({'text' if isinstance(listed[row], str) else type(listed[row]).__name__})"

        refuse_any(np.array(odd), column, said, "expected a number")
    rounded = np.array([_is_rounded(value) for value in listed])
    if rounded.any():
        value = listed[int(np.argmax(rounded))]
        refuse_any(rounded, column, lambda _: shown(value) if isinstance(value, int) else str(value), _expected(value))


def _reads_as_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _is_rounded(value: object) -> bool:
    """Return whether an integer or a decimal would lose digits as a float."""
    if isinstance(value, Decimal):
        return value.is_finite() and Decimal(repr(float(value))) != value
    return isinstance(value, int) and abs(value) > EXACT
