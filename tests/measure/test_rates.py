"""Contraction rates: the truth lies within the stated error, and no error is a boast."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from refusals import refused

import attnflow as af
from attnflow.measure import Rate, contraction_rate

Array = NDArray[np.float64]


def holds(rate: Rate, truth: float) -> bool:
    return abs(rate.value - truth) <= rate.error


@pytest.mark.parametrize(("gamma", "slope"), [(0.1, -0.105361), (0.35, -0.430783), (0.7, -1.203973)])
def test_hardmax_layers_contract_by_one_minus_gamma(gamma: float, slope: float) -> None:
    x0 = np.array([[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.9], [0.5, 0.1], [-0.3, 0.4]])
    run = af.simulate(x0, af.Hardmax(), af.Layers(gamma=gamma), until=250)
    rates = contraction_rate(run, to=x0[:3])
    assert rates[:3] == [None, None, None]
    for rate in rates[3:]:
        assert rate is not None
        assert rate.value == pytest.approx(slope, abs=2e-6)
        assert holds(rate, np.log(1 - gamma))
        assert rate.error < 1e-5
        # Distances were used as long as rounding is a millionth of them.
        assert rate.points == rate.window[1] + 1 == pytest.approx(np.log(2.3e-10) / np.log(1 - gamma), rel=0.1)


def test_the_diameter_of_a_run() -> None:
    run = af.simulate([[1.0], [0.0], [0.4]], af.Softmax(beta=0.0), af.Layers(gamma=0.2), until=60)
    rate = contraction_rate(run)
    assert holds(rate, np.log(0.8))
    assert rate.error < 1e-5


def test_a_flow_contracts_at_rate_one() -> None:
    """At beta = 0 tokens under the rescaled flow go to their mean like e^{-t}."""
    run = af.simulate(
        [[1.0], [-1.0], [0.3]], af.Softmax(beta=0.0), af.RescaledFlow(), until=12.0, record=np.linspace(0, 12, 60)
    )
    rate = contraction_rate(run)
    assert rate.value == pytest.approx(-1, abs=1e-4)
    assert holds(rate, -1)


def test_clean_exponentials_have_tiny_errors() -> None:
    t = np.linspace(3, 40, 90)
    for slope in (-0.4, -0.01, 0.2):
        rate = contraction_rate(t, 5.0 * np.exp(slope * t))
        assert holds(rate, slope)
        assert rate.error < 1e-6
    assert abs(contraction_rate(t, np.full(90, 2.0)).value) < 1e-15


def noise(rng: np.random.Generator, n: int, rho: float) -> Array:
    """Noise whose neighbours have correlation rho."""
    z = rng.standard_normal(n)
    for k in range(1, n):
        z[k] = rho * z[k - 1] + np.sqrt(1 - rho**2) * z[k]
    return z


@pytest.mark.parametrize("n", [15, 40, 200])
@pytest.mark.parametrize(("rho", "least"), [(0.0, 0.95), (0.6, 0.93), (0.9, 0.88)])
def test_the_interval_covers_the_truth_under_noise(n: int, rho: float, least: float) -> None:
    rng, t = np.random.default_rng(n), np.linspace(0, 10, n)
    runs = np.stack([np.exp(-t + 0.1 * noise(rng, n, rho)) for _ in range(300)], axis=1)
    rates = contraction_rate(t, runs)
    assert np.mean([holds(rate, -1) for rate in rates]) >= least
    # With 200 points of independent noise a third of the window knows its slope to two per cent.
    assert n < 200 or rho > 0 or np.median([rate.error for rate in rates]) < 0.05


@pytest.mark.parametrize("window", [(0, 6), (1, 5), (2, 8), (5, 12)])
@pytest.mark.parametrize("n", [15, 50, 200])
@pytest.mark.parametrize(("fast", "share"), [(1.2, 1.0), (1.5, 1.0), (2.0, 10.0), (3.0, -0.9), (5.0, 30.0)])
def test_the_interval_covers_the_slow_rate_of_two(
    window: tuple[float, float], n: int, fast: float, share: float
) -> None:
    """e^{-t} + c e^{-ft}: the rate drifts to -1, and the error says how far it may still go."""
    t = np.linspace(*window, n)
    rate = contraction_rate(t, np.exp(-t) + share * np.exp(-fast * t))
    assert holds(rate, -1)
    assert rate.error < 2


def test_a_late_window_is_sharper_than_an_early_one() -> None:
    t = np.linspace(0, 14, 300)
    d = np.exp(-t) + 3 * np.exp(-2.5 * t)
    early, late = contraction_rate(t, d, window=(0, 3)), contraction_rate(t, d, window=(6.0, 13.0))
    assert holds(early, -1)
    assert holds(late, -1)
    assert late.error < 1e-2 * early.error
    assert 6 <= late.window[0] < late.window[1] <= 13


@pytest.mark.parametrize("window", [(1, 3), (1, 10), (1, 100), (100, 200), (1000, 1100)])
@pytest.mark.parametrize("n", [12, 50, 500])
@pytest.mark.parametrize("power", [0.5, 2.0])
def test_algebraic_decay_has_no_rate(window: tuple[float, float], n: int, power: float) -> None:
    """1 / t^p slows down for ever: its limit rate 0 is in the interval."""
    t = np.linspace(*window, n)
    rate = contraction_rate(t, t**-power)
    assert rate.value < 0
    assert holds(rate, 0)


def test_rounding_is_left_out_from_its_first_appearance() -> None:
    t = np.arange(80.0)
    d = np.exp(-t) + 1e-13
    rate = contraction_rate(t, d)
    assert rate.window == (0.0, 22.0)
    assert holds(rate, -1)
    # The same distances between points near 1e3 are rounding a thousand times earlier.
    assert contraction_rate(t, d, scale=1e3).window == (0.0, 15.0)
    shifted = af.simulate([[1e3], [1e3 + 1]], af.Softmax(beta=0.0), af.Layers(gamma=0.5), until=80)
    assert contraction_rate(shifted).window[1] < 25


def test_coarser_coordinates_make_wider_errors() -> None:
    """Rounding of coordinates near 1e4 can turn a line of distances near 1 by 1e4 times as much."""
    t = np.arange(12.0)
    fine, coarse = (contraction_rate(t, np.exp(-0.1 * t), scale=scale).error for scale in (1.0, 1e4))
    assert 1e-12 < coarse - fine < 1e-10


def test_one_column_is_one_token() -> None:
    t = np.arange(30.0)
    d = np.column_stack([np.exp(-0.1 * t), np.zeros(30), np.exp(-0.3 * t)])
    found = contraction_rate(t, d)
    assert found[1] is None
    for k in (0, 2):
        assert found[k] == contraction_rate(t, d[:, k])


T = np.arange(20.0)
RUN = af.simulate([[1.0], [0.0]], af.Softmax(), af.Layers(gamma=0.5), until=20)
RESTING = af.simulate([[1.0], [1.0]], af.Softmax(), af.Layers(gamma=0.5), until=20)


@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1e200, 1e300])
def test_times_of_any_size(unit: float) -> None:
    """Rates are those of times of size one, divided by the unit; no square of a time leaves float64."""
    d = np.exp(-0.3 * T) + 0.2 * np.exp(-T) + 0.01 * np.cos(9 * T)
    usual, rate = contraction_rate(T, d), contraction_rate(T * unit, d)
    assert rate.value * unit == pytest.approx(usual.value, rel=1e-12)
    assert rate.error * unit == pytest.approx(usual.error, rel=1e-9)
    assert rate.window == (0.0, T[rate.points - 1] * unit)
    assert holds(contraction_rate(T * unit, np.exp(-0.3 * T)), -0.3 / unit)


@pytest.mark.parametrize(
    ("given", "options", "sentence"),
    [
        ((T[:5], np.exp(-T[:5])), {}, "5 distances in the window .* expected at least 12.*record more times"),
        ((T, np.zeros(20)), {}, "0 distances in the window .* nothing contracts"),
        ((T, np.zeros((20, 3))), {}, "0 distances in the window .* nothing contracts"),
        ((T, np.exp(-T)), {"window": (0, 3)}, "4 distances"),
        ((T, np.exp(-T)), {"window": 3}, "window is 3, expected two times"),
        ((T, np.exp(-T)), {"window": (0, np.nan)}, "the last time of window"),
        ((T, np.exp(-T)), {"scale": 0}, "scale is 0"),
        ((T, np.exp(-T)), {"to": [[0.0]]}, "came without a run"),
        ((T, -np.exp(-T)), {}, "negative or not finite"),
        ((T, np.exp(-T) * np.nan), {}, "negative or not finite"),
        ((T, np.exp(-T[:7])), {}, r"times have shape \(20,\) and distances \(7,\)"),
        ((T[::-1], np.exp(-T)), {}, "not finite and increasing"),
        ((T,), {}, "times came without distances"),
        (("times", "distances"), {}, "times are not an array of numbers"),
        ((T, np.exp(-T).astype(str)), {}, "distances are not an array of numbers"),
        ((T.astype(int).astype(str).tolist(), np.exp(-T)), {}, "times are not an array of numbers"),
        ((T + 0j, np.exp(-T)), {}, "times are complex"),
        ((T, np.exp(-T) + 0j), {}, "distances are complex"),
        (([*range(19), 10**400], np.exp(-T)), {}, "times are not an array of numbers"),
        ((T, [*np.exp(-T[:-1]), 10**400]), {}, "distances are not an array of numbers"),
        ((T, np.exp(-T)), {"window": (20, 5)}, r"window is reversed, from 20 to 5: give \(5, 20\)"),
        ((T, np.exp(-T)), {"window": (30, 50)}, r"window \(30, 50\) holds none of the times"),
        ((RESTING,), {}, "nothing contracts"),
        ((RESTING,), {"to": [[1.0]]}, "nothing contracts"),
        ((T * 1e-312, np.exp(-T)), {}, "multiply them by a constant"),
        ((RUN, T), {}, "distances came with a run"),
        ((RUN,), {"to": [[0.0, 1.0]]}, "limits have dimension 2"),
    ],
)
def test_bad_input_is_one_sentence(given: tuple[Any, ...], options: dict[str, Any], sentence: str) -> None:
    with refused(sentence):
        contraction_rate(*given, **options)


def test_a_fit_without_residuals_has_no_error() -> None:
    from attnflow.measure.rates import _noise

    assert _noise(np.arange(5.0), [(1.0, np.zeros(5)), (2.0, np.zeros(4))], 0) == 0.0
