"""Tokens that have met move as one mass, and long rests are no obstacle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import quad

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.motions.solvers.clumps import Clumps


def on_circle(*angles: float) -> Array:
    return np.column_stack([np.cos(angles), np.sin(angles)])


def test_tokens_that_coincide_are_one_body() -> None:
    x = np.array([[3.0, 0.0], [1.0, 1.0], [3.0, 0.0], [1.0, 1.0 + 2**-52], [3.0, -0.0]])
    clumps = Clumps.coinciding(x, np.array([1.0, 2.0, 4.0, 8.0, 16.0]))
    assert clumps.labels.tolist() == [0, 1, 0, 2, 0]
    assert clumps.masses is not None
    assert clumps.masses.tolist() == [21.0, 2.0, 8.0]
    np.testing.assert_array_equal(clumps.tokens(clumps.bodies(x)), x)


def test_only_those_that_approach_are_united() -> None:
    y = np.array([[5.0, 0.0], [0.0, 0.0], [1e-9, 0.0], [1.0, 0.0], [1.0, 3e-9], [2e-9, 0.0]])
    v = np.array([[0.0, 0.0], [1.0, 7.0], [0.0, 7.0], [0.0, -1.0], [0.0, 1.0], [-1.0, 7.0]])
    found = Clumps(np.arange(6), np.array([1.0, 1.0, 2.0, 1.0, 1.0, 5.0])).united(y, v, 1.5e-9)
    assert found is not None
    clumps, bodies = found
    # 1, 2 and 5 form a chain that contracts; 3 and 4 move apart, and are too far from each other anyway.
    assert clumps.labels.tolist() == [0, 1, 1, 2, 3, 1]
    assert clumps.masses is not None
    assert clumps.masses.tolist() == [1.0, 8.0, 1.0, 1.0]
    np.testing.assert_allclose(bodies[1], [(2 * 1e-9 + 5 * 2e-9) / 8, 0.0], rtol=1e-14)
    apart = Clumps(np.arange(6), None).united(y, v, 3.5e-9)
    assert apart is not None
    assert apart[0].labels.tolist() == [0, 1, 1, 2, 3, 1]
    assert Clumps(np.arange(6), None).united(y, -v[:, ::-1] * 0 + y, 1.5e-9) is None


def test_a_pull_far_below_rounding_is_accurate() -> None:
    x, beta = on_circle(0.3, 2.9), 60.0
    gap = 1 - np.cos(2.6)
    w = np.exp(-beta * gap)
    pull = af.Softmax(beta=beta).pull(x).mean
    np.testing.assert_allclose(pull[0], w / (1 + w) * (x[1] - x[0]), rtol=1e-12)
    assert np.abs(pull).max() < 1e-40
    far = af.Softmax(beta=2.0, B=[[1.0, 0.5], [-0.5, 1.0]])
    cloud = af.tokens.gaussian(n=20, d=2, seed=0)
    weights = np.arange(1.0, 21.0)
    heard = far.hear(cloud, masses=weights)
    again = far.pull(cloud, masses=weights)
    np.testing.assert_allclose(again.mean, heard.mean - cloud, atol=1e-14)
    assert again.log_total is not None
    assert heard.log_total is not None
    np.testing.assert_allclose(again.log_total, heard.log_total, rtol=1e-14)
    many = af.tokens.gaussian(n=60, d=2, seed=0)
    np.testing.assert_allclose(far.pull(many).mean, far.attend(many) - many, atol=1e-14)


def slowness(beta: float, normalized: bool) -> Callable[[float], float]:
    """Return -dt/dphi of two tokens at an angle phi, phi' = -2 sin(phi) w / (1 + w), w = e^{beta (cos phi - 1)}."""

    def of(phi: float) -> float:
        w = np.exp(beta * (np.cos(phi) - 1))
        speed = 2 * np.sin(phi) * (w / (1 + w) if normalized else w * np.exp(beta) / 2)
        return float(1 / speed)

    return of


@pytest.mark.parametrize(("beta", "normalized"), [(8.0, True), (40.0, True), (350.0, True), (12.0, False)])
def test_two_tokens_rest_for_as_long_as_they_should(beta: float, normalized: bool) -> None:
    phi, end = 2.5, 2.5 - 8 / beta
    expected = quad(slowness(beta, normalized), end, phi, epsabs=0, epsrel=1e-12, limit=500)[0]
    motion = af.SphereFlow(normalized=normalized, rtol=1e-11)
    run = af.simulate(on_circle(0.0, phi), af.Softmax(beta=beta), motion, until=expected)
    assert run.report["evaluations"] < 40_000
    assert np.arccos(run.final[0] @ run.final[1]) == pytest.approx(end, abs=1e-7)


def test_a_rest_of_many_orders_of_magnitude_ends() -> None:
    """At t = 1e15 the collapse of the last two clusters takes less than the spacing of floats."""
    run = af.simulate(on_circle(0.0, 0.7, 2.1, 3.0, 4.4), af.Softmax(beta=20.0), af.SphereFlow(), until=1e20)
    assert run.stopped == "reached t = 1e+20, as asked"
    assert run.report["bodies"] == 1
    assert run.report["evaluations"] < 20_000
    assert (np.diff(run.times) >= 0).all()
    assert np.ptp(run.final, axis=0).max() == 0
    assert np.abs(np.linalg.norm(run.tokens, axis=2) - 1).max() < 1e-15
    at_rest = run.at(1e12)
    assert af.measure.clusters(at_rest, tol=0.05).count == 2


def test_near_tokens_that_repel_are_not_united() -> None:
    x = on_circle(1.0, 1.0 + 1e-10)
    run = af.simulate(x, af.Softmax(beta=1.0), af.SphereFlow(V=-np.eye(2)), until=60.0)
    assert run.report["bodies"] == 2
    assert run.final[0] @ run.final[1] == pytest.approx(-1.0)


def test_a_pair_on_a_ridge_is_torn_apart() -> None:
    """Two light tokens on either side of the middle between two heavy ones end at different ones."""
    x = on_circle(0.0, np.pi / 2 - 1e-9, np.pi / 2 + 1e-9, np.pi)
    masses = np.array([1.0, 1e-6, 1e-6, 1.0])
    run = af.simulate(x, af.Softmax(beta=8.0), af.SphereFlow(), until=100.0, masses=masses)
    assert run.report["bodies"] == 2
    assert run.final[1] @ run.final[0] > 0.999999
    assert run.final[2] @ run.final[3] > 0.999999
    assert run.final[1] @ run.final[2] < -0.99


@pytest.mark.parametrize("motion", [af.Flow(V=[[-1.0, 0.2], [0.0, -0.5]]), af.RescaledFlow(), af.SphereFlow()])
def test_repeated_tokens_move_as_masses(motion: af.Motion) -> None:
    x = af.tokens.sphere(n=5, d=2, seed=1)
    many = x[[0, 0, 0, 1, 2, 2, 3, 4]]
    light = af.simulate(many, af.Softmax(), motion, until=2.0, record=[0.7])
    heavy = af.simulate(x, af.Softmax(), motion, until=2.0, record=[0.7], masses=[3.0, 1.0, 2.0, 1.0, 1.0])
    np.testing.assert_allclose(light.tokens, heavy.tokens[:, [0, 0, 0, 1, 2, 2, 3, 4]], atol=1e-14)
    assert light.report["bodies"] == 5


def test_states_between_steps_know_the_time() -> None:
    """The value matrix turns with time, so a state interpolated with the wrong clock is wrong."""

    def V(t: float) -> list[list[float]]:
        return [[np.cos(3 * t), -np.sin(3 * t)], [np.sin(3 * t), np.cos(3 * t)]]

    x, law, motion = on_circle(0.0, 0.5, 2.0), af.Softmax(beta=2.0), af.SphereFlow(V=V)
    moments = [0.31, 1.17, 2.9, 4.04]
    run = af.simulate(x, law, motion, until=6.0, record=moments)
    for t, state in zip(moments, run.tokens[1:], strict=False):
        direct = af.simulate(x, law, motion, until=t).final
        np.testing.assert_allclose(state, direct, atol=1e-7)
        np.testing.assert_allclose(af.simulate(x, law, motion, until=6.0).at(t), direct, atol=1e-7)


def test_the_state_when_two_meet_is_still_interpolated() -> None:
    x, law = on_circle(0.0, 0.1, 2.0), af.Softmax(beta=6.0)
    whole = af.simulate(x, law, af.SphereFlow(), until=40.0)
    meeting = int((whole.tokens[:, 0] == whole.tokens[:, 1]).all(axis=1).argmax())
    t = float(whole.times[meeting - 1 : meeting + 1].mean())
    run = af.simulate(x, law, af.SphereFlow(), until=40.0, record=[t])
    assert run.tokens[1, 0].tolist() != run.tokens[1, 1].tolist()
    np.testing.assert_allclose(run.tokens[1], af.simulate(x, law, af.SphereFlow(rtol=1e-12), until=t).final, atol=1e-8)


@pytest.mark.parametrize("rtol", [1e-9, 1e-11])
def test_tokens_that_will_part_again_are_not_united(rtol: float) -> None:
    """V = cos(.04 t) I first attracts, then repels: two tokens end at a large angle."""
    law, motion = af.Softmax(beta=1.0), af.SphereFlow(V=lambda t: np.cos(0.04 * t) * np.eye(2), rtol=rtol)
    run = af.simulate(on_circle(0.0, 0.3), law, motion, until=110.0)
    assert run.report["bodies"] == 2
    assert np.arccos(run.final[0] @ run.final[1]) == pytest.approx(3.13409, abs=1e-3)


def test_a_multiple_of_the_identity_drifts_as_accurately() -> None:
    x, law = on_circle(0.0, 1.8), af.Softmax(beta=24.0)
    plain = af.simulate(x, law, af.SphereFlow(), until=1e13)
    for c in (1.0, 2.0):
        run = af.simulate(x, law, af.SphereFlow(V=c * np.eye(2)), until=1e13 / c)
        assert run.report["evaluations"] < 2 * plain.report["evaluations"]
        np.testing.assert_allclose(run.final, plain.final, atol=1e-6)


def test_many_clusters_drift_as_accurately() -> None:
    """Orthonormal tokens, more than are compared in one go: all pulls are those of the closed form, e^{-beta} small."""
    n, beta = 40, 30.0
    pull = af.Softmax(beta=beta).pull(np.eye(n)).mean
    w = np.exp(-beta) / (1 + (n - 1) * np.exp(-beta))
    np.testing.assert_allclose(pull, w * (np.ones((n, n)) - n * np.eye(n)), rtol=1e-12)


def test_heavier_bodies_count_more_for_the_approach() -> None:
    """The light one moves away from the heavy ones faster than they come together, yet their mass decides."""
    y = np.array([[0.0, 0.0], [1e-9, 0.0], [2e-9, 0.0]])
    v = np.array([[1.0, 0.0], [-1.0, 0.0], [3.0, 0.0]])
    assert Clumps(np.arange(3), np.array([1.0, 1.0, 1.0])).united(y, v, 1.1e-9) is None
    assert Clumps(np.arange(3), np.array([1.0, 1.0, 1e-3])).united(y, v, 1.1e-9) is not None
