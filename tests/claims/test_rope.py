"""Rotary positions: the rate of consensus."""

from __future__ import annotations

import numpy as np
import pytest

import attnflow as af
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


def test_wide_starts_are_not_meant() -> None:
    assert af.check("rope/consensus-rate", tokens=af.tokens.sphere(n=64, d=2, seed=0)).outcome == "hypotheses not met"
