"""Rare exits of the Markov chain of attention: splitting by the number of rare picks, each of them forced."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike

from attnflow.core import progress
from attnflow.core.blocks import row_blocks
from attnflow.core.inputs import Array, InputError, whole
from attnflow.laws import Law
from attnflow.measure.confidence import mean_interval
from attnflow.measure.diameter import diameter
from attnflow.measure.exits import displacements, exit_problem, leads_beyond
from attnflow.motions.jumps import Flags, Integers, Rule, each_picked, hazard, movers
from attnflow.motions.motion import towards

# The paths are cut into this many groups, each with an estimate of its own.
GROUPS = 20
# The least likely picks are rare, as many as are expected to happen less often than this in all the steps.
RARE = 0.5
# Paths are split in proportion to this power of their weights.
POWER = 0.5
# The part of the forced picks that is chosen evenly among the pairs of tokens, however unlikely they are.
EVEN = 0.5
# Tokens behind one that makes a forced pick make one at the same step with this chance, shared among them, at least.
TOGETHER = 0.1
# A path whose weight is below this part of the value found so far is killed or kept at random.
NEGLIGIBLE = 0.01
# A path that moves more often than this between two rare picks, or makes more rare picks than this, is not followed.
MOST_MOVES, MOST_RARE = 20_000, 64


@dataclass(frozen=True)
class RareEvent:
    """A small probability.

    `error` is the standard error of `value`; `interval` should hold the probability with 95 per cent confidence, and is
    longer above the value than below where the estimates are skewed, as they mostly are; `stages` are the parts of the
    value due to exits after 0, 1, 2, ... rare picks.
    """

    value: float
    error: float
    interval: tuple[float, float]
    stages: Array


def exit_probability(
    x: ArrayLike, law: Law, gamma: float, radius: float, steps: int, runs: int = 1000, seed: int = 0
) -> RareEvent:
    """Estimate ``P(T <= steps)``, T the first step at which some token has moved more than `radius`, however small.

    Of the picks of a configuration that change a token but do not lead out, the least likely are called rare: as many
    as have probabilities that add up to less than 1/(2 steps). The others are cheap. Each of `runs` independent paths
    first makes cheap picks only, drawn from the chain given that nothing else happens. What else could have happened
    has a formula. Tokens pick independently, so that a step from x takes some token out with chance 1 - e^{-u} and
    makes rare picks otherwise with chance e^{-u} (1 - e^{-r}), where e^{-u} = prod_i (1 - u_i) with u_i the probability
    of the picks of token i that lead out, and r likewise. A path that stays at x for m steps, and had the chance S of
    no exit and no rare pick before, leaves from x with probability

        S (1 - e^{-u}) (1 - e^{-(u + r) m}) / (1 - e^{-(u + r)}),

    which is added to the value, and makes its next rare pick there with a probability of the same form. The sum W of
    these over the path multiplies its weight, and one rare pick is forced to happen: half of the time the pick and
    its step are chosen in proportion to their probabilities, half of the time the pair of tokens is chosen evenly and
    only the step in proportion, and the weight makes up for that. So picks of probability 1e-14 are seen beside those
    of 1e-7. A path of negligible weight is killed with a probability, and made up for by those that are not. The others
    are drawn again, as many as at first, in proportion to the square roots of their weights, which are divided by that,
    and go on with cheap picks. The estimate is unbiased but for the cut at 1, and exact where a single pick leads out.

    The paths form 20 groups that know nothing of each other but the value so far, below a part of which a weight is
    negligible; their number is rounded up to a multiple of 20. The value is the mean of the 20 estimates, at most 1,
    `error` their standard deviation divided by sqrt(20), and `interval` that of Student's t with 19 degrees of freedom
    after Hall's transformation, which removes their skewness, cut at 0 and 1. If few groups found most of the value, as
    for exits that need more than about five rare picks, or many cheap ones that are all lucky, the interval is too
    optimistic: give more runs until it no longer matters. No pick moves a token by more than gamma diam, so the value
    is exactly 0 for fewer than radius / (gamma diam) steps.

    Examples
    --------
    >>> import attnflow as af
    >>> rare = exit_probability(af.tokens.polygon(3), af.Softmax(beta=12.0), gamma=0.04, radius=0.15, steps=99)
    >>> f"{rare.value:.0e}", rare.error < 0.1 * rare.value, int(rare.stages.argmax())
    ('3e-15', True, 2)

    References
    ----------
    Lewis, Boehm, *Monte Carlo simulation of Markov unreliability models* (1984), on forced transitions. L'Ecuyer,
    Demers, Tuffin, *Rare events, splitting, and quasi-Monte Carlo* (2007), on splitting and roulette.
    Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628), the model.
    """
    start, rule, far = exit_problem(x, law, gamma, radius)
    # From here on steps are float64: a horizon beyond 2^53 is rounded like one.
    horizon = float(whole(steps, "steps", least=1))
    count = GROUPS * math.ceil(whole(runs, "runs", least=1) / GROUPS)
    rng = np.random.default_rng(whole(seed, "seed", least=0))
    exits = _Exits(rule, start, far, horizon)
    if exits.needed(start[None])[0] > horizon:
        return RareEvent(0.0, 0.0, (0.0, 0.0), np.zeros(1))
    with progress.task("exit_probability") as work:
        return _rare_event(_log_parts(exits, count, rng, work))


def _log_parts(exits: _Exits, count: int, rng: np.random.Generator, work: progress.Task) -> Array:
    """Follow paths from the start; return the logarithms of what each adds to the value at each stage (stages, b)."""
    paths = _Paths(np.repeat(exits.start[None], count, axis=0), np.full(count, exits.horizon), np.zeros(count))
    alive, log_value = np.arange(count), -math.inf
    parts: list[Array] = []
    while len(alive) and len(parts) <= MOST_RARE:
        part, following = np.full(count, -math.inf), []
        for rows in row_blocks(len(alive), exits.start.size * len(exits.start)):
            # Nobody knows how many rare picks it will take.
            work.reach(None, f"after {len(parts)} rare picks, {len(alive)} paths", part=0.0)
            stage = _Stage(exits, paths[rows], log_value)
            stage.follow(rng)
            with np.errstate(divide="ignore"):
                part[alive[rows]] = paths.log_weight[rows] + np.log(stage.out)
            following.append(stage.forced(rng))
        parts.append(part)
        log_value = float(np.logaddexp(log_value, np.logaddexp.reduce(part) - math.log(count)))
        paths = _Paths(*(np.concatenate([getattr(part, one.name) for part in following]) for one in fields(_Paths)))
        least = log_value + math.log(NEGLIGIBLE)
        log_weight = _roulette(paths.log_weight, least, rng)
        going = (log_weight > -math.inf).nonzero()[0]
        alive, paths = alive[going], replace(paths, log_weight=log_weight)[going]
        alive, paths = _split(alive, paths, count // GROUPS, least, rng)
    if len(alive) and log_value > -math.inf:
        raise InputError(
            f"{len(alive)} of {count} paths have made {MOST_RARE} rare picks without an end: "
            "give fewer steps, a smaller radius, or a larger gamma"
        )
    return np.array(parts)


def _split(
    alive: Integers, paths: _Paths, each: int, least: float, rng: np.random.Generator
) -> tuple[Integers, _Paths]:
    """Draw the paths of each group again, in proportion to the roots of their weights; return them with their places.

    Their number is that of the start, or smaller if their weights would otherwise be below `least` on average.
    """
    places, origins, weights = [], [], []
    for group in range(GROUPS):
        here = (alive // each == group).nonzero()[0]
        if len(here) == 0:
            continue
        log_weight = paths.log_weight[here]
        ratio = min(float(np.logaddexp.reduce(log_weight)) - least, math.log(each))
        many = max(1, min(each, math.ceil(math.exp(ratio))))
        root = np.exp(POWER * (log_weight - log_weight.max()))
        sums = (root / root.sum()).cumsum()
        drawn = np.minimum(sums.searchsorted((np.arange(many) + rng.random()) / many), len(here) - 1)
        places.append(group * each + np.arange(many))
        origins.append(here[drawn])
        weights.append(log_weight[drawn] - np.log(many * root[drawn] / root.sum()))
    if not places:
        return alive, paths
    chosen = paths[np.concatenate(origins)]
    return np.concatenate(places), replace(chosen, log_weight=np.concatenate(weights))


def _roulette(log_weight: Array, least: Array | float, rng: np.random.Generator) -> Array:
    """Kill paths of less than the least weight, with a probability, and raise those that survive to it."""
    with np.errstate(divide="ignore"):
        lucky = log_weight > least + np.log(rng.random(len(log_weight)))
    return np.where(log_weight < least, np.where(lucky, least, -math.inf), log_weight)


def _rare_event(log_parts: Array) -> RareEvent:
    """Return the mean over the paths of the sums over the stages, given their logarithms, with its error."""
    top = float(log_parts.max())
    if top == -math.inf:
        raise InputError(
            f"no path that leaves was found in {log_parts.shape[1]} runs, which does not mean that there is none: "
            "give more runs, more steps, a smaller radius, or a higher temperature"
        )
    if top < math.log(np.finfo(np.float64).tiny):
        raise InputError(
            "the probability of an exit is less than float64 can hold: "
            "give more steps, a smaller radius, or a higher temperature"
        )
    parts, scale = np.exp(log_parts - top), math.exp(top)
    groups = parts.sum(axis=0).reshape(GROUPS, -1).mean(axis=1)
    value = min(float(groups.mean()) * scale, 1.0)
    error = float(groups.std(ddof=1)) / math.sqrt(GROUPS) * scale
    # Where the mean is cut at 1, so is its interval, with the same lengths below and above.
    below, above = (abs(end - float(groups.mean())) * scale for end in mean_interval(groups))
    return RareEvent(value, error, (max(0.0, value - below), min(1.0, value + above)), parts.mean(axis=1) * scale)


@dataclass(frozen=True)
class _Exits:
    """The question: the chain, where it starts, how far is out, and in how many steps."""

    rule: Rule
    start: Array
    radius: float
    horizon: float

    def needed(self, x: Array) -> Array:
        """Return a number of steps (b,) without which no token of x (b, n, d) gets out: each takes gamma diam."""
        missing = self.radius - displacements(x, self.start).max(axis=1)
        # A quotient that is a whole number but for its rounding is not rounded up.
        return np.maximum(1.0, np.ceil(missing / (self.rule.gamma * diameter(self.start)) * (1 - 1e-9)))


@dataclass(frozen=True)
class _Paths:
    """Configurations x (b, n, d) with the steps left (b,) and the logarithms of the weights (b,)."""

    x: Array
    left: Array
    log_weight: Array

    def __getitem__(self, which: slice | Integers) -> _Paths:
        return _Paths(self.x[which], self.left[which], self.log_weight[which])


class _Chances:
    """The picks of configurations x (b, n, d) that change a token: they lead `out`, or are `rare`, or `cheap`.

    These are probabilities (b, n, n). `r` (b, n) is the chance that a token makes a rare pick given that it does not
    get out, `c` that it makes a cheap one given neither. `exit`, `slow` and `quick` (b,) are the hazards of u, r, c.
    """

    def __init__(self, x: Array, exits: _Exits) -> None:
        self.x, self.gamma = x, exits.rule.gamma
        P = exits.rule.weights(x) * exits.rule.effective(x)
        beyond = leads_beyond(exits.rule, x, exits.start, exits.radius)
        stays = P * ~beyond
        rare = _least(stays, RARE / exits.horizon)
        self.rare, self.cheap = stays * rare, stays * ~rare
        self.u = np.minimum((P * beyond).sum(axis=2), 1.0)
        self.r = _part(self.rare.sum(axis=2), 1 - self.u)
        self.c = _part(self.cheap.sum(axis=2), (1 - self.u) * (1 - self.r))
        self.exit, self.slow, self.quick = hazard(self.u), hazard(self.r), hazard(self.c)

    def first(self) -> Array:
        """Return the chances (b, n, n) that in a step no token gets out, and (i, j) is the first rare pick."""
        none_before = np.ones_like(self.r)
        none_before[:, 1:] = (1 - self.r).cumprod(axis=1)[:, :-1]
        kept = _part(np.exp(-self.exit)[:, None] * none_before, 1 - self.u, most=math.inf)
        return np.asarray(self.rare * kept[:, :, None])

    def repeated(self, steps: Array) -> Array:
        """Return 1 + e^{-h} + ... + e^{-(steps - 1) h}, h the hazard of an exit or a rare pick."""
        h = self.exit + self.slow
        sums = np.maximum(steps, 0.0)
        some = (h > 0) & (steps > 0)
        sums[some] = np.expm1(-h[some] * steps[some]) / np.expm1(-h[some])
        return sums

    def when(self, steps: Array, rng: np.random.Generator) -> Array:
        """Draw the step of the first exit or rare pick, given that it comes within some steps."""
        h = self.exit + self.slow
        waited = -np.log1p(rng.random(len(h)) * np.expm1(-h * steps)) / h
        return np.minimum(1 + np.floor(waited), steps)

    def drifted(self, chosen: Integers, rng: np.random.Generator) -> Array:
        """Return the tokens of some configurations after a step of cheap picks, given that there is one."""
        chain, token = movers(self.c[chosen], rng).nonzero()
        y = self.x[chosen]
        source = each_picked(self.cheap[chosen[chain], token].cumsum(axis=1), rng)
        y[chain, token] = self._landing(chosen[chain], token, source)
        return y

    def forced(self, i: Integers, j: Integers, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return the tokens after a step in which (i, j) is the first rare pick, and factors of the weights.

        The tokens before i make no rare pick. Those behind it make one with a chance raised to at least a share of
        `TOGETHER`, which the factor makes up for.
        """
        b, n = self.r.shape
        places = np.arange(n)
        raised = np.where(self.r > 0, np.maximum(self.r, TOGETHER / n), 0.0) * (places > i[:, None])
        rare = rng.random((b, n)) < raised
        missed = _part(1 - self.r, 1 - raised, most=math.inf)
        factor = np.where(rare, _part(self.r, raised), np.where(places > i[:, None], missed, 1.0)).prod(axis=1)
        moves = rare | (rng.random((b, n)) < self.c)
        moves[np.arange(b), i] = False
        chain, token = moves.nonzero()
        picks = np.where(rare[chain, token][:, None], self.rare[chain, token], self.cheap[chain, token])
        y, every = self.x.copy(), np.arange(b)
        y[chain, token] = self._landing(chain, token, each_picked(picks.cumsum(axis=1), rng))
        y[every, i] = self._landing(every, i, j)
        return y, factor

    def _landing(self, chain: Integers, token: Integers, source: Integers) -> Array:
        return towards(self.x[chain, token], self.x[chain, source], self.gamma)


def _least(P: Array, total: float) -> Flags:
    """Return the smallest entries of each matrix of P (b, n, n), as many as add up to less than the total."""
    flat = P.reshape(len(P), -1)
    order = flat.argsort(axis=1)
    few = np.take_along_axis(flat, order, axis=1).cumsum(axis=1) < total
    least = np.empty_like(few)
    np.put_along_axis(least, order, few, axis=1)
    return least.reshape(P.shape)


def _part(a: Array, b: Array, most: float = 1.0) -> Array:
    """Return a/b, at most `most`, and 0 where b is 0."""
    return np.minimum(np.divide(a, b, out=np.zeros_like(b), where=b > 0), most)


class _Stage:
    """Paths between two rare picks: all a cheap move further in each round.

    `out` (b,) is each path's chance to get out, as far as it has been counted, and `rare` (b, n, n) that (i, j) is its
    next rare pick. Of the stretches between two moves one is kept for the rare pick, chosen in proportion to the chance
    of all rare picks, or, where `even`, of the pair of tokens in `aim` alone.
    """

    def __init__(self, exits: _Exits, paths: _Paths, log_value: float) -> None:
        b, n = paths.x.shape[:2]
        self.exits, self.paths = exits, paths
        with np.errstate(over="ignore"):
            self.least = NEGLIGIBLE * np.exp(log_value - paths.log_weight)
        self.out, self.rare, self.found = np.zeros(b), np.zeros((b, n, n)), np.zeros(b)
        self.x, self.left, self.room = paths.x.copy(), paths.left.copy(), np.zeros(b)

    def follow(self, rng: np.random.Generator) -> None:
        """Follow the paths to the horizon, or to where they are killed."""
        x, left, weight = self.paths.x, self.paths.left, np.ones(len(self.out))
        alive = np.arange(len(x))
        picks = _Chances(x, self.exits)
        self._aim(picks, rng)
        for _ in range(MOST_MOVES):
            progress.tick()
            with np.errstate(divide="ignore", over="ignore"):
                stays = np.floor(rng.standard_exponential(len(x)) / picks.quick)
            m = np.minimum(1 + stays, left)
            self._count(alive, picks, (left, m, weight), rng)
            weight = self._roulette(alive, weight * np.exp(-(picks.exit + picks.slow) * m), rng)
            going = ((left > m) & (weight > 0)).nonzero()[0]
            x, left = picks.drifted(going, rng), (left - m)[going]
            possible = self.exits.needed(x) <= left
            going, x, left = going[possible], x[possible], left[possible]
            alive, weight = alive[going], weight[going]
            if len(alive) == 0:
                return
            picks = _Chances(x, self.exits)
        raise InputError(
            f"{len(alive)} paths have moved {MOST_MOVES} times without an end: give fewer steps, or a larger gamma"
        )

    def _aim(self, picks: _Chances, rng: np.random.Generator) -> None:
        """Choose which paths look for one pair of tokens only, and which pair: any that can move within the radius."""
        b, n = self.rare.shape[:2]
        self.pairs = (picks.rare + picks.cheap).reshape(b, -1) > 0
        self.number = self.pairs.sum(axis=1)
        self.even = (rng.random(b) < EVEN) & (self.number > 0)
        aim = np.minimum(each_picked(self.pairs.cumsum(axis=1, dtype=np.float64), rng), n * n - 1)
        self.aim = np.divmod(aim, n)

    def _count(
        self, alive: Integers, picks: _Chances, stretch: tuple[Array, Array, Array], rng: np.random.Generator
    ) -> None:
        """Add the chances of the stretch of m steps from here, and keep this stretch or the one before."""
        left, m, weight = stretch
        self.out[alive] += weight * -np.expm1(-picks.exit) * picks.repeated(m)
        # A rare pick with too few steps left to get out after it is no use.
        room = np.minimum(m, left + 1 - np.maximum(2.0, self.exits.needed(picks.x)))
        chances = (weight * picks.repeated(room))[:, None, None] * picks.first()
        self.rare[alive] += chances
        i, j = self.aim[0][alive], self.aim[1][alive]
        found = np.where(self.even[alive], chances[np.arange(len(alive)), i, j], chances.sum(axis=(1, 2)))
        self.found[alive] += found
        better = rng.random(len(alive)) * self.found[alive] < found
        kept = alive[better]
        self.x[kept], self.left[kept], self.room[kept] = picks.x[better], left[better], room[better]

    def _roulette(self, alive: Integers, weight: Array, rng: np.random.Generator) -> Array:
        with np.errstate(divide="ignore"):
            log_least = np.log(np.maximum(self.least[alive], NEGLIGIBLE * self.out[alive]))
            return np.exp(_roulette(np.log(weight), log_least, rng))

    def forced(self, rng: np.random.Generator) -> _Paths:
        """Return the paths just after a rare pick, with weight 0 where there is none."""
        log_weight = np.full(len(self.out), -math.inf)
        x, left = self.paths.x.copy(), self.paths.left.copy()
        some = (self.found > 0).nonzero()[0]
        if len(some):
            picks = _Chances(self.x[some], self.exits)
            n = x.shape[1]
            i, j = np.divmod(each_picked(picks.first().reshape(len(some), -1).cumsum(axis=1), rng), n)
            even = self.even[some]
            i, j = np.where(even, self.aim[0][some], i), np.where(even, self.aim[1][some], j)
            left[some] = self.left[some] - picks.when(self.room[some], rng)
            x[some], factor = picks.forced(i, j, rng)
            log_weight[some] = self.paths.log_weight[some] + np.log(factor) - self._log_density(some, i * n + j)
        possible = self.exits.needed(x) <= left
        return _Paths(x, left, np.where(possible, log_weight, -math.inf))

    def _log_density(self, some: Integers, pair: Integers) -> Array:
        """Return the log of how much more often a rare pick of this pair is forced than it happens."""
        rare = self.rare[some].reshape(len(some), -1)
        part = np.where(self.number[some] > 0, EVEN, 0.0)
        every = np.arange(len(some))
        evenly = part * self.pairs[some, pair] / np.maximum(self.number[some], 1)
        # A chance too small for float64 makes this infinite, and ends the path.
        with np.errstate(divide="ignore", over="ignore"):
            more = (1 - part) / rare.sum(axis=1) + np.where(evenly > 0, evenly / rare[every, pair], 0.0)
            return np.asarray(np.log(more))
