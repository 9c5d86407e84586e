"""Claims about normalisation: values of the paper, verdicts that are decided, and verdicts that are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from experiments import experiment
from larger import larger

import attnflow as af
from attnflow.claims import normalisation
from attnflow.claims.claim import REGISTER
from attnflow.claims.normalisation import closed, off_rate
from attnflow.claims.sphere.collapse import attracting_rate
from attnflow.core.inputs import Array
from attnflow.laws import Hearing

X0 = af.tokens.sphere(n=3, d=2, seed=4)


@pytest.mark.parametrize(("norm", "rate"), [("post", 2.0), ("ngpt", 2.0), ("pre", 2.0), ("peri", 2.0)])
def test_the_closed_equations_have_the_rates_of_the_paper(norm: str, rate: float) -> None:
    radial = norm in ("pre", "peri")
    times = np.array([0.0, 1e4, 1e5]) if radial else np.array([0.0, 8.0, 9.0])
    rho, r = closed(times, 4, 1.0, norm)
    passed = np.log(10.0) if radial else 1.0
    assert abs(np.log((1 - rho[1]) / (1 - rho[2])) / passed - rate) < 1e-3
    assert abs(r[2] / times[2] - 1) < 1e-3 if radial else r[2] == 1


@pytest.mark.parametrize(("beta", "radial"), [(0.0, False), (2.0, True), (2.0, False)])
def test_the_rate_is_within_its_bound(beta: float, radial: bool) -> None:
    """The exact rate of the equation, for every n, scheme and gap."""
    for n in (2, 5, 40):
        for g in np.geomspace(1e-6, 0.3, 30):
            p = 1 / (np.exp(beta * g) + n - 1)
            a, rho = 1 - (n - 1) * p, 1 - g
            along = a + (n - 1) * p * rho
            size = np.sqrt(a * a + 2 * (n - 1) * a * p * rho + (n - 1) * p * p * (1 + (n - 2) * rho))
            h = p * (1 + (n - 1) * rho)
            # On the clock log r the rate is divided by r r' / r.
            rates = (h / along, h / along) if radial else (h, h / size)
            assert max(abs(rate - 1) for rate in rates) <= off_rate(np.array([g]), beta, radial)[0]


@pytest.mark.parametrize(("norm", "until"), [("post", 12.0), ("ngpt", 12.0), ("pre", 120.0), ("peri", 60.0)])
def test_rates_hold_and_short_runs_are_undecided(norm: str, until: float) -> None:
    x = np.eye(5)[:4]
    assert af.check("norm/rates", tokens=x, norm=norm, until=until).outcome == "holds"
    short = af.check("norm/rates", tokens=x, norm=norm, until=0.5)
    assert short.outcome == "undecided"
    assert "give a later until" in short.because


def test_rates_are_about_equiangular_tokens() -> None:
    assert af.check("norm/rates", tokens=X0).outcome == "hypotheses not met"
    assert af.check("norm/rates", tokens=np.eye(3), norm="cod").outcome == "hypotheses not met"


@pytest.mark.parametrize("norm", ["post", "ngpt", "cod", "pre", "peri"])
def test_directions_cluster(norm: str) -> None:
    until = 1e4 if norm in ("pre", "peri") else 100.0
    assert af.check("norm/clusters", tokens=X0, beta=1.2, norm=norm, until=until).outcome == "holds"


def test_clusters_of_pre_need_a_large_beta() -> None:
    assert af.check("norm/clusters", tokens=X0, beta=1.0, norm="pre").outcome == "hypotheses not met"
    short = af.check("norm/clusters", tokens=X0, beta=1.2, norm="pre", until=0.1)
    assert short.outcome == "undecided"
    assert "give a later until" in short.because


@pytest.mark.parametrize("normalized", [True, False])
def test_the_triangle_attracts_below_minus_two_thirds(normalized: bool) -> None:
    x = af.tokens.polygon(3)
    for beta, attracts in ((-0.68, True), (-0.65, False)):
        e = experiment("sphere/collapse/gap", tokens=x, beta=beta, normalized=normalized)
        assert (attracting_rate(e, x) > 0) == attracts


@pytest.mark.parametrize("beta", [-2.0, -0.68, 0.0, 1.5])
def test_the_eigenvalue_of_the_triangle(beta: float) -> None:
    """Turning tokens of the equilateral triangle changes velocities by e^{-beta/2} (1/2 + 3 beta/4), by differences.

    Under SA that is divided by the sum of the weights of USA, since velocities vanish there.
    """
    eigenvalue, h = np.exp(-beta / 2) * (1 / 2 + 3 * beta / 4), 1e-5
    corners = 2 * np.pi * np.arange(3) / 3
    for normalized, total in ((False, 1.0), (True, (np.exp(beta) + 2 * np.exp(-beta / 2)) / 3)):
        motion = af.SphereFlow(normalized=normalized)

        def turning(angles: Array, motion: af.SphereFlow = motion) -> Array:
            x = np.column_stack([np.cos(angles), np.sin(angles)])
            v = motion.velocity(Hearing(af.Softmax(beta=beta)), x, 0.0)
            return np.asarray(x[:, 0] * v[:, 1] - x[:, 1] * v[:, 0])

        J = np.array([(turning(corners + h * e) - turning(corners - h * e)) / (2 * h) for e in np.eye(3)]).T
        expected = sorted([0.0, eigenvalue / total, eigenvalue / total])
        np.testing.assert_allclose(np.sort(np.linalg.eigvals(J).real), expected, atol=1e-8)


@larger
def test_no_search_refutes_the_gap() -> None:
    assert af.search("sphere/collapse/gap", evaluations=60, seed=0) is None


def test_one_token_is_not_equiangular() -> None:
    (name,) = [id for id, one in REGISTER.items() if one.given.get("equiangular") is normalisation._equiangular]
    tokens: dict[str, Any] = {"tokens": [[1.0, 0.0]]}
    (margins,) = normalisation._equiangular(experiment(name, **tokens))
    assert (margins.what, margins.worst) == ("n >= 2", -1)
    assert af.check(name, **tokens).outcome == "hypotheses not met"
