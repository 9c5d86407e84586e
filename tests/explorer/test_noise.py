"""Noise on the explorer's page: which motions have fields for it, and what they do."""

from __future__ import annotations

from typing import Any

import pytest
from modules import importing

import attnflow as af
from attnflow.catalogue import entry
from attnflow.core.inputs import InputError
from attnflow.explorer.state import outside, read, shown

# The page's controls on a store of its own, with one way to choose in menus, boxes and fields.
CONTROLS = """async ({state, edits}) => {
  const {createStore} = await import("/page/store.js");
  const {createControls} = await import("/page/controls.js");
  const store = createStore();
  store.setState(state);
  const place = document.createElement("div");
  document.body.replaceChildren(place);
  createControls(place, store);
  const seen = [];
  const look = () => {
    const shown = (id) => document.getElementById(id)?.offsetParent ? document.getElementById(id).value : null;
    const {motion} = store.state;
    seen.push({motion: {...motion}, chance: shown("seed"), kappa: shown("motion-kappa"), sigma: shown("motion-sigma"),
      formulas: [...document.querySelectorAll(".formula")].filter((one) => one.offsetParent).length});
  };
  look();
  for (const [id, value] of edits) {
    const input = document.getElementById(id);
    if (input.type === "checkbox") input.click();
    else {
      input.value = value;
      input.dispatchEvent(new Event(input.type === "text" ? "input" : "change"));
    }
    await new Promise((done) => setTimeout(done));
    look();
  }
  return seen;
}"""


def test_motions_have_fields_for_the_noise_that_they_take() -> None:
    """Around which motions noise is refused is asked from the library, by trying."""
    starts: dict[str, Any] = {"kappa": 5.0, "dt": 0.01, "sigma": 0.1}
    inside = {"leaps": af.Leaps(gamma=0.1), "jumps": af.Jumps(gamma=0.1), "layers": af.Layers(gamma=0.1)}
    for name in shown("motion"):
        motion = inside.get(name) or entry("motion", name).make()
        keys = [each["key"] for one in outside("motion", name) for each in one["parameters"]]
        assert keys in (["kappa", "dt"], ["sigma"], [])
        if keys:
            assert af.Noisy(motion, **{key: starts[key] for key in keys}).random
        else:
            for some in (["kappa", "dt"], ["sigma"]):
                with pytest.raises(InputError, match=r"random itself|has not"):
                    af.Noisy(motion, **{key: starts[key] for key in some})


def test_laws_that_refuse_masks_or_positions_have_no_fields_for_them() -> None:
    adds = {name: [one["adds"] for one in outside("law", name)] for name in shown("law")}
    assert adds["sinkhorn"] == []
    assert adds["hegselmann-krause"] == ["masks"]
    assert adds["softmax"] == adds["linear"] == ["masks", "positions"]


def test_a_box_switches_noise_on_and_it_stays_when_another_motion_is_chosen() -> None:
    state = {"motion": {"name": "layers", "gamma": 0.5}, "until": 3}
    edits = [
        ["motion-noisy", None], ["motion-sigma", "0.3"], ["motion", "flow"], ["motion-kappa", "-1"],
        ["motion-kappa", "2 + t"], ["motion", "jumps"], ["motion", "layers"], ["motion-noisy", None],
    ]  # fmt: skip
    with importing() as page:
        plain, on, typed, flow, wrong, formula, jumps, back, off = page.evaluate(
            CONTROLS, {"state": state, "edits": edits}
        )
    assert (plain["chance"], plain["sigma"], plain["formulas"]) == (None, None, 2)
    assert on["motion"] == {"name": "layers", "gamma": 0.5, "sigma": 0.1}
    assert (on["chance"], on["sigma"], on["formulas"]) == ("0", "0.1", 3)
    assert typed["motion"]["sigma"] == 0.3
    assert (flow["motion"]["kappa"], flow["motion"]["dt"], flow["kappa"], flow["sigma"]) == (5, 0.01, "5", None)
    assert "sigma" not in flow["motion"]
    assert wrong["motion"]["kappa"] == -1  # bounds of what may be a formula are the server's
    assert formula["motion"]["kappa"] == "2 + t"
    # A chain takes no noise, and draws its moves itself.
    assert (jumps["chance"], jumps["motion"].keys() & {"kappa", "sigma"}) == ("0", set())
    assert back["motion"]["sigma"] == 0.3
    assert off["motion"]["sigma"] is None
    assert off["chance"] is None
    tokens = {"cloud": "gaussian", "n": 3, "d": 2, "seed": 0}
    base = {"tokens": tokens, "law": {"name": "softmax"}, "until": 3}
    assert isinstance(read({**base, "motion": formula["motion"]}).motion, af.Noisy)
    assert isinstance(read({**base, "motion": off["motion"]}).motion, af.Layers)
