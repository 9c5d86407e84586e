"""The grid of the separable engine: panels on each axis, and the three steps from sources to means by way of it.

A grid is cut from the boxes around the keys and the queries; which panels hold a token may be looked up, to leave out
the others. The steps are functions of the grid and of some of the tokens, so that tokens may come in several chunks:
moments of sources are added up (`moments_of`), carried over to the targets (`propagated`), and evaluated there
(`evaluate_on`). The formulas are those of `separable`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array
from attnflow.engines.centring import ends
from attnflow.engines.kernels import LOG2E
from attnflow.engines.separable_blocks import P
from attnflow.engines.separable_degrees import Stage, stages
from attnflow.engines.separable_evaluation import evaluate
from attnflow.engines.separable_moments import moments
from attnflow.engines.separable_places import count, occupied, roundness, sort
from attnflow.engines.separable_products import LANES, contract, exponentials, lift
from attnflow.engines.simd import WIDTH

Indices = NDArray[np.int64]

# g t_a s_a changes by at most 2 z while t_a, or s_a, moves through a panel: z for targets and for sources.
PANEL, SOURCE_PANEL = 2.0, 2.4
# With at most this many boxes, empty ones are not looked for.
FEW_BOXES = 64
# Exponents g <t, s> and g <c_t, s> up to this size are rounded by less than 1e-11.
LARGEST_EXPONENT = 3e4
# Numbers in one field of the grid, or in one matrix.
LARGEST_GRID = 1 << 25
# At most SLAB numbers of the targets' grid are computed at once, in memory that is used again.
SLAB = 1 << 23
# Blocks are left out below this power of two of the largest, divided by n: terms in a box differ by up to e^{2 z} for
# each axis and each of source and target, and n d such blocks change no sum by 1e-11.
FAINT = -64.0
EPSILON = 2.0**-52
# If products cost less than this for each token, neither other axes nor a second sort are tried.
CHEAP = 50.0


@dataclass(frozen=True)
class Box:
    """The bounding box of keys, or queries, in the axes of the grid.

    `origin` is its centre in the axes of the user: x = origin + turn (row - centre).
    """

    centre: Array
    half: Array
    origin: Array


@dataclass(frozen=True)
class Panels:
    """A box cut into `panels` panels on each axis, and those of them that may hold a token.

    All tokens x, seen from the centre, have sum_a (x_a / half_a)^2 <= round.
    """

    box: Box
    panels: Indices
    held: list[Indices]
    round: float

    @property
    def counts(self) -> Indices:
        """Numbers of panels that may hold a token."""
        return np.array([len(axis) for axis in self.held])

    @property
    def scale(self) -> Array:
        """Panels per length."""
        scale: Array = self.panels / (2 * self.box.half)
        return scale

    def centres(self, a: int) -> Array:
        """Centres of the held panels on an axis, seen from the centre of all."""
        centres: Array = self.box.half[a] * ((2 * self.held[a] + 1) / self.panels[a] - 1)
        return centres


@dataclass(frozen=True, repr=False)
class Grid:
    """The boxes of this number of keys, and of queries, in common axes, the columns of `turn`, cut into panels.

    kappa_a = g H_s H_t for half-widths H. If queries are keys and products are cheap, both have the same panels.
    """

    gain: float
    number: int
    turn: Array
    kappa: Array
    sources: Panels
    targets: Panels

    @cached_property
    def stages(self) -> list[Stage]:
        """The index sets of the polynomials, from the moments of sources to the targets."""
        sources, targets = self.sources, self.targets
        return stages(self.kappa / sources.panels, self.kappa / targets.panels, sources.round, targets.round)

    @property
    def largest(self) -> int:
        """A bound on the moments of one field, which are held at once; the grid of the targets comes in slabs."""
        return math.prod(self.sources.counts.tolist()) * self.stages[0].number

    @property
    def has_gradient(self) -> bool:
        """Whether means of the keys may be found from the gradient of Z."""
        return bool(self.targets.panels.min() > 1)

    @property
    def slope(self) -> Array:
        """The binary exponent g <c_t, s> of a key s is the product with this."""
        slope: Array = self.gain * LOG2E * (self.turn.T @ self.targets.box.origin)
        return slope

    @property
    def work(self) -> float:
        """The time of the matrices K and of the products with them, in pairs of the fused engine."""
        sources, targets = ([len(axis) for axis in side.held] for side in (self.sources, self.targets))
        total, boxes = 0.0, math.prod(sources)
        for i, (s, t, kappa) in enumerate(zip(sources, targets, self.kappa.tolist(), strict=True)):
            # Of the panels, those count from which a target hears more than e^-55: for large kappa not all.
            share = 55 / max(2 * kappa, 55.0)
            each = float(self.stages[i].lines @ self.stages[i + 1].rows)
            total += each * boxes * t * share * (1 - math.log(share)) / 12 + 8 * P * P * s * t
            boxes = boxes * t // s
        return total


def middle(low: Array, high: Array) -> tuple[Array, Array]:
    """Return the centre and the half-widths of the box between two corners."""
    return high / 2 + low / 2, high / 2 - low / 2


def straight_box(low: Array, high: Array) -> Box:
    """Return the box between two corners in the given axes, a little wider, so that rounding stays inside."""
    centre, half = middle(low, high)
    return Box(centre, half * (1 + 1e-12) + 4 * EPSILON * float(np.abs(centre).max()) + 1e-150, centre)


def turned_box(rows: Array, straight: Box, turn: Array) -> Box:
    """Return the box of rows that were turned about the centre of their straight one."""
    centre, half = middle(*ends(rows))
    slack = 16 * EPSILON * float(straight.half.max())
    return Box(centre, half * (1 + 1e-12) + slack + 1e-150, straight.centre + turn @ centre)


def _cut(box: Box, kappa: Array, z: float, rows: Array | None) -> Panels:
    """Cut a box into panels; without rows all of them may hold a token."""
    panels = np.maximum(1, np.ceil(kappa / z)).astype(np.int64)
    most = float(len(kappa))
    if rows is not None:
        most = min(most, float(roundness(rows, box.centre, 1 / box.half).max()))
    if rows is None or math.prod(panels.tolist()) <= FEW_BOXES:
        return Panels(box, panels, [np.arange(number) for number in panels], most)
    seen = occupied(rows, box.centre, panels / (2 * box.half), panels).any(axis=0)
    return Panels(box, panels, [np.flatnonzero(axis) for axis in seen], most)


class Side(NamedTuple):
    """Keys, or queries: their box and their number."""

    box: Box
    number: int


def along(
    queries: Side,
    keys: Side,
    gain: float,
    turn: Array,
    rows: tuple[Array | None, Array | None] = (None, None),
    largest_shift: float = LARGEST_EXPONENT,
) -> Grid | None:
    """Return the grid in these axes, None if exponents or grids would become too large.

    `rows` are the queries and the keys in these axes, where they are at hand: panels that hold none are left out.
    Exponents g <c_t, s> seen from the centre of the keys may have the size `largest_shift`.
    """
    kappa = gain * keys.box.half * queries.box.half
    shift = float(gain * np.abs(turn.T @ queries.box.origin) @ keys.box.half)
    if not (kappa.sum() <= LARGEST_EXPONENT and shift <= largest_shift):
        return None
    targets = _cut(queries.box, kappa, PANEL, rows[0])
    result = Grid(gain, keys.number, turn, kappa, targets, targets)
    if queries is not keys or result.work > CHEAP * (keys.number + queries.number):
        result = Grid(gain, keys.number, turn, kappa, _cut(keys.box, kappa, SOURCE_PANEL, rows[1]), targets)
    widest = P**2 * int((result.sources.counts * targets.counts).max())
    return result if max(result.largest, widest) <= LARGEST_GRID else None


class Boxes(NamedTuple):
    """Tokens sorted by box.

    `tokens` holds their places in their panels, their indices, and where each of the `full` boxes, which hold a token,
    starts among them. `exponents` are seen from the `tops` of all boxes.
    """

    tokens: tuple[Array, Indices, Indices]
    exponents: Array
    tops: Array
    full: Indices


def sorted_by_box(cut: Panels, rows: Array, slope: Array | None = None, log2_masses: Array | None = None) -> Boxes:
    """Sort tokens by box; sources come with the slope of their exponents, and perhaps with masses."""
    counts, where = cut.counts, (cut.box.centre, cut.scale, cut.panels)
    seats = np.zeros((len(counts), cut.panels.max()), dtype=np.int64)
    for a, axis in enumerate(cut.held):
        seats[a, axis] = np.arange(len(axis))
    n, d = rows.shape
    slope, log2_masses = np.zeros(d) if slope is None else slope, np.empty(0) if log2_masses is None else log2_masses
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
    return Boxes((u.ravel(), order, start), lower, tops, full)


class Moments(NamedTuple):
    """Moments (fields, N, places) of sources, N numbers of the first index set, each box meant times 2^tops.

    The box of the panel s on the first axis and of columns[o], its number among the boxes of the other axes, is at the
    place s * len(columns) + o.
    """

    fields: Array
    tops: Array
    columns: Indices


def room_for(fields: int, numbers: int, boxes: int) -> Array:
    """Return zeros for a grid of this shape with some places more; vectors may read beyond its end.

    The numbers of a box are an odd number of cache lines apart: otherwise all of them would have to share a few.
    """
    apart = (-(-boxes // WIDTH) | 1) * WIDTH
    return np.zeros(fields * numbers * apart + LANES)[:-LANES].reshape(fields, numbers, apart)


def moments_of(grid: Grid, sources: Boxes, columns: Array, centre: Array) -> Moments:
    """Return the moments of the weights of the sources, and of the weights times each column of values - centre."""
    scales = sources.tops.reshape(len(grid.sources.held[0]), -1)
    kept = _together(scales > -np.inf)
    places = _places(scales.shape, kept)
    return Moments(
        moments_in(grid, sources, columns, centre, places[sources.full], len(scales) * len(kept)), sources.tops, kept
    )


def moments_in(
    grid: Grid, sources: Boxes, columns: Array, centre: Array, places: Indices, number: int | None = None
) -> Array:
    """Return the fields of `Moments`, with the full boxes at these places; `number` boxes have room there."""
    stage = grid.stages[0]
    fields = room_for(1 + columns.shape[1], stage.number, len(places) if number is None else number)
    moments(*sources.tokens, places, stage.lines, stage.rows, sources.exponents, columns, centre, fields)
    return fields


def _together(*held: NDArray[np.bool_]) -> Indices:
    """Return the columns that hold something; those that hold about the same, from first to last, follow each other."""
    ends = [end for boxes in held for end in (boxes.argmax(axis=0), boxes[::-1].argmax(axis=0))]
    order = np.lexsort(ends)
    return order[np.logical_and.reduce([boxes.any(axis=0) for boxes in held])[order]]


def _groups(scales: Array) -> Indices:
    """Return where each group of columns starts, and the end.

    A group has at most LANES columns; it ends sooner if it shares no box with the columns that would complete it.
    """
    starts = [0]
    alike = np.any(np.minimum(scales[:, 1:], scales[:, :-1]) > -np.inf, axis=0)
    for column, together in enumerate(alike, 1):
        first, end = starts[-1], starts[-1] + LANES
        if not together and column < end:
            here, rest = (scales[:, part].max(axis=1) for part in (slice(first, column), slice(column, end)))
            together = np.any(np.minimum(here, rest) > -np.inf)
        if not together or column == end:
            starts.append(column)
    return np.unique([*starts, scales.shape[1]])  # without columns there is no group


def _places(shape: tuple[int, ...], columns: Indices) -> Indices:
    """Return where each box is if only these columns are kept, negative for the others."""
    rank = np.full(shape[1], -1 - shape[0] * len(columns))
    rank[columns] = np.arange(len(columns))
    places: Indices = np.add.outer(np.arange(shape[0]) * len(columns), rank).ravel()
    return places


class Slab(NamedTuple):
    """A part of the grid of the targets: some panels of the first axis, all of the others.

    It starts with the box number `first`; each of its boxes is meant times 2^scales. `fields` has the shape of those of
    `Moments`, with the last index set.
    """

    first: int
    scales: Array
    fields: Array


class Factors(NamedTuple):
    """For each axis the matrices K between panels, and the binary exponents g t' s' of the centres t', s' of panels."""

    matrices: list[Array]
    shifts: list[Array]


def factors_of(grid: Grid) -> Factors:
    """Return what `propagated` multiplies with: it depends on the grid alone."""
    sources, targets, gain = grid.sources, grid.targets, grid.gain
    matrices, shifts = [], []
    for a in range(len(grid.kappa)):
        t, s = targets.centres(a), sources.centres(a)
        width = [targets.box.half[a] / targets.panels[a], sources.box.half[a] / sources.panels[a]]
        matrices.append(exponentials(t, s, np.array(width), gain))
        shifts.append(gain * LOG2E * np.multiply.outer(t, s))
    return Factors(matrices, shifts)


def propagated(
    grid: Grid, total: Moments, full: Indices | None = None, factors: Factors | None = None
) -> Iterator[Slab]:
    """Yield the grid of the targets, slab by slab in the same memory, from the moments of all sources.

    `full` lists the boxes of the targets that are wanted; without it all are. Who propagates several times over one
    grid computes the `factors` once.
    """
    sources, targets = grid.sources, grid.targets
    wanted = np.full(targets.counts, full is None)
    if full is not None:
        wanted.ravel()[full] = True
    fields, d, faintest = len(total.fields), len(grid.kappa), FAINT - math.log2(grid.number)
    matrices, shifts = factors_of(grid) if factors is None else factors
    # The size of one panel of the first axis, before or after the products with the others.
    numbers = max(stage.number for stage in grid.stages)
    panel = math.prod(np.maximum(sources.counts, targets.counts)[1:].tolist())
    together = min(len(wanted), max(1, SLAB // (panel * numbers)))
    rooms = [room_for(fields, numbers, panel * together) for _ in range(2)]
    behind = wanted[0].size
    for first in range(0, len(wanted), together):
        part = slice(first, min(len(wanted), first + together))
        slab, columns, scales = total.fields, total.columns, total.tops.reshape(len(sources.held[0]), -1)
        for a in range(d):
            K, shift = (matrices[a][part], shifts[a][part]) if a == 0 else (matrices[a], shifts[a])
            lifted = _lifted(scales, shift, wanted[part], a)
            # The axes are now those of the sources that are left, then those of the targets up to this one.
            if a + 1 < d:
                heard = np.where(lifted < np.inf, lifted, -np.inf).reshape(len(sources.held[a + 1]), -1)
                later = _lifted(heard, shifts[a + 1], wanted[part], a + 1)
                kept = _together(heard > -np.inf, np.isfinite(later).T)
                places = _places(heard.shape, kept).reshape(lifted.shape)
            else:
                heard, kept, places = lifted, columns, np.arange(lifted.size).reshape(lifted.shape)
            places = np.where(np.isfinite(lifted), places, -1)
            lines, (number, _, rows, seats) = grid.stages[a].lines, grid.stages[a + 1]
            # In between, boxes are next to each other, to be lanes; tokens take the numbers of one box at a time.
            room = rooms[a % 2]
            steps = (room[0].size, room.shape[2], 1) if a + 1 < d else (number * lifted.size, 1, number)
            own = scales[:, columns], shift, lifted[columns], faintest
            contract(slab, lines, K, _groups(own[0]), *own, rows, seats, places[columns], room.ravel(), steps)
            slab, columns, scales = room, kept, heard
        polynomials = slab.ravel()[: fields * steps[0]].reshape(fields, -1, number)
        yield Slab(part.start * behind, scales.ravel(), polynomials)


def _lifted(scales: Array, shift: Array, wanted: NDArray[np.bool_], a: int) -> Array:
    """Return the powers of two of the boxes after the product on the axis a, infinite where none is wanted."""
    lifted = lift(scales, shift)
    somebody = wanted.any(axis=tuple(range(a + 1, wanted.ndim))).ravel()
    lifted.reshape(-1, len(somebody))[:, ~somebody] = np.inf
    return lifted


def evaluate_on(grid: Grid, targets: Boxes, slab: Slab, centre: Array, mean: Array, log_total: Array) -> None:
    """Fill the mean and the logarithm of the total of each target whose box is in the slab.

    With one field alone the mean is that of the keys, from the gradient; otherwise `centre` was subtracted from values.
    """
    gain, queries, keys = grid.gain, grid.targets.box, grid.sources.box
    u, order, start = targets.tokens
    here = slice(*np.searchsorted(targets.full, [slab.first, slab.first + len(slab.scales)]).tolist())
    full = targets.full[here]
    # d/du of e^{g t s} for t = h u is g h s e^{g t s}, h the half-width of a panel.
    width = queries.half / grid.targets.panels
    back = grid.turn / (gain * width) if len(slab.fields) == 1 else grid.turn
    # The factor e^{g <q, c_s>} of each query, for the centre of its box.
    slope = gain * (grid.turn.T @ keys.origin)
    levels = np.full(len(full), gain * float(queries.origin @ keys.origin))
    for a, seat in enumerate(np.unravel_index(full, grid.targets.counts)):
        levels += slope[a] * grid.targets.centres(a)[seat]
    levels = levels + slab.scales[full - slab.first] / LOG2E
    boxes = start[here.start : here.stop + 1], full - slab.first
    stage = grid.stages[-1]
    evaluate(
        u, order, *boxes, stage.lines, stage.rows, slab.fields, levels, slope * width, back, centre, mean, log_total
    )
