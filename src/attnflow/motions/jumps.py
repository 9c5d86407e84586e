"""The Markov chain of attention: each token picks one source and takes a step towards it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core import inputs
from attnflow.core.blocks import row_blocks
from attnflow.core.indices import log_weights, need_probabilities, not_numbers, rows_of
from attnflow.core.inputs import Array, InputError, Scalar
from attnflow.core.parameters import about
from attnflow.core.progress import tick
from attnflow.engines import said
from attnflow.laws import Heads, Hearing, Law, varies
from attnflow.motions.motion import Motion, steps_per_stretch, towards, whole_type
from attnflow.motions.random_steps import Seeded
from attnflow.motions.stepper import Stepper, Stretch

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Jumps(Motion):
    """The Markov chain: x_i <- x_i + gamma (x_j - x_i) with probability P_ij, drawn independently for each i.

    P is the matrix of weights of the law, so one step is a step of `Layers` in the mean. Tokens that coincide draw
    independently.

    A pick is a no-op if the floating-point result equals the token. Let q_i be the probability that the pick of token i
    is not. The steps until one that moves a token are drawn at once, from the geometric law with success probability
    1 - prod_i (1 - q_i); then who moves there, given that someone does; then where to. So 10^25 steps take as long as
    the moves among them, and have the law of the chain, to the 53 bits of float64: a wait of more than 2^53 steps is
    rounded like one. Each move is recorded.

    `literal` takes and records every step, one after the other. So do parameters that are functions of time, gamma
    or those of the law. A law may depend on time in no other way.

    Parameters
    ----------
    gamma
        Step size in (0, 1], or a function of the step t = 0, 1, 2...
    literal
        Whether to take every step.

    Examples
    --------
    >>> import attnflow as af
    >>> run = af.simulate(af.tokens.polygon(3), af.Softmax(beta=40.0), af.Jumps(gamma=0.1), until=10**25, seed=2)
    >>> run.times[1] > 10**20, run.stopped
    (True, 'reached step 1e+25, as asked')

    References
    ----------
    Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628), the model (SA_P).
    """

    name = "jumps"
    title = "Random jumps"
    formula = "x_i <- x_i + gamma (x_j - x_i), drawn by P_ij"
    discrete = True
    random = True
    stores_all_pairs = True
    averages = True
    chain = True

    gamma: Scalar = field(metadata=about("function", "step size", above=0.0, most=1.0, start=0.1))
    literal: bool = field(
        default=False,
        metadata=about(
            "switch", "true to take every step, false to jump from move to move", shown=False, of_model=False
        ),
    )

    @property
    def skips_steps(self) -> bool:  # type: ignore[override]
        """Unless every step is to be taken."""
        return not self.literal

    def prepare(self, x: Array, hearing: Hearing) -> Array:
        """Refuse heads, which have several matrices of weights, and engines, which form none."""
        _one_matrix(hearing.law)
        if hearing.engine not in ("auto", "dense"):
            raise InputError(f"Jumps draw from the weights themselves, without {said(hearing.engine)}: leave that out")
        return x

    def start(self, hearing: Hearing, x: Array, t: float, state: dict[str, Any] | None = None) -> Stepper:
        kind = _Literal if self.literal or inputs.varies_in_time(self.gamma) or varies(hearing.law) else _Leaping
        return kind(self.gamma, hearing, x, int(t), state)


def chains(
    x0: ArrayLike,
    law: Law,
    gamma: float,
    until: int,
    runs: int,
    rng: np.random.Generator | int | None,
    stop: Callable[[Array, int], bool] | None = None,
    masses: ArrayLike | None = None,
) -> tuple[NDArray[Any], Array]:
    """Run many independent chains from x0, each until `stop(x, t)` is true after a move, or for `until` steps.

    Return the steps (runs,) at which they ended, int64 or Python integers where `until` needs them, and the last
    states (runs, n, d). Parameters are constants here. The chains advance together, a move at a time. One that stops at
    its first move leaves after an exact geometric time:

    >>> import attnflow as af
    >>> times, final = chains(af.tokens.polygon(3), af.Softmax(beta=4.0), 0.1, 10**9, 500, 0, lambda x, t: True)
    >>> median = 141 / 3  # that of one token whose neighbours are held fixed, and three may go first
    >>> bool(abs(np.median(times) - median) < 10), final.shape
    (True, (500, 3, 2))
    """
    x = inputs.cloud(x0, "x0")
    step = inputs.number(gamma, "gamma", above=0.0, most=1.0)
    end, count = inputs.whole(until, "until", least=0), inputs.whole(runs, "runs", least=1)
    constant_law(law)
    rule, draw = Rule(law, step, inputs.mass_vector(masses, len(x))), np.random.default_rng(rng)

    def ended(x: Array, t: NDArray[Any]) -> Flags:
        if stop is None:
            return np.zeros(len(x), dtype=bool)
        return np.fromiter((stop(one, int(when)) for one, when in zip(x, t, strict=True)), bool, len(x))

    first = Picks(x[None], rule)
    blocks = [len(range(count)[rows]) for rows in row_blocks(count, x.size * len(x))]
    times, finals = zip(*(race(first, size, end, draw, ended) for size in blocks), strict=True)
    return np.concatenate(times), np.concatenate(finals)


@dataclass(frozen=True)
class Rule:
    """The chain itself: the law, the step size, the masses, and which tokens (n,) are free to move (default: all)."""

    law: Law
    gamma: float
    masses: Array | None = None
    free: Flags | None = None

    def weights(self, x: Array) -> Array:
        """Return P (b, n, n) of configurations x (b, n, d), with rows of zeros for tokens that are held."""
        law, masses = self.law, self.masses
        if law.batched:
            P = rows_of(law, log_weights(law, x, 0, masses=masses), x, x)
        else:
            each = [rows_of(law, log_weights(law, one, 0, masses=masses), one, one) for one in x]
            P = np.array(each).reshape(*x.shape[:2], x.shape[1])
        if math.isnan(P.max(initial=0.0)):
            raise not_numbers(law, x)
        return P if self.free is None else P * self.free[:, None]

    def landings(self, x: Array, rows: slice = slice(None)) -> Iterator[Array]:
        """Return where each pick leads, x_i + gamma (x_j - x_i), coordinate by coordinate, each of shape (b, n, n)."""
        shape, d = (*x[:, rows].shape[:2], x.shape[1]), x.shape[2]
        places = (towards(x[:, rows, None, k], x[:, None, :, k], self.gamma) for k in range(d))
        return (np.broadcast_to(place, shape) for place in places)

    def effective(self, x: Array) -> Flags:
        """Return which picks (i, j) change token i, shape (b, n, n)."""
        b, n, _ = x.shape
        changes = np.zeros((b, n, n), dtype=bool)
        for rows in row_blocks(n, b * n):
            for k, landing in enumerate(self.landings(x, rows)):
                changes[:, rows] |= landing != x[:, rows, None, k]
        return changes


class Picks:
    """The effective picks of configurations x (b, n, d), one for each chain: those that change their token.

    `sums` (b, n, n) holds the sums along each row of their probabilities, so that its last column is q (b, n). That is
    never computed as one minus the rest: it may be 1e-300. `hazard` (b,) is -log of the probability that a step moves
    nothing.
    """

    def __init__(self, x: Array, rule: Rule) -> None:
        self.x, self.rule = x, rule
        self.sums = (rule.weights(x) * rule.effective(x)).cumsum(axis=2)
        self.q = np.minimum(self.sums[:, :, -1], 1.0)
        self.hazard = hazard(self.q)

    def repeated(self, count: int) -> Picks:
        """Return the picks of many chains that share this one configuration, which is not copied."""
        same = copy(self)
        for name in ("x", "sums", "q", "hazard"):
            one = getattr(self, name)
            setattr(same, name, np.broadcast_to(one, (count, *one.shape[1:])))
        return same

    def stays(self, rng: np.random.Generator) -> Array:
        """Draw for each chain the number of steps before the next move, infinite if there is none; floor it.

        It is at least m with probability e^{-m hazard}, as floor(E / hazard) is for an exponential variable E.
        """
        with np.errstate(divide="ignore", over="ignore"):
            return rng.standard_exponential(len(self.x)) / self.hazard

    def move(self, chosen: Integers, rng: np.random.Generator) -> Array:
        """Return the tokens of the chosen chains after a step, given that it moves some."""
        chain, token = movers(self.q[chosen], rng).nonzero()
        source = each_picked(self.sums[chosen[chain], token], rng)
        x = self.x[chosen]
        y = x.copy()
        y[chain, token] = towards(x[chain, token], x[chain, source], self.rule.gamma)
        return y


def race(
    picks: Picks, count: int, until: int, rng: np.random.Generator, ended: Callable[[Array, NDArray[Any]], Flags]
) -> tuple[NDArray[Any], Array]:
    """Run chains from the one configuration of `picks`, all a move further in each round; return their ends.

    `ended(x, t)` says of the chains that have just moved, now at x (b, n, d) after t (b,) steps, which of them are
    over; the others are after `until` steps.
    """
    kind = whole_type(until)
    times, finals = np.full(count, until, kind), np.repeat(picks.x, count, axis=0)
    alive, t, picks = np.arange(count), np.zeros(count, kind), picks.repeated(count)
    while len(alive):
        tick()
        still = picks.stays(rng)
        going = (still < until - t).astype(bool).nonzero()[0]
        waits = [1 + int(steps) for steps in still[going].tolist()]
        alive, t = alive[going], t[going] + np.array(waits, kind)
        x = picks.move(going, rng)
        finals[alive] = x
        over = ended(x, t)
        times[alive[over]] = t[over]
        alive, t, picks = alive[~over], t[~over], Picks(x[~over], picks.rule)
    return times, finals


def hazard(q: Array) -> Array:
    """Return -log prod_i (1 - q_i) for chances q (b, n) of independent events: infinite where one is certain."""
    with np.errstate(divide="ignore"):
        return np.abs(np.log1p(-q).sum(axis=1))


def movers(q: Array, rng: np.random.Generator) -> Flags:
    """Draw which of independent events with chances q (b, n) happen, given that one of each row does.

    The first is i with a probability proportional to q_i prod_{j<i} (1 - q_j); those after it are free.
    """
    none_yet = (1 - q).cumprod(axis=1)
    chances = q.copy()
    chances[:, 1:] *= none_yet[:, :-1]
    first = each_picked(chances.cumsum(axis=1), rng)[:, None]
    places = np.arange(q.shape[1])
    return (places == first) | ((rng.random(q.shape) < q) & (places > first))


def each_picked(sums: Array, rng: np.random.Generator) -> Integers:
    """Draw one index for each row, with probabilities proportional to the increments of the row."""
    totals = sums[:, -1]
    # The product may round to the total, beyond the last index.
    drawn = np.minimum(rng.random(len(sums)) * totals, np.nextafter(totals, 0.0))
    picked: Integers = (sums <= drawn[:, None]).sum(axis=1)
    return picked


def _one_matrix(law: Law) -> None:
    if isinstance(law, Heads):
        raise InputError("Jumps pick one source per token, but heads bring several weights: use Residual with heads")
    need_probabilities(law)


def constant_law(law: Law) -> None:
    """Refuse laws whose effective picks change while nothing moves."""
    if not isinstance(law, Law):
        raise InputError(f"law is {inputs.quoted(law)}, expected a law such as Softmax(beta=4.0)")
    _one_matrix(law)
    if varies(law):
        raise InputError("chains jump over steps, but a parameter of the law is a function of time: use Jumps")


class _Chain(Seeded):
    """A chain under way, with the generator it draws from."""

    def __init__(self, gamma: Scalar, hearing: Hearing, x: Array, t: int, state: dict[str, Any] | None) -> None:
        super().__init__(hearing, state)
        self.gamma, self.hearing, self.x, self.t = gamma, hearing, x, t
        self.most = steps_per_stretch(len(x))
        self.moves = 0 if state is None else int(state["moves"])

    def state(self) -> dict[str, Any]:
        return {**super().state(), "moves": self.moves}

    def report(self) -> dict[str, Any]:
        return {"engine": "dense", **super().report(), "moves": self.moves}


class _Leaping(_Chain):
    """The chain from move to move."""

    def __init__(self, gamma: Scalar, hearing: Hearing, x: Array, t: int, state: dict[str, Any] | None) -> None:
        super().__init__(gamma, hearing, x, t, state)
        self.rule = Rule(hearing.law, inputs.number_at(gamma, t, "gamma"), hearing.masses)
        self.picks = Picks(x[None], self.rule)

    def advance(self, until: float) -> Stretch:
        before, end = (self.t, self.x), int(until)
        times: list[int] = []
        states: list[Array] = []
        while self.t < end and len(times) < self.most:
            self._leap(end)
            times.append(self.t)
            states.append(self.x)

        def between(t: float) -> Array:
            past = bisect_right(times, t)
            return states[past - 1] if past else before[1]

        return Stretch(before, np.array(times, whole_type(end)), np.stack(states), between)

    def _leap(self, end: int) -> None:
        """Go to the next move, or to the end."""
        still = float(self.picks.stays(self.rng)[0])
        if still >= end - self.t:
            self.t = end
            return
        x = self.picks.move(np.zeros(1, dtype=np.int64), self.rng)
        self.t, self.x, self.moves, self.picks = self.t + 1 + int(still), x[0], self.moves + 1, Picks(x, self.rule)


class _Literal(_Chain):
    """The chain step by step."""

    def advance(self, until: float) -> Stretch:
        before, count = (self.t, self.x), min(int(until) - self.t, self.most)
        sums: Array | None = None
        fixed = not varies(self.hearing.law)
        states = np.empty((count, *self.x.shape))
        for state in states:
            if sums is None or not fixed:
                law, masses = self.hearing.law, self.hearing.masses
                sums = rows_of(law, log_weights(law, self.x, self.t, masses=masses), self.x, self.x).cumsum(axis=1)
                if math.isnan(sums[:, -1].max()):
                    raise not_numbers(law, self.x)
            gamma = inputs.number_at(self.gamma, self.t, "gamma", above=0.0, most=1.0)
            state[:] = towards(self.x, self.x[each_picked(sums, self.rng)], gamma)
            if (state != self.x).any():
                self.moves, self.x, sums = self.moves + 1, state, None
            self.t += 1
        return Stretch(before, before[0] + 1 + np.arange(count), states)
