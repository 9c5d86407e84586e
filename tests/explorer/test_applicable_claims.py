"""Which claims are about what is on the screen, their verdicts against `check`, and drags that change them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from larger import larger

import attnflow as af
from attnflow.claims.claim import PROVED, REGISTER, Paper, Setting
from attnflow.claims.hardmax import HARDMAX
from attnflow.claims.margins import once
from attnflow.explorer.applicable_claims import applicable, check_applicable
from attnflow.explorer.state import State, read

HARD = {"name": "softmax", "beta": "inf"}
ONE = {"name": "softmax", "beta": 1.0}
SQUARE = [[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.5, 0.2]]
TRIANGLE = [[3.0, 1.0], [-1.0, 0.5], [-1.0, -1.0]]
GAUSSIAN = {"cloud": "gaussian", "n": 8, "d": 2, "seed": 1}
JUMPS = {"name": "jumps", "gamma": 0.1}
CIRCLE = {"cloud": "sphere", "n": 6, "d": 2, "seed": 0}


def shown(tokens: Any, law: Any, motion: dict[str, Any], until: float) -> State:
    return read({"tokens": tokens, "law": law, "motion": motion, "until": until})


def verdicts(state: State) -> dict[str, dict[str, Any]]:
    return {answer["claim"]: answer for answer in check_applicable(state) if answer["kind"] == "verdict"}


def verdict_on(id: str, state: State) -> dict[str, Any]:
    """Return the verdict on one claim; those that cost more are not checked."""
    return next(answer for answer in check_applicable(state) if answer.get("claim") == id)


# What was said so far about states that several tests ask about, and what is still to come.
ASKED: dict[int, tuple[list[dict[str, Any]], Iterator[dict[str, Any]]]] = {}


def said_about(state: State) -> Iterator[dict[str, Any]]:
    """Go through the answers for one of STATES or DRAGS: each claim is checked once for all tests."""
    said, coming = ASKED.setdefault(id(state), ([], check_applicable(state)))
    yield from said
    for answer in coming:
        said.append(answer)
        yield answer


def said_on(claim: str, state: State) -> dict[str, Any]:
    """Return the verdict on one claim, as `verdict_on` does, from what is said about a state."""
    return next(answer for answer in said_about(state) if answer.get("claim") == claim)


def layers(**steps: Any) -> dict[str, Any]:
    return {"name": "layers", **steps}


STATES = {
    "hardmax": shown(SQUARE, HARD, layers(gamma=0.5), 30),
    "hardmax of a random cloud": shown(GAUSSIAN, HARD, layers(alpha=1.0), 20),
    "frank-wolfe": shown(TRIANGLE, {**HARD, "B": [[-1, 0], [0, -1]]}, layers(gamma="2 / (t + 2)"), 40),
    "matrix step": shown(SQUARE, HARD, layers(V=[[1, 0], [0, 2]]), 10),
    "hardmax flow": shown(SQUARE, HARD, {"name": "rescaled-flow"}, 5.0),
    "softmax": shown(GAUSSIAN, {"name": "softmax", "beta": 2.0, "B": [[2, 0], [0, 2]]}, layers(gamma=0.5), 20),
    "softmax with a form": shown(GAUSSIAN, {**ONE, "B": [[2, 0], [0, 1]]}, layers(gamma=0.5), 20),
    "leaps": shown(GAUSSIAN, {"name": "softmax", "beta": 4.0}, {"name": "leaps", "gamma": 0.5}, 1e6),
    "polygon": shown({"cloud": "polygon", "k": 3}, {"name": "softmax", "beta": 4.0}, JUMPS, 50),
    "jumps": shown(GAUSSIAN, {"name": "softmax", "beta": 4.0}, JUMPS, 50),
    "localmax": shown(GAUSSIAN, {"name": "localmax", "delta": 0.1}, layers(gamma=0.5), 10),
    "relative": shown(GAUSSIAN, {"name": "localmax", "delta": 0.1, "threshold": "relative"}, layers(gamma=0.5), 10),
    "vanishing": shown(GAUSSIAN, {"name": "localmax", "delta": "0.1 * 0.5 ** t"}, layers(gamma=0.5), 20),
    "confidence": shown(GAUSSIAN, {"name": "hegselmann-krause", "eps": 1.0}, layers(gamma=1.0), 10),
    "rescaled": shown(GAUSSIAN, ONE, {"name": "rescaled-flow"}, 6.0),
    "growing": shown(GAUSSIAN, {"name": "softmax", "beta": 2.0}, {"name": "flow"}, 2.0),
    "two speeds": shown(GAUSSIAN, ONE, {"name": "rescaled-flow", "V": [[1, 0], [0, 0.5]]}, 6.0),
    "repelled": shown(GAUSSIAN, ONE, {"name": "flow", "V": [[-1, 0], [0, -1]]}, 20.0),
    "euler": shown(GAUSSIAN, ONE, {"name": "residual", "dt": 0.1}, 20),
    "rescaled euler": shown(GAUSSIAN, ONE, {"name": "rescaled-layers", "dt": 0.1}, 20),
    "small steps": shown(SQUARE, HARD, layers(gamma=0.1), 20),
    "shrinking steps": shown(SQUARE, HARD, layers(gamma="1 / (t + 2)"), 20),
    "line": shown([[-1.0], [0.3], [2.0]], ONE, {"name": "rescaled-flow"}, 10.0),
    "sphere": shown(CIRCLE, ONE, {"name": "sphere-flow"}, 20.0),
    "sphere with a form": shown(CIRCLE, {**ONE, "B": [[2, 0], [0, 1]]}, {"name": "sphere-flow"}, 20.0),
    "unnormalised": shown(CIRCLE, ONE, {"name": "sphere-flow", "normalized": False}, 10.0),
    "sphere with values": shown(CIRCLE, ONE, {"name": "sphere-flow", "V": [[-1, 0], [0, -1]]}, 10.0),
    "sphere in layers": shown(CIRCLE, ONE, {"name": "sphere-layers", "dt": 0.5}, 20),
}  # fmt: skip

CELLS = {"fw/cells", "fw/voronoi", "fw/own-cell", "fw/own-cell/repaired"}
HARDMAX_CLAIMS = {claim.id for claim in af.claims.all() if claim.paper.short == "hardmax"}
LOCALMAX = {
    "localmax/hull", "localmax/norms", "localmax/neighbours-converge", "localmax/no-finite-time",
    "localmax/cluster-gap", "localmax/constant-converges",
}  # fmt: skip
GENERIC = {"fw/straight-lines", "fw/exponential-rate", "fw/exponential-rate/repaired", "fw/single-leader"}
CHAIN = {"fw/metastable", "fw/metastable/repaired", "fw/metastable/staged"}
IDENTITY = {"emergence/polytope", "emergence/polytope/rank", "emergence/distances", "emergence/no-consensus"}
ANY_VALUES = {"emergence/growth", "emergence/hyperplanes", "emergence/polytope-times-subspace"}
# The mean-field limit compares two clouds, the control of neural ODEs has targets, and Keller-Segel is no attention.
NEVER = {
    "emergence/mean-field", "emergence/keller-segel", "neuralode/controllability", "neuralode/controllability/repaired",
}  # fmt: skip

# For each screen: claims that are about it, and others that are about something similar.
ABOUT: dict[str, tuple[set[str], set[str]]] = {
    "hardmax": (
        CELLS | GENERIC | HARDMAX_CLAIMS | {"fw/hull-shrinks/repaired", "fw/duality-gap", "fw/hull-shrinks"},
        # Steps 2/(t + 2) with -B; the equation; softmax; no random cloud.
        {"fw/cluster-rate", "fw/ode", "fw/collapse", "fw/gaussian-own-cell", "localmax/hull"},
    ),
    "hardmax of a random cloud": (CELLS | GENERIC | HARDMAX_CLAIMS | {"fw/gaussian-own-cell"}, {"fw/exit-time"}),
    # Its first step is gamma = 1, which is no alpha / (1 + alpha).
    "frank-wolfe": (
        {"fw/cluster-rate", "fw/cluster-rate/repaired", "fw/hull-shrinks/repaired"} | CELLS, HARDMAX_CLAIMS,
    ),
    "matrix step": ({"fw/hull-shrinks"} | CELLS, {"fw/hull-shrinks/repaired", "hardmax/hull", "fw/straight-lines"}),
    "hardmax flow": ({"fw/ode"} | CELLS, {"fw/straight-lines", "emergence/polytope"}),
    "softmax": ({"fw/collapse", "fw/collapse-to-origin"}, CELLS | {"emergence/distances", "fw/metastable"}),
    "softmax with a form": (set(), {"fw/collapse", "fw/collapse-to-origin"}),
    "leaps": ({"fw/collapse", "fw/collapse-to-origin"}, CHAIN),
    "polygon": ({"fw/exit-time"} | CHAIN, {"fw/collapse", "fw/first-phase"}),
    "jumps": (CHAIN | {"fw/first-phase", "fw/first-phase/repaired"}, {"fw/exit-time", "fw/collapse"}),
    "localmax": (
        LOCALMAX | {"localmax/lyapunov/directed", "localmax/leaders-move", "localmax/vanishing"}, HARDMAX_CLAIMS,
    ),
    "relative": (LOCALMAX, {"localmax/lyapunov/directed", "localmax/leaders-move"}),
    "vanishing": (LOCALMAX | {"localmax/vanishing"}, {"localmax/leaders-move"}),
    "confidence": ({"localmax/lyapunov"}, LOCALMAX),
    "rescaled": (IDENTITY | ANY_VALUES, {"emergence/negative-identity", "fw/ode"}),
    "growing": (IDENTITY | ANY_VALUES, {"emergence/polytope/pair", "emergence/negative-identity"}),  # B = 2 I
    "two speeds": (ANY_VALUES | {"emergence/codimension-k/repaired"}, IDENTITY),
    "repelled": ({"emergence/negative-identity", "emergence/growth"}, IDENTITY),
    "euler": ({"emergence/distances", "emergence/no-consensus"}, {"emergence/growth", "emergence/polytope"}),
    "rescaled euler": ({"emergence/distances", "emergence/no-consensus"}, {"emergence/polytope"}),
    "small steps": (GENERIC | HARDMAX_CLAIMS, {"fw/cluster-rate"}),
    "shrinking steps": (GENERIC | HARDMAX_CLAIMS | {"fw/duality-gap"}, {"fw/cluster-rate", "fw/hull-shrinks"}),
    "line": ({"emergence/boolean", "emergence/bounded-extreme"} | IDENTITY, {"sphere/collapse"}),
    "sphere": (
        {"sphere/collapse", "sphere/energy", "sphere/hemisphere", "sphere/staircase"}, {"sphere/hemisphere-discrete"},
    ),
    "sphere with a form": ({"sphere/hemisphere"}, {"sphere/collapse", "sphere/energy"}),
    "unnormalised": ({"sphere/collapse", "sphere/energy", "sphere/hemisphere"}, {"sphere/hemisphere-discrete"}),
    "sphere with values": (set(), {"sphere/collapse", "sphere/hemisphere"}),
    "sphere in layers": ({"sphere/hemisphere-discrete"}, {"sphere/hemisphere"}),
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_claims_are_about_what_is_on_the_screen(name: str) -> None:
    found = {claim.id for claim, _ in applicable(STATES[name])}
    must, must_not = ABOUT[name]
    assert must - found == set()
    assert (must_not | NEVER) & found == set()


# Verdicts, against `check` on instances written by hand

x8 = af.tokens.gaussian(n=8, d=2, seed=1)
circle = af.tokens.sphere(n=6, d=2, seed=0)
INSTANCES: list[tuple[str, str, dict[str, Any]]] = [
    ("hardmax", "fw/straight-lines", {"tokens": SQUARE, "gamma": 0.5, "steps": 30}),
    ("hardmax", "hardmax/limits", {"tokens": SQUARE, "alpha": 1.0, "steps": 30}),
    ("hardmax", "fw/exponential-rate/repaired", {"tokens": SQUARE, "gamma": 0.5, "c": 0.5, "steps": 30}),
    ("hardmax", "fw/hull-shrinks", {"tokens": SQUARE, "V": np.eye(2), "steps": 30}),
    ("hardmax of a random cloud", "hardmax/follower-rate", {"tokens": x8, "alpha": 1.0, "steps": 20}),
    ("frank-wolfe", "fw/cluster-rate", {"tokens": TRIANGLE, "B": -np.eye(2), "steps": 40}),
    ("frank-wolfe", "fw/cluster-rate/repaired", {"tokens": TRIANGLE, "B": -np.eye(2), "steps": 40}),
    ("frank-wolfe", "fw/own-cell", {"tokens": TRIANGLE, "B": -np.eye(2)}),
    ("matrix step", "fw/hull-shrinks", {"tokens": SQUARE, "V": [[1, 0], [0, 2]], "steps": 10}),
    ("hardmax flow", "fw/ode", {"tokens": SQUARE, "until": 5.0}),
    ("softmax", "fw/collapse-to-origin", {"tokens": x8, "beta": 4.0, "gamma": 0.5, "steps": 20}),
    ("vanishing", "localmax/vanishing", {"tokens": x8, "delta": "0.1 * 0.5 ** t", "gamma": 0.5, "steps": 20}),
    ("relative", "localmax/hull", {"tokens": x8, "delta": 0.1, "threshold": "relative", "gamma": 0.5, "steps": 10}),
    ("confidence", "localmax/lyapunov", {"tokens": x8, "eps": 1.0, "gamma": 1.0, "steps": 10}),
    ("growing", "emergence/distances", {"tokens": x8, "B": 2 * np.eye(2), "until": 2.0}),
    ("small steps", "fw/exponential-rate/repaired", {"tokens": SQUARE, "gamma": 0.1, "c": 0.1, "steps": 20}),
    ("shrinking steps", "fw/duality-gap",
     {"tokens": SQUARE, "gamma": "1 / (t + 2)", "beta": "1 / (t + 2)", "steps": 20}),
    ("rescaled euler", "emergence/distances", {"tokens": x8, "dt": 0.1, "steps": 20}),
    ("euler", "emergence/no-consensus", {"tokens": x8, "dt": 0.1, "steps": 20}),
    ("repelled", "emergence/negative-identity", {"tokens": x8, "until": 20.0}),
    ("line", "emergence/boolean", {"tokens": [[-1.0], [0.3], [2.0]], "until": 10.0}),
    ("two speeds", "emergence/hyperplanes", {"tokens": x8, "V": [[1, 0], [0, 0.5]], "until": 6.0}),
    ("sphere", "sphere/hemisphere", {"tokens": circle, "beta": 1.0, "until": 20.0}),
    ("unnormalised", "sphere/energy", {"tokens": circle, "beta": 1.0, "normalized": False, "until": 10.0}),
    ("sphere in layers", "sphere/hemisphere-discrete", {"tokens": circle, "beta": 1.0, "dt": 0.5, "steps": 20}),
    ("polygon", "fw/exit-time", {"k": 3, "beta": 4.0, "gamma": 0.1, "runs": 100}),
]  # fmt: skip


def test_a_check_that_ends_before_the_screen_does_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaps go on for 10^6 steps, these layers for 70, and 60 are looked at; cells are about the start alone."""
    monkeypatch.setattr("attnflow.explorer.applicable_claims.MOST_STEPS", 60)
    leaping = verdict_on("fw/collapse", STATES["leaps"])
    assert leaping["outcome"] == "undecided"
    assert "the screen goes on to" in leaping["because"]
    said = verdicts(shown(SQUARE, HARD, layers(gamma=0.5), 70))
    assert {id for id, verdict in said.items() if verdict["outcome"] == "holds"} <= CELLS
    assert said["fw/own-cell/repaired"]["outcome"] == "holds"


def test_a_formula_is_compared_at_every_step() -> None:
    """Steps that leave 2 / (t + 2), or a delta that leaves its geometric decay, late: the theorems are about others."""
    late = shown([[3.0], [-1.0]], {**HARD, "B": [[-1.0]]}, layers(gamma="max(2 / (t + 2), 0.06)"), 200)
    assert "fw/cluster-rate" not in {claim.id for claim, _ in applicable(late)}
    delta = {"name": "localmax", "delta": "0.1 * 0.5**t + max(0, t - 31)"}
    wide = shown(SQUARE, delta, layers(gamma=0.5), 100)
    vanishing = verdict_on("localmax/vanishing", wide)
    assert {"name": "sum delta(t) finite", "outcome": "undecided"} in vanishing["given"]
    assert vanishing["outcome"] == "undecided"


def test_copies_that_a_claim_counts_once_leave_it_undecided() -> None:
    doubled = shown([*SQUARE, SQUARE[0]], HARD, layers(gamma=0.5), 20)
    said = verdicts(doubled)
    assert said["fw/straight-lines"]["outcome"] == "undecided"
    assert said["hardmax/hull"]["outcome"] == "holds"


def test_one_claim_that_cannot_be_checked_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any) -> Any:
        raise TypeError("no")

    monkeypatch.setattr("attnflow.explorer.applicable_claims.examine", broken)
    said = verdicts(STATES["hardmax"])
    assert len(said) > 10
    assert {verdict["outcome"] for verdict in said.values()} == {"undecided"}


# Flows whose verdicts take a second or more, of the same kind as others.
LONG = {"emergence/negative-identity", "emergence/boolean"}


@pytest.mark.parametrize(
    ("name", "id", "instance"),
    [
        pytest.param(name, id, given, marks=[larger] if id in LONG else [], id=f"{name}: {id}")
        for name, id, given in INSTANCES
    ],
)
def test_verdicts_are_those_of_check(name: str, id: str, instance: dict[str, Any]) -> None:
    said, verdict = said_on(id, STATES[name]), af.check(id, **instance)
    assert (said["outcome"], said["because"], said["certified"]) == (
        verdict.outcome,
        verdict.because,
        verdict.certified,
    )
    assert said["margin"] == pytest.approx(verdict.margin, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["hardmax", "frank-wolfe", "jumps", "vanishing", "line", "sphere"])
def test_answers_are_plain_and_hypotheses_agree_with_verdicts(name: str) -> None:
    answers = [json.loads(json.dumps(answer, allow_nan=False)) for answer in said_about(STATES[name])]
    listed, *said, done = answers
    assert (listed["kind"], done) == ("claims", {"kind": "done"})
    assert listed["others"] + len(listed["claims"]) == len(af.claims.all())
    assert sorted(claim["claim"] for claim in listed["claims"]) == sorted(verdict["claim"] for verdict in said)
    given = {claim["claim"]: claim["given"] for claim in listed["claims"]}
    for verdict in said:
        claim, outcomes = af.claims.get(verdict["claim"]), [each["outcome"] for each in verdict["given"]]
        assert [each["name"] for each in verdict["given"]] == given[claim.id] == list(claim.given)
        assert set(outcomes) <= {"holds", "fails", "undecided"}
        if verdict["outcome"] == "holds":
            assert set(outcomes) <= {"holds"}
        if verdict["outcome"] == "hypotheses not met":
            assert "fails" in outcomes


# Drags: one token moves, one hypothesis breaks, the verdict changes

ANGLES = np.deg2rad([20, 60, 100, 140, 160])
HALF = np.column_stack([np.cos(ANGLES), np.sin(ANGLES)]).tolist()
BELOW = [0.5, -(0.75**0.5)]
DRAGS: list[tuple[str, str, State, int, list[float]]] = [
    ("fw/straight-lines", "generic polytope", STATES["hardmax"], 4, [3.0, 0.2]),
    ("fw/exponential-rate/repaired", "generic polytope", STATES["hardmax"], 4, [3.0, 0.2]),
    ("fw/voronoi", "all J(v_i) are equal", STATES["hardmax"], 0, [1.1, 1.0]),
    ("hardmax/first-leaders", "tokens distinct and not 0", STATES["hardmax"], 4, [0.0, 0.0]),
    ("fw/ode", "generic polytope", STATES["hardmax flow"], 4, [3.0, 0.2]),
    ("fw/cluster-rate", "0 in K^0", STATES["frank-wolfe"], 0, [-3.0, 0.0]),
    ("emergence/boolean", "distinct tokens", STATES["line"], 1, [2.0]),
    ("sphere/hemisphere", "an open hemisphere", shown(HALF, ONE, {"name": "sphere-flow"}, 20.0), 0, BELOW),
    ("sphere/hemisphere-discrete", "an open hemisphere", shown(HALF, ONE, {"name": "sphere-layers"}, 40), 0, BELOW),
]  # fmt: skip


@pytest.mark.parametrize(
    ("id", "hypothesis", "state", "token", "place"),
    [pytest.param(*drag, marks=[larger] if drag[0] in LONG else [], id=drag[0]) for drag in DRAGS],
)
def test_dragging_a_token_breaks_a_hypothesis(
    id: str, hypothesis: str, state: State, token: int, place: list[float]
) -> None:
    before = said_on(id, state)
    assert before["outcome"] == "holds"
    assert {"name": hypothesis, "outcome": "holds"} in before["given"]
    tokens = state.tokens.tolist()
    tokens[token] = place
    after = verdict_on(id, read({**state.data, "tokens": tokens}))
    assert after["outcome"] == "hypotheses not met"
    assert {"name": hypothesis, "outcome": "fails"} in after["given"]
    assert [each["outcome"] for each in after["given"]].count("fails") == 1
    assert hypothesis in after["because"]


# What cannot be checked


def test_a_check_that_cannot_be_carried_out_is_undecided_and_says_why() -> None:
    said = verdicts(shown(SQUARE, HARD, layers(gamma="sqrt(4 - t) / 4"), 10))
    assert said["fw/straight-lines"]["outcome"] == "undecided"
    assert "gamma(4) is 0" in said["fw/straight-lines"]["because"]
    assert {"name": "generic polytope", "outcome": "holds"} in said["fw/straight-lines"]["given"]
    assert said["fw/cells"]["outcome"] == "holds"


def test_large_clouds_are_too_many_for_runs_but_not_for_cells() -> None:
    said = verdicts(shown({**GAUSSIAN, "n": 250}, HARD, layers(gamma=0.5), 10))
    assert said["fw/cells"]["outcome"] == "holds"
    assert said["hardmax/limits"]["outcome"] == "undecided"
    assert "250" in said["hardmax/limits"]["because"]
    assert {each["outcome"] for each in said["hardmax/limits"]["given"]} == {"undecided"}


def test_going_on_after_a_claim_that_took_too_long() -> None:
    everything = list(said_about(STATES["hardmax"]))
    rest = list(check_applicable(STATES["hardmax"], done=3))
    assert rest[0]["claim"] == everything[3]["claim"]
    assert (rest[0]["outcome"], "too long" in rest[0]["because"]) == ("undecided", True)
    assert rest[1:] == everything[4:]


def test_a_new_claim_is_found_by_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnflow.claims.claim.REGISTER", REGISTER)
    setting = Setting(
        {"tokens": ..., "gamma": 0.5, "steps": 5},
        lambda given: (af.Hardmax(), af.Layers(gamma=given["gamma"])),
        lambda rng, k: {"tokens": rng.standard_normal((3, 2))},
    )
    try:
        HARDMAX.claim("brand-new", "nowhere", PROVED, setting, "There are tokens.")(lambda e: once("n > 0", 1.0))
        for name, yes in (("hardmax", True), ("frank-wolfe", False), ("softmax", False), ("hardmax flow", False)):
            assert ("hardmax/brand-new" in {claim.id for claim, _ in applicable(STATES[name])}) == yes
        assert verdict_on("hardmax/brand-new", STATES["hardmax"])["outcome"] == "holds"
    finally:
        REGISTER.pop("hardmax/brand-new", None)


@pytest.mark.parametrize("model", [lambda given: af.Softmax(), lambda given: 1 / 0])
def test_a_broken_claim_of_others_does_not_silence_the_rest(model: Any) -> None:
    state = STATES["softmax"]
    before = [claim.id for claim, _ in applicable(state)]
    setting = Setting({"tokens": ..., "steps": 3}, model, lambda rng, k: {})
    Paper("broken", "A. Reader", "Broken claims", "0000.00000").claim("one", "p. 1", "open", setting, "X.")(
        lambda e: []
    )
    try:
        assert [claim.id for claim, _ in applicable(state)] == before
    finally:
        del REGISTER["broken/one"]


def test_claims_about_one_class_are_not_about_others_of_its_name_or_kind() -> None:
    class Damped(af.RescaledFlow):
        def velocity(self, hearing: Any, x: Any, t: float) -> Any:
            return -x

    @dataclass(frozen=True, eq=False)
    class Hardmax(af.Law):
        """Uniform weights, under a name that is taken."""

        B: Any = None

        def log_weights(self, x: Any, t: float = 0, *, sources: Any = None, masses: Any = None) -> Any:
            n = len(x if sources is None else sources)
            return np.full((len(x), n), -np.log(n))

    rescaled, hard = STATES["rescaled"], STATES["hardmax"]
    assert applicable(rescaled)
    assert not applicable(replace(rescaled, motion=Damped()))
    assert applicable(hard)
    assert not applicable(replace(hard, law=Hardmax()))


def test_claims_about_masked_laws_are_found_for_any_beta() -> None:
    tokens = {"cloud": "sphere", "n": 5, "d": 2, "seed": 0}
    base = {"tokens": tokens, "motion": {"name": "sphere-flow"}, "until": 3}

    def about(**law: Any) -> set[str]:
        state = read({**base, "law": {"name": "softmax", **law}})
        return {claim.id for claim, _ in applicable(state) if claim.id.startswith("causal/")}

    first, matrix = "causal/first-token", [[1.0, 0.5], [0.0, 1.0]]
    assert {first, "causal/two-points/repaired"} <= about(beta=9.0, causal=True)
    assert about(beta=2.0, B=matrix, causal=True) == {first, "causal/two-points"}
    # A beta that is 1 at the start alone, and masks that the claims are not about.
    for other in ({"beta": "1 + t", "causal": True}, {"causal": True, "window": 2}, {"causal": True, "rope": 0.1}, {}):
        assert about(**other) == set()
