"""Causal softmax sums: the query i hears the keys j <= i alone, and with a window w those of them with j > i - w.

Everything here is a sum over prefixes: the query i hears the first counts[i] keys, where counts never decrease. With a
window, tokens are cut into stretches of w. A query hears a prefix of its own stretch, and of the stretch before it an
end, which is a prefix seen from behind. So no sum is ever the difference of two others.

Prefixes are summed in one of three ways, chosen from the inputs alone:

- "direct": all pairs one by one, half of n^2;
- "separable": the separable engine carries the moments of all keys before a block of queries over to the block, and
  pairs inside the block are summed directly (`causal_prefixes`);
- "halves": the queries of each half hear all keys of the half before it by another engine, quarters likewise, and so
  on; pairs inside the last parts are summed directly.

Sums over parts of the keys are merged by the logarithms of their totals, and each part is accurate relative to its own
total. Means err by at most 1e-10 of the diameter of all values, logarithms by 1e-10, and both by rounding.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow import engines
from attnflow.core.blocks import row_blocks
from attnflow.core.inputs import Array
from attnflow.engines import blocked, causal_kernels, causal_prefixes, compilation, dense, fast, kernels, separable
from attnflow.engines.centring import about_centre
from attnflow.engines.fused import CALL, LIGHTEST, binary_masses, coordinate_first
from attnflow.engines.simd import WIDTH

Sums = tuple[Array, Array]
Indices = NDArray[np.int64]
Given = tuple[Array, Array, Array, Array | None, float]

# With fewer pairs, and with shorter windows, all are summed directly.
FEW_PAIRS, SHORT = 1 << 23, 1 << 12
# Sums are merged only if exponents are at most this: then logarithms are rounded by less than 1e-11, and 1e-12.
LARGEST_EXPONENT, LARGEST_PRECISE = 3e4, 2e3
# The time, in pairs of the direct sum in the plane, to begin a block of queries.
BLOCK = 2e6
# If the separable way costs at most this many pairs per token, halves are not considered.
CHEAP = 5000.0
# From HALVES_DIMENSION dimensions on, halves by matrix products are faster than direct sums; their last parts have LEAF
# tokens.
HALVES_DIMENSION, LEAF = 8, 256

compilation.announce()


def softmax(
    queries: Array,
    keys: Array,
    values: Array,
    log_masses: Array | None,
    gain: float,
    window: int | None = None,
    precise: bool = False,
) -> Sums:
    """Return sum_j P_ij v_j and log sum_j w_j e^{g s_ij}, j from max(0, i - window + 1) to i.

    With `precise` sums are exact to rounding. A query that hears only keys without mass has the mean 0 and the
    logarithm -infinity.

    >>> x = np.random.default_rng(0).standard_normal((100, 2))
    >>> mean, log_total = softmax(x, x, x, None, 0.5)
    >>> weights = np.tril(np.exp(0.5 * x @ x.T))
    >>> bool(np.allclose(mean, weights @ x / weights.sum(axis=1)[:, None]))
    True
    """
    n = len(keys)
    last = np.arange(1, n + 1)
    first = np.zeros(n, dtype=np.int64) if window is None else np.maximum(last - window, 0)
    ends = np.arange(n + 1)
    if log_masses is not None and (log_masses == -np.inf).any():
        present = log_masses > -np.inf
        ends = np.append(0, np.cumsum(present))
        first, last = ends[first], ends[last]
        keys, values, log_masses = keys[present], values[present], log_masses[present]
    if not len(keys):
        return np.zeros((n, values.shape[1])), np.full(n, -np.inf)
    given = queries, keys, values, log_masses, gain
    if window is None or window >= n:
        mean, log_total = _prefixes(*given, last, precise)
    elif window <= SHORT:
        mean, log_total = _direct(*given, first, last)
    else:
        mean, log_total = _windows(given, ends, window, precise)
    mean[log_total == -np.inf] = 0.0
    return mean, log_total


def name(queries: Array, keys: Array, gain: float, columns: int | None = None) -> str:
    """Return how prefixes are summed, for values that are the keys, or with this number of columns.

    >>> x = np.random.default_rng(0).standard_normal((30_000, 2))
    >>> name(x, x, 1.0), name(x, x, 1e3), name(x[:1000], x[:1000], 1.0)
    ('separable', 'halves', 'direct')
    """
    return _plan(queries, keys, gain, columns, np.arange(1, len(keys) + 1), False).name


def _windows(given: Given, ends: Indices, window: int, precise: bool) -> Sums:
    """Return the sums over windows; `ends` says how many keys there are before each token."""
    queries, keys, values, log_masses, gain = given
    n = len(queries)
    mean, log_total = np.zeros((n, values.shape[1])), np.full(n, -np.inf)

    def part(rows: slice, heard: slice, counts: Indices) -> Sums:
        """Let some queries hear some of the keys, both perhaps from behind."""
        k = np.ascontiguousarray(keys[heard])
        q = k if queries is keys and rows == heard else np.ascontiguousarray(queries[rows])
        v = k if values is keys else np.ascontiguousarray(values[heard])
        return _prefixes(q, k, v, None if log_masses is None else log_masses[heard], gain, counts, precise)

    for begin in range(0, n, window):
        end = min(n, begin + window)
        rows, own = slice(begin, end), slice(ends[begin], ends[end])
        if own.start < own.stop:
            _merge(mean[rows], log_total[rows], part(rows, own, ends[begin + 1 : end + 1] - ends[begin]))
        if begin and ends[begin - window] < ends[begin]:
            # The query begin + s hears, of the keys before `begin`, those after begin + s - window.
            counts = ends[begin] - ends[begin + 1 - window : end + 1 - window]
            ahead = slice(end - 1, begin - 1, -1)
            before = slice(ends[begin] - 1, ends[begin - window] - 1 if ends[begin - window] else None, -1)
            _merge(mean[ahead], log_total[ahead], part(ahead, before, counts[::-1]))
    return mean, log_total


def _merge(mean: Array, log_total: Array, other: Sums) -> None:
    """Merge sums over other keys into these, which are changed."""
    with np.errstate(invalid="ignore"):
        total = np.logaddexp(log_total, other[1])
        share = np.exp(other[1] - total)
    share[total == -np.inf] = 0.0
    mean += share[:, None] * (other[0] - mean)
    log_total[...] = total


class _Plan(NamedTuple):
    """How prefixes are summed, what it costs in pairs of the direct sum in the plane, and the size of blocks.

    On a grid also the plan of the separable engine; for halves the choice of `fast`, None for the blocked engine.
    """

    name: str
    work: float
    block: int = 0
    made: separable.Plan | None = None
    choice: fast.Choice | None = None


def _plan(queries: Array, keys: Array, gain: float, columns: int | None, counts: Indices, precise: bool) -> _Plan:
    """Return the way with the least predicted work; `columns` are those of values other than the keys."""
    m, d = queries.shape
    pairs, width = float(counts.sum()), d if columns is None else columns
    pair = 1.0 if d == width == 2 else 0.9 + 0.125 * (d + width)
    plans = [_Plan("direct", pair * pairs)]
    if pairs < FEW_PAIRS and (d < HALVES_DIMENSION or pairs <= engines.BLOCKED_PAIRS):
        return plans[0]
    with np.errstate(over="ignore"):
        reach = gain * math.sqrt(float(_largest_square(queries)) * float(_largest_square(keys)))
    if not reach <= (LARGEST_PRECISE if precise else LARGEST_EXPONENT):
        return plans[0]
    if d >= HALVES_DIMENSION and pairs > engines.BLOCKED_PAIRS:
        return _Plan("halves", 0.0, LEAF)
    if d > separable.MOST_DIMENSIONS or precise:
        return plans[0]
    made = separable.plan(queries, keys, gain)
    if made is not None and width <= separable.MOST_COLUMNS:
        fields = 1 if columns is None and d > 1 and made.grid.has_gradient else 1 + width
        each = BLOCK + fields * made.grid.work
        block = math.ceil(math.sqrt(2 * each / pair))
        tokens = made.cost(m, len(keys)) - made.grid.work
        plans.append(_Plan("separable", m / block * each + pair * m * block / 2 + tokens, block, made))
        if plans[-1].work <= CHEAP * m:
            return plans[-1]
    plans.append(_halving(queries, keys, gain, counts, pair))
    return min(plans, key=lambda plan: plan.work)


def _halving(queries: Array, keys: Array, gain: float, counts: Indices, pair: float) -> _Plan:
    """Return the plan of halves: tokens are cut as long as that costs less than the pairs it saves.

    The rectangle in the middle of all tokens stands for the others of its size.
    """
    m = len(queries)
    middle = m // 2

    def rectangle(size: int) -> tuple[Array, Array, float]:
        return queries[middle : middle + size], keys[counts[middle - size] : counts[middle]], gain

    choice, work, size = fast.plan(*rectangle(m // 4)), 0.0, m // 2
    while size >= LEAF:
        given = rectangle(size)
        level = m / (2 * size) * fast.for_others(choice, *given).work
        if level >= pair * m * size / 2:
            break
        work, size = work + level, size // 2
    return _Plan("halves", work + pair * m * size, 2 * size, None, choice._replace(plan=None))


def _largest_square(rows: Array) -> float:
    return float(np.einsum("ik,ik->i", rows, rows).max())


@about_centre
def _prefixes(
    queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float, counts: Indices, precise: bool
) -> Sums:
    """Return the sums over the first counts[i] keys, which never decrease."""
    columns = None if values is keys else values.shape[1]
    plan = _plan(queries, keys, gain, columns, counts, precise)
    given = queries, keys, values, log_masses, gain
    if plan.name == "direct":
        return _direct(*given, np.zeros_like(counts), counts)
    m = len(queries)
    blocks = -(-m // plan.block)
    if plan.name == "halves":
        blocks = 1 << (blocks - 1).bit_length()
    cuts = np.arange(blocks + 1) * m // blocks
    # All queries of a block hear what the one before it hears.
    prefixes = np.append(0, counts)[cuts[:-1]]
    mean, log_total = _direct(*given, np.repeat(prefixes, np.diff(cuts)), counts)
    if plan.made is not None:
        v = plan.made.keys if values is keys and keys.shape[1] > 1 else np.require(values, np.float64, ["C", "W"])
        masses = np.empty(0) if log_masses is None else log_masses * kernels.LOG2E
        _merge(mean, log_total, causal_prefixes.softmax(plan.made, v, masses, cuts, prefixes))
    else:
        _halves(given, plan, cuts, prefixes, mean, log_total)
    return mean, log_total


def _halves(given: Given, plan: _Plan, cuts: Indices, prefixes: Indices, mean: Array, log_total: Array) -> None:
    """Merge the sums of each block over all earlier blocks: first one block, then two, four, and so on."""
    queries, keys, values, log_masses, gain = given
    together, count = 1, len(prefixes)
    while together < count:
        for block in range(0, count, 2 * together):
            rows = slice(cuts[block + together], cuts[block + 2 * together])
            heard = slice(prefixes[block], prefixes[block + together])
            if heard.start < heard.stop:
                q, k = queries[rows], keys[heard]
                v, masses = k if values is keys else values[heard], None if log_masses is None else log_masses[heard]
                _merge(mean[rows], log_total[rows], _rectangle(q, k, v, masses, gain, plan.choice))
        together *= 2


@about_centre
def _rectangle(
    queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float, choice: fast.Choice | None
) -> Sums:
    """Return the sums over all keys."""
    if choice is not None:
        made = fast.for_others(choice, queries, keys, gain)
        return fast.carry_out(made, queries, keys, values, log_masses, gain)
    return blocked.softmax(queries, keys, values, log_masses, gain)


@about_centre
def _direct(
    queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float, first: Indices, last: Indices
) -> Sums:
    """Return the sums over the keys from first[i] up to last[i], all pairs one by one; both ends never decrease."""
    m = len(queries)
    if log_masses is not None and log_masses.max() - log_masses.min() > LIGHTEST:
        return _dense(queries, keys, values, log_masses, gain, first, last)
    k = coordinate_first(keys)
    v = k if values is keys else coordinate_first(values)
    asked = k if queries is keys else coordinate_first(queries)
    scaled, largest = binary_masses(log_masses, k.shape[1])
    within = kernels.exponent_bound(asked, k, gain, np.empty(WIDTH)) <= kernels.UNSHIFTED
    mean, log_total = np.empty((m, len(v))), np.empty(m)
    for rows in row_blocks(m, int((last - first).max()) * (len(k) + len(v)), CALL):
        q = asked if m <= rows.stop - rows.start else coordinate_first(queries[rows])
        count, padded = len(queries[rows]), q.shape[1]
        ends = [np.append(end[rows], np.repeat(end[rows][-1:], padded - count)) for end in (first, last)]
        sums, total, top = np.empty((len(v), padded)), np.empty(padded), np.empty(padded)
        causal_kernels.softmax(q, k, v, *ends, scaled, gain, within, sums, total, top)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            log_total[rows] = gain * top[:count] + np.log(total[:count]) + largest
        mean[rows] = sums[:, :count].T
        mean[rows][total[:count] == 0] = 0.0
    return mean, log_total


def _dense(
    queries: Array, keys: Array, values: Array, log_masses: Array, gain: float, first: Indices, last: Indices
) -> Sums:
    """Return what `_direct` does, row by row: slow, for masses of any size."""
    mean, log_total = np.zeros((len(queries), values.shape[1])), np.full(len(queries), -np.inf)
    for i in np.flatnonzero(first < last).tolist():
        row, heard = slice(i, i + 1), slice(first[i], last[i])
        mean[row], log_total[row] = dense.softmax(queries[row], keys[heard], values[heard], log_masses[heard], gain)
    return mean, log_total
