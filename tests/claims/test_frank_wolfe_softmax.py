"""Claims of the Frank-Wolfe paper on softmax layers: they collapse, but not always to the origin."""

import math
from typing import Any

import numpy as np
import pytest
from experiments import experiment

import attnflow as af
from attnflow.claims import get


def test_two_tokens_contract_at_the_promised_factor() -> None:
    for beta, gamma in ((1.0, 0.5), (0.7, 0.1), (3.0, 1.0)):
        e = experiment("fw/collapse", tokens=[[1.0], [-0.5]], beta=beta, gamma=gamma, steps=10)
        diameter, weights, inside = get("fw/collapse").conclusion(e)  # type: ignore[misc]
        np.testing.assert_allclose(diameter.values, 0.0, atol=1e-15)
        assert diameter.held.all()
        assert inside.held.all()
        assert (weights.values > 0).all()
        # The factor itself, from the scores, for x = (a, b): a_11 - a_21 = s(beta a (a - b)) - s(beta b (a - b)).
        a, b = 1.0, -0.5
        s = [1 / (1 + math.exp(-beta * c * (a - b))) for c in (a, b)]
        left = np.ptp(e.states[1]) / (a - b)
        assert left == pytest.approx(1 - gamma * (1 - abs(s[0] - s[1])), abs=1e-14)
        assert left <= 1 - gamma * math.exp(-2 * abs(beta)) + 1e-15


def test_a_limit_other_than_the_origin_is_proved_in_balls() -> None:
    verdict = af.check("fw/collapse-to-origin", tokens=[[-0.5], [1.5]], beta=0.5, gamma=0.5, steps=5)
    assert (verdict.outcome, verdict.certified, verdict.where) == ("violated", "ball", (2, None))
    assert verdict.margin < -0.1


@pytest.mark.parametrize("beta", [0.02, 0.4562477765896568])
@pytest.mark.parametrize("steps", [60, 240])
def test_a_symmetric_cloud_never_leaves_the_origin(beta: float, steps: int) -> None:
    # Its tokens come as close to 0 as rounding goes, and balls around them grow beyond all bounds.
    verdict = af.check("fw/collapse-to-origin", tokens=[[-1.0], [-6.0], [1.0], [6.0]], beta=beta, steps=steps)
    assert verdict.outcome in ("holds", "undecided")


def test_the_origin_must_be_inside() -> None:
    for tokens in ([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [-1.0, 0.0]]):
        verdict = af.check("fw/collapse-to-origin", tokens=tokens)
        assert verdict.outcome in ("hypotheses not met", "undecided")
        assert verdict.because.startswith("0 in the interior of K^0")
    # Inside, but far from arrived.
    short = af.check("fw/collapse-to-origin", tokens=[[1.0], [-0.99]], steps=3)
    assert (short.outcome, short.certified) == ("undecided", "float")  # nor do balls decide it


def test_only_symmetry_tells_that_the_limit_is_the_origin() -> None:
    assert af.check("fw/collapse-to-origin", tokens=[[1.0], [-1.0]], steps=3).outcome == "holds"
    nearly: dict[str, Any] = {"tokens": [[1.0], [-1 + 1e-11]], "gamma": 0.5}
    assert af.check("fw/collapse-to-origin", **nearly, steps=33).outcome == "undecided"
    assert af.check("fw/collapse-to-origin", **nearly, steps=80).outcome == "violated"


def test_steps_of_finite_length_are_not_what_collapse_is_about() -> None:
    verdict = af.check("fw/collapse", tokens=[[1.0], [-1.0]], gamma="1 / (t + 2) ** 2")
    assert verdict.outcome == "hypotheses not met"


def test_the_weights_that_all_share_are_bounded_below() -> None:
    law = af.Softmax(beta=0.5)  # right law: shared weights e^{-2 beta R^2} at least
    verdict = af.check("fw/collapse", tokens=[[1.0], [-1.0]], beta=0.01, law=af.Softmax(beta=5.0), gamma=1e-6, steps=3)
    assert verdict.outcome == "violated"
    assert "min_i a_ik" in verdict.because
    assert af.check("fw/collapse", tokens=[[1.0], [-1.0]], beta=0.5, law=law).outcome == "holds"
