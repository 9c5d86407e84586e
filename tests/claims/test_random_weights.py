"""Random value matrices: the probability to end antipodal, by quadrature, by another quadrature, and by particles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from larger import larger

import attnflow as af
from attnflow.claims.random_weights import antipodal, attracts


def by_scipy(d: int, beta: float, rho: float) -> float:
    """The scale function of rho itself, from the drift and the spread as they were first derived."""
    from scipy.integrate import solve_ivp

    def along(u: float, y: list[float]) -> list[float]:
        r = math.tanh(u)
        a = 1 / (1 + math.exp(-beta * (1 - r)))
        q = 2 * a * (1 - a)
        M, C = 1 - q + q * r, q + (1 - q) * r
        drift, spread = (d - 2 + r * r) * C - (d - 1) * M * r, 2 * (1 - r * r) * (M - r * C)
        return [-2 * drift / spread * (1 - r * r), math.exp(y[0]) * (1 - r * r)]

    end, at = 13.0, math.atanh(rho)
    s = solve_ivp(along, (-end, end), [0.0, 0.0], t_eval=[at, end], rtol=1e-7, atol=1e-30).y[1]
    return float(1 - s[0] / s[1])


@pytest.mark.parametrize(("d", "beta", "rho"), [(3, 1.0, 0.0), (3, 1.0, 0.6), (4, 2.0, -0.5), (5, 3.0, 0.2)])
def test_two_quadratures_agree(d: int, beta: float, rho: float) -> None:
    """Up to what is beyond artanh rho = 13, where the second one ends."""
    assert float(antipodal(d, beta, rho)) == pytest.approx(by_scipy(d, beta, rho), abs=2e-4)


def test_known_values() -> None:
    assert float(antipodal(3, 1.0, 0.0)) == pytest.approx(0.22242, abs=5e-6)
    for beta in (0.0, 1.0, 9.0):  # on the circle: int_u^infinity dv / cosh v over pi
        np.testing.assert_allclose(antipodal(2, beta, [-0.5, 0.0, 0.5]), np.arccos([-0.5, 0.0, 0.5]) / np.pi, atol=1e-6)
    assert np.all(np.diff(antipodal(3, 1.0, np.linspace(-1, 1, 50))) < 0)
    np.testing.assert_allclose(antipodal(3, 1.0, [-1.0, 1.0]), [1.0, 0.0], atol=1e-5)


def test_minus_one_attracts_where_the_dimension_is_small() -> None:
    for d, beta in ((3, 0.5), (9, 1.0), (9, 2.0), (40, 2.0)):
        assert (attracts(d, beta) > 0) == (d - 1 < 2 * math.cosh(beta) ** 2)
    assert float(antipodal(9, 1.0, -0.9)) == 0.0
    assert af.check("random/antipodal", d=9).outcome == "hypotheses not met"


def test_particles_end_antipodal_as_often_as_derived() -> None:
    """400 pairs; the wrong temperature is noticed."""
    verdict = af.check("random/antipodal", runs=400, seed=1)
    assert (verdict.outcome, verdict.certified) == ("holds", "statistical")
    wrong = af.check("random/antipodal", d=3, beta=2.5, rho=-0.6, runs=400, law=lambda law: af.Softmax(beta=0.0))
    assert wrong.outcome == "violated"


def test_a_probability_that_is_wrong_by_a_twentieth_is_noticed() -> None:
    """With as many pairs as the claim draws by itself; p(0) = 0.2724 at this temperature, 0.2224 at the claim's."""
    beta = 1.32745
    assert float(antipodal(3, beta, 0.0) - antipodal(3, 1.0, 0.0)) == pytest.approx(0.05, abs=1e-5)
    wrong = af.check("random/antipodal", d=3, beta=1.0, rho=0.0, law=lambda law: af.Softmax(beta=beta))
    assert wrong.outcome == "violated"
    assert "with room 0.0060 for the error of dt" in wrong.because


@larger
@pytest.mark.parametrize(("d", "beta", "rho"), [(2, 0.7, 0.3), (3, 1.0, 0.0), (5, 1.5, -0.5), (5, 3.0, -0.8)])
def test_many_pairs_end_antipodal_as_often_as_derived(d: int, beta: float, rho: float) -> None:
    assert af.check("random/antipodal", d=d, beta=beta, rho=rho).outcome == "holds"


def test_the_two_claims_share_all_dimensions_and_temperatures() -> None:
    """Where -1 attracts one is met, where it does not the other; d = 3, beta = 0 is between the two."""
    for d, beta, meet in ((3, 0.0, True), (3, 0.5, False), (6, 1.0, True), (5, 1.0, False)):
        met = [af.check(id, d=d, beta=beta, rho=0.0, runs=2, time=0.1) for id in ("random/antipodal", "random/meet")]
        assert [verdict.outcome == "holds" for verdict in met] == [not meet, meet]


def test_coming_beside_minus_one_is_rarer_the_nearer_it_is() -> None:
    """At beta = 0, d = 3 it is known: s'(u) = e^{-u} / cosh u, whose integral beyond u is log(1 + e^{-2u})."""
    for low in (-2.0, -6.1, -30.0):
        expected = np.log1p(np.exp(-2 * np.arctanh([-0.9, 0.0, 0.5]))) / np.log1p(np.exp(-2 * low))
        np.testing.assert_allclose(antipodal(3, 0.0, [-0.9, 0.0, 0.5], low), expected, rtol=1e-5)
    assert float(antipodal(6, 1.0, -0.5, -60.0)) < 1e-3 < 0.03 < float(antipodal(6, 1.0, -0.5, -6.1))


def test_where_minus_one_hardly_attracts_nothing_overflows() -> None:
    beta = math.acosh(1.01) / 2
    assert 0 < attracts(3, beta) < 0.01
    assert 0 < float(antipodal(3, beta, 0.0)) < 0.05


def test_near_minus_one_pairs_part_where_it_repels_and_stay_where_it_attracts() -> None:
    """In dimension 9: at beta = 1 it repels, 8 > 4.76; at beta = 2 it attracts, 8 < 28.3."""
    far = math.sqrt(1 - 0.999**2)
    x = np.tile(np.eye(9)[:2], (60, 1, 1))
    x[:, 1, 0], x[:, 1, 1] = -0.999, far
    for beta, near in ((1.0, False), (2.0, True)):
        final = af.ensemble(x, af.Softmax(beta=beta), af.RandomHeads(dt=0.02), 300, seed=0).final
        overlaps = (final[:, 0] * final[:, 1]).sum(axis=1)
        assert ((overlaps < 0).mean() > 0.8) == near
