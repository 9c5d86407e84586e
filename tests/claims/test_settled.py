"""What layers do for all time to come, against long replays and polynomials by hand."""

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import attnflow as af
from attnflow.claims import exact
from attnflow.claims.experiment import Experiment
from attnflow.claims.settled import heard, limit, orbit, settled, stays_above, step_matrix, tail, unsettled
from attnflow.core.schedules import Schedule


def exactly(tokens: Any, law: Any, gamma: Any = 0.5, steps: int = 40) -> Experiment:
    instance = {"tokens": np.asarray(tokens, dtype=float), "steps": steps}
    return Experiment(instance, law, af.Layers(gamma=gamma), "exact")


def test_what_stays_above_is_above_everywhere() -> None:
    """Where c_0 + c_1 u + c_2 u^2 > delta u is said for 0 < u <= 1, it holds at 64 points of this interval."""
    said = 0
    for c0, c1, c2, delta in product(range(-1, 3), range(-5, 4), range(-3, 5), (0, 1)):
        if stays_above((c0, c1, c2), Fraction(delta)):
            said += 1
            for k in range(1, 65):
                u = Fraction(k, 64)
                assert c0 + c1 * u + c2 * u * u > delta * u, (c0, c1, c2, delta)
    assert said > 100
    # Above at both ends but not between them, and at the end equal.
    assert not stays_above((Fraction(1), Fraction(-5, 2), Fraction(153, 100)), Fraction(0))
    assert not stays_above((Fraction(0), Fraction(1), Fraction(0)), Fraction(1))
    assert stays_above((Fraction(0), Fraction(1), Fraction(1)), Fraction(1))


@pytest.mark.parametrize("seed", range(8))
def test_limits_are_those_of_high_powers(seed: int) -> None:
    """W^k for k = 2^12, by squaring, for neighbourhoods drawn at random."""
    rng = np.random.default_rng(seed)
    n = 6
    rows = [sorted({i, *rng.integers(n, size=rng.integers(0, 3)).tolist()}) for i in range(n)]
    x = rng.integers(-4, 5, (n, 2))
    W = step_matrix(rows, Fraction(1, 4))
    power = W.astype(float)
    assert power.sum(axis=1) == pytest.approx(1.0)
    for _ in range(12):
        power = power @ power
    np.testing.assert_allclose(limit(W, exact.rational(x)).astype(float), power @ x, atol=1e-12)


def test_limits_scale_with_the_tokens() -> None:
    """Scores are quadratic: a relative threshold does not see the unit, and an additive one sees its square."""
    x = np.array([[2.0, 0.0], [-1.0, 1.5], [-1.0, -1.0], [0.5, 0.25], [-0.25, 0.5]])

    def found(scale: float, steps: int) -> list[Any]:
        vanishing = Schedule("0.5 * 0.25 ** t"), Schedule(f"{0.5 * scale**2} * 0.25 ** t")
        laws = [
            *(af.Localmax(delta=delta, threshold="relative") for delta in (vanishing[0], 0.0625)),
            *(af.Localmax(delta=delta) for delta in (vanishing[1], 0.0625 * scale**2)),
        ]
        ends = [settled(exactly(scale * x, law, steps=steps)) for law in laws]
        return [None if end is None else (end.limits / Fraction(scale)).tolist() for end in ends]

    usual = [found(1.0, steps) for steps in range(1, 13)]
    assert {end is None for ends in usual for end in ends} == {True, False}
    for scale in (2.0**-6, 2.0**6):
        assert [found(scale, steps) for steps in range(1, 13)] == usual


def test_neighbours_at_the_end_are_those_of_the_law() -> None:
    """Scores 1 and 0.75 differ by more than delta, though by less than 4 delta."""
    e = exactly([[1.0], [0.75]], af.Localmax(delta=0.125), steps=1)
    assert heard(e, e.tokens, 0) == [[0], [0]]
    assert heard(e, e.tokens, 0) == heard(e.using("float"), np.array([[1.0], [0.75]]), 0)


def test_neighbourhoods_are_proved_as_soon_as_the_bound_allows() -> None:
    """Tokens of the line within a of their limits +-l: scores change by at most 2 l a + a^2, differences by twice that.

    So the proof closes at the first step with 2 (2 l a + a^2) < delta, if all tokens then hear the right ones.
    """
    tokens, law, delta = [[10.0], [-10.0], [1.0], [-1.0]], af.Localmax(delta=5.0), 5
    states = exactly(tokens, law, gamma=0.125, steps=60).states
    end = settled(exactly(tokens, law, gamma=0.125, steps=60))
    assert end is not None
    final = exact.heard(law, end.limits, 0)
    seen = set()
    for steps in range(1, 60):
        away, size = np.abs(states[steps] - end.limits).max(), np.abs(end.limits).max()
        closes = 2 * (2 * size * away + away**2) < delta and exact.heard(law, states[steps], steps) == final
        seen.add(bool(closes))
        assert (settled(exactly(tokens, law, gamma=0.125, steps=steps)) is not None) == closes, steps
    assert seen == {True, False}


@pytest.mark.parametrize("threshold", ["additive", "relative"])
@pytest.mark.parametrize("delta", ["0.5", "0.125", "0.5 * 0.25 ** t", "2 * 0.5 ** t", "0"])
@pytest.mark.parametrize("seed", range(4))
def test_proved_limits_are_where_long_runs_go(threshold: str, delta: str, seed: int) -> None:
    """Against floats, 300 layers later."""
    law: Any = af.Localmax(delta=Schedule(delta) if "t" in delta else float(delta), threshold=threshold)
    x = np.random.default_rng(seed).integers(-8, 9, (6, 2)) / 4
    end = settled(exactly(x, law, gamma=0.5, steps=12))
    if end is not None:
        late = af.simulate(x, law, af.Layers(gamma=0.5), until=300).final
        np.testing.assert_allclose(end.limits.astype(float), late, atol=1e-9)


def test_orbits_come_from_the_last_whole_period() -> None:
    """Token 1 moves in the first layer and leads from then on: only later layers know where the others end."""
    tokens = [[1, 1 / 3], [-1 / 12, 1 / 12], [-1, -1], [0, 1 / 4], [-0.3, -0.7], [0.8, 0.1]]
    end = settled(exactly(tokens, af.Hardmax(), gamma=1 / 3))
    assert end is not None
    for steps, period in ((2, 1), (3, 1), (4, 2), (5, 2), (6, 3)):
        found = orbit(exactly(tokens, af.Hardmax(), gamma=1 / 3, steps=steps), period)
        assert found is not None
        assert len(found) == period + 1
        if steps > period + 1:
            assert (found == end.limits).all()
    # Near 0 a token hears p and q, but at their mean p alone: that is no fixed point.
    near = [[1.0, 1.0], [1.0, -0.5], [0.0625, 0.0]]
    assert orbit(exactly(near, af.Localmax(delta=0.125), gamma=0.125, steps=1), period=1) is None
    early = orbit(exactly(tokens, af.Hardmax(), gamma=1 / 3, steps=1), period=1)
    assert early is not None
    assert (early[0] != end.limits).any()


def test_what_is_known_of_later_neighbourhoods_is_about_scores() -> None:
    """A radius that vanishes says nothing of scores, and softmax has no neighbourhood."""
    assert tail(af.Localmax(Schedule("3 * 0.25 ** t")), 2) == (Fraction(3, 16), Fraction(1, 4))
    assert tail(af.Localmax(Schedule("0 * 2 ** t")), 2) == tail(af.Hardmax(), 2) == (Fraction(0), Fraction(0))
    assert tail(af.Localmax(0.5), 2) is None
    assert tail(af.HegselmannKrause(eps=Schedule("0.25 ** t")), 2) is None
    assert tail(af.Softmax(), 2) is None
    assert settled(exactly([[1.0], [-1.0], [0.5]], af.HegselmannKrause(eps=Schedule("0.25 ** t")))) is None


@pytest.mark.parametrize(
    ("law", "gamma", "arithmetic", "cause"),
    [
        (af.Softmax(), 0.5, "float", "the layers of Softmax are not computed in fractions"),
        (af.Localmax(0.1, threshold="normalized"), 0.5, "float", "these layers are not computed in fractions"),
        (af.Hardmax(), 0.5, "float", "an exact replay of 3 steps of 3 tokens takes so long"),
        (af.Hardmax(), 1.0, "exact", "a constant step below 1"),
        (af.Hardmax(), Schedule("1 / (t + 2)"), "exact", "a constant step below 1"),
        (af.Localmax(Schedule("1 / (t + 1)")), 0.5, "exact", "nothing is known of delta"),
        (af.Localmax(Schedule("0.1 * 0.75 ** t")), 0.5, "exact", "delta vanishes like 0.75^t, which is slower"),
        (af.Localmax(Schedule("0.1 * 0.5 ** t")), 0.5, "exact", "after 3 steps it is not proved"),
        (af.Localmax(0.1), 0.5, "exact", "after 3 steps it is not proved"),
        (af.Hardmax(), 0.5, "exact", "after 3 steps it is not proved"),
    ],
)
def test_why_limits_are_not_known(law: Any, gamma: Any, arithmetic: str, cause: str) -> None:
    e = Experiment({"tokens": np.array([[1.0], [-1.0], [0.5]]), "steps": 3}, law, af.Layers(gamma=gamma), arithmetic)
    assert cause in unsettled(e).cause
