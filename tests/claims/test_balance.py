"""Gains along a flow against integrals of rates: the quadrature and its error, on runs that are known."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attnflow.claims.balance import Balance, doubling
from attnflow.motions import Stretch
from attnflow.runs.watch import Start

Array = NDArray[np.float64]


def followed(F: Any, rate: Any, steps: Array, ends: Array, local: float = 0.0) -> Balance:
    """Return the balance of F along x(t) = t, which an integrator follows in such steps."""

    def seen(x: Array) -> tuple[Array, Array, Array]:
        t = x[:, 0, 0]
        return F(t), rate(t), np.ones(len(t))

    balance = Balance(seen, ends, local)
    at = np.array([[0.0]])
    balance.begin(Start(0.0, at, float(steps[-1]), False, at))
    for a, b in pairwise(steps):
        balance.see(Stretch((a, np.array([[a]])), np.array([b]), np.array([[[b]]]), lambda t: np.array([[t]])))
    return balance


STEPS, ENDS = np.array([0.0, 0.1, 0.7, 3.0, 10.0]), np.array([0.0, 0.5, 5.0, 10.0])


@pytest.mark.parametrize("width", [1.0, 1e-2, 1e-4])
def test_a_sharp_rise_is_found_and_integrated(width: float) -> None:
    def F(t: Array) -> Array:
        return np.arctan((t - 2.0) / width)

    def rate(t: Array) -> Array:
        return np.asarray(1 / width / (1 + ((t - 2.0) / width) ** 2))

    found = followed(F, rate, STEPS, ENDS)
    np.testing.assert_allclose(found.gain, np.diff(F(ENDS)), rtol=1e-12)
    off = np.abs(found.integral - np.diff(F(ENDS)))
    assert (off <= found.doubt + 1e-14).all()
    assert found.doubt.max() < 1e-8
    assert (found.lowest >= 0).all()
    assert all(margins.held.all() for margins in found.margins("", 1e-14))


def test_a_rate_that_is_wrong_by_a_millionth_is_seen_where_it_is() -> None:
    found = followed(np.sin, lambda t: np.cos(t) * (1 + 1e-6 * (t > 5.0)), STEPS, ENDS)
    equality, known = found.margins("", 1e-14)
    assert equality.failed.tolist() == [False, False, True]
    assert known.held.all()


def test_a_jump_that_the_rate_does_not_have_is_seen() -> None:
    found = followed(lambda t: t + 1e-7 * (t > 1.0), np.ones_like, STEPS, ENDS)
    assert found.margins("", 1e-14)[0].failed.tolist() == [False, True, False]


def test_a_fall_inside_a_step_is_seen() -> None:
    found = followed(lambda t: (t - 4.0) ** 2, lambda t: 2 * (t - 4.0), np.array([0.0, 10.0]), ENDS)
    assert (found.lowest < 0).tolist() == [True, True, False]


def test_what_is_not_known_decides_nothing() -> None:
    found = followed(np.sin, np.cos, STEPS, ENDS, local=1.0)
    equality, known = found.margins("", 0.0)
    assert not equality.failed.any()
    assert not known.held.any()
    assert not known.failed.any()


@pytest.mark.parametrize("centre", [0.3, 1.7, 2.1234567, 8.0])
@pytest.mark.parametrize("width", [0.3, 0.1, 0.05])
def test_the_error_of_the_quadrature_is_in_the_margin(
    centre: float, width: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two halvings at most a sharp rise is not resolved, and the margin says how far it is not."""
    monkeypatch.setattr(sys.modules[Balance.__module__], "HALVINGS", 2)
    found = followed(
        lambda t: np.arctan((t - centre) / width),
        lambda t: 1 / width / (1 + ((t - centre) / width) ** 2),
        STEPS,
        ENDS,
    )
    off = np.abs(found.integral - found.gain)
    assert off.max() > 1e-12
    assert (off <= found.doubt + 1e-14).all()
    assert not found.margins("", 1e-14)[0].failed.any()


def test_a_rate_that_jumps_is_known_up_to_the_last_halving() -> None:
    found = followed(lambda t: np.abs(t - 2.1234567), lambda t: np.sign(t - 2.1234567), STEPS, ENDS)
    assert (np.abs(found.integral - found.gain) <= found.doubt + 1e-14).all()
    assert 1e-9 < found.doubt.max() < 1e-5


def test_steps_shorter_than_the_rounding_of_time() -> None:
    balance = Balance(lambda x: (x[:, 0, 0], np.ones(len(x)), np.ones(len(x))), np.array([0.0, 1e20]), 0.0)
    start = np.array([[0.0]])
    balance.begin(Start(0.0, start, 1e20, False, start))
    balance.see(Stretch((1e20, start), np.array([1e20]), np.array([[[1.0]]]), lambda t: start))
    assert balance.gain.tolist() == [1.0]
    assert not balance.margins("", 0.0)[0].failed.any()


def test_intervals_double() -> None:
    assert doubling(8.0, 100.0).tolist() == [0.0, 4.0, 8.0]
