"""Eight doubles at once inside Numba: the vector type behind the fused softmax kernel.

LLVM turns `<8 x double>` into one 512-bit register, or two or four narrower ones, whatever the machine has.
Indices of `load`, `store` and `spread` count from the start of a C-contiguous float64 array of any shape;
nothing is checked.
"""

from __future__ import annotations

import operator

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, models, overload, register_model
from numpy.polynomial import chebyshev

WIDTH = 8

_vector = ir.VectorType(ir.DoubleType(), WIDTH)
_integers = ir.VectorType(ir.IntType(64), WIDTH)


class Lanes(types.Type):
    """Numba's name for `<8 x double>`."""

    def __init__(self) -> None:
        super().__init__(name=f"Lanes{WIDTH}")


lanes = Lanes()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, fe_type) -> None:
        super().__init__(manager, fe_type, _vector)


def _constant(value, kind=_vector):
    return ir.Constant(kind, [value] * WIDTH)


def _copies(builder, scalar):
    undefined = ir.Constant(_vector, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH))


def _element(context, builder, signature, args):
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


def _muladd(builder, x, y, z):
    name = f"llvm.fmuladd.v{WIDTH}f64"
    known = builder.module.globals.get(name)
    function = known or ir.Function(builder.module, ir.FunctionType(_vector, [_vector] * 3), name)
    return builder.call(function, [x, y, z])


def _maximum(builder, x, y):
    return builder.select(builder.fcmp_ordered(">", x, y), x, y)


@intrinsic
def splat(typing, value):
    """Eight copies of a number."""
    return lanes(types.float64), lambda context, builder, signature, args: _copies(builder, args[0])


@intrinsic
def spread(typing, array, index):
    """Eight copies of one element of an array."""

    def generate(context, builder, signature, args):
        return _copies(builder, builder.load(_element(context, builder, signature, args)))

    return lanes(array, types.int64), generate


@intrinsic
def load(typing, array, index):
    """Eight consecutive elements of an array."""

    def generate(context, builder, signature, args):
        place = _element(context, builder, signature, args)
        return builder.load(builder.bitcast(place, _vector.as_pointer()), align=8)

    return lanes(array, types.int64), generate


@intrinsic
def store(typing, array, index, value):
    """Write eight consecutive elements of an array."""

    def generate(context, builder, signature, args):
        place = _element(context, builder, signature, args)
        builder.store(args[2], builder.bitcast(place, _vector.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(array, types.int64, lanes), generate


@intrinsic
def muladd(typing, x, y, z):
    """Return x y + z, rounded once where the machine can."""
    return lanes(lanes, lanes, lanes), lambda context, builder, signature, args: _muladd(builder, *args)


@intrinsic
def maximum(typing, x, y):
    """Return the larger of x and y, lane by lane."""
    return lanes(lanes, lanes), lambda context, builder, signature, args: _maximum(builder, *args)


@intrinsic
def rounded_sum(typing, x, y):
    """Return x + y, where x and y may be products: these are rounded first, as in a loop without vectors."""
    return lanes(lanes, lanes), lambda context, builder, signature, args: builder.fadd(*args)


@intrinsic
def add_where(typing, total, term, low, high):
    """Return total + term where low <= high, and the total elsewhere."""

    def generate(context, builder, signature, args):
        total, term, low, high = args
        return builder.select(builder.fcmp_ordered("<=", low, high), builder.fadd(total, term), total)

    return lanes(lanes, lanes, lanes, lanes), generate


@intrinsic
def muladd_where(typing, x, y, total, low, high):
    """Return x y + total where low <= high, and the total elsewhere."""

    def generate(context, builder, signature, args):
        x, y, total, low, high = args
        return builder.select(builder.fcmp_ordered("<=", low, high), _muladd(builder, x, y, total), total)

    return lanes(lanes, lanes, lanes, lanes, lanes), generate


def _arithmetic(symbol, instruction):
    @intrinsic
    def operation(typing, x, y):
        def generate(context, builder, signature, args):
            return getattr(builder, instruction)(*args, flags=("contract",))

        return lanes(lanes, lanes), generate

    @overload(symbol)
    def overloaded(x, y):
        if isinstance(x, Lanes) and isinstance(y, Lanes):
            return lambda x, y: operation(x, y)
        return None


for _symbol, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _arithmetic(_symbol, _instruction)


# 2^y = 2^k 2^f with k the nearest whole number. Adding 1.5 * 2^52 leaves k in the low bits of the sum, so these
# additions must never be reassociated. The interpolant of 2^f at the Chebyshev nodes of [-1/2, 1/2] errs by 3e-16.
_ROUND = 1.5 * 2.0**52
_DEGREE = 10
_POLYNOMIAL = (
    chebyshev.cheb2poly(chebyshev.chebinterpolate(lambda u: 2.0 ** (u / 2), _DEGREE)) * 2.0 ** np.arange(_DEGREE + 1)
).tolist()
_POLYNOMIAL[0] = 1.0  # equal scores get exactly equal, whole weights
_SMALLEST = -1000.0


def _exp2(builder, exponent):
    shifted = builder.fadd(exponent, _constant(_ROUND))
    fraction = builder.fsub(exponent, builder.fsub(shifted, _constant(_ROUND)))
    power = _constant(_POLYNOMIAL[-1])
    for coefficient in reversed(_POLYNOMIAL[:-1]):
        power = _muladd(builder, power, fraction, _constant(coefficient))
    whole = builder.shl(builder.bitcast(shifted, _integers), _constant(52, _integers))
    return builder.bitcast(builder.add(builder.bitcast(power, _integers), whole), _vector)


@intrinsic
def exp2(typing, y):
    """Return 2^y for y <= 1000, and 0 below -1000."""

    def generate(context, builder, signature, args):
        large_enough = builder.fcmp_ordered(">", args[0], _constant(_SMALLEST))
        return builder.select(large_enough, _exp2(builder, args[0]), _constant(0.0))

    return lanes(lanes), generate


@intrinsic
def exp2_within(typing, y):
    """Return 2^y for |y| <= 1000."""
    return lanes(lanes), lambda context, builder, signature, args: _exp2(builder, args[0])
