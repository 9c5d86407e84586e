"""Claims about densities: their outcomes on both sides of what they speak of."""

from __future__ import annotations

import numpy as np
import pytest

import attnflow as af


@pytest.mark.parametrize(("d", "star"), [(2, 2.446918), (3, 1.816155)])
def test_the_first_order_claim_speaks_of_beta_beyond_beta_star(d: int, star: float) -> None:
    assert af.check("noise/first-order", beta=star - 1e-5, d=d).outcome == "hypotheses not met"
    assert af.check("noise/first-order", beta=star + 2e-5, d=d).outcome == "undecided"
    for beyond in (1e-3, 0.2):
        assert af.check("noise/first-order", beta=star + beyond, d=d).outcome == "holds"
    for beta in (star - 0.1, star + 0.1):
        assert af.check("noise/uniform-threshold", beta=beta, d=d).outcome == "holds"


def test_dimensions_without_tokens_that_stand_for_densities_are_not_met() -> None:
    assert af.check("noise/uniform-threshold", d=5).outcome == "hypotheses not met"


@pytest.mark.parametrize(("beta", "k"), [(1.0, 1), (1.1, 2), (3.1, 2), (3.3, 3)])
def test_kmax_names_the_number_of_clusters(beta: float, k: int) -> None:
    verdict = af.check("mean-field/kmax", beta=beta)
    assert verdict.outcome == "holds"
    assert af.MeanField(beta).fastest == k


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("switch", [1.044457, 10.228483])
def test_kmax_is_undecided_only_where_it_switches(switch: float, normalized: bool) -> None:
    """Where two waves grow equally fast, products of waves and errors of the run decide which is larger."""
    for away, outcome in ((-1e-6, "undecided"), (0.0, "undecided"), (1e-6, "undecided"), (5e-3, "holds")):
        assert af.check("mean-field/kmax", beta=switch + away, normalized=normalized).outcome == outcome


def test_gaussians_beyond_the_blow_up_are_refused() -> None:
    assert af.check("gaussian/covariance", covariance=[[0.2]], until=1.0).outcome == "holds"
    assert (
        af.check("gaussian/covariance", covariance=[[0.2]], until=2.6).outcome == "hypotheses not met"
    )  # it blows up at 2.5
    assert af.check("gaussian/covariance", covariance=[[0.1, 0.2], [0.2, 0.1]]).outcome == "hypotheses not met"


def test_the_variance_of_samples_crosses_over_at_the_threshold() -> None:
    """Many independent tokens, no quadrature: their variance shrinks for beta sigma^2 = .8 and grows for 1.2."""
    z = np.random.default_rng(0).standard_normal((20_000, 1))
    z /= z.std()
    ratios = [af.simulate(z, af.Softmax(beta=beta), af.Layers(gamma=0.5), until=1).final.var() for beta in (0.8, 1.2)]
    assert ratios == pytest.approx([0.81, 1.21], rel=0.02)
