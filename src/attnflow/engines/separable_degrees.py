"""Which products of Chebyshev polynomials the separable engine keeps: not all 16^d, because exponentials are entire.

In a panel, for a token on the other side at the place x (its coordinates divided by the half-widths of its box),

    e^{<zeta x, u>} = sum_k prod_a c_{k_a} T_{k_a}(u_a),    c_k = 2 I_k(zeta_a x_a), about 2 (zeta_a x_a / 2)^k / k!,

where zeta_a = kappa_a / (number of panels) is the change of the exponent over half a panel. So T_k is kept only if

    max_x prod_a (zeta_a x_a / 2)^{k_a} / k_a!  e^{zeta_a x_a}  *  max_a k_a^2  >=  e^LEAST:

the exponential makes the error relative to the smallest value in the panel, and k^2 is that of the gradient, which
only targets need: degrees of sources count k. The maximum is that of the product without the exponentials. A cloud
rarely fills the corners of its box: the maximum is over sum_a x_a^2 <= N only, N = 1 for a ball and d for a cube. With
e^LEAST = 7e-13 all that is left out changes no mean by more than 9e-11 of the half-width (tested on the worst panels).

Products with K change one coordinate after the other from sources to targets. In between the degrees of some axes
belong to sources, which x of the targets limit, those of others to targets: each stage has an index set of its own.
All are downward closed: with T_k they hold all T_j, j <= k, so they span the same polynomials in powers.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array
from attnflow.engines.separable_blocks import P

Indices = NDArray[np.int64]

LEAST = -28.0
# zeta and N are rounded up to multiples of these, so that sets are made once for many clouds.
ZETA_STEP, ROUND_STEP = 1 / 16, 1 / 16
_LOG_FACTORIALS = np.array([math.lgamma(k + 1) for k in range(P)])


class Stage(NamedTuple):
    """An index set of d axes: `lines` counts the k_1 with each (k_2, ..., k_d), `rows` the k_d with the others.

    Its numbers are in the order of the lines, those of the targets in the order of the rows: `seats` holds the place of
    each (k_1, ..., k_d), in C order.
    """

    number: int
    lines: Indices
    rows: Indices
    seats: NDArray[np.int32]


def stages(source_zeta: Array, target_zeta: Array, source_round: float, target_round: float) -> list[Stage]:
    """Return d + 1 index sets: that of the moments, after each product with K, and at last that of the targets.

    The first axis is the one that K takes next; what it makes of it comes last.
    """
    zetas = [tuple(math.ceil(z / ZETA_STEP) * ZETA_STEP for z in side.tolist()) for side in (source_zeta, target_zeta)]
    rounds = [math.ceil(N / ROUND_STEP) * ROUND_STEP for N in (source_round, target_round)]
    return [_stage(zetas[0][i:], zetas[1][:i], rounds[0], rounds[1]) for i in range(len(source_zeta) + 1)]


@lru_cache(256)
def _stage(source_zeta: tuple[float, ...], target_zeta: tuple[float, ...], sources: float, targets: float) -> Stage:
    d = len(source_zeta) + len(target_zeta)
    k = np.indices((P,) * d).reshape(d, -1)
    # Degrees of sources belong to e^{zeta x} for a target at x, and the other way round.
    size = _largest(k[: len(source_zeta)], source_zeta, targets) + _largest(k[len(source_zeta) :], target_zeta, sources)
    steep = np.maximum(k[: len(source_zeta)].max(axis=0, initial=1), k[len(source_zeta) :].max(axis=0, initial=0) ** 2)
    kept = (size + np.log(steep) >= LEAST).reshape((P,) * d)
    # Downward closed, whatever rounding did.
    for axis in range(d):
        kept = np.logical_and.accumulate(kept, axis=axis)
    seats = np.zeros(kept.shape, dtype=np.int32)
    if source_zeta:
        ordered, lines = np.moveaxis(seats, 0, -1), np.moveaxis(kept, 0, -1)
        ordered[lines] = np.arange(kept.sum())
    else:
        seats[kept] = np.arange(kept.sum())
    return Stage(int(kept.sum()), kept.reshape(P, -1).sum(axis=0), kept.reshape(-1, P).sum(axis=1), seats.ravel())


def _largest(k: Indices, zeta: tuple[float, ...], most: float) -> Array:
    """Return the logarithm of the largest product over sum_a x_a^2 <= most, x_a <= 1: x_a^2 grows like k_a."""
    square, full = np.zeros(k.shape), np.zeros(k.shape, dtype=bool)
    for _ in k:
        rest = np.where(full, 0, k)
        left = np.maximum(most - full.sum(axis=0), 0.0)
        square = np.where(full, 1.0, left * rest / np.maximum(rest.sum(axis=0), 1))
        full = square >= 1.0
    x = np.sqrt(np.minimum(square, 1.0))
    total = np.zeros(k.shape[1])
    for degree, place, z in zip(k, x, zeta, strict=True):
        total += np.where(degree > 0, degree * np.log(np.maximum(z * place / 2, 1e-300)), 0.0)
        total += z * place - _LOG_FACTORIALS[degree]
    return total
