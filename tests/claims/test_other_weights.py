"""Claims about Sinkhorn weights and long contexts: values, exact sums, limits, hypotheses."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from larger import larger

import attnflow as af
from attnflow.claims.long_context import distance, equiangular, limit, overlap


def test_the_value_at_a_hundred_tokens() -> None:
    assert round(overlap(100, 0.5, 1.0), 6) == 0.802797
    x = equiangular(100, 0.5)
    m = af.Softmax(beta=np.log(100) / 0.5).attend(x)
    m /= np.linalg.norm(m, axis=1, keepdims=True)
    assert round(float(m[0] @ m[1]), 6) == 0.802797


@pytest.mark.parametrize(("n", "power"), [(2, 1), (7, 2), (16, 0), (9, 1)])
def test_the_formula_is_the_sum_in_fractions(n: int, power: int) -> None:
    """With e^{beta (1 - rho)} = n^power all weights are rational: sums over all tokens, term by term."""
    rho, e = Fraction(1, 3), Fraction(n) ** power
    gram = [[Fraction(1) if i == j else rho for j in range(n)] for i in range(n)]
    P = [[(e if i == j else Fraction(1)) / (e + n - 1) for j in range(n)] for i in range(n)]
    inner = {
        (i, j): sum(P[i][a] * P[j][b] * gram[a][b] for a in range(n) for b in range(n)) for i, j in ((0, 0), (0, 1))
    }
    assert overlap(n, 1 / 3, power) == pytest.approx(float(inner[0, 1] / inner[0, 0]), rel=1e-13)


@pytest.mark.parametrize(("ratio", "expected"), [(0.5, 1.0), (1.0, 0.8), (2.0, 0.5)])
def test_limits_are_reached_within_the_bounds(ratio: float, expected: float) -> None:
    assert limit(0.5, ratio) == expected
    assert overlap(10**9, 0.5, ratio) == pytest.approx(expected, abs=1e-8)
    for n in (2, 3, 10, 1000, 10**6):
        for rho in (0.01, 0.3, 0.99):
            for other in (ratio, ratio * 1.001, 0.9 * ratio):
                assert abs(overlap(n, rho, other) - limit(rho, other)) <= distance(n, rho, other)


def test_tokens_that_are_not_equiangular_do_not_meet_the_hypotheses() -> None:
    for tokens in (af.tokens.sphere(n=5, d=3, seed=0), 2 * equiangular(4, 0.5), [[1.0]]):
        assert af.check("long-context/one-layer", tokens=tokens).outcome == "hypotheses not met"


@pytest.mark.parametrize(
    "id", ["long-context/one-layer", "sinkhorn/barycentre", pytest.param("sinkhorn/barycentre/flow", marks=larger)]
)
def test_claims_hold_on_their_samples(id: str) -> None:
    assert af.check(id).outcome == "holds"


@pytest.mark.parametrize("law", [af.Softmax(beta=1.0), af.Entmax(alpha=1.5), af.Sparsemax(beta=0.5)])
def test_other_weights_do_not_keep_the_barycentre(law: af.Law) -> None:
    x = af.tokens.gaussian(n=12, d=2, seed=0)
    assert af.check("sinkhorn/barycentre", tokens=x, law=law).outcome == "violated"


def test_masses_count_in_the_barycentre_that_is_kept() -> None:
    x, w = af.tokens.gaussian(n=12, d=2, seed=1), np.linspace(0.5, 2.0, 12)
    run = af.simulate(x, af.Sinkhorn(B=[[1.0, 0.7], [0.0, 0.5]]), af.Layers(gamma=0.7), until=5, masses=w)
    np.testing.assert_allclose(w @ run.final, w @ x, atol=1e-11)
    assert abs(run.final.mean(axis=0) - x.mean(axis=0)).max() > 1e-3
