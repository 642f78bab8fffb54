"""Eight numbers side by side, as a type of numba's: what LLVM puts into vector registers, however wide they are.

A compiler leaves loops over short lists, or with a recurrence inside, as they are. Here the order of every operation is
written out, so results are the same on every machine, whether a kernel is compiled alone or inside another.

`load` and `store` move eight numbers at a time and check no bounds: they are for scratch arrays made to measure.
"""

import operator
from typing import Any

from llvmlite import ir
from numba import extending
from numba.core import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model

from isrr.compiled import njit

WIDTH = 8
_FLOATS = ir.VectorType(ir.DoubleType(), WIDTH)
_WORDS = ir.VectorType(ir.IntType(64), WIDTH)
_INDEX = ir.IntType(32)
intrinsic: Any = extending.intrinsic  # its types do not say that kernels call without the typing context


class Lanes(types.Type):
    """The type of eight float64 side by side."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


LANES = Lanes()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _FLOATS)


def _arithmetic(symbol: Any, instruction: str) -> None:
    @infer_global(symbol)
    class _Typed(AbstractTemplate):
        def generic(self, args, kws):
            return signature(LANES, LANES, LANES) if args == (LANES, LANES) else None

    @lower_builtin(symbol, Lanes, Lanes)
    def _lowered(context, builder, kind, args):
        return getattr(builder, instruction)(*args)


_arithmetic(operator.add, "fadd")
_arithmetic(operator.sub, "fsub")
_arithmetic(operator.mul, "fmul")


def _shuffled(builder, value, order):
    mask = ir.Constant(ir.VectorType(_INDEX, len(order)), order)
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), mask)


@intrinsic
def splat(typing, value):
    """One number in all lanes."""

    def build(context, builder, kind, args):
        alone = builder.insert_element(ir.Constant(_FLOATS, ir.Undefined), args[0], ir.Constant(_INDEX, 0))
        return _shuffled(builder, alone, [0] * WIDTH)

    return LANES(types.float64), build


def _address(context, builder, kind, args):
    array = context.make_array(kind.args[0])(context, builder, args[0])
    return builder.bitcast(builder.gep(array.data, [args[1]]), _FLOATS.as_pointer())


@intrinsic
def load(typing, array, at):
    """The eight numbers of an array from one on."""

    def build(context, builder, kind, args):
        found = builder.load(_address(context, builder, kind, args))
        found.align = 8
        return found

    return LANES(array, types.int64), build


@intrinsic
def store(typing, array, at, value):
    """Eight numbers into an array from one on."""

    def build(context, builder, kind, args):
        builder.store(args[2], _address(context, builder, kind, args)).align = 8
        return context.get_dummy_value()

    return types.none(array, types.int64, LANES), build


@intrinsic
def added_up(typing, value):
    """The sum of the lanes: halves, quarters, eighths."""

    def build(context, builder, kind, args):
        value = args[0]
        for half in (4, 2, 1):
            low, high = _shuffled(builder, value, [*range(half)]), _shuffled(builder, value, [*range(half, 2 * half)])
            value = builder.fadd(low, high)
        return builder.extract_element(value, ir.Constant(_INDEX, 0))

    return types.float64(LANES), build


@intrinsic
def larger(typing, x, y):
    """The larger of two, lane by lane."""

    def build(context, builder, kind, args):
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return LANES(LANES, LANES), build


@intrinsic
def _times_power_of_two(typing, x, whole):
    # x · 2^n, where n stands in the low bits of 1.5 · 2⁵² + n
    def build(context, builder, kind, args):
        power = builder.shl(builder.bitcast(args[1], _WORDS), ir.Constant(_WORDS, [52] * WIDTH))
        return builder.bitcast(builder.add(builder.bitcast(args[0], _WORDS), power), _FLOATS)

    return LANES(LANES, LANES), build


ROUNDING = 6755399441055744.0  # 1.5 · 2⁵²: adding it rounds to a whole number
F3, F4, F5, F6, F7, F8, F9 = 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040, 1 / 40320, 1 / 362880


@njit(cache=True, nogil=True, error_model="numpy")
def exp(x):
    """e^x to 1e-11 of it, for x up to 700; below −700 it stays at e^−700."""
    x = larger(x, splat(-700.0))
    whole = x * splat(1.4426950408889634) + splat(ROUNDING)
    r = x - (whole - splat(ROUNDING)) * splat(0.6931471805599453)
    r2 = r * r
    r4 = r2 * r2
    low = (splat(1.0) + r) + r2 * (splat(0.5) + r * splat(F3))
    high = (splat(F4) + r * splat(F5)) + r2 * (splat(F6) + r * splat(F7))
    return _times_power_of_two(low + r4 * (high + r4 * (splat(F8) + r * splat(F9))), whole)


@njit(cache=True, nogil=True, error_model="numpy")
def exp_less_one(x):
    """e^x − 1 for 0 ≤ x ≤ ½, to 1e-12 of it."""
    x2 = x * x
    low = (splat(0.5) + x * splat(F3)) + x2 * (splat(F4) + x * splat(F5))
    high = (splat(F6) + x * splat(F7)) + x2 * (splat(F8) + x * splat(F9))
    return x + x2 * (low + (x2 * x2) * high)
