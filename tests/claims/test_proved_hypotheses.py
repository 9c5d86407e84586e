"""What certified refutations assume is proved too: in fractions, or in balls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import attnflow as af
from attnflow.claims.claim import get
from attnflow.claims.experiment import Experiment
from attnflow.claims.instances import read
from attnflow.claims.margins import Margins
from attnflow.claims.proved_hypotheses import (
    all_simple,
    as_proved,
    definite,
    dominates,
    eigenvalues,
    equals_transpose,
    grows,
    leads,
    not_proved,
    origin_inside,
    semidefinite,
)
from attnflow.claims.verdict import Verdict
from tools.certificates import INSTANCES

TURNED = np.array([[0.6, -0.8], [0.8, 0.6]])


def experiment(claim: str, **instance: Any) -> Experiment:
    own = get(claim)
    given = read(own, instance)
    arithmetic = "exact" if "exact" in own.setting.arithmetics else "float"
    return Experiment(given, *own.setting.modelled(given), arithmetic)


@pytest.mark.parametrize("claim", INSTANCES)
def test_hypotheses_of_stored_refutations_are_proved(claim: str) -> None:
    assert not_proved(get(claim), experiment(claim, **INSTANCES[claim])) == []


def test_a_hypothesis_that_holds_in_floats_alone_is_told() -> None:
    """Tokens that are mirror images up to the last digit are so within rounding, but not exactly."""
    off = [[1.0, 2.0], [1.0, -np.nextafter(2.0, 3.0)]]
    verdict = af.check("emergence/polytope/pair", tokens=off)
    assert (verdict.outcome, verdict.certified) == ("violated", "float")
    assert verdict.because.endswith("was looked at in floats alone")
    assert "known in floats alone" in af.certify(verdict).because
    assert af.check("emergence/polytope/pair", tokens=[[1.0, 2.0], [1.0, -2.0]]).certified == "ball"


def test_only_certified_violations_ask_for_proofs() -> None:
    claim = get("emergence/polytope/pair")
    e = experiment(claim.id, tokens=[[1.0, 2.0], [1.0, -2.0000000000000004]])

    def kept(outcome: str, certified: str) -> str:
        return as_proved(claim, e, Verdict(outcome, -1.0, (0.0, None), certified, "so")).certified

    assert kept("violated", "float") == "float"
    assert kept("holds", "ball") == "ball"
    assert kept("violated", "ball") == "float"


def test_what_fails_after_a_violation_does_no_harm() -> None:
    """A hypothesis counts up to the step of the violation."""
    late = Margins("h", np.array([1.0, 1.0, -1.0]), np.arange(3))
    claim = replace(get("fw/own-cell"), given={"h": lambda e: late})
    e = experiment("fw/own-cell", tokens=[[1.0], [-1.0]])
    assert not_proved(claim, e, 1) == []
    assert not_proved(claim, e, 2) == ["h"]


def test_spectra_of_matrices_that_are_not_diagonal() -> None:
    V = TURNED @ np.diag([2.0, -1.0]) @ TURNED.T
    found = eigenvalues(V)
    assert found is not None
    assert sorted(round(float(one.real), 12) for one in found) == [-1.0, 2.0]
    assert all(check(V) for check in (grows, all_simple, dominates, leads))
    assert dominates(V, alone=True)
    assert not grows(-np.eye(2) - 0.1 * TURNED)
    assert not any(check(TURNED) for check in (dominates, leads))  # a pair of complex eigenvalues
    assert not dominates(TURNED @ np.diag([1.0, -1.5]) @ TURNED.T)
    assert leads(np.diag([1.0, -1.5]))
    jordan = [[1.0, 1.0], [0.0, 1.0]]
    assert not any(check(jordan) for check in (grows, all_simple, dominates, leads))


def test_spectra_at_equality() -> None:
    assert not grows(np.diag([0.0, -1.0]))
    assert grows(np.diag([0.0, -1.0]), neutral=True)
    assert not all_simple(np.diag([1.0, 1.0]))
    assert not leads(np.diag([1.0, 1.0]))
    assert not leads(np.diag([0.0, -1.0]))


@pytest.mark.parametrize(
    ("B", "strict", "weak"),
    [([[2.0, 1.0], [1.0, 2.0]], True, True), ([[1.0, 1.0], [1.0, 1.0]], False, True),
     ([[1.0, 2.0], [2.0, 1.0]], False, False), ([[2.0, 1.0], [np.nextafter(1.0, 2.0), 2.0]], False, False)],
)  # fmt: skip
def test_signs_of_forms(B: Any, strict: bool, weak: bool) -> None:
    e = experiment("emergence/polytope/rank", tokens=[[1.0, 0.0]], B=B)
    assert (definite(e), semidefinite(e)) == (strict, weak)
    assert equals_transpose(e) == (np.asarray(B) == np.asarray(B).T).all()


@pytest.mark.parametrize(
    ("x", "inside"),
    [([[-0.5], [1.5]], True), ([[0.0], [1.0]], False), ([[1.0], [2.0]], False), ([[1.0, 0.0], [-1.0, 0.0]], False),
     ([[1.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]], True), ([[1.0, 0.0], [-1.0, 1.0], [0.0, -0.0]], False)],
)  # fmt: skip
def test_the_origin_inside_a_hull(x: Any, inside: bool) -> None:
    assert origin_inside(experiment("fw/collapse-to-origin", tokens=x)) == inside


def test_a_generic_polytope_in_fractions() -> None:
    claim, square = "fw/exponential-rate", [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]
    good = experiment(claim, tokens=[*square, [0.5, 0.25]])
    tied = experiment(claim, tokens=[*square, [0.5, 0.0]])
    assert not_proved(get(claim), good) == []
    assert "generic polytope" in str(not_proved(get(claim), tied))
