"""One flow under way: SciPy's Runge-Kutta methods, stepped so that watchers see every step."""

from __future__ import annotations

import math
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.core.inputs import Array, InputError
from attnflow.engines import Memory
from attnflow.laws import Hearing, varies
from attnflow.motions.motion import ABSOLUTE, ENDLESS, SLOW_STEPS, moved
from attnflow.motions.normalisation import no_direction, token_through_zero
from attnflow.motions.solvers.clumps import MEETING, Clumps
from attnflow.motions.solvers.local_steps import Flowing, LocalSteps
from attnflow.motions.solvers.order_switch import CROWD, OrderSwitch
from attnflow.motions.solvers.scipy_solver import Order8
from attnflow.motions.stepper import NoDirection, Stepper, Stretch

if TYPE_CHECKING:
    from attnflow.motions.flows import ContinuousMotion


# Flows with a tolerance below this need sums that are exact to rounding.
NOISY = 1e-9
# From this many coordinates on, tokens that need shorter steps than most take them alone.
MANY = CROWD
# From BLAS_THREADS_FROM coordinates on BLAS would use threads.
BLAS_THREADS_FROM = 1 << 13
# Explicit steps of order 8 are stable up to a product of 6.1 of their length and the rate of a decay, and a flow that
# accuracy holds back stays well below that.
STIFF = 3.5
# The first steps of a flow are always short, so its steps are looked at after SETTLED evaluations. The user is told a
# reason for short steps when LOOKS steps have the same one.
SETTLED, LOOKS = 1000, 3
# Whether a flow would take more than ENDLESS steps is judged by the pace of its last PACE steps.
PACE = 2000


def _alone(numbers: int) -> AbstractContextManager[object]:
    """Return a context in which BLAS uses one thread if there are many numbers.

    The integrator multiplies matrices between two sums of attention, after which threads of BLAS would spin for a while
    and keep those of the sums waiting.
    """
    if numbers < BLAS_THREADS_FROM:
        return nullcontext()
    from threadpoolctl import ThreadpoolController

    limited: AbstractContextManager[object] = ThreadpoolController().limit(limits=1, user_api="blas")
    return limited


class Integration(Stepper):
    """The stepper of flows; its state is all that the next step depends on, so a stopped run goes on bit for bit.

    What is integrated are bodies: tokens that coincide move as one. Where tokens meet, after long rests, each step has
    a clock of its own that starts at 0, so that a step of length 1 does not vanish beside a time of 1e20 (several
    states then have the same time, to rounding), and ticks at the speed of the motion: the integrator squares speeds,
    and 1e-200 must not vanish.
    """

    def __init__(
        self, motion: ContinuousMotion, hearing: Hearing, x: Array, t: float, state: dict[str, Any] | None
    ) -> None:
        self.motion, self.t, self.x = motion, float(t), x
        self.known = state or {}
        self.atol = float(self.known.get("atol", motion.rtol * ABSOLUTE * max(float(np.abs(x).max()), 1e-300)))
        self.evaluations = 0
        self.change = math.inf if motion.changes_at is None else float(motion.changes_at)
        self.norm_defect = float(self.known.get("norm_defect", 0.0))
        # Sums that err by 1e-10 would be noise to a tighter tolerance.
        precise = hearing.engine == "auto" and motion.rtol < NOISY
        # Kept for one step, so that a run that is taken up again sums in the same order.
        self.memory = Memory()
        self.hearing = replace(hearing, engine="precise" if precise else hearing.engine, memory=self.memory)
        # Tokens that approach now may part later if the law or the motion changes with time, or tells them apart.
        self.unites = motion.unites and not (varies(hearing.law) or varies(motion) or hearing.law.positional)
        labels = self.known.get("labels")
        known = None if labels is None else Clumps(labels, self.known.get("masses"))
        self._embody(known or Clumps.at_the_start(x, hearing))
        many = self.clumps.count * x.shape[1] >= MANY
        self.some_alone = many and motion.moves_some and hearing.law.exponents is not None and not self.unites
        self.solver: Any = None
        self.pace = OrderSwitch(self.known.get("pace"))
        self.origin, self.unit = 0.0, 1.0
        # Why steps are short, what the last looks have found, how many of them alike, and when the last one was.
        self.reason: str | None = None
        self.stiff, self.alike, self.looked = False, 0, math.nan
        self.steps, self.mark = 0, math.nan

    def _embody(self, clumps: Clumps) -> None:
        self.clumps, self.hearing = clumps, replace(self.hearing, masses=clumps.masses)

    def _set_clock(self) -> None:
        """Let the next step begin at 0, in a unit of time in which speeds are of order one."""
        if not self.unites:
            return
        self.origin, solver = self.t, self.solver
        speed = float(np.abs(solver.velocity).max()) / self.unit
        if 0 < speed < np.inf:
            # A power of two changes no bit.
            unit = 2.0 ** -max(-1000, min(1000, round(math.log2(speed))))
            solver.velocity = solver.velocity * (unit / self.unit)
            solver.next_step = solver.next_step * (self.unit / unit)
            self.unit = unit

    def _velocity(self, s: float, flat: Array) -> Array:
        self.evaluations += 1
        x, t = flat.reshape(self.clumps.count, -1), self.origin + self.unit * s
        # Stages at the end of a step that leads to a change see the motion as it is before.
        t = min(t, self.latest)
        with np.errstate(over="ignore", invalid="ignore"):
            return self.unit * moved(self.motion, "velocity", self.motion.velocity(self.hearing, x, t), x).ravel()

    def _start(self, y: Array, first: float | None, until: float) -> None:
        self.memory.forget()
        self.latest = math.nextafter(self.change, -math.inf) if self.t < self.change else math.inf
        self.origin, self.unit = self.t if self.unites else 0.0, 1.0
        problem = self._velocity, self.t - self.origin, y.ravel(), until - self.origin
        first_step = None if first is None else min(first, until - self.t)
        options: dict[str, Any] = {"rtol": self.motion.rtol, "atol": self.atol, "first_step": first_step}
        if self.some_alone:
            flow = Flowing(self.motion, self.hearing, self.motion.rtol, self.atol, len(y))
            self.solver = LocalSteps(flow, y.shape, *problem, **options)
        else:
            self.solver = self.pace.start(*problem, **options)
        self.shortened = self.shortened or self._limited(first, until)

    def _limited(self, first: float | None, until: float) -> bool:
        """Say whether the end of the run shortened the first step, or the trial step by which SciPy chooses it."""
        left = (until - self.t) * (1 - 1e-12)
        if first is not None:
            return first > left
        scale = self.atol + np.abs(self.solver.y) * self.motion.rtol
        known = self.solver.y, self.solver.velocity
        d0, d1 = (float(np.linalg.norm(v / scale)) / math.sqrt(v.size) for v in known)
        trial = 1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1
        return trial > left or float(self.solver.next_step) >= left

    def _go_on(self, until: float) -> None:
        """Start, or go on from the state of a checkpoint."""
        first = self.known.get("step_size")
        self._start(self.clumps.bodies(self.x), None if first is None else float(first), until)
        if "velocity" in self.known:
            self.solver.next_step = float(self.known["step_size"])
            self.solver.velocity = np.asarray(self.known["velocity"])
            self.evaluations = int(self.known["evaluations"])

    def advance(self, until: float) -> Stretch:
        """Take one accepted step, at most to the given time."""
        before = (self.t, self.x)
        with np.errstate(over="ignore", invalid="ignore"), _alone(self.x.size):
            if self.solver is None:
                self._go_on(float(until))
            solver, clumps = self.solver, self.clumps
            finite = np.isfinite(solver.velocity).all()
            if finite:
                self._set_clock()
                bound = self._bound(until)
                solver.t, solver.t_bound = (self.t - self.origin) / self.unit, (bound - self.origin) / self.unit
                self.memory.forget()
                # A step that is cut at the end may be refused and taken anew, shorter than it would have been.
                longest = max(float(solver.next_step), self.pace.rival)
                self.shortened = self.shortened or (bound == until and solver.t + longest > solver.t_bound)
                try:
                    solver = self.solver = self.pace.step(solver)
                except NoDirection as error:
                    return Stretch.none(*before, str(error))
        if not finite or solver.status == "failed":
            why = solver.trouble(self.motion, self.hearing.law)
            return Stretch.none(*before, f"the integrator stopped at t = {self.t:.6g} because {why}")
        self.t = float(bound) if solver.status == "finished" else self.origin + self.unit * float(solver.t)
        bodies, inside, origin, unit = self._retracted(), [], self.origin, self.unit
        velocity, near = solver.velocity.reshape(bodies.shape), MEETING * self.motion.rtol
        if self.unites and (found := clumps.united(bodies, velocity, near)) is not None:
            inside.append(solver.dense_output())
            bodies = self._unite(*found, float(until))
        x = self.clumps.tokens(bodies)
        # States err by about rtol times the size of the cloud: nearer to 0 than that, no direction is known.
        reach = self.atol / ABSOLUTE
        if self.motion.keeps_radii and (met := token_through_zero(before[1], x, reach)) is not None:
            t, self.t = before[0] + met[1] * (self.t - before[0]), before[0]
            return Stretch.none(*before, no_direction(self.motion, met[0], f"t = {t:.6g}"))
        self.x = x

        def between(t: float) -> Array:
            # The interpolant costs three evaluations, so it is made only when it is asked for.
            if t >= stretch.times[0]:
                return x
            if not inside:
                if self.t != stretch.times[0]:
                    raise InputError("this stretch is over: ask for states between its ends while it is being watched")
                inside.append(solver.dense_output())
            return clumps.tokens(self.motion.retract(inside[0]((t - origin) / unit).reshape(clumps.count, -1)))

        stretch = Stretch(before, np.array([self.t]), x[None].copy(), between)
        self.steps += 1
        if self.steps % PACE == 0:
            self._warn_if_endless(float(until))
        if self.t == self.change and self.t < until:
            self._start(bodies, None, float(until))
        elif not (self.unites or self.some_alone):
            self.solver = self.pace.turn(solver)
        return stretch

    def _bound(self, until: float) -> float:
        """Return how far a step may go: to the end, or to the time at which the motion changes."""
        return min(until, self.change) if self.t < self.change else until

    def _retracted(self) -> Array:
        """Return the bodies after the step, put back where the motion lives."""
        reached = self.solver.y.reshape(self.clumps.count, -1)
        y = self.motion.retract(reached)
        if self.motion.retracts:
            # The velocity stays that of the point before: it differs by no more than the step's own error.
            self.norm_defect = max(self.norm_defect, float(np.abs(y - reached).max()))
            self.solver.y = y.ravel().copy()
        return y

    def _unite(self, clumps: Clumps, y: Array, until: float) -> Array:
        """Go on with these bodies."""
        y = self.motion.retract(y)
        self._embody(clumps)
        if self.t < until:
            self._start(y, self.unit * float(self.solver.next_step), until)
        return y

    def state(self) -> dict[str, Any]:
        """Return the next step size, the current velocity, the counters, and which tokens are one."""
        if self.solver is None:
            return self.known
        state = {
            "atol": self.atol,
            "step_size": self.unit * float(self.solver.next_step),
            "velocity": self.solver.velocity / self.unit,
            "evaluations": self.evaluations,
            "norm_defect": self.norm_defect,
            "labels": self.clumps.labels,
            "pace": self.pace.state(),
        }
        return state if self.clumps.masses is None else {**state, "masses": self.clumps.masses}

    def slow(self) -> str | None:
        """Say, of a flow that has very many steps before it, why they are short and what helps."""
        solver = self.solver
        # The first reason that was found is kept: two reasons would confuse the reader. Each step is looked at once.
        if self.reason is not None or self.evaluations < SETTLED or self.looked == self.t:
            return self.reason
        if not isinstance(solver, Order8) or solver.last_step is None:
            return None
        self.looked = self.t
        h, left = solver.last_step, solver.t_bound - solver.t
        if not left > SLOW_STEPS * h > 0:
            return None
        stiff = solver.decay_per_step() >= STIFF
        self.alike = self.alike + 1 if stiff == self.stiff else 1
        self.stiff = stiff
        if self.alike >= LOOKS:
            self.reason = self._why(stiff)
        return self.reason

    def _why(self, stiff: bool) -> str:
        """Say why steps are short, and what helps."""
        short = "this flow is stiff: a fast decay keeps its steps short; "
        turns = "steps are short: tokens turn quickly; loosen rtol, lower beta, "
        return (short if stiff else turns) + self.motion.helps

    def _warn_if_endless(self, until: float) -> None:
        """Warn of a flow that gets nowhere, neither in time nor in log time, in which flows with long rests advance."""
        since, self.mark = self.mark, self.t
        if not 0 < since < until:
            return
        way = max((self.t - since) / (until - since), math.log(self.t / since) / math.log(until / since))
        if way * ENDLESS < PACE:
            stiff = isinstance(self.solver, Order8) and self.solver.decay_per_step() >= STIFF
            warnings.warn(f"this run would take more than {ENDLESS:.0e} steps; {self._why(stiff)}", stacklevel=2)

    def report(self) -> dict[str, Any]:
        """Return the number of evaluations of the velocity, of bodies, and the largest correction by the retraction."""
        engine = self.hearing.served_by(self.motion.seen(self.clumps.bodies(self.x), self.t), self.t)
        report: dict[str, Any] = {"engine": engine, "evaluations": self.evaluations, "bodies": self.clumps.count}
        if self.motion.retracts:
            report["norm defect"] = self.norm_defect
        return report
