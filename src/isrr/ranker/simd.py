"""Eight numbers side by side: a type of numba's that LLVM puts into vector registers, and its plain twin.

The exact integral (`isrr.ranker.exact`) and the hedge (`isrr.risk.kernels`) are written with these operations. Where
`VECTORS` holds, each works on eight numbers; elsewhere `WIDTH` is 1 and each works on one, so that the same loops are
their own twin, slower and equal to 1e-9. Everything that depends on numba's internals is in this file.

`load`, `store` and `broadcast_at` check no bounds: callers make sure that the numbers are there. They take arrays and
pointers; a `pointer` counts no references, which takes a third of the time of short loops that hand on many arrays.
"""

import math
import operator
import platform
from typing import Any

import numba
import numpy as np

from isrr.compiled import config, kernel

ROW = 8  # numbers in a row of scratch memory, whatever the width
TRIED_NUMBA = (0, 61), (0, 69)  # from the first up to, but not including, the second
TRIED_PROCESSORS = ("x86_64", "amd64", "arm64", "aarch64")


def vectors_work() -> bool:
    """Return whether numba and the processor are among those on which the vector type was tried."""
    version = tuple(int(part) for part in numba.__version__.split(".")[:2])
    tried = TRIED_NUMBA[0] <= version < TRIED_NUMBA[1] and platform.machine().lower() in TRIED_PROCESSORS
    return tried and not config.DISABLE_JIT


VECTORS = vectors_work()
WIDTH = ROW if VECTORS else 1

if not VECTORS:

    @kernel
    def pointer(array, at):
        return array.ravel()[at:]

    @kernel
    def broadcast(value):
        return value

    @kernel
    def broadcast_at(array, at):
        return array[at]

    @kernel
    def load(array, at):
        return array[at]

    @kernel
    def store(array, at, value):
        array[at] = value

    @kernel
    def hsum(value):
        return value

    @kernel
    def hsum_rows(array, at):
        return array[at]

    @kernel
    def suffix_sums(value):
        return value

    @kernel
    def lane(value, at):
        return value

    @kernel
    def with_first(value, first):
        return first

    @kernel
    def larger(x, y):
        return x if x > y else y

    @kernel
    def select(x, y, then, otherwise):
        return then if x > y else otherwise

    @kernel
    def any_above(x, y):
        return x > y

    @kernel
    def root(x):
        return math.sqrt(x)

    @kernel
    def fma(x, y, z):
        return x * y + z

    @kernel
    def exp(x):
        return math.exp(max(x, -700.0))

    @kernel
    def exp_less_one(x):
        return math.expm1(x)

    @kernel
    def log(x):
        return np.log(x)

    @kernel
    def log_one_plus(x):
        return np.log1p(x)

else:
    from llvmlite import ir
    from numba import extending
    from numba.core import cgutils, types
    from numba.core.errors import TypingError
    from numba.core.typing.templates import AbstractTemplate, infer_global, signature
    from numba.extending import lower_builtin, models, register_model

    intrinsic: Any = extending.intrinsic  # its types do not say that kernels call without the typing context

    _FLOATS = ir.VectorType(ir.DoubleType(), WIDTH)
    _WORDS = ir.VectorType(ir.IntType(64), WIDTH)
    _INDEX = ir.IntType(32)

    class Lanes(types.Type):
        """The type of eight float64 side by side."""

        def __init__(self):
            super().__init__(name="Lanes")

    LANES = Lanes()

    @register_model(Lanes)
    class _LanesModel(models.PrimitiveModel):
        def __init__(self, manager, kind):
            super().__init__(manager, kind, _FLOATS)

    def _arithmetic(symbol, instruction):
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
    _arithmetic(operator.truediv, "fdiv")

    def _shuffled(builder, value, order):
        mask = ir.Constant(ir.VectorType(_INDEX, len(order)), order)
        return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), mask)

    def _broadcast(builder, number):
        alone = builder.insert_element(ir.Constant(_FLOATS, ir.Undefined), number, ir.Constant(_INDEX, 0))
        return _shuffled(builder, alone, [0] * WIDTH)

    def _floats(array):
        if array.dtype != types.float64:
            raise TypingError(f"lanes are loaded from arrays of float64, not of {array.dtype}")
        return array

    def _pointer(context, builder, kind, args):
        if isinstance(kind.args[0], types.CPointer):
            return builder.gep(args[0], [args[1]])
        array = context.make_array(kind.args[0])(context, builder, args[0])
        return builder.gep(array.data, [args[1]])

    def _row_pointer(context, builder, kind, args):
        return builder.bitcast(_pointer(context, builder, kind, args), _FLOATS.as_pointer())

    @intrinsic
    def pointer(typing, array, at):
        """Return where an array has a number.

        It counts no references when it is handed on, nor does it keep the array: only of arrays that the caller of a
        kernel holds.
        """

        def build(context, builder, kind, args):
            return _pointer(context, builder, kind, args)

        return types.CPointer(array.dtype)(array, types.int64), build

    @intrinsic
    def broadcast(typing, value):
        """Return one number in all lanes."""

        def build(context, builder, kind, args):
            return _broadcast(builder, args[0])

        return LANES(types.float64), build

    @intrinsic
    def broadcast_at(typing, array, at):
        """Return one number of an array in all lanes."""

        def build(context, builder, kind, args):
            return _broadcast(builder, builder.load(_pointer(context, builder, kind, args)))

        return LANES(_floats(array), types.int64), build

    @intrinsic
    def load(typing, array, at):
        """Return the numbers of an array from one on."""

        def build(context, builder, kind, args):
            row = builder.load(_row_pointer(context, builder, kind, args))
            row.align = 8
            return row

        return LANES(_floats(array), types.int64), build

    @intrinsic
    def store(typing, array, at, value):
        """Write lanes into an array from one number on."""

        def build(context, builder, kind, args):
            builder.store(args[2], _row_pointer(context, builder, kind, args)).align = 8
            return context.get_dummy_value()

        return types.none(_floats(array), types.int64, LANES), build

    @intrinsic
    def hsum(typing, value):
        """Return the sum of the lanes: halves, quarters, eighths."""

        def build(context, builder, kind, args):
            value = args[0]
            for half in (4, 2, 1):
                low, high = (
                    _shuffled(builder, value, [*range(half)]),
                    _shuffled(builder, value, [*range(half, 2 * half)]),
                )
                value = builder.fadd(low, high)
            return builder.extract_element(value, ir.Constant(_INDEX, 0))

        return types.float64(LANES), build

    @intrinsic
    def hsum_rows(typing, array, at):
        """Return the sums of eight rows, one per lane; each adds neighbours, then pairs, then fours."""

        def build(context, builder, kind, args):
            address, rows = _row_pointer(context, builder, kind, args), []
            for row in range(WIDTH):
                rows.append(builder.load(builder.gep(address, [ir.Constant(_INDEX, row)])))
                rows[-1].align = 8
            for span in (1, 2, 4):
                low = [i % span + 2 * span * (i // (2 * span)) + (WIDTH if i & span else 0) for i in range(WIDTH)]
                low, high = (ir.Constant(ir.VectorType(_INDEX, WIDTH), [i + more for i in low]) for more in (0, span))
                pairs = zip(rows[::2], rows[1::2], strict=True)
                rows = [
                    builder.fadd(builder.shuffle_vector(one, other, low), builder.shuffle_vector(one, other, high))
                    for one, other in pairs
                ]
            return rows[0]

        return LANES(_floats(array), types.int64), build

    @intrinsic
    def suffix_sums(typing, value):
        """Return in each lane the sum of this lane and those after it."""

        def build(context, builder, kind, args):
            value, nothing = args[0], ir.Constant(_FLOATS, [0.0] * WIDTH)
            for step in (1, 2, 4):
                order = ir.Constant(ir.VectorType(_INDEX, WIDTH), [*range(step, WIDTH + step)])
                value = builder.fadd(value, builder.shuffle_vector(value, nothing, order))
            return value

        return LANES(LANES), build

    @intrinsic
    def lane(typing, value, at):
        """Return the number in one lane."""

        def build(context, builder, kind, args):
            return builder.extract_element(*args)

        return types.float64(LANES, types.int64), build

    @intrinsic
    def with_first(typing, value, first):
        """Return the same with another number in the first lane."""

        def build(context, builder, kind, args):
            return builder.insert_element(*args, ir.Constant(_INDEX, 0))

        return LANES(LANES, types.float64), build

    @intrinsic
    def larger(typing, x, y):
        """Return the larger of two, lane by lane."""

        def build(context, builder, kind, args):
            return builder.select(builder.fcmp_ordered(">", *args), *args)

        return LANES(LANES, LANES), build

    @intrinsic
    def select(typing, x, y, then, otherwise):
        """Return `then` in the lanes where x > y, in the others `otherwise`."""

        def build(context, builder, kind, args):
            return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[2], args[3])

        return LANES(LANES, LANES, LANES, LANES), build

    @intrinsic
    def any_above(typing, x, y):
        """Return whether x > y in some lane."""

        def build(context, builder, kind, args):
            lanes = builder.bitcast(builder.fcmp_ordered(">", *args), ir.IntType(WIDTH))
            return builder.icmp_unsigned("!=", lanes, ir.Constant(ir.IntType(WIDTH), 0))

        return types.boolean(LANES, LANES), build

    def _llvm(name, n_arguments):
        # A function that LLVM has under this name, lane by lane.
        shape = ir.FunctionType(_FLOATS, [_FLOATS] * n_arguments)

        def build(context, builder, kind, args):
            return builder.call(cgutils.get_or_insert_function(builder.module, shape, f"llvm.{name}.v{WIDTH}f64"), args)

        return LANES(*[LANES] * n_arguments), build

    @intrinsic
    def root(typing, x):
        """Return the square roots."""
        return _llvm("sqrt", 1)

    @intrinsic
    def fma(typing, x, y, z):
        """Return x · y + z, lane by lane, rounded once."""
        return _llvm("fma", 3)

    @intrinsic
    def _times_power_of_two(typing, x, whole):
        # x · 2^n, where n stands in the low bits of 1.5 · 2⁵² + n
        def build(context, builder, kind, args):
            power = builder.shl(builder.bitcast(args[1], _WORDS), ir.Constant(_WORDS, [52] * WIDTH))
            return builder.bitcast(builder.add(builder.bitcast(args[0], _WORDS), power), _FLOATS)

        return LANES(LANES, LANES), build

    def _binary_exponent(builder, bits):
        # of what makes a number m · 2^n with √½ ≤ m < √2, from its bits
        root_of_half = ir.Constant(_WORDS, [0x3FE6A09E667F3BCD] * WIDTH)
        return builder.ashr(builder.sub(bits, root_of_half), ir.Constant(_WORDS, [52] * WIDTH))

    @intrinsic
    def _exponent(typing, x):
        # n of x = m · 2^n
        def build(context, builder, kind, args):
            return builder.sitofp(_binary_exponent(builder, builder.bitcast(args[0], _WORDS)), _FLOATS)

        return LANES(LANES), build

    @intrinsic
    def _mantissa(typing, x):
        # m of x = m · 2^n
        def build(context, builder, kind, args):
            bits = builder.bitcast(args[0], _WORDS)
            power = builder.shl(_binary_exponent(builder, bits), ir.Constant(_WORDS, [52] * WIDTH))
            return builder.bitcast(builder.sub(bits, power), _FLOATS)

        return LANES(LANES), build

    ROUNDING = 6755399441055744.0  # 1.5 · 2⁵²: adding it rounds to a whole number
    LN2, LN2_REST = 0.6931471805599453, 2.3190468138462996e-17  # together log 2 to 33 digits
    F3, F4, F5, F6, F7, F8 = 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040, 1 / 40320  # 1 / n!
    F9, F10, F11, F12, F13 = 1 / 362880, 1 / 3628800, 1 / 39916800, 1 / 479001600, 1 / 6227020800
    E0, E1, E2, E3 = 0.4999999999910196, 0.16666666756405615, 0.04166665191422137, 0.008333427093608176
    E4, E5, E6 = 0.0013885875033849112, 0.00019896607375926778, 2.4188151495504675e-05
    E7, E8, E9 = 3.1707411323184286e-06, 1.1053529223519315e-07, 5.890075658892684e-08

    @kernel
    def exp(x):
        """Return e^x to 4e-16 of it, for x up to 700; below −700 it stays at e^−700."""
        x = larger(x, broadcast(-700.0))
        whole = fma(x, broadcast(1.4426950408889634), broadcast(ROUNDING))
        n = whole - broadcast(ROUNDING)
        r = fma(n, broadcast(-LN2_REST), fma(n, broadcast(-LN2), x))
        r2 = r * r
        r4 = r2 * r2
        low = fma(r2, fma(r, broadcast(F3), broadcast(0.5)), broadcast(1.0) + r)
        middle = fma(r2, fma(r, broadcast(F7), broadcast(F6)), fma(r, broadcast(F5), broadcast(F4)))
        high = fma(r2, fma(r, broadcast(F11), broadcast(F10)), fma(r, broadcast(F9), broadcast(F8)))
        high = fma(r4, fma(r, broadcast(F13), broadcast(F12)), high)
        return _times_power_of_two(fma(r4, fma(r4, high, middle), low), whole)

    @kernel
    def exp_less_one(x):
        """Return e^x − 1 for 0 ≤ x ≤ 2, to 1e-11 of it: x + x² · a polynomial that meets it at ten Chebyshev points."""
        x2 = x * x
        x4 = x2 * x2
        low = fma(x2, fma(x, broadcast(E3), broadcast(E2)), fma(x, broadcast(E1), broadcast(E0)))
        middle = fma(x2, fma(x, broadcast(E7), broadcast(E6)), fma(x, broadcast(E5), broadcast(E4)))
        return fma(x2, fma(x4, fma(x4, fma(x, broadcast(E9), broadcast(E8)), middle), low), x)

    @kernel
    def log(x):
        """Return log x to 3e-16 of it, for positive, finite x: 2 artanh((m − 1) / (m + 1)) for the mantissa m."""
        n, m = _exponent(x), _mantissa(x)
        s = (m - broadcast(1.0)) / (m + broadcast(1.0))
        t = s * s
        t2 = t * t
        t4 = t2 * t2
        low = fma(t2, fma(t, broadcast(2 / 9), broadcast(2 / 7)), fma(t, broadcast(2 / 5), broadcast(2 / 3)))
        high = fma(t2, fma(t, broadcast(2 / 17), broadcast(2 / 15)), fma(t, broadcast(2 / 13), broadcast(2 / 11)))
        series = fma(t4, fma(t4, fma(t, broadcast(2 / 21), broadcast(2 / 19)), high), low)
        rest = fma(s * t, series, n * broadcast(LN2_REST))
        return fma(n, broadcast(LN2), s + s + rest)

    @kernel
    def log_one_plus(x):
        """Return log(1 + x) for x > −1, to 3e-16 or, where that is less, 3e-16 of it."""
        above = broadcast(1.0) + x
        rounded_off = x - (above - broadcast(1.0))
        return log(above) + select(above, broadcast(2.0), broadcast(0.0), rounded_off)  # which keeps NaN what it is
