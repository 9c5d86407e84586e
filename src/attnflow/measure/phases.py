"""Finite temperature against hardmax: how long the two agree, first phase, departure and collapse, beta by beta."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core import progress
from attnflow.core.inputs import Array, InputError, cloud, number, reals, whole
from attnflow.laws import Hardmax, Softmax
from attnflow.measure.diameter import diameter
from attnflow.measure.exits import median_ranks, most_moves
from attnflow.measure.over_time import first_true
from attnflow.motions import Leaps, Stretch
from attnflow.motions.jumps import Picks, Rule
from attnflow.motions.motion import towards
from attnflow.runs.simulate import simulate
from attnflow.runs.watch import Start, Watcher

# No event is waited for beyond HORIZON steps.
HORIZON = 10**300
# A chain that has moved more often than this is not followed any further.
MOST_MOVES = 50_000
# Of fewer times there is no interval that holds the median.
FEWEST_CHAINS = 6
# Hardmax tokens that have not found resting leaders after MOST_STEPS steps are given up.
MOST_STEPS = 10_000
# Points are the same, and a run along a straight line is over, at this part of the cloud's size.
SAME = 1e-12
EVENTS = ("parting", "arrival", "departure", "collapse")


@dataclass(frozen=True)
class Course:
    """The first steps at which something happened, at each beta: Python integers, None where it did not happen.

    Attributes
    ----------
    parting
        Some token is farther than the radius from where hardmax has it at that step.
    arrival
        T_1: all tokens are within the radius of their limits under hardmax.
    departure
        T_2: after that, some token is not.
    collapse
        All tokens are within the radius of each other.
    """

    betas: Array
    parting: NDArray[Any]
    arrival: NDArray[Any]
    departure: NDArray[Any]
    collapse: NDArray[Any]

    @property
    def slope(self) -> float | None:
        """The slope of log departure against beta, by least squares; None with fewer than two residences."""
        stays = [(beta, math.log(t)) for beta, t in zip(self.betas.tolist(), self.departure, strict=True) if t]
        if len({beta for beta, _ in stays}) < 2:
            return None
        beta, log_t = np.array(stays, dtype=np.float64).T
        away = beta - beta.mean()
        return float(away @ log_t / (away @ away))


@dataclass(frozen=True)
class Phases:
    """What `phases` found.

    Attributes
    ----------
    limits
        Where each token goes under hardmax, (n, d).
    radius
        tol times the diameter of the tokens.
    gap
        min <v, v> - <v, w> over different limits v, w; None if there is but one. log T_2 / beta tends to it where one
        pick leaves the radius, and for the layers, if limits keep apart and each is its own leader.
    layers
        The deterministic model (SA_beta).
    chain, low, high
        The Markov chain (SA_P): medians, and the ends of intervals that hold the median with 95 per cent confidence,
        whatever the law. What a chain never does counts as later than any step. All None where no chain was followed.
    unfinished
        How many chains, at each beta, had moved 50000 times (fewer of many tokens) while something could still happen.
        What they had not done by then is not known: a median or an end of an interval that depends on it is None.
    """

    gamma: float
    runs: int
    limits: Array = field(repr=False)
    radius: float
    gap: float | None
    layers: Course = field(repr=False)
    chain: Course = field(repr=False)
    low: Course = field(repr=False)
    high: Course = field(repr=False)
    unfinished: NDArray[np.int64] = field(repr=False)

    @property
    def betas(self) -> Array:
        """The values of beta."""
        return self.layers.betas

    def __str__(self) -> str:
        models = {"layers (SA_beta)": self.layers}
        if self.runs:
            models[f"chain (SA_P), medians of {self.runs}"] = self.chain
        head = "".join(f"{name:>11}" for name in EVENTS)
        lines = [
            " " * 8 + "".join(f" | {name:<43}" for name in models).rstrip(),
            f"{'beta':>8}" + f" |{head}" * len(models),
        ]
        for k, beta in enumerate(self.betas.tolist()):
            rows = [[getattr(course, name)[k] for name in EVENTS] for course in models.values()]
            lines.append(f"{beta:8g}" + "".join(" |" + "".join(f"{_short(t):>11}" for t in row) for row in rows))
        slopes = ", ".join(f"{name.split()[0]} {_rate(course.slope)}" for name, course in models.items())
        lines.append(f"slope of log departure in beta: {slopes}; gap {_rate(self.gap)}")
        if self.unfinished.any():
            lines.append(
                f"{int(self.unfinished.sum())} of {self.runs * len(self.betas)} chains moved too often to be followed "
                "to the end"
            )
        lines.append("first steps at which some token is off its hardmax trajectory (parting), all are at their limits")
        lines.append("(arrival, T_1), some has left again (departure, T_2), all are together (collapse)")
        return "\n".join(lines)


def _short(t: int | None) -> str:
    return "-" if t is None else str(t) if t < 10**8 else f"{t:.3e}"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def phases(
    tokens: ArrayLike, betas: ArrayLike, gamma: float, *, tol: float = 0.05, runs: int = 100, seed: int = 0
) -> Phases:
    """Compare hardmax with softmax layers (SA_beta) and with the Markov chain (SA_P), from one start and with B = I.

    Under hardmax tokens run straight to vertices v and rest. At finite beta they do so for a while, stay near them for
    a time that grows like e^{beta g}, g = min <v, v> - <v, w>, and collapse to one point in the end. The result
    holds, for each beta, the first step at which some token is farther than tol times the diameter of the cloud from
    its hardmax trajectory; at which all are so near to their limits (T_1); at which one has left again (T_2); and at
    which all are so near to each other. Print it for a table.

    The layers are those of `Leaps`, followed over up to 10^300 steps; inside a leap an event is found by bisection. Of
    the chain, `runs` are drawn from the seed, and followed until nothing more can happen, or for 50000 moves. With many
    tokens the chains take most of the time; ``runs=0`` leaves them out.

    Examples
    --------
    >>> import attnflow as af
    >>> found = phases(af.tokens.polygon(3), betas=[2, 4], gamma=0.1, runs=20)
    >>> found.layers.arrival, found.layers.departure, found.layers.collapse, round(found.gap, 9)
    (array([0, 0], dtype=object), array([6, 78], dtype=object), array([44, 171], dtype=object), 1.5)
    >>> bool(found.low.departure[1] <= found.chain.departure[1] <= found.high.departure[1])
    True
    >>> print(phases(af.tokens.polygon(3), betas=[2, 4], gamma=0.1, runs=0))
             | layers (SA_beta)
        beta |    parting    arrival  departure   collapse
           2 |          6          0          6         44
           4 |         78          0         78        171
    slope of log departure in beta: layers 1.2825; gap 1.5000
    first steps at which some token is off its hardmax trajectory (parting), all are at their limits
    (arrival, T_1), some has left again (departure, T_2), all are together (collapse)

    References
    ----------
    Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628), on the first phase
    and on metastability.
    """
    x = cloud(tokens)
    values = reals(betas, "betas are", "positive numbers")
    if values.ndim != 1 or not len(values) or not (np.isfinite(values) & (values > 0)).all():
        raise InputError("betas are not a list of positive finite numbers: give some, as [10, 20, 40]")
    step, count = number(gamma, "gamma", above=0.0, most=1.0), whole(runs, "runs", least=0)
    if 0 < count < FEWEST_CHAINS:
        raise InputError(
            f"runs is {count}, expected {FEWEST_CHAINS} or more, which an interval of the median needs: give more, or "
            "0 for layers alone"
        )
    size = diameter(x)
    if size == 0:
        raise InputError("tokens all coincide, so that none ever moves: give at least two different tokens")
    radius = number(tol, "tol", above=0.0, most=1.0) * size
    goal = _Goal(_hardmax(x, step, SAME * size), radius)
    seeds = np.random.default_rng(whole(seed, "seed", least=0)).spawn(len(values))
    layers, samples = list[list[_Events]](), list[list[_Events]]()
    with progress.task("phases", 2 * len(values) if count else len(values)) as work:
        for beta in values.tolist():
            work.reach(len(layers), f"layers at beta = {beta:g}")
            watcher = _Looking(goal)
            simulate(x, Softmax(beta=beta), Leaps(gamma=step), until=HORIZON, record=[0], watch=[watcher])
            layers.append([watcher.events])
        for beta, rng in zip(values.tolist(), seeds, strict=True):
            work.reach(len(layers) + len(samples), f"chains at beta = {beta:g}")
            samples.append(_chain(x, beta, step, goal, count, rng) if count else [])
    median, low, high = (_course(values, samples, rank) for rank in (median_ranks(count) if count else (1, 1, 1)))
    unfinished = np.array([sum(events.last is not None for events in sample) for sample in samples])
    gap = _gap(goal.hardmax.limits, SAME * size)
    return Phases(
        step, count, goal.hardmax.limits, radius, gap, _course(values, layers, 1), median, low, high, unfinished
    )


def _gap(limits: Array, same: float) -> float | None:
    """Return min <v, v> - <v, w> over pairs of different limits."""
    apart = np.linalg.norm(limits[:, None] - limits[None], axis=2) > same
    costs = np.einsum("ik,ijk->ij", limits, limits[:, None] - limits[None])[apart]
    return float(costs.min()) if len(costs) else None


# Hardmax


@dataclass(frozen=True)
class _Straight:
    """A hardmax trajectory: the states of its first steps, then straight lines from the last of them to the limits.

    From the step `over` on it is at the limits, to rounding.
    """

    states: list[Array]
    limits: Array
    gamma: float
    over: int

    @property
    def settled(self) -> int:
        """From which step on tokens run straight."""
        return len(self.states) - 1

    def at(self, t: int) -> Array:
        """Return the tokens at step t."""
        if t < self.settled:
            return self.states[t]
        if t >= self.over:
            return self.limits
        return self.limits + (1 - self.gamma) ** (t - self.settled) * (self.states[-1] - self.limits)


def _hardmax(x: Array, gamma: float, same: float) -> _Straight:
    """Take hardmax steps until every token is led by a token at rest.

    Then it is so for ever: if v leads x and itself, <x, y> <= <x, v> and <v, y> <= <v, v> for all y in the hull, so
    v leads every point between x and v; and hulls only shrink.
    """
    law, states = Hardmax(ties="points"), [x]
    for _ in range(MOST_STEPS):
        y = law.hear(x).mean
        rests = x[np.linalg.norm(y - x, axis=1) <= same]
        if len(rests) and np.linalg.norm(y[:, None] - rests[None], axis=2).min(axis=1).max() <= same:
            away = float(np.linalg.norm(y - x, axis=1).max())
            more = 0 if away <= same else 1 if gamma == 1 else math.ceil(math.log(same / away) / math.log1p(-gamma))
            return _Straight(states, y, gamma, len(states) - 1 + more)
        x = towards(x, y, gamma)
        states.append(x)
    raise InputError(
        f"after {MOST_STEPS} hardmax steps some token is still led by one that moves: move tokens that tie, or give "
        "a larger gamma"
    )


# What is looked for


@dataclass
class _Events:
    """The steps of the events of one run, None before they happen; `last` is where an unfinished run was left."""

    parting: int | None = None
    arrival: int | None = None
    departure: int | None = None
    collapse: int | None = None
    last: int | None = None

    @property
    def decided(self) -> bool:
        """Whether all has happened."""
        return None not in (self.parting, self.arrival, self.departure, self.collapse)

    def see(self, t: int, strays: bool, home: bool, together: bool) -> None:
        """Take note of the signs at step t; steps come in order."""
        if self.parting is None and strays:
            self.parting = t
        if self.arrival is None and home:
            self.arrival = t
        if self.arrival is not None and self.departure is None and not home:
            self.departure = t
        if self.collapse is None and together:
            self.collapse = t


@dataclass(frozen=True)
class _Goal:
    """What states are compared with."""

    hardmax: _Straight
    radius: float

    def signs(self, times: Sequence[int], x: Array) -> list[list[bool]]:
        """Say of states x (b, n, d): some token strays from hardmax; all are at their limits; all are together."""
        home = self._near(x, self.hardmax.limits)
        strays = ~home
        if min(times) < self.hardmax.over:
            strays = ~self._near(x, np.stack([self.hardmax.at(t) for t in times]))
        together = self._near(x, x[:, :1])
        together[together] = [diameter(one) <= self.radius for one in x[together]]
        return np.column_stack([strays, home, together]).tolist()

    def _near(self, x: Array, y: Array) -> NDArray[np.bool_]:
        near: NDArray[np.bool_] = (np.linalg.norm(x - y, axis=2) <= self.radius).all(axis=1)
        return near

    def strays_at_rest(self, x: Array, start: int, end: int) -> int | None:
        """Return the first step after start, before end, at which tokens resting at x stray from hardmax."""
        straight = self.hardmax.settled
        for t in range(start + 1, min(end, straight + 1)):
            if self._strays(x, t):
                return t
        last = min(end - 1, self.hardmax.over)
        # The distance to a point that moves on a line is convex: once above the radius it stays there.
        low = max(start, straight)
        return first_true(lambda t: self._strays(x, t), low, last) if last > low and self._strays(x, last) else None

    def _strays(self, x: Array, t: int) -> bool:
        return not self._near(x[None], self.hardmax.at(t)[None])[0]


def _course(betas: Array, samples: list[list[_Events]], rank: int) -> Course:
    """Return at each beta, for each event, the time of this rank among those of the runs."""
    columns = [np.array([_ranked(runs, name, rank) for runs in samples], object) for name in EVENTS]
    return Course(betas, *columns)


def _ranked(runs: list[_Events], name: str, rank: int) -> int | None:
    """Return the time of the given rank, counted from 1, if it is known and finite."""
    times = sorted(t for events in runs if (t := getattr(events, name)) is not None)
    known = min(
        (events.last for events in runs if events.last is not None and getattr(events, name) is None), default=None
    )
    if rank > len(times) or (known is not None and times[rank - 1] > known):
        return None
    return int(times[rank - 1])


# The two models


class _Looking(Watcher):
    """Look for events, at every step and inside leaps."""

    def __init__(self, goal: _Goal) -> None:
        self.goal, self.events = goal, _Events()

    def begin(self, start: Start) -> None:
        self._see(0, self.goal.signs([0], start.x[None])[0])

    def _see(self, t: int, signs: list[bool]) -> None:
        self.events.see(t, *signs)
        self.now = signs

    def stop(self, stretch: Stretch) -> tuple[int, str] | None:
        """Stop at the first state after which nothing more can happen."""
        times = stretch.times.tolist()
        for k, (t, signs) in enumerate(zip(times, self.goal.signs(times, stretch.tokens), strict=True)):
            for step, seen in [*self._inside(stretch, signs), (t, signs)]:
                self._see(step, seen)
            if self.events.decided or not np.ptp(stretch.tokens[k], axis=0).any():
                return k + 1, "nothing more can happen"
        return None

    def _inside(self, stretch: Stretch, signs: list[bool]) -> list[tuple[int, list[bool]]]:
        """Return the steps of a leap at which a sign changes; over a leap none changes twice."""
        between = stretch.between
        if between is None:
            return []

        def at(t: int) -> list[bool]:
            return self.goal.signs([t], between(t)[None])[0]

        start, end = int(stretch.before[0]), int(stretch.times[-1])
        changed = [k for k in range(len(signs)) if signs[k] != self.now[k]]
        steps = {first_true(lambda t, k=k: at(t)[k] == signs[k], start, end) for k in changed}  # type: ignore[misc]
        return [(t, at(t)) for t in sorted(steps) if t < end]


def _chain(x: Array, beta: float, gamma: float, goal: _Goal, runs: int, rng: np.random.Generator) -> list[_Events]:
    """Follow many chains (SA_P) together, a move at a time, until nothing more can happen."""
    every = [_Events() for _ in range(runs)]
    rule = Rule(Softmax(beta=beta), gamma)
    picks = Picks(x[None], rule).repeated(runs)
    for events in every:
        events.see(0, *goal.signs([0], x[None])[0])
    most = most_moves(MOST_MOVES, runs, x)
    with progress.task("", most) as work:
        going, times = _followed(picks, every, goal, rng, most, work)
    for k, t in zip(going, times, strict=True):
        every[k].last = t
    return every


def _followed(
    picks: Picks, every: list[_Events], goal: _Goal, rng: np.random.Generator, most: int, work: progress.Task
) -> tuple[list[int], list[int]]:
    """Follow chains for at most `most` moves; return those that may still do something, and the steps they are at."""
    going, times = list(range(len(every))), [0] * len(every)
    for move in range(most):
        # The chains that still run are as good a measure as the moves that are left.
        work.reach(max(move, most * (1 - len(going) / len(every))), f"move {move}, {len(going)} chains", part=0.0)
        stays = picks.stays(rng)
        ends = [t + 1 + int(min(stay, HORIZON)) for t, stay in zip(times, stays.tolist(), strict=True)]
        for k, one, t, end in zip(going, picks.x, times, ends, strict=True):
            if every[k].parting is None and t < goal.hardmax.over:
                every[k].parting = goal.strays_at_rest(one, t, end)
        # A chain that waits longer than the horizon rests for ever.
        moving = np.flatnonzero(stays < HORIZON)
        y, going, times = picks.move(moving, rng), [going[k] for k in moving], [ends[k] for k in moving]
        for k, t, signs in zip(going, times, goal.signs(times, y) if going else (), strict=True):
            every[k].see(t, *signs)
        left = [j for j, k in enumerate(going) if not every[k].decided]
        if not left:
            return [], []
        picks, going, times = Picks(y[left], picks.rule), [going[j] for j in left], [times[j] for j in left]
    return going, times
