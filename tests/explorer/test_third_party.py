"""A law and a motion of another package in the explorer: its JSON, its states, and in Chromium its menus and fields."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import launch, serving
from larger import details
from modules import FOLDER
from refusals import refused

import attnflow as af
from attnflow import catalogue
from attnflow.core.parameters import about
from attnflow.explorer.server import models_and_colours
from attnflow.explorer.state import FIRST, arguments, read
from attnflow.explorer.state_text import command, python

pytestmark = details

MODULE = '''
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import attnflow as af
from attnflow.catalogue import register
from attnflow.core.parameters import about
from attnflow.motions import DiscreteMotion


@register
@dataclass(frozen=True, eq=False)
class Kernel(af.Law):
    """Kernel attention: P_ij ~ k(|M (x_i - x_j)| / h)."""

    name = "kernel"
    title = "Smooth kernel"
    formula = {"near": "P_ij ~ e^{-|M (x_i - x_j)|^2 / h}", "heavy": "P_ij ~ 1 / (1 + |M (x_i - x_j)|^2 / h)"}
    h: Any = field(default=1.0, metadata=about("function", "width of the kernel", above=0.0, start=0.5))
    M: Any = field(default=None, metadata=about("matrix", "matrix of the distances"))
    tail: str = field(default="near", metadata=about("choice", "how far it reaches", choices=("near", "heavy")))
    deaf: bool = field(default=False, metadata=about("switch", "whether to hear everyone alike"))

    def log_weights(self, x, t=0, *, sources=None, masses=None):
        y = x if sources is None else sources
        M = np.eye(x.shape[1]) if self.M is None else np.asarray(self.M)
        s = (((x[:, None] - y) @ M.T) ** 2).sum(axis=2) / (self.h(t) if callable(self.h) else self.h)
        s = -np.log1p(s) if self.tail == "heavy" else -s
        s = 0 * s if self.deaf else s
        return s - np.logaddexp.reduce(s, axis=1, keepdims=True)


@register
@dataclass(frozen=True)
class Lazy(DiscreteMotion):
    """Lazy layers: x_i <- x_i + gamma (m_i - x_i) in every k-th step."""

    name = "lazy"
    formula = "x_i <- x_i + gamma (m_i - x_i), in every k-th step"
    usual_time = 25.0
    gamma: float = field(metadata=about("number", "step size", least=0.0, most=1.0, start=0.25))
    every: int = field(default=1, metadata=about("count", "steps from one move to the next", symbol="k", least=1))

    def step(self, hearing, x, t):
        return x + self.gamma * (hearing(x, t).mean - x) if t % self.every == 0 else x
'''
SCRIPT = """
import neighbours
from attnflow.explorer.server import serve

if __name__ == "__main__":
    serve(port=0, browser=False)
"""
STATE: dict[str, Any] = {
    "tokens": [[1.0, 0.0], [0.0, 1.5], [-1.0, -1.0], [0.3, -0.2]],
    "law": {"name": "kernel", "h": "1 / (t + 1)", "M": [[2.0, 0.0], [0.0, 1.0]], "tail": "heavy"},
    "motion": {"name": "lazy", "gamma": 0.5, "every": 2},
    "until": 25,
}


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A module that registers a law and a motion, known here too, and a script that serves the explorer with it."""
    folder = tmp_path_factory.mktemp("neighbours")
    (folder / "neighbours.py").write_text(MODULE)
    (folder / "serving.py").write_text(SCRIPT)
    sys.path.insert(0, str(folder))
    importlib.import_module("neighbours")
    yield folder / "serving.py"
    sys.path.remove(str(folder))
    del sys.modules["neighbours"], catalogue.REGISTERED["law"]["kernel"], catalogue.REGISTERED["motion"]["lazy"]


def test_the_json_says_all_that_the_page_builds_fields_from(script: Path) -> None:
    said = json.loads(models_and_colours())
    law = next(one for one in said["law"] if one["name"] == "kernel")
    assert (law["title"], law["shown"], law["continuous"]) == ("Smooth kernel", True, True)
    fields = {one["key"]: (one["kind"], one["default"], one["start"]) for one in law["parameters"]}
    assert fields == {
        "h": ("function", 1.0, 0.5),
        "M": ("matrix", None, None),
        "tail": ("choice", "near", None),
        "deaf": ("switch", False, None),
    }
    motion = next(one for one in said["motion"] if one["name"] == "lazy")
    assert (motion["title"], motion["discrete"], motion["usual_time"]) == ("Lazy", True, 25.0)
    assert [one["required"] for one in motion["parameters"]] == [True, False]
    shown = {kind: [one["name"] for one in said[kind] if one["shown"]] for kind in ("law", "motion")}
    assert {"softmax", "localmax", "kernel"} <= {*shown["law"]}
    assert not {"hardmax", "heads"} & {*shown["law"]}
    assert "hardmax-flow" in shown["motion"]


def test_states_are_read_and_written(script: Path) -> None:
    state = read(STATE)
    assert type(state.law).__name__ == "Kernel"
    assert state.law.h(3) == 0.25  # type: ignore[attr-defined]
    assert "--law kernel" in command(state)
    with refused("M is a text"):
        read({**STATE, "law": {"name": "kernel", "M": "file.csv"}})
    with refused("has no parameter 'beta'"):
        read({**STATE, "law": {"name": "kernel", "beta": 1}})
    text = python(state)
    assert "from neighbours import Kernel\nfrom neighbours import Lazy\n" in text
    ran: dict[str, Any] = {}
    exec(text.replace("run.plot()", ""), ran)
    np.testing.assert_array_equal(ran["run"].final, af.simulate(**arguments(state)).final)


def test_menus_and_fields_move_tokens(script: Path) -> None:
    with serving(str(script)) as where, launch(viewport={"width": 1280, "height": 860}) as page:
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(where)
        page.wait_for_function("() => window.attnflow?.store.run")
        page.evaluate("tokens => window.attnflow.store.setState({tokens})", STATE["tokens"])
        page.select_option("#law", label="Smooth kernel")
        page.select_option("#motion", label="Lazy")
        assert page.evaluate("() => window.attnflow.store.state.law") == {
            "name": "kernel", "h": 0.5, "M": None, "tail": "near", "deaf": False,
        }  # fmt: skip
        assert page.locator("#until").input_value() == "25"
        formula = page.locator("#law ~ .formula")
        assert formula.inner_text() == "Pij ∝ e−|M (xi − xj)|2 / h"
        page.locator("#law-h").fill("1 / (t + 1)")
        page.select_option("#law-tail", "heavy")
        page.locator("#controls summary").first.click()
        page.locator("#law-M-1-1").fill("2")
        page.locator("#motion-gamma").fill("0.5")
        page.locator("#motion-every").fill("2")
        page.wait_for_function("() => window.attnflow.requests.idle()")
        assert formula.inner_text().startswith("Pij ∝ 1 / (1 + |M")
        shown = page.evaluate("() => window.attnflow.store.state")
        assert shown["law"] == {**STATE["law"], "deaf": False}
        assert shown["motion"] == STATE["motion"]
        last = "() => { const {player} = window.attnflow; return Array.from(player.frame(player.count - 1)); }"
        expected = af.simulate(**arguments(read(STATE))).final
        np.testing.assert_allclose(np.reshape(page.evaluate(last), (4, 2)), expected, atol=1e-14)
        page.locator("#law-deaf").check()
        page.wait_for_function("() => window.attnflow.requests.idle()")
        alike = af.simulate(**arguments(read({**STATE, "law": {**STATE["law"], "deaf": True}}))).final
        np.testing.assert_allclose(np.reshape(page.evaluate(last), (4, 2)), alike, atol=1e-14)
        # A number outside its bounds is refused beside its field.
        page.locator("#motion-gamma").fill("1.5")
        assert "from 0 to 1" in page.locator("#motion-gamma-error").inner_text()
        assert not wrong


class Plain(af.Law):
    """A law that is no dataclass: everyone is heard alike."""

    name = "plain"

    def log_weights(self, x: Any, t: Any = 0, *, sources: Any = None, masses: Any = None) -> Any:
        return np.full((len(x), len(x if sources is None else sources)), -np.log(len(x)))


@dataclass(frozen=True, eq=False)
class Warm(Plain):
    """A law that tends to softmax, as it says."""

    name = "warm"
    h: Any = field(default=1.0, metadata=about("function", "heat", limit="softmax"))
    W: Any = field(default=None, metadata=about("matrix", "matrix of nothing"))


@pytest.fixture
def others() -> Iterator[None]:
    for law in (Plain, Warm):
        catalogue.register(law)
    yield
    for law in (Plain, Warm):
        del catalogue.REGISTERED["law"][law.name]


@pytest.mark.usefixtures("others")
def test_laws_of_others_leave_the_first_screen_and_their_own_as_they_are() -> None:
    assert read(FIRST).law.name == "softmax"  # though another law says that it tends to it
    state = {**FIRST, "law": {"name": "plain"}}
    assert "law = Plain()\n" in python(read(state))
    warm = {**state, "law": {"name": "warm", "h": 2.0}}
    assert read(warm).law.h == 2.0  # type: ignore[attr-defined]
    for W in ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[1.0]]):
        with pytest.raises(af.InputError, match=r"W has shape .* but the tokens have dimension 2"):
            read({**warm, "law": {"name": "warm", "W": W}})


SESSION = """
import sys
from pathlib import Path
import attnflow as af
from attnflow.catalogue import register
from attnflow.explorer.state import shown
from attnflow.figures import gallery_files
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.style import pyplot

@register
class Flat(af.Law):
    "Everyone is heard alike."
    name = "flat"

for name in ("one", "two"):
    @entry(f"next/{name}", "Nothing", "nowhere")
    def nothing():
        return Drawing(pyplot().figure(), "Nothing.")

print("flat" in shown("law"), "flat" in af.catalogue.entries("law"))
style = gallery_files.Style(formats=("png",))
print(sorted(name for name, _ in gallery_files.write_all(["next/one", "next/two"], Path(sys.argv[1]), style)))
"""


def test_what_a_session_defines_is_drawn_in_it_and_not_offered_to_workers(tmp_path: Path) -> None:
    line = [sys.executable, "-c", SESSION, str(tmp_path)]
    said = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert said == "False True\n['next/one', 'next/two']\n"


def test_the_page_names_no_law_and_no_motion() -> None:
    """No text of a script, and nothing in its page, has the name of one, as it is in the catalogue or in Python."""
    parts = [found for kind in ("law", "motion") for found in catalogue.entries(kind).values()]
    names = {name for found in parts for name in (found.name, getattr(found.make, "__name__", ""))}
    # The menu of motions has a group that is called like the first of them, and a clock is linear too.
    names -= {"Layers", "linear"}
    word = re.compile(rf"(?<![\w-])({'|'.join(names)})(?![\w-])")
    for name, text in {"a.js": 'say("the hardmax flow")', "b.html": "<option>Softmax</option>"}.items():
        assert word.search(_shown(name, text))
    for file in FOLDER.iterdir():
        assert not word.findall(_shown(file.name, file.read_text(encoding="utf-8"))), file.name


def _shown(name: str, text: str) -> str:
    """Return the texts of a script, without its comments, or all of a page."""
    if name.endswith(".html"):
        return text
    code = re.sub(r"(?m)^\s*(//|/?\*).*$", "", text) if name.endswith(".js") else ""
    return "\n".join(re.findall(r'"[^"\n]*"|\'[^\'\n]*\'|`[^`]*`', code))
