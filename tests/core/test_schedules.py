"""Formulas of time that are geometric, first * ratio^t: recognised exactly, and nothing else."""

from __future__ import annotations

from fractions import Fraction

import pytest

from attnflow.core.schedules import Schedule


@pytest.mark.parametrize(
    ("text", "first", "ratio"),
    [
        ("3 / 4 ** t", 3, Fraction(1, 4)),
        ("-(2 ** t)", -1, 2),
        ("+5", 5, 1),
        ("-2 * 3 ** (1 - t)", -6, Fraction(1, 3)),
        ("(1 / 2) ** (2 * t) / 3", Fraction(1, 3), Fraction(1, 4)),
    ],
)
def test_geometric_formulas_are_known_exactly(text: str, first: Fraction, ratio: Fraction) -> None:
    found = Schedule(text).geometric()
    assert found is not None
    assert (found.first, found.ratio) == (first, ratio)
    assert float(found.first * found.ratio**3) == pytest.approx(Schedule(text)(3), rel=1e-15)


@pytest.mark.parametrize("text", ["(-2) ** t", "0 ** t", "2 ** (t / 2)", "2 ** (1 / (t + 1))", "2 ** (t * t)", "t"])
def test_other_formulas_are_not_geometric(text: str) -> None:
    assert Schedule(text).geometric() is None
