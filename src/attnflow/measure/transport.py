"""How far apart two clouds are as measures: W_p(mu, nu)^p = min E|x - y|^p over all couplings of x ~ mu and y ~ nu.

On the line the quantiles are coupled, which is sorting. Elsewhere it is a linear program with an unknown for each pair,
which POT solves exactly by the network simplex method. Against a million tokens that is out of reach: `quantise` then
gives bounds from both sides.
"""

from __future__ import annotations

import heapq
import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core.environment import lent
from attnflow.core.inputs import Array, InputError, cloud, mass_vector, number, shares, whole
from attnflow.measure.clusters import same_dimension

# An exact plan is computed for at most MOST_PAIRS pairs: their costs take 512 MiB, and POT takes three times as much
# in addition.
MOST_PAIRS = 1 << 26
# The network simplex method ends by itself long before.
MOST_PIVOTS = 10**9
# Shares are rounded, and so their sums by this much.
ROUNDING = 4e-16
MOST_POWER = 100.0


def wasserstein(
    x: ArrayLike,
    y: ArrayLike,
    *,
    power: float = 2.0,
    masses: ArrayLike | None = None,
    other_masses: ArrayLike | None = None,
) -> float:
    """Return the Wasserstein distance W_p of two clouds (n, d) and (m, d), whose tokens have mass one unless given.

    W_p = (min_P sum_ij P_ij |x_i - y_j|^p)^{1/p}, P >= 0 with the shares of the masses as row and column sums, p >= 1.
    In d = 1 the k-th smallest goes to the k-th smallest: any n. In d > 1 the exact plan costs n m numbers in memory and
    more than n m in time (n = m = 2000: seconds), and needs POT: ``pip install 'attnflow[transport]'``. For the
    distance of some tokens to very many, use `quantise`. Masses are rounded, so the distance of equal measures may come
    out as the p-th root of rounding: 1e-8 of the extent, for p = 2.

    >>> wasserstein([[0.0], [1.0]], [[5.0], [4.0]])
    4.0
    >>> round(wasserstein([[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]], masses=[1, 3], other_masses=[1, 3]), 6)
    0.866025

    References
    ----------
    Villani, *Topics in Optimal Transportation* (2003). Flamary et al., *POT: Python Optimal Transport* (JMLR 2021).
    """
    u, v = cloud(x, "x"), cloud(y, "y")
    same_dimension(u, v, "y")
    p = number(power, "power", least=1.0, most=MOST_POWER)
    a, b = shares(mass_vector(masses, len(u)), len(u)), shares(mass_vector(other_masses, len(v)), len(v))
    # In units of the clouds' extent no such power leaves the range of float64.
    both = np.concatenate([u, v])
    extent = float(np.ptp(both, axis=0).max())
    if extent == 0:
        return 0.0
    u, v = (u - both[0]) / extent, (v - both[0]) / extent
    if u.shape[1] == 1:
        cost = _sorted(u[:, 0], a, v[:, 0], b, p)
    else:
        cost, _ = _plan(u, a, v, b, p)
    return extent * math.pow(max(cost, 0.0), 1 / p)


def _sorted(x: Array, a: Array, y: Array, b: Array, p: float) -> float:
    """Return int_0^1 |F^{-1} - G^{-1}|^p, F and G the distribution functions of two measures on the line."""
    # Stable sorting is merging, and fast where most is sorted already.
    order, other = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
    F, G = (np.cumsum(part.astype(np.longdouble)) for part in (a[order], b[other]))
    levels = np.concatenate([F, G])
    merged = np.argsort(levels, kind="stable")
    part = np.diff(levels[merged], prepend=0.0)
    # Two levels that should be one, but for rounding, enclose no mass.
    part[part < ROUNDING + 2 * np.finfo(np.longdouble).eps * len(levels)] = 0.0
    # Below a level lie as many atoms of each as have come before it.
    first = merged < len(F)
    i: NDArray[np.int64] = np.cumsum(first) - first
    j = np.arange(len(merged)) - i
    apart = x[order[np.minimum(i, len(F) - 1)]] - y[other[np.minimum(j, len(G) - 1)]]
    return float(part.astype(np.float64) @ np.abs(apart) ** p)


def _plan(x: Array, a: Array, y: Array, b: Array, p: float) -> tuple[float, Array]:
    """Return the least cost sum_ij P_ij |x_i - y_j|^p, and a potential for each x_i that proves it."""
    from scipy.spatial.distance import cdist

    n, m = len(x), len(y)
    if n * m > MOST_PAIRS:
        raise InputError(
            f"an exact plan between {n} and {m} tokens has {n * m:.2g} pairs, expected at most {MOST_PAIRS:.2g}: "
            "measure a part of the tokens, or bracket the distance by quantise(y, atoms).bracket(x)"
        )
    ot = _pot()
    cost = cdist(x, y, "sqeuclidean") if p == 2 else cdist(x, y) ** p
    with warnings.catch_warnings():
        # What POT warns of is in its log, too.
        warnings.simplefilter("ignore")
        least, log = ot.emd2(a, b, cost, numItermax=MOST_PIVOTS, log=True)
    if log["warning"] is not None:
        raise InputError(
            f"POT found no plan between {n} and {m} tokens ({log['warning']}): leave out negligible masses"
        )
    return float(least), np.asarray(log["u"])


def _pot() -> Any:
    # It would load every array library there is, for arrays that are not ours.
    others = {f"POT_BACKEND_DISABLE_{library}": "1" for library in ("PYTORCH", "JAX", "CUPY", "TENSORFLOW")}
    try:
        with lent(**others):
            import ot
    except ImportError:
        raise InputError(
            "optimal transport in two and more dimensions needs POT: pip install 'attnflow[transport]'"
        ) from None
    return ot


@dataclass(frozen=True)
class Quantisation:
    """Many tokens y_j summed up by few: cells with their centres of mass, shares, and the distance to the tokens.

    Attributes
    ----------
    tokens
        All of them, (n, d).
    centres
        The means of the cells, (Q, d).
    shares
        The parts of the tokens that the cells hold, (Q,).
    error
        q, the root mean square of |y - c(y)|, c(y) the centre of the cell of y: the W_2 distance is at most that.
    """

    tokens: Array = field(repr=False)
    centres: Array = field(repr=False)
    shares: Array = field(repr=False)
    error: float

    def bracket(self, x: ArrayLike, *, masses: ArrayLike | None = None) -> tuple[float, float]:
        """Return bounds, low <= W_2 <= high, of the distance between a cloud `x` (m, d) and all the tokens.

        Both come from the exact distance W_Q of x to the centres, of shares w. From above: let y be a random token of
        the cell of c, independent of x given c. Then E[y - c | x, c] = 0, so E|x - y|^2 = E|x - c|^2 + q^2, hence
        W_2^2 <= W_Q^2 + q^2. From below: potentials f_i of the plan to the centres are some potentials, and for any
        of them, with a_i the shares of x,

            W_2^2 >= sum_i a_i f_i + mean_j min_i (|x_i - y_j|^2 - f_i),

        because any plan P has sum_ij P_ij |x_i - y_j|^2 >= sum_ij P_ij (f_i + min_k (|x_k - y_j|^2 - f_k)). It is
        never less than W_Q - q, the triangle inequality, that is returned. The gap closes as most cells go to one
        token each: of samples in the plane it is three per cent with 4 cells for each token of x, one with 8.

        On the line both are the distance itself.
        """
        few = cloud(x, "x")
        same_dimension(few, self.tokens, "the quantised tokens")
        a = shares(mass_vector(masses, len(few)), len(few))
        if few.shape[1] == 1:
            exact = wasserstein(few, self.tokens, masses=a)
            return exact, exact
        both = np.concatenate([few, self.centres])
        extent = float(np.ptp(both, axis=0).max()) or 1.0
        u, c, y = ((z - both[0]) / extent for z in (few, self.centres, self.tokens))
        square, potentials = _plan(u, a, c, self.shares, 2.0)
        least, q = math.sqrt(max(square, 0.0)), self.error / extent
        dual = float(a @ potentials) + _least_reduced(u, potentials, y)
        low = max(0.0, least - q, math.sqrt(max(dual, 0.0)))
        high = math.hypot(least, q)
        return extent * min(low, high), extent * high


def _least_reduced(x: Array, f: Array, y: Array) -> float:
    """Return mean_j min_i (|x_i - y_j|^2 - f_i): nearest neighbours of (y_j, 0) among (x_i, sqrt(max f - f_i))."""
    from scipy.spatial import cKDTree

    top = float(f.max())
    lifted = cKDTree(np.column_stack([x, np.sqrt(top - f)]))
    total = 0.0
    for block in np.array_split(y, max(1, len(y) >> 16)):
        near, _ = lifted.query(np.column_stack([block, np.zeros(len(block))]), workers=-1)
        total += float(near @ near)
    return total / len(y) - top


def quantise(tokens: ArrayLike, atoms: int) -> Quantisation:
    """Sum up tokens (n, d) by at most `atoms` atoms: centres of mass of cells, cut where most is to be gained.

    The cell with the largest sum of |y - c|^2 is cut at its mean, across the axis along which it varies most, until
    there are enough; cells of one place are not cut. The error q is that of the cells found, computed from all tokens,
    and behaves like N^{-1/d} for N atoms.

    >>> import attnflow as af
    >>> few = quantise(af.tokens.uniform(n=20_000, d=2, seed=0, low=0, high=1), atoms=256)
    >>> few.centres.shape, round(few.error, 3)
    ((256, 2), 0.025)
    >>> low, high = few.bracket(af.tokens.uniform(n=32, d=2, seed=1, low=0, high=1))
    >>> round(low, 3), round(high, 3)
    (0.134, 0.137)

    References
    ----------
    Graf, Luschgy, *Foundations of Quantization for Probability Distributions* (2000).
    """
    y = cloud(tokens)
    wanted = whole(atoms, "atoms", least=1)
    if y.shape[1] == 1:
        # Sorted once, it is fast to sort again.
        y.sort(axis=0)
    # A heap of (-inertia, counter, members, mean, variances): the counter decides among equals, and never twice.
    heap, count = [_cell(y, 0)], 0
    done: list[Any] = []
    while heap and len(heap) + len(done) < wanted and heap[0][0] < 0:
        cell = heapq.heappop(heap)
        _, _, members, mean, spread = cell
        axis = int(spread.argmax())
        left = members[:, axis] <= mean[axis]
        if left.all() or not left.any():
            # Only rounding tells these apart.
            done.append(cell)
            continue
        for part in (members[left], members[~left]):
            count += 1
            heapq.heappush(heap, _cell(part, count))
    cells = [*heap, *done]
    weight = np.array([len(members) for _, _, members, _, _ in cells], dtype=np.float64) / len(y)
    error = math.sqrt(math.fsum(-inertia for inertia, *_ in cells) / len(y))
    return Quantisation(y, np.array([mean for *_, mean, _ in cells]), weight, error)


def _cell(members: Array, count: int) -> tuple[float, int, Array, Array, Array]:
    mean = members.mean(axis=0)
    spread = ((members - mean) ** 2).sum(axis=0)
    return -float(spread.sum()), count, members, mean, spread
