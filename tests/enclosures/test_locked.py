"""Limits that are proved: tokens locked to their leaders end where closed forms and long runs say."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.enclosures import Locked, Mirrors, enclose, locked
from attnflow.enclosures.numbers import arithmetic, balls, floats


def proved(x: Any, rates: Any, mirrors: Mirrors | None = None, until: float = 4.0) -> tuple[float, Locked]:
    """Return the time at which tokens are locked, and what is then known of them."""
    form, exact = np.eye(len(rates)), [Fraction(float(v)) for v in rates]

    def enough(state: Any) -> bool:
        return locked(state, balls(form), exact, mirrors) is not None

    flow: dict[str, Any] = {"law": af.Softmax(B=form), "motion": af.Flow(V=np.diag(rates)), "until": until}
    found = enclose(x, **flow, tolerance=1e-18, order=28, enough=enough, mirrors=mirrors)
    with arithmetic(128):
        limit = locked(found.final, balls(form), exact, mirrors)
    assert limit is not None
    return float(found.times[-1]), limit


def sets(found: Locked) -> list[set[int] | None]:
    return [None if one is None else set(one) for one in found.leaders]


def test_the_pair_tends_to_its_constant() -> None:
    """From (1, 1) and (1, -1) the second coordinates of e^{-t} x tend to +-c(1) = .9483, the first ones rest at 1."""
    T, found = proved([[1.0, 1.0], [1.0, -1.0]], [1.0, 1.0])
    assert sets(found) == [{0}, {1}]
    limit = np.exp(-T) * floats(found.limits)
    radius = np.exp(-T) * max(float(one.rad()) for one in found.limits.ravel())
    assert radius < 1e-4
    assert np.abs(limit - [[1, 0.9483], [1, -0.9483]]).max() < radius + 5e-5


@pytest.mark.parametrize("seed", range(3))
def test_limits_hold_long_runs(seed: int) -> None:
    """Followers and leaders, V not a multiple of the identity: a long run ends in the balls."""
    rng = np.random.default_rng([7, seed])
    x, rates = 2 * rng.standard_normal((4, 2)), [1.0, float(rng.choice([1.0, 0.75, 0.0]))]
    T, found = proved(x, rates)
    # In z = e^{-tV} x the limits are e^{-TV} of those in the frame at T.
    end = af.simulate(x, af.Softmax(), af.RescaledFlow(V=np.diag(rates), rtol=1e-11), until=16.0).final
    left = np.exp(-16 * np.array(rates)) * 50 * (np.array(rates) > 0) + 1e-7
    for value, one in zip(end, found.limits, strict=True):
        for k, rate in enumerate(rates):
            scale = np.exp(-T * rate)
            assert abs(value[k] - scale * float(one[k].mid())) <= scale * float(one[k].rad()) + left[k]


FLIP = Mirrors(np.array([[1.0], [-1.0]]), np.array([[0, 1, 2], [2, 1, 0]]))


def test_a_token_between_two_leaders_tends_to_their_mean() -> None:
    """The third token is on the mirror of the other two, and nearer to 0 than these."""
    mirror = Mirrors(np.array([[1.0, 1.0], [-1.0, 1.0]]), np.array([[0, 1, 2], [1, 0, 2]]))
    T, found = proved([[2.0, 2.0], [-2.0, 2.0], [0.0, 1.0]], [1.0, 1.0], mirror)
    assert sets(found) == [{0}, {1}, {0, 1}]
    limit = np.exp(-T) * floats(found.limits)
    assert limit[2] == pytest.approx(limit[:2].mean(axis=0), abs=1e-6)
    assert found.limits[2, 0].is_zero()


def test_mirrors_that_do_not_fit_are_refused() -> None:
    for x, B in (([[1.0], [0.5], [-1.0]], None), ([[1.0], [0.0], [-1.5]], None)):
        with refused("the mirrors do not map tokens"):
            enclose(x, af.Softmax(B=B), af.Flow(), 1.0, mirrors=FLIP)


def test_a_token_at_the_centre_hears_all() -> None:
    _, found = proved([[-1.0], [0.0], [1.0]], [1.0], FLIP, until=2.0)
    assert sets(found) == [{0}, None, {2}]
    assert found.limits[1, 0].is_zero()


def test_what_is_not_locked_is_not_proved() -> None:
    """Gaps that are too small; a tie; and a leader that follows another token."""
    one = [Fraction(1)]
    with arithmetic(128):
        assert locked(balls([[0.5], [-0.5]]), balls([[1.0]]), one) is None
        assert locked(balls([[5.0], [5.0]]), balls([[1.0]]), one) is None
        assert locked(balls([[5.0], [-5.0]]), balls([[-1.0]]), one) is None
        # The slower coordinate separates the tokens; in the faster one they agree up to an error that would win.
        x, rates = balls([[1e-9, 5.0], [-1e-9, -5.0]]), [Fraction(2), Fraction(1)]
        assert locked(x, balls([[-1.0, 0.0], [0.0, 1.0]]), rates) is None


def test_a_gap_that_grows_slower_than_tokens_move_does_not_lock() -> None:
    """Tokens differ in a coordinate of the rate 1/100 alone; tokens of the rate 1 beside it could overtake the gap."""
    x, slow = balls([[0.0, 4.0], [0.0, -4.0]]), Fraction(1, 100)
    assert locked(x, balls(np.eye(2)), [slow, slow]) is not None
    assert locked(x, balls(np.eye(2)), [Fraction(1), slow]) is None
