"""Which method takes the next step: order 8 where everything is smooth, order 5 where nothing is."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import attnflow as af
from attnflow.motions.solvers.order_switch import CROWD, SOON, OrderSwitch
from attnflow.motions.solvers.scipy_solver import Order5, Order8

Array = NDArray[np.float64]
# Where some coordinate of many turns, and how sharply.
TURNS, SHARP, SPEED = np.sort(np.random.default_rng(0).uniform(0, 1, CROWD)), 1e6, 1e-4


def kinks(t: float, y: Array) -> Array:
    return SPEED * np.tanh(SHARP * (t - TURNS))


def integral_of_kinks(t: float) -> Array:
    log_cosh = [np.logaddexp(SHARP * (s - TURNS), -SHARP * (s - TURNS)) for s in (t, 0.0)]
    return SPEED * (log_cosh[0] - log_cosh[1]) / SHARP


def travel(
    velocity: Any, y: Array, until: float, pace: OrderSwitch, rtol: float = 1e-9
) -> tuple[Array, list[Any], list[int]]:
    """Integrate from 0; return the end, the method of every step, and how often the velocity was asked for."""
    calls = [0]

    def counted(t: float, y: Array) -> Array:
        calls[0] += 1
        return np.asarray(velocity(t, y))

    solver, methods = pace.start(counted, 0.0, y, until, rtol=rtol, atol=rtol * 1e-3, first_step=until / 100), []
    while solver.status == "running":
        solver = pace.step(solver)
        methods.append(type(solver))
        reached = solver.y
        solver = pace.turn(solver)
    return reached, methods, calls


def turning(t: float, y: Array) -> Array:
    """Many oscillators y'' = -y."""
    return np.stack([y[1::2], -y[::2]], axis=1).ravel()


def test_a_smooth_flow_keeps_the_high_order() -> None:
    y, methods, _ = travel(turning, np.tile([0.0, 1.0], CROWD // 2), 60.0, OrderSwitch())
    np.testing.assert_allclose(y[:2], [np.sin(60.0), np.cos(60.0)], atol=3e-7)
    tried = [k for k, method in enumerate(methods) if method is Order5]
    # One step after 16 others, the next after 32 more.
    assert tried[:2] == [SOON, 3 * SOON + 1]
    assert len(methods) > 3 * SOON + 1
    assert len(tried) <= 3


def test_few_coordinates_never_leave_the_high_order() -> None:
    _, methods, _ = travel(lambda t, y: kinks(t, y)[: CROWD - 1], np.ones(CROWD - 1), 0.1, OrderSwitch())
    assert len(methods) > SOON
    assert set(methods) == {Order8}


def test_a_trial_that_fails_gives_back() -> None:
    """At t = 3e13, where a step of order 5 would be below the spacing of numbers, order 8 goes on alone."""
    pace, start = OrderSwitch(), 3e13
    solver = pace.start(turning, start, np.tile([0.0, 1.0], CROWD // 2), start + 8.0, rtol=1e-12, atol=1e-15)
    steps, tried = 0, 0
    while solver.status == "running":
        tried += type(solver) is Order5
        solver = pace.step(solver)
        assert type(solver) is Order8
        steps += 1
        solver = pace.turn(solver)
    assert solver.status == "finished"
    assert steps > SOON
    assert tried > 0


# Where a run at rtol=1e-11 ends, which takes seconds.
BETWEEN = np.array([[-0.41356377107943465, -2.4393768105590214], [-0.4118525607478558, -2.439860566444098]])


@pytest.mark.parametrize(
    ("rtol", "error"), [(1e-7, 1e-6), *([(1e-10, 1e-9)] if "ATTNFLOW_EXAMPLES" in os.environ else [])]
)
def test_tokens_between_two_leaders_stay_there(rtol: float, error: float) -> None:
    """Two tokens that order 5 would lose: both stay within ten tolerances of where a far tighter run ends."""
    x0, V = af.tokens.gaussian(n=2, d=2, seed=2), [[1.0, 0.3], [-0.2, 0.8]]
    end = af.simulate(x0, af.Softmax(), af.RescaledFlow(V=V, rtol=rtol), until=9.5, record=[9.5]).final
    assert np.abs(end - BETWEEN).max() < error * np.abs(BETWEEN).max()


def test_where_something_turns_in_every_step_the_low_order_gets_as_far_for_half() -> None:
    start = np.ones(CROWD)
    y, methods, calls = travel(kinks, start, 1.0, OrderSwitch())
    # Every step may err by the tolerance.
    assert np.sqrt(np.mean((y - start - integral_of_kinks(1.0)) ** 2)) < 1e-9 * len(methods)
    late = methods[2 * SOON :]
    assert late.count(Order5) > 0.8 * len(late)

    class Never(OrderSwitch):
        def turn(self, solver: Any) -> Any:
            return solver

    alone = travel(kinks, start, 1.0, Never())[2]
    assert calls[0] < 0.6 * alone[0]


def test_it_comes_back_to_the_high_order_after_a_rough_stretch() -> None:
    def velocity(t: float, y: Array) -> Array:
        return kinks(t, y) if t < 1 else np.cos(50 * (t - 1)) + 0 * y

    y, methods, _ = travel(velocity, np.ones(CROWD), 20.0, OrderSwitch())
    np.testing.assert_allclose(y - 1, integral_of_kinks(1.0) + np.sin(50 * 19.0) / 50, atol=1e-6)
    assert Order5 in methods
    assert methods[-SOON:].count(Order8) >= SOON - 1


@pytest.mark.parametrize("after", [3, SOON, SOON + 1, SOON + 2, 60])
def test_its_state_is_all_that_the_next_steps_depend_on(after: int) -> None:
    pace = OrderSwitch()
    options: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-12, "first_step": 0.01}
    solver = pace.start(kinks, 0.0, np.ones(CROWD), 1.0, **options)
    for _ in range(after):
        solver.step()
        solver = pace.turn(solver)
    again = OrderSwitch(pace.state())
    other = again.start(kinks, solver.t, solver.y, 1.0, **options)
    other.f, other.h_abs = solver.f, solver.h_abs
    for _ in range(40):
        solver.step()
        other.step()
        assert type(solver) is type(other)
        assert solver.t == other.t
        assert solver.y.tobytes() == other.y.tobytes()
        solver, other = pace.turn(solver), again.turn(other)
