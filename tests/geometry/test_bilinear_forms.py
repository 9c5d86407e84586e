"""Forms: which sizes of scores are refused, and what is rounding in them."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refused

from attnflow.geometry.forms import EPS, asymmetry, in_range, positive_definite, positive_semidefinite, score_rounding


@pytest.mark.parametrize(
    ("log_form", "log_size", "allowed"),
    [
        (0, 0, True),
        (0, 135, True),
        (0, 145, False),  # scores of 1e290
        (0, -135, True),
        (0, -145, False),
        (100, -100, True),  # scores of 1e-100
        (-100, 100, True),
        (100, 100, False),  # scores of 1e300
        (-100, -100, False),
        (119, 0, True),
        (121, -60, False),  # scores of 10, but the form itself is too large
        (-121, 60, False),
    ],
)
def test_scores_that_leave_float64_are_refused(log_form: int, log_size: int, allowed: bool) -> None:
    """Scores are of size |B| |x|^2."""
    B, x = 10.0**log_form * np.eye(2), 10.0**log_size * np.ones((3, 2))
    if allowed:
        in_range(B, x)
    else:
        with refused("leave float64"):
            in_range(B, x)
    in_range(0 * B, x)
    in_range(B, 0 * x)


def test_the_unit_of_a_form_is_of_no_consequence() -> None:
    """What a form is does not change with its unit, and its asymmetry is a part of its largest entry."""
    skew = np.array([[0.0, 1.0], [-1.0, 0.0]])
    for scale in (2.0**-60, 1.0, 2.0**60):
        assert asymmetry(scale * (np.eye(2) + 0.25 * skew)) == 0.5
        assert positive_semidefinite(scale * np.diag([1.0, 0.0]))
        assert positive_semidefinite(scale * np.diag([1.0, -(2.0**-52)]))
        assert not positive_semidefinite(scale * np.diag([1.0, -1e-9]))
        assert not positive_definite(scale * np.diag([1.0, 2.0**-52]))
        assert positive_definite(scale * np.diag([1.0, 1e-9]))
        assert not positive_definite(scale * np.diag([1.0, -1e-9]))
    assert asymmetry(np.zeros((2, 2))) == 0.0


def test_rounding_of_scores_is_that_of_their_terms() -> None:
    """8 (d + 2) eps | |B| |x| | max |y|: terms that cancel in B x count in full."""
    B = np.array([[2.0, -2.0], [0.0, 0.0]])
    x, y = np.array([[1.0, 1.0], [3.0, 0.0]]), np.array([[3.0, 4.0], [1.0, 0.0]])
    np.testing.assert_allclose(score_rounding(B, x, y), 8 * 4 * EPS * np.array([4.0, 6.0]) * 5.0)
