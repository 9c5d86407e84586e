"""What is used of SciPy's solvers beyond their documentation; a failure says what SciPy has changed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnflow as af
from attnflow.motions.solvers import scipy_solver
from attnflow.motions.solvers.ensemble_kernels import INNER_STAGES, STAGES
from attnflow.motions.solvers.scipy_solver import Order5, Order8, Together, coefficients

RATE = 3.0


def changed(what: str) -> str:
    return f"SciPy has changed: {what}; adapt src/attnflow/motions/solvers/scipy_solver.py"


def decay(t: float, y: Any) -> Any:
    return -RATE * y


def solver(method: Any, **options: Any) -> Any:
    return method(decay, 0.0, np.array([1.0, 2.0]), 10.0, rtol=1e-8, atol=1e-12, first_step=0.01, **options)


@pytest.mark.parametrize("method", [Order8, Order5, Together])
def test_steps_and_velocities_are_where_they_were(method: Any) -> None:
    one = solver(method)
    assert (one.f == decay(0.0, one.y)).all(), changed("f is not the velocity at the start")
    assert (one.h_abs, one.h_previous) == (0.01, None), changed("h_abs is not the next step, or h_previous the last")
    one.step()
    assert one.t == one.h_previous == 0.01, changed("h_abs is not the length of the next step")
    assert (one.f == decay(one.t, one.y)).all(), changed("f is not the velocity after a step")
    assert (one.K[-1] == one.f).all(), changed("the last row of K is not the velocity after a step")
    np.testing.assert_array_equal(one.K[0], decay(0.0, np.array([1.0, 2.0])), changed("K does not begin with f"))
    one.h_abs = 0.02
    one.step()
    assert one.h_previous == pytest.approx(0.02), changed("h_abs, when it is set, is not the length of the next step")
    one.f = np.zeros(2)
    one.step()
    assert (one.K[0] == 0).all(), changed("f, when it is set, is not where the next step begins")


def test_a_solver_can_be_moved_and_handed_over() -> None:
    one, other = solver(Order8), solver(Order5)
    one.step()
    other.take_over(one, 0.005)
    other.step()
    assert other.t == pytest.approx(one.t + 0.005), changed("t, y, f, t_bound or h_abs cannot be set between two steps")
    np.testing.assert_allclose(other.y, np.array([1.0, 2.0]) * np.exp(-RATE * other.t), rtol=1e-8)
    other.t_bound = other.t + 1e-3
    other.h_abs = 1.0
    other.step()
    assert (other.t, other.status) == (other.t_bound, "finished"), changed("t_bound does not end the last step")


def test_the_error_of_a_step_is_estimated_where_it_was() -> None:
    one = solver(Together)
    asked = []

    def norm(K: Any, h: float, scale: Any) -> float:
        asked.append((K.shape, h, scale.shape))
        return 0.5

    one._estimate_error_norm = norm
    one.step()
    assert asked == [((STAGES + 1, 2), 0.01, (2,))], changed("_estimate_error_norm is not what accepts a step")


def test_coefficients_are_those_of_order_8() -> None:
    shapes = {"A": (STAGES, STAGES), "B": (STAGES,), "E3": (STAGES + 1,), "E5": (STAGES + 1,)}
    shapes |= {"A_EXTRA": (INNER_STAGES - STAGES - 1, INNER_STAGES), "D": (4, INNER_STAGES)}
    found = {name: coefficients(name).shape for name in shapes}
    assert found == shapes, changed(f"the coefficients of DOP853 have the shapes {found}")
    # A method of order 8 integrates 1, s, ..., s^7 exactly: the sum of b_i c_i^k is 1 / (k + 1).
    b, c = coefficients("B"), coefficients("A").sum(axis=1)
    sums = [float(b @ c**k) for k in range(8)]
    np.testing.assert_allclose(sums, [1 / (k + 1) for k in range(8)], rtol=1e-12, err_msg=changed("A or B"))


def test_decay_per_step_is_the_product_of_step_and_rate() -> None:
    one = solver(Order8)
    one.step()
    assert one.decay_per_step() == pytest.approx(0.01 * RATE, rel=1e-3), changed("K, A or B hold something else")


def test_no_other_file_names_internals() -> None:
    source = Path(af.__file__).parent
    internal = re.compile(r"\.(h_abs|h_previous|_estimate_error_norm|K_extended|_dense_output_impl)\b|import DOP853")
    found = {path.name for path in source.rglob("*.py") if internal.search(path.read_text())}
    assert found == {Path(scipy_solver.__file__).name}
