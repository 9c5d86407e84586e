"""Sums over triples on the circle: the proof of sphere/collapse/gap, in parts, and against plain sums."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from larger import larger

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.enclosures import triples
from attnflow.enclosures.numbers import arithmetic, ball
from attnflow.enclosures.triples import TIGHT, TIGHT_ARCS, Triples, Unproved, ratio
from tools.checker import triples as checker

STORED = af.claims.stored("sphere/collapse/gap")
CERTIFICATE = Triples.read(STORED.proof)
# The checker has no types.
CHECKED_TERMS: Any = checker.terms


def plain_sum(angles: Array, b: float, w: float, c: float) -> float:
    """Return S of three angles by its definition."""
    total = 0.0
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1), (1, 0, 2), (2, 1, 0), (0, 2, 1)):
        x, y = angles[i] - angles[k], angles[j] - angles[k]
        d = x - y
        h = np.exp(-b * np.cos(d)) * (np.cos(d) + b * np.sin(d) ** 2)
        g = np.exp(-b * np.cos(d)) * np.sin(d)
        total += h * (w * (np.cos(x) - np.cos(y)) ** 2 + (np.sin(x) - np.sin(y)) ** 2)
        total -= c * g * (np.sin(x) + np.sin(2 * x) - np.sin(y) - np.sin(2 * y))
    return total


def by_pairs(angles: Array, b: float, w: float, c: float) -> float:
    """Return S by the formula of the proof."""
    total = 0.0
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        d, m = angles[i] - angles[j], (angles[i] + angles[j]) / 2 - angles[k]
        cosine = np.cos(d / 2)
        total += 8 * (1 - cosine**2) * np.exp(-b * np.cos(d)) * ratio(cosine, np.cos(m), b, w, c)
    return total


def test_the_formula_of_the_proof_is_the_sum() -> None:
    rng = np.random.default_rng(0)
    for angles, b in zip(rng.uniform(-4, 4, (50, 3)), rng.uniform(0, 1, 50), strict=True):
        assert by_pairs(angles, b, 1 / 6, 5 / 4) == pytest.approx(plain_sum(angles, b, 1 / 6, 5 / 4), abs=1e-12)
        halves = angles[1] - angles[0], angles[2] - angles[1]
        with arithmetic(triples.BITS):
            balls = [ball(float(one)) for one in (halves[0] / 2, halves[1] / 2, b)]
            plain = plain_sum(angles, b, 1 / 6, 5 / 4)
            assert 8 * float(CERTIFICATE._sum(*balls)) == pytest.approx(plain, abs=1e-12)
            checked = CHECKED_TERMS(*balls, CERTIFICATE.cosines, CERTIFICATE.pull)
            assert 8 * float(sum(weight * r for weight, r in checked)) == pytest.approx(plain, abs=1e-12)


def test_unstable_directions_of_stationary_states() -> None:
    """At polygons with equal masses the second derivatives, summed as in the proof, have the sign of the sum of S."""
    b, w = 0.5, 1 / 6
    for corners in (2, 3, 4, 5, 7):
        t = 2 * np.pi * np.arange(corners) / corners
        d = t[:, None] - t
        h = np.exp(-b * np.cos(d)) * (np.cos(d) + b * np.sin(d) ** 2)
        left = 0.0
        for z in t:
            x, y = np.cos(t - z), np.sin(t - z)
            left += (h * (w * np.subtract.outer(x, x) ** 2 + np.subtract.outer(y, y) ** 2)).sum()
        right = sum(plain_sum(np.array([x, y, z]), b, w, 5 / 4) for x in t for y in t for z in t) / 6
        assert left == pytest.approx(right, abs=1e-9)
        assert left < 0


def test_the_sum_vanishes_at_two_triples_for_beta_minus_two_thirds() -> None:
    assert all(CERTIFICATE.vanishes(*arcs) for arcs in TIGHT_ARCS)
    assert not replace(CERTIFICATE, pull=Fraction(4, 3)).vanishes(*TIGHT_ARCS[0])
    assert not replace(CERTIFICATE, cosines=Fraction(1, 5)).vanishes(*TIGHT_ARCS[0])


def test_the_sum_does_not_vanish_for_another_beta(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triples, "TIGHT", Fraction(3, 4))
    assert not any(CERTIFICATE.vanishes(*arcs) for arcs in TIGHT_ARCS)


def test_parts_of_the_proof() -> None:
    assert CERTIFICATE.negative(Fraction(4, 25), Fraction(1, 4)) < 7000
    near = replace(CERTIFICATE, near=Fraction(1, 400))
    for arcs in TIGHT_ARCS:
        assert near.bends_down(*arcs) < 1000
        assert near.rises(*arcs) < 200


def test_where_it_is_false_nothing_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below -2/3 the triangle attracts; and with another pull S is not negative."""
    monkeypatch.setattr(triples, "MOST_BOXES", 1500)
    with pytest.raises(Unproved, match="not enough"):
        CERTIFICATE.negative(Fraction(7, 10), Fraction(3, 4))
    with pytest.raises(Unproved, match="not enough"):
        replace(CERTIFICATE, pull=Fraction(1, 4)).negative(Fraction(1, 5), Fraction(1, 4))
    with pytest.raises(Unproved, match="not 0"):
        replace(CERTIFICATE, pull=Fraction(4, 3), near_from=Fraction(1, 2)).prove(Fraction(1, 2), Fraction(51, 100))


@larger
def test_the_proof() -> None:
    high, low = (-Fraction(one) for one in STORED.given["beta"])
    assert low == 0
    assert high == TIGHT
    assert CERTIFICATE.prove(low, high) > 100_000
    assert af.claims.get(STORED.claim).status == "derived"


def test_the_sum_vanishes_at_the_tight_arcs_with_the_right_weights_alone() -> None:
    found = triples.Triples(Fraction(1, 6), Fraction(5, 4))
    assert all(found.vanishes(*arcs) for arcs in triples.TIGHT_ARCS)
    for cosines, pull in ((Fraction(1, 5), Fraction(5, 4)), (Fraction(1, 6), Fraction(4, 3))):
        assert not triples.Triples(cosines, pull).vanishes(*triples.TIGHT_ARCS[0])
