"""Certified checks of proved claims: none is contradicted, and a wrong claim is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from larger import larger

from attnflow.claims.check import decide, sampled
from attnflow.claims.claim import get
from attnflow.enclosures.numbers import ball
from tools import certified_checks
from tools.certified_checks import checked, in_balls, main, run, shares, unchecked
from tools.certified_draws import NotDecided
from tools.checks_in_balls import CHECKS

QUICK = ["hardmax/norms", "fw/own-cell/repaired", "fw/voronoi", "fw/collapse", "mean-field/kmax"]


def test_quick_checks_hold() -> None:
    tallies = list(run(20, 0, QUICK))
    assert sum(one.holds for one in tallies) == 20
    assert not any(one.contradictions for one in tallies)


@larger
def test_some_dozens_of_all_claims_hold() -> None:
    tallies = list(run(60, 3))
    assert len(tallies) == len(checked())
    assert all(one.drawn for one in tallies)
    assert sum(one.holds for one in tallies) >= 60
    assert not any(one.contradictions for one in tallies)


def test_checks_are_those_of_a_seed() -> None:
    first, again, other = (list(run(6, seed, ["fw/collapse"])) for seed in (0, 0, 1))
    assert [one.data for one in first] == [one.data for one in again]
    draws = [list(CHECKS["fw/collapse"][1](np.random.default_rng([seed]), 0)) for seed in (0, 1)]
    assert not draws[0][0].overlaps(draws[1][0])
    assert other[0].holds == 6


def test_a_wrong_claim_is_contradicted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def wrong(rng: Any, k: int) -> Iterator[Any]:
        return (-one for one in CHECKS["fw/collapse"][1](rng, k))

    monkeypatch.setattr(certified_checks, "CHECKS", {**CHECKS, "fw/collapse": ("the opposite", wrong)})
    assert main(3, 0, None, ["fw/collapse"]) == 1
    assert "3 contradictions" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "outcome"),
    [([0, 1], "holds"), ([1, ball(-1)], "violated"), ([1, "wide"], "undecided"), ([], "undecided")],
)
def test_signs_decide(values: list[Any], outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from flint import arb

    found = [arb(0, 1) if one == "wide" else one for one in values]
    monkeypatch.setattr(certified_checks, "CHECKS", {"fw/collapse": ("", lambda rng, k: iter(found))})
    assert in_balls(get("fw/collapse"), 0, 0)[0] == outcome


def test_a_check_that_proves_nothing_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(rng: Any, k: int) -> Iterator[Any]:
        raise NotDecided("no step can be enclosed")

    monkeypatch.setattr(certified_checks, "CHECKS", {"fw/collapse": ("", refuses)})
    assert in_balls(get("fw/collapse"), 0, 0) == ("undecided", "no step can be enclosed")


def test_floats_are_not_counted() -> None:
    """A step that is no fraction is checked in floats alone."""
    claim = get("fw/straight-lines")
    k = next(k for k in range(32) if decide(claim, sampled(claim, 0, k)).certified == "float")
    assert certified_checks.in_fractions(claim, 0, k)[0] == "undecided"


def test_every_check_belongs_to_a_proved_claim() -> None:
    assert {*CHECKS} <= {*checked()}
    assert not {*checked()} & {*unchecked()}
    assert sum(shares([*checked()], 10_000).values()) == 10_000
