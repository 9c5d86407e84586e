"""Rare exits of the Markov chain of attention: multilevel splitting with forced moves."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from attnflow.blocks import row_blocks
from attnflow.inputs import Array, InputError, whole
from attnflow.laws import Law
from attnflow.measure.exits import LEVEL, displacements, exit_problem, leads_beyond
from attnflow.measure.farthest import diameter
from attnflow.motions.jumps import Flags, Integers, Rule, each_picked, hazard, movers, towards

# The chains are cut into this many groups, each with an estimate of its own.
REPLICATES = 20
# A path whose weight is below this part of the mean crossing found so far is killed or kept at random.
NEGLIGIBLE = 0.1
# A path that has moved more often than this between two levels is not followed any further.
MOST_MOVES = 20_000


@dataclass(frozen=True)
class RareEvent:
    """A small probability.

    `error` is the standard error of `value`; `interval` should hold the probability with 95 per cent confidence, and
    `stages` are the mean chances to get from each level to the next, in the order of the levels.
    """

    value: float
    error: float
    interval: tuple[float, float]
    stages: Array


def exit_probability(
    x: ArrayLike, law: Law, gamma: float, radius: float, steps: int, runs: int = 1000, seed: int = 0
) -> RareEvent:
    """Estimate P(T <= steps), T the first step at which some token has moved more than `radius`, however small.

    The largest displacement max_i |x_i^t - x_i^0| passes the levels j radius/M, j = 1..M,
    M = ceil(radius / (gamma diam)), and no pick passes more than gamma diam. From each level `runs` chains set out for
    the next, where the survivors are drawn again, `runs` of them, in proportion to their weights: splitting with fixed
    effort. Between two levels nothing is left to luck that has a formula. Tokens pick independently, so a configuration
    x passes the level in a step with chance 1 - e^{-u} and moves otherwise with chance e^{-u} (1 - e^{-m}), where
    e^{-u} = prod_i (1 - u_i) with u_i the probability of the picks of token i beyond the level, and m likewise. With r
    steps left, it passes before it moves with probability

        (1 - e^{-u}) (1 - e^{-(u + m) r}) / (1 - e^{-(u + m)}),

    which is counted; and it moves, before the last step, with a probability of the same form, which multiplies the
    weight of the path, while the move itself is forced to happen in time. Paths of negligible weight are killed with a
    probability and made up for by those that are not. The estimate is unbiased, and exact where a single pick
    leads out.

    The `runs` chains are 20 groups (so their number is rounded up to a multiple of 20) that know nothing of each other.
    The value is the mean of their 20 estimates, `error` their standard deviation divided by sqrt(20), and `interval`
    that of Student's t with 19 degrees of freedom, cut at 0 and 1. If few groups found most of the value the interval
    is too optimistic: give more runs until it no longer matters.

    Examples
    --------
    >>> import attnflow as af
    >>> rare = exit_probability(af.tokens.polygon(3), af.Softmax(beta=12.0), gamma=0.04, radius=0.15, steps=99)
    >>> f"{rare.value:.1e}", rare.error < 0.05 * rare.value, len(rare.stages)
    ('2.6e-15', True, 3)

    References
    ----------
    L'Ecuyer, Demers, Tuffin, *Rare events, splitting, and quasi-Monte Carlo* (2007), on fixed effort. Cerou, Guyader,
    *Adaptive multilevel splitting for rare event analysis* (2007). Lewis, Boehm, *Monte Carlo simulation of Markov
    unreliability models* (1984), on forced transitions. Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and
    Frank-Wolfe* (arXiv 2508.09628), the model.
    """
    start, rule, far = exit_problem(x, law, gamma, radius)
    # From here on steps are float64: a horizon beyond 2^53 is rounded like one.
    horizon = float(whole(steps, "steps", least=1))
    each = math.ceil(whole(runs, "runs", least=1) / REPLICATES)
    rng = np.random.default_rng(whole(seed, "seed", least=0))
    M = math.ceil(far / (rule.gamma * diameter(start)))
    paths = _Population(np.repeat(start[None], REPLICATES * each, axis=0), np.full(REPLICATES * each, horizon))
    chances = np.zeros((M, REPLICATES))
    for j in range(M):
        # The last level is the radius itself, not a product that rounds.
        stage = _Stage(rule, start, far if j == M - 1 else (j + 1) * far / M, paths)
        chances[j] = stage.run(rng)
        if not chances[j].any():
            break
        if j < M - 1:
            paths = stage.survivors(rng)
    return _rare_event(chances)


def _rare_event(chances: Array) -> RareEvent:
    """Return the mean over the groups of the products of their chances (M, groups), with its error."""
    from scipy.special import stdtrit

    with np.errstate(divide="ignore"):
        logs = np.log(chances).sum(axis=0)
    top = float(logs.max())
    if top < math.log(np.finfo(np.float64).tiny):
        raise InputError(
            "the probability of an exit is zero, or less than float64 can hold: "
            "give more steps, a smaller radius, or a higher temperature"
        )
    parts = np.exp(logs - top)
    value, scale = float(parts.mean()), math.exp(top)
    error = float(parts.std(ddof=1)) / math.sqrt(len(parts))
    width = float(stdtrit(len(parts) - 1, (1 + LEVEL) / 2)) * error
    low, high = max(0.0, value - width), value + width
    return RareEvent(value * scale, error * scale, (low * scale, min(1.0, high * scale)), chances.mean(axis=1))


@dataclass(frozen=True)
class _Population:
    """Configurations x (b, n, d) with the steps left (b,)."""

    x: Array
    left: Array

    def __getitem__(self, which: Flags | Integers) -> _Population:
        return _Population(self.x[which], self.left[which])


class _Crossing:
    """The picks of configurations x (b, n, d): `up` leads beyond the level, `on` moves a token below it.

    `up` and `on` (b, n, n) hold sums along the rows, as in `Picks`; `u` is the chance that a token passes the level,
    `m` that it moves given that it does not. `climb` and `drift` (b,) are their hazards.
    """

    def __init__(self, x: Array, rule: Rule, start: Array, level: float) -> None:
        self.x, self.rule = x, rule
        P = rule.weights(x) * rule.effective(x)
        beyond = leads_beyond(rule, x, start, level)
        self.up, self.on = (P * beyond).cumsum(axis=2), (P * ~beyond).cumsum(axis=2)
        self.u = np.minimum(self.up[:, :, -1], 1.0)
        rest = 1 - self.u
        self.m = np.minimum(np.divide(self.on[:, :, -1], rest, out=np.zeros_like(rest), where=rest > 0), 1.0)
        self.climb, self.drift = hazard(self.u), hazard(self.m)

    def of(self, chosen: Integers) -> _Crossing:
        """Return the picks of some of the configurations."""
        if len(chosen) == len(self.x):
            return self
        some = copy(self)
        for name in ("x", "up", "on", "u", "m", "climb", "drift"):
            setattr(some, name, getattr(self, name)[chosen])
        return some

    def passes(self, steps: Array) -> Array:
        """Return the probability to pass the level within some steps, before any other move."""
        return -np.expm1(-self.climb) * self._repeated(steps)

    def moves(self, steps: Array) -> Array:
        """Return the probability to move within some steps, before the level is passed."""
        return np.exp(-self.climb) * -np.expm1(-self.drift) * self._repeated(steps)

    def _repeated(self, steps: Array) -> Array:
        """Return 1 + e^{-h} + ... + e^{-(steps - 1) h}, h the hazard of any change."""
        h = self.climb + self.drift
        sums = np.zeros_like(h)
        some = (h > 0) & (steps > 0)
        sums[some] = np.expm1(-h[some] * steps[some]) / np.expm1(-h[some])
        return sums

    def when(self, steps: Array, rng: np.random.Generator) -> Array:
        """Draw the step of the first change, given that it comes within some steps."""
        h = self.climb + self.drift
        waited = -np.log1p(rng.random(len(h)) * np.expm1(-h * steps)) / h
        return np.minimum(1 + np.floor(waited), steps)

    def drifted(self, rng: np.random.Generator) -> Array:
        """Return the tokens after a step in which some move and none passes the level."""
        return self._after(np.zeros(self.u.shape, dtype=bool), movers(self.m, rng), rng)

    def climbed(self, rng: np.random.Generator) -> Array:
        """Return the tokens after a step in which some pass the level."""
        up = movers(self.u, rng)
        return self._after(up, ~up & (rng.random(up.shape) < self.m), rng)

    def _after(self, up: Flags, on: Flags, rng: np.random.Generator) -> Array:
        chain, token = (up | on).nonzero()
        sums = np.where(up[chain, token][:, None], self.up[chain, token], self.on[chain, token])
        source, y = each_picked(sums, rng), self.x.copy()
        y[chain, token] = towards(self.x[chain, token], self.x[chain, source], self.rule.gamma)
        return y


class _Stage:
    """From one level to the next: all paths of all groups, a move further in each round.

    `mass` (b,) is each path's chance to pass the level, as far as it has been counted. Of the places from where it may
    have passed one is `kept`, chosen in proportion to its chance; paths that had `passed` before stay where they are.
    """

    def __init__(self, rule: Rule, start: Array, level: float, paths: _Population) -> None:
        self.rule, self.start, self.level, self.paths = rule, start, level, paths
        self.each = len(paths.left) // REPLICATES
        self.passed: Flags = np.asarray((displacements(paths.x, start) > level).any(axis=1))
        self.mass: Array = self.passed.astype(np.float64)
        self.kept = _Population(paths.x.copy(), paths.left.copy())

    def run(self, rng: np.random.Generator) -> Array:
        """Follow the paths; return for each group its mean chance to pass the level."""
        every = np.arange(len(self.mass)).reshape(REPLICATES, self.each)
        # Whole groups go together: what one does with its paths depends on all of them.
        for rows in row_blocks(REPLICATES, self.each * self.start.size * len(self.start)):
            block = every[rows].ravel()
            self._follow(block[~self.passed[block]], rng)
        return self._mean_mass()

    def _mean_mass(self) -> Array:
        return np.asarray(self.mass.reshape(REPLICATES, self.each).mean(axis=1))

    def _follow(self, alive: Integers, rng: np.random.Generator) -> None:
        now, weight = self.paths[alive], np.ones(len(alive))
        for _ in range(MOST_MOVES):
            picks = _Crossing(now.x, self.rule, self.start, self.level)
            self._keep(alive, now, weight * picks.passes(now.left), rng)
            weight = self._roulette(alive, weight * picks.moves(now.left - 1), rng)
            going = weight.nonzero()[0]
            if len(going) == 0:
                return
            alive, weight, now, picks = alive[going], weight[going], now[going], picks.of(going)
            now = _Population(picks.drifted(rng), now.left - picks.when(now.left - 1, rng))
        raise InputError(
            f"{len(alive)} paths have moved {MOST_MOVES} times without an end: give fewer steps, or a larger gamma"
        )

    def _keep(self, alive: Integers, now: _Population, mass: Array, rng: np.random.Generator) -> None:
        """Count the chances to pass the level from here, and keep this place or the one before."""
        self.mass[alive] += mass
        better = rng.random(len(alive)) * self.mass[alive] < mass
        self.kept.x[alive[better]], self.kept.left[alive[better]] = now.x[better], now.left[better]

    def _roulette(self, alive: Integers, weight: Array, rng: np.random.Generator) -> Array:
        """Kill paths of negligible weight, and raise the weight of those that survive."""
        least = NEGLIGIBLE * self._mean_mass()[alive // self.each]
        light = weight < least
        lucky = rng.random(len(weight)) * least < weight
        return np.where(light, np.where(lucky, least, 0.0), weight)

    def survivors(self, rng: np.random.Generator) -> _Population:
        """Return as many paths as before, each just past the level, drawn in proportion to their chances."""
        drawn = np.concatenate([self._drawn(g, rng) for g in range(REPLICATES)])
        x, left = self.kept.x[drawn], self.kept.left[drawn]
        late = (~self.passed[drawn] & (self.mass[drawn] > 0)).nonzero()[0]
        for rows in row_blocks(len(late), self.start.size * len(self.start)):
            here = late[rows]
            picks = _Crossing(x[here], self.rule, self.start, self.level)
            left[here] -= picks.when(left[here], rng)
            x[here] = picks.climbed(rng)
        return _Population(x, left)

    def _drawn(self, group: int, rng: np.random.Generator) -> Integers:
        """Draw the survivors of a group by systematic resampling; a group without any goes on as it is, in vain."""
        first = group * self.each
        sums = self.mass[first : first + self.each].cumsum()
        if sums[-1] == 0:
            return first + np.arange(self.each)
        marks = (np.arange(self.each) + rng.random()) / self.each * sums[-1]
        return first + np.minimum(sums.searchsorted(marks, side="right"), (sums < sums[-1]).sum())
