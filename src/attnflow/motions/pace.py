"""Which of two Runge-Kutta methods takes the next step of a flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import DOP853, RK45

from attnflow.inputs import Array

# Steps until the other method is tried: at first, and at most.
SOON, LATE = 16, 256
# A step of order 8 costs 12 evaluations of the velocity, one of order 5 costs 6.
COSTS = {DOP853: 12, RK45: 6}


class Pace:
    """Takes the method that gets further with an evaluation of the velocity: Dormand and Prince's of order 8 or 5.

    Where everything is smooth, order 8 takes far longer steps. Where some of very many tokens turn from one leader to
    the next during every step, it takes the same steps at twice the cost. After `SOON` steps the other method takes
    one, and goes on if its next one would get further at the same cost; if not, it is tried again after twice as many.
    """

    def __init__(self, state: Array | None = None) -> None:
        order, wait, left, rival = (8, SOON, SOON, 0.0) if state is None else state
        self.method = DOP853 if order == 8 else RK45
        self.wait, self.left = int(wait), int(left)
        # The next step of the method that is waiting for the outcome of a trial.
        self.rival = float(rival)
        self.waiting: Any = None

    def start(self, *problem: Any, **options: Any) -> Any:
        """Return the solver of a problem: velocity, time, state, the time to reach."""
        self.velocity, self.options = problem[0], options
        return self.method(*problem, **options)

    def _known(self, solver: Any) -> Callable[[float, Array], Array]:
        """Return the velocity, which is known already when a solver asks for the first time."""
        known = [solver.f]
        return lambda t, y: known.pop() if known else self.velocity(t, y)

    def turn(self, solver: Any) -> Any:
        """Return the solver of the next step, after one."""
        if solver.status != "running":
            return solver
        if self.rival:
            other, rival, self.rival = self._other(), self.rival, 0.0
            if solver.h_abs / COSTS[self.method] > rival / COSTS[other]:
                self.wait = self.left = SOON
                return solver
            self.wait = self.left = min(2 * self.wait, LATE)
            return self._hand_over(solver, rival)
        self.left -= 1
        if self.left:
            return solver
        self.rival = float(solver.h_abs)
        return self._hand_over(solver, self.rival * COSTS[self._other()] / COSTS[self.method])

    def _other(self) -> Any:
        return RK45 if self.method is DOP853 else DOP853

    def _hand_over(self, solver: Any, step: float) -> Any:
        """Return the solver of the other method, with this next step."""
        self.method, other = self._other(), self.waiting
        if other is None:
            whole = {"first_step": solver.t_bound - solver.t}
            other = self.method(self._known(solver), solver.t, solver.y, solver.t_bound, **{**self.options, **whole})
        other.t, other.y, other.f, other.t_bound, other.h_abs = solver.t, solver.y, solver.f, solver.t_bound, step
        self.waiting = solver
        return other

    def state(self) -> Array:
        """Return all that the choices to come depend on."""
        return np.array([8.0 if self.method is DOP853 else 5.0, self.wait, self.left, self.rival])
