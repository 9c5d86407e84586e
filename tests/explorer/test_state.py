"""The state of the explorer: what is refused, what is run, and that its texts make the same run."""

from __future__ import annotations

import copy
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import attnflow as af
from attnflow.app import cli
from attnflow.core.inputs import Array
from attnflow.explorer import state as module
from attnflow.explorer.presets import PRESETS, Preset
from attnflow.explorer.run_stream import no_frames_yet, simulate_into
from attnflow.explorer.state import State, arguments, read
from attnflow.explorer.state_text import command, python

# More examples of each property, and whole runs, are for make test-all.
ALL = "ATTNFLOW_EXAMPLES" in os.environ

BASE: dict[str, Any] = {
    "tokens": {"cloud": "gaussian", "n": 12, "d": 2, "seed": 3},
    "law": {"name": "softmax", "beta": 4.0, "B": None},
    "motion": {"name": "layers", "gamma": 0.5},
    "until": 9,
    "seed": 0,
    "clock": "linear",
}


def state(**changes: Any) -> State:
    return read({**copy.deepcopy(BASE), **changes})


def final(shown: State) -> Array:
    return af.simulate(**arguments(shown)).final


# Arbitrary JSON


numbers = st.one_of(st.integers(), st.floats(), st.sampled_from([10**400, -(10**400), 1e308, 0, -1, 2**53 + 1]))
texts = st.one_of(
    st.text(max_size=8), st.sampled_from(["inf", "t", "1/(t+1)", "/etc/passwd", "layers", "log", "x" * 999])
)
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
tables = st.fixed_dictionaries({}, optional=dict.fromkeys(module.KEYS, anything))


def either_or(data: Any) -> None:
    """Read a state, or get one sentence."""
    try:
        shown = read(data)
    except af.InputError as error:
        sentence = str(error)
        assert "\n" not in sentence
        assert 0 < len(sentence) < 1000
        return
    json.dumps(shown.data, allow_nan=False)
    assert read(shown.data).data == shown.data
    assert 1 <= shown.tokens.shape[1] <= 3
    assert np.isfinite(shown.tokens).all()
    compile(python(shown), "script", "exec")
    assert "\n" not in command(shown)


@settings(max_examples=300 if ALL else 100)
@given(st.one_of(anything, tables))
def test_any_json_is_a_state_or_refused_in_a_sentence(data: Any) -> None:
    either_or(data)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where something can be replaced in JSON."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in parts for place in places(part, (*path, key)))]


GOOD: list[dict[str, Any]] = [
    BASE,
    {**BASE, "tokens": [[1.0, 2.0], [0.5, -1.0]], "law": {"name": "softmax", "beta": "inf", "B": [[1, 0], [0, 2]]}},
    {**BASE, "motion": {"name": "rescaled-flow", "V": [[1, 0], [0, 1]], "rtol": 1e-6}, "clock": "log"},
    {**BASE, "law": {"name": "localmax", "delta": "1 / (t + 1)", "threshold": "additive"}},
    {**BASE, "motion": {"name": "jumps", "gamma": 0.1, "literal": False}, "until": 1e25},
    {**BASE, "tokens": {"cloud": "polygon", "k": 5, "radius": 1.0, "angle": 0.5}},
    {**BASE, "tokens": {"cloud": "sphere", "n": 5, "d": 3, "seed": 1}, "motion": {"name": "sphere-flow"}},
]


def test_nothing_is_ever_read_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.csv").write_text("1,0\n0,1\n")
    for wrong in (
        {"tokens": "m.csv"},
        {"tokens": {"file": "m.csv"}},
        {"tokens": {"cloud": "gaussian", "n": 3, "d": 2, "file": "m.csv"}},
        {"law": {"name": "softmax", "B": "m.csv"}},
        {"motion": {"name": "rescaled-flow", "V": "m.csv"}},
        {"motion": {"name": "residual", "feed_forward": {"W": "m.csv"}}},
        {"law": {"name": "heads", "heads": [{"name": "softmax", "V": "m.csv"}]}},
    ):
        with pytest.raises(af.InputError):
            state(**wrong)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tokens": {"cloud": "gaussian", "n": 200_001, "d": 2}}, "n is 200001, expected a finite number at most 2000"),
        ({"tokens": {"cloud": "gaussian", "n": 5, "d": 4}}, "d is 4"),
        ({"tokens": {"cloud": "grid", "k": 80, "d": 3}}, "a grid of 80 tokens per axis has more than 200000"),
        ({"tokens": {"cloud": "orthogonal", "n": 4}}, "n is 4"),
        ({"tokens": [[0.0]] * 200_001}, "there are 200001 tokens"),
        ({"tokens": [[0.0] * 4]}, "a row of tokens has 4 numbers"),
        ({"tokens": [[0.0], [1e6 + 1]]}, "token 1 is farther than 1e+06"),
        ({"tokens": [[True, 1.0]]}, "a coordinate of tokens is true or false, expected a number"),
        ({"tokens": [["1", 1.0]]}, "a coordinate of tokens is a text"),
        ({"tokens": [[float("nan"), 1.0]]}, "not finite in row 0"),
        ({"tokens": [[10**400, 1.0]]}, "not an array of numbers"),
        ({"tokens": []}, "tokens have shape"),
        ({"law": {"name": "softmax", "beta": 1e13}}, "expected a finite number at least -1e+12 and at most 1e+12"),
        ({"law": {"name": "softmax", "beta": [1, 2]}}, "beta of law is a list"),
        ({"law": {"name": "softmax", "beta": True}}, "beta is True, expected a number"),
        ({"law": {"name": "softmax", "B": [[1.0]]}}, "give a 2 by 2 matrix"),
        ({"law": {"name": "softmax", "B": [[[[1.0]]]]}}, "more than 3 levels"),
        ({"law": {"name": "softmax", "B": [[1.0, 0.0]] * 100}}, "more than 100 entries"),
        ({"law": {"name": "hardmax"}}, "expected one of softmax, localmax, entmax"),
        ({"law": {"name": "softmax", "delta": 1}}, "has no parameter 'delta'"),
        ({"motion": {"name": "layers", "gamma": 0.5, "alpha": 0.5}}, "exactly one of gamma, alpha and V"),
        ({"motion": {"name": "layers", "gamma": 1.5}}, "gamma is 1.5"),
        ({"motion": {"name": "layers", "gamma": "t" * 201}}, "at most 200 printable characters"),
        ({"motion": {"name": "layers", "gamma": "1 /\n2"}}, "printable"),
        ({"motion": {"name": "layers", "gamma": "__import__('os')"}}, "not arithmetic in t"),
        ({"motion": {"name": "layers", "gamma": "floor(9e9) ** floor(9e9)"}}, "no real value"),
        ({"motion": {"name": "jumps"}}, "does not say gamma"),
        ({"motion": {"name": "sphere-flow"}}, "has norm"),
        ({"motion": {"name": "flow"}, "law": {"name": "localmax", "delta": 0.1}}, "integrates continuous laws"),
        ({"until": 20001}, "until is 20001, expected a finite number at most 20000"),
        ({"until": 1.5}, "whole number"),
        ({"until": 0}, "until is 0"),
        ({"until": True}, "until is true or false"),
        ({"motion": {"name": "jumps", "gamma": 0.1, "literal": True}, "until": 1e25}, "at most 20000"),
        ({"motion": {"name": "jumps", "gamma": "1 / (t + 2)"}, "until": 1e25}, "at most 20000"),
        ({"law": {"name": "softmax", "beta": "t"}, "motion": {"name": "jumps", "gamma": 0.1}, "until": 1e25}, "20000"),
        ({"motion": {"name": "jumps", "gamma": 0.1}, "until": 2e25}, "at most 1e+25"),
        ({"motion": {"name": "rescaled-flow"}, "until": 1e-12}, "at least 1e-09"),
        ({"until": {"x" * 999: 1}}, "until is a table, expected a number"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": "x" * 999}, "seed is a text"),
        ({"clock": "x" * 999}, "clock is a text"),
        ({"seed": 2**53 + 2}, "seed is"),
        ({"clock": "sidereal"}, "clock is 'sidereal', expected one of linear, log"),
        ({"tempo": 3}, "a key of the state is 'tempo'"),
        ({"law": None}, "does not say 'law'"),
        ({"law": {"name": "softmax", "b": [1.0, "x"]}}, "b"),
    ],
)
def test_refusals(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(af.InputError) as refused:
        state(**changes)
    assert said in str(refused.value)


# What is run


def test_beta_at_infinity_is_hardmax_and_its_rescaled_flow_is_solved_exactly() -> None:
    hard = {"name": "softmax", "beta": "inf", "B": [[2.0, 0.0], [0.0, 1.0]]}
    layers = state(law=hard)
    assert isinstance(layers.law, af.Hardmax)
    assert np.array_equal(np.asarray(layers.law.B), np.diag([2.0, 1.0]))
    assert layers.data["law"] == hard
    flow = state(law=hard, motion={"name": "rescaled-flow", "V": None, "rtol": 1e-6}, until=2.5)
    assert isinstance(flow.motion, af.HardmaxFlow)
    with refused("RescaledFlow integrates continuous laws"):
        state(law=hard, motion={"name": "rescaled-flow", "V": [[1, 0], [0, 2]]})


@pytest.mark.parametrize(
    ("changes", "frames"),
    [
        ({"until": 597}, 598),
        ({"until": 20000}, None),
        ({"until": 20000, "clock": "log"}, None),
        ({"until": 1, "clock": "log"}, 2),
        ({"motion": {"name": "rescaled-flow"}, "until": 3.0}, 241),
        ({"motion": {"name": "rescaled-flow"}, "until": 1e-9, "clock": "log"}, None),
        ({"motion": {"name": "jumps", "gamma": 0.001}, "law": {"name": "softmax", "beta": 1}, "until": 1500}, 600),
        ({"motion": {"name": "jumps", "gamma": 0.1}, "until": 1e25, "clock": "log"}, None),
        ({"motion": {"name": "leaps", "gamma": 0.1}, "until": 1e25, "clock": "log"}, None),
    ],
)
def test_no_film_has_more_than_six_hundred_frames(changes: dict[str, Any], frames: int | None) -> None:
    shown = state(**changes)
    kept = no_frames_yet(0, shown)
    simulate_into(kept, lambda: False)
    times = np.array(kept.times, dtype=np.float64)
    # Of moves that nobody can count beforehand every other one is left out until they are few enough.
    thinned = frames == 600
    assert 300 <= len(times) <= 600 if thinned else len(times) == frames if frames else 100 < len(times) <= 600
    assert times[0] == 0
    assert times[-1] == shown.until
    assert (np.diff(times) > 0).all()
    np.testing.assert_array_equal(kept.frames[-1], af.simulate(**arguments(shown)).final)
    if changes.get("clock") == "log" and shown.until > 1:
        later = times[times > 30][:-1]
        assert np.ptp(np.diff(np.log(later))) < 0.1


# Texts


tokens = st.one_of(
    st.builds(
        lambda d, seed, n: {"cloud": "gaussian", "n": n, "d": d, "seed": seed},
        st.integers(1, 3), st.integers(0, 2**53), st.integers(1, 9),
    ),
    st.builds(
        lambda d, low, width: {"cloud": "uniform", "n": 6, "d": d, "low": low, "high": low + width},
        st.integers(1, 3), st.floats(-2, 2), st.floats(0.5, 2),
    ),
    st.builds(
        lambda k, angle: {"cloud": "polygon", "k": k, "radius": 1.5, "angle": angle},
        st.integers(1, 7), st.floats(-7, 7),
    ),
    st.builds(lambda k, d: {"cloud": "grid", "k": k, "d": d}, st.integers(1, 3), st.integers(1, 3)),
    st.integers(1, 3).flatmap(
        lambda d: st.lists(st.lists(st.floats(-2, 2), min_size=d, max_size=d), min_size=1, max_size=6)
    ),
)  # fmt: skip
betas = st.one_of(st.just("inf"), st.just("1 + t / 4"), st.floats(-1, 40), st.integers(0, 9))
laws = st.one_of(
    st.builds(lambda beta: {"name": "softmax", "beta": beta, "B": None}, betas),
    st.builds(
        lambda delta, kind: {"name": "localmax", "delta": delta, "threshold": kind},
        st.floats(0, 1) | st.just("1 / (t + 2)"), st.sampled_from(["additive", "relative"]),
    ),
    st.builds(lambda eps: {"name": "hegselmann-krause", "eps": eps}, st.floats(0.1, 3)),
)  # fmt: skip
motions = st.one_of(
    st.builds(lambda gamma: {"name": "layers", "gamma": gamma}, st.floats(0.01, 1) | st.just("2 / (t + 2)")),
    st.builds(lambda alpha: {"name": "layers", "alpha": alpha}, st.floats(0.01, 2)),
    st.builds(lambda dt: {"name": "residual", "dt": dt}, st.floats(0.01, 0.5)),
    st.builds(lambda dt: {"name": "rescaled-layers", "dt": dt, "V": None}, st.floats(0.01, 1)),
    st.builds(
        lambda gamma, literal: {"name": "jumps", "gamma": gamma, "literal": literal}, st.floats(0.01, 1), st.booleans()
    ),
    st.just({"name": "rescaled-flow", "V": None}),
    st.just({"name": "flow"}),
    st.just({"name": "hardmax-flow"}),
    st.just({"name": "leaps", "gamma": 0.25}),
)  # fmt: skip
runnable = st.fixed_dictionaries(
    {
        "tokens": tokens, "law": laws, "motion": motions, "until": st.sampled_from([1, 7]),
        "seed": st.integers(0, 5), "clock": st.sampled_from(["linear", "log"]),
    },
)  # fmt: skip


@settings(max_examples=300 if ALL else 100)
@given(st.data())
def test_one_wrong_value_in_a_good_state(data: st.DataObject) -> None:
    good = copy.deepcopy(data.draw(st.sampled_from(GOOD) | runnable))
    *path, last = data.draw(st.sampled_from(places(good)[1:]))
    inner: Any = good
    for key in path:
        inner = inner[key]
    inner[last] = data.draw(st.one_of(anything, numbers))
    either_or(good)


def by_python(shown: State, monkeypatch: pytest.MonkeyPatch) -> Array:
    """Run the script, without its picture, and return its last tokens."""
    monkeypatch.setattr(af.Trajectory, "plot", lambda run: None)
    names: dict[str, Any] = {}
    exec(python(shown), names)
    ended: Array = names["run"].final
    return ended


def by_command(shown: State, monkeypatch: pytest.MonkeyPatch) -> Array:
    """Run the command, as a shell would split it, and return its last tokens."""
    words = shlex.split(command(shown))
    assert words[:2] == ["attnflow", "simulate"]
    seen: list[af.Trajectory] = []
    simulate = af.simulate

    def remembered(**given: Any) -> af.Trajectory:
        seen.append(simulate(**given))
        return seen[-1]

    monkeypatch.setattr(sys.modules["attnflow.runs.simulate"], "simulate", remembered)
    assert cli.main(words[1:]) == 0
    return seen[0].final


@settings(max_examples=80 if ALL else 30)
@given(runnable)
def test_the_texts_make_the_run_on_the_screen(data: dict[str, Any]) -> None:
    try:
        shown = read(data)
        ended = final(shown)
    except af.InputError:
        return
    with pytest.MonkeyPatch.context() as patch:
        np.testing.assert_allclose(by_python(shown, patch), ended, rtol=0, atol=1e-12)
        np.testing.assert_allclose(by_command(shown, patch), ended, rtol=0, atol=1e-12)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_the_texts_of_presets(preset: Preset, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = read(preset.state)
    if not ALL and shown.until < 1e20:  # the first part of each run
        shown = read({**preset.state, "until": min(shown.until, 6 if shown.motion.discrete else 0.5)})
    ended = final(shown)
    np.testing.assert_allclose(by_python(shown, monkeypatch), ended, rtol=0, atol=1e-12)
    np.testing.assert_allclose(by_command(shown, monkeypatch), ended, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("n", "count"), [(20, 241), (200_000, 62)])
def test_the_script_of_a_flow_records_the_moments_of_the_page(
    n: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = state(tokens={"cloud": "gaussian", "n": n, "d": 2}, motion={"name": "flow"}, until=60)
    simulate = Mock()
    monkeypatch.setattr(af, "simulate", simulate)
    exec(python(shown), {})
    recorded = simulate.call_args.kwargs["record"]
    np.testing.assert_array_equal(recorded, arguments(shown)["record"])
    assert len(recorded) == count


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_script_draws_and_the_command_stores(d: int, tmp_path: Path) -> None:
    start = {"cloud": "gaussian", "n": 5, "d": d, "seed": 4}
    shown = state(tokens=start, motion={"name": "layers", "gamma": "1 / (t + 2)"}, until=2000)
    names: dict[str, Any] = {}
    exec(python(shown), names)
    store = tmp_path / "run.zarr"
    assert cli.main([*shlex.split(command(shown))[1:], "--store", str(store)]) == 0
    for run in (names["run"], af.load(store)):
        np.testing.assert_array_equal(run.times, af.simulate(**arguments(shown)).times)
        np.testing.assert_allclose(run.final, final(shown), rtol=0, atol=1e-12)


def test_a_formula_without_t_is_a_number() -> None:
    """A command line could not tell them apart, and a chain moves otherwise under a function of time."""
    jumps = {"motion": {"name": "jumps", "gamma": "3 / 10"}, "until": 50}
    text, plain = (state(**jumps, law={"name": "softmax", "beta": beta}) for beta in ("4", 4))
    assert repr(text.law) == repr(plain.law) == repr(af.Softmax(beta=4.0))
    assert repr(text.motion) == repr(af.Jumps(gamma=0.3))
    np.testing.assert_array_equal(final(text), final(plain))


def test_chains_of_many_tokens_are_refused() -> None:
    cloud = {"cloud": "gaussian", "n": 1001, "d": 2}
    with refused("chains are shown of at most 1000"):
        state(tokens=cloud, motion={"name": "jumps", "gamma": 0.1})
    assert len(state(tokens=cloud).tokens) == 1001


def test_two_seeds_are_written_as_they_are() -> None:
    jumps = state(motion={"name": "jumps", "gamma": 0.1}, seed=5)
    assert "af.tokens.gaussian(n=12, d=2, seed=3)" in python(jumps)
    assert "seed=5)" in python(jumps)
    words = shlex.split(command(jumps))
    assert words[words.index("--seed") + 1] == "5"
    np.testing.assert_array_equal(json.loads(words[words.index("--tokens") + 1]), jumps.tokens)
    alike = command(state(motion={"name": "jumps", "gamma": 0.1}, seed=3))
    assert "--cloud gaussian" in alike
    assert "seed" not in python(state(tokens=[[1.0, 0.0]], seed=5))


def test_a_command_that_no_shell_takes_is_a_comment() -> None:
    many = command(state(tokens=af.tokens.gaussian(4000, 2).tolist()))
    assert many.startswith("# 4000 tokens placed by hand")
    assert shlex.split(many, comments=True) == []
