"""Stationary densities, their stability and their branches, against closed forms and against runs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from refusals import refused
from scipy.optimize import brentq
from scipy.special import i0, i1, iv

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.densities import Density, branches, critical_beta, diagram, stationary
from attnflow.densities.stationary import _turned


@pytest.mark.parametrize("beta", [0.5, 3.0])
def test_the_uniform_density_loses_stability_at_beta_over_i1(beta: float) -> None:
    """The root in kappa of the largest rate of the linearised equation, found by the solver."""
    threshold = beta / i1(beta)

    def rate(kappa: float) -> float:
        return float(af.MeanField(beta, kappa, normalized=False).stationary(1).rates[0])

    assert brentq(rate, 0.8 * threshold, 1.3 * threshold, xtol=1e-14) == pytest.approx(threshold, abs=1e-10)
    assert af.MeanField(beta, normalized=False).threshold == pytest.approx(threshold, rel=1e-13)
    assert af.MeanField(beta).threshold == pytest.approx(beta * i0(beta) / i1(beta), rel=1e-13)


def test_without_interaction_beyond_the_mean_the_states_are_von_mises() -> None:
    """At beta = 0 f = e^{kappa r cos} / Z with r = I_1(kappa r) / I_0(kappa r), for kappa > 2."""
    model = af.MeanField(0.0, 3.0, normalized=False)
    assert model.threshold == 2.0
    found = model.stationary(lambda theta: np.exp(2 * np.cos(theta - 1.0)))
    r = brentq(lambda r: r - i1(3 * r) / i0(3 * r), 0.1, 1.0, xtol=1e-15)
    assert found.density.order == pytest.approx(r, abs=1e-12)
    theta = np.linspace(0, 6, 20)
    np.testing.assert_allclose(found.density.at(theta), np.exp(3 * r * np.cos(theta)) / i0(3 * r), rtol=1e-10)
    assert found.stable
    assert found.residual < 1e-10


def _waves(theta: Array, angle: float, first: float, second: float, between: float = 0.0) -> Array:
    """Return 1 plus two waves; that of degree 1 is at an angle from an axis of the other."""
    at = theta - angle
    return np.asarray(1 + first * np.cos(at - between) + second * np.cos(2 * at))


def test_small_waves_do_not_change_the_stationary_density() -> None:
    """Two clusters, at any angle, stay two where a small wave of degree 1 points elsewhere."""
    model = af.MeanField(5.0, 6.0, normalized=False)
    expected = np.abs(model.stationary(lambda theta: 1 + 0.8 * np.cos(2 * theta)).density.moments[:4])
    assert expected[1] > 0.99
    for size, angle in ((1e-7, 0.0), (1e-3, 1.1)):
        found = model.stationary(partial(_waves, angle=angle, first=size, second=0.8, between=0.7))
        np.testing.assert_allclose(np.abs(found.density.moments[:4]), expected, atol=1e-9)


def test_an_axis_is_found_whatever_the_signs_of_the_waves() -> None:
    """The largest wave may be negative where the density is symmetric; its axis is that of all waves."""
    model = af.MeanField(1.0, 0.5, normalized=False)
    for angle in (0.0, 0.9):
        near = Density.of(partial(_waves, angle=angle, first=0.1, second=-0.6))
        np.testing.assert_allclose(_turned(near)[:2], [0.05, -0.3], atol=1e-12)
        assert model.stationary(near).stable
    with refused("symmetric about no axis"):
        model.stationary(lambda t: 1 + 0.4 * np.cos(t) + 0.4 * np.cos(2 * t - 1.5))
    with refused("too sharp for 512 modes"):
        af.MeanField(9.0, 50.0, normalized=False).stationary(lambda t: np.exp(3 * np.cos(t)))


@pytest.mark.parametrize(("beta", "d", "normalized"), [(0.5, 2, True), (3.0, 8, True), (9.0, 3, True), (2.0, 3, False)])
def test_a_rate_of_0_up_to_rounding_is_not_stable(beta: float, d: int, normalized: bool) -> None:
    threshold = af.MeanField(beta, d=d, normalized=normalized).threshold
    stable = [
        af.MeanField(beta, kappa, d, normalized).stationary(1).stable
        for kappa in (threshold * (1 - 1e-9), threshold * (1 - 1e-15), threshold, threshold * (1 + 1e-9))
    ]
    assert stable == [True, False, False, False]


@pytest.mark.parametrize("model", [af.MeanField(3.0, 8.0), af.MeanField(2.0, 4.0, d=3, normalized=False)])
def test_runs_end_at_stationary_densities_at_the_rate_of_their_stability(model: af.MeanField) -> None:
    start = (lambda theta: 1 + 0.5 * np.cos(theta)) if model.d == 2 else (lambda s: 1 + 0.5 * s)
    run = model.solve(start, until=25.0, record=[22.0, 25.0])
    found = model.stationary(run.final)
    assert found.stable
    gaps = np.abs(run.order[1:] - found.density.order)
    assert gaps[1] < 1e-4
    assert np.log(gaps[0] / gaps[1]) / 3 == pytest.approx(-found.rates[0], rel=0.02)


def test_the_jump_at_beta_3() -> None:
    """Free energies are equal at .9912 kappa#, where the order parameter jumps to .48; the fold is at .9887 kappa#."""
    branch = af.MeanField(3.0, normalized=False).branch()
    (fold,), (jump,) = branch.folds, branch.crossings
    assert branch.first_order
    assert "array" not in repr(branch)
    assert branch.start == pytest.approx(3 / i1(3.0), rel=1e-13)
    assert jump.kappa / branch.start == pytest.approx(0.991226, abs=1e-6)
    assert fold.kappa / branch.start == pytest.approx(0.988685, abs=1e-6)
    assert (jump.order, fold.order) == pytest.approx((0.481544, 0.392748), abs=1e-6)
    upper = branch.at(jump.kappa)[-1]
    uniform = af.MeanField(3.0, jump.kappa, normalized=False).stationary(1)
    assert upper.free_energy == pytest.approx(uniform.free_energy, abs=1e-12)
    assert upper.stable
    assert uniform.stable
    # Stable exactly beyond the fold.
    beyond = branch.orders > fold.order
    assert (branch.stable == beyond).all()
    lower = branch.at(jump.kappa)[0]
    assert not lower.stable
    assert lower.free_energy > uniform.free_energy
    assert lower.residual < 1e-10


def test_a_density_between_fold_and_threshold_goes_either_way() -> None:
    """From either side of the unstable density between, runs end uniform and clustered."""
    branch = af.MeanField(3.0, normalized=False).branch()
    kappa = 0.99 * branch.start
    lower, upper = branch.at(kappa)
    model = af.MeanField(3.0, kappa, normalized=False)
    shift = lower.density.order / 20
    for sign in (-1, 1):
        vector = lower.density.vector.copy()
        vector[0] += sign * shift
        end = model.solve(type(lower.density)(lower.density.basis, vector), until=200.0, rtol=1e-7).final.order
        assert (end > lower.density.order) == (sign > 0)
        assert (abs(end - upper.density.order) < 0.1) == (sign > 0)


@pytest.mark.parametrize(("d", "expected"), [(2, 2.446918), (3, 1.816155)])
def test_transitions_are_continuous_up_to_beta_star(d: int, expected: float) -> None:
    found = critical_beta(d)
    closed = brentq(lambda b: iv(d / 2 + 1, b) / iv(d / 2, b) - 1 / d, 0.5, 4.0, xtol=1e-14)
    assert found == pytest.approx(closed, abs=1e-6)
    assert closed == pytest.approx(expected, abs=5.1e-7)
    for beta, first in ((closed - 0.02, False), (closed + 0.02, True)):
        branch = af.MeanField(beta, d=d, normalized=False).branch()
        assert (branch.first_order, bool(branch.folds), bool(branch.crossings)) == (first,) * 3


def test_branches_begin_with_the_curvature_of_the_expansion() -> None:
    for beta, mode in ((1.0, 1), (3.0, 1), (3.0, 2)):
        w = iv(2 * mode, beta) / iv(mode, beta)
        branch = af.MeanField(beta, normalized=False).branch(mode)
        assert branch.curvature == pytest.approx((1 - 2 * w) / (2 - 2 * w), abs=1e-6)
        assert branch.start == pytest.approx(beta / iv(mode, beta), rel=1e-13)


def test_two_clusters_are_stationary_but_not_stable() -> None:
    found = af.MeanField(3.0, normalized=False).branch(2).at(1.4 * 3 / iv(2, 3.0))[-1]
    assert found.density.order < 1e-12
    assert abs(found.density.moments[1]) > 0.5
    assert not found.stable


def test_the_diagram_tells_jumps_from_continuous_transitions() -> None:
    found = diagram([1.0, 2.0, 3.0], [0.98, 0.995, 1.1])
    assert found.first_order.tolist() == [False, False, True]
    assert found.critical == pytest.approx(2.446918, abs=1e-6)
    assert (found.orders[:, 0] == 0).all()
    assert found.orders[2, 1] > found.jumps[2] > 0.4
    assert (found.transitions <= found.thresholds).all()
    for row, beta in enumerate((1.0, 2.0, 3.0)):
        exact = af.MeanField(beta, normalized=False).branch().at(1.1 * found.thresholds[row])[-1].density.order
        assert found.orders[row, 2] == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("beta", [2.44692, 2.447, 2.4475])
def test_just_beyond_beta_star_the_diagram_has_the_jump(beta: float) -> None:
    """Order parameters at fold and jump grow like the root of beta - beta_*; there the free energies are equal."""
    found, branch = diagram([beta], [1.0, 1.01]), af.MeanField(beta, normalized=False).branch()
    (fold,), (jump,) = branch.folds, branch.crossings
    assert found.first_order[0]
    assert found.folds[0] < found.transitions[0] < found.thresholds[0]
    assert found.jumps[0] == jump.order
    assert jump.order / fold.order == pytest.approx(np.sqrt(1.5), rel=1e-3)
    closed = brentq(lambda b: iv(2, b) / iv(1, b) - 1 / 2, 2.0, 3.0, xtol=1e-14)
    far = af.MeanField(closed + 1e-2, normalized=False).branch().crossings[0].order
    # beta_* of the branch is off by some 1e-7.
    assert jump.order / far == pytest.approx(np.sqrt((beta - closed) / 1e-2), rel=0.01 + 5e-7 / (beta - closed))
    assert ((branch.free_energies > 0) == (branch.orders < jump.order))[branch.orders > 5e-3].all()


def test_sa_has_continuous_transitions() -> None:
    """Under SA no branch turned back in our runs, for beta up to 9."""
    assert not any(af.MeanField(beta).branch().first_order for beta in (1.0, 3.0, 9.0))


def test_a_first_step_that_is_too_long_is_halved_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = af.MeanField(3.0, normalized=False)
    usual = model.branch(until=1.02 * model.branch(until=None).start)
    monkeypatch.setattr(branches, "FIRST", 40.0)
    found = model.branch(until=1.02 * usual.start)
    assert found.folds[0].kappa == pytest.approx(usual.folds[0].kappa, rel=1e-9)
    assert found.crossings[0].kappa == pytest.approx(usual.crossings[0].kappa, rel=1e-9)


def test_a_branch_that_is_lost_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newton's method finds the first two points, and then none."""
    along, asked = branches.Curve.along, list[float]()

    def lost(self: branches.Curve, point: Any, step: float) -> Any:
        asked.append(step)
        return along(self, point, step) if len(asked) <= 2 else None

    monkeypatch.setattr(branches.Curve, "along", lost)
    with refused("the branch cannot be followed beyond kappa = .*: give an earlier end"):
        af.MeanField(1.0, normalized=False).branch()


def test_newtons_method_that_fails_finds_no_point_and_no_density(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps far beyond any density, and methods that are given too few steps."""
    for normalized in (False, True):
        curve = branches.Curve(af.MeanField(1.0, normalized=normalized), 1)
        start = curve.start()
        assert curve.along(start, 0.01) is not None
        assert curve.along(start, 1e3) is None
    model = af.MeanField(1.0, kappa=9.0)
    assert stationary._solve(stationary.Balanced(model, 8), np.full(8, 5.0), 9.0) is None
    with monkeypatch.context() as patch:
        patch.setattr(branches, "CLOSE", -1.0)
        assert curve.along(start, 0.01) is None
    monkeypatch.setattr(stationary, "STEPS", 1)
    with refused("Newton's method found no stationary density near the one given: start from one of a run"):
        model.stationary(lambda angles: 1 + 0.5 * np.cos(angles))
