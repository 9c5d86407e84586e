"""Hypotheses that several papers share, where the answer is known in closed form."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import attnflow as af
from attnflow.claims import Experiment
from attnflow.claims.exact import rational
from attnflow.claims.hypotheses import (
    depths,
    hull_rounding,
    inclusion,
    positive_definite,
    positive_semidefinite,
    score_unit,
)
from attnflow.geometry.forms import EPS


def experiment(tokens: Any, arithmetic: str = "float", B: Any = None) -> Experiment:
    form = None if B is None else np.asarray(B, dtype=float)
    instance = {"tokens": np.asarray(tokens, dtype=float), "B": form, "gamma": 0.5, "steps": 1}
    return Experiment(instance, af.Hardmax(B=form), af.Layers(gamma=0.5), arithmetic)


def test_depths_are_known_up_to_the_rounding_of_the_coordinates() -> None:
    """Tokens 999 and 1001 are known up to 1001 eps, in parts of their distance 1 from the mean; d terms are added."""
    first = hull_rounding(experiment([[1001.0], [999.0]]))[0]
    assert first == pytest.approx(1024 * 1001 * EPS)
    assert hull_rounding(experiment([[1001.0, 0.0], [999.0, 0.0]]))[0] == pytest.approx(2 * first)
    for scale in (2.0**-40, 2.0**40):  # depths over the size have no unit
        assert hull_rounding(experiment([[1001.0 * scale], [999.0 * scale]]))[0] == first


def test_units_where_all_is_zero() -> None:
    """Sizes that would be 0 are 1, so that margins in their parts are numbers."""
    zero = experiment([[0.0, 0.0], [0.0, 0.0]])
    assert (zero.scale, score_unit(zero)) == (1, 2)
    assert score_unit(experiment([[1.0, 0.0], [0.0, 3.0]], B=[[0.0, 0.0], [0.0, 0.0]])) == 1
    assert score_unit(experiment([[1.0, 0.0], [0.0, 3.0]], B=[[0.5, 0.0], [0.0, -4.0]])) == 4 * 9 * 2


@pytest.mark.parametrize(
    ("gamma", "step", "margin"),
    [("3 / 2 - t", 0, -0.5), ("1 - t / 2", 2, 0.0), ("1 / 2 + t / 4", 3, -0.25), ("1 / (t + 1)", None, 0.25)],
)
def test_steps_up_to_one(gamma: str, step: int | None, margin: float) -> None:
    """A step of 1 is allowed, one of 0 is not, and beyond 1 the margin is 1 - gamma."""
    verdict = af.check("fw/hull-shrinks/repaired", tokens=[[1.0], [-0.5], [0.25]], gamma=gamma, steps=4)
    if step is None:
        assert verdict.outcome == "holds"
    else:
        assert (verdict.outcome, verdict.where, verdict.margin) == ("hypotheses not met", (step, None), margin)


def test_the_sign_of_a_depth_is_exact_in_fractions() -> None:
    """Points that are 10^-25 beyond a side or 10^-25 inside it, where depths in floats are rounding of either sign."""
    corners = [(0, 0), (7, 1), (3, 6)]
    old = rational(corners)
    on, beyond, within = [], [], []
    for (a, b), (c, d) in zip(corners, corners[1:] + corners[:1], strict=True):
        outward = (Fraction(d - b, 10**25), Fraction(a - c, 10**25))
        for k in range(1, 12):
            foot = (a + Fraction(k * (c - a), 12), b + Fraction(k * (d - b), 12))
            on.append(foot)
            beyond.append((foot[0] + outward[0], foot[1] + outward[1]))
            within.append((foot[0] - outward[0], foot[1] - outward[1]))
    e = experiment(corners, "exact")
    assert (inclusion(e, old, rational(beyond)) < 0).all()
    assert (inclusion(e, old, rational(on)) >= 0).all()
    assert (inclusion(e, old, rational(within)) >= 0).all()
    assert (inclusion(e, old, old) >= 0).all()
    assert (depths(old.astype(float), rational(beyond).astype(float)) > 0).any()  # floats see some of them inside


@pytest.mark.parametrize("arithmetic", ["float", "exact"])
@pytest.mark.parametrize(
    ("B", "margin"),
    [
        ([[1.0, 0.0], [0.0, 0.25]], 0.25),
        ([[8.0, 0.0], [0.0, 2.0]], 0.25),
        ([[5.0, 3.0], [3.0, 5.0]], 0.4),
        ([[1.0, 0.0], [0.0, 0.0]], 0.0),
        ([[4.0, 0.0], [0.0, -1.0]], -0.25),
        ([[0.0, 1.0], [1.0, 0.0]], -1.0),
    ],
)
def test_margins_of_forms_are_least_eigenvalues_in_parts_of_the_largest_entry(
    B: Any, margin: float, arithmetic: str
) -> None:
    e = experiment([[1.0, 0.0], [0.0, 1.0]], arithmetic, B)
    weak, strong = positive_semidefinite(e), positive_definite(e)
    assert [float(found.values[0]) for found in (weak, strong)] == pytest.approx([margin] * 2, abs=1e-15)
    assert (weak.held[0], weak.failed[0]) == (margin >= 0, margin < 0)
    assert strong.held[0] == (margin > 0)
    assert strong.failed[0] == (margin < 0 or (margin == 0 and arithmetic == "exact"))
