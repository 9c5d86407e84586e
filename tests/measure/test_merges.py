"""Merge times against a reference integration and closed forms, and the staircase of the energy."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused
from scipy.integrate import quad, solve_ivp

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.laws import Hearing
from attnflow.motions import ContinuousMotion

ALL = "ATTNFLOW_EXAMPLES" in os.environ
ANGLE = float(np.arccos(0.999))
# Where clusters and heights are asked for, and no times, three times as few steps show them.
LOOSE = af.SphereFlow(rtol=1e-5)


def on_circle(*angles: float) -> Array:
    return np.column_stack([np.cos(angles), np.sin(angles)])


def reference_merges(angles: Array, beta: float, until: float) -> list[float]:
    """Integrate the angles with an implicit method at tolerance 1e-12, and locate gaps falling below arccos(.999).

    On the circle two neighbours are linked when the gap between their angles is small; the order of the tokens never
    changes, so the gaps in that order are all there is.
    """
    start = np.sort(angles)

    def velocity(t: float, a: Array) -> Array:
        turn = a[None] - a[:, None]
        w = np.exp(beta * (np.cos(turn) - 1))
        return np.asarray((w * np.sin(turn)).sum(axis=1) / w.sum(axis=1))

    def jacobian(t: float, a: Array) -> Array:
        turn = a[None] - a[:, None]
        w = np.exp(beta * (np.cos(turn) - 1))
        by_others = w * (np.cos(turn) - beta * np.sin(turn) * (np.sin(turn) - velocity(t, a)[:, None]))
        by_others /= w.sum(axis=1, keepdims=True)
        # Turning all of them changes no velocity.
        return np.asarray(by_others - np.diag(by_others.sum(axis=1)))

    def gaps(a: Array) -> Array:
        return np.append(np.diff(a), 2 * np.pi + a[0] - a[-1]) - ANGLE

    def event(k: int) -> Any:
        def crossing(t: float, a: Array) -> float:
            return float(gaps(a)[k])

        crossing.direction = -1.0  # type: ignore[attr-defined]
        return crossing

    events = [event(k) for k in range(len(start))]
    found = solve_ivp(velocity, (0, until), start, method="Radau", jac=jacobian, events=events, rtol=1e-12, atol=1e-13)
    return sorted(float(t) for times in found.t_events for t in times)


FIVE = {
    4.0: [0.0, 0.7, 2.1, 3.0, 4.4],
    8.0: [0.0, 1.0, 2.1, 3.0, 4.6],
}


@pytest.mark.parametrize("beta", FIVE if ALL else [4.0])
def test_five_tokens_on_the_circle_agree_with_a_reference(beta: float) -> None:
    angles = np.array(FIVE[beta])
    run = af.simulate(on_circle(*angles), af.Softmax(beta=beta), af.SphereFlow(), until=1e10)
    merges = af.measure.merge_times(run)
    assert len(merges) == 4
    assert merges.left.tolist() == [4 - k for k in range(4)]
    expected = reference_merges(angles, beta, 1.01 * merges[-1].time)
    assert len(expected) >= 4
    assert merges[-1].time > 20 * merges[-2].time or merges[-2].time > 20 * merges[-3].time  # a long plateau
    assert (np.abs(merges.time - expected[:4]) <= merges.error).all()
    assert (merges.error < 1e-6 * merges.time).all()


def two_tokens(beta: float, from_angle: float, to_angle: float) -> float:
    """Return how long SA takes: phi' = -2 sin(phi) w / (1 + w), w = e^{beta (cos phi - 1)}."""

    def slowness(phi: float) -> float:
        w = np.exp(beta * (np.cos(phi) - 1))
        return float((1 + w) / (2 * w * np.sin(phi)))

    return float(quad(slowness, to_angle, from_angle, epsabs=0, epsrel=1e-13, limit=500)[0])


@pytest.mark.parametrize(
    ("beta", "rtol"),
    [*product((3.0, 12.0, 40.0), (1e-4, 1e-9, 1e-13))] if ALL else [(3.0, 1e-13), (12.0, 1e-9), (40.0, 1e-4)],
)
def test_two_tokens_merge_when_they_should(beta: float, rtol: float) -> None:
    expected = two_tokens(beta, 1.8, ANGLE)
    run = af.simulate(on_circle(0.0, 1.8), af.Softmax(beta=beta), af.SphereFlow(rtol=rtol), until=2 * expected)
    (merge,) = af.measure.merge_times(run)
    assert abs(merge.time - expected) <= merge.error + 1e-12 * expected
    assert merge.error <= 1e3 * rtol * expected
    assert (merge.sizes, merge.left) == ((1.0, 1.0), 1)


def test_the_errors_hold_what_they_promise() -> None:
    """Loose runs of random tokens: their merge times are off by less than their error bars."""
    rng = np.random.default_rng(5)
    within, total = 0, 0
    for _ in range(3 if ALL else 1):
        x, beta = on_circle(*rng.uniform(0, 2 * np.pi, 5)), rng.uniform(4, 8)
        exact = af.measure.merge_times(af.simulate(x, af.Softmax(beta=beta), af.SphereFlow(rtol=1e-11), until=1e8))
        loose = af.measure.merge_times(af.simulate(x, af.Softmax(beta=beta), af.SphereFlow(rtol=1e-6), until=1e8))
        assert len(loose) == len(exact)
        within += int((np.abs(loose.time - exact.time) <= loose.error).sum())
        total += len(exact)
    assert within == total
    assert total >= (10 if ALL else 3)


def test_merges_at_the_same_time_are_all_told() -> None:
    """Four tokens in two pairs that are mirror images of each other."""
    x = on_circle(0.0, 0.5, np.pi, np.pi + 0.5)
    merges = af.measure.merge_times(af.simulate(x, af.Softmax(beta=6.0), LOOSE, until=100.0))
    assert [m.left for m in merges] == [3, 2]
    assert merges[0].time == pytest.approx(merges[1].time, rel=1e-6)


def test_a_regular_polygon_never_merges() -> None:
    run = af.simulate(af.tokens.polygon(4), af.Softmax(beta=2.0), LOOSE, until=3.0)
    merges = af.measure.merge_times(run)
    assert len(merges) == 0
    assert repr(merges[:1]) == "<no merges>"


def test_masses_are_sizes() -> None:
    x, masses = on_circle(0.0, 0.5, 2.5), [2.0, 5.0, 1.0]
    run = af.simulate(x, af.Softmax(beta=5.0), af.SphereFlow(), until=1e6, masses=masses)
    merges = af.measure.merge_times(run)
    assert [m.sizes for m in merges] == [(5.0, 2.0), (7.0, 1.0)]
    repeated = np.repeat(x, [2, 5, 1], axis=0)
    again = af.measure.merge_times(af.simulate(repeated, af.Softmax(beta=5.0), af.SphereFlow(), until=1e6))
    np.testing.assert_allclose(again.time, merges.time, rtol=1e-7)
    assert [m.sizes for m in again] == [(5.0, 2.0), (7.0, 1.0)]


def test_what_is_joined_at_the_start_has_not_merged() -> None:
    x = on_circle(0.0, 0.01, 1.5)
    merges = af.measure.merge_times(af.simulate(x, af.Softmax(beta=5.0), LOOSE, until=1e4))
    assert [m.sizes for m in merges] == [(2.0, 1.0)]
    wide = af.measure.merge_times(af.simulate(x, af.Softmax(beta=5.0), LOOSE, until=1e4), threshold=0.0)
    assert len(wide) == 0


def test_layers_merge_at_steps() -> None:
    run = af.simulate(on_circle(0.0, 0.5), af.Softmax(beta=3.0), af.SphereLayers(dt=0.1), until=100)
    (merge,) = af.measure.merge_times(run)
    inner = (run.tokens[:, 0] * run.tokens[:, 1]).sum(axis=1)
    assert merge.time == int((inner > 0.999).argmax())
    assert merge.error == 0
    coarse = af.simulate(on_circle(0.0, 0.5), af.Softmax(beta=3.0), af.SphereLayers(dt=0.1), until=100, record=7)
    (late,) = af.measure.merge_times(coarse)
    assert late.time % 7 == 0
    assert late.time - late.error <= merge.time <= late.time


def test_the_staircase_of_two_tokens() -> None:
    """F = (1 + w)/2 climbs from 1/2 to 1, and is half way where w = e^{beta (cos phi - 1)} = 1/2."""
    beta = 16.0
    expected = two_tokens(beta, 1.8, ANGLE)
    run = af.simulate(on_circle(0.0, 1.8), af.Softmax(beta=beta), af.SphereFlow(rtol=1e-7), until=100 * expected)
    stairs = af.measure.staircase(run)
    half = two_tokens(beta, 1.8, float(np.arccos(1 - np.log(2) / beta)))
    (time, error) = stairs.half_heights[0]
    assert abs(time - half) <= error
    assert [p.predicted for p in stairs.plateaux] == [0.5, 1.0]
    assert stairs.plateaux[0].height == pytest.approx(0.5, abs=1e-5)
    assert stairs.plateaux[1].height == pytest.approx(1.0, abs=1e-12)
    assert (np.diff(stairs.energy) >= -1e-12).all()
    assert stairs.energy[0] == pytest.approx((1 + np.exp(beta * (np.cos(1.8) - 1))) / 2)
    np.testing.assert_array_equal(stairs.times, run.times)


def test_a_merge_of_a_and_b_adds_2ab() -> None:
    x = np.repeat(on_circle(0.0, 1.3, 2.9), [3, 1, 2], axis=0)
    stairs = af.measure.staircase(af.simulate(x, af.Softmax(beta=14.0), LOOSE, until=1e12))
    a = [(9 + 1 + 4) / 36, (16 + 4) / 36, 1.0]
    np.testing.assert_allclose([p.predicted for p in stairs.plateaux], a)
    np.testing.assert_allclose([p.height for p in stairs.plateaux], a, atol=2e-3)
    assert stairs.half_heights[0][0] < stairs.merges[0].time < stairs.half_heights[1][0] < stairs.merges[1].time


def test_masses_make_the_heights() -> None:
    run = af.simulate(on_circle(0.0, 1.8), af.Softmax(beta=10.0), LOOSE, until=1e8, masses=[3.0, 5.0])
    stairs = af.measure.staircase(run)
    np.testing.assert_allclose(stairs.heights, [(9 + 25) / 64, 1.0])
    np.testing.assert_allclose([p.height for p in stairs.plateaux], stairs.heights, atol=1e-4)


def test_half_way_is_meant_in_log_time() -> None:
    """Late on its plateau the energy has begun to climb: half way in log time it has not."""
    run = af.simulate(on_circle(0.0, 1.2), af.Softmax(beta=12.0), af.SphereFlow(), until=1e9)
    (merge,) = af.measure.merge_times(run)
    first = af.measure.staircase(run).plateaux[0]
    x = run.at(np.sqrt(merge.time))
    assert first.height == pytest.approx((1 + np.exp(12.0 * (x[0] @ x[1] - 1))) / 2, abs=1e-9)
    late = run.at(merge.time / 2)
    assert abs(first.height - (1 + np.exp(12.0 * (late[0] @ late[1] - 1))) / 2) > 1e-4


def test_layers_have_a_staircase_too() -> None:
    run = af.simulate(on_circle(0.0, 1.2), af.Softmax(beta=6.0), af.SphereLayers(dt=0.1), until=1500)
    stairs = af.measure.staircase(run)
    assert [p.predicted for p in stairs.plateaux] == [0.5, 1.0]
    assert stairs.plateaux[1].height == pytest.approx(1.0)


def test_errors_are_those_of_the_time_not_of_the_tolerance() -> None:
    """A time that the solver knows far better than its tolerance has an error that says so."""
    run = af.simulate(on_circle(0.0, 0.5), af.Softmax(beta=1.0), af.SphereFlow(rtol=1e-3), until=20.0)
    (merge,) = af.measure.merge_times(run)
    true = abs(merge.time - two_tokens(1.0, 0.5, ANGLE))
    assert true <= merge.error <= 10 * true < 1e-3 * merge.time


def test_where_rounding_decides_the_error_says_so() -> None:
    """A triangle rests for ever; rounding makes it merge, at times that mean nothing."""
    run = af.simulate(af.tokens.polygon(3), af.Softmax(beta=4.0), LOOSE, until=1e10)
    merges = af.measure.merge_times(run)
    assert (merges.error > 0.1 * merges.time).all()


def test_usa_climbs_in_its_own_clock() -> None:
    x = on_circle(0.0, 1.3, 2.9)
    run = af.simulate(x, af.Softmax(beta=12.0), af.SphereFlow(normalized=False, rtol=1e-5), until=1e4)
    stairs = af.measure.staircase(run)
    np.testing.assert_allclose([p.height for p in stairs.plateaux], [p.predicted for p in stairs.plateaux], atol=0.01)
    assert stairs.merges[0].time < 1


def test_bad_questions_get_a_sentence(tmp_path: Path) -> None:
    x = on_circle(0.0, 0.5)
    sphere = af.simulate(x, af.Softmax(), af.SphereFlow(), until=1.0)
    chain = af.simulate(x, af.Softmax(), af.Jumps(gamma=0.1), until=10, seed=0)
    with refused("expected layers, leaps or an integrated flow"):
        af.measure.merge_times(chain)
    with refused("threshold is 0"):
        af.measure.merge_times(af.simulate(x, af.Softmax(), af.Layers(gamma=0.1), until=10), threshold=0.0)
    fast = af.simulate(x, af.Softmax(beta=800.0), af.SphereFlow(normalized=False), until=1.0)
    with refused("this run has but its first state"):
        af.measure.merge_times(fast)
    with refused("leave V out"):
        af.measure.staircase(af.simulate(x, af.Softmax(), af.SphereFlow(V=-np.eye(2)), until=1.0))
    with refused("threshold is 1, expected an inner product below 1"):
        af.measure.merge_times(sphere, threshold=1.0)
    with refused("expected what simulate returned"):
        af.measure.merge_times(x)  # type: ignore[arg-type]
    varying = af.simulate(x, af.Softmax(beta=lambda t: 1 + t), af.SphereFlow(), until=1.0)
    with refused("constant beta"):
        af.measure.staircase(varying)
    varying.save(tmp_path / "run.zarr")
    with refused("without its law or motion"):
        af.measure.merge_times(af.load(tmp_path / "run.zarr"))


@dataclass(frozen=True)
class Relaxation(ContinuousMotion):
    """x_i' = rate (sum_j P_ij x_j - x_i): a flow of somebody else's, whose tolerance is no field."""

    rate: float = 1.0

    def velocity(self, hearing: Hearing, x: Array, t: float) -> Array:
        return self.rate * (hearing(x, t).mean - x)


def test_flows_of_others_are_repeated_at_other_tolerances() -> None:
    """With beta = 0 the distance 2 falls as 2 e^{-2t}."""
    run = af.simulate([[1.0], [-1.0]], af.Softmax(beta=0.0), Relaxation(rate=2.0), until=3.0)
    (merge,) = af.measure.merge_times(run, 0.05)
    assert abs(merge.time - np.log(40) / 2) <= merge.error < 1e-8
    assert (Relaxation().rtol, Relaxation().with_rtol(1e-5).rtol) == (1e-9, 1e-5)
    assert af.check("emergence/growth", motion=Relaxation()).outcome == "holds"
