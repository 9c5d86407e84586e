"""Stories are data: read strictly, refused in one sentence, and true, by runs computed here."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from larger import larger
from modules import importing
from numpy.typing import NDArray

import attnflow as af
from attnflow.app.cli import main
from attnflow.core.inputs import InputError
from attnflow.explorer import stories, story_facts
from attnflow.explorer.applicable_claims import check_applicable
from attnflow.explorer.server import _stories
from attnflow.explorer.state import arguments
from attnflow.explorer.state import read as read_state
from attnflow.explorer.story_conditions import CONDITIONS
from attnflow.explorer.story_facts import MEASURES, Screen, met, opened, untrue, untrue_in

ROOT = Path(__file__).parents[2]
FOLDER = Path(stories.__file__).with_name("stories")
ALL = {story.name: story for story in stories.shipped()}
# These take a second or more each, since their runs are long or random.
LONG = ("causal", "hyperplanes", "noise", "sinkhorn", "staircase")

Array = NDArray[np.float64]

SHORT = """
name = "short"
title = "A short story"
[[step]]
say = "Two tokens meet."
task = "Press play."
reaction = "They met."
goal = [{what = "time", at_least = 9}]
answer = {time = 9}
truth = [{what = "ends", at = "mean", at_most = 0.01}]
[step.state]
tokens = [[0.0], [1.0]]
law = {name = "softmax", beta = 0}
motion = {name = "layers", gamma = 0.5}
until = 9
"""


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [pytest.param(name, marks=larger if name in LONG else ()) for name in ALL])
def test_a_story_is_true_and_its_goals_are_reached_by_its_answers_alone(name: str) -> None:
    assert list(untrue(ALL[name])) == []
    for step in ALL[name].steps:
        assert step.truth, "what a step says of the run is to be checked"
        assert step.answer
        assert step.hint


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("attention", "beta = 0 }", "beta = 3 }"),
        ("attention", "beta = 6 }, time", "beta = 2 }, time"),
        ("attention", "seed = 7", "seed = 8"),
        ("attention", "[0.98, 0.17]", "[0.98, 0.97]"),
        ("attention", "beta = 14 }", "beta = 9 }"),
        ("polytope", "seed = 9", "seed = 8"),
        ("quiescent", "delta = 0.0,", "delta = 0.8,"),
        ("leaders", "[1.0, 0.9]", "[1.2, 0.9]"),
        ("normalisation", 'norm = "pre" }', 'norm = "peri" }'),
        pytest.param("hyperplanes", "[[1.0, 0.0], [0.0, 0.3]]", "[[0.3, 0.0], [0.0, 1.0]]", marks=larger),
    ],
)
def test_a_story_with_another_number_is_found_untrue(name: str, old: str, new: str) -> None:
    assert old in text_of(name)
    changed = stories.read(text_of(name).replace(old, new, 1))
    # The others are as they were, and true.
    touched = [
        step
        for step, before in zip(changed.steps, ALL[name].steps, strict=True)
        if (step.state.data, step.answer) != (before.state.data, before.answer)
    ]
    assert any(next(untrue_in(step), None) for step in touched)


@pytest.mark.parametrize(
    ("name", "step", "change"),
    [
        ("quiescent", 2, {"law": {"delta": 1.2}}),
        ("quiescent", 2, {"law": {"delta": 1.5}}),
        ("sinkhorn", 2, {"law": {"name": "sinkhorn", "beta": 6}}),
        ("noise", 3, {"motion": {"name": "sphere-flow", "kappa": None, "dt": None}}),
        ("staircase", 3, {"law": {"beta": -5}}),
    ],
)
def test_a_goal_is_not_reached_by_what_the_reaction_is_not_true_of(name: str, step: int, change: Any) -> None:
    """The conditions on parameters alone refuse these, whatever the run does; each answer meets them all."""
    one = ALL[name].steps[step - 1]
    conditions = [each for each in one.goal if each["what"] in ("parameter", "model")]
    opening, other = opened(one), read_state(stories.changed(one.state.data, change))
    assert not all(met(each, Screen(other, one.time, one.show), opening)[0] for each in conditions)
    assert all(met(each, story_facts.answered(one), opening)[0] for each in conditions)


def test_tokens_that_meet_need_not_meet_at_their_mean() -> None:
    """So the reaction to one cluster does not say so."""
    step = ALL["quiescent"].steps[3]
    screen = Screen(read_state(stories.changed(step.state.data, {"law": {"delta": 2.0}})), step.time, step.show)
    assert all(met(each, screen, opened(step))[0] for each in step.goal)
    assert met({"what": "ends", "at": "mean", "at_least": 0.5}, screen, screen)[0]
    assert "With a still larger delta they meet at the average" in step.reaction


def test_a_leader_is_whom_a_token_hears_itself_included() -> None:
    for name, step in (("attention", 3), ("leaders", 1)):
        x = ALL[name].steps[step - 1].state.tokens
        heard = (x @ x.T).argmax(axis=1)
        assert any(heard == np.arange(len(x)))
        assert "hears a single token" in ALL[name].steps[step - 1].say
    # Of the four leaders of the first story one hears another.
    x = ALL["attention"].steps[2].state.tokens
    heard = (x @ x.T).argmax(axis=1)
    leaders = np.unique(heard)
    assert (len(leaders), int((heard[leaders] == leaders).sum())) == (4, 3)


def run_of(name: str, step: int) -> tuple[Array, Any]:
    state = ALL[name].steps[step - 1].state
    return state.tokens, af.simulate(**arguments(state))


def test_what_the_first_story_says_by_other_means() -> None:
    """The same sentences, found with other functions than those that read `truth`."""
    x, run = run_of("attention", 1)
    np.testing.assert_allclose(run.final, np.tile(x.mean(axis=0), (len(x), 1)), atol=1e-3)
    for beta in (4.0, 5.5, 7.0, 12.0, 40.0, 400.0):
        final = af.simulate(x, af.Softmax(beta=beta), af.Layers(gamma=0.2), until=40).final
        assert len(np.unique((final / 0.5).round(), axis=0)) >= 3
        assert len(_far_apart(final, 0.5)) == 3
    # Leaders: those with the largest score for somebody, corners of the hull.
    leaders = {int(j) for j in np.argmax(x @ x.T, axis=1)}
    assert leaders == set(af.geometry.hull(x).indices.tolist())
    assert len(leaders) == 4

    x, run = run_of("attention", 5)
    corners = x[af.geometry.hull(x).indices]
    for path in np.moveaxis(run.tokens, 1, 0):
        corner = corners[np.argmax(corners @ path[0])]
        way, off = corner - path[0], path - path[0]
        assert np.abs(way[0] * off[:, 1] - way[1] * off[:, 0]).max() < 1e-12
        assert np.linalg.norm(path[-1] - corner) < 0.01
    # A corner that is not in its own cell, after the answer of the next step.
    moved = story_facts.answered(ALL["attention"].steps[5]).state.tokens
    corner = af.geometry.hull(moved).indices
    assert (moved[corner] @ moved[corner].T).argmax(axis=1).tolist() != list(range(len(corner)))

    # Single layers are the first of very many; then the same clusters at 10^12, and two of them at 10^13.
    x, run = run_of("attention", 7)
    plain = af.simulate(x, af.Softmax(beta=14.0), af.Layers(gamma=0.2), until=100).final
    times = np.array([float(t) for t in run.times])
    early, late = (run.tokens[np.searchsorted(times, t, side="right") - 1] for t in (1e12, 1e13))
    np.testing.assert_allclose(early, plain, atol=0.01)
    assert len(_far_apart(early, 0.1)) == 3
    assert len(_far_apart(late, 0.1)) == 2
    assert 1e12 < af.simulate(x, af.Softmax(beta=14.0), af.Layers(gamma=0.2), until=200).next_change.time < 1e13


def _far_apart(x: Array, distance: float) -> list[Array]:
    """Return some tokens, none within the distance of another one, and each other one within it of one of them."""
    kept: list[Array] = []
    for row in x:
        if all(np.linalg.norm(row - one) > distance for one in kept):
            kept.append(row)
    return kept


def test_what_the_emergence_stories_say_by_other_means() -> None:
    x, run = run_of("polytope", 1)
    areas = [_area(frame) for frame in run.tokens[:: len(run.tokens) // 10]]
    assert all(after <= before + 1e-9 for before, after in pairwise(areas))
    assert areas[-1] < areas[0]

    x, run = run_of("hyperplanes", 1)
    V = np.array(ALL["hyperplanes"].steps[0].state.data["motion"]["V"])
    values, left = np.linalg.eig(V.T)
    assert (values > 0).sum() == 1
    along = left[:, values.argmax()]
    # Each line is that of the token farthest out; the upper one is token 13, a star at the upper right.
    levels, start = run.final @ along, x @ along
    high, low = start.max(), start.min()
    assert np.minimum(abs(levels - high), abs(levels - low)).max() < 0.01
    assert 13 in (start.argmax(), start.argmin())
    assert x[13].min() > 4.5


def test_five_tokens_are_on_the_axis_and_hear_two_leaders_alike() -> None:
    x, run = run_of("leaders", 2)
    axis = np.flatnonzero(x[:, 1] == 0)
    assert len(axis) == 5
    assert 6 in axis
    for i in axis:
        scores = x @ x[i]
        heard = x[scores == scores.max()]
        assert len(heard) == 2
        np.testing.assert_allclose(run.final[i], heard.mean(axis=0), atol=1e-3)


def _area(x: Array) -> float:
    v = x[af.geometry.hull(x).indices]
    v = v[np.argsort(np.arctan2(*(v - v.mean(axis=0)).T))]
    return 0.5 * abs(float(np.sum(v[:, 0] * np.roll(v[:, 1], 1) - v[:, 1] * np.roll(v[:, 0], 1))))


@larger
def test_the_energy_on_the_circle_climbs_a_staircase() -> None:
    state = ALL["staircase"].steps[0].state
    (verdict,) = (a for a in check_applicable(state, only="sphere/staircase") if a["kind"] == "verdict")
    assert verdict["outcome"] == "holds"


@larger
@pytest.mark.parametrize("degrees", [0, 45, 90, 135, 200, 250, 300])
def test_wherever_the_first_token_is_put_the_others_end_there(degrees: float) -> None:
    step = ALL["causal"].steps[1]
    x = step.state.tokens.copy()
    x[0] = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    final = af.simulate(**{**arguments(step.state), "tokens": x}).final
    np.testing.assert_allclose(final, np.tile(x[0], (len(x), 1)), atol=1e-3)


def test_measures_of_a_run_that_is_known() -> None:
    """Two tokens and a mean: all of it in closed form."""
    step = stories.read(SHORT).steps[0]
    screen = opened(step)

    def found(**one: Any) -> bool:
        return met(one, screen, screen)[0]

    # Each goes half the way to 1/2 in every step.
    assert found(what="way", **{"from": 0, "to": 2}, at_least=0.37, at_most=0.38)
    assert found(what="clusters at", time=0, **{"is": 2})
    assert found(what="ends", at="mean", at_least=0.5**10 - 1e-12, at_most=0.5**10 + 1e-12)
    assert not found(what="ends", at="mean", at_most=0.5**11)
    assert found(what="mean", time=9, at_least=0.5 - 1e-9, at_most=0.5 + 1e-9)
    assert found(what="bend", at_most=0)
    assert found(what="drift", at_most=1e-12)
    assert found(what="tokens", **{"is": 2})
    assert found(what="parameter", key="law.beta", at_most=0)
    assert not found(what="time", at_least=9)
    assert met({"what": "time", "at_least": 9}, Screen(step.state, 9, ()), screen)[0]
    assert MEASURES.keys() == CONDITIONS.keys()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("goal = [", "gaol = [", "step 1: a key of a step is 'gaol', expected one of say, task"),
        ('what = "time", at_least', 'what = "tiem", at_least', "step 1: what a condition is about is 'tiem'"),
        ('"time", at_least = 9', '"time", at_leas = 9', "step 1: a key of 'time' is 'at_leas'"),
        (", at_least = 9}]\nanswer", "}]\nanswer", "step 1: the condition 'time' compares with nothing"),
        ('"time", at_least = 9', '"moved", token = 2', "step 1: token is 2, but the tokens are 0 to 1"),
        ('"time", at_least = 9', '"parameter", key = "law.bta", at_least = 1', "the parameter of softmax is 'bta'"),
        ('"time", at_least = 9', '"overlay", name = "stars"', "the name in 'overlay' is 'stars', expected one of cel"),
        ('"time", at_least = 9', '"claim", claim = "fw/no", outcome = "holds"', "there is no claim 'fw/no'"),
        ('"time", at_least = 9', '"bend", at_most = 1', "step 1: what a condition is about is 'bend'"),
        ("gamma = 0.5", "gamma = 5", "step 1: gamma"),
        ("until = 9\n", "until = 9\nfile = 3\n", "step 1: a key of the state is 'file'"),
        ('say = "Two tokens meet."', "", "step 1: 'say' is missing"),
        ("Two tokens meet.", "x" * 241, "step 1: 'say' is not a text of at most 240"),
        ('"Two tokens meet."', "7", "step 1: 'say' is not a text"),
        ('name = "short"', 'name = "3"', "the name is '3', expected small letters"),
        ("[[step]]", "[step]", "there are no steps"),
        ("title =", "keep = true\ntitle =", "a key of a story is 'keep'"),
        ("goal = [", "keep = true\ngoal = [", "keep is for a later step"),
        ('title = "A', "title = A", "is not TOML"),
        ("answer = {time = 9}", "answer = {move = {token = 1}}", "step 1: move of the answer is no table such as"),
        ("answer = {time = 9}", 'answer = {time = "nine"}', "step 1: time of the answer is"),
        ("answer = {time = 9}", "answer = {choose = 2}", "step 1: token of the answer is 2, but the tokens are 0 to 1"),
        ("answer = {time = 9}", 'answer = {move = {token = "a", to = [1]}}', "step 1: token of the answer is"),
        ("answer = {time = 9}", "answer = {move = {token = 1.5, to = [1]}}", "step 1: token of the answer is"),
        ("answer = {time = 9}", "view = {show = ['stars']}", "step 1: an overlay to show is 'stars'"),
        ("answer = {time = 9}", "view = {show = 'cells'}", "step 1: show is no list, expected some of cells"),
        ("answer = {time = 9}", "view = 3", "step 1: the view is no table"),
        ("answer = {time = 9}", "answer = 9", "step 1: the answer is no table"),
        ('truth = [{what = "ends", at = "mean", at_most = 0.01}]', "truth = 9", "step 1: truth is no list"),
        ('"ends", at = "mean"', '"levels", along = 3', "step 1: along is no list of 1 numbers"),
        ("at_most = 0.01", "at_most = 0.01, given = 3", "step 1: given is no table"),
        ('goal = [{what = "time", at_least = 9}]', "", "step 1: the step has no goal"),
        ('goal = [{what = "time", at_least = 9}]', "goal = [3]", "step 1: a condition is no table"),
        ('"time", at_least = 9', '"time", at_least = true', "step 1: at_least is true or false, expected a number"),
        ('"time", at_least = 9', '"overlay"', "step 1: the condition 'overlay' does not say 'name'"),
        ('"time", at_least = 9', '"parameter", key = 3, at_least = 9', "step 1: key is no text: put it in quotation"),
        ('"time", at_least = 9', '"overlay", name = "hull", on = 3', "step 1: on is 3, expected true or false"),
        ('"time", at_least = 9', '"unchanged", parts = "law"', "step 1: parts is no list, expected some of"),
    ],
)
def test_a_story_that_is_not_one_is_refused_in_one_sentence(old: str, new: str, said: str) -> None:
    assert old in SHORT
    with pytest.raises(InputError) as refused:
        stories.read(SHORT.replace(old, new, 1), "lesson.toml")
    sentence = str(refused.value)
    assert sentence.startswith("lesson.toml")
    assert said in sentence
    assert "\n" not in sentence


def test_a_story_of_ones_own_is_checked_before_it_is_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lesson.toml"

    def said(text: str) -> str:
        path.write_text(text, encoding="utf-8")
        assert main(["explore", "--no-browser", "--port", "0", "--story", str(path)]) == 2
        sentence = capsys.readouterr().err
        assert sentence.count("\n") == 1
        return sentence

    assert "step 1: a key of a step is 'gaol'" in said(SHORT.replace("goal", "gaol"))
    assert "is not true, found: 0.000976" in said(SHORT.replace("at_most = 0.01", "at_most = 0.0001"))
    assert "its answer does not reach" in said(SHORT.replace("answer = {time = 9}", "answer = {time = 8}"))
    assert "its goal is reached before anything is done" in said(SHORT.replace("at_least = 9", "at_least = 0"))
    ends = '{what = "ends", at = "mean", at_most = 0.01}'
    for truth, sentence in (
        (
            '{what = "quiescent", time = 9, is = 1}',
            "short, step 1: the overlay 'quiescent' is missing here, since under",
        ),
        ('{what = "clusters at", time = 100, is = 1}', "short, step 1: the run ends at 9, before the time 100"),
        ('{what = "cosine", time = 0, at_least = 0}', "short, step 1: token 0 is at 0, where it has no direction"),
    ):
        assert f"{path}: {sentence}" in said(SHORT.replace(ends, truth))
    missing = main(["explore", "--no-browser", "--story", str(tmp_path / "none.toml")])
    assert missing == 2
    assert "cannot be read (No such file or directory)" in capsys.readouterr().err


def test_the_page_is_given_all_stories_and_one_of_ones_own() -> None:
    served = json.loads(_stories(None))
    assert served[0]["name"] == stories.MAIN
    assert {one["name"] for one in served} == ALL.keys()
    assert "truth" not in json.dumps(served)
    own = stories.read(SHORT)
    assert [one["name"] for one in json.loads(_stories(own))][-1] == "short"
    replaced = json.loads(_stories(stories.read(SHORT.replace('"short"', '"attention"'))))
    assert [len(one["steps"]) for one in replaced if one["name"] == "attention"] == [1]


def test_a_state_changes_in_parts() -> None:
    law = {"name": "softmax", "beta": 1, "causal": True}
    data = {"law": law, "until": 3}
    assert stories.changed(data, {"law": {"beta": 2}})["law"] == {**law, "beta": 2}
    assert stories.changed(data, {"law": {"name": "localmax", "delta": 1}})["law"] == {"name": "localmax", "delta": 1}
    assert stories.changed(data, {"until": 9}) == {"law": law, "until": 9}


def test_the_page_knows_the_same_conditions_and_judges_them_alike() -> None:
    square = [[1.0, 0.0], [0.0, 1.0]]
    state = {"tokens": square, "law": {"name": "softmax", "beta": 2}, "motion": {"name": "layers", "norm": "pre"},
             "until": 9, "clock": "linear"}  # fmt: skip
    opening = {"state": copy.deepcopy(state), "rows": square, "cells": [0, 1], "time": 0, "show": {}}
    verdict = {"outcome": "holds", "given": [{"name": "h", "outcome": "fails"}]}
    seen: dict[str, Any] = {
        "state": state, "opening": opening, "time": 5, "playing": False, "rows": [[1.0, 0.0], [0.5, 1.0]],
        "cells": [0, 0], "show": {"cells": True, "hull": False}, "chosen": 1, "clusters": 2, "claims": verdict,
    }  # fmt: skip
    other = {**seen, "state": {**state, "law": {"name": "softmax", "beta": "inf", "B": None}}}
    bare = {**seen, "state": {**state, "law": {"name": "softmax"}, "motion": {"name": "sphere-flow"}}}
    cases: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
        ({"what": "parameter", "key": "law.beta", "at_least": 2}, seen, True),
        ({"what": "parameter", "key": "law.beta", "at_least": 2.1}, seen, False),
        ({"what": "parameter", "key": "law.beta", "at_least": 2.1}, other, True),
        ({"what": "parameter", "key": "law.beta", "is": "inf"}, other, True),
        ({"what": "parameter", "key": "law.causal", "at_most": 0}, seen, True),
        ({"what": "parameter", "key": "motion.norm", "is": "pre"}, seen, True),
        ({"what": "parameter", "key": "motion.norm", "is": "post"}, seen, False),
        ({"what": "parameter", "key": "law.beta", "is": 1}, bare, True),
        ({"what": "parameter", "key": "law.beta", "at_most": 0}, bare, False),
        ({"what": "parameter", "key": "motion.kappa", "at_most": 0}, bare, True),
        ({"what": "model", "part": "law", "name": "softmax"}, seen, True),
        ({"what": "unchanged", "parts": ["law", "motion"]}, seen, True),
        ({"what": "unchanged", "parts": ["law"]}, other, False),
        ({"what": "unchanged", "parts": ["motion"]}, other, True),
        ({"what": "time", "at_least": 5}, seen, True),
        ({"what": "time", "at_least": 6}, seen, False),
        ({"what": "time", "at_least": 5}, {**seen, "time": None}, False),
        ({"what": "time", "at_least": 4, "at_most": 6}, {**seen, "playing": True}, False),
        ({"what": "time", "at_least": 4, "at_most": 6}, seen, True),
        ({"what": "until", "at_most": 8}, seen, False),
        ({"what": "clock", "name": "log"}, seen, False),
        ({"what": "moved"}, seen, True),
        ({"what": "moved", "token": 0}, seen, False),
        ({"what": "moved"}, {**seen, "rows": square}, False),
        ({"what": "moved"}, {**seen, "rows": [*square, [0, 0]]}, False),
        ({"what": "cell", "token": 1}, seen, True),
        ({"what": "cell"}, {**seen, "cells": [0, 1]}, False),
        ({"what": "cell"}, {**seen, "cells": [1, 1]}, False),
        ({"what": "cell"}, {**seen, "cells": [0, -1]}, False),
        ({"what": "cell"}, {**seen, "cells": None}, False),
        ({"what": "overlay", "name": "cells"}, seen, True),
        ({"what": "overlay", "name": "hull"}, seen, False),
        ({"what": "overlay", "name": "hull", "on": False}, seen, True),
        ({"what": "chosen"}, seen, True),
        ({"what": "chosen", "token": 0}, seen, False),
        ({"what": "chosen"}, {**seen, "chosen": -1}, False),
        ({"what": "tokens", "is": 2}, seen, True),
        ({"what": "clusters", "at_most": 1}, seen, False),
        ({"what": "clusters", "at_most": 2}, {**seen, "clusters": None}, False),
        ({"what": "claim", "claim": "a/b", "outcome": "holds"}, seen, True),
        ({"what": "claim", "claim": "a/b", "outcome": "holds"}, {**seen, "stale": True}, False),
        ({"what": "claim", "claim": "a/c", "outcome": "holds"}, seen, False),
        ({"what": "claim", "claim": "a/b", "hypothesis": "h", "outcome": "fails"}, seen, True),
        ({"what": "claim", "claim": "a/b", "hypothesis": "h", "outcome": "holds"}, seen, False),
        ({"what": "constructor"}, seen, False),
    ]
    with importing() as page:
        known, found = page.evaluate(
            """async (cases) => {
                const {KNOWN, met} = await import("/page/story_goals.js");
                const claims = (seen) => new Map([["a/b", {verdict: seen.claims, stale: Boolean(seen.stale)}]]);
                return [KNOWN, cases.map(([one, seen]) => met(one, {...seen, claims: claims(seen)}))];
            }""",
            [[one, screen] for one, screen, _ in cases],
        )
    assert known == [name for name, one in CONDITIONS.items() if one.seen]
    wrong = [(one, is_met) for (one, _, right), is_met in zip(cases, found, strict=True) if is_met != right]
    assert wrong == []
    # What the page alone has: a run that is not there yet, or plays.
    judged = [
        (one, screen, right)
        for one, screen, right in cases
        if one["what"] in MEASURES
        and one["what"] != "clusters"
        and not (screen["time"] is None or screen["cells"] is None or screen["playing"] or "stale" in screen)
    ]
    assert len(judged) > 30
    before = _as_seen({**seen, **opening, "chosen": -1})
    assert [(one, right) for one, screen, right in judged if met(one, _as_seen(screen), before)[0] != right] == []


def _as_seen(seen: dict[str, Any]) -> Screen:
    """Return a screen with what the page would see, without a run."""
    state = SimpleNamespace(
        data=seen["state"], tokens=np.array(seen["rows"]), until=seen["state"]["until"], clock=seen["state"]["clock"]
    )
    show = tuple(name for name, on in seen["show"].items() if on)
    chosen = seen["chosen"] if seen["chosen"] >= 0 else None
    screen = Screen(cast(Any, state), seen["time"], show, chosen, {"a/b": seen["claims"], "a/c": None})
    screen.__dict__ |= {"follows": seen["cells"], "run": SimpleNamespace(times=[0.0, 9.0])}
    return screen


def test_clusters_are_counted_as_the_page_counts_them() -> None:
    """Two dots at a distance that one radius of the picture covers, on a line of length 1: they look merged."""
    text = SHORT.replace("[[0.0], [1.0]]", "[[0.0], [0.01], [1.0]]").replace("beta = 0}", "beta = 0, window = 1}")
    step = stories.read(text).steps[0]
    screen = opened(step)
    np.testing.assert_array_equal(screen.at(9), step.state.tokens)
    assert met({"what": "clusters", "is": 2}, screen, screen)[0]
    assert met({"what": "clusters at", "time": 9, "is": 2}, screen, screen)[0]


def test_the_documented_story_is_one_and_the_table_of_conditions_is_complete() -> None:
    page = (ROOT / "docs" / "explorer.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    assert list(untrue(stories.read(example))) == []
    rows = re.findall(r"^\| `([a-z ]+)` \| (.*?) \| (.*?) \|$", page.split("### Conditions")[1], flags=re.MULTILINE)
    assert [name for name, _, _ in rows] == ["what", *CONDITIONS]
    for name, keys, meaning in rows[1:]:
        one = CONDITIONS[name]
        compares = ("at_least", "at_most", "is") if one.compares else ()
        said = re.findall(r"`([a-z_]+)`", keys)
        assert said == [*one.needs, *one.takes, *(["bounds"] if compares else [])]
        assert meaning.removesuffix(" (truth only)") == one.meaning
        assert meaning.endswith("(truth only)") != one.seen


def test_paper_pages_name_stories_that_exist() -> None:
    named = {
        page.stem: re.findall(r"#story/([a-z-]+)", page.read_text(encoding="utf-8"))
        for page in (ROOT / "docs" / "papers").glob("*.md")
    }
    assert {name for names in named.values() for name in names} <= ALL.keys()
    for paper in (
        "causal",
        "densities",
        "emergence",
        "frank_wolfe",
        "hardmax",
        "localmax",
        "normalisation",
        "sinkformers",
        "sphere",
    ):
        assert named[paper], paper


def test_story_files_hold_text_and_numbers_alone() -> None:
    for path in FOLDER.glob("*.toml"):
        assert tomllib.loads(path.read_text(encoding="utf-8"))["name"] == path.stem


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("step = [3]", "step 1: a step is no table: begin it with a line [[step]]"),
        (
            'step = [{say = "a", task = "b", reaction = "c", state = 3}]',
            "step 1: the state is no table, expected one with tokens, law, motion and until",
        ),
    ],
)
def test_a_step_or_a_state_that_is_no_table_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        stories.read(f'name = "short"\ntitle = "A"\n{text}\n', "lesson.toml")
    assert said in str(refused.value)


def test_a_true_story_is_returned(tmp_path: Path) -> None:
    path = tmp_path / "lesson.toml"
    path.write_text(SHORT, encoding="utf-8")
    assert story_facts.true_story(str(path)).name == "short"


def test_levels_are_counted_along_a_direction() -> None:
    """Two tokens that stay where they are have two levels in one direction, and one across it."""
    apart = SHORT.replace("[[0.0], [1.0]]", "[[-9.0, 0.0], [9.0, 0.0]]").replace("beta = 0", "beta = 9")
    opening = opened(stories.read(apart, "a").steps[0])
    found = [met({"what": "levels", "along": way, "equals": 2}, opening, opening)[1] for way in ([1, 0], [0, 1])]
    assert found == ["2", "1"]
