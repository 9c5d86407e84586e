"""The separable engine: softmax sums in up to three dimensions, in a time proportional to n, for moderate g R^2.

With centres c_s of the keys and c_t of the queries, k = c_s + s and q = c_t + t, a weight is

    w e^{g <q, k>} = e^{g <q, c_s>} (w e^{g <c_t, s>}) prod_a e^{g t_a s_a}.

Its first factor belongs to the query and leaves the mean; its second belongs to the key; the last is a product over the
coordinates. Cut each axis into panels on which g t_a s_a changes by at most 2 z, and there replace e^{g t_a s_a} by the
polynomial of degree 15 in each variable that interpolates it at the Chebyshev nodes, sum_kl K_kl T_k(u) T_l(v) for the
places u of t_a and v of s_a in their panels. Then

    Z(t) = sum_j w_j e^{g <c_t, s_j>} e^{g <t, s_j>}

is computed in three steps (Greengard and Strain 1991 for Gauss sums; Fong and Darve 2009 for Chebyshev nodes): moments
of the sources in each box, one small matrix K per axis, and a polynomial in the box of each target. Of the products of
Chebyshev polynomials only those are kept that matter (`separable_degrees`). If the values are the keys, the sums of w s
are the gradient of Z divided by g; otherwise, or where g t_a s_a hardly changes and the quotient would lose digits,
each column of values has moments of its own.

Interpolation errs by 2 I_16(z) in each variable, at most e^z times as much relative to a term. The gradient magnifies
this by up to 16^2 / z for the targets, and z = 2 leaves 9e-11 of the half-width of the cloud; sources may have wider
panels, and do where products with K are most of the work. Only their rounding limits the exponents: each box of the
grid carries its own power of two, and boxes too faint to be heard are left out of the products.

Measured in space, 10^5 normal tokens in a ball, CPU ms with all 16^3 products and with those kept: beta 1 72 and 41,
beta 4 801 and 439 (products with K 683 and 335, moments 44 and 40, evaluation 54 and 42). What did not help: a total
degree below 16 (816 products, but means err by 1e-6 at the corners of panels with z = 2; panels half as wide would do,
and cost 16 times as many products with K); numbers of one box, not of one product, next to each other in memory while
an axis is multiplied (to fetch them takes longer than moments save). What does help: to multiply all columns
by the matrices of eight target panels while these are in the cache (the products of a disc at beta 10, one thread, take
31 ms; if each line fetches all matrices, 41 ms); and not to multiply columns together that share no box (two clusters
at beta 300: 7.4 ms; together 8.9 ms).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnflow.core.inputs import Array
from attnflow.engines import fused
from attnflow.engines.centring import about_centre, ends
from attnflow.engines.compilation import on_one_thread
from attnflow.engines.kernels import LOG2E
from attnflow.engines.separable_grid import (
    CHEAP,
    Box,
    Grid,
    Side,
    along,
    evaluate_on,
    middle,
    moments_of,
    propagated,
    sorted_by_box,
    straight_box,
    turned_box,
)
from attnflow.engines.separable_places import turned

# The error of a mean, as a fraction of the diameter of the values, and of a logarithm.
TOLERANCE = 1e-10
MOST_DIMENSIONS = 3
MOST_COLUMNS = 4
# The time, in pairs of the fused engine, of a call, and of moving a token to or from the grid.
CALL, TOKEN, TOKEN_IN_SPACE = 2e6, 50.0, 200.0
# A box costs as much as this number of tokens, in the plane and in space.
BOX, BOX_IN_SPACE = 4, 30
# Tokens of a sample that tells whether a plan may be cheap enough.
SAMPLE = 8192


@dataclass(frozen=True, repr=False)
class Plan:
    """Queries and keys as given, in the plane at least, their rows in the axes of a grid, and that grid."""

    queries: Array
    keys: Array
    targets: Array
    sources: Array
    grid: Grid

    def cost(self, queries: int, keys: int) -> float:
        """The time of everything, in pairs of the fused engine, for these numbers of queries and keys."""
        grid = self.grid
        token, box = TOKEN, BOX
        if len(grid.kappa) == 3:
            token, box = TOKEN_IN_SPACE, BOX_IN_SPACE
        tokens = 0.0
        for number, side in ((keys, grid.sources), (queries, grid.targets)):
            tokens += number + box * min(number, math.prod(len(axis) for axis in side.held))
        return CALL + grid.work + token * tokens

    @cached_property
    def spread(self) -> float:
        """Over how many boxes the queries are spread: 1 over the chance that two of them are in the same one."""
        cut, box = self.grid.targets, np.zeros(len(self.targets))
        for a, most in enumerate(cut.panels.tolist()):
            place = (self.targets[:, a] - cut.box.centre[a]) * cut.scale[a] + most / 2
            box = box * most + np.clip(np.floor(place), 0, most - 1)
        size = np.unique(box, return_counts=True)[1].astype(float)
        return float(size.sum() * (size.sum() - 1) / max(size @ (size - 1), 1.0))


def _principal_axes(sides: tuple[Array, ...]) -> Array:
    """Return the principal axes of a sample of all sides as columns."""
    spread = np.zeros((sides[0].shape[1],) * 2)
    for rows in sides:
        x = rows[:: max(1, len(rows) // 4096)]
        x = x - x.mean(axis=0)
        square = np.einsum("ia,ib->ab", x, x)
        spread += square / max(float(np.trace(square)), 1e-300)
    return np.linalg.eigh(spread)[1] if np.isfinite(spread).all() else np.eye(len(spread))


def in_plane(rows: Array) -> Array:
    """Return rows with at least two coordinates, in the one memory layout that kernels are compiled for."""
    if rows.shape[1] == 1:
        rows = np.column_stack([rows, np.zeros(len(rows))])
    return np.require(rows, np.float64, ["C", "W"])


def plan(
    queries: Array, keys: Array, gain: float, most: Callable[[float], float] = lambda spread: math.inf
) -> Plan | None:
    """Return the cheaper of the given and the principal axes, None if the engine does not apply.

    Or None if the plan would cost more than `most`, a function of the number of boxes over which queries are
    spread. Some of the tokens show that: they are in fewer panels than all.
    """
    if not 1 <= keys.shape[1] <= MOST_DIMENSIONS or not len(queries):
        return None
    k = in_plane(keys)
    q = k if queries is keys else in_plane(queries)
    with np.errstate(all="ignore"):
        sources = Side(straight_box(*ends(k)), len(k))
        targets = sources if q is k else Side(straight_box(*ends(q)), len(q))
        some = None
        if len(k) >= 2 * SAMPLE and most(0.0) < math.inf:
            fullest = along(targets, sources, gain, np.eye(k.shape[1]))
            if fullest is None or fullest.work > CHEAP * (len(k) + len(q)):
                some = _of_sample(q, k, gain)
                if some is None or _too_dear(some, some, len(q), len(k), most):
                    return None
        made = _planned(q, k, targets, sources, gain)
    return None if made is None or _too_dear(made, some or made, len(q), len(k), most) else made


def _too_dear(made: Plan, like: Plan, queries: int, keys: int, most: Callable[[float], float]) -> bool:
    """Say whether these numbers of tokens, in the panels of a plan, cost more than `most` for the spread of `like`."""
    cost = made.cost(queries, keys)
    return cost > most(0.0) and cost > most(like.spread)


@on_one_thread
def _of_sample(q: Array, k: Array, gain: float) -> Plan | None:
    """Return the plan of a sample: with all tokens in its panels it costs nearly a lower bound of what they cost.

    The passes over so few tokens take less time than waking other threads.
    """
    some = k[:: len(k) // SAMPLE]
    return plan(some if q is k else q[:: max(1, len(q) // SAMPLE)], some, gain)


def _planned(q: Array, k: Array, targets: Side, sources: Side, gain: float) -> Plan | None:
    straight = along(targets, sources, gain, np.eye(k.shape[1]), (q, k))
    if straight is None or straight.work > CHEAP * (len(k) + len(q)):
        turn = _principal_axes((k,) if q is k else (k, q))
        sources, k_rows = _turned(k, sources.box, turn)
        targets, q_rows = (sources, k_rows) if q is k else _turned(q, targets.box, turn)
        other = along(targets, sources, gain, turn, (q_rows, k_rows))
        if other is not None and (straight is None or other.work < straight.work):
            return Plan(q, k, q_rows, k_rows, other)
    return None if straight is None else Plan(q, k, q, k, straight)


def _turned(rows: Array, straight: Box, turn: Array) -> tuple[Side, Array]:
    rows = turned(rows, straight.centre, np.ascontiguousarray(turn.T))
    return Side(turned_box(rows, straight, turn), len(rows)), rows


def name(queries: Array, keys: Array, gain: float) -> str:
    """Return which engine does the work: this one, or fused."""
    return "fused" if plan(queries, keys, gain) is None else "separable"


@about_centre
def softmax(queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float) -> tuple[Array, Array]:
    """Return sum_j P_ij v_j and log sum_j w_j e^{g s_ij}, within `TOLERANCE`."""
    return carry_out(plan(queries, keys, gain), queries, keys, values, log_masses, gain)


def carry_out(
    made: Plan | None, queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float
) -> tuple[Array, Array]:
    """Return what `softmax` does, by the plan made for these queries and keys."""
    if made is not None and values.shape[1] <= MOST_COLUMNS:
        v = made.keys if values is keys and keys.shape[1] > 1 else np.require(values, np.float64, ["C", "W"])
        masses = np.empty(0) if log_masses is None else log_masses * LOG2E
        if not len(masses) or masses.max() > -np.inf:
            return _softmax(made, v, masses)
    return fused.softmax(queries, keys, values, log_masses, gain)


def _softmax(made: Plan, v: Array, log2_masses: Array) -> tuple[Array, Array]:
    grid, itself = made.grid, v is made.keys
    sources = sorted_by_box(grid.sources, made.sources, grid.slope, log2_masses)
    targets = sources if grid.targets is grid.sources else sorted_by_box(grid.targets, made.targets)
    columns = v[:, :0] if itself and grid.has_gradient else v
    centre = grid.sources.box.origin if itself else middle(*ends(v))[0]
    mean, log_total = np.empty((len(made.targets), v.shape[1])), np.empty(len(made.targets))
    total = moments_of(grid, sources, columns, centre)
    for slab in propagated(grid, total, targets.full):
        evaluate_on(grid, targets, slab, centre, mean, log_total)
    return mean, log_total
