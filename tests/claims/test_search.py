"""Attacks: false claims are refuted, true ones survive, witnesses are small and replay."""

import importlib
import itertools
import os
import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from larger import larger

import attnflow as af
from attnflow.claims import Claim, Experiment, Margins, Paper, Setting, get
from attnflow.claims.claim import REGISTER
from attnflow.claims.margins import once
from attnflow.claims.shrink import shrink
from attnflow.claims.verdict import Verdict
from attnflow.claims.witness import Witness, plain
from attnflow.core import progress
from attnflow.core.inputs import InputError
from attnflow.core.schedules import Schedule

attack = importlib.import_module("attnflow.claims.search")

FALSE = [claim.id for claim in af.claims.all() if claim.refutable]
TRUE = [claim.id for claim in af.claims.all() if claim.id.startswith("fw/") and not claim.refutable]
# Open claims may fall: that would be news, not a defect.
OTHERS = [
    claim.id for claim in af.claims.all() if claim.id[:2] != "fw" and claim.status in ("proved", "derived")
]  # fmt: skip
RATIONAL = [
    "fw/cluster-rate", "fw/hull-shrinks", "fw/exponential-rate", "fw/own-cell", "localmax/lyapunov/directed",
    "neuralode/controllability", "sphere/collapse/every-start",
]  # fmt: skip
# Refuted by limits that are proved in balls.
IN_BALLS = {"causal/two-points", "emergence/polytope/rank", "emergence/polytope/pair"}
# These take longer: chains of several tokens per vertex, long runs in fractions, many draws.
SLOW = {
    "fw/metastable/repaired": 4, "fw/metastable/staged": 4, "fw/first-phase/repaired": 10, "fw/cells": 24,
    "fw/cluster-rate/repaired": 12, "fw/gaussian-own-cell": 20, "fw/gaussian-own-cell/explicit": 20,
    "fw/hull-shrinks/repaired": 32,
}  # fmt: skip


def test_the_false_claims_are_these() -> None:
    flows = ["polytope/rank", "polytope/pair", "polytope-times-subspace/projected", "boolean/doubly-exponential"]
    flows += [f"codimension-k/{version}" for version in "abc"]
    others = [
        "causal/strong-centres/printed",
        "causal/two-points",
        "fw/collapse-to-origin",
        "fw/first-phase",
        "fw/metastable",
    ]
    assert sorted(FALSE) == sorted([*RATIONAL, *others, *(f"emergence/{name}" for name in flows)])


# Another seed each, of claims whose witnesses the search must look for, is for make test-all.
ALL = "ATTNFLOW_EXAMPLES" in os.environ
OTHER_SEEDS = [(id, 1) for id in FALSE if id[:2] == "fw" and ALL]


# Witnesses that take a second or more each: some of flows are looked for in any case, the first by pages of docs too.
LONG = {
    "fw/cluster-rate",
    "emergence/boolean/doubly-exponential",
    "emergence/codimension-k/a",
    "emergence/codimension-k/b",
}
# Seeds whose first samples are witnesses, where the samples of seed 0 before one take seconds.
SEEDS = {"causal/two-points": 2, "emergence/boolean/doubly-exponential": 2, "emergence/codimension-k/c": 2}


@pytest.mark.parametrize(
    ("id", "seed"),
    [
        *(pytest.param(id, SEEDS.get(id, 0), marks=[larger] if id in LONG else []) for id in FALSE),
        *OTHER_SEEDS,
    ],
)
def test_false_claims_are_refuted(id: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = id.startswith("emergence/") or id == "causal/two-points"
    if flow:
        # Each trial integrates a flow several times; witnesses in layers show whether they are made small.
        monkeypatch.setattr(attack, "SHRINKING", 6 if ALL else 0)
    witness = af.search(id, evaluations=400, seed=seed)
    assert witness is not None
    assert witness.verdict.outcome == "violated"
    if ALL or not flow:  # witnesses of flows are replayed on the pages of their papers, in docs/claims
        again = af.check(id, **witness.instance)
        assert again.outcome == "violated"
        assert (again.margin, again.where) == (witness.verdict.margin, witness.verdict.where)
    assert witness.exact == (id in RATIONAL)
    if id in IN_BALLS and (ALL or id not in LONG):
        assert witness.verdict.certified == "ball"
    assert witness.evaluations <= 400 + attack.SHRINKING
    if id in RATIONAL and id != "fw/exponential-rate":
        assert len(witness.instance["tokens"]) <= 3


@pytest.mark.parametrize("id", TRUE)
def test_true_claims_survive(id: str) -> None:
    fewer = min(SLOW[id], 6) if id in SLOW else 12
    assert af.search(id, evaluations=SLOW.get(id, 60) if ALL else fewer) is None


@pytest.mark.skipif(not ALL, reason="long: make test-all")
@pytest.mark.parametrize("id", OTHERS)
def test_true_claims_of_other_papers_survive(id: str) -> None:
    assert af.search(id, evaluations=100) is None


@pytest.mark.parametrize("id", ["fw/own-cell", "fw/hull-shrinks", "fw/first-phase"])
def test_searches_are_repeatable(id: str) -> None:
    one, other = (af.search(id, evaluations=200, seed=3) for _ in range(2))
    assert one is not None
    assert other is not None
    assert one.snippet == other.snippet
    assert (one.evaluations, one.verdict.margin) == (other.evaluations, other.verdict.margin)


def test_evaluations_are_counted() -> None:
    assert af.search("fw/own-cell", evaluations=1, seed=0) is None  # the first sample is no lattice


def test_seconds_are_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that shows a second more whenever somebody looks."""
    seconds = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)))
    assert af.search("fw/duality-gap", seconds=5.0, evaluations=1000) is None
    assert next(seconds) < 100


@pytest.mark.parametrize("bad", [{"seconds": 0.0}, {"evaluations": 0}, {"seed": -1}, {"evaluations": 2.5}])
def test_bad_budgets_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        af.search("fw/own-cell", **bad)


def test_snippets_replay() -> None:
    for id in ("fw/own-cell", "fw/exponential-rate", "fw/hull-shrinks"):
        witness = af.search(id, evaluations=200, seed=1)
        assert witness is not None
        space: dict[str, Any] = {}
        exec(witness.snippet, space)
        verdict = space["verdict"]
        assert (verdict.outcome, verdict.certified) == ("violated", "exact")
        assert verdict.margin == witness.verdict.margin


def test_witnesses_are_plain_data() -> None:
    verdict = Verdict("violated", -1.0, None, "float", "")
    instance = {"tokens": np.eye(2), "B": None, "gamma": Schedule("1 / (t + 2)"), "steps": np.int64(3)}
    witness = Witness("fw/straight-lines", instance, verdict, 5)
    assert not witness.exact
    call = "\"fw/straight-lines\", tokens=[[1.0, 0.0], [0.0, 1.0]], gamma='1 / (t + 2)', steps=3"
    assert witness.snippet == f"import attnflow as af\n\nverdict = af.check({call})"
    assert plain({"a": (1, np.float64(2.0)), "b": {"c": np.zeros(1)}}) == {"a": [1, 2.0], "b": {"c": [0.0]}}


# What counts as a violation.


SILENT = progress.Task("search", 1.0, None)


def claimed(conclusion: Any) -> Any:
    """Return an attack on a claim about two tokens of the line."""
    model = get("fw/hull-shrinks/repaired")

    def sample(rng: Any, k: int) -> dict[str, Any]:
        return {"tokens": rng.uniform(-1, 1, (2, 1)), "steps": 4}

    setting = type(model.setting)(model.setting.parameters, model.setting.model, sample)
    claim = Claim("test/claim", model.paper, "", "false as printed", setting, "", conclusion)
    return attack.Attack(claim, 200, None, 0, SILENT)


def test_a_violation_must_survive_a_longer_horizon() -> None:
    def once_only(e: Experiment) -> Margins:
        return once("x", -1.0 if e.steps == 4 else 1.0)

    def always(e: Experiment) -> Margins:
        return once("x", -1.0)

    assert claimed(once_only).run() is None
    assert claimed(always).run() is not None


def test_a_violation_must_survive_a_tighter_tolerance() -> None:
    assert claimed(lambda e: once("x", -1.0 if e.rtol > 5e-12 else 1.0)).run() is None


def test_statistical_violations_must_survive_fresh_seeds() -> None:
    claim = get("fw/metastable")
    unlucky = attack.Attack(claim, 10, None, 0, SILENT)
    verdict = Verdict("violated", -0.1, (0, None), "statistical", "")
    good = {"vertices": af.tokens.polygon(3), "runs": 20}
    assert not unlucky.survives(attack.read(claim, good), verdict)


def test_fresh_seeds_are_fresh() -> None:
    model = get("fw/exit-time")
    claim = Claim(
        "test/claim", model.paper, "", "false as printed", model.setting, "",
        lambda e: Margins("x", np.array([-1.0 if e.seed == 0 else 1.0]), np.zeros(1), level=0.99),
    )  # fmt: skip
    instance = attack.read(claim, {"k": 3}, 0)
    unlucky = attack.Attack(claim, 10, None, 0, SILENT)
    verdict = attack.decide(claim, instance)
    assert (verdict.outcome, verdict.certified) == ("violated", "statistical")
    assert not unlucky.survives(instance, verdict)


def test_a_universal_constant_must_grow() -> None:
    claim = get("fw/first-phase")
    search = attack.Attack(claim, 10, None, 0, SILENT)
    assert search.fails_with(40.0)
    assert not search.fails_with(1e6)


def test_a_violation_must_survive_larger_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """With twice and four times the constant: here samples fail with less than 50."""
    search, proof = claimed(None), Verdict("violated", -1.0, (0, None), "exact", "")
    monkeypatch.setattr(search, "fails_with", lambda C: C < 50)
    assert [search.survives({"C": C}, proof) for C in (10.0, 12.4, 12.6, 20.0, 30.0)] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_thin_triangles_have_starts_too() -> None:
    claim = get("fw/first-phase")
    for k in range(400 if ALL else 100):
        drawn = claim.setting.sample(np.random.default_rng([0, k]), k)
        assert af.check(claim.id, **drawn).outcome != "hypotheses not met"


def test_longer_horizons_are_tried() -> None:
    def late(e: Experiment) -> Margins:
        return Margins("x", np.where(np.arange(e.steps) < 50, 1.0, -1.0), np.arange(e.steps))

    witness = claimed(late).run()
    assert witness is not None
    assert witness.instance["steps"] == 51


def test_refusals_do_not_end_a_search() -> None:
    def short_runs_only(e: Experiment) -> Margins:
        if e.steps > 4:
            raise InputError("too long")
        return once("x", 1.0)

    assert claimed(short_runs_only).run() is None
    assert not claimed(short_runs_only)._violated({"tokens": np.ones((2, 1)), "steps": 8, "gamma": 0.5, "B": None})


PAIR = {"tokens": np.array([[0.7], [-0.3]]), "steps": 4, "gamma": 0.5, "B": None}


def test_tokens_that_cannot_be_judged_are_passed_over_on_the_way_down() -> None:
    """Moves to one side are refused, and on the other the claim fails; without tokens there is nothing to move."""

    def low(e: Experiment) -> Margins:
        x = float(e.instance["tokens"][0, 0])
        if x > 0.75:
            raise InputError("too far")
        return once("x >= .2", x - 0.2)

    search = claimed(low)
    assert search._descended(PAIR).instance["tokens"][0, 0] < 0.2
    assert search._descended({**PAIR, "tokens": None}) is None


def test_a_smaller_witness_that_does_not_survive_is_given_up() -> None:
    """Other tokens violate the claim in runs of four steps alone, these in longer runs too."""

    def longer(e: Experiment) -> Margins:
        own = (np.asarray(e.instance["tokens"], dtype=float) == PAIR["tokens"]).all()
        return once("x", -1.0 if e.steps == 4 or (own and e.steps > 4) else 1.0)

    search = claimed(longer)
    verdict = attack.decide(search.claim, PAIR)
    small, _ = attack.shrink(PAIR, verdict, search._still(verdict))
    assert (small["tokens"] != PAIR["tokens"]).any()
    np.testing.assert_array_equal(search._settle(PAIR, verdict).instance["tokens"], PAIR["tokens"])


def test_margins_are_descended() -> None:
    def near(e: Experiment) -> Margins:
        x = np.asarray(e.instance["tokens"], dtype=float).ravel()
        return once("|x| >= .1", float(abs(x[0]) - 1e-3 * abs(x[1])))

    assert claimed(near).run() is not None


# Shrinking.


def violates(test: Any) -> Any:
    verdict = Verdict("violated", -1.0, (2, 0), "exact", "")
    return lambda instance: verdict if test(instance) else None


def test_witnesses_are_made_small() -> None:
    first = Verdict("violated", -1.0, (2, 0), "exact", "")
    rng = np.random.default_rng(0)
    instance = {
        "tokens": rng.standard_normal((7, 3)) + 3,
        "B": rng.standard_normal((3, 3)),
        "beta": 0.12345,
        "steps": 90,
    }
    small, _ = shrink(instance, first, violates(lambda given: given["tokens"].max() > 0))
    assert small["tokens"].shape == (2, 1)
    assert (small["tokens"] == np.round(small["tokens"])).all()
    assert small["B"] is None
    assert small["beta"] == 0.1
    assert small["steps"] == 3
    # A failure at the start takes one step.
    at_once = replace(first, where=(0, 0))
    assert shrink({"steps": 90}, at_once, lambda given: at_once)[0] == {"steps": 1}
    # Only what still violates is kept.
    kept, _ = shrink(instance, first, violates(lambda given: False))
    assert kept is instance
    three, _ = shrink(instance, first, violates(lambda given: len(given["tokens"]) >= 3 and given["steps"] == 90))
    assert len(three["tokens"]) == 3
    assert three["steps"] == 90


@pytest.mark.parametrize("scale", [2.0**-10, 1.0, 2.0**10])
def test_tokens_are_rounded_at_their_own_scale(scale: float) -> None:
    """In steps of 4, 2, 1, 1/2, 1/4 .. of the scale: 1/4 is the first that moves no token by more than 1/10."""
    first = Verdict("violated", -1.0, (2, 0), "exact", "")
    tokens = scale * np.array([[5.3], [-3.7]])
    small, _ = shrink({"tokens": tokens}, first, violates(lambda x: np.abs(x["tokens"] - tokens).max() < 0.1 * scale))
    assert (small["tokens"] / scale).tolist() == [[5.25], [-3.75]]


def test_bad_proposals_are_passed_over() -> None:
    first = Verdict("violated", -1.0, (2, 0), "exact", "")

    def refuses(given: dict[str, Any]) -> Verdict | None:
        if len(given["tokens"]) < 3:
            raise InputError("too few")
        return first

    small, _ = shrink({"tokens": np.ones((5, 1)), "steps": 4}, first, refuses)
    assert len(small["tokens"]) == 3


def _broken(change: dict[str, Any], conclusion: Any = None, hypothesis: Any = None) -> None:
    """Register the claim broken/one: on the line, in layers, with one part that is not as it should be."""

    def fine(e: Experiment) -> Margins:
        return once("0 <= 1", 1.0)

    def layers(given: Any) -> Any:
        return af.Softmax(beta=given["beta"]), af.Layers(gamma=0.5)

    def sample(rng: np.random.Generator, k: int) -> Any:
        return {"tokens": rng.standard_normal((3, 1))}

    parameters = {"tokens": ..., "beta": 1.0, "steps": 3}
    setting = replace(Setting(parameters, layers, sample, samples=2), **change)
    paper = Paper("broken", "A. Reader", "Broken claims", "0000.00000")
    REGISTER.pop("broken/one", None)
    given = {"first": hypothesis or fine}
    paper.claim("one", "page 1", "open", setting, "Something.", given=given)(conclusion or fine)


def _nan_at(e: Experiment, step: int) -> Margins:
    return Margins("m", np.where(np.arange(len(e.times)) == step, np.nan, 1.0), e.times, tol=0.0)


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no return": (
        {"conclusion": lambda e: None},
        "^broken/one cannot be checked: its conclusion, the function <lambda>, returned None, expected Margins or a "
        "list of them: return Margins",
    ),
    "nan": (
        {"conclusion": lambda e: _nan_at(e, 2)},
        "^broken/one cannot be checked: in its conclusion, the function <lambda>, the margin of 'm' is NaN at step 2,",
    ),
    "nan of a token": (
        {"conclusion": lambda e: Margins("m", np.where(np.eye(4, 3) > 0, np.nan, 1.0), e.times)},
        "the margin of 'm' is NaN at step 0, token 0, expected a number: leave out",
    ),
    "nan beside a failure": (
        {"conclusion": lambda e: [once("x", -1.0), _nan_at(e, 2)]},
        "the margin of 'm' is NaN at step 2",
    ),
    "nan of a hypothesis": (
        {"hypothesis": lambda e: _nan_at(e, 1)},
        "^broken/one cannot be checked: in its hypothesis 'first', the function <lambda>, the margin of 'm' is NaN at "
        "step 1, expected a number",
    ),
    "division": ({"conclusion": lambda e: 1 / 0}, r"raised ZeroDivisionError .* in line \d+ of .*test_search"),
    "lengths": (
        {"conclusion": lambda e: Margins("x", np.zeros(3), e.times)},
        "^broken/one cannot be checked: in its conclusion, the function <lambda>, .* expected one row for each time",
    ),
    "bool": ({"hypothesis": lambda e: True}, "its hypothesis 'first', .* returned True, expected Margins"),
    "negative tol": ({"conclusion": lambda e: once("x", 1.0, -1.0)}, "tol is -1.0, expected the rounding bound"),
    "name": ({"conclusion": lambda e: e.gama}, "no parameter 'gama', expected one of tokens, beta, steps"),
    "sample": (
        {"change": {"sample": lambda rng, k: np.zeros((2, 1))}},
        "^broken/one .* sample returned .*, expected a dict",
    ),
    "model": ({"change": {"model": lambda given: af.Softmax()}}, "^broken/one .* model returned .*, expected a law"),
    "model that divides": ({"change": {"model": lambda given: 1 / 0}}, "broken/one cannot be checked: .* raised Zero"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_claim_is_refused_by_check_and_by_search(name: str) -> None:
    parts, words = BROKEN[name]
    _broken(**{"change": {}, **parts})
    try:
        for ask in (af.check, partial(af.search, evaluations=2)):
            with pytest.raises(af.InputError, match=words):
                ask("broken/one")
    finally:
        del REGISTER["broken/one"]


def test_nan_after_a_hypothesis_has_failed_is_not_looked_at() -> None:
    """What a claim says of a step counts only while its hypotheses hold."""

    def short(e: Experiment) -> Margins:
        return Margins("k < 2", 1.5 - np.arange(len(e.times)), e.times)

    _broken({}, conclusion=lambda e: _nan_at(e, 3), hypothesis=short)
    try:
        assert af.check("broken/one", tokens=[[1.0], [2.0]]).outcome == "hypotheses not met"
    finally:
        del REGISTER["broken/one"]


@pytest.mark.parametrize(("evaluations", "refused"), [(1, True), (40, False)])
def test_a_search_passes_over_a_sample_that_divides_by_zero(evaluations: int, refused: bool) -> None:
    """Only where all samples do is the claim refused; a check of such tokens names the error and its line."""

    def sample(rng: np.random.Generator, k: int) -> Any:
        return {"tokens": np.full((2, 1), 1.0) if k == 0 else rng.standard_normal((2, 1))}

    def apart(e: Experiment) -> Margins:
        return once("1/|x - y| > 0", 1 / abs(float(e.tokens[0, 0]) - float(e.tokens[1, 0])))

    _broken({"sample": sample}, conclusion=apart)
    words = r"^broken/one cannot be checked: .*apart raised ZeroDivisionError .* in line \d+ of .*test_search"
    try:
        with pytest.raises(af.InputError, match=words):
            af.check("broken/one", tokens=[[1.0], [1.0]])
        if refused:
            with pytest.raises(af.InputError, match=words):
                af.search("broken/one", evaluations=evaluations)
        else:
            assert af.search("broken/one", evaluations=evaluations) is None
    finally:
        del REGISTER["broken/one"]


def test_a_violation_beside_a_sample_that_divides_by_zero_is_found() -> None:
    def sample(rng: np.random.Generator, k: int) -> Any:
        return {"tokens": np.array([[1.0], [1.0 + k]])}

    def near(e: Experiment) -> Margins:
        return once("1/|x - y| >= 1/2", 1 / abs(float(e.tokens[0, 0]) - float(e.tokens[1, 0])) - 0.5)

    _broken({"sample": sample}, conclusion=near)
    try:
        witness = af.search("broken/one", evaluations=10)
        assert witness is not None
        assert witness.verdict.outcome == "violated"
    finally:
        del REGISTER["broken/one"]


def test_what_the_optimiser_cannot_vary_is_left_alone() -> None:
    from attnflow.claims.search import _numbers

    x = np.array([[2.0], [-1.0]])
    assert _numbers({"tokens": None}) is None
    assert _numbers({"tokens": x, "symmetry": [{}]}) is None
    np.testing.assert_array_equal(_numbers({"tokens": x}), [1.0, -0.5])
