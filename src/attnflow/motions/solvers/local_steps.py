"""Steps of a flow of many tokens, in which the few tokens that need shorter steps repeat a step alone.

A few tokens that turn from one leader to another would limit the steps of all. Here all take a step of order 8, and
those whose own error is too large are taken through it anew, in shorter steps, hearing each other and the paths of all
others. With them come few sources: those that they can hear at any moment of the step (`heard_sources`). The same
happens inside such a part, if a few of its tokens need shorter steps still.

Others have heard the tokens at places where they were not. So the velocity of all is computed again at the end, with
these tokens where they belong. If that of any other token has changed by more than is allowed, it belongs to the part
too, and the part is taken through the step once more; if there are many such tokens, the step is refused.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attnflow.core.inputs import Array
from attnflow.engines import AUTOMATIC, Lists, Memory
from attnflow.laws import Hearing
from attnflow.motions.solvers.heard_sources import Around, Nearby, Rows, heard
from attnflow.motions.solvers.order8_step import C_EXTRA, STAGES, C, Path, Step
from attnflow.motions.solvers.scipy_solver import ByTokens

if TYPE_CHECKING:
    from attnflow.motions.flows import ContinuousMotion

# At most this part of all tokens may repeat a step; of the tokens of a part, this part of them.
FEW, FEW_OF_PART = 0.05, 0.25
# A step of all is accepted as SciPy does, by the mean square of the errors, while no error is above LARGEST times what
# is allowed. If tokens repeat it, those with errors above OWN do, until theirs are at most 1.
LARGEST, OWN = 10.0, 1.0
# Tokens are left to themselves if the others can then take steps this many times longer: it costs four more sums.
WORTH = 1.5
# Parts of fewer pairs of tokens and sources take steps together: a sum takes hardly longer than its call.
PAIRS = 1 << 17
# Parts of NARROW pairs or more look in each of their steps for the sources that can be heard in that step.
NARROW = 1 << 16
# Lists that hold more than this part of the sources save no time.
SHORT_LISTS = 0.4
# A sum of a part should have at most COSTLY pairs for each token of all: a sum of all costs about 5 times that.
COSTLY = 128
# Tokens and sources stay as near to where they start as the largest speed at the stages takes them, times SPARE; where
# this proves wrong it is doubled, at most DOUBLINGS times.
SPARE, DOUBLINGS = 1.5, 6
# When the law is looked at for the sources that can be heard in a step: at its stages.
MOMENTS = sorted({0.0, 1.0, *C.tolist(), *C_EXTRA.tolist()})
# A part is enlarged at most ENLARGED times by tokens that heard it in the wrong place.
ENLARGED = 3
# Steps become at most GROWTH times longer and, refused, at least SHRINK times as long; SAFETY leaves some room.
GROWTH, SHRINK, SAFETY = 10.0, 0.2, 0.9
# A part begins with a step of at most LONG and at least SHORT times that of all.
LONG, SHORT = 0.5, 1 / 64


class Flowing(NamedTuple):
    """A motion under a law, as all tokens of a run hear it."""

    motion: ContinuousMotion
    hearing: Hearing
    rtol: float
    atol: float
    tokens: int

    def heard_from(self, rows: Rows, lists: Lists) -> Hearing:
        """Return the law, heard from these tokens alone, by groups of tokens from lists if these are short."""
        masses = self.hearing.masses
        short = lists.pairs < SHORT_LISTS * len(rows) * len(lists.order) and self.hearing.engine in AUTOMATIC
        memory = Memory(lists=lists) if short else None
        return replace(self.hearing, masses=None if masses is None else masses[rows], memory=memory)

    def near(self, t: float, h: float, tokens: Around, sources: Around, rows: Rows) -> Nearby:
        """Return which of the sources, in these rows of all, the tokens can hear between t and t + h."""
        masses, times = self.hearing.masses, tuple(t + c * h for c in MOMENTS)
        logs = None if masses is None else np.log(masses[rows])
        total = float(self.tokens if masses is None else masses.sum())
        return heard(self.motion, self.hearing, times, tokens, sources, logs, total)


class Given(NamedTuple):
    """Tokens whose paths are known, and their largest speeds."""

    rows: Rows
    path: Path
    speeds: Array


class Judgement(NamedTuple):
    """A step is accepted if its `size` is below 1. The `bad` tokens repeat it, and the next one follows from `aim`."""

    size: float
    bad: Rows
    aim: float


class Leg(NamedTuple):
    """An accepted step, and the part of the tokens that repeated it alone."""

    step: Step
    y: Array
    velocity: Array
    following: float
    bad: Rows
    part: Part | None

    def at(self, t: float) -> Array:
        """Return where the tokens are during the step."""
        y = self.step.path().at(t)
        if self.part is not None:
            y[self.bad] = self.part.at(t)
        return y


class _Strayed(Exception):
    """A token went further than was assumed when the sources that it can hear were found."""


class Company(ABC):
    """Tokens that take steps together. Subclasses say what they hear, and who else there is."""

    few: int
    most: float
    own: float
    costly: float = math.inf
    rows: Rows
    given: list[Given]

    def __init__(self, flow: Flowing) -> None:
        self.flow = flow

    @abstractmethod
    def velocity(self, t: float, x: Array) -> Array:
        """Return the velocities of the tokens at x."""

    def leg(self, t: float, x: Array, velocity: Array, h: float, bound: float, stages: Array | None) -> Leg | None:
        """Take a step of at most the length h, at most to the bound; None if steps become too short."""
        refused = False
        while h >= 10 * (math.nextafter(t, math.inf) - t):
            end = min(t + h, bound)
            h = end - t
            step = Step(self.velocity, t, x, velocity, h, stages)
            errors = step.errors(*self.flow[2:4])
            size, bad, aim = self._judge(errors)
            if size < 1:
                found = self._ended(step, bad, errors)
                if found is not None:
                    longer = min(GROWTH, SAFETY * max(aim, 1e-300) ** (-1 / 8))
                    part = found[3]
                    if part is not None:
                        longer = min(longer, SAFETY * (self.costly / part.pairs) ** (1 / 8))
                    return Leg(step, *found[:2], h * (min(1.0, longer) if refused else longer), *found[2:])
                size = 2.0**8
            h *= max(SHRINK, SAFETY * size ** (-1 / 8))
            refused = True
        return None

    def _judge(self, errors: Array) -> Judgement:
        n, few = len(errors), self.few
        together = max(_mean_square(errors), float(errors.max()) / self.most)
        if not few:
            return Judgement(together, np.empty(0, dtype=np.int64), together)
        ordered = np.partition(errors, [n - 1 - few, n - 1 - few // 2])
        size = aim = together
        # The next step aims at half as many tokens that repeat it as are allowed.
        middle, limit = float(ordered[n - 1 - few // 2]), float(ordered[n - 1 - few])
        apart = max(_mean_square(errors[errors <= min(middle, self.own)]), middle / self.own)
        if apart * WORTH**8 < together:
            aim = apart
        bad = np.empty(0, dtype=np.int64)
        if together >= 1:
            size = max(_mean_square(errors[errors <= self.own]), limit / self.own)
            bad = np.flatnonzero(errors > self.own)
        return Judgement(size, bad, aim)

    def _ended(self, step: Step, bad: Rows, errors: Array) -> tuple[Array, Array, Rows, Part | None] | None:
        """Return where the step ends, the velocity there, and the part that repeats it; None to refuse it."""
        end = step.t + step.h
        if not len(bad):
            velocity = self.velocity(end, step.y)
            step.K[STAGES] = velocity
            return step.y, velocity, bad, None
        allowed = step.allowed(*self.flow[2:4])
        step.interpolate()
        first = step.h * min(LONG, max(SHORT, SAFETY * float(errors[bad].max()) ** (-1 / 8)))
        for _ in range(1 + ENLARGED):
            part = self._repeated(step, bad, first)
            if part is None:
                return None
            y = step.y.copy()
            y[bad] = part.x
            velocity = self.velocity(end, y)
            changes = step.h * np.abs(velocity - step.K[STAGES]).max(axis=1) / allowed
            changes[bad] = 0.0
            if _mean_square(changes) < 1 and changes.max() <= self.own:
                return y, velocity, bad, part
            bad = np.union1d(bad, np.flatnonzero(~(changes <= 1)))
            if len(bad) > 2 * self.few:
                return None
        return None

    def _repeated(self, step: Step, bad: Rows, first: float) -> Part | None:
        """Take these tokens through the step alone."""
        t, h = step.t, step.h
        rest = np.setdiff1d(np.arange(len(step.x)), bad)
        speeds = SPARE * step.speeds()
        rows = np.concatenate([*(one.rows for one in self.given), self.rows[rest], self.rows[bad]])
        places = np.concatenate([*(one.path.at(t) for one in self.given), step.x[rest], step.x[bad]])
        known = np.concatenate([*(one.speeds for one in self.given), speeds[rest]])
        own = speeds[bad]
        for _ in range(1 + DOUBLINGS):
            sources = Around(places, np.concatenate([known, own]) * h)
            near, lists = self.flow.near(t, h, Around(step.x[bad], own * h), sources, rows)
            heard_too, first_own = self._given(near), len(known) - len(rest)
            if len(some := rest[near[(near >= first_own) & (near < len(known))] - first_own]):
                heard_too.append(Given(self.rows[some], step.path(some), speeds[some]))
            part = Part(self.flow, self.rows[bad], own, heard_too, near[near >= len(known)] - len(known), lists)
            try:
                return part if part.through(t, step.x[bad], t + h, first) else None
            except _Strayed:
                own = 2 * own
        return None

    def _given(self, near: Rows) -> list[Given]:
        """Return those of the given tokens that are heard, as counted by `near` from the first of them on."""
        found, begin = [], 0
        for one in self.given:
            some = near[(near >= begin) & (near < begin + len(one.rows))] - begin
            begin += len(one.rows)
            if len(some):
                found.append(Given(one.rows[some], one.path.of(some), one.speeds[some]))
        return found


class Part(Company):
    """Some of the tokens on their way through a step, hearing `given` others and, of themselves, those at `inner`."""

    most = own = 1.0

    def __init__(self, flow: Flowing, rows: Rows, speeds: Array, given: list[Given], inner: Rows, lists: Lists) -> None:
        super().__init__(flow)
        self.rows, self.speeds, self.given, self.inner = rows, speeds, given, inner
        self.sources = np.concatenate([*(one.rows for one in given), rows[inner]])
        self.hearing, self.pairs = flow.heard_from(self.sources, lists), max(1, lists.pairs)
        self.few = int(FEW_OF_PART * len(rows)) if self.pairs >= PAIRS else 0
        self.legs: list[Leg] = []

    def velocity(self, t: float, x: Array) -> Array:
        if not (np.linalg.norm(x - self.start, axis=1) <= self.reach).all():
            raise _Strayed
        sources = np.concatenate([*(one.path.at(t) for one in self.given), x[self.inner]])
        return self.flow.motion.velocity_among(self.hearing, x, t, sources)

    def through(self, t: float, x: Array, until: float, first: float) -> bool:
        """Go on from x at t to x at the end of the step of all, and say whether that was possible."""
        self.start, self.reach = x, self.speeds * (until - t)
        velocity, h = self.velocity(t, x), first
        while t < until:
            leg = self._for(t, x, min(h, until - t)).leg(t, x, velocity, h, until, None)
            if leg is None:
                return False
            self.legs.append(leg)
            x, velocity, h = leg.y, leg.velocity, leg.following
            t = until if t + leg.step.h >= until else t + leg.step.h
        self.x = x
        return True

    def _for(self, t: float, x: Array, h: float) -> Part:
        """Return the same tokens with the fewer sources that they can hear in a step of the length h."""
        if self.pairs < NARROW:
            return self
        places = np.concatenate([*(one.path.at(t) for one in self.given), x[self.inner]])
        speeds = np.concatenate([*(one.speeds for one in self.given), self.speeds[self.inner]])
        near, lists = self.flow.near(t, h, Around(x, self.speeds * h), Around(places, speeds * h), self.sources)
        begin = len(places) - len(self.inner)
        inner = self.inner[near[near >= begin] - begin]
        part = Part(self.flow, self.rows, self.speeds, self._given(near), inner, lists)
        part.start, part.reach = x, self.speeds * h
        return part

    def at(self, t: float) -> Array:
        """Return where the tokens are at a time of the step of all."""
        leg = next((one for one in self.legs if t <= one.step.t + one.step.h), self.legs[-1])
        return leg.at(t)


class _All(Company):
    """All tokens of a run."""

    most, own = LARGEST, OWN

    def __init__(self, flow: Flowing, shape: tuple[int, int], velocity: Any) -> None:
        super().__init__(flow)
        self.shape, self.flat = shape, velocity
        self.few, self.rows, self.given = int(FEW * shape[0]), np.arange(shape[0]), []
        self.costly = COSTLY * float(shape[0])

    def velocity(self, t: float, x: Array) -> Array:
        found: Array = self.flat(t, x.ravel()).reshape(self.shape)
        return found


class LocalSteps(ByTokens):
    """The solver of a flow of many tokens; its steps depend on nothing but time, state, velocity and next step."""

    def __init__(self, flow: Flowing, shape: tuple[int, int], *problem: Any, **options: Any) -> None:
        super().__init__(*problem, **options)
        self.all = _All(flow, shape, self.fun)

    def take_step(self) -> bool:
        """Take one step, in which some tokens take shorter ones."""
        shape = self.all.shape
        x, velocity = self.y.reshape(shape), self.velocity.reshape(shape)
        leg = self.all.leg(self.t, x, velocity, self.next_step, self.t_bound, self.stages.reshape(-1, *shape))
        if leg is None:
            return False
        self.accept(leg.step.t + leg.step.h, leg.y.ravel(), leg.velocity.ravel(), leg.step.h, leg.following)
        self.taken = leg
        return True

    def interpolant(self) -> Any:
        """Return where all tokens are during the last step."""
        leg = self.taken
        return lambda t: leg.at(float(t)).ravel()


def _mean_square(errors: Array) -> float:
    """Return the root of the mean square."""
    return math.sqrt(float(np.mean(errors * errors))) if len(errors) else 0.0
