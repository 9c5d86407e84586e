"""How verdicts are reached: hypotheses step by step, doubts, proofs, several instances."""

import math
import sys
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from refusals import refused
from scipy.stats import binomtest

import attnflow as af
from attnflow.claims import Claim, Experiment, Margins, get, statistics
from attnflow.claims.check import decide, examine, gathered, hypotheses, on_samples
from attnflow.claims.errors import BrokenInstance
from attnflow.claims.experiment import near_ties
from attnflow.claims.hypotheses import depths, positive_semidefinite
from attnflow.claims.instances import read
from attnflow.claims.margins import BrokenClaim, Undecided
from attnflow.claims.samplers import KINDS, around_origin, cloud, positive_form
from attnflow.claims.verdict import Verdict

MODEL = get("fw/hull-shrinks/repaired")
FAR = [[1.0, 0.0], [-1.0, 0.5], [0.0, -1.0]]


def at(what: str, step: int, value: float, tol: float = 0.0, strict: bool = False) -> Any:
    """Return a statement with slack 1 at six steps but one."""

    def statement(e: Experiment) -> Margins:
        values = np.ones((6, 2))
        values[step, 1] = value
        return Margins(what, values, np.arange(6), tol, strict)

    return statement


def judged(conclusion: Any, **given: Any) -> Verdict:
    claim = Claim("test/claim", MODEL.paper, "", "proved", MODEL.setting, "", conclusion, given)
    return decide(claim, read(MODEL, {"tokens": FAR, "steps": 6}))


def test_a_failure_before_the_hypotheses_fail_counts() -> None:
    verdict = judged(at("x >= 0", 2, -0.5), h=at("h", 3, -1.0))
    assert (verdict.outcome, verdict.where, verdict.margin) == ("violated", (2, 1), -0.5)
    assert verdict.because == "x >= 0 fails at step 2, token 1 with margin -0.5"
    assert verdict.claim == "test/claim"


def test_a_claim_that_holds_with_a_negative_margin_says_why() -> None:
    verdict = judged(at("x >= 0", 2, -1e-13, tol=1e-9))
    assert (verdict.outcome, verdict.margin) == ("holds", -1e-13)
    assert verdict.because == "x >= 0 holds with margin -1e-13, which is zero up to its error of at most 1e-09"
    assert judged(at("x >= 0", 2, 0.5, tol=1e-9)).because == "x >= 0 holds with margin 0.5, known up to 1e-09"


def test_a_failure_at_the_start_counts_where_a_hypothesis_fails_next() -> None:
    assert judged(at("x >= 0", 0, -0.5), h=at("h", 1, -1.0)).where == (0, 1)


def refuse(e: Experiment) -> Margins:
    raise af.InputError("there is nothing to look at")


def test_each_hypothesis_by_itself() -> None:
    given = {
        "slack": at("a", 3, 0.5), "fails": at("b", 4, -1.0), "rounding": at("c", 2, 1e-9, tol=1e-6, strict=True),
        "refused": refuse, "both": lambda e: [at("d", 1, 1e-9, tol=1e-6, strict=True)(e), at("e", 5, -1.0)(e)],
    }  # fmt: skip
    claim = Claim("test/claim", MODEL.paper, "", "proved", MODEL.setting, "", at("x >= 0", 2, 0.5), given)
    instance = read(MODEL, {"tokens": FAR, "steps": 6})
    e = Experiment(instance, *MODEL.setting.model(instance))
    alone = {"slack": "holds", "fails": "fails", "rounding": "undecided", "refused": "undecided", "both": "fails"}
    assert hypotheses(claim, e) == alone
    verdict, outcomes = examine(claim, e)
    assert (verdict.outcome, verdict.because, outcomes) == ("undecided", "there is nothing to look at", alone)


@pytest.mark.parametrize("tokens", [FAR, [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]])
@pytest.mark.parametrize("id", ["fw/straight-lines", "hardmax/limits", "fw/collapse-to-origin", "fw/ode"])
def test_examining_gives_the_verdict_of_check(id: str, tokens: Any) -> None:
    claim = get(id)
    instance = read(claim, {"tokens": tokens})
    verdict, _ = examine(claim, Experiment(instance, *claim.setting.model(instance)))
    checked = af.check(id, tokens=tokens)
    assert (verdict.outcome, verdict.margin, verdict.certified, verdict.because) == (
        checked.outcome, checked.margin, checked.certified, checked.because,
    )  # fmt: skip


def test_a_proof_that_takes_too_many_products_is_not_tried() -> None:
    claim = get("fw/cluster-rate")
    instance = read(claim, {"tokens": [[3.0], [-1.0]], "steps": 1000})
    found = [examine(claim, Experiment(instance, *claim.setting.model(instance)), most)[0] for most in (1e4, 1e6)]
    assert [(verdict.outcome, verdict.certified) for verdict in found] == [("violated", "float"), ("violated", "exact")]


@pytest.mark.parametrize("step", [3, 4])
def test_a_failure_after_the_hypotheses_fail_does_not(step: int) -> None:
    verdict = judged(at("x >= 0", step, -0.5), h=at("h", 3, -1.0))
    assert (verdict.outcome, verdict.where) == ("hypotheses not met", (3, 1))
    assert verdict.because == "h fails at step 3, token 1"


def test_no_claim_holds_beyond_its_hypotheses() -> None:
    assert judged(at("x >= 0", 0, 1.0), h=at("h", 5, -1.0)).outcome == "hypotheses not met"


def test_the_first_hypothesis_to_fail_is_named() -> None:
    verdict = judged(at("x >= 0", 5, -1.0), late=at("late", 4, -1.0), early=at("early", 2, -1.0))
    assert verdict.because == "early fails at step 2, token 1"


def test_doubtful_hypotheses_leave_the_claim_undecided() -> None:
    verdict = judged(at("x >= 0", 4, -0.5), h=at("h", 3, 0.05, tol=0.1, strict=True))
    assert (verdict.outcome, verdict.where) == ("undecided", (3, 1))
    assert "h is undecided at step 3, token 1" in verdict.because
    assert judged(at("x >= 0", 2, -0.5), h=at("h", 3, 0.05, tol=0.1, strict=True)).outcome == "violated"
    # Weak hypotheses may lie within their rounding.
    assert judged(at("x >= 0", 0, 1.0), h=at("h", 3, -0.005, tol=0.01)).outcome == "holds"
    assert judged(at("x >= 0", 0, 1.0), h=at("h", 3, -0.05, tol=0.1)).outcome == "undecided"


def test_doubtful_conclusions() -> None:
    verdict = judged(at("x > 0", 3, 0.05, tol=0.1, strict=True))
    assert (verdict.outcome, verdict.where) == ("undecided", (3, 1))
    holds = judged(at("x >= 0", 3, -0.005, tol=0.01))
    assert (holds.outcome, holds.margin) == ("holds", -0.005)
    assert judged(at("x >= 0", 3, -0.05, tol=0.1)).outcome == "undecided"
    assert judged(at("x > 0", 3, 0.0, strict=True)).outcome == "violated"


def test_a_failure_after_a_tie_of_leaders_does_not_count() -> None:
    """Token 2 hears tokens 0 and 1 alike at the start, and with steps 1 / sqrt(t + 2) there are only floats."""
    given = {"tokens": [[1.0, 1.0], [-1.0, 1.0], [0.0, 0.1]], "gamma": "1 / sqrt(t + 2)", "steps": 6}
    claim = Claim("test/claim", MODEL.paper, "", "proved", MODEL.setting, "", at("x >= 0", 1, -0.5))
    verdict = decide(claim, read(MODEL, given))
    assert (verdict.outcome, verdict.where) == ("undecided", (0, 2))


def test_a_run_without_fractions_is_not_said_to_be_too_long_for_them() -> None:
    claim = Claim("test/claim", MODEL.paper, "", "proved", MODEL.setting, "", at("x > 0", 0, 0.05, 0.1, True))
    for gamma, words in (("1 / sqrt(t + 2)", "this run cannot be computed in fractions"), (0.5, "if asked for")):
        verdict = decide(claim, read(MODEL, {"tokens": FAR, "gamma": gamma, "steps": 60}), most=1.0)
        assert verdict.outcome == "undecided"
        assert words in verdict.because


@pytest.mark.parametrize(
    ("step", "value", "expected"),
    [(2, -0.5, ("holds", "exact", 5)), (9, -0.5, ("violated", "float", None)), (9, 0.05, ("holds", "float", 9))],
)
def test_fractions_of_the_first_steps_against_floats_of_all(
    step: int, value: float, expected: tuple[str, str, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five steps are done in fractions, which see no fault: one that floats see there is none, a later one stands."""
    monkeypatch.setattr(sys.modules["attnflow.claims.check"], "EXACT_AT_ONCE", 0.0)

    def positive(e: Experiment) -> Margins:
        values = np.ones(int(e.horizon))
        values[step : step + 1] = 1.0 if e.exact else value
        return Margins("x > 0", values, np.arange(len(values)), 0.0 if e.exact else 0.1, strict=True)

    claim = Claim("test/claim", MODEL.paper, "", "proved", MODEL.setting, "", positive)
    verdict = decide(claim, read(MODEL, {"tokens": FAR, "steps": 20}), most=3 * 3 * 2 * 5 * (1 + 5 / 64))
    assert (verdict.outcome, verdict.certified, verdict.decided_to) == expected


def test_a_repaired_claim_on_other_parameters_says_nothing_of_a_violation() -> None:
    """The first repaired claim is about the same runs; the second needs a V, which is not given."""
    claim = replace(get("fw/cluster-rate"), conclusion=at("x >= 0", 4, -0.5))
    for repair, said in ((claim.repair, True), ("causal/two-points/repaired", False)):
        verdict = decide(replace(claim, repair=repair), read(claim, {"tokens": [[3.0], [-1.0]], "steps": 6}))
        assert verdict.outcome == "violated"
        assert (f"a hypothesis of {repair}, fails first" in verdict.because) is said


def test_nothing_seen_is_nothing_decided() -> None:
    verdict = judged(lambda e: Margins("x", np.empty((0, 2)), np.arange(0)))
    assert (verdict.outcome, verdict.margin, verdict.where) == ("undecided", 0.0, None)


def test_hypotheses_that_fail_at_once_spare_the_conclusion() -> None:
    def meaningless(e: Experiment) -> Margins:
        raise ZeroDivisionError

    assert judged(meaningless, h=at("h", 0, -1.0)).outcome == "hypotheses not met"


def test_the_earliest_of_several_conclusions_is_told() -> None:
    def both(e: Experiment) -> list[Margins]:
        return [at("late", 4, -2.0)(e), at("early", 1, -0.5)(e)]

    verdict = judged(both)
    assert verdict.because == "early fails at step 1, token 1 with margin -2"
    assert (verdict.where, verdict.margin) == ((1, 1), -2.0)


def test_the_earliest_of_several_doubts_is_told() -> None:
    """Whichever token it is about; at one time a reason of the claim's own comes before rounding."""

    def doubts(e: Experiment) -> list[Margins]:
        late, early = np.ones((6, 2)), np.ones((6, 2))
        late[4, 0], early[1, 1] = 0.05, 0.05
        return [Margins(what, values, np.arange(6), 0.1, True) for what, values in (("late", late), ("early", early))]

    verdict = judged(doubts)
    assert (verdict.outcome, verdict.where) == ("undecided", (1, 1))
    assert verdict.because.startswith("early is undecided at step 1, token 1")
    why = Undecided("the moon is full", "wait")
    own = replace(at("own", 3, 0.05, tol=0.1, strict=True)(None), undecided=why)
    assert judged(lambda e: [at("x", 3, 0.05, tol=0.1, strict=True)(e), own]).undecided == why


def test_levels_make_verdicts_statistical() -> None:
    verdict = judged(lambda e: statistics.at_least("P >= .5", 9, 10, 0.5))
    assert (verdict.outcome, verdict.certified, verdict.level) == ("holds", "statistical", statistics.LEVEL)
    assert "at confidence level 0.999999" in verdict.because


def test_several_verdicts_are_gathered() -> None:
    verdicts = [judged(at("x >= 0", 2, v), h=at("h", 5, w)) for v, w in ((1, 1), (0.5, 1), (1, -1))]
    one = gathered(verdicts)
    assert (one.outcome, one.margin, one.tried) == ("holds", 0.5, 3)
    assert "2 hold" in one.because
    assert one.because.endswith("x >= 0 holds with margin 0.5")
    worse = gathered([*verdicts, judged(at("x >= 0", 2, -1)), judged(at("x >= 0", 2, -3))])
    assert (worse.outcome, worse.margin, worse.tried) == ("violated", -3.0, 5)
    unsure = judged(at("x > 0", 2, 0.0, tol=0.1, strict=True))
    assert gathered([unsure, unsure, verdicts[0]]).outcome == "undecided"
    assert gathered([verdicts[2]]).outcome == "hypotheses not met"


def test_verdicts_replay() -> None:
    found = af.check("fw/hull-shrinks")
    again = af.check("fw/hull-shrinks", **found.instance)
    assert (again.outcome, again.margin, again.where) == (found.outcome, found.margin, found.where)
    assert on_samples(get("fw/hull-shrinks")).tried == get("fw/hull-shrinks").setting.samples


def test_a_flow_is_run_twice() -> None:
    claim = get("fw/ode")
    seen = []

    def drifting(e: Experiment) -> Margins:
        seen.append(e.rtol)
        return Margins("x", np.array([-1e-3 if e.rtol > 5e-12 else -1e-6]), np.zeros(1), 0.0)

    given = read(claim, {"tokens": [[1.0], [-1.0]]})
    # The difference of the two runs, doubled, exceeds the failure: it is rounding.
    assert decide(replace(claim, conclusion=drifting, given={}), given).outcome == "holds"
    assert seen == [1e-11, pytest.approx(1e-12)]


# Doubts of floats, and their proofs.


def test_ties_of_floats_are_settled_in_fractions() -> None:
    tied = [[0.1, 0.3], [0.3, 0.1], [0.2, 0.2]]
    e = Experiment(read(MODEL, {"tokens": tied, "steps": 1}), *MODEL.setting.model(read(MODEL, {"tokens": tied})))
    assert e.doubt() == (0, 2)
    assert e.using("exact").doubt() is None
    assert af.check("fw/hull-shrinks/repaired", tokens=tied, steps=1).certified == "exact"
    # Floats come first where a proof takes longer, and leave it what rounding could decide.
    lattice = np.random.default_rng(0).integers(-3, 4, (40, 2)).astype(float)
    verdict = af.check("fw/duality-gap", tokens=lattice, steps=10)
    assert (verdict.outcome, verdict.certified) == ("holds", "exact")
    # Too many tokens for a proof: what depends on a tie is undecided.
    many = np.random.default_rng(0).standard_normal((700, 2))
    many[:2], many[2] = [[10.1, 10.3], [10.3, 10.1]], [0.2, 0.2]
    verdict = af.check("fw/duality-gap", tokens=many, steps=5)
    assert (verdict.outcome, verdict.decided_to, verdict.certified) == ("holds", 1, "exact")
    verdict = decide(get("fw/duality-gap"), read(get("fw/duality-gap"), {"tokens": many, "steps": 5}), most=9e5)
    assert (verdict.outcome, verdict.where, verdict.certified) == ("undecided", (0, 2), "float")
    assert "the choice of leaders" in verdict.because


def test_near_ties_are_ties_between_distinct_points() -> None:
    x = np.array([[1.0, 1.0], [1.0, -1.0], [0.5, 0.0], [1.0, 1.0]])
    assert near_ties(af.Hardmax().neighbourhood, x, 0).tolist() == [False, False, True, False]
    assert near_ties(af.Localmax(2.0).neighbourhood, x, 0).tolist() == [True, True, False, True]
    # Of relative thresholds the bound is (1 - delta) times the top score: 1/2 and 1/4 here, and attained.
    line = np.array([[1.0], [0.5]])
    for delta, tied in ((0.5, [True, True]), (0.5 + 1e-3, [False, False]), (0.5 - 1e-3, [False, False])):
        assert near_ties(af.Localmax(delta, threshold="relative").neighbourhood, line, 0).tolist() == tied
    near = x + 1e-9
    assert not near_ties(af.Localmax(2.0 + 1e-3).neighbourhood, near, 0).any()


def test_arithmetics_agree() -> None:
    given = read(get("fw/straight-lines"), {"tokens": [[1.0], [-1.0], [0.25]], "gamma": "1 / (t + 2)", "steps": 6})
    e = Experiment(given, *get("fw/straight-lines").setting.model(given))
    proof = e.using("exact")
    assert (e.rounding, proof.rounding) == (2.0**-52, 0.0)
    np.testing.assert_allclose(proof.states.astype(float), e.states, rtol=1e-14)
    np.testing.assert_allclose(proof.gammas.astype(float), e.gammas, rtol=1e-15)
    assert e.given(tokens=[[2.0], [3.0]]).states.shape == (7, 2, 1)
    assert (proof.exact, e.exact) == (True, False)
    with pytest.raises(AttributeError):
        _ = e.nothing


# Statistics, hulls, samplers.


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 10), (10, 10), (250, 1000)])
@pytest.mark.parametrize("level", [0.95, statistics.LEVEL])
def test_confidence_bounds_are_those_of_scipy(k: int, n: int, level: float) -> None:
    expected = binomtest(k, n).proportion_ci(level, method="exact")
    assert statistics.clopper_pearson(k, n, level) == pytest.approx((expected.low, expected.high), rel=1e-9, abs=1e-300)


def test_draws_refute_but_never_prove() -> None:
    low, high = statistics.clopper_pearson(300, 1000)
    for p, least, most in ((low - 0.01, True, False), (0.3, True, True), (high + 0.01, False, True)):
        assert statistics.at_least("P", 300, 1000, p).held.all() == least
        assert statistics.at_most("P", 300, 1000, p).held.all() == most
    assert statistics.at_most("P", 300, 1000, 0.3).level == statistics.LEVEL


def test_depths_of_a_square() -> None:
    square = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]])
    points = np.array([[1.0, 1.0], [0.5, 1.0], [2.0, 1.0], [3.0, 1.0], [3.0, 3.0]])
    np.testing.assert_allclose(depths(square, points), [1.0, 0.5, 0.0, -1.0, -np.sqrt(2)], atol=1e-12)
    assert depths(square[:2], np.array([[1.0, 0.0], [1.0, 0.5]])).tolist() == [0.0, -0.5]


@pytest.mark.parametrize(
    ("B", "held"),
    [([[2.0, 1.0], [0.0, 2.0]], False), ([[1.0, 1.0], [1.0, 1.0]], True), ([[1.0, 2.0], [2.0, 1.0]], False)],
)
def test_forms_are_semidefinite_in_floats_and_fractions(B: Any, held: bool) -> None:
    given = read(MODEL, {"tokens": FAR, "B": B})
    e = Experiment(given, *MODEL.setting.model(given))
    assert positive_semidefinite(e).held.all() == positive_semidefinite(e.using("exact")).held.all() == held


@pytest.mark.parametrize("k", range(len(KINDS)))
def test_clouds_are_of_their_kind(k: int) -> None:
    rng = np.random.default_rng(k)
    x = cloud(rng, k, n=6, d=3)
    assert x.shape == (6, 3)
    np.testing.assert_array_equal(x, cloud(np.random.default_rng(k), k, n=6, d=3))
    kind = KINDS[k]
    if kind == "lattice":
        assert (x == np.round(x)).all()
    if kind == "symmetric":
        assert {tuple(p) for p in x + 0.0} == {tuple(p) for p in 0.0 - x}
    if kind == "nearly degenerate":
        assert np.linalg.svd(x - x.mean(axis=0), compute_uv=False)[-1] < 1e-4
    centred = around_origin(rng, k, n=6, d=2)
    assert depths(centred, np.zeros((1, 2)))[0] > -1e-9


@pytest.mark.parametrize("k", range(8))
def test_forms_are_positive(k: int) -> None:
    form = positive_form(np.random.default_rng(k), k, 3)
    if form is not None:
        assert (form == form.T).all()
        assert np.linalg.eigvalsh(form).min() > 0


def test_alpha_and_gamma_stand_for_each_other() -> None:
    x = [[1.0], [-1.0], [0.1], [-0.1]]
    assert af.check("localmax/norms", tokens=x, alpha=1.0).instance["gamma"] == 0.5
    assert af.check("hardmax/norms", tokens=x, gamma=0.5).instance["alpha"] == 1.0
    alpha = af.check("hardmax/norms", tokens=x, gamma="1 / (t + 2)").instance["alpha"]
    assert alpha.exactly(Fraction(3)) == Fraction(1, 4)


@pytest.mark.parametrize("bad", [{"gamma": 1.0}, {"gamma": "x"}, {"gamma": [1]}, {"gamma": 0.5, "alpha": 1.0}])
def test_a_step_that_makes_no_sense_by_the_other_name(bad: dict[str, Any]) -> None:
    with refused(r"gamma|arithmetic"):
        af.check("hardmax/norms", tokens=[[1.0], [2.0]], **bad)


# What users may give.

LINE = [[1.0], [-0.5], [0.25]]


@pytest.mark.parametrize(
    ("id", "given", "words"),
    [
        ("fw/hull-shrinks/repaired", {"gamma": "1 / t"}, "has no real value at t = 0"),
        ("fw/hull-shrinks/repaired", {"gamma": lambda t: math.nan}, "finite"),
        ("fw/hull-shrinks/repaired", {"gamma": lambda t: "x"}, "number"),
        ("fw/hull-shrinks/repaired", {"gamma": lambda: 1}, "failed at t = 0"),
        ("fw/hull-shrinks/repaired", {"steps": 10**7}, "at most 100000"),
        ("fw/straight-lines", {"motion": af.Flow()}, "counts steps"),
        ("fw/exit-time", {"tokens": None, "beta": -1e6}, "beta"),
        ("fw/cells", {"seed": -1}, "seed"),
    ],
)
def test_sentences_for_what_cannot_be_checked(id: str, given: dict[str, Any], words: str) -> None:
    instance = {"tokens": LINE, **given}
    if instance["tokens"] is None:
        del instance["tokens"]
    with refused(words):
        af.check(id, **instance)


def test_a_constant_formula_is_a_constant() -> None:
    assert af.check("hardmax/limits", tokens=LINE, alpha="1 / 2").instance["alpha"] == 0.5


def test_collapse_is_about_constant_parameters() -> None:
    assert af.check("fw/collapse", tokens=LINE, beta="10 * (t + 1)", gamma=0.5).outcome == "hypotheses not met"


def test_caps_hold_tokens_of_the_sphere_only() -> None:
    given: dict[str, Any] = {"centres": [[1.0, 0.0], [0.0, -1.0]], "eps": 0.006, "beta": 4.6}
    assert af.check("sphere/metastability", tokens=[[3.0, 1.0], [3.0, 0.0]], **given).outcome == "hypotheses not met"


@pytest.mark.parametrize("scale", [1e100, 1e-100])
def test_collisions_at_any_scale(scale: float) -> None:
    assert af.check("emergence/keller-segel", tokens=[[0.0], [scale]]).outcome == "holds"


def test_what_overflows_decides_nothing() -> None:
    verdict = af.check("emergence/negative-identity", tokens=[[1e10], [-1.0]], until=1.0)
    assert verdict.outcome == "undecided"
    assert "give a shorter until or smaller tokens" in verdict.because
    assert not math.isnan(verdict.margin)


@pytest.mark.parametrize(
    ("returned", "words"),
    [(True, "returned True"), ([1.0], "returned 1.0"), (None, "returned None")],
)
def test_claims_that_return_something_else_are_told(returned: Any, words: str) -> None:
    model = get("fw/cells")
    claim = replace(model, conclusion=lambda e: returned, given={})
    with refused(words):
        decide(claim, read(claim, {"tokens": LINE}))


def test_margins_of_odd_shapes_are_told() -> None:
    for values, times in ((np.array(1.0), np.zeros(1)), (np.zeros(3), np.zeros(2))):
        with refused("one row for each time"):
            Margins("x", values, times)


@pytest.mark.parametrize("law", [af.Hardmax(b=[1.0]), af.Heads([af.Hardmax(), af.Hardmax(b=[1.0])])])
def test_a_bias_is_refused_in_heads_too(law: af.Law) -> None:
    with refused("but the law has a bias b: leave b out"):
        af.check("hardmax/hull", tokens=[[1.0], [-1.0]], law=law)


class Called(af.Layers):
    """Layers that can be called, as layers of a network are."""

    def __call__(self, x: Any) -> Any:
        return x


class CalledLaw(af.Softmax):
    def __call__(self, x: Any) -> Any:
        return x


def test_laws_and_motions_that_can_be_called_are_judged_themselves() -> None:
    def margin(**model: Any) -> float:
        return af.check("fw/cluster-rate", tokens=[[3.0], [-1.0]], steps=20, **model).margin

    assert margin(motion=Called(gamma=0.9)) == pytest.approx(margin(motion=af.Layers(gamma=0.9)), rel=1e-12)
    assert margin(law=CalledLaw(beta=0.1)) == pytest.approx(margin(law=af.Softmax(beta=0.1)), rel=1e-12)
    assert margin(motion=lambda own: af.Layers(gamma=0.9)) == margin(motion=af.Layers(gamma=0.9))
    # A class is a function that returns one.
    with refused("gamma"):
        margin(motion=Called)


class Unreadable(af.laws.Law):
    def log_weights(self, x: Any, t: Any = 0, *, sources: Any = None, masses: Any = None) -> Any:
        return np.array([self.read() for _ in x])

    def read(self) -> Any:
        raise self.error  # type: ignore[attr-defined]


class Stuck(af.motions.DiscreteMotion):
    def step(self, hearing: Any, x: Any, t: Any) -> Any:
        raise ValueError("no step")


@pytest.mark.parametrize("error", [OSError("no file"), ValueError("no weights")])
def test_an_error_of_a_law_or_a_motion_is_not_that_of_the_claim(error: Exception) -> None:
    law = Unreadable()
    law.error = error  # type: ignore[attr-defined]
    given: dict[str, Any] = {"tokens": FAR, "steps": 6}
    with refused(
        f"^the law Unreadable raised an error while {MODEL.id} was checked: .*read raised {type(error).__name__}"
    ):
        af.check(MODEL.id, law=law, **given)
    with pytest.raises(
        af.InputError, match=rf"^the motion Stuck raised an error while {MODEL.id} .* Stuck.step raised"
    ):
        af.check(MODEL.id, motion=Stuck(), **given)


def test_whose_error_it_is_says_whether_a_search_passes_over_it() -> None:
    """An error of a law or a motion, or a division by 0, may be that of one instance; others are those of the claim."""

    def raises(error: Exception) -> Any:
        def conclusion(e: Experiment) -> Margins:
            raise error

        return conclusion

    def kind(call: Any) -> type[Exception]:
        with pytest.raises(af.InputError) as caught:
            call()
        return type(caught.value)

    assert kind(lambda: judged(raises(KeyError("tokens")))) is BrokenClaim
    assert kind(lambda: judged(raises(ZeroDivisionError()))) is BrokenInstance
    assert kind(lambda: af.check(MODEL.id, motion=Stuck(), tokens=FAR, steps=6)) is BrokenInstance
    assert kind(lambda: judged(raises(OverflowError("too large")))) is af.InputError


def test_draws_have_the_seed_that_was_given() -> None:
    claim = next(claim for claim in af.claims.all() if "seed" in claim.setting.parameters)
    drawn = {name: value for name, value in claim.setting.drawn(0, 0).items() if name != "seed"}
    seeds = [
        values["seed"] for values in (read(claim, drawn), read(claim, drawn, 5), read(claim, {**drawn, "seed": 7}, 5))
    ]
    assert seeds == [0, 5, 7]
