"""Merges and staircases off the sphere, against plain loops, integrals and literal runs."""

from __future__ import annotations

import math
from collections.abc import Hashable
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.measure.merges import _merged

THREE = np.array([[1.0], [0.4], [-1.0]])


def steps_of_merges(x: list[float], beta: float, gamma: float, tol: float, until: int) -> list[int]:
    """Move tokens of a line in a plain loop, and note when neighbours come within tol of each other."""
    found, apart = [], len(x) - 1
    for step in range(1, until + 1):
        heard = []
        for a in x:
            w = [math.exp(beta * a * (b - a)) for b in x]
            heard.append(sum(u * b for u, b in zip(w, x, strict=True)) / sum(w))
        x = [a + gamma * (m - a) for a, m in zip(x, heard, strict=True)]
        gaps = sum(b - a > tol for a, b in pairwise(sorted(x)))
        found += [step] * (apart - gaps)
        apart = gaps
    return found


def test_layers_on_a_line_merge_when_a_plain_loop_says() -> None:
    expected = steps_of_merges([1.0, 0.4, -1.0], 5.0, 0.1, 0.02, 2500)
    assert len(expected) == 2
    assert expected[1] > 1000
    law = af.Softmax(beta=5.0)
    for motion in (af.Layers(gamma=0.1), af.Layers(alpha=1 / 9), af.Leaps(gamma=0.1)):
        merges = af.measure.merge_times(af.simulate(THREE, law, motion, until=2500))
        assert merges.time.tolist() == expected  # the default threshold is a hundredth of the extent, .02
        assert merges.error.tolist() == [0, 0]
        assert [m.sizes for m in merges] == [(1, 1), (2, 1)]
        assert merges.left.tolist() == [2, 1]


@pytest.mark.parametrize("threshold", [0.3, 0.01])
def test_the_threshold_is_a_distance(threshold: float) -> None:
    run = af.simulate(THREE, af.Softmax(beta=5.0), af.Layers(gamma=0.1), until=2500)
    expected = steps_of_merges([1.0, 0.4, -1.0], 5.0, 0.1, threshold, 2500)
    assert af.measure.merge_times(run, threshold).time.tolist() == expected


def test_thinned_records_widen_the_error() -> None:
    law, exact = af.Softmax(beta=5.0), steps_of_merges([1.0, 0.4, -1.0], 5.0, 0.1, 0.02, 2500)
    thinned = af.measure.merge_times(af.simulate(THREE, law, af.Layers(gamma=0.1), until=2500, record=50))
    assert (thinned.error == 49).all()
    for merge, true in zip(thinned, exact, strict=True):
        assert merge.time - merge.error <= true <= merge.time


def test_merges_between_two_records_count_down() -> None:
    x0 = af.tokens.gaussian(n=8, d=2, seed=0)
    run = af.simulate(x0, af.Hardmax(), af.Layers(gamma=0.1), until=100, record=25)
    merges = af.measure.merge_times(run)
    assert merges.left.tolist() == list(range(7, 7 - len(merges), -1))
    assert len(set(merges.time.tolist())) < len(merges)


def test_residual_layers_merge_where_their_records_do() -> None:
    """Tokens of a contracting V: single linkage of every record, by hand."""
    x0 = af.tokens.gaussian(n=6, d=2, seed=4)
    run = af.simulate(x0, af.Softmax(beta=0.5), af.Residual(V=-np.eye(2), dt=0.3), until=400)
    counts = [af.measure.clusters(x, 0.3).count for x in run.tokens]
    falls = [k for k, (a, b) in enumerate(pairwise(counts), start=1) for _ in range(a - b)]
    assert len(falls) > 1
    assert af.measure.merge_times(run, threshold=0.3).time.tolist() == falls


def wait(beta: float, gamma: float, to: float) -> float:
    """Return how many steps tokens 1 and -1 take to a and -a: the sum of (1 + e^{2 beta a^2}) / (2 a gamma)."""
    largest = 2 * beta
    part = quad(
        lambda a: (math.exp(-largest) + math.exp(2 * beta * a * a - largest)) / (2 * a * gamma),
        to,
        1.0,
        epsrel=1e-12,
        limit=200,
    )
    return float(part[0] * math.exp(largest))


def test_leaps_merge_and_climb_when_the_integral_says() -> None:
    """Steps shorter than the rounding of their number are a flow, whose time is an integral.

    F = (1 + e^{-2 beta a^2}) / 2 is half way up its stair where e^{-2 beta a^2} = 1/2.
    """
    beta = 10.0
    expected, half = wait(beta, 0.1, 0.1), wait(beta, 0.1, math.sqrt(math.log(2) / (2 * beta)))
    leaps = af.Leaps(gamma=0.1, rtol=1e-6)
    run = af.simulate([[1.0], [-1.0]], af.Softmax(beta=beta), leaps, until=round(10 * expected))
    stairs = af.measure.staircase(run, threshold=0.2)
    (merge,), ((climbed, error),) = stairs.merges, stairs.half_heights
    assert isinstance(merge.time, int)
    # Near the end a step of gamma is not small: the integral is off by some steps.
    assert abs(merge.time - expected) <= merge.error + 20
    assert abs(climbed - half) <= error + 20
    assert merge.error < 2e-3 * expected


def test_a_merge_within_a_leap_is_a_whole_step() -> None:
    """Tokens 1 and -1 are joined at a distance of 1.96 while they still drift, in the middle of a leap."""
    expected = wait(30.0, 0.1, 0.98)
    leaps = af.Leaps(gamma=0.1, rtol=1e-6)
    run = af.simulate([[1.0], [-1.0]], af.Softmax(beta=30.0), leaps, until=round(1.1 * expected))
    (merge,) = af.measure.merge_times(run, threshold=1.96)
    assert isinstance(merge.time, int)
    assert merge.time not in run.times
    assert abs(merge.time - expected) <= merge.error
    x = run.at([merge.time - 10**20, merge.time + 10**20])[:, :, 0]
    assert x[0, 0] - x[0, 1] > 1.96 > x[1, 0] - x[1, 1]


def test_leaps_and_layers_merge_alike_in_the_plane() -> None:
    x0, law = af.tokens.gaussian(n=8, d=2, seed=4), af.Softmax(beta=2.5)
    exact = af.measure.merge_times(af.simulate(x0, law, af.Layers(gamma=0.1), until=2000))
    leaps = af.measure.merge_times(af.simulate(x0, law, af.Leaps(gamma=0.1, rtol=1e-7), until=2000))
    assert len(exact) == len(leaps) == 7
    assert (np.abs(leaps.time - exact.time) <= leaps.error).all()
    assert (leaps.error <= 1).all()


def energy(x: Array, beta: float, masses: Array) -> float:
    share = masses / masses.sum()
    far = ((x[:, None] - x[None]) ** 2).sum(axis=2)
    return float(share @ np.exp(-beta * far / 2) @ share)


def test_the_staircase_of_leaps_in_the_plane() -> None:
    """Three clusters of different masses: plateaux at sum_q (n_q/n)^2, for times exponential in beta."""
    x0, masses = af.tokens.polygon(3) * [[1.0], [1.1], [0.9]], np.array([3.0, 1.0, 2.0])
    run = af.simulate(x0, af.Softmax(beta=7.0), af.Leaps(gamma=0.1, rtol=1e-5), until=10**12, masses=masses)
    stairs = af.measure.staircase(run)
    assert len(stairs.merges) == 2
    np.testing.assert_allclose([p.height for p in stairs.plateaux], stairs.heights, atol=1e-3)
    assert stairs.heights[0] == pytest.approx(14 / 36)
    assert stairs.heights[-1] == 1
    np.testing.assert_allclose(stairs.energy, [energy(x, 7.0, masses) for x in run.tokens], rtol=1e-12)
    assert stairs.half_heights[-1][0] <= stairs.merges[-1].time
    figure = af.figures.staircase(stairs)
    assert figure.axes[0].get_xscale() == "log"


@pytest.mark.parametrize("motion", [af.Layers(gamma=0.1), af.Leaps(gamma=0.1)], ids=repr)
def test_clusters_that_part_are_counted_and_lower_the_heights(motion: af.Motion) -> None:
    """A close pair in the middle is pulled apart, and each of the two merges with a token outside."""
    run = af.simulate([[-0.02], [0.02], [2.0], [-2.0]], af.Softmax(beta=2.0), motion, until=200)
    merges = af.measure.merge_times(run)
    assert (merges.splits, merges.sizes.tolist(), merges.left.tolist()) == (1, [[1, 1], [1, 1]], [3, 2])
    for part in (merges, merges[-1:]):
        assert repr(part).endswith("2 left\na cluster parted once, which is not listed")
    stairs = af.measure.staircase(run)
    np.testing.assert_allclose(stairs.heights, [6 / 16, 6 / 16, 8 / 16])
    assert stairs.plateaux[-1].predicted == pytest.approx(energy(run.final, 2.0, np.ones(4)), abs=1e-3)


def test_a_split_begins_a_plateau_and_is_before_the_half_heights_of_later_merges() -> None:
    """The pair in the middle parts at once: the energy falls from 8/36 to 6/36 and climbs from there."""
    x0 = np.array([[-0.02], [0.02], [2.0], [-2.0], [9.0], [-9.0]])
    run = af.simulate(x0, af.Softmax(beta=2.0), af.Layers(gamma=0.1), until=60)
    stairs = af.measure.staircase(run, threshold=0.1)
    low = stairs.plateaux[1]
    assert (low.start, low.end) == (1, stairs.merges[0].time)
    np.testing.assert_allclose([p.predicted for p in stairs.plateaux], [8 / 36, 6 / 36, 10 / 36, 18 / 36])
    assert low.height == pytest.approx(low.predicted, abs=0.01)
    # One half of what a merge of two single tokens adds, 2/36, and then the same again.
    fallen = int(np.argmin(stairs.energy))
    climbed = [fallen + int(np.argmax(stairs.energy[fallen:] >= level / 36)) for level in (7, 9, 12, 16)]
    assert stairs.half_heights == [(step, 0.0) for step in climbed]
    assert fallen < climbed[0] < stairs.merges[0].time


def test_parts_of_merges_keep_their_heights() -> None:
    merges = _merged([(0, (0, 0, 1, 1)), (3, (0, 1, 0, 1)), (5, (0, 0, 0, 0))], np.ones(4))
    np.testing.assert_allclose(merges[:1].heights, [8 / 16, 6 / 16])
    np.testing.assert_allclose(merges[1:].heights, [6 / 16, 8 / 16, 1.0])
    np.testing.assert_allclose(merges[3:].heights, [1.0])


def test_clusters_that_exchange_a_token_part_and_merge_at_once() -> None:
    """Two pairs exchange their partners in one step: two parts leave, and two merge."""
    changes: list[tuple[float, Hashable]] = [(0, (0, 0, 1, 1)), (3, (0, 1, 0, 1)), (5, (0, 0, 0, 0))]
    merges = _merged(changes, np.ones(4))
    assert (merges.splits, merges.time.tolist(), merges.left.tolist()) == (2, [3, 3, 5], [3, 2, 1])
    np.testing.assert_allclose(merges.heights, [8 / 16, 6 / 16, 8 / 16, 1.0])


def test_a_height_that_is_never_passed_is_told_by_infinity() -> None:
    """Tokens that are joined by a large threshold, and still far apart for the energy."""
    run = af.simulate([[0.0], [1.05]], af.Softmax(beta=9.0), af.Layers(gamma=0.1), until=5)
    with_none = af.measure.staircase(run, threshold=1.0)
    assert len(with_none.merges) == len(with_none.half_heights) == 1
    assert with_none.energy.max() < 0.75
    assert with_none.half_heights == [(np.inf, np.inf)]


def test_layers_have_a_staircase_off_the_sphere() -> None:
    stairs = af.measure.staircase(af.simulate(THREE, af.Softmax(beta=5.0), af.Layers(gamma=0.1), until=2500))
    np.testing.assert_allclose(stairs.heights, [3 / 9, 5 / 9, 1.0])
    assert [half for half, _ in stairs.half_heights] == sorted(half for half, _ in stairs.half_heights)
    assert stairs.plateaux[-1].height == pytest.approx(1.0, abs=1e-3)
    shown = af.figures.staircase(stairs).axes[0]
    assert shown.get_xlabel() == "step"
