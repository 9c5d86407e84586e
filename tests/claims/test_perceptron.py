"""The claim about attention with a perceptron: its bounds, its descent, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from experiments import experiment

import attnflow as af
from attnflow.claims import perceptron
from attnflow.claims.experiment import Experiment
from attnflow.claims.perceptron import ON_CIRCLE, _slopes, most_in_an_arc, window

CLAIM = "mlp/cluster-mass"


@pytest.mark.parametrize("beta", [1.0, 2.5, 8.0, 300.0])
def test_the_bounds_are_those_of_a_fine_grid(beta: float) -> None:
    def h(end: float) -> np.ndarray:
        t = np.linspace(0, end, 100001)
        return (beta * np.sin(t) ** 2 - np.cos(t)) * np.exp(beta * (np.cos(t) - 1))

    found = window(beta)
    assert found.pull == pytest.approx(h(np.pi).max(), rel=1e-6)
    assert found.push == pytest.approx(-h(1 / (2 * np.sqrt(beta))).max(), rel=1e-9)
    assert found.most(beta) <= 0.5742 + 1.7 * np.exp(-beta)


def test_the_constant_of_the_paper() -> None:
    A, B = 2 * np.exp(-1.5), 0.75 * np.exp(-1 / 8)
    assert round(A / (A + B / 2), 4) == 0.5742
    assert window(1e7).most(1e7) == pytest.approx(A / (A + B / 2), abs=1e-6)


def test_second_derivatives_are_those_of_the_energy() -> None:
    """Against differences of F itself, as its formula says."""
    angles, beta = np.array([0.3, 1.1, 2.5]), 2.0
    inner, outer = np.array([[0.6, 0.3], [-0.2, 0.7]]), np.array([0.5, -0.4])
    x = np.column_stack([np.cos(angles), np.sin(angles)])
    instance = {"tokens": x, "beta": beta, "inner": inner, "outer": outer}
    slopes = _slopes(Experiment(instance, *ON_CIRCLE.model(instance)), angles)

    def energy(at: np.ndarray) -> float:
        y = np.column_stack([np.cos(at), np.sin(at)])
        pairs = np.exp(beta * (y @ y.T)).sum() / (2 * beta * 9)
        return float(pairs + (np.log(np.cosh(y @ inner.T)) @ outer).mean())

    h, e = 1e-3, np.eye(3)
    for i in range(3):
        for j in range(3):
            corners = [s * r * energy(angles + h * (s * e[i] + r * e[j])) for s in (1, -1) for r in (1, -1)]
            second = sum(corners) / (4 * h * h)
            assert -slopes[i, j] * np.exp(beta) / 3 == pytest.approx(second, abs=1e-5)


def test_arcs_go_around_the_circle() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        angles, width = rng.uniform(-4, 4, 7), rng.uniform(0.1, 2)
        apart = (angles - angles[:, None]) % (2 * np.pi)
        assert most_in_an_arc(angles, width) == (apart <= width).sum(axis=1).max()


def test_it_holds_on_its_samples() -> None:
    assert af.check(CLAIM).outcome == "holds"


def test_tokens_at_one_place_stay_at_a_saddle() -> None:
    verdict = af.check(CLAIM, tokens=[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert verdict.outcome == "undecided"
    assert "saddle" in verdict.because


def test_what_is_outside_of_the_claim() -> None:
    x = [[1.0, 0.0], [0.0, 1.0]]
    for given in ({"beta": 0.5}, {"outer": [1.5]}, {"tokens": [[1.0, 0.0]]}):
        assert af.check(CLAIM, **({"tokens": x} | given)).outcome == "hypotheses not met"
    with pytest.raises(af.InputError, match="inner has shape"):
        af.check(CLAIM, tokens=x, inner=[[1.0]], outer=[1.0])


def test_tokens_that_do_not_come_to_rest_leave_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perceptron, "NEWTON", 0)
    verdict = af.check("mlp/cluster-mass", tokens=[[1.0, 0.0], [0.0, 1.0]], beta=2.0)
    assert verdict.outcome == "undecided"
    assert "the tokens did not come to rest" in verdict.because


def test_tokens_as_far_apart_as_the_arc_is_wide_leave_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tokens at this distance: the bound is passed if the arc is a little wider, and not otherwise."""
    e = experiment("mlp/cluster-mass", tokens=[[1.0, 0.0], [0.0, 1.0]], beta=2.0)
    width = 1 / (2 * np.sqrt(2.0))
    monkeypatch.setattr(perceptron, "_descended", lambda e: np.array([0.0, width]))
    monkeypatch.setattr(perceptron, "_slopes", lambda e, angles: -np.eye(2))
    (margins,) = perceptron.cluster_mass(e)
    assert "two tokens are as far apart as the arc is wide" in str(margins.undecided)
