"""Claims of the Frank-Wolfe paper: those that are true hold on their samples, and bad input is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from frank_wolfe_instances import ALL, INSIDE, TRIANGLE
from refusals import refused

import attnflow as af
from attnflow.claims.check import on_samples


@pytest.mark.parametrize("claim", [c for c in af.claims.all() if c.id.startswith("fw/") and not c.refutable])
def test_true_claims_hold_on_their_samples(claim: af.claims.Claim) -> None:
    """On the first samples in make test, and on all in make test-all."""
    samples = claim.setting.samples if ALL else min(5, claim.setting.samples)
    verdict = on_samples(replace(claim, setting=replace(claim.setting, samples=samples)), seed=1)
    assert verdict.outcome == "holds"
    assert verdict.tried == samples


@pytest.mark.parametrize(
    "id", ["fw/duality-gap", "hardmax/norms", "localmax/norms", "emergence/polytope", "fw/own-cell"]
)
def test_a_form_that_varies_is_refused_where_the_claim_has_a_constant_one(id: str) -> None:
    with refused("constant B"):
        af.check(id, tokens=INSIDE, B=lambda t: np.eye(2) * (1.0 if t < 3 else -1.0))


def test_a_positive_definite_form_is_told_by_its_pivots() -> None:
    verdict = af.check("hardmax/norms", tokens=INSIDE, B=np.diag([1.0, 1e-17]))
    assert (verdict.outcome, verdict.certified) == ("holds", "exact")


@pytest.mark.parametrize(
    ("id", "given", "words"),
    [
        ("fw/cluster-rate", {"tokns": 3}, "fw/cluster-rate has no parameter 'tokns': it takes tokens, B, steps"),
        ("fw/cluster-rate", {"steps": 3}, "fw/cluster-rate needs tokens: give tokens, or no parameter at all"),
        ("fw/hull-shrinks", {"tokens": INSIDE, "V": None}, "fw/hull-shrinks needs V: give V, or no parameter"),
        ("fw/nothing", {}, "there is no claim 'fw/nothing': choose for example"),
        ("own-cell", {}, "there is no claim 'own-cell': choose for example fw/own-cell, "),
        (
            "fw/collapse",
            {"tokens": INSIDE, "law": 3},
            "law is 3, expected a law such as Softmax(beta=1.0), or a function",
        ),
        ("fw/collapse", {"tokens": INSIDE, "law": lambda law: None}, "law is None, expected a law"),
        (
            "fw/collapse",
            {"tokens": INSIDE, "motion": af.Softmax()},
            "Layers(gamma=0.1), or a function that returns one",
        ),
        ("fw/collapse", {"tokens": INSIDE, "gamma": 1.5}, "gamma is 1.5, expected a finite number above 0"),
        ("fw/collapse", {"tokens": INSIDE, "gamma": "2 / x"}, "gamma is '2 / x', where 'x' is not arithmetic in t"),
        ("fw/collapse", {"tokens": INSIDE, "steps": 0}, "steps is 0"),
        ("fw/collapse", {"tokens": [[np.nan]]}, "tokens"),
        ("fw/cluster-rate", {"tokens": INSIDE, "B": [[1.0]]}, "B has shape (1, 1), but the tokens have dimension 2"),
        ("fw/ode", {"tokens": INSIDE, "until": -1.0}, "until is -1, expected a finite number above 0"),
        ("fw/exit-time", {"motion": af.Layers(gamma=0.5), "k": 3}, "this claim is about the chain: give Jumps"),
        ("fw/exit-time", {"k": 1}, "k is 1"),
        ("fw/exponential-rate/repaired", {"tokens": INSIDE, "c": "x"}, "c is 'x', expected a number"),
        ("fw/metastable", {"vertices": TRIANGLE, "eps": "x"}, "eps is 'x', expected a number"),
        ("fw/metastable", {"vertices": [[1.0, 0.0]]}, "vertices holds 1 point"),
        ("fw/first-phase", {"vertices": TRIANGLE, "tokens": [[0.5]]}, "tokens have 1 coordinates and vertices 2"),
        ("fw/first-phase", {"vertices": TRIANGLE}, "fw/first-phase needs tokens"),
    ],
)
def test_bad_input_is_told_in_a_sentence(id: str, given: dict[str, Any], words: str) -> None:
    with refused(words):
        af.check(id, **given)
