"""Margins: what counts as failed, held and undecided, in floats, fractions and balls."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from attnflow.claims import balls
from attnflow.claims.margins import Margins, largest, objects, once, per_token, smallest, stacked


@pytest.mark.parametrize(
    ("value", "tol", "strict", "failed", "held"),
    [
        (1.0, 0.1, False, False, True),
        (-0.005, 0.005, False, False, True),
        (-0.1, 0.1, False, False, False),  # known too little to hold because it may
        (0.1, 0.1, False, False, True),
        (-0.2, 0.1, False, True, False),
        (0.0, 0.0, False, False, True),
        (-1e-300, 0.0, False, True, False),
        (0.2, 0.1, True, False, True),
        (0.1, 0.1, True, False, False),
        (-0.1, 0.1, True, False, False),
        (-0.2, 0.1, True, True, False),
        (0.0, 0.0, True, True, False),  # without rounding 0 is not positive
        (1e-300, 0.0, True, False, True),
        (Fraction(0), 0.0, True, True, False),
        (Fraction(-1, 10**40), 0.0, False, True, False),
        (Fraction(1, 10**40), 0.0, True, False, True),
        (np.nan, 0.0, False, False, False),
    ],
)
def test_margins_are_judged(value: Any, tol: float, strict: bool, failed: bool, held: bool) -> None:
    margins = once("x > 0" if strict else "x >= 0", value, tol, strict=strict)
    assert (margins.failed.tolist(), margins.held.tolist()) == ([failed], [held])


@pytest.mark.parametrize(
    ("middle", "radius", "strict", "failed", "held"),
    [
        (1.0, 0.5, False, False, True),
        (0.0, 0.5, False, False, False),
        (-1.0, 0.5, False, True, False),
        (1.0, 0.5, True, False, True),
        (0.0, 0.5, True, False, False),
        (-1.0, 0.5, True, True, False),
        (0.0, 0.0, True, True, False),
        (0.0, 0.0, False, False, True),
    ],
)
def test_balls_are_judged(middle: float, radius: float, strict: bool, failed: bool, held: bool) -> None:
    from flint import arb

    margins = once("a ball", arb(middle, radius), 0.0, strict=strict)
    assert (margins.failed.tolist(), margins.held.tolist()) == ([failed], [held])


def test_a_bound_for_each_time() -> None:
    margins = Margins("x", np.full((2, 3), -0.1), np.arange(2), np.array([0.05, 0.2]))
    assert margins.failed.tolist() == [[True] * 3, [False] * 3]
    assert margins.before(1).failed.all()
    assert margins.before(1).values.shape == (1, 3)
    assert margins.before(0).values.size == 0
    exactly = Margins("x", np.zeros((2, 1)), np.arange(2), np.array([0.0, 0.2]), strict=True)
    assert exactly.failed.tolist() == [[True], [False]]


def test_the_first_failure_and_the_worst() -> None:
    margins = Margins("x", np.array([[1.0, 2.0], [3.0, -1.0], [-5.0, 0.0]]), np.array([0.0, 0.5, 1.0]))
    assert margins.first(margins.failed) == (0.5, 1)
    assert margins.at(margins.failed) == -1.0
    assert margins.worst == -5.0
    assert margins.before(0.5).worst == 1.0
    assert margins.before(0.0).worst == np.inf
    assert once("x", np.nan).worst == 0.0
    assert Margins("x", np.array([np.nan, 3.0]), np.arange(2)).worst == 3.0
    assert once("x", -1.0, time=3).first(np.array([True])) == (3, None)


def test_two_computations_blur_each_other() -> None:
    one, other = once("x", -0.5, 0.125), once("x", -0.25, 0.125)
    assert one.failed.all()
    assert one.blurred(other).tol == 0.625
    assert not one.blurred(other).failed.any()
    assert once("x", -0.5, 0.1).blurred(once("x", -0.5, 0.1)).failed.all()


def test_tolerances_of_tokens() -> None:
    margins = per_token("x", [-0.1, -0.1], np.array([0.2, 0.0]))
    assert margins.failed.tolist() == [[False, True]]


def test_numbers_keep_their_kind() -> None:
    assert stacked([1, 2.0]).dtype == np.float64
    assert stacked([Fraction(1, 3), Fraction(2)]).tolist() == [Fraction(1, 3), Fraction(2)]
    assert objects([Fraction(1), Fraction(2)], (2, 1)).shape == (2, 1)
    x = np.array([[1.0, 5.0], [2.0, 3.0]])
    assert (largest(x, 1).tolist(), smallest(x, 1).tolist()) == ([5.0, 3.0], [1.0, 2.0])


def test_extremes_of_balls_contain_every_choice() -> None:
    from flint import arb

    x = objects([arb(0, 1), arb(0.5, 0.25)], (2,))
    top: Any = largest(x, 0)[()]
    low: Any = smallest(x, 0)[()]
    assert top.contains(arb(0.25))
    assert top.contains(arb(1))
    assert not top.contains(arb(-0.9))
    assert low.contains(arb(-1))
    assert low.contains(arb(0.75))
    assert balls.balls([0.5]).dtype == object
