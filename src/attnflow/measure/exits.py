"""When the Markov chain of attention leaves: first exits of tokens from where they started, and their rate in beta."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core import inputs, progress
from attnflow.core.blocks import BLOCK, row_blocks
from attnflow.core.inputs import Array, InputError, Matrix
from attnflow.laws import Law, Softmax
from attnflow.measure.by_name import number_of
from attnflow.measure.confidence import LEVEL
from attnflow.measure.diameter import diameter
from attnflow.motions.jumps import Flags, Picks, Rule, constant_law, race
from attnflow.runs.trajectory import Trajectory

# A chain that has moved more often than this is not followed any further.
MOST_MOVES = 20_000
# Where float64 ends: no exit is waited for beyond.
HORIZON = 10**308
# Chains look at no more than WORK coordinates of pairs.
WORK = 10**9
# Costs of picks that differ by less, relative to the largest score, are tied.
TIED = 1e-9
# The chain at zero temperature is followed through at most this many configurations, and fewer of many tokens.
MOST_CONFIGURATIONS = 512


@dataclass(frozen=True)
class GeometricLaw:
    """The law of a time T = 1, 2, 3... with P(T > t) = e^{-c t}, where -c is `log_stay`.

    At each step it happens with the same chance, 1 - e^{-c}.

    >>> law = GeometricLaw(log_stay=-1e-30)
    >>> f"{law.median:.6g}", round(law.chance(10**30), 6)
    ('6.93147e+29', 0.632121)
    """

    log_stay: float

    @property
    def mean(self) -> float:
        """1 / (1 - e^{-c}), where -c is `log_stay`."""
        return -1 / math.expm1(self.log_stay)

    @property
    def median(self) -> int:
        """The first t with P(T <= t) >= 1/2."""
        return self.quantile(0.5)

    @property
    def log_median(self) -> float:
        """The logarithm of the real t at which P(T > t) = 1/2 by the formula: a smooth function of `log_stay`."""
        return math.log(math.log(2)) - math.log(-self.log_stay) if self.log_stay > -math.inf else -math.inf

    def quantile(self, q: float) -> int:
        """Return the first t with P(T <= t) >= q, for q in (0, 1)."""
        part = inputs.number(q, "q", above=0.0, most=1.0)
        if part == 1:
            raise InputError("q is 1, but a geometric time has no largest value: give a number below 1")
        t = max(1, math.ceil(math.log1p(-part) / self.log_stay))
        # The quotient may be a whole number but for its rounding.
        return t - 1 if t > 1 and self.chance(t - 1) >= part else t

    def chance(self, t: float) -> float:
        """Return P(T <= t)."""
        steps = math.floor(inputs.number(t, "t"))
        return -math.expm1(steps * self.log_stay) if steps > 0 else 0.0


@dataclass(frozen=True)
class ExitTimes:
    """First exits of many chains.

    Attributes
    ----------
    times
        The steps (runs,) at which they left, int64, or Python integers where int64 ends.
    exact
        The law of the exit where it is geometric: where every pick that moves a token from its start takes it out.
        None otherwise.
    gap
        The limit of (1/beta) log T as beta grows, for softmax, where the zero-temperature chain tells it.
    """

    times: NDArray[Any] = field(repr=False)
    exact: GeometricLaw | None
    gap: float | None

    def __str__(self) -> str:
        low, high = self.interval
        known = "" if self.exact is None else f"; exactly geometric with median {self.exact.median:.6g}"
        return f"median step {self.median:.6g} of {len(self.times)}, 95 percent interval {low:.6g} to {high:.6g}{known}"

    @property
    def median(self) -> int:
        """The first time by which at least half of the chains had left."""
        return int(np.sort(self.times)[median_ranks(len(self.times))[0] - 1])

    @property
    def interval(self) -> tuple[int, float]:
        """An interval of two of the times that holds the true median with probability at least `LEVEL`.

        The law of T plays no part. Fewer than six times have no such interval but (1, inf).
        """
        _, low, high = median_ranks(len(self.times))
        ordered = np.sort(self.times)
        return (1, math.inf) if low < 1 else (int(ordered[low - 1]), int(ordered[high - 1]))


def median_ranks(n: int) -> tuple[int, int, int]:
    """Return the ranks, counted from 1, of the median of n times, and of two that hold the true median between them.

    Of n independent times, fewer than k are at most the median, or at least the median, with no more than the chance
    that a fair coin falls fewer than k times in n; k is the largest number that makes this (1 - LEVEL)/2 or less, and 0
    for n < 6, when there are no such two.

    >>> median_ranks(100), median_ranks(5)
    ((50, 40, 61), (3, 0, 6))
    """
    from scipy.special import bdtr

    k = int((bdtr(np.arange(n // 2), n, 0.5) <= (1 - LEVEL) / 2).sum())
    return (n + 1) // 2, k, n + 1 - k


def exit_times(
    x: ArrayLike, law: Law, gamma: float, radius: float, runs: int = 1000, seed: int = 0, token: int | None = None
) -> ExitTimes:
    """Sample the first step at which some token has moved more than `radius` from where it started.

    T = min{t : |x_i^t - x_i^0| > r for some i}, r the `radius`, in the chain x_i <- x_i + gamma (x_j - x_i) with
    probability P_ij. The move from x^s to x^{s+1} is seen at step s + 1. With ``token=i`` only token i moves, and
    the others are held.

    A chain goes from one move to the next, however long it waits, but not through more than 20000 moves (fewer if there
    are many tokens and runs): where groups of tokens contract again and again before some token leaves, ask for
    `exit_probability`.

    At low temperature the exit needs a time of the order of e^{g beta}, g the `gap`. A pick (i, j) costs
    c_ij = max_k <B x_i, x_k> - <B x_i, x_j>, and as beta grows the chain follows the cheapest picks that move a token,
    each after a time of the order of e^{c_ij beta}. So `gap` is the largest of the costs along that path. If one pick
    is enough it is min c_ij over the picks that lead out. It is None where picks that cost the same lead to exits that
    do not, where ties leave open what several tokens do at no cost, where tokens return or the path is so long that no
    exit is found, and for other laws.

    Examples
    --------
    >>> import attnflow as af
    >>> found = exit_times(af.tokens.polygon(3), af.Softmax(beta=40.0), gamma=0.1, radius=0.1, token=0)
    >>> f"{found.exact.median:.3e}", found.interval[0] < found.exact.median < found.interval[1], round(found.gap, 6)
    ('3.958e+25', True, 1.5)

    References
    ----------
    Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628).
    """
    start, rule, far = exit_problem(x, law, gamma, radius, token)
    count, rng = inputs.whole(runs, "runs", least=1), np.random.default_rng(inputs.whole(seed, "seed", least=0))
    return _exit_times(start, rule, far, count, rng)


@number_of(exit_times)
def _of_chains(run: Trajectory, radius: float, runs: int = 1000) -> dict[str, float]:
    """Return the median of chains that start where the run did, its interval, and the exact median, NaN if unknown."""
    motion: Any = run.motion
    if motion is None or not motion.chain or run.masses is not None:
        raise InputError(
            f"exits are those of a chain of tokens of mass one, but the motion is {motion!r}: use Jumps, without masses"
        )
    assert run.law is not None
    found = exit_times(run.tokens[0], run.law, motion.gamma, radius, runs, run.seed or 0)
    low, high = found.interval
    exact = math.nan if found.exact is None else found.exact.median
    return {"median": float(found.median), "low": float(low), "high": float(high), "exact": float(exact)}


def exit_problem(
    x: ArrayLike, law: Law, gamma: float, radius: float, token: int | None = None
) -> tuple[Array, Rule, float]:
    """Check the question when a chain first moves a token by more than the radius; return it as start, rule, radius."""
    start = inputs.cloud(x, "x")
    constant_law(law)
    step, far = inputs.number(gamma, "gamma", above=0.0, most=1.0), inputs.number(radius, "radius", above=0.0)
    free, widest = None, diameter(start)
    if token is not None:
        i = inputs.below(token, len(start), "token")
        free, widest = np.arange(len(start)) == i, float(displacements(start, start[i]).max())
    if far >= widest:
        raise InputError(
            f"radius is {far:g}, but tokens stay in their hull and get no farther than {widest:g}: "
            "give a smaller radius"
        )
    return start, Rule(law, step, free=free), far


def displacements(x: Array, start: Array) -> Array:
    """Return how far each token of x (..., n, d) is from its start."""
    return np.sqrt(((x - start) ** 2).sum(axis=-1))


def leads_beyond(rule: Rule, x: Array, start: Array, radius: float) -> Flags:
    """Return which picks (i, j) from x (b, n, d) lead token i farther than the radius from its start."""
    squares = sum((landing - start[:, None, k]) ** 2 for k, landing in enumerate(rule.landings(x)))
    return np.asarray(np.sqrt(squares) > radius)


def _exit_times(start: Array, rule: Rule, radius: float, runs: int, rng: np.random.Generator) -> ExitTimes:
    first = Picks(start[None], rule)
    if first.hazard[0] == 0:
        raise InputError(
            "no token ever moves: none picks a source elsewhere with a probability that float64 can hold; "
            "give other tokens, or softmax with a smaller beta"
        )
    sizes = [len(range(runs)[rows]) for rows in row_blocks(runs, start.size * len(start))]
    most = most_moves(MOST_MOVES, runs, start)
    raced: list[NDArray[Any]] = []
    with progress.task("exit_times", runs) as work:
        for m in sizes:
            leaving = _Leaving(start, radius, most, m, work, sum(map(len, raced)))
            raced.append(race(first, m, HORIZON, rng, leaving)[0])
    times = np.concatenate(raced)
    never = int((times == HORIZON).sum())
    if never:
        raise InputError(
            f"{never} of {runs} chains never leave: they come to rest within the radius {radius:g}, or wait for more "
            "than 1e308 steps; give a smaller radius, or softmax with a smaller beta"
        )
    picks = rule.weights(start[None]) * rule.effective(start[None])
    certain = leads_beyond(rule, start[None], start, radius) | (picks == 0)
    return ExitTimes(
        times.astype(np.int64) if times.max() < 2**63 else times,
        GeometricLaw(-float(first.hazard[0])) if certain.all() else None,
        None if rule.law.exponents is None else _gap(start, rule, radius),
    )


def most_moves(limit: int, runs: int, x: Array) -> int:
    """Return how many moves chains from x are followed: the limit, or fewer where that would take minutes.

    >>> most_moves(20_000, 1000, np.zeros((3, 2))), most_moves(20_000, 1000, np.zeros((100, 2)))
    (20000, 50)
    """
    n, d = x.shape
    return int(min(max(WORK // (runs * n * n * d), 50), limit))


class _Leaving:
    """Say which chains have left; refuse to follow chains that move too often."""

    def __init__(self, start: Array, radius: float, most: int, left: int, work: progress.Task, before: int) -> None:
        self.start, self.radius, self.most, self.moves = start, radius, most, 0
        self.left, self.work, self.over = left, work, before

    def __call__(self, x: Array, t: NDArray[Any]) -> Flags:
        over = np.asarray((displacements(x, self.start) > self.radius).any(axis=1))
        self.moves += 1
        self.over += int(over.sum())
        self.work.reach(self.over, f"{self.over} of {self.work.total:g} chains out, after {self.moves} moves", part=0.0)
        if self.moves == self.most and not over.all():
            raise InputError(
                f"{int((~over).sum())} chains have moved {self.most} times without an exit: ask for a smaller radius, "
                "fewer runs, or the chance of an exit within some steps, by exit_probability"
            )
        return over


# The chain at zero temperature


def _gap(start: Array, rule: Rule, radius: float) -> float | None:
    """Return the largest cost along the path of cheapest picks to the exit, if all such paths agree."""
    worst: float | None = None
    paths, seen = [(start, 0.0)], 0
    while paths:
        x, cost = paths.pop()
        if (displacements(x, start) > radius).any():
            if worst is not None and abs(cost - worst) > _tied(start, rule):
                return None
            worst = cost
            continue
        seen += 1
        following = _cheapest(x, rule)
        if not following or seen == MOST_CONFIGURATIONS or seen * len(x) ** 2 > BLOCK:
            return None
        paths += [(y, max(cost, dearer)) for y, dearer in following]
    return worst


def _scores(x: Array, rule: Rule) -> Array:
    """Return s_ij = <B x_i + b, x_j>, with the sign of beta."""
    assert rule.law.exponents is not None
    beta, B, b = rule.law.exponents
    d = x.shape[1]
    matrix, bias = inputs.matrix_at(B, 0, d, "B"), inputs.vector_at(b, 0, d, "b")
    turned = x if matrix is None else x @ matrix.T
    queries = turned if bias is None else turned + bias
    return (queries if inputs.number_at(beta, 0, "beta") >= 0 else -queries) @ x.T


def _tied(x: Array, rule: Rule) -> float:
    return TIED * float(np.abs(_scores(x, rule)).max())


def _cheapest(x: Array, rule: Rule) -> list[tuple[Array, float]]:
    """Return the configurations that the chain at zero temperature may go to next, with what it costs.

    Of picks that cost something one happens at a time. Those that are free happen in every step, for all tokens at
    once: nothing is returned where several tokens choose among such picks, or may rest.
    """
    s, moves = _scores(x, rule), rule.effective(x[None])[0]
    if rule.free is not None:
        moves &= rule.free[:, None]
    cost, room = s.max(axis=1, keepdims=True) - s, _tied(x, rule)
    if not moves.any():
        return []
    least = float(cost[moves].min())
    chosen = moves & (cost <= least + room)
    landings = np.stack(list(rule.landings(x[None])), axis=-1)[0]
    # One of the picks that lead a token to the same place.
    kept = {(i, landings[i, j].tobytes()): (i, j) for i, j in np.argwhere(chosen).tolist()}
    picks, tokens = list(kept.values()), chosen.any(axis=1)
    if least > room or tokens.sum() == 1:
        return [(_with(x, [i], landings[i, j][None]), least) for i, j in picks]
    if len(picks) > tokens.sum() or ((cost <= room) & ~moves)[tokens].any():
        return []
    return [(_with(x, [i for i, _ in picks], np.array([landings[i, j] for i, j in picks])), 0.0)]


def _with(x: Array, tokens: list[int], places: Array) -> Array:
    y = x.copy()
    y[tokens] = places
    return y


# The rate in beta


@dataclass(frozen=True)
class ExitRate:
    """How the median exit time grows with beta, like e^{s beta}, s the `slope`.

    `error` is the half-width of an interval that should hold the limit of the slope with 95 per cent confidence;
    `gap` is that limit by theory, None where it is not known.
    """

    betas: Array
    exits: list[ExitTimes] = field(repr=False)
    medians: list[int]
    slope: float
    error: float
    gap: float | None


def exit_rate(
    x: ArrayLike,
    betas: Sequence[float],
    gamma: float,
    radius: float,
    *,
    B: Matrix = None,
    runs: int = 1000,
    seed: int = 0,
    token: int | None = None,
) -> ExitRate:
    """Return the slope of the log median of `exit_times` against beta, with its error: the gap, as beta grows.

    For the regular k-gon in the unit circle it tends to 1 - cos(2 pi/k). At least three betas are needed, positive and
    increasing. Where the law of an exit is exactly geometric, its median ``-log(2) / log_stay`` is taken, and those of
    the samples elsewhere.

    The betas are cut into two halves, which share the middle one if their number is odd, and each is fitted by a line,
    with weights from the confidence intervals of the medians. The slope b_2 is that of the second half. Its error adds
    its statistical error; three times |b_2 - b_1|, itself known no better than its noise, which bounds the drift still
    to come if that shrinks by a quarter or more from one half to the next; and what one step more or less in the
    medians would do, for exits as fast as that are not rare.

    Examples
    --------
    >>> import attnflow as af
    >>> rate = exit_rate(af.tokens.polygon(4), [5.0, 10.0, 20.0, 40.0], gamma=0.1, radius=0.1)
    >>> round(rate.slope, 4), rate.error < 0.05, round(rate.gap, 12)
    (1.0, True, 1.0)

    References
    ----------
    Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628).
    """
    values = inputs.reals(betas, "betas are", "at least three increasing positive numbers")
    if values.ndim != 1 or len(values) < 3 or not (np.diff(values, prepend=0.0) > 0).all() or values[-1] == math.inf:
        raise InputError("betas are not three or more positive numbers in increasing order: give some, as [10, 20, 40]")
    if inputs.varies_in_time(B):
        raise InputError("B is a function of time, but chains jump over steps: give a matrix")
    count, seeds = (
        inputs.whole(runs, "runs", least=6),
        np.random.default_rng(inputs.whole(seed, "seed", least=0)).spawn(len(values)),
    )
    exits: list[ExitTimes] = []
    with progress.task("exit_rate", len(values)) as work:
        for beta, rng in zip(values.tolist(), seeds, strict=True):
            work.reach(len(exits), f"at beta = {beta:g}")
            start, rule, far = exit_problem(x, Softmax(beta=beta, B=B), gamma, radius, token)
            exits.append(_exit_times(start, rule, far, count, rng))
    y, noise = np.array([_log_median(found) for found in exits]).T
    half = len(values) // 2
    first, last = slice(0, len(values) - half), slice(half, None)
    (early, blur), (slope, error) = (_line(values[part], y[part], noise[part]) for part in (first, last))
    drift = 3 * math.hypot(slope - early, blur, error)
    coarse = float(np.exp(-y[last]).max() / np.ptp(values[last]))
    medians = [found.median if found.exact is None else found.exact.median for found in exits]
    return ExitRate(values, exits, medians, slope, error + drift + coarse, exits[-1].gap)


def _log_median(found: ExitTimes) -> tuple[float, float]:
    """Return the logarithm of the median, and half the width of its confidence interval."""
    if found.exact is not None:
        log_median = found.exact.log_median
        if log_median == -math.inf:
            raise InputError("a token leaves at every first step, so the exit has no rate: give larger betas")
        return log_median, 64 * float(np.finfo(np.float64).eps) * (1 + abs(log_median))
    low, high = found.interval
    # Times are whole numbers: a median known exactly is still known to half a step only.
    return math.log(found.median), max((math.log(high) - math.log(low)) / 2, 0.5 / found.median)


def _line(beta: Array, y: Array, noise: Array) -> tuple[float, float]:
    """Return the slope of the line that fits best, with weights 1/noise^2, and its own noise."""
    w = (noise.min() / noise) ** 2
    s = beta - w @ beta / w.sum()
    spread = float(w * s @ s)
    return float(w * s @ y) / spread, float(noise.min()) / math.sqrt(spread)
