"""Which numbers can be scores and grades: those that all later arithmetic, squares of sums included, can bear.

Integers and decimals become floats on the way in, so a float must hold every digit of them: two different scores must
not become a tie.
"""

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.errors import DataError

LARGEST = 1e50
LARGEST_FEATURE = 1e38  # in a float32, with room for differences
FEATURE_NEED = f"a feature is kept as a float32 and must lie within ±{LARGEST_FEATURE:g}"
EXACT = 2**53


def unfit(values: NDArray[Any], least: float = -LARGEST) -> NDArray[np.bool_]:
    """Where floats or integers are missing, infinite, below the least, too large or, as floats, no longer exact.

    Example:
        >>> unfit(np.array([1.0, np.nan, 1e60])), unfit(np.array([2**53, 2**53 + 1]))
        (array([False,  True,  True]), array([False,  True]))
    """
    if values.dtype.kind in "iu":
        return (values < max(least, -EXACT)) | (values > EXACT)
    return ~((values >= least) & (values <= LARGEST))


def needed(found: Any, least: float = -LARGEST) -> str:
    """What must stand in place of a number found unfit, in words."""
    if isinstance(found, int | np.integer) and abs(int(found)) > EXACT:
        return "as a float it may lose digits; integers must lie within ±2^53, give floats"
    if isinstance(found, Decimal) and found.is_finite():
        return "as a float it would lose digits; decimals must keep theirs (15 always do), round them or give floats"
    return f"it must be a finite number {'within ±' if least < 0 else '≥ 0, at most '}{LARGEST:g}"


def large_features(values: NDArray[Any]) -> NDArray[np.int64]:
    """Places, in order of rows, of features that are finite but too large for a float32."""
    if values.dtype.kind != "f" or values.dtype.itemsize <= 4:
        return np.empty(0, np.int64)
    return np.flatnonzero(np.isfinite(values) & (np.abs(values) > LARGEST_FEATURE))


def as_numbers(values: ArrayLike, name: str) -> NDArray[Any]:
    """An array of integers as they are, or of float64."""
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        raise DataError(f"row {int(np.argwhere(values.mask)[0, 0]) + 1}: {name} is masked; every row needs a number")
    try:
        given = np.asarray(values)
        floats = given if given.dtype.kind in "iucMmUS" else np.asarray(given, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} must be numbers: {error}") from None
    if given.dtype.kind in "cMmUS":
        raise DataError(f"{name} must be numbers, found {'text' if given.dtype.kind in 'US' else given.dtype}")
    if given.dtype.kind == "O" or (given.dtype.kind == "f" and isinstance(values, list | tuple)):
        _refuse_rounding(np.asarray(values, dtype=object), name)
    return floats


def _refuse_rounding(values: NDArray[Any], name: str) -> None:
    """Refuse text, and integers and decimals that stand among other numbers and would be rounded with them."""
    for place, value in np.ndenumerate(values):
        if isinstance(value, str | bytes):
            raise DataError(f"row {place[0] + 1}: {name} is {value!r}; needed is a number, not text")
        if rounded(value):
            raise DataError(f"row {place[0] + 1}: {name} is {value}; {needed(value)}")


def rounded(value: object) -> bool:
    """Whether an integer or a decimal would lose digits as a float.

    Example:
        >>> rounded(Decimal("0.1")), rounded(Decimal("1.00000000000000000001"))
        (False, True)
    """
    if isinstance(value, Decimal):
        return value.is_finite() and Decimal(repr(float(value))) != value
    return isinstance(value, int) and abs(value) > EXACT
