"""One flow under way: SciPy's eighth-order Dormand-Prince method, stepped so that watchers see every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.integrate import DOP853

from attnflow.inputs import Array, InputError
from attnflow.laws import Hearing
from attnflow.motions.motion import Stretch

if TYPE_CHECKING:
    from attnflow.motions.flows import ContinuousMotion

# The absolute tolerance is this fraction of the relative one, times the size of the cloud.
ABSOLUTE = 1e-3


class Integration:
    """A `Stepper` for flows; its state is all that the next step depends on, so a stopped run goes on bit for bit."""

    def __init__(
        self, motion: ContinuousMotion, hearing: Hearing, x: Array, t: float, state: dict[str, Any] | None
    ) -> None:
        self.motion, self.hearing, self.shape = motion, hearing, x.shape
        self.t, self.x = float(t), x
        self.known = state or {}
        self.atol = float(self.known.get("atol", motion.rtol * ABSOLUTE * max(float(np.abs(x).max()), 1e-300)))
        self.evaluations = 0
        self.norm_defect = float(self.known.get("norm_defect", 0.0))
        self.solver: Any = None

    def _velocity(self, t: float, flat: Array) -> Array:
        self.evaluations += 1
        with np.errstate(over="ignore", invalid="ignore"):
            return self.motion.velocity(self.hearing, flat.reshape(self.shape), t).ravel()

    def _start(self, until: float) -> None:
        first = self.known.get("step_size")
        self.solver = DOP853(
            self._velocity,
            self.t,
            self.x.ravel(),
            until,
            rtol=self.motion.rtol,
            atol=self.atol,
            first_step=None if first is None else min(float(first), until - self.t),
        )
        if "velocity" in self.known:
            self.solver.h_abs = float(self.known["step_size"])
            self.solver.f = np.asarray(self.known["velocity"])
            self.evaluations = int(self.known["evaluations"])

    def advance(self, until: float) -> Stretch:
        """Take one accepted step, at most to the given time."""
        before = (self.t, self.x)
        with np.errstate(over="ignore", invalid="ignore"):
            if self.solver is None:
                self._start(float(until))
            solver = self.solver
            finite = np.isfinite(solver.f).all()
            if finite:
                solver.step()
        if not finite or solver.status == "failed":
            why = "its steps became too small" if finite else "speeds left the range of float64"
            sentence = f"the integrator stopped at t = {self.t:.6g} because {why}; {self.motion.hint}"
            return Stretch(before, np.empty(0), np.empty((0, *self.shape)), ended=sentence)
        reached = solver.y.reshape(self.shape)
        x = self.motion.retract(reached)
        if self.motion.retracts:
            # The velocity stays that of the point before: it differs by no more than the step's own error.
            self.norm_defect = max(self.norm_defect, float(np.abs(x - reached).max()))
            solver.y = x.ravel().copy()
        self.t, self.x = float(solver.t), x
        inside: list[Any] = []

        def between(t: float) -> Array:
            # The interpolant costs three evaluations, so it waits until somebody asks.
            if not inside:
                if self.t != stretch.times[0]:
                    raise InputError("this stretch is over: ask for states between its ends while it is being watched")
                inside.append(solver.dense_output())
            return self.motion.retract(inside[0](t).reshape(self.shape)) if t < stretch.times[0] else x

        stretch = Stretch(before, np.array([self.t]), x[None].copy(), between)
        return stretch

    def state(self) -> dict[str, Any]:
        """Return the next step size, the current velocity and the counters."""
        return {
            "atol": self.atol,
            "step_size": float(self.solver.h_abs),
            "velocity": self.solver.f,
            "evaluations": self.evaluations,
            "norm_defect": self.norm_defect,
        }

    def report(self) -> dict[str, Any]:
        """Return the number of evaluations of the velocity and the largest correction by the retraction."""
        report: dict[str, Any] = {"evaluations": self.evaluations}
        if self.motion.retracts:
            report["norm defect"] = self.norm_defect
        return report
