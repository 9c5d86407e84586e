"""Which of two Runge-Kutta methods takes the next step of a flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnflow.core.inputs import Array
from attnflow.motions.solvers.scipy_solver import Order5, Order8

# Steps until the other method is tried: at first, and at most.
SOON, LATE = 16, 256
# A step of order 8 costs 12 evaluations of the velocity, one of order 5 costs 6.
COSTS = {Order8: 12, Order5: 6}
# Order 5 is chosen only if it gets CLEARLY times as far for the same cost, at a tolerance TIGHTER times smaller,
# because its estimate of the error is less reliable.
CLEARLY, TIGHTER = 1.5, 3.0
# Among CROWD coordinates or more, some token turns in every step. With fewer, tokens that are held between two leaders
# could be lost by order 5, which takes long steps across a tie that order 8 resolves.
CROWD = 1 << 13


class OrderSwitch:
    """Takes the method that gets further with an evaluation of the velocity: Dormand and Prince's of order 8 or 5.

    Where everything is smooth, order 8 takes far longer steps. Where some of very many tokens turn from one leader to
    the next during every step, it takes the same steps at twice the cost. After `SOON` steps the other method takes
    one, and goes on if its next one would get further at the same cost, order 5 clearly further; if not, it is tried
    again after twice as many.
    """

    def __init__(self, state: Array | None = None) -> None:
        order, wait, left, rival = (8, SOON, SOON, 0.0) if state is None else state
        self.method = Order8 if order == 8 else Order5
        self.wait, self.left = int(wait), int(left)
        # The next step of the method that is waiting for the outcome of a trial.
        self.rival = float(rival)
        self.waiting: Any = None

    def start(self, *problem: Any, **options: Any) -> Any:
        """Return the solver of a problem: velocity, time, state, the time to reach."""
        self.velocity, self.options = problem[0], options
        return self._made(*problem, **options)

    def _made(self, *problem: Any, **options: Any) -> Any:
        if self.method is Order5:
            options = {**options, "rtol": options["rtol"] / TIGHTER, "atol": options["atol"] / TIGHTER}
        return self.method(*problem, **options)

    def _known(self, solver: Any) -> Callable[[float, Array], Array]:
        """Return the velocity, which is known already when a solver asks for the first time."""
        known = [solver.velocity]
        return lambda t, y: known.pop() if known else self.velocity(t, y)

    def step(self, solver: Any) -> Any:
        """Take a step, and return the solver that took it: where a trial fails, the one that was waiting."""
        solver.step()
        if solver.status == "failed" and self.rival:
            solver = self._give_back(solver)
            solver.status = "running"
            solver.step()
        return solver

    def turn(self, solver: Any) -> Any:
        """Return the solver of the next step, after one."""
        if solver.status != "running" or solver.n < CROWD:
            return solver
        if self.rival:
            further = (solver.next_step / COSTS[self.method]) / (self.rival / COSTS[self._other()])
            if further > (CLEARLY if self.method is Order5 else 1 / CLEARLY):
                self.wait, self.left, self.rival = SOON, SOON, 0.0
                return solver
            return self._give_back(solver)
        self.left -= 1
        if self.left:
            return solver
        self.rival = float(solver.next_step)
        return self._hand_over(solver, self.rival * COSTS[self._other()] / COSTS[self.method])

    def _other(self) -> Any:
        return Order5 if self.method is Order8 else Order8

    def _give_back(self, solver: Any) -> Any:
        """Return the solver that was waiting, after a trial that it has won."""
        self.wait = self.left = min(2 * self.wait, LATE)
        rival, self.rival = self.rival, 0.0
        return self._hand_over(solver, rival)

    def _hand_over(self, solver: Any, step: float) -> Any:
        """Return the solver of the other method, with this next step."""
        self.method, other = self._other(), self.waiting
        if other is None:
            whole = {"first_step": solver.t_bound - solver.t}
            other = self._made(self._known(solver), solver.t, solver.y, solver.t_bound, **{**self.options, **whole})
        other.take_over(solver, step)
        self.waiting = solver
        return other

    def state(self) -> Array:
        """Return all that the choices to come depend on."""
        return np.array([8.0 if self.method is Order8 else 5.0, self.wait, self.left, self.rival])
