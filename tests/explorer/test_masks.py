"""Masks and positions on the explorer's page: in states, exports, presets, and fields."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from modules import importing
from refusals import refused

import attnflow as af
from attnflow.explorer import pairs
from attnflow.explorer.overlays import overlays_of
from attnflow.explorer.presets import PRESETS
from attnflow.explorer.server import models_and_colours
from attnflow.explorer.state import arguments, read
from attnflow.explorer.state_text import command, python
from attnflow.laws.graphs import GRAPHS

STATE: dict[str, Any] = {
    "tokens": {"cloud": "gaussian", "n": 5, "d": 2, "seed": 0},
    "law": {"name": "softmax", "beta": 2, "causal": True, "rope": "0.1 * t", "window": None},
    "motion": {"name": "layers", "gamma": 0.5},
    "until": 3,
}


def test_a_state_holds_masks_beside_the_parameters_of_its_law() -> None:
    law = read(STATE).law
    assert isinstance(law, af.Positional)
    assert isinstance(law.law, af.Masked)
    assert "law = af.Positional(af.Masked(af.Softmax(beta=2.0), causal=True), rope=af.Schedule('0.1 * t'))" in python(
        read(STATE)
    )
    assert "--law softmax --beta 2 --causal true --rope '0.1 * t'" in command(read(STATE))
    hard = read({**STATE, "law": {"name": "softmax", "beta": "inf", "causal": True}}).law
    assert isinstance(hard, af.Masked)
    assert isinstance(hard.law, af.Hardmax)
    with refused("RescaledFlow integrates continuous laws, but Hardmax jumps"):
        read({**STATE, "law": {"name": "softmax", "beta": "inf", "causal": True}, "motion": {"name": "rescaled-flow"}})
    with refused("graph is a list, which cannot be shown here: give one of ring, star, two_groups, fixed_context"):
        read({**STATE, "law": {"name": "softmax", "graph": [[1]]}})


def test_a_graph_is_given_by_its_name_for_any_number_of_tokens() -> None:
    law = {"name": "softmax", "B": [[1, 0], [0, 1]], "graph": "fixed_context"}
    for n in (1, 4, 5):
        state = read({**STATE, "tokens": {**STATE["tokens"], "n": n}, "law": law})
        run = af.simulate(**arguments(state))
        first = (n + 1) // 2
        np.testing.assert_array_equal(run.final[:first], run.tokens[0][:first])
        space: dict[str, Any] = {}
        exec(python(state).replace("run.plot()", ""), space)
        np.testing.assert_array_equal(space["run"].final, run.final)
    assert f"graph=graphs.fixed_context({n})" in python(state)
    assert "--graph '[[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 0, 0]]'" in command(
        state
    )
    with refused("there are 501 tokens, but graphs are shown of at most 500"):
        read({**STATE, "tokens": {**STATE["tokens"], "n": 501}, "law": law})


def test_graphs_let_each_token_hear_somebody() -> None:
    for name, make in GRAPHS.items():
        for n in (1, 2, 3, 8):
            graph = make(n)
            assert graph.shape == (n, n)
            assert graph.dtype == bool
            assert graph.any(axis=1).all(), name
    reached = np.linalg.matrix_power(GRAPHS["ring"](9).astype(int), 4) > 0
    assert reached.all()
    assert not (np.linalg.matrix_power(GRAPHS["ring"](9).astype(int), 3) > 0).all()


def test_the_preset_of_causal_attention_does_what_its_note_says() -> None:
    state = read(next(preset.state for preset in PRESETS if preset.name == "learn/causal"))
    run = af.simulate(**arguments(state))
    np.testing.assert_allclose(run.final, np.tile(run.tokens[0][0], (10, 1)), atol=1e-4)
    assert abs(run.at(15.0) - run.tokens[0][0]).max() > 0.5


def test_fields_of_masks_are_absent_at_zero() -> None:
    assert b'"adds":"masks","together":false,"ordered":true,"parameters":[{"key":"causal"' in models_and_colours()
    with importing() as page:
        found = page.evaluate(
            """async () => {
              const { createParameters } = await import("/page/parameters.js");
              const { createFields } = await import("/page/fields.js");
              const { formulaOf } = await import("/page/models.js");
              const states = [];
              const store = {
                state: { law: { name: "softmax", beta: 4, B: null }, tokens: { cloud: "gaussian", n: 3, d: 2 } },
                label: "", on() {}, view: { show: { numbers: false } }, setView(patch) { this.view = patch; },
                setState(patch) { this.state = { ...this.state, ...patch }; states.push(this.state.law); },
              };
              const fields = createFields(store);
              const parameters = createParameters("law", store, fields);
              document.body.append(parameters.element);
              parameters.sync();
              fields.sync();
              const type = (id, text) => {
                const input = document.getElementById(id);
                input.value = text;
                input.dispatchEvent(new Event("input"));
              };
              const first = ["law-window", "law-rope", "law-alibi"].map((id) => document.getElementById(id).value);
              document.getElementById("law-causal").click();
              type("law-window", "3");
              const formula = formulaOf("law", store.state.law);
              type("law-window", "0");
              type("law-rope", "0.1 * t");
              const graph = document.getElementById("law-graph");
              graph.value = "two_groups";
              graph.dispatchEvent(new Event("change"));
              const masked = formulaOf("law", store.state.law);
              const remove = document.getElementById("law-bias");
              store.setState({ law: { ...store.state.law, bias: [[0, 1, 2], [0, 0, 0], [1, 1, 1]] } });
              const hidden = [remove.parentElement.hidden];
              parameters.sync();
              hidden.push(remove.parentElement.hidden, remove.parentElement.textContent);
              remove.click();
              return { first, formula, law: store.state.law, view: store.view, masked, hidden };
            }"""
        )
    assert found["first"] == ["0", "0", "0"]
    assert found["view"]["show"]["numbers"]  # the order of tokens matters now
    assert found["formula"].endswith(", 0 <= i - j < 3")
    assert (found["law"]["causal"], found["law"]["window"], found["law"]["rope"]) == (True, None, "0.1 * t")
    assert found["masked"].endswith(", j <= i, i hears j")
    assert found["hidden"] == [True, False, "bias of 3 × 3 numbersRemove"]
    assert (found["law"]["graph"], found["law"]["bias"]) == ("two_groups", None)


def test_the_attention_matrix_says_who_may_not_be_heard() -> None:
    state = read({**STATE, "law": {"name": "softmax", "beta": 2, "causal": True, "window": 2}})
    found = overlays_of(state.tokens, 0, state, ["attention"])["attention"]
    assert found["heard"] == ["10000", "11000", "01100", "00110", "00011"]
    plain = read({**STATE, "law": {"name": "softmax"}})
    assert "heard" not in overlays_of(plain.tokens, 0, plain, ["attention"])["attention"]
    many = read({**STATE, "tokens": {**STATE["tokens"], "n": 300}, "law": {"name": "linear", "causal": True}})
    heard = overlays_of(many.tokens, 0, many, ["attention"])["attention"]["heard"]
    # A block hears one that begins before it ends.
    assert heard == ["1" * (k + 1) + "0" * (127 - k) for k in range(128)]
    with importing() as page:
        said = page.evaluate(
            """async (attention) => {
              const {createAttention} = await import("/page/attention.js");
              const canvas = document.createElement("canvas");
              canvas.style = "width: 200px; position: absolute; left: 0; top: 0";
              document.body.append(canvas);
              const store = {overlays: {attention}, run: {n: 5}, on() {}, point() {}};
              createAttention(canvas, store, {looked: () => -1, choose() {}});
              const drawn = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
              await drawn();
              const said = [canvas.ariaLabel];
              for (const [x, y] of [[150, 10], [10, 10]]) {
                canvas.dispatchEvent(new PointerEvent("pointermove", {clientX: x, clientY: y}));
                await drawn();
                said.push(canvas.ariaLabel);
              }
              const scale = canvas.width / 200;
              const at = (x, y) => [...canvas.getContext("2d").getImageData(x * scale, y * scale, 1, 1).data];
              return {said, masked: at(150, 30), silent: at(100, 150)};
            }""",
            {**found, "rows": [[float(j == i) for j in range(5)] for i in range(5)]},
        )
    assert "grey: may not hear it" in said["said"][0]
    assert said["said"][1].endswith("0 may not hear 3")
    assert said["said"][2].endswith("0 listens to 0: 1")
    assert len(set(said["masked"][:3])) == 1  # grey
    assert said["masked"] != said["silent"]


def test_a_law_that_fails_in_another_way_is_not_refused_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(data: Any) -> Any:
        raise RuntimeError("somebody else's law")

    assert pairs._refused("flow", "hardmax", {"name": "hardmax"})
    monkeypatch.setattr(pairs, "read", failing)
    assert pairs._refused("flow", "hardmax", {"name": "hardmax"}) == {}
    assert pairs._in_few_words("layers", "softmax") == {"motion": "not with this law", "law": "not with this motion"}
