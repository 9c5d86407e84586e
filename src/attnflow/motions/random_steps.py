"""Motions whose steps draw random numbers: the generator, the grid of steps, the sphere's exponential map."""

from __future__ import annotations

import json
import math
import secrets
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from attnflow.core.inputs import Array, InputError
from attnflow.laws import Hearing
from attnflow.motions.motion import ENDLESS, SLOW_STEPS, Motion, steps_per_stretch
from attnflow.motions.stepper import NoDirection, Stepper, Stretch

# draw(*shape) returns independent standard normal numbers; in an ensemble, such an array for each system.
Draw = Callable[..., Array]
# Times that differ by less than this part of a step are equal: multiples of dt are rounded.
SAME = 1e-6
# What makes a run shorter.
LONGER = "give a larger dt, or an earlier until"
# The branch of the random numbers of a seed that noise is drawn from; chunks of clouds have branches with one number.
NOISE = (0, 1)


class RandomSteps(Motion):
    """Motions in steps that draw normal numbers: subclasses write `random_step`.

    For developers. ``random_step(hearing, x, t, h, draw)`` returns the tokens after the step of length h from (t, x);
    discrete motions have h = 1. It takes all randomness from ``draw(*shape)``, and each step draws as many numbers as
    any other, for tokens (n, d), and for the systems (b, n, d) of an ensemble, where ``draw`` has an axis b in front.
    Steps of a flow have the length `interval`, except the last one, which ends where the run does.
    """

    random = True

    @property
    def interval(self) -> float:
        """The length of a step; 1 for motions that count steps."""
        return 1.0

    def random_step(self, hearing: Hearing, x: Array, t: Any, h: float, draw: Draw) -> Array:
        """Return the tokens after a step."""
        raise InputError(f"{type(self).__name__} does not say its step: a motion in random steps writes random_step")

    def path(self, hearing: Hearing, x: Array, t: Any, until: float, draw: Draw) -> Iterator[tuple[Any, Array]]:
        """Yield time and state after each step from (t, x), until the end or until tokens leave float64's range."""
        for before, h, after in self._grid(t, until):
            x = self.random_step(hearing, x, before, h, draw)
            yield after, x
            if not np.isfinite(x).all():
                return

    def check_end(self, end: float) -> None:
        """Refuse steps so short that the time does not change."""
        h = self.interval
        if not self.discrete and end + h == end:
            raise InputError(
                f"steps have the length {h:g}, and near until = {end:g} the time plus a step is the same number in "
                f"float64: {LONGER}"
            )

    def warn_if_endless(self, t: Any, until: float) -> None:
        """Warn of a flow whose steps from t to the end are too many."""
        if self._more_than(ENDLESS, t, until):
            warnings.warn(f"this run would take more than {ENDLESS:.0e} steps; {LONGER}", stacklevel=2)

    def slow(self, t: Any, until: float) -> str | None:
        """Return a sentence if very many steps of a flow are to come."""
        many = self._more_than(SLOW_STEPS, t, until)
        return f"steps have the length {self.interval:g}, so that very many are to come; {LONGER}" if many else None

    def _more_than(self, steps: float, t: Any, until: float) -> bool:
        return not self.discrete and until - t > steps * self.interval

    def _grid(self, t: Any, until: float) -> Iterator[tuple[Any, float, Any]]:
        """Yield the time before each step, its length, and the time after it."""
        if self.discrete:
            yield from ((k, 1.0, k + 1) for k in range(int(t), int(until)))
            return
        h = self.interval
        first, last = round(t / h), max(1, math.ceil(until / h - SAME))
        for k in range(first, last):
            # A run that ends later has a whole step here: the store goes on from before it.
            left = until - k * h
            whole = k + 1 < last or abs(left - h) <= SAME * h
            yield k * h, (h if whole else left), ((k + 1) * h if k + 1 < last else until)

    def start(self, hearing: Hearing, x: Array, t: float, state: dict[str, Any] | None = None) -> Stepper:
        return _Walk(self, hearing, x, int(t) if self.discrete else t, state)


def noise_of(seed: int) -> np.random.Generator:
    """Return the generator of the noise of a seed.

    Clouds are drawn from ``default_rng(seed)``: noise of the same numbers would be that of the start.

    >>> bool((noise_of(0).standard_normal(4) == np.random.default_rng(0).standard_normal(4)).any())
    False
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=NOISE))


class Seeded(Stepper):
    """A stepper that draws from its own generator, which its state holds: a run goes on from there bit for bit."""

    def __init__(
        self,
        hearing: Hearing,
        state: dict[str, Any] | None,
        generator: Callable[[int], np.random.Generator] = np.random.default_rng,
    ) -> None:
        self.seed = secrets.randbits(128) if hearing.seed is None else hearing.seed
        if state is not None and "seed" in state:
            self.seed = int(str(state["seed"]))
        self.rng = generator(self.seed)
        if state is not None and "rng" in state:
            self.rng.bit_generator.state = json.loads(str(state["rng"]))

    def state(self) -> dict[str, Any]:
        # Integers of 128 bits are no arrays: they are kept as text.
        return {"seed": str(self.seed), "rng": json.dumps(self.rng.bit_generator.state)}

    def report(self) -> dict[str, Any]:
        return {"seed": self.seed}


class _Walk(Seeded):
    """A motion in random steps under way."""

    def __init__(self, motion: RandomSteps, hearing: Hearing, x: Array, t: Any, state: dict[str, Any] | None) -> None:
        super().__init__(hearing, state, noise_of)
        self.motion, self.hearing, self.x, self.t = motion, hearing, x, t
        self.most = steps_per_stretch(len(x))
        self.until: float | None = None

    def advance(self, until: float) -> Stretch:
        if self.until is None:
            self.motion.warn_if_endless(self.t, until)
        self.until, before = until, (self.t, self.x)
        found, ended = list[tuple[Any, Array]](), None
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                path = self.motion.path(self.hearing, self.x, self.t, until, self._draw)
                found.extend(islice(path, self.most))
        except NoDirection as error:
            ended = str(error)
            if not found:
                if self.t == 0:
                    raise
                return Stretch.none(self.t, self.x, ended)
        times, states = zip(*found, strict=True)
        self.t, self.x = times[-1], states[-1]
        between = None if self.motion.discrete else held(before, times, states, self.motion.interval)
        return Stretch(before, np.array(times), np.stack(states), between, ended)

    def slow(self) -> str | None:
        """Say, of a flow that has very many steps before it, what helps."""
        return None if self.until is None else self.motion.slow(self.t, self.until)

    def _draw(self, *shape: int) -> Array:
        return self.rng.standard_normal(shape)


def held(
    before: tuple[float, Array], times: tuple[float, ...], states: tuple[Array, ...], interval: float
) -> Callable[[float], Array]:
    """Return the state at a time between steps: that of the step before, since the scheme says no more."""

    def between(t: float) -> Array:
        past = bisect_right(times, t + SAME * interval)
        return states[past - 1] if past else before[1]

    return between
