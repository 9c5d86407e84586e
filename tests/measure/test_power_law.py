"""Algebraic decay, on series whose law is known, and the flow with V = -I."""

from __future__ import annotations

import numpy as np
import pytest
from larger import larger
from refusals import refused

import attnflow as af

T = np.geomspace(1, 1e4, 81)


@pytest.mark.parametrize(("C", "p", "k"), [(3.0, -1.0, 1.0), (0.02, -0.5, 0.5), (7.0, -2.0, 0.3), (1.0, 0.5, 0.7)])
def test_a_power_with_a_correction(C: float, p: float, k: float) -> None:
    law = af.measure.power_law(T, C * T**p * (1 + 0.4 * T**-k), power=p)
    assert abs(law.exponent - p) <= law.error
    assert abs(law.constant - C) <= law.constant_error <= 0.2 * C
    assert abs(law.constant - C) < 1e-3 * C  # Aitken's formula removes what is like t^{-k}
    free = af.measure.power_law(T, C * T**p * (1 + 0.4 * T**-k))
    assert abs(free.constant - C) <= free.constant_error


def test_noise_is_part_of_the_error() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        law = af.measure.power_law(T, 2 / T * np.exp(1e-3 * rng.standard_normal(len(T))), power=-1)
        assert abs(law.constant - 2) <= law.constant_error < 0.1
        assert abs(law.exponent + 1) <= law.error < 0.1


def test_the_wrong_power_has_no_constant() -> None:
    law = af.measure.power_law(T, 2 / T, power=-0.9)
    assert law.constant_error > 0.2 * law.constant
    assert abs(law.exponent + 1) < 1e-9


def test_a_correction_that_aitken_cannot_see_is_in_the_error() -> None:
    """log(t)/t is not like a power, and the error must hold what it does to the constant."""
    law = af.measure.power_law(T, 2 / T * (1 + 5 * np.log(T) / T), power=-1)
    assert abs(law.constant - 2) <= law.constant_error
    slow = af.measure.power_law(T, 2 / T * (1 + 1 / np.log(T + 2)), power=-1)
    assert slow.constant_error > 0.02


def test_exponential_decay_is_no_power() -> None:
    law = af.measure.power_law(np.geomspace(1, 100, 81), np.exp(-np.geomspace(1, 100, 81)))
    assert law.error > 10


@pytest.mark.parametrize(
    ("n", "d", "limit"),
    [(5, 3, 1.5), (3, 4, 1.0), *(pytest.param(*case, marks=larger) for case in ((12, 2, 1.0), (6, 1, 0.5)))],
)
def test_negative_identity_decays_like_one_over_the_square_root(n: int, d: int, limit: float) -> None:
    """T mean|x|^2 -> r/2, r = min(d, n - 1) the dimension of the affine hull, seen from t = 1 to 10^4."""
    x0, record = af.tokens.gaussian(n=n, d=d, seed=0), af.watch.Geometric()
    run = af.simulate(x0, af.Softmax(), af.Flow(V=-np.eye(d)), until=1e4, record=record)
    sizes = (run.tokens[1:] ** 2).sum(axis=2).mean(axis=1)
    law = af.measure.power_law(run.times[1:], sizes, power=-1)
    assert law.window == (1.0, 1e4)
    assert abs(law.exponent + 1) <= law.error
    assert abs(law.constant - limit) <= law.constant_error < 0.02 * limit
    # Nothing like an exponential: each decade shrinks the sizes by a tenth.
    decades = sizes[np.searchsorted(run.times[1:], [1e2, 1e3, 1e4])]
    np.testing.assert_allclose(decades[1:] / decades[:-1], 0.1, rtol=0.1)


def test_bad_series_get_a_sentence() -> None:
    with refused("leave out t = 0"):
        af.measure.power_law(np.arange(20.0), np.ones(20))
    with refused("one value per positive time"):
        af.measure.power_law(T, np.ones((81, 2)))
    with refused("holds none of the times"):
        af.measure.power_law(T, 1 / T, window=(1e5, 1e6))
    with refused("a value is 0"):
        af.measure.power_law(T, np.where(T > 100, 0.0, 1 / T))
    with refused("5 values are in the window, expected at least 12"):
        af.measure.power_law(T[:5], 1 / T[:5])
    with refused("power is 'x'"):
        af.measure.power_law(T, 1 / T, power="x")  # type: ignore[arg-type]
