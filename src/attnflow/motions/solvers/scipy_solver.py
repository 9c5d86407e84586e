"""SciPy's Runge-Kutta solvers of order 8 and 5, and all that is used of them beyond what SciPy documents.

No other file of the package names these internals:

- `f`, the velocity at (t, y), and `h_abs`, the length that the next step is tried with, which may both be set;
- `t`, `y` and `t_bound`, which SciPy documents, and which may be set between two steps;
- `h_previous`, the length of the last step, and `K`, the velocities of its stages, the last row at its end;
- the coefficients `A`, `B`, `E3`, `E5`, `A_EXTRA` and `D` of `DOP853`;
- `K_extended`, that is K and the stages of the interpolant, `_step_impl`, which takes a step, and
  `_dense_output_impl`, which makes the interpolant;
- `_estimate_error_norm(K, h, scale)`, which says whether a step is accepted: if it returns less than 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy.integrate import DOP853, RK45

from attnflow.core.inputs import Array
from attnflow.laws import Law
from attnflow.motions.motion import Motion, returned_nan


class _Solver:
    """What the two methods have in common."""

    t: float
    y: Array
    t_bound: float
    f: Array
    h_abs: float
    h_previous: Any
    K: Array

    @property
    def velocity(self) -> Array:
        """The velocity at (t, y), with which the next step begins."""
        return self.f

    @velocity.setter
    def velocity(self, value: Array) -> None:
        self.f = value

    @property
    def next_step(self) -> float:
        """The length that the next step is tried with, unless t_bound is nearer."""
        return self.h_abs

    @next_step.setter
    def next_step(self, length: float) -> None:
        self.h_abs = length

    @property
    def last_step(self) -> Any:
        """The length of the last step, None before the first."""
        return self.h_previous

    def take_over(self, other: Any, step: float) -> None:
        """Go on from where another solver is, with a next step of this length."""
        self.t, self.y, self.f, self.t_bound, self.h_abs = other.t, other.y, other.f, other.t_bound, step

    def trouble(self, motion: Motion, law: Law) -> str:
        """Say why this motion cannot go on under this law, and what to do."""
        begins = np.isfinite(self.f).all()
        stages = self.K if begins else self.f[None]
        first = stages[~np.isfinite(stages).all(axis=1)][:1]
        why = "its steps became too small" if begins else "speeds left the range of float64"
        return returned_nan(motion, "velocity", first) or f"{why}; {motion.advice(law)}"


class Order8(_Solver, DOP853):  # type: ignore[misc]
    """Dormand and Prince's method of order 8."""

    def decay_per_step(self) -> float:
        """Return the product of the last step and the fastest rate of decay, as Hairer and Wanner's DOP853 measures it.

        Two evaluations at the end of a step are compared: that of the last stage and that of the step itself.
        """
        K, last, h = self.K, len(self.B) - 1, self.h_previous
        apart = h * float(np.linalg.norm(K[:-1].T @ self.B - K[:last].T @ self.A[last, :last]))
        return h * float(np.linalg.norm(K[-1] - K[last])) / apart if apart > 0 else 0.0


class ByTokens(Order8, ABC):
    """Order 8 with steps of one's own: a subclass writes `take_step`, which calls `accept`, and `interpolant`."""

    @abstractmethod
    def take_step(self) -> bool:
        """Take one step, and say whether that was possible."""

    @abstractmethod
    def interpolant(self) -> Any:
        """Return the function of time that gives the state during the last step."""

    @property
    def stages(self) -> Array:
        """Where the velocities of the stages of a step are kept, also of those that the interpolant needs."""
        kept: Array = self.K_extended
        return kept

    def accept(self, t: float, y: Array, velocity: Array, step: float, following: float) -> None:
        """Go on to this state, after a step of this length and before one of the length that follows."""
        self.y_old, self.t, self.y, self.f, self.h_previous, self.h_abs = self.y, t, y, velocity, step, following

    def _step_impl(self) -> tuple[bool, None]:
        return self.take_step(), None

    def _dense_output_impl(self) -> Any:
        return self.interpolant()


class Order5(_Solver, RK45):  # type: ignore[misc]
    """Dormand and Prince's method of order 5."""


class Together(Order8):
    """Many systems integrated with common steps, whose error is that of the worst system, not of the mean."""

    systems = 1

    def _estimate_error_norm(self, K: Array, h: float, scale: Array) -> float:
        fifth, third = ((np.dot(K.T, E) / scale).reshape(self.systems, -1) for E in (self.E5, self.E3))
        square5, square3 = (fifth**2).sum(axis=1), (third**2).sum(axis=1)
        mixed = np.sqrt((square5 + 0.01 * square3) * fifth.shape[1])
        # Where something left the range of float64 this is not a number, and the step is refused.
        worst = (square5 / np.where(mixed == 0, 1.0, mixed)).max()
        return float(abs(h) * worst)


def coefficients(name: str) -> Array:
    """Return the coefficients of order 8 with this name, for compiled code."""
    return np.ascontiguousarray(getattr(DOP853, name))
