"""Rotary positions: the rate of consensus."""

from __future__ import annotations

import numpy as np
import pytest

import attnflow as af
from attnflow.claims.check import decide, sampled
from attnflow.claims.rope import rate


@pytest.mark.parametrize(("beta", "value"), [(1.0, 0.55361), (2.0, 0.30223)])
def test_the_rate_is_that_of_the_matrix_of_weights_at_consensus(beta: float, value: float) -> None:
    """The weights of a law at consensus, and the eigenvalues of P - I: 0, and then the slowest pair."""
    n = 48
    law = af.Positional(af.Softmax(beta=beta), rope=2 * np.pi / n)
    P = law.weights(np.tile([1.0, 0.0], (n, 1)))
    decays = np.sort(1 - np.linalg.eigvals(P).real)
    assert decays[0] == pytest.approx(0, abs=1e-12)
    assert decays[1] == pytest.approx(rate(beta), abs=1e-12)
    assert rate(beta) == pytest.approx(value, abs=5e-6)


def test_the_claim_holds_on_its_samples() -> None:
    verdict = af.check("rope/consensus-rate")
    assert verdict.outcome == "holds"
    assert "6 hold" in verdict.because


@pytest.mark.parametrize("wrong", [0.5, 0.8, 1.25, 2.0])
def test_another_rate_is_noticed(wrong: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """On every sample, or it is undecided: it never holds."""
    right, claim = rate, af.claims.get("rope/consensus-rate")
    instances = [sampled(claim, 0, k) for k in range(2)]
    monkeypatch.setattr("attnflow.claims.rope.rate", lambda beta: wrong * right(beta))
    assert {decide(claim, instance).outcome for instance in instances} == {"violated"}


def test_a_start_that_does_not_show_the_rate_is_undecided() -> None:
    angles = 0.05 * np.random.default_rng(0).uniform(-1, 1, 64)
    verdict = af.check("rope/consensus-rate", tokens=np.stack([np.cos(angles), np.sin(angles)], axis=1), beta=3.0)
    assert verdict.outcome == "undecided"
    assert "start closer" in verdict.because


def test_wide_starts_are_not_meant() -> None:
    assert af.check("rope/consensus-rate", tokens=af.tokens.sphere(n=64, d=2, seed=0)).outcome == "hypotheses not met"
