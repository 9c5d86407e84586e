"""Averaging layers over exponentially many steps: literal where tokens move, in leaps where they drift."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.core.indices import weight_rows, weights
from attnflow.core.inputs import Array
from attnflow.laws import Hearing
from attnflow.motions.motion import ABSOLUTE, ENDLESS, SLOW_STEPS, steps_per_stretch, whole_type
from attnflow.motions.solvers.clumps import MEETING, Clumps
from attnflow.motions.stepper import Stepper, Stretch

if TYPE_CHECKING:
    from attnflow.motions.layers import Leaps

# A leap evaluates G about forty times, so that a shorter one costs more than its steps.
LEAST = 64
# The part of the cloud's size over which the change of G is felt before the first leap.
PROBE = 1e-4
# A leap counts as COST steps. A run is slow while PACE of them get less than SHORT times as far as they are literal
# steps, and the user is warned when that has lasted for HELD of them.
COST, PACE, SHORT, HELD = 40, 2000, 8, 20_000
WHY = "a fast stable motion, as that of a token which follows another one, does not end; end earlier"
# No leap is longer: whole numbers beyond are not float64.
LONGEST = 1e300


class Drifting(Stepper):
    """Bodies y with the next literal step G, which are at the step t."""

    def __init__(self, motion: Leaps, hearing: Hearing, x: Array, t: int, state: dict[str, Any]) -> None:
        self.gamma, self.rtol, self.t = motion.gamma, motion.rtol, t
        self.hearing = replace(hearing, engine="dense")
        self.size = float(state.get("size", np.linalg.norm(np.ptp(x, axis=0))))
        # The length of the next leap, 0 if it is not known; and how many literal steps come before it.
        self.stride, self.pause = float(state.get("stride", 0.0)), int(state.get("pause", 0))
        self.steps, self.leaps = int(state.get("steps", 0)), int(state.get("leaps", 0))
        # What the steps and leaps since `mark` cost, for how long they were short, and how many steps are to come.
        self.cost, self.mark, self.crawled, self.left = 0, t, 0, 0.0
        known = Clumps(state["labels"], state.get("masses")) if state else Clumps.at_the_start(x, hearing)
        self._embody(known, known.bodies(x))

    def _embody(self, clumps: Clumps, y: Array) -> None:
        self.clumps, self.hearing = clumps, replace(self.hearing, masses=clumps.masses)
        self.y, self.G = y, self._step(y)

    def _step(self, y: Array) -> Array:
        return _step(y, self.hearing, self.gamma)

    def _drifts(self, G: Array, ahead: Array) -> bool:
        """Say whether the fourth term of log F is below rtol of the first, for each body; `ahead` is G a step later."""
        return bool((_norms(ahead - G) <= (4 * self.rtol) ** (1 / 3) * _norms(G)).all())

    def _guess(self) -> float:
        """Return over how many steps G should change by about a tenth, from its change over a short way ahead.

        Where a step is below the rounding of the tokens, the next step alone would tell nothing.
        """
        way = min(PROBE * self.size / float(np.abs(self.G).max()), LONGEST)
        change, speed = _norms(self._step(self.y + way * self.G) - self.G), _norms(self.G)
        moving = speed > 0
        return 0.1 * way / max(float((change[moving] / speed[moving]).max()), PROBE)

    def advance(self, until: float) -> Stretch:
        before, end, kind = (self.t, self.clumps.tokens(self.y)), int(until), whole_type(int(until))
        most, times, states = steps_per_stretch(len(self.y)), list[int](), list[Array]()
        self.left = float(end - self.t)
        while self.t < end and len(times) < most:
            ahead = self._step(self.y + self.G)
            if self.pause == 0 and self._drifts(self.G, ahead):
                # A leap is a stretch of its own.
                if times:
                    break
                if (between := self._leap(end)) is not None:
                    return Stretch(before, np.array([self.t], kind), self.clumps.tokens(self.y)[None], between)
                self.pause = LEAST
            self._moved(1, self.y + self.G, ahead)
            self.steps, self.pause = self.steps + 1, max(0, self.pause - 1)
            times.append(self.t)
            states.append(self.clumps.tokens(self.y))
        return Stretch(before, np.array(times, kind), np.stack(states))

    def _moved(self, steps: int, y: Array, G: Array) -> None:
        """Go on to y, where the next step is G, and unite bodies that have met there."""
        self.t, self.y, self.G = self.t + steps, y, G
        self._keep_pace(1 if steps == 1 else COST)
        unites = not self.hearing.law.positional
        if unites and (found := self.clumps.united(y, G, MEETING * self.rtol * self.size)) is not None:
            self._embody(*found)

    def slow(self) -> str | None:
        """Say, where very many literal steps are to come, why, and what helps."""
        many = self.crawled > 0 and self.left > SHORT * SLOW_STEPS
        return f"few steps are leapt over, because {WHY}" if many else None

    def _keep_pace(self, cost: int) -> None:
        """Note what a step or a leap cost; warn where leaps are short for long, though very many steps are to come."""
        self.cost += cost
        if self.cost < PACE:
            return
        before = self.crawled
        self.crawled = self.crawled + self.cost if self.t - self.mark < SHORT * self.cost else 0
        self.cost, self.mark = 0, self.t
        if before < HELD <= self.crawled and self.left > ENDLESS:
            warnings.warn(f"{self.left:.3g} steps are to come and few are leapt over, because {WHY}", stacklevel=2)

    def _warn_if_unknown(self, end: int) -> None:
        """Warn of a rest so long that steps below the rounding of the tokens could add up to more than the tolerance.

        Averages stay in the hull: tokens that are all at one place do rest.
        """
        extent = float(np.linalg.norm(np.ptp(self.y, axis=0)))
        if self.hearing.law.accurate_pull or extent <= MEETING * self.rtol * self.size:
            return
        y, drift = self.y, 0.0
        for rows, P in weight_rows(self.hearing.law, y, 0, sources=y, masses=self.hearing.masses, of=weights):
            pulls = (np.abs(row @ (y - one)).max() for row, one in zip(P, y[rows], strict=True))
            drift = max(drift, self.gamma * float(max(pulls)))
        if (end - self.t) * drift > self.rtol * self.size:
            warnings.warn(
                f"from step {self.t} on all steps are lost in rounding, and tokens are taken to rest: drifts of about "
                f"{drift:.0e} in each step, which may add up, are not followed; end earlier",
                stacklevel=2,
            )

    def _leap(self, end: int) -> Callable[[float], Array] | None:
        """Leap at most to the end and return the states on the way; None if literal steps are better."""
        start, clumps, y = self.t, self.clumps, self.y
        if not self.G.any():
            self._warn_if_unknown(end)
            self.leaps += 1
            self._moved(end - start, y, self.G)
            return lambda t: clumps.tokens(y)
        wanted = int(min(self.stride or self._guess(), LONGEST))
        self.shortened = self.shortened or wanted > end - start
        length = min(wanted, end - start)
        while length >= LEAST:
            arc = _Arc(y, self.hearing, self.gamma, length, self.rtol, self.rtol * ABSOLUTE * self.size)
            length, reached = arc.length, arc.at(arc.length)
            G = self._step(reached)
            if length >= LEAST and self._drifts(G, self._step(reached + G)):
                self._moved(length, reached, G)
                self.leaps, self.stride = self.leaps + 1, arc.next_length
                return lambda t: clumps.tokens(arc.at(t - start))
            # On the way the drift has become a motion: stop before.
            length //= 2
        self.stride = 0.0
        return None

    def state(self) -> dict[str, Any]:
        """Return the extent of the first cloud, which tokens are one, the next leap's length and the counters."""
        state = {
            "size": self.size, "stride": self.stride, "pause": self.pause, "steps": self.steps, "leaps": self.leaps,
            "labels": self.clumps.labels,
        }  # fmt: skip
        return state if self.clumps.masses is None else {**state, "masses": self.clumps.masses}

    def report(self) -> dict[str, Any]:
        """Return how many literal steps and leaps there were, and how many tokens go on as part of another."""
        merged = len(self.clumps.labels) - self.clumps.count
        return {"engine": "dense", "steps": self.steps, "leaps": self.leaps, "merged": merged}


def _step(y: Array, hearing: Hearing, gamma: float) -> Array:
    """Return G(y) = gamma sum_j P_ij (y_j - y_i)."""
    with np.errstate(over="ignore", invalid="ignore"):
        G = gamma * hearing.pull(y, 0).mean
    if not hearing.law.accurate_pull:
        # A step that is lost beside the token, as in `Layers`, is the rounding of a barycentre.
        G[(y + G == y).all(axis=1)] = 0.0
    return G


def _log_step(y: Array, hearing: Hearing, gamma: float) -> Array:
    """Return log F at y by three forward differences: G_0 - (G_1 - G_0) / 2 + (G_2 - 2 G_1 + G_0) / 3."""
    G0 = _step(y, hearing, gamma)
    G1 = _step(y + G0, hearing, gamma)
    G2 = _step(y + G0 + G1, hearing, gamma)
    return G0 - (G1 - G0) / 2 + ((G2 - G1) - (G1 - G0)) / 3


class _Arc:
    """One step of SciPy's integrator along log F from y, over `length` steps: those asked for, or as its error allows.

    Those asked for are the unit of its time, so that squares of a drift of 1e-200 do not vanish.
    """

    def __init__(self, y: Array, hearing: Hearing, gamma: float, steps: int, rtol: float, atol: float) -> None:
        from attnflow.motions.solvers.scipy_solver import Order8

        def field(s: float, flat: Array) -> Array:
            return self.unit * _log_step(flat.reshape(y.shape), hearing, gamma).ravel()

        self.shape, self.unit = y.shape, float(steps)
        self.solver = Order8(field, 0.0, y.ravel(), 1.0, rtol=rtol, atol=atol, first_step=1.0)
        self.solver.step()
        self.length = steps if self.solver.t == 1 else int(self.solver.t * self.unit)
        # The interpolant costs three evaluations, so it waits until somebody asks.
        self.inside = cache(self.solver.dense_output)

    @property
    def next_length(self) -> float:
        """How long the integrator wants the next step to be; where it had to shorten this one, shorter once more.

        For a drift mostly grows by the same factor from one leap to the next.
        """
        return float(self.solver.next_step * self.solver.t) * self.unit

    def at(self, steps: float) -> Array:
        """Return the bodies after `steps` steps."""
        s = steps / self.unit
        flat: Array = self.solver.y if s >= self.solver.t else self.inside()(s)
        return flat.reshape(self.shape)


def _norms(vectors: Array) -> Array:
    """Return the largest coordinate of each: squares of 1e-200 would vanish."""
    norms: Array = np.abs(vectors).max(axis=1)
    return norms
