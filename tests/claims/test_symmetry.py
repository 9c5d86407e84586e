"""Symmetric configurations: groups, averages, and flows whose symmetry rounding cannot break."""

import json
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.claims.emergence.settling import Rescaled
from attnflow.claims.emergence.symmetry import (
    Group,
    StepLimited,
    Symmetric,
    commuting,
    group_matrices,
    symmetric_cloud,
)
from attnflow.laws import Hearing
from attnflow.motions import RescaledFlow

FLIP: Any = [{"matrix": [[-1.0]], "permutation": [2, 1, 0]}]


def test_a_group_is_closed_and_averages_to_its_fixed_space() -> None:
    turn = [[0.0, -1.0], [1.0, 0.0]]
    group = Group.generated([{"matrix": turn, "permutation": [1, 2, 3, 0]}], 4, 2)
    assert len(group) == 4
    square = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    assert group.defect(square) == 0
    noisy = square + 0.1 * np.random.default_rng(0).standard_normal((4, 2))
    mean = group.average(noisy)
    assert group.defect(mean) < 1e-15 < group.defect(noisy)
    assert np.allclose(group.average(mean), mean, atol=1e-15)


def test_the_stabiliser_holds_tokens_at_the_centre() -> None:
    group = Group.generated(FLIP, 3, 1)
    assert [group.centred(i) for i in range(3)] == [False, True, False]
    assert group.stabiliser(1).tolist() == [0, 1]


def test_averaged_weights_undo_what_rounding_did_to_a_tie() -> None:
    group = Group.generated(FLIP, 3, 1)
    P = np.array([[1.0, 0.0, 0.0], [0.5, 0.2, 0.3], [0.0, 0.0, 1.0]])
    assert np.allclose(group.averaged_weights(P)[1], [0.4, 0.2, 0.4])


@pytest.mark.parametrize("k", range(12))
def test_samples_have_the_symmetry_they_say(k: int) -> None:
    rng = np.random.default_rng(k)
    d = 1 + k % 3
    matrices = group_matrices(rng, k, d)
    x, symmetry = symmetric_cloud(rng, matrices, seeds=3)
    group = Group.generated(json.loads(json.dumps(symmetry)), *x.shape)
    assert group.defect(x) < 1e-14 * max(1.0, np.abs(x).max())
    B = commuting(matrices, rng.standard_normal((d, d)))
    assert np.abs(group.matrices @ B - B @ group.matrices).max() < 1e-14


def test_a_token_between_two_others_stays_in_the_reduced_flow() -> None:
    # (-u, 0, u) with a middle token off by rounding: alone it leaves, in reduced coordinates it cannot.
    x = [[-1.0], [1e-12], [1.0]]
    plain = af.simulate(x, af.Softmax(), RescaledFlow(), until=20.0)
    kept = af.simulate(x, af.Softmax(), Symmetric(RescaledFlow(), FLIP), until=20.0)
    assert abs(plain.final[1, 0]) > 0.5
    assert kept.final[1, 0] == 0
    assert kept.final[0, 0] == -kept.final[2, 0]


def test_the_reduced_triple_follows_its_scalar_equation() -> None:
    # u' = 2 u sinh(u^2) / (1 + 2 cosh u^2) for the tokens (-u, 0, u).
    from scipy.integrate import solve_ivp

    def speed(_: float, u: Any) -> Any:
        return 2 * u * np.sinh(u * u) / (1 + 2 * np.cosh(u * u))

    u = solve_ivp(speed, (0, 2), [1.0], method="DOP853", rtol=1e-12, atol=1e-12).y[0, -1]
    motion = Symmetric(RescaledFlow(), FLIP, rtol=1e-11)
    z = af.simulate([[-1.0], [0.0], [1.0]], af.Softmax(), motion, until=2.0).final
    assert np.exp(2) * z[2, 0] == pytest.approx(u, rel=1e-9)


@pytest.mark.parametrize(
    "symmetry",
    [
        [{"matrix": [[2.0]], "permutation": [0]}],
        [{"matrix": [[1.0]], "permutation": [1]}],
        [{"matrix": [[1.0, 0.0], [0.0, 1.0]], "permutation": [0]}],
        [{"matrix": [[1.0]]}],
        ["mirror"],
    ],
)
def test_what_is_no_symmetry_is_refused(symmetry: Any) -> None:
    with refused("expected"):
        Group.generated(symmetry, 1, 1)


def test_an_infinite_group_is_refused() -> None:
    c, s = np.cos(1.0), np.sin(1.0)
    with refused("elements"):
        Group.generated([{"matrix": [[c, -s], [s, c]], "permutation": [0]}], 1, 2)


def test_a_group_of_one_element_changes_nothing_and_runs_of_few_steps_end(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([[1.0, 0.5], [-1.0, 0.25]])
    assert Group.generated(None, 2, 2).average(x) is x
    given: dict[str, Any] = {"tokens": x, "until": 20.0}
    assert "become too small" not in af.check("emergence/polytope", **given).because
    monkeypatch.setattr(StepLimited, "most_steps", 1)
    verdict = af.check("emergence/polytope", **given)
    assert verdict.outcome == "undecided"
    assert "the steps of the integrator become too small at t = " in verdict.because
    stepper, usual = (flow.start(Hearing(af.Softmax()), x, 0.0) for flow in (Rescaled(), af.RescaledFlow()))
    assert stepper.advance(1.0).ended is usual.advance(1.0).ended is None
    assert stepper.slow() is None
    assert stepper.state().keys() == usual.state().keys()
    assert "become too small" in str(stepper.advance(1.0).ended)
