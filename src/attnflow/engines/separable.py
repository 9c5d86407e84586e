"""The separable engine: softmax sums in up to three dimensions, in a time proportional to n, for moderate g R^2.

With centres c_s of the keys and c_t of the queries, k = c_s + s and q = c_t + t, a weight is

    w e^{g <q, k>} = e^{g <q, c_s>} (w e^{g <c_t, s>}) prod_a e^{g t_a s_a}.

Its first factor belongs to the query and leaves the mean; its second belongs to the key; the last is a product over the
coordinates. Cut each axis into P_a panels on which g t_a s_a changes by at most 2 z in either variable, and there
replace e^{g t_a s_a} by the polynomial of degree 15 in each variable that interpolates it at the Chebyshev nodes,
sum_kl K_kl phi_k(t_a) phi_l(s_a). Then

    Z(t) = sum_j w_j e^{g <c_t, s_j>} e^{g <t, s_j>}

is computed in three steps (Greengard and Strain 1991 for Gauss sums; Fong and Darve 2009 for Chebyshev nodes): moments
of the sources in each box, one small matrix K per axis, and a polynomial in the box of each target. If the values are
the keys, the sums of w s are the gradient of Z divided by g; otherwise, or where g t_a s_a hardly changes and the
quotient would lose digits, each column of values has moments of its own.

Interpolation errs by 2 I_16(z) in each variable, at most e^z times as much relative to a term. The gradient magnifies
this by up to 16^2 / z, and z = 2 leaves 9e-11 of the half-width of the cloud. Only their rounding limits the exponents:
each block of the grid carries its own power of two, and blocks too faint to be heard are left out of the products.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow.engines import fused
from attnflow.engines import separable_kernels as kernels
from attnflow.engines.kernels import LOG2E
from attnflow.inputs import Array

Indices = NDArray[np.int64]

# The error of a mean, as a fraction of the diameter of the values, and of a logarithm.
TOLERANCE = 1e-10
MOST_DIMENSIONS = 3
MOST_COLUMNS = 4
# z above: g t_a s_a changes by at most 2 z while one of t_a, s_a moves through a panel.
PANEL = 2.0
# Exponents g <t, s> and g <c_t, s> up to this size are rounded by less than 1e-11.
LARGEST_EXPONENT = 3e4
# Numbers in one field of the grid, or in one matrix.
LARGEST_GRID = 1 << 25
EPSILON = 2.0**-52
# In pairs of the fused engine: a call, and the way of a token to or from the grid.
CALL, TOKEN, TOKEN_IN_SPACE = 2e6, 100.0, 650.0


@dataclass(frozen=True)
class Side:
    """Keys, or queries, in the axes of the plan, and their bounding box.

    `origin` is the centre of the box in the axes of the user: x = origin + turn (row - centre).
    """

    rows: Array
    centre: Array
    half: Array
    origin: Array


@dataclass(frozen=True)
class Plan:
    """Both sides in common axes, the columns of `turn`; kappa_a = g H_s H_t for half-widths H; P_a panels.

    `held` says which panels of each axis hold a token, of the keys and of the queries.
    """

    keys: Side
    queries: Side
    turn: Array
    kappa: Array
    panels: Indices
    held: tuple[list[Indices], list[Indices]]

    @property
    def work(self) -> float:
        """The time of the matrices K and of the products with them, in pairs of the fused engine."""
        sources, targets = ([float(kernels.P * len(panel)) for panel in side] for side in self.held)
        total, grid = 0.0, math.prod(sources)
        for s, t, kappa in zip(sources, targets, self.kappa.tolist(), strict=True):
            # Of the panels, those count from which a target hears more than e^-55: for large kappa not all.
            share = 55 / max(2 * kappa, 55.0)
            total += grid * t * share * (1 - math.log(share)) / 8 + 8 * s * t
            grid *= t / s
        return total

    @property
    def cost(self) -> float:
        """The time of everything, in pairs of the fused engine."""
        token = TOKEN if len(self.panels) == 2 else TOKEN_IN_SPACE * (2 if self.panels.min() == 1 else 1)
        tokens = 0.0
        for side, held in zip((self.keys, self.queries), self.held, strict=True):
            # A box costs as much as four tokens.
            tokens += len(side.rows) + 4 * min(len(side.rows), math.prod(len(panel) for panel in held))
        return CALL + self.work + token * tokens


def _box(rows: Array) -> tuple[Array, Array]:
    """Return the centre and the half-widths of the bounding box."""
    high, low = kernels.extent(rows).max(axis=0)
    return high / 2 - low / 2, high / 2 + low / 2


def _straight(rows: Array) -> Side:
    """Return the rows in the given axes. Their box is a little wider, so that rounding stays inside."""
    centre, half = _box(rows)
    return Side(rows, centre, half * (1 + 1e-12) + 4 * EPSILON * float(np.abs(centre).max()) + 1e-150, centre)


def _turned(side: Side, turn: Array) -> Side:
    rows = kernels.turned(side.rows, side.centre, np.ascontiguousarray(turn.T))
    centre, half = _box(rows)
    slack = 16 * EPSILON * float(side.half.max())
    return Side(rows, centre, half * (1 + 1e-12) + slack + 1e-150, side.centre + turn @ centre)


def _held(side: Side, panels: Indices) -> list[Indices]:
    seen = kernels.occupied(side.rows, side.centre, panels / (2 * side.half), panels).any(axis=0)
    return [np.flatnonzero(axis) for axis in seen]


def _along(queries: Side, keys: Side, turn: Array, gain: float) -> Plan | None:
    """Return the plan in these axes, None if exponents or grids would become too large."""
    kappa = gain * keys.half * queries.half
    shift = float(gain * np.abs(turn.T @ queries.origin) @ keys.half)
    if not (kappa.sum() <= LARGEST_EXPONENT and shift <= LARGEST_EXPONENT):
        return None
    panels = np.maximum(1, np.ceil(kappa / PANEL)).astype(np.int64)
    sources = _held(keys, panels)
    targets = sources if queries is keys else _held(queries, panels)
    pairs = list(zip(sources, targets, strict=True))
    largest = math.prod(kernels.P * max(len(s), len(t)) for s, t in pairs)
    widest = max(kernels.P**2 * len(s) * len(t) for s, t in pairs)
    fits = largest <= LARGEST_GRID and widest <= LARGEST_GRID
    return Plan(keys, queries, turn, kappa, panels, (sources, targets)) if fits else None


def _principal_axes(sides: tuple[Array, ...]) -> Array:
    """Return the principal axes of a sample of all sides as columns."""
    spread = np.zeros((sides[0].shape[1],) * 2)
    for rows in sides:
        x = rows[:: max(1, len(rows) // 4096)]
        x = x - x.mean(axis=0)
        square = np.einsum("ia,ib->ab", x, x)
        spread += square / max(float(np.trace(square)), 1e-300)
    return np.linalg.eigh(spread)[1] if np.isfinite(spread).all() else np.eye(len(spread))


def _plan(queries: Array, keys: Array, gain: float) -> Plan | None:
    """Return the cheaper of the given and the principal axes, None if the engine does not apply."""
    with np.errstate(all="ignore"):
        sources = _straight(keys)
        targets = sources if queries is keys else _straight(queries)
        plan = _along(targets, sources, np.eye(keys.shape[1]), gain)
        if plan is None or plan.work > len(keys) + len(queries):
            turn = _principal_axes((keys,) if queries is keys else (keys, queries))
            sources = _turned(sources, turn)
            other = _along(sources if queries is keys else _turned(targets, turn), sources, turn, gain)
            if other is not None and (plan is None or other.work < plan.work):
                return other
    return plan


def _in_plane(rows: Array) -> Array:
    """Return rows with at least two coordinates, in the one memory layout that kernels are compiled for."""
    if rows.shape[1] == 1:
        rows = np.column_stack([rows, np.zeros(len(rows))])
    return np.require(rows, np.float64, ["C", "W"])


def cost(queries: Array, keys: Array, gain: float) -> float:
    """Predict the time of `softmax`, in pairs of the fused engine; infinite where it would hand over."""
    if not 1 <= keys.shape[1] <= MOST_DIMENSIONS:
        return math.inf
    k = _in_plane(keys)
    plan = _plan(k if queries is keys else _in_plane(queries), k, gain)
    return math.inf if plan is None else plan.cost


def softmax(queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float) -> tuple[Array, Array]:
    """Return sum_j P_ij v_j and log sum_j w_j e^{g s_ij}, within `TOLERANCE`."""
    if 1 <= keys.shape[1] <= MOST_DIMENSIONS and values.shape[1] <= MOST_COLUMNS:
        k = _in_plane(keys)
        q = k if queries is keys else _in_plane(queries)
        v = k if values is keys and keys.shape[1] > 1 else np.require(values, np.float64, ["C", "W"])
        plan = _plan(q, k, gain)
        if plan is not None:
            return _softmax(plan, (q, k, v), log_masses, gain)
    return fused.softmax(queries, keys, values, log_masses, gain)


def _softmax(
    plan: Plan, arrays: tuple[Array, Array, Array], log_masses: Array | None, gain: float
) -> tuple[Array, Array]:
    q, k, v = arrays
    sources = _sorted(plan.keys, plan.panels, plan.held[0])
    targets = sources if q is k else _sorted(plan.queries, plan.panels, plan.held[1])
    log2_masses = np.empty(0) if log_masses is None else log_masses * LOG2E
    slope = gain * LOG2E * (plan.turn.T @ plan.queries.origin)
    boxes = math.prod(sources.counts.tolist())
    weights, tops = kernels.exponents(plan.keys.rows, plan.keys.centre, slope, log2_masses, sources.code, boxes)
    scales = tops.max(axis=0)
    kernels.weigh(weights, scales, sources.code)
    gradient = v is k and plan.panels.min() > 1
    columns = v[:, :0] if gradient else v
    centre = plan.keys.origin if v is k else _box(v)[0]
    grid = np.zeros((1 + columns.shape[1], kernels.P ** len(plan.panels) * boxes))
    kernels.moments(*sources.tokens, weights, columns, centre, grid)
    for a, (s, t) in enumerate(zip(sources.centres, targets.centres, strict=True)):
        width = np.array([plan.queries.half[a], plan.keys.half[a]]) / plan.panels[a]
        matrices = kernels.exponentials(t, s, width, gain)
        shifts = gain * LOG2E * np.multiply.outer(t, s)
        scales = scales.reshape(len(s), -1)
        lifted = kernels.lift(scales, shifts)
        if a == len(plan.panels) - 1:
            wanted = np.zeros(lifted.size, dtype=bool)
            wanted[targets.full] = True
            lifted[~wanted.reshape(lifted.shape)] = np.inf
        last = len(sources.centres[-1]) if a == 0 else len(targets.centres[a - 1])
        grid = grid.reshape(len(grid), kernels.P * len(s), -1)
        grid = kernels.contract(grid, matrices, scales, shifts, lifted, last)
        scales = lifted
    mean, log_total = np.empty((len(q), v.shape[1])), np.empty(len(q))
    # d/du of e^{g t s} for t = h u is g h s e^{g t s}, h the half-width of a panel.
    back = plan.turn * (plan.panels / (gain * plan.queries.half)) if gradient else plan.turn
    scales = scales.ravel()[targets.full]
    kernels.interpolate(*targets.tokens, grid.reshape(len(grid), -1), scales, back, centre, mean, log_total)
    kernels.add_scores(log_total, q, gain * plan.keys.origin)
    return mean, log_total


class Boxes(NamedTuple):
    """Tokens sorted by box.

    `tokens` holds their places in their panels, their indices, where each box starts among them and where in the grid,
    for the boxes that hold a token, and the numbers of occupied panels. `code` is the box of each token, unsorted;
    `full` are the boxes that hold a token; `centres` those of the occupied panels, seen from the centre of all.
    """

    tokens: tuple[Array, Indices, Indices, Indices, Indices]
    code: NDArray[np.int32]
    full: Indices
    centres: list[Array]

    @property
    def counts(self) -> Indices:
        """Numbers of occupied panels."""
        return self.tokens[-1]


def _sorted(side: Side, panels: Indices, held: list[Indices]) -> Boxes:
    scale = panels / (2 * side.half)
    counts = np.array([len(axis) for axis in held])
    seats = np.zeros((len(held), panels.max()), dtype=np.int64)
    for a, axis in enumerate(held):
        seats[a, axis] = np.arange(len(axis))
    code, numbers = kernels.count(side.rows, side.centre, scale, panels, seats, counts)
    ends = np.cumsum(numbers.T).reshape(numbers.T.shape)
    place = np.ascontiguousarray(ends.T) - numbers
    u, order = kernels.sort(side.rows, code, place, side.centre, scale, panels)
    size = numbers.sum(axis=0)
    full = np.flatnonzero(size)
    start = np.append(0, np.cumsum(size[full]))
    corner = np.zeros(len(full), dtype=np.int64)
    for seat, axis in zip(np.unravel_index(full, counts), held, strict=True):
        corner = (corner * len(axis) + seat) * kernels.P
    centres = [h * ((2 * axis + 1) / p - 1) for h, p, axis in zip(side.half, panels, held, strict=True)]
    return Boxes((u.ravel(), order, start, corner, counts), code, full, centres)
