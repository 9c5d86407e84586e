"""Vectors of 512 bits inside Numba, eight doubles or sixteen floats: what the innermost loops compute with.

LLVM turns `<8 x double>` into one 512-bit register, or two or four narrower ones, whatever the machine has.
Indices of `load`, `store` and `spread` count from the start of a C-contiguous array of any shape, whose numbers are
float64 or float32 and decide which vectors they are; nothing is checked.
"""

from __future__ import annotations

import math
import operator
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, models, overload, register_model
from numpy.polynomial import chebyshev

BITS = 512
# The number of doubles in a vector; `width` tells it for the numbers of an array.
WIDTH = 8


class Lanes(types.Type):
    """Numba's name for `<8 x double>` and `<16 x float>`."""

    def __init__(self, number) -> None:
        self.number, self.width = number, BITS // number.bitwidth
        self.vector = ir.VectorType(ir.DoubleType() if number == types.float64 else ir.FloatType(), self.width)
        super().__init__(name=f"Lanes{self.width}")


lanes = {number: Lanes(number) for number in (types.float64, types.float32)}


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, fe_type) -> None:
        super().__init__(manager, fe_type, fe_type.vector)


def width(array):
    """Return how many numbers of an array are in a vector."""
    raise NotImplementedError("inside compiled code only")


@overload(width)
def _width(array):
    number = lanes[array.dtype].width
    return lambda array: number


def _constant(kind, value):
    return ir.Constant(kind, [value] * kind.count)


def _copies(builder, kind, scalar):
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, _constant(ir.VectorType(ir.IntType(32), kind.count), 0))


def _element(context, builder, signature, args):
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


def _muladd(builder, x, y, z):
    name = f"llvm.fmuladd.v{x.type.count}f{BITS // x.type.count}"
    known = builder.module.globals.get(name)
    function = known or ir.Function(builder.module, ir.FunctionType(x.type, [x.type] * 3), name)
    return builder.call(function, [x, y, z])


def _maximum(builder, x, y):
    return builder.select(builder.fcmp_ordered(">", x, y), x, y)


def _folded(builder, x, combine):
    """Combine the halves of a vector, the halves of the result, and so on to one number."""
    count = x.type.count
    while count > 1:
        count //= 2
        places = ir.VectorType(ir.IntType(32), count)
        low, high = (ir.Constant(places, list(range(first, first + count))) for first in (0, count))
        x = combine(builder, builder.shuffle_vector(x, x, low), builder.shuffle_vector(x, x, high))
    return builder.extract_element(x, ir.Constant(ir.IntType(32), 0))


@intrinsic
def splat(typing, value):
    """Copies of a number, in each lane of a vector of its kind."""
    number = types.float32 if value == types.float32 else types.float64
    kind = lanes[number]
    return kind(number), lambda context, builder, signature, args: _copies(builder, kind.vector, args[0])


@intrinsic
def filled(typing, array, value):
    """Copies of a number, in a vector of the kind of an array's numbers."""
    kind = lanes[array.dtype]
    return kind(array, array.dtype), lambda context, builder, signature, args: _copies(builder, kind.vector, args[1])


@intrinsic
def spread(typing, array, index):
    """Copies of one element of an array."""
    kind = lanes[array.dtype]

    def generate(context, builder, signature, args):
        return _copies(builder, kind.vector, builder.load(_element(context, builder, signature, args)))

    return kind(array, types.int64), generate


@intrinsic
def load(typing, array, index):
    """Consecutive elements of an array, as many as a vector has lanes."""
    kind = lanes[array.dtype]

    def generate(context, builder, signature, args):
        place = _element(context, builder, signature, args)
        return builder.load(builder.bitcast(place, kind.vector.as_pointer()), align=array.dtype.bitwidth // 8)

    return kind(array, types.int64), generate


@intrinsic
def store(typing, array, index, value):
    """Write consecutive elements of an array."""

    def generate(context, builder, signature, args):
        place = _element(context, builder, signature, args)
        builder.store(args[2], builder.bitcast(place, args[2].type.as_pointer()), align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, lanes[array.dtype]), generate


@intrinsic
def muladd(typing, x, y, z):
    """Return x y + z, rounded once where the machine can."""
    return x(x, x, x), lambda context, builder, signature, args: _muladd(builder, *args)


@intrinsic
def maximum(typing, x, y):
    """Return the larger of x and y, lane by lane."""
    return x(x, x), lambda context, builder, signature, args: _maximum(builder, *args)


@intrinsic
def lanes_above(typing, x, y):
    """Return a whole number whose bits say, from the lowest on, in which lanes x > y."""

    def generate(context, builder, signature, args):
        found = builder.bitcast(builder.fcmp_ordered(">", *args), ir.IntType(args[0].type.count))
        return builder.zext(found, ir.IntType(64))

    return types.int64(x, x), generate


@intrinsic
def largest(typing, x):
    """Return the largest number of a vector."""
    return x.number(x), lambda context, builder, signature, args: _folded(builder, args[0], _maximum)


@intrinsic
def added(typing, x):
    """Return the sum of the numbers of a vector."""

    def generate(context, builder, signature, args):
        return _folded(builder, args[0], lambda builder, y, z: builder.fadd(y, z))

    return x.number(x), generate


@intrinsic
def rounded_sum(typing, x, y):
    """Return x + y, where x and y may be products: these are rounded first, as in a loop without vectors."""
    return x(x, x), lambda context, builder, signature, args: builder.fadd(*args)


@intrinsic
def add_where(typing, total, term, low, high):
    """Return total + term where low <= high, and the total elsewhere."""

    def generate(context, builder, signature, args):
        total, term, low, high = args
        return builder.select(builder.fcmp_ordered("<=", low, high), builder.fadd(total, term), total)

    return total(total, term, low, high), generate


@intrinsic
def muladd_where(typing, x, y, total, low, high):
    """Return x y + total where low <= high, and the total elsewhere."""

    def generate(context, builder, signature, args):
        x, y, total, low, high = args
        return builder.select(builder.fcmp_ordered("<=", low, high), _muladd(builder, x, y, total), total)

    return total(x, y, total, low, high), generate


def _arithmetic(symbol, instruction):
    @intrinsic
    def operation(typing, x, y):
        def generate(context, builder, signature, args):
            return getattr(builder, instruction)(*args, flags=("contract",))

        return x(x, x), generate

    @overload(symbol)
    def overloaded(x, y):
        if isinstance(x, Lanes) and x == y:
            return lambda x, y: operation(x, y)
        return None


for _symbol, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _arithmetic(_symbol, _instruction)


class Power(NamedTuple):
    """How 2^y is computed in one precision: its fraction bits, the degree of the polynomial, and the least exponent."""

    bits: int
    degree: int
    least: float

    @property
    def polynomial(self) -> list[float]:
        """The coefficients of the interpolant of 2^f at the Chebyshev nodes of [-1/2, 1/2]."""
        series = chebyshev.chebinterpolate(lambda u: 2.0 ** (u / 2), self.degree)
        found = (chebyshev.cheb2poly(series) * 2.0 ** np.arange(self.degree + 1)).tolist()
        return [1.0, *found[1:]]  # equal scores get exactly equal, whole weights


# 2^y = 2^k 2^f with k the nearest whole number. Adding 1.5 * 2^52 (1.5 * 2^23) leaves k in the low bits of the sum, so
# these additions must never be reassociated. The polynomials err by 2e-15 and 2e-9; that of degree 8 by 1e-12.
_POWERS = {8: Power(52, 10, -1000.0), 16: Power(23, 6, -126.0)}
_POLYNOMIALS = {width: power.polynomial for width, power in _POWERS.items()}
_SHORT = Power(52, 8, -1000.0)


def _polynomial(builder, x, coefficients):
    *others, last = coefficients
    total = _constant(x.type, last)
    for coefficient in reversed(others):
        total = _muladd(builder, total, x, _constant(x.type, coefficient))
    return total


def _exp2(builder, exponent, polynomial=None):
    kind = exponent.type
    bits, integers = _POWERS[kind.count].bits, ir.VectorType(ir.IntType(BITS // kind.count), kind.count)
    large = _constant(kind, 1.5 * 2.0**bits)
    shifted = builder.fadd(exponent, large)
    fraction = builder.fsub(exponent, builder.fsub(shifted, large))
    power = _polynomial(builder, fraction, polynomial or _POLYNOMIALS[kind.count])
    whole = builder.shl(builder.bitcast(shifted, integers), _constant(integers, bits))
    return builder.bitcast(builder.add(builder.bitcast(power, integers), whole), kind)


@intrinsic
def exp2(typing, y):
    """Return 2^y for y <= 1000, and 0 below -1000; in floats, for y <= 127, and 0 below -126."""

    def generate(context, builder, signature, args):
        least = _constant(args[0].type, _POWERS[args[0].type.count].least)
        large_enough = builder.fcmp_ordered(">", args[0], least)
        return builder.select(large_enough, _exp2(builder, args[0]), _constant(args[0].type, 0.0))

    return y(y), generate


@intrinsic
def exp2_within(typing, y):
    """Return 2^y for |y| <= 1000."""
    return y(y), lambda context, builder, signature, args: _exp2(builder, args[0])


@intrinsic
def exp2_short(typing, y):
    """Return 2^y for eight doubles y <= 1000, up to 1e-12 of it; 2^-1000 for smaller ones."""

    def generate(context, builder, signature, args):
        least = _constant(args[0].type, _SHORT.least)
        return _exp2(builder, _maximum(builder, args[0], least), _SHORT.polynomial)

    return y(y), generate


# log2 m = (2 / log 2) (s + s^3 / 3 + s^5 / 5 + ...) for s = (m - 1) / (m + 1); for m between the roots of 1/2 and of 2,
# s^2 < .03, and what is left out is below 1e-18.
_LOGARITHM = [2 * math.log2(math.e) / (2 * k + 1) for k in range(11)]


def _log2(builder, y):
    kind, integers = y.type, ir.VectorType(ir.IntType(64), y.type.count)
    one, large, least = (_constant(kind, number) for number in (1.0, 1.5 * 2.0**52, 2.0**-1022))
    half_root, fraction = _constant(kind, math.sqrt(0.5)), _constant(integers, 52)
    bits = builder.bitcast(y, integers)
    # y = 2^k m
    k = builder.ashr(builder.sub(bits, builder.bitcast(half_root, integers)), fraction)
    m = builder.bitcast(builder.sub(bits, builder.shl(k, fraction)), kind)
    whole = builder.fsub(builder.bitcast(builder.add(k, builder.bitcast(large, integers)), kind), large)
    s = builder.fdiv(builder.fsub(m, one), builder.fadd(m, one))
    series = _polynomial(builder, builder.fmul(s, s), _LOGARITHM)
    normal = builder.and_(builder.fcmp_ordered(">=", y, least), builder.fcmp_ordered("<", y, _constant(kind, math.inf)))
    return builder.select(normal, _muladd(builder, s, series, whole), _constant(kind, math.nan))


@intrinsic
def log2(typing, y):
    """Return log2 y for eight doubles, up to 4e-16 of it; NaN where y is not a positive normal number."""
    return y(y), lambda context, builder, signature, args: _log2(builder, *args)
