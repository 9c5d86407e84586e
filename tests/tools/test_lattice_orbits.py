"""Orbits of localmax from lattices: proofs against exact runs, ties in the limit, and a cycle where there is one."""

from __future__ import annotations

from fractions import Fraction

import pytest
from larger import larger

import attnflow as af
from attnflow.claims import exact
from tools import lattice_orbits as orbits

HALF = Fraction(1, 2)


def test_small_lattices_converge() -> None:
    assert orbits.exhaust(3, 1, 2, HALF) == ({orbits.CONVERGES: 70}, [])
    assert orbits.exhaust(3, 2, 1, Fraction(3, 4)) == ({orbits.CONVERGES: 65}, [])


@larger
def test_larger_lattices_converge() -> None:
    assert orbits.exhaust(3, 1, 4, HALF) == ({orbits.CONVERGES: 1184}, [])
    assert orbits.exhaust(4, 1, 3, HALF) == ({orbits.CONVERGES: 1091}, [])
    assert orbits.exhaust(4, 2, 1, HALF) == ({orbits.CONVERGES: 214}, [])


def test_steps_are_those_of_the_library() -> None:
    start: orbits.Tokens = ((4, 1), (-3, 2), (0, -1), (1, 1))
    delta, gamma = Fraction(5, 2), Fraction(3, 4)
    states = exact.replay(exact.rational(start), af.Localmax(delta=2.5), af.Layers(gamma=0.75), 6)
    x, unit = start, 1
    for state in states:
        assert [[Fraction(value, unit) for value in one] for one in x] == state.tolist()
        x, unit = orbits.step(x, unit, orbits.neighbours(x, unit, delta), gamma)


def test_ties_in_the_limit_are_decided_on_straight_lines() -> None:
    """Token 0 tends to -1/2, where its scores with -3 and 2 differ by exactly delta = 5/2: it hears both for ever."""
    assert orbits.follow(((-3,), (0,), (2,)), Fraction(5, 2), HALF)[0] == orbits.CONVERGES


def test_a_cycle_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a wrong step that swaps two tokens a state comes back."""
    monkeypatch.setattr(orbits, "step", lambda x, unit, rows, gamma: (x[::-1], unit))
    assert orbits.follow(((1,), (3,)), HALF, HALF)[0] == orbits.CYCLE
    ends, others = orbits.exhaust(2, 1, 1, HALF)
    assert others
    assert ends[orbits.CYCLE] == len(others)
