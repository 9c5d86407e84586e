"""The distance of n tokens to many: rates and constants that theory knows, from fixed seeds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.measure import mean_field, sampling_rate, wasserstein

LINE = partial(af.tokens.uniform, d=1, low=0.0)
SQUARE = partial(af.tokens.uniform, d=2)
FLOW = af.RescaledFlow(rtol=1e-6)


def two_intervals(n: int, seed: int) -> Array:
    """Return tokens of [-2, -1] and [1, 2], as many in each as it happens."""
    x = af.tokens.uniform(n, 1, seed)
    return x + np.where(x < 0, -1.0, 1.0)


def test_on_an_interval_the_square_is_one_sixth_of_one_over_n() -> None:
    """For the uniform law on [0, 1], E W_2^2 = 1/(6 n): Bobkov and Ledoux."""
    found = mean_field(LINE, af.Softmax(), FLOW, [0], sizes=[8, 32, 128], reference=5_000, runs=100)
    assert (found.low == found.high).all()
    square = found.low[0] ** 2 * found.sizes[:, None]
    error = square.std(axis=1) / np.sqrt(100)
    assert (abs(square.mean(axis=1) - 1 / 6) < 3 * error).all()
    assert (error < 0.03).all()
    (rate,) = found.rates()
    assert rate.predicted == pytest.approx(-0.5)
    assert abs(rate.exponent + 0.5) < rate.error < 0.07
    assert rate.constant is None


def test_a_gap_slows_sampling_down() -> None:
    found = mean_field(two_intervals, af.Softmax(), FLOW, [0], sizes=[64, 256, 1024], reference=20_000, runs=60)
    (rate,) = found.rates(gap=True)
    assert rate.predicted == pytest.approx(-0.25)
    assert abs(rate.exponent + 0.25) < rate.error < 0.1
    (without,) = found.rates()
    assert without.predicted == pytest.approx(-0.5)
    assert abs(without.exponent + 0.5) > 3 * without.error
    # Of n tokens k are on the right, |k/n - 1/2| is 0.4 n^{-1/2} in the mean, and these go at least from -1 to 1.
    assert (found.distance[0] > np.sqrt(0.3) * 2 * found.sizes**-0.25).all()


def test_clouds_move_by_themselves_under_the_motion_that_was_given() -> None:
    law, motion = af.Softmax(beta=2.0), af.Layers(gamma=0.3)
    drawn: list[tuple[int, int]] = []

    def sampler(n: int, seed: int) -> Array:
        drawn.append((n, seed))
        return af.tokens.uniform(n, 2, seed)

    found = mean_field(sampler, law, motion, [0, 2, 5], sizes=[6, 11], reference=300, runs=3, seed=4)
    assert [n for n, _ in drawn] == [300, 6, 6, 6, 11, 11, 11]
    assert len({seed for _, seed in drawn}) == 7
    many = af.simulate(af.tokens.uniform(300, 2, drawn[0][1]), law, motion, until=5)
    np.testing.assert_array_equal(found.reference, many.tokens[[0, 2, 5]])
    few = af.simulate(af.tokens.uniform(11, 2, drawn[5][1]), law, motion, until=5)
    for k, t in enumerate((0, 2, 5)):
        # There are more atoms than tokens, so nothing is left open.
        exact = wasserstein(few.tokens[t], many.tokens[t])
        np.testing.assert_allclose([found.low[k, 1, 1], found.high[k, 1, 1]], exact, rtol=1e-6)
    again = mean_field(partial(af.tokens.uniform, d=2), law, motion, [5], sizes=[6, 11], reference=300, runs=3, seed=4)
    np.testing.assert_array_equal(again.low[0], found.low[2])


def test_in_the_square_the_rate_is_within_its_error() -> None:
    """The support stays a square, of side 2r: its area over 4 pi is the constant, whatever the density."""
    found = mean_field(SQUARE, af.Softmax(), FLOW, [0, 1], sizes=[32, 64, 128, 256], reference=5_000, runs=6)
    assert (found.low < found.high).all()
    assert (found.half_width < 0.04 * found.distance).all()
    for rate, tokens in zip(found.rates(), found.reference, strict=True):
        assert rate.corrected is not None
        assert abs(rate.exponent - rate.corrected) < rate.error < 0.2
        assert rate.exponent < rate.predicted  # an offset comes with log n
        assert rate.predicted_constant == pytest.approx(np.ptp(tokens, axis=0).prod() / (4 * np.pi), rel=0.03)
    # Attention pulls tokens together here, and their measures with them.
    assert (found.distance[1] < found.distance[0]).all()
    table = str(found)
    assert table.count("\n") == 8
    assert "W_2 to 5000 tokens, mean of 6 runs" in table


def test_fits_are_those_of_exact_laws() -> None:
    """Distances that follow a law without noise give it back, and brackets are part of the error."""
    n = np.array([32, 64, 128, 256])
    W = np.sqrt((0.3 * np.log(n) + 0.2) / n)[None, :, None] * np.ones((1, 4, 2))
    found = af.measure.MeanFieldDistances(np.array([0.0]), n, W, W, af.tokens.grid(9, 2)[None], 2)
    (rate,) = found.rates()
    assert rate.constant == pytest.approx(0.3, rel=1e-12)
    assert rate.constant_error == pytest.approx(0.0, abs=1e-12)
    assert rate.exponent == pytest.approx(np.polyfit(np.log(n), np.log(W[0, :, 0]), 1)[0], rel=1e-12)
    assert rate.predicted == pytest.approx(np.polyfit(np.log(n), np.log(np.log(n) / n) / 2, 1)[0], rel=1e-12)
    assert rate.predicted_constant == pytest.approx(4 / (4 * np.pi))
    offset = (n * W[0, :, 0] ** 2 - np.log(n) / np.pi).mean()
    assert rate.offset == pytest.approx(offset, rel=1e-12)
    with_offset = np.sqrt((np.log(n) / np.pi + offset) / n)
    assert rate.corrected == pytest.approx(np.polyfit(np.log(n), np.log(with_offset), 1)[0], rel=1e-12)
    wide = replace(found, low=W * 0.9, high=W * 1.1)
    x = np.log(n) - np.log(n).mean()
    assert wide.rates()[0].error == pytest.approx(0.1 * np.abs(x).sum() / (x @ x), rel=1e-9)
    assert rate.reference_error == pytest.approx(W[0, -1, 0] * np.sqrt(np.log(81) / 81 / (np.log(256) / 256)))


def test_noise_is_part_of_the_error_as_often_as_it_says() -> None:
    n, rng = np.array([32, 128, 512]), np.random.default_rng(0)
    held = 0
    for _ in range(200):
        W = n[None, :, None] ** -0.5 * np.exp(0.1 * rng.standard_normal((1, 3, 6)))
        (rate,) = af.measure.MeanFieldDistances(np.array([0.0]), n, W, W, np.zeros((1, 600, 1)), 1).rates()
        held += abs(rate.exponent + 0.5) <= rate.error
    assert 180 <= held <= 199


def test_on_a_sphere_the_dimension_is_one_less() -> None:
    circle = partial(af.tokens.sphere, d=2)
    found = mean_field(circle, af.Softmax(), af.SphereFlow(rtol=1e-6), [0.2], sizes=[8, 16], reference=500, runs=2)
    assert found.dimension == 1
    assert found.rates()[0].predicted == pytest.approx(-0.5)
    np.testing.assert_allclose(np.linalg.norm(found.reference, axis=2), 1.0)


def test_predicted_rates() -> None:
    np.testing.assert_allclose(sampling_rate([64.0], d=3), 0.25)
    np.testing.assert_allclose(sampling_rate([64.0], d=6), 0.5)
    np.testing.assert_allclose(sampling_rate(64, d=6, gap=True), 0.5)
    np.testing.assert_allclose(sampling_rate(10**6, d=2), np.sqrt(6 * np.log(10) / 1e6))
    np.testing.assert_allclose(sampling_rate(16, d=2, gap=True), 0.5)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"times": []}, "expected increasing times"),
        ({"times": [1, 0]}, "expected increasing times"),
        ({"times": [-1, 0]}, "the first 0 or more"),
        ({"times": [0.5], "motion": af.Layers(gamma=0.1)}, "moves in steps"),
        ({"sizes": [8]}, "expected two or more, increasing"),
        ({"sizes": [16, 8]}, "expected two or more, increasing"),
        ({"sizes": 8}, "expected increasing numbers of tokens"),
        ({"sizes": [1, 8]}, "a size is 1"),
        ({"reference": 10}, "expected at least as many as the largest size 16"),
        ({"runs": 1}, "runs is 1"),
        ({"sizes": [8, 10**5], "reference": 10**5, "sampler": SQUARE, "times": [0]}, "exact up to 4096 tokens"),
        ({"motion": af.Jumps(gamma=0.1)}, "the mean-field limit needs Layers or a flow"),
        ({"sampler": [[1.0]]}, "sampler is no function"),
        ({"sampler": lambda n, seed: np.ones((3, 1))}, r"shape \(3, 1\), expected \(100, d\)"),
        ({"sampler": lambda n, seed: np.ones((n, 1 + n % 3))}, r"expected \(8, 2\)"),
        ({"motion": af.Flow(rtol=1e-6), "times": [1000.0]}, "did not get to t = 1000"),
    ],
)
def test_refusals(changed: dict[str, Any], said: str) -> None:
    given = {"sampler": LINE, "law": af.Softmax(), "motion": FLOW, "times": [0, 1], "sizes": [8, 16], "reference": 100}
    with refused(said):
        mean_field(**{**given, **changed})
    with refused("two or more samples"):
        sampling_rate([1, 2], 2)


def test_clouds_that_have_collapsed_or_lie_on_a_line() -> None:
    square = partial(af.tokens.uniform, d=2)

    def flat(n: int, seed: int) -> Any:
        return square(n=n, seed=seed) * [1.0, 0.0]

    small: dict[str, Any] = {"runs": 2, "reference": 64, "sizes": [8, 16]}
    (rate,) = af.measure.mean_field(flat, af.Softmax(), af.Layers(gamma=0.1), [1], **small).rates()
    assert rate.constant is None

    def point(n: int, seed: int) -> Any:
        return np.ones((n, 2))

    met = af.measure.mean_field(point, af.Softmax(), af.Layers(gamma=0.1), [0], **small)
    assert "0.00000" in str(met)
    with refused("at one point"):
        met.rates()
    with refused("give a function of n and seed"):
        af.measure.mean_field(lambda k: np.zeros((k, 2)), af.Softmax(), af.Flow(), [0], **small)
    with refused("law is 'softmax'"):
        af.measure.mean_field(square, "softmax", "flow", [0], **small)  # type: ignore[arg-type]
