"""A law and a motion of another module, registered by the decorator alone: they are wherever the others are."""

from __future__ import annotations

import importlib
import math
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest

import attnflow as af
from attnflow import catalogue
from attnflow.app.cli import main
from attnflow.app.config import Config
from attnflow.figures import gallery
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.style import pyplot
from attnflow.serialise import brief, describe, rebuild

MODULE = '''
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

import attnflow as af
from attnflow.core.inputs import number_at
from attnflow.core.parameters import about


@af.catalogue.register
@dataclass(frozen=True, eq=False)
class Nearby(af.Law):
    """Attention to tokens nearby: P_ij proportional to e^{-|x_i - V x_j|^2 / 2 h^2}."""

    name: ClassVar[str] = "nearby"
    h: float = field(default=1.0, metadata=about("function", "width of the kernel, 50% of it at 1.18 h", above=0.0))
    V: object = field(default=None, metadata=about("matrix", "where tokens are heard"))
    seed: int = field(default=0, metadata=about("count", "seed of nothing", least=0))

    def log_weights(self, x, t=0, *, sources=None, masses=None):
        y = np.asarray(x if sources is None else sources)
        y = y if self.V is None else y @ np.asarray(self.V).T
        s = -((x[:, None] - y) ** 2).sum(axis=2) / (2 * number_at(self.h, t, "h") ** 2)
        return s - np.logaddexp.reduce(s, axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Shift:
    """A shift of all tokens."""

    by: float = field(default=1.0, metadata=about("number", "length of the shift"))


@af.catalogue.register
@dataclass(frozen=True, eq=False)
class Turn(af.motions.DiscreteMotion):
    """Averaging in the plane while turning: x_i <- R(angle) (x_i + h (m_i - x_i))."""

    name: ClassVar[str] = "turn"
    h: float = field(metadata=about("number", "step size", above=0.0, most=1.0))
    angle: float = field(default=0.0, metadata=about("number", "angle of a step"))
    way: str = field(default="left", metadata=about("choice", "sense of rotation", choices=("left", "right")))
    after: Shift | None = field(default=None, metadata=about("part", "what follows", part=Shift))

    def step(self, hearing, x, t):
        c, s = np.cos(self.angle), np.sin(self.angle) * (1 if self.way == "left" else -1)
        moved = (x + self.h * (hearing(x, t).mean - x)) @ np.array([[c, s], [-s, c]])
        return moved if self.after is None else moved + self.after.by
'''
TOML = """
until = 3
[tokens]
cloud = "polygon"
k = 5
[law]
name = "nearby"
h = "1 / (t + 1)"
V = [[0, 1], [1, 0]]
[motion]
name = "turn"
h = 0.5
angle = 0.25
way = "right"
"""
FLAGS = [
    *["--until", "3", "--cloud", "polygon", "--k", "5", "--law", "nearby", "--h", "1 / (t + 1)"],
    *["--law-V", "[[0, 1], [1, 0]]", "--motion", "turn", "--motion-h", "0.5", "--motion-angle", "0.25"],
    *["--way", "right"],
]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "turning.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("turning")
    del catalogue.REGISTERED["law"]["nearby"], catalogue.REGISTERED["motion"]["turn"], sys.modules["turning"]


@pytest.mark.usefixtures("module")
def test_it_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["simulate", "--help"])
    shown = " ".join(capsys.readouterr().out.replace("# ", "").split())
    # In the list of flags, and in the example of a file.
    assert " or nearby; masked or positional around another" in shown
    assert " or turn" in shown
    for kind in ("law", "motion"):
        assert f"or {', '.join(list(catalogue.entries(kind))[1:])} " in shown
    assert "width of the kernel, 50% of it at 1.18 h, above 0 (nearby)" in shown
    assert "--motion-h X step size, above 0 and at most 1 (turn)" in shown
    assert "--way X sense of rotation: left or right (turn)" in shown
    # What has these names already keeps its flags.
    assert "--V X value matrix (layers" in shown
    assert "--angle X angle of the first corner (polygon)" in shown
    assert "--law-V X where tokens are heard (nearby)" in shown
    assert "--law-seed X seed of nothing, at least 0 (nearby)" in shown


def test_file_flags_store_and_python_are_the_same_run(module: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(TOML)
    assert main(["simulate", str(tmp_path / "run.toml"), "--store", str(tmp_path / "file.zarr")]) == 0
    assert main(["simulate", *FLAGS, "--store", str(tmp_path / "flags.zarr")]) == 0
    law = module.Nearby(h=af.Schedule("1 / (t + 1)"), V=[[0, 1], [1, 0]])
    motion = module.Turn(0.5, angle=0.25, way="right")
    run = af.simulate(af.tokens.polygon(5), law, motion, until=3)
    for name in ("file.zarr", "flags.zarr"):
        again = af.load(tmp_path / name)
        np.testing.assert_array_equal(again.tokens, run.tokens)
        assert (type(again.law), type(again.motion)) == (module.Nearby, module.Turn)
        assert repr(again.motion) == repr(motion)
        assert again.law is not None
        np.testing.assert_array_equal(again.law.weights(run.final, 2), law.weights(run.final, 2))


def test_a_configuration_is_written_as_toml_also_where_json_differs() -> None:
    heads = [{"name": "softmax", "V": None}]
    given = Config({"until": math.inf, "seed": None, "law": {"name": "\U0001f600", "B": None, "heads": heads}}, Path())
    written = tomllib.loads(given.text())
    assert written == {"until": math.inf, "law": {"name": "\U0001f600", "heads": [{"name": "softmax"}]}}


def test_a_parameter_may_be_called_like_a_key_of_another_table() -> None:
    given = Config({"tokens": {"cloud": "gaussian", "n": 3}, "law": {"name": "softmax", "beta": 2.0}}, Path())
    given.put("law", {"file": 3})
    given.put("motion", {"cloud": 3})
    assert given.data["law"] == {"name": "softmax", "beta": 2.0, "file": 3}
    given.put("law", {"name": "hardmax"})
    given.put("tokens", {"file": "x.csv"})
    assert (given.data["law"], given.data["tokens"]) == ({"name": "hardmax"}, {"file": "x.csv"})


def test_it_is_described_and_made_again(module: ModuleType) -> None:
    motion = module.Turn(0.5, way="right")
    assert describe(motion) == {"name": "turning:turn", "h": 0.5, "angle": 0.0, "way": "right", "after": None}
    assert isinstance(rebuild(describe(motion)), module.Turn)
    assert brief(motion) == "Turn(h=0.5, way='right')"
    shifting = catalogue.build("motion", {"name": "turn", "h": 1, "after": {"by": 2.0}})
    assert describe(shifting)["after"] == {"name": "turning:Shift", "by": 2.0}
    assert rebuild(describe(shifting)).after.by == 2.0
    heads = af.Heads([module.Nearby(h=2.0), af.Softmax()])
    again = rebuild(describe(heads))
    assert repr(again) == repr(heads)
    assert (brief(heads), brief(af.Heads([af.Softmax()]))) == ("2 heads", "1 head")


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--motion", "turn"], "[motion] turn does not say h: add it"),
        (["--motion", "turn", "--motion-h", "1", "--gamma", "1"], "[motion] turn has no parameter 'gamma': it takes"),
        (["--motion", "turn", "--motion-h", "1", "--h", "hot"], "h is 'hot', where 'hot' is not arithmetic in t"),
    ],
)
def test_it_is_refused_in_one_sentence(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--until", "3", "--tokens", "[[1, 0], [0, 1]]", "--law", "nearby", *flags]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"attnflow: {words}")
    assert shown.count("\n") == 1


@pytest.fixture
def broken() -> Iterator[None]:
    @catalogue.register
    @dataclass(frozen=True, eq=False)
    class Broken(af.Law):
        """A law that divides by zero."""

        name: ClassVar[str] = "broken"

        def log_weights(self, x, t=0, *, sources=None, masses=None):  # type: ignore[no-untyped-def]
            return x * (1 // int(t))

    @entry("broken/raises", "A figure that raises", "nowhere")
    def raises() -> Any:
        return dict[str, int]()["picture"]

    @entry("broken/none", "A figure that forgets its picture", "nowhere")
    def none() -> Any:
        return None

    @entry("broken/axes", "A figure that draws on axes alone", "nowhere")
    def axes() -> Any:
        return Drawing(pyplot().figure().gca(), "Axes.")

    yield
    del catalogue.REGISTERED["law"]["broken"]
    for name in ("raises", "none", "axes"):
        del gallery._known[f"broken/{name}"]


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "simulate --tokens [[1],[2]] --law broken --motion layers --gamma 0.5 --until 3",
            r"\S+Broken.log_weights raised ZeroDivisionError \(.* by zero\) in line \d+ of \S+test_registered.py",
        ),
        ("figure broken/raises", r"the figure broken/raises cannot be drawn: .* raised KeyError \('picture'\) in line"),
        ("figure broken/none", "the figure broken/none returned None, expected a Drawing"),
        ("figure broken/axes", "figure is <Axes: >, expected a Figure of Matplotlib: give ax.figure"),
    ],
)
def test_what_somebody_else_wrote_and_fails_is_named_in_one_sentence(
    line: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    shown = capsys.readouterr().err
    assert re.match(f"attnflow: {words}", shown)
    assert shown.count("\n") == 1
