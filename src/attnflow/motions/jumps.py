"""The Markov chain of attention: each token picks one source and takes a step towards it."""

from __future__ import annotations

import json
import math
import secrets
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.blocks import row_blocks
from attnflow.inputs import (
    Array,
    InputError,
    Scalar,
    cloud,
    constant_number,
    mass_vector,
    number,
    number_at,
    whole,
)
from attnflow.laws import Heads, Hearing, Law
from attnflow.motions.motion import Motion, Stepper, Stretch, steps_per_stretch

Integers = NDArray[np.int64]


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

    discrete = True
    random: ClassVar[bool] = True

    gamma: Scalar
    literal: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", constant_number(self.gamma, "gamma", above=0.0, most=1.0))
        if not isinstance(self.literal, bool):
            raise InputError(
                f"literal is {self.literal!r}, expected True to take every step or False to jump over some"
            )

    def prepare(self, x: Array, hearing: Hearing) -> Array:
        """Refuse heads, which have several matrices of weights, and engines, which form none."""
        _one_matrix(hearing.law)
        if hearing.engine not in ("auto", "dense"):
            raise InputError(f"Jumps draw from the weights themselves, without engine {hearing.engine!r}: leave it out")
        return x

    def start(self, hearing: Hearing, x: Array, t: float, state: dict[str, Any] | None = None) -> Stepper:
        """Return the motion under way from (t, x)."""
        kind = _Literal if self.literal or callable(self.gamma) or _varies(hearing.law) else _Leaping
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
    states (runs, n, d). Parameters are constants here. The chain that stops at its first move leaves after an exact
    geometric time:

    >>> import attnflow as af
    >>> times, final = chains(af.tokens.polygon(3), af.Softmax(beta=4.0), 0.1, 10**9, 500, 0, lambda x, t: True)
    >>> median = 141 / 3  # that of one token whose neighbours are held fixed, and three may go first
    >>> bool(abs(np.median(times) - median) < 10), final.shape
    (True, (500, 3, 2))
    """
    x = cloud(x0, "x0")
    step = number(gamma, "gamma", above=0.0, most=1.0)
    end, count = whole(until, "until", least=0), whole(runs, "runs", least=1)
    _one_matrix(law)
    if _varies(law):
        raise InputError("chains jump over steps, but a parameter of the law is a function of time: use Jumps")
    weights, draw = mass_vector(masses, len(x)), np.random.default_rng(rng)
    first = _Picks(x, law, step, weights)
    times, finals = np.empty(count, _whole_type(end)), np.empty((count, *x.shape))
    for k in range(count):
        times[k], finals[k] = _one_chain(first, law, end, draw, stop, weights)
    return times, finals


def _one_chain(
    picks: _Picks,
    law: Law,
    until: int,
    rng: np.random.Generator,
    stop: Callable[[Array, int], bool] | None,
    masses: Array | None,
) -> tuple[int, Array]:
    t = 0
    while (wait := picks.wait(until - t, rng)) is not None:
        x, t = picks.move(rng), t + wait
        if stop is not None and stop(x, t):
            return t, x
        picks = _Picks(x, law, picks.gamma, masses)
    return until, picks.x


class _Picks:
    """The effective picks of a configuration x: those that change their token.

    `sums` (n, n) holds the sums along each row of their probabilities, so that its last column is q (n,). That is never
    computed as one minus the rest: it may be 1e-300. `hazard` is -log of the probability that a step moves nothing.
    """

    def __init__(self, x: Array, law: Law, gamma: float, masses: Array | None) -> None:
        self.x, self.gamma = x, gamma
        self.sums = _checked((np.exp(law.log_weights(x, 0, masses=masses)) * _effective(x, gamma)).cumsum(axis=1), x)
        self.q = np.minimum(self.sums[:, -1], 1.0)
        # The logarithm of zero is no concern: then someone moves for sure.
        self.hazard = -float(np.log1p(-self.q).sum()) if self.q.max() < 1 else math.inf

    def wait(self, most: int, rng: np.random.Generator) -> int | None:
        """Draw the number of steps up to and including the next move; None if it is more than `most`.

        It exceeds m with probability e^{-m hazard}, as 1 + floor(E / hazard) does for an exponential variable E.
        """
        still = rng.standard_exponential() / self.hazard if self.hazard > 0 else math.inf
        return None if still >= most else 1 + int(still)

    def move(self, rng: np.random.Generator) -> Array:
        """Return the tokens after a step, given that it moves some."""
        rows = self.movers(rng)
        sources = [_picked(self.sums[i], u) for i, u in zip(rows, rng.random(len(rows)).tolist(), strict=True)]
        y = self.x.copy()
        y[rows] = towards(self.x[rows], self.x[sources], self.gamma)
        return y

    def movers(self, rng: np.random.Generator) -> list[int]:
        """Draw which tokens pick effectively, given that one does.

        The first is i with a probability proportional to q_i prod_{j<i} (1 - q_j); those after it are free.
        """
        none_yet = (1 - self.q).cumprod()
        chances = self.q.copy()
        chances[1:] *= none_yet[:-1]
        first = _picked(chances.cumsum(), rng.random())
        after = rng.random(len(self.q)) < self.q
        after[: first + 1] = False
        return [first, *after.nonzero()[0].tolist()]


def towards(x: Array, y: Array, gamma: float) -> Array:
    """Return x + gamma (y - x), and y itself when gamma = 1."""
    return y if gamma == 1 else x + gamma * (y - x)


def _effective(x: Array, gamma: float) -> NDArray[np.bool_]:
    """Return which picks (i, j) change token i."""
    n, d = x.shape
    changes = [(towards(x[rows, None], x[None], gamma) != x[rows, None]).any(axis=2) for rows in row_blocks(n, n * d)]
    return changes[0] if len(changes) == 1 else np.concatenate(changes)


def _checked(sums: Array, x: Array) -> Array:
    """Return sums along the rows of the weights of tokens x, or say that there are none."""
    if math.isnan(sums[:, -1].max()):
        raise InputError(
            f"the scores of tokens as large as {np.abs(x).max():.3g} leave the range of float64: "
            "divide the tokens by a constant, and multiply beta by its square"
        )
    return sums


def _picked(sums: Array, u: float) -> int:
    """Return the index that a uniform number u in [0, 1) picks, with probabilities proportional to the increments."""
    total = float(sums[-1])
    # u * total may round to the total, beyond the last index.
    return int(sums.searchsorted(min(u * total, math.nextafter(total, 0.0)), side="right"))


def _one_matrix(law: Law) -> None:
    if isinstance(law, Heads):
        raise InputError("Jumps pick one source per token, but heads bring several weights: use Residual with heads")


def _varies(law: Law) -> bool:
    """Say whether a parameter of the law, or of a law that it wraps, is a function of time."""
    return any(callable(value) or (isinstance(value, Law) and _varies(value)) for value in vars(law).values())


def _whole_type(until: int) -> type[Any]:
    """Return the type of the times of a chain: Python's integers where int64 ends too early."""
    return np.int64 if until < 2**63 else object


class _Chain:
    """A chain under way, with the generator it draws from."""

    def __init__(self, gamma: Scalar, hearing: Hearing, x: Array, t: int, state: dict[str, Any] | None) -> None:
        self.gamma, self.hearing, self.x, self.t = gamma, hearing, x, t
        self.most = steps_per_stretch(len(x))
        self.seed = secrets.randbits(128) if hearing.seed is None else hearing.seed
        self.moves = 0
        if state is not None:
            self.seed, self.moves = int(str(state["seed"])), int(state["moves"])
        self.rng = np.random.default_rng(self.seed)
        if state is not None:
            self.rng.bit_generator.state = json.loads(str(state["rng"]))

    def state(self) -> dict[str, Any]:
        # Integers of 128 bits are no arrays: they are kept as text.
        return {"seed": str(self.seed), "moves": self.moves, "rng": json.dumps(self.rng.bit_generator.state)}

    def report(self) -> dict[str, Any]:
        return {"engine": "dense", "seed": self.seed, "moves": self.moves}


class _Leaping(_Chain):
    """The chain from move to move."""

    def __init__(self, gamma: Scalar, hearing: Hearing, x: Array, t: int, state: dict[str, Any] | None) -> None:
        super().__init__(gamma, hearing, x, t, state)
        self.picks = self._picks()

    def _picks(self) -> _Picks:
        return _Picks(self.x, self.hearing.law, number_at(self.gamma, self.t, "gamma"), self.hearing.masses)

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

        return Stretch(before, np.array(times, _whole_type(end)), np.stack(states), between)

    def _leap(self, end: int) -> None:
        """Go to the next move, or to the end."""
        wait = self.picks.wait(end - self.t, self.rng)
        if wait is None:
            self.t = end
            return
        self.t, self.x, self.moves = self.t + wait, self.picks.move(self.rng), self.moves + 1
        self.picks = self._picks()


class _Literal(_Chain):
    """The chain step by step."""

    def advance(self, until: float) -> Stretch:
        before, count = (self.t, self.x), min(int(until) - self.t, self.most)
        sums: Array | None = None
        fixed = not _varies(self.hearing.law)
        states = np.empty((count, *self.x.shape))
        for state in states:
            if sums is None or not fixed:
                log_weights = self.hearing.law.log_weights(self.x, self.t, masses=self.hearing.masses)
                sums = _checked(np.exp(log_weights).cumsum(axis=1), self.x)
            gamma = number_at(self.gamma, self.t, "gamma", above=0.0, most=1.0)
            state[:] = towards(self.x, self.x[_each_picked(sums, self.rng)], gamma)
            if (state != self.x).any():
                self.moves, self.x, sums = self.moves + 1, state, None
            self.t += 1
        return Stretch(before, before[0] + 1 + np.arange(count), states)


def _each_picked(sums: Array, rng: np.random.Generator) -> Integers:
    """Draw one index for each row, with probabilities proportional to the increments of the row."""
    totals = sums[:, -1]
    drawn = np.minimum(rng.random(len(sums)) * totals, np.nextafter(totals, 0.0))
    picked: Integers = (sums <= drawn[:, None]).sum(axis=1)
    return picked
