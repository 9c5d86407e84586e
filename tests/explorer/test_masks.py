"""Masks and positions on the explorer's page: in states, exports, presets, and fields."""

from __future__ import annotations

from typing import Any

import numpy as np
from modules import importing
from refusals import refused

import attnflow as af
from attnflow.explorer.presets import PRESETS
from attnflow.explorer.server import models_and_colours
from attnflow.explorer.state import arguments, read
from attnflow.explorer.state_text import command, python

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
    with refused("graph of law is a list, which cannot be shown here"):
        read({**STATE, "law": {"name": "softmax", "graph": [[1]]}})


def test_the_preset_of_causal_attention_does_what_its_note_says() -> None:
    state = read(next(preset.state for preset in PRESETS if preset.name == "learn/causal"))
    run = af.simulate(**arguments(state))
    np.testing.assert_allclose(run.final, np.tile(run.tokens[0][0], (10, 1)), atol=1e-4)
    assert abs(run.at(15.0) - run.tokens[0][0]).max() > 0.5


def test_fields_of_masks_are_absent_at_zero() -> None:
    assert b'"adds":"masks","together":false,"parameters":[{"key":"causal"' in models_and_colours()
    with importing() as page:
        found = page.evaluate(
            """async () => {
              const { createParameters } = await import("/page/parameters.js");
              const { createFields } = await import("/page/fields.js");
              const { formulaOf } = await import("/page/models.js");
              const states = [];
              const store = {
                state: { law: { name: "softmax", beta: 4, B: null }, tokens: { cloud: "gaussian", n: 3, d: 2 } },
                label: "", on() {},
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
              return { first, formula, law: store.state.law };
            }"""
        )
    assert found["first"] == ["0", "0", "0"]
    assert found["formula"].endswith(", 0 <= i - j < 3")
    assert (found["law"]["causal"], found["law"]["window"], found["law"]["rope"]) == (True, None, "0.1 * t")
