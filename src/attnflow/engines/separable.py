"""The separable engine: softmax sums in up to three dimensions, in a time proportional to n, for moderate g R^2.

With centres c_s of the keys and c_t of the queries, k = c_s + s and q = c_t + t, a weight is

    w e^{g <q, k>} = e^{g <q, c_s>} (w e^{g <c_t, s>}) prod_a e^{g t_a s_a}.

Its first factor belongs to the query and leaves the mean; its second belongs to the key; the last is a product over the
coordinates. Cut each axis into panels on which g t_a s_a changes by at most 2 z, and there replace e^{g t_a s_a} by the
polynomial of degree 15 in each variable that interpolates it at the Chebyshev nodes, sum_kl K_kl u^k v^l for the places
u of t_a and v of s_a in their panels. Then

    Z(t) = sum_j w_j e^{g <c_t, s_j>} e^{g <t, s_j>}

is computed in three steps (Greengard and Strain 1991 for Gauss sums; Fong and Darve 2009 for Chebyshev nodes): moments
of the sources in each box, one small matrix K per axis, and a polynomial in the box of each target. If the values are
the keys, the sums of w s are the gradient of Z divided by g; otherwise, or where g t_a s_a hardly changes and the
quotient would lose digits, each column of values has moments of its own.

Interpolation errs by 2 I_16(z) in each variable, at most e^z times as much relative to a term. The gradient magnifies
this by up to 16^2 / z for the targets, and z = 2 leaves 9e-11 of the half-width of the cloud; sources may have wider
panels, and do where products with K are most of the work. Only their rounding limits the exponents: each block of the
grid carries its own power of two, and blocks too faint to be heard are left out of the products.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array
from attnflow.engines import fused
from attnflow.engines.centring import about_centre, ends
from attnflow.engines.kernels import LOG2E
from attnflow.engines.separable_blocks import P
from attnflow.engines.separable_evaluation import evaluate
from attnflow.engines.separable_moments import moments
from attnflow.engines.separable_places import count, occupied, sort, turned
from attnflow.engines.separable_products import contract, exponentials, lift
from attnflow.engines.simd import WIDTH

Indices = NDArray[np.int64]

# The error of a mean, as a fraction of the diameter of the values, and of a logarithm.
TOLERANCE = 1e-10
MOST_DIMENSIONS = 3
MOST_COLUMNS = 4
# z above, for targets and for sources: g t_a s_a changes by at most 2 z while t_a, or s_a, moves through a panel.
PANEL, SOURCE_PANEL = 2.0, 2.25
# With at most this many boxes, empty ones are not looked for.
FEW_BOXES = 64
# Exponents g <t, s> and g <c_t, s> up to this size are rounded by less than 1e-11.
LARGEST_EXPONENT = 3e4
# Numbers in one field of the grid, or in one matrix.
LARGEST_GRID = 1 << 25
# At most SLAB numbers of the targets' grid are computed at once, in memory that is used again.
SLAB = 1 << 22
# Blocks are left out below this power of two of the largest, divided by n: terms in a box differ by up to e^{2 z} for
# each axis and each of source and target, and n d such blocks change no sum by 1e-11.
FAINT = -64.0
EPSILON = 2.0**-52
# The time, in pairs of the fused engine, of a call, and of moving a token to or from the grid.
CALL, TOKEN, TOKEN_IN_SPACE = 2e6, 50.0, 450.0
# If products cost less than this for each token, neither other axes nor a second sort are tried.
CHEAP = 50.0


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
class Panels:
    """A side whose box is cut into `panels` panels on each axis, and which of them hold a token."""

    side: Side
    panels: Indices
    held: list[Indices]

    @property
    def counts(self) -> Indices:
        """Numbers of panels that hold a token."""
        return np.array([len(axis) for axis in self.held])

    @property
    def scale(self) -> Array:
        """Panels per length."""
        scale: Array = self.panels / (2 * self.side.half)
        return scale

    def centres(self, a: int) -> Array:
        """Centres of the panels that hold a token on an axis, seen from the centre of all."""
        centres: Array = self.side.half[a] * ((2 * self.held[a] + 1) / self.panels[a] - 1)
        return centres


@dataclass(frozen=True, repr=False)
class Plan:
    """Queries and keys as given, in the plane at least; in common axes, the columns of `turn`, cut into panels.

    kappa_a = g H_s H_t for half-widths H. If `queries is keys` and products are cheap, both have the same panels.
    """

    queries: Array
    keys: Array
    gain: float
    turn: Array
    kappa: Array
    sources: Panels
    targets: Panels

    @property
    def largest(self) -> int:
        """A bound on the numbers in one field of a grid."""
        return P ** len(self.kappa) * math.prod(np.maximum(self.sources.counts, self.targets.counts).tolist())

    @property
    def work(self) -> float:
        """The time of the matrices K and of the products with them, in pairs of the fused engine."""
        sources, targets = ([float(P * len(axis)) for axis in side.held] for side in (self.sources, self.targets))
        total, grid = 0.0, math.prod(sources)
        for s, t, kappa in zip(sources, targets, self.kappa.tolist(), strict=True):
            # Of the panels, those count from which a target hears more than e^-55: for large kappa not all.
            share = 55 / max(2 * kappa, 55.0)
            total += grid * t * share * (1 - math.log(share)) / 10 + 8 * s * t
            grid *= t / s
        return total

    def cost(self, queries: int, keys: int) -> float:
        """The time of everything, in pairs of the fused engine, for these numbers of queries and keys."""
        gradient = self.targets.panels.min() > 1
        token = TOKEN if len(self.kappa) == 2 else TOKEN_IN_SPACE * (1 if gradient else 2)
        tokens = 0.0
        for number, side in ((keys, self.sources), (queries, self.targets)):
            # A box costs as much as four tokens.
            tokens += number + 4 * min(number, math.prod(len(axis) for axis in side.held))
        return CALL + self.work + token * tokens


def _box(rows: Array) -> tuple[Array, Array]:
    """Return the centre and the half-widths of the bounding box."""
    low, high = ends(rows)
    return high / 2 + low / 2, high / 2 - low / 2


def _straight(rows: Array) -> Side:
    """Return the rows in the given axes. Their box is a little wider, so that rounding stays inside."""
    centre, half = _box(rows)
    return Side(rows, centre, half * (1 + 1e-12) + 4 * EPSILON * float(np.abs(centre).max()) + 1e-150, centre)


def _turned(side: Side, turn: Array) -> Side:
    rows = turned(side.rows, side.centre, np.ascontiguousarray(turn.T))
    centre, half = _box(rows)
    slack = 16 * EPSILON * float(side.half.max())
    return Side(rows, centre, half * (1 + 1e-12) + slack + 1e-150, side.centre + turn @ centre)


def _cut(side: Side, kappa: Array, z: float) -> Panels:
    panels = np.maximum(1, np.ceil(kappa / z)).astype(np.int64)
    if math.prod(panels.tolist()) <= FEW_BOXES:
        return Panels(side, panels, [np.arange(number) for number in panels])
    seen = occupied(side.rows, side.centre, panels / (2 * side.half), panels).any(axis=0)
    return Panels(side, panels, [np.flatnonzero(axis) for axis in seen])


def _along(plan: tuple[Array, Array, float], queries: Side, keys: Side, turn: Array) -> Plan | None:
    """Return the plan in these axes, None if exponents or grids would become too large."""
    gain = plan[2]
    kappa = gain * keys.half * queries.half
    shift = float(gain * np.abs(turn.T @ queries.origin) @ keys.half)
    if not (kappa.sum() <= LARGEST_EXPONENT and shift <= LARGEST_EXPONENT):
        return None
    targets = _cut(queries, kappa, PANEL)
    result = Plan(*plan, turn, kappa, targets, targets)
    if queries is not keys or result.work > CHEAP * (len(keys.rows) + len(queries.rows)):
        result = Plan(*plan, turn, kappa, _cut(keys, kappa, SOURCE_PANEL), targets)
    widest = P**2 * int((result.sources.counts * targets.counts).max())
    return result if max(result.largest, widest) <= LARGEST_GRID else None


def _principal_axes(sides: tuple[Array, ...]) -> Array:
    """Return the principal axes of a sample of all sides as columns."""
    spread = np.zeros((sides[0].shape[1],) * 2)
    for rows in sides:
        x = rows[:: max(1, len(rows) // 4096)]
        x = x - x.mean(axis=0)
        square = np.einsum("ia,ib->ab", x, x)
        spread += square / max(float(np.trace(square)), 1e-300)
    return np.linalg.eigh(spread)[1] if np.isfinite(spread).all() else np.eye(len(spread))


def _in_plane(rows: Array) -> Array:
    """Return rows with at least two coordinates, in the one memory layout that kernels are compiled for."""
    if rows.shape[1] == 1:
        rows = np.column_stack([rows, np.zeros(len(rows))])
    return np.require(rows, np.float64, ["C", "W"])


def plan(queries: Array, keys: Array, gain: float) -> Plan | None:
    """Return the cheaper of the given and the principal axes, None if the engine does not apply."""
    if not 1 <= keys.shape[1] <= MOST_DIMENSIONS:
        return None
    k = _in_plane(keys)
    q = k if queries is keys else _in_plane(queries)
    with np.errstate(all="ignore"):
        sources = _straight(k)
        targets = sources if q is k else _straight(q)
        straight = _along((q, k, gain), targets, sources, np.eye(k.shape[1]))
        if straight is None or straight.work > CHEAP * (len(k) + len(q)):
            turn = _principal_axes((k,) if q is k else (k, q))
            sources = _turned(sources, turn)
            other = _along((q, k, gain), sources if q is k else _turned(targets, turn), sources, turn)
            if other is not None and (straight is None or other.work < straight.work):
                return other
    return straight


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
    k, gain, keys, queries = made.keys, made.gain, made.sources.side, made.targets.side
    slope = gain * LOG2E * (made.turn.T @ queries.origin)
    sources = _sorted(made.sources, slope, log2_masses)
    targets = sources if made.targets is made.sources else _sorted(made.targets, np.zeros(len(slope)), np.empty(0))
    gradient = v is k and made.targets.panels.min() > 1
    columns = v[:, :0] if gradient else v
    centre = keys.origin if v is k else _box(v)[0]
    fields, size = 1 + columns.shape[1], P ** len(slope) * math.prod(made.sources.counts.tolist())
    grid = np.zeros((fields, size))
    moments(*sources.tokens, sources.exponents, columns, centre, grid)
    mean, log_total = np.empty((len(queries.rows), v.shape[1])), np.empty(len(queries.rows))
    # d/du of e^{g t s} for t = h u is g h s e^{g t s}, h the half-width of a panel.
    width = queries.half / made.targets.panels
    back = made.turn / (gain * width) if gradient else made.turn
    # The factor e^{g <q, c_s>} of each query, for the centre of its box.
    slope = gain * (made.turn.T @ keys.origin)
    levels = np.full(len(targets.full), gain * float(queries.origin @ keys.origin))
    for a, seat in enumerate(np.unravel_index(targets.full, made.targets.counts)):
        levels += slope[a] * made.targets.centres(a)[seat]
    u, order, start, corner, counts = targets.tokens
    for slab in _propagated(made, grid, (sources.tops, targets.full)):
        here = slab.boxes
        higher = levels[here] + slab.scales / LOG2E
        boxes = start[here.start : here.stop + 1], corner[here] - slab.corner
        evaluate(u, order, *boxes, counts, slab.grid, higher, slope * width, back, centre, mean, log_total)
    return mean, log_total


class Slab(NamedTuple):
    """A part of the grid of the targets: some panels of the first axis, all of the others.

    `boxes` are the full ones it holds, `scales` their powers of two, `corner` is where it starts in the whole grid.
    """

    boxes: slice
    scales: Array
    grid: Array
    corner: int


def _propagated(made: Plan, sources: Array, boxes: tuple[Array, Indices]) -> Iterator[Slab]:
    """Yield the grid of the targets, slab by slab in the same memory, from that of the sources.

    `boxes` holds the scales of those of the sources, and which of those of the targets are full.
    """
    tops, full = boxes
    wanted = np.zeros(made.targets.counts, dtype=bool)
    wanted.ravel()[full] = True
    fields, d, gain, faintest = len(sources), len(made.kappa), made.gain, FAINT - math.log2(len(made.keys))
    matrices, shifts = [], []
    for a in range(d):
        t, s = made.targets.centres(a), made.sources.centres(a)
        width = [made.targets.side.half[a] / made.targets.panels[a], made.sources.side.half[a] / made.sources.panels[a]]
        matrices.append(exponentials(t, s, np.array(width), gain))
        shifts.append(gain * LOG2E * np.multiply.outer(t, s))
    # The number of boxes that one panel of the first axis needs, before or after the products with the others.
    panel = math.prod(np.maximum(made.sources.counts, made.targets.counts)[1:].tolist())
    together = min(len(wanted), max(1, SLAB // (P**d * panel)))
    rooms = [np.empty(fields * P**d * panel * together) for _ in range(2)]
    behind = wanted[0].size
    for first in range(0, len(wanted), together):
        part = slice(first, min(len(wanted), first + together))
        grid, scales, last = sources, tops, len(made.sources.held[-1])
        for a in range(d):
            K, shift = (matrices[a][part], shifts[a][part]) if a == 0 else (matrices[a], shifts[a])
            scales = scales.reshape(shift.shape[1], -1)
            lifted = lift(scales, shift)
            # The axes are now those of the sources that are left, then those of the targets up to this one.
            somebody = wanted[part].any(axis=tuple(range(a + 1, d))).ravel()
            lifted.reshape(-1, len(somebody))[:, ~somebody] = np.inf
            before = grid.reshape(fields, P * len(scales), -1)
            shape = fields, before.shape[2], P * len(shift)
            grid = rooms[a % 2][: math.prod(shape)].reshape(shape)
            contract(before, K, scales, shift, lifted, last, faintest, grid)
            scales, last = lifted, len(shift)
        here = slice(*np.searchsorted(full, [part.start * behind, part.stop * behind]).tolist())
        levels = scales.ravel()[full[here] - part.start * behind]
        yield Slab(here, levels, grid.reshape(fields, -1), part.start * behind * P**d)


class Boxes(NamedTuple):
    """Tokens sorted by box.

    `tokens` holds their places in their panels, their indices, where each box starts among them and where in the grid,
    for the boxes that hold a token, and the numbers of occupied panels. `exponents` are seen from the `tops` of the
    boxes; `full` are the boxes that hold a token.
    """

    tokens: tuple[Array, Indices, Indices, Indices, Indices]
    exponents: Array
    tops: Array
    full: Indices


def _sorted(cut: Panels, slope: Array, log2_masses: Array) -> Boxes:
    rows, counts, where = cut.side.rows, cut.counts, (cut.side.centre, cut.scale, cut.panels)
    seats = np.zeros((len(counts), cut.panels.max()), dtype=np.int64)
    for a, axis in enumerate(cut.held):
        seats[a, axis] = np.arange(len(axis))
    n, d = rows.shape
    code, exponents = np.empty(n, dtype=np.int32), np.empty(n)
    numbers, by_piece = count(rows, *where, seats, counts, slope, log2_masses, code, exponents)
    tops = by_piece.max(axis=0)
    ends = np.cumsum(numbers.T).reshape(numbers.T.shape)
    place = np.ascontiguousarray(ends.T) - numbers
    u, lower, order = np.zeros((d, n + WIDTH)), np.zeros(n + WIDTH), np.empty(n, dtype=np.int64)
    sort(rows, *where, code, exponents, place, tops, u, lower, order)
    size = numbers.sum(axis=0)
    full = np.flatnonzero(size)
    start = np.append(0, np.cumsum(size[full]))
    corner = np.zeros(len(full), dtype=np.int64)
    for seat, axis in zip(np.unravel_index(full, counts), cut.held, strict=True):
        corner = (corner * len(axis) + seat) * P
    return Boxes((u.ravel(), order, start, corner, counts), lower, tops, full)
