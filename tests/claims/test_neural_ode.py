"""Claims on neural ODEs: obstructions, and the construction that takes points to targets."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.claims.neural_ode import Steering, steering


@pytest.mark.parametrize(
    ("tokens", "targets", "why"),
    [
        ([[0.0, 1.0], [0.0, 1.0]], [[0.0, 0.0], [1.0, 0.0]], "equal points are equal"),
        ([[0.0, 1.0], [2.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]], "distinct points are distinct"),
        ([[0.0], [1.0], [2.0]], [[0.0], [2.0], [1.0]], "order"),
    ],
)
def test_obstructions(tokens: list[list[float]], targets: list[list[float]], why: str) -> None:
    verdict = af.check("neuralode/controllability", tokens=tokens, targets=targets)
    assert verdict.outcome == "violated"
    assert why in verdict.because
    again = af.check("neuralode/controllability/repaired", tokens=tokens, targets=targets)
    assert again.outcome == "hypotheses not met"


def test_the_line_in_order_is_left_undecided() -> None:
    verdict = af.check("neuralode/controllability", tokens=[[0.0], [1.0]], targets=[[5.0], [7.0]])
    assert verdict.outcome == "undecided"


def test_shears_are_neural_odes() -> None:
    """Each is x' = w max(<a, x> - b, 0) with w orthogonal to a, so that a unit of time is one explicit step."""
    from scipy.integrate import solve_ivp

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((4, 3)), rng.standard_normal((4, 3))
    z = x.copy()
    for w, a, b in steering(x, y):
        assert abs(w @ a) < 1e-12 * np.linalg.norm(w)
        z = np.array(
            [solve_ivp(lambda t, p, w=w, a=a, b=b: w * max(a @ p - b, 0), (0, 1), p, rtol=1e-10).y[:, -1] for p in z]
        )
    np.testing.assert_allclose(z, y, atol=1e-6)
    run = af.simulate(x, af.Softmax(), Steering(steering(x, y)), until=8)
    np.testing.assert_allclose(run.final, y, atol=1e-9)


def test_points_too_close_to_steer_in_floats_are_undecided() -> None:
    tokens = [[0.0, 0.0], [1e-14, 0.0], [1.0, 1.0]]
    verdict = af.check(
        "neuralode/controllability/repaired", tokens=tokens, targets=[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    )
    assert verdict.outcome == "undecided"


def test_search_refutes_the_printed_claim() -> None:
    assert af.search("neuralode/controllability", evaluations=100, seed=0) is not None


def test_targets_must_match() -> None:
    with refused("targets have shape"):
        af.check("neuralode/controllability", tokens=[[0.0, 1.0]], targets=[[0.0]])
