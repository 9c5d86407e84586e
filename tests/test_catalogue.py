"""The catalogue: what laws, motions and clouds say of themselves, and how they are made from plain data."""

from __future__ import annotations

import copy
import inspect
import json
import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow import catalogue
from attnflow.catalogue import Entry, build, class_name, class_named, entries, entry, register, same_class
from attnflow.core import installed as installed_packages
from attnflow.core.installed import installed
from attnflow.core.parameters import KINDS, about, parameters_of
from attnflow.serialise import describe, rebuild

ALL = [found for kind in ("law", "motion", "cloud") for found in entries(kind).values()]


@pytest.fixture
def everyone() -> Iterator[type[af.Law]]:
    """A law of one's own in the catalogue, and out of it again."""

    @register
    @dataclass(frozen=True, eq=False)
    class Everyone(af.Law):
        """Attention to everyone, more to oneself: P_ij = (1 + s [i = j]) / (n + s)."""

        name = "everyone"
        self_weight: float = field(default=0.0, metadata=about("number", "weight of oneself", symbol="s", least=0.0))

        def log_weights(self, x: Any, t: float = 0, *, sources: Any = None, masses: Any = None) -> Any:
            n = len(x if sources is None else sources)
            return np.log((np.ones((len(x), n)) + self.self_weight * np.eye(len(x), n)) / (n + self.self_weight))

    yield Everyone
    del catalogue.REGISTERED["law"]["everyone"]


@pytest.mark.parametrize("found", ALL, ids=lambda found: f"{found.kind}-{found.name}")
def test_entries_say_what_their_signatures_take(found: Entry) -> None:
    """The catalogue and Python agree on names, order and defaults, so that neither is written twice wrongly."""
    signature = dict(inspect.signature(found.make).parameters)
    # Clouds in chunks are for Python: files, flags and pages start from arrays of NumPy.
    signature.pop("chunks", None)
    assert list(found.parameters) == list(signature)
    for name, one in signature.items():
        said = found.parameters[name]
        assert said.required == (one.default is one.empty)
        if not said.required:
            assert said.default is one.default or said.default == one.default
        assert said.kind in KINDS
        assert said.help


@pytest.mark.parametrize("found", ALL, ids=lambda found: f"{found.kind}-{found.name}")
def test_entries_can_be_shown(found: Entry) -> None:
    assert found.title
    assert found.summary.endswith((".", ":"))
    if found.kind != "cloud":
        assert found.formula_for({})
        assert "arXiv" in found.citation or "(20" in found.citation


@pytest.mark.parametrize("found", ALL, ids=lambda found: f"{found.kind}-{found.name}")
def test_bounds_are_those_that_are_checked(found: Entry) -> None:
    """A number just outside the bounds of a parameter is refused, the nearest one inside is not."""
    needed: dict[str, Any] = {
        one.name: af.Softmax() if one.part is af.Law else 1 for one in found.parameters.values() if one.required
    }
    if found.name in ("heads", "noisy"):
        return  # what a motion with noise takes depends on the motion that it holds
    for one in found.parameters.values():
        if one.only_for:
            needed["norm"] = one.only_for
        for bound, value in one.bounds.items():
            whole = one.kind == "count"
            up, down = (value + 1, value - 1) if whole else (np.nextafter(value, np.inf), np.nextafter(value, -np.inf))
            outside = {"least": down, "above": value, "most": up}[bound]
            with refused(rf"^{one.name} is "):
                found.make(**{**needed, one.name: outside})
            found.make(**{**needed, one.name: up if bound == "above" else value})


@dataclass(frozen=True, eq=False)
class _Declared(af.Law):
    """A law that checks nothing itself: P_ij = 1 / n."""

    name = "declared"
    h: float = field(default=1.0, metadata=about("number", "width", above=0.0, most=2.0))
    k: int = field(default=1, metadata=about("count", "number", least=1))
    u: Any = field(default=1.0, metadata=about("function", "weight", least=0.0))
    M: Any = field(default=None, metadata=about("matrix", "matrix"))
    way: str = field(default="left", metadata=about("choice", "side", choices=("left", "right")))
    on: bool = field(default=True, metadata=about("switch", "true to listen"))
    other: Any = None
    rest: Any = field(default_factory=list)


@pytest.mark.parametrize(
    ("key", "bad", "words"),
    [
        ("h", -1, "h is -1, expected a finite number above 0 and at most 2"),
        ("h", 2.5, "h is 2.5, expected"),
        ("h", [1, 2], "h is [1, 2], expected a number"),
        ("h", lambda t: t, "expected a number"),
        ("k", 0, "k is 0, expected a finite number at least 1"),
        ("k", 1.5, "k is 1.5, expected a whole number"),
        ("u", [1, -1], "u of layer 1 is -1, expected a finite number at least 0"),
        ("M", [[1, 2]], "M has shape (1, 2), expected a square matrix"),
        ("way", "sideways", "way is 'sideways', expected one of left, right"),
        ("on", "no", "on is 'no', expected True or False (true to listen)"),
    ],
)
def test_what_parameters_say_of_themselves_is_checked(key: str, bad: Any, words: str) -> None:
    """In Python and from plain data, without a line in the class."""
    register(_Declared)
    try:
        for made in (lambda: _Declared(**{key: bad}), lambda: build("law", {"name": "declared", key: bad})):
            with refused(words):
                made()
    finally:
        del catalogue.REGISTERED["law"]["declared"]


def test_values_inside_their_bounds_are_taken_and_what_says_nothing_is_not_checked() -> None:
    law = _Declared(h=2, k=3.0, u=[1, 2], M=[[1]], way="right", on=False, other={"a": 1}, rest="all")  # type: ignore[arg-type]
    assert (law.h, law.k, law.u(1), law.way, law.other, law.rest) == (2.0, 3, 2.0, "right", {"a": 1}, "all")
    parameters = parameters_of(_Declared)
    assert not parameters["rest"].required
    assert parameters["rest"].default == []
    again = pickle.loads(pickle.dumps(copy.deepcopy(entry("motion", "jumps").parameters["gamma"])))
    assert again.required


def test_the_formula_follows_what_is_given() -> None:
    layers, localmax = entry("motion", "layers"), entry("law", "localmax")
    assert "(I + V)" in layers.formula_for({"V": [[1.0]]})
    assert "gamma" in layers.formula_for({"gamma": 0.5, "V": None})
    assert "|M_i|" in localmax.formula_for({"threshold": "relative"})
    assert "|" not in localmax.formula_for({"delta": 0.1})


def test_a_law_of_ones_own(everyone: type[af.Law]) -> None:
    law = build("law", {"name": "everyone", "self_weight": 2.0})
    assert isinstance(law, everyone)
    np.testing.assert_allclose(law.weights([[1.0], [2.0]]), [[0.75, 0.25], [0.25, 0.75]])
    assert class_named("Everyone") is everyone
    assert same_class("Everyone", f"{__name__}:everyone")
    assert not same_class("Nobody", f"{__name__}:everyone")
    assert af.Everyone is everyone
    assert entries("law")["everyone"].title == "Everyone"
    assert entries("law")["everyone"].parameters["self_weight"].symbol == "s"


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the catalogue as it was before the test."""
    monkeypatch.setattr(catalogue, "REGISTERED", {kind: dict(held) for kind, held in catalogue.REGISTERED.items()})


def uniform(name: str, base: type = af.Law, **attributes: Any) -> type[Any]:
    """Return a class of laws or motions that is called Uniform, in this module."""
    made = type("Uniform", (base,), {"name": name, "__module__": __name__, **attributes})
    return dataclass(frozen=True, eq=False)(made)


@pytest.mark.usefixtures("clean")
def test_a_cell_of_a_notebook_can_be_run_again() -> None:
    """The same definition under the same name takes the place of the former one, also as a motion."""
    register(uniform("same"))
    again = register(uniform("same"))
    assert entries("law")["same"].make is again
    moving = register(uniform("same", af.motions.DiscreteMotion))
    assert "same" not in entries("law")
    assert class_named(class_name(moving)) is moving


@pytest.mark.usefixtures("clean")
def test_a_function_may_make_several_laws() -> None:
    made = [register(uniform(f"power-{k}")) for k in (1, 2)]
    assert [entries("law")[f"power-{k}"].make for k in (1, 2)] == made
    assert [type(rebuild(describe(one()))) for one in made] == made


@pytest.mark.usefixtures("clean")
def test_classes_of_one_name_are_told_apart_by_their_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class of one's own that is called like one of ours, or like a part of one, does not take its place."""
    own = type("Softmax", (af.Law,), {"name": "mine"})
    assert rebuild(describe(own())) is None
    register(own)
    assert type(rebuild(describe(own()))) is own
    assert type(rebuild({"name": "Softmax"})) is af.Softmax
    part: type = dataclass(type("FeedForward", (), {}))
    then = field(default=None, metadata=about("part", "what follows", part=part))
    register(uniform("with-part", __annotations__={"then": Any}, then=then))
    flow = af.Flow(feed_forward=af.FeedForward(W=[[1.0]]))
    assert type(rebuild(describe(flow)).feed_forward) is af.FeedForward
    # Earlier stores have no modules.
    assert class_named("Uniform").__name__ == "Uniform"
    # A script that is imported is the same module under another name; an unrelated module is not.
    in_script = class_name(own).replace(own.__module__, "__main__")
    assert rebuild({"name": in_script}) is None
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__spec__", None)
    monkeypatch.setattr(main, "__file__", f"folder/{own.__module__}.py", raising=False)
    assert type(rebuild({"name": in_script})) is own
    for unknown in (class_name(own).replace(own.__module__, "elsewhere"), "__main__:Softmax"):
        with pytest.raises(KeyError):
            class_named(unknown)


def test_fields_that_are_no_parameters_are_not_checked() -> None:
    @dataclass(frozen=True, eq=False)
    class Counted(af.Softmax):
        calls: int = field(default=-1, init=False, metadata=about("count", "number of calls", least=0))

    assert (Counted(beta=2.0).beta, Counted().calls) == (2.0, -1)


def test_a_class_asked_before_it_is_a_dataclass_has_its_own_parameters_after() -> None:
    class Late(af.Softmax):
        width: float = field(default=1.0, metadata=about("number", "width", above=0.0))

    assert "width" not in parameters_of(Late)
    late: Any = dataclass(frozen=True, eq=False)(Late)
    assert "width" in parameters_of(late)
    with refused("width is -1, expected a finite number above 0"):
        late(width=-1)


@pytest.mark.usefixtures("clean")
def test_laws_and_parts_inside_parts() -> None:
    @dataclass(frozen=True)
    class Inner:
        size: float = field(default=1.0, metadata=about("number", "size", above=0.0))

    @dataclass(frozen=True)
    class Outer:
        inner: Any = field(default=None, metadata=about("part", "inner part", part=Inner))

    held = {"law": about("part", "a law", part=af.Law), "outer": about("part", "outer part", part=Outer)}
    fields: dict[str, Any] = {key: field(default=None, metadata=one) for key, one in held.items()}
    kind = register(uniform("wrapping", __annotations__=dict.fromkeys(held, Any), **fields))
    table = {"name": "wrapping", "law": {"name": "softmax", "beta": 2.0}, "outer": {"inner": {"size": 3.0}}}
    law = build("law", table)
    assert (law.law.beta, law.outer.inner.size) == (2.0, 3.0)
    again = rebuild(json.loads(json.dumps(describe(law))))
    assert (type(again), again.law.beta, again.outer.inner.size) == (kind, 2.0, 3.0)
    for bad, words in (
        ({"law": {"name": "layers"}}, "the name of the law is 'layers', expected one of softmax"),
        ({"law": {"name": "softmax", "betta": 1}}, "law softmax has no parameter 'betta': it takes beta, B"),
        ({"outer": {"inner": {"size": -1}}}, "size is -1, expected a finite number above 0"),
        ({"outer": 3}, "outer is 3, expected a table with some of inner"),
    ):
        with refused(words):
            build("law", {**table, **bad})
    with pytest.raises(af.InputError, match=re.escape("law is 3, expected a Law() or None")):
        kind(law=3)


@pytest.mark.usefixtures("clean")
def test_what_stands_beside_the_laws_of_heads() -> None:
    laws = field(metadata=about("laws", "laws", key="heads"))
    share = field(default=0.5, metadata=about("number", "share", beside="laws", above=0.0))
    register(uniform("mixture", __annotations__={"laws": Any, "share": Any}, laws=laws, share=share))
    assert build("law", {"name": "mixture", "heads": [{"name": "softmax"}, {"name": "hardmax", "share": 2}]}).share == [
        0.5,
        2.0,
    ]
    with refused("share of head 0 is -1, expected a finite number above 0"):
        build("law", {"name": "mixture", "heads": [{"name": "softmax", "share": -1}]})
    with refused("V of head 0 has shape"):
        build("law", {"name": "heads", "heads": [{"name": "softmax", "V": [[1, 2]]}]})
    matrix = field(default=None, metadata=about("matrix", "matrix"))
    register(uniform("valued", __annotations__={"V": Any}, V=matrix))
    with refused("V of head 0 is a parameter of law heads and of its valued"):
        build("law", {"name": "heads", "heads": [{"name": "valued", "V": [[2.0]]}]})


@pytest.mark.usefixtures("clean")
def test_values_that_json_lacks_and_classes_that_fail_do_not_stop_a_store() -> None:
    def fail(self: Any) -> None:
        if self.z == 0:
            raise ZeroDivisionError

    kind = register(uniform("other", __annotations__={"z": Any}, z=None, __post_init__=fail))
    assert json.loads(json.dumps(describe(kind(z=1j))))["z"] == {"another value": "1j"}
    assert rebuild(describe(kind(z={"a": 1}))) is None
    assert rebuild({**describe(kind(z=1)), "z": 0}) is None


@pytest.mark.usefixtures("clean")
def test_entries_of_classes_that_say_little() -> None:
    register(uniform("still", af.motions.DiscreteMotion, usual_time=25))
    motion = entry("motion", "still")
    assert motion.data["usual_time"] == 25
    assert motion.summary == "Still"


def test_bad_names_keys_and_classes_are_refused(everyone: type[af.Law]) -> None:
    with refused("softmax"):
        build("law", {"name": "softmaxx"})
    with refused("law softmax has no parameter 'betta': it takes beta, B"):
        build("law", {"name": "softmax", "betta": 1})
    with refused("does not say gamma"):
        build("motion", {"name": "jumps"})
    with refused("cannot be in the catalogue"):
        register(int)
    with refused("in the catalogue already"):

        @register
        class Another(af.Law):
            name = "everyone"

    with refused("the name of class Three is 3, expected a text"):
        register(type("Three", (af.Law,), {"name": 3}))
    with refused('class Kern has no name: write name = "my-law" in it'):
        register(type("Kern", (af.Softmax,), {}))
    with refused('class Kern has no name: write name = "my-motion" in it'):
        register(type("Kern", (af.Layers,), {"name": ""}))
    with refused("law everyone has no parameter 'h': it takes self_weight"):
        build("law", {"name": "everyone", "h": 1})
    with refused("name of Uniform is not a parameter: write name ="):
        register(uniform("typed", __annotations__={"name": str}))
    with refused("alternatives of two has 'beta', which is not one of its parameters"):
        register(uniform("two", alternatives=("beta",)))
    limit = field(default=1.0, metadata=about("function", "size", limit="hardmaxx"))
    with refused("the law that far tends to with h is 'hardmaxx', expected one of softmax"):
        register(uniform("far", __annotations__={"h": Any}, h=limit))
    with refused("the law is 3, expected a table"):
        build("law", 3)  # type: ignore[arg-type]
    with refused("kind is 'claim'"):
        entries("claim")


@pytest.mark.usefixtures("clean")
def test_fields_of_a_class_that_is_no_dataclass_are_refused() -> None:
    """Without the decorator they would vanish without a word."""

    class Kern(af.Law):
        name = "kern"
        continuous: bool = True  # type: ignore[misc]
        h: float = field(default=1.0, metadata=about("number", "width", above=0.0))

    words = "h of class Kern is not a parameter yet: write @dataclass(frozen=True, eq=False) above the class"
    with refused(re.escape(words)):
        register(Kern)
    with refused(re.escape(words)):
        register(uniform("derived", Kern))
    with refused("beta of class Sharp is not a parameter yet"):
        register(type("Sharp", (af.Softmax,), {"name": "sharp", "beta": 9.0, "__annotations__": {"beta": float}}))
    plain = {"name": "plain", "continuous": True, "__annotations__": {"continuous": bool, "most": "ClassVar[int]"}}
    register(type("Plain", (af.Softmax,), plain))
    assert list(entry("law", "plain").parameters) == list(entry("law", "softmax").parameters)
    register(uniform("bare"))
    with refused("law bare has no parameter 'h': it takes none$"):
        build("law", {"name": "bare", "h": 1})


def test_an_unknown_fact_about_a_parameter_is_refused_where_it_is_written() -> None:
    with refused("a fact about a parameter is 'leest', expected one of symbol, least, above, most, choices"):
        about("number", "width", leest=0.0)
    with refused("the kind of a parameter is 'numbr', expected one of function, number"):
        about("numbr", "width")


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize(
    ("default", "facts", "words"),
    [
        ("left", {"kind": "choice"}, "a choice needs choices"),
        ("l", {"kind": "choice", "choices": "left"}, "a choice needs choices"),
        ("up", {"kind": "choice", "choices": ("left", "right")}, "its default is 'up', expected one of left, right"),
        (-1.0, {"kind": "number", "above": 0.0}, "its default is -1, expected a finite number above 0"),
        ([1.0, 3.0], {"kind": "function", "most": 2.0}, "its default of layer 1 is 3, expected a finite number"),
        (2, {"kind": "number", "least": 3, "most": 1}, "no number satisfies least=3 and most=1, correct its bounds"),
        (2, {"kind": "count", "above": 2, "most": 2}, "no number satisfies above=2 and most=2, correct its bounds"),
        (2, {"kind": "number", "least": "0"}, "its least is '0', expected a number"),
    ],
)
def test_mistakes_in_what_a_parameter_says_of_itself(default: Any, facts: dict[str, Any], words: str) -> None:
    """They are those of the author of a class, who is told at once, also of a part of it."""
    held = field(default_factory=lambda: default, metadata=about(help="width", **facts))
    sentence = "class {} has a mistake in its parameter h: " + words
    with refused("^" + re.escape(sentence.format("Uniform"))):
        register(uniform("mistaken", __annotations__={"h": Any}, h=held))
    part: type = dataclass(type("Inner", (), {"__annotations__": {"h": Any}, "h": held}))
    outer = field(default=None, metadata=about("part", "what is inside", part=part))
    with refused("^" + re.escape(sentence.format("Inner"))):
        register(uniform("wrapping", __annotations__={"inner": Any}, inner=outer))
    assert not {"mistaken", "wrapping"} & {*entries("law")}


FILES = {
    "one name": ("laws", "A", "same", "laws", "B", "same", "laws.first.A and .*laws.second.B are both named 'same'"),
    "a name of ours": ("motions", "A", "layers", "laws", "B", "b", "motions.layers.Layers and .*first.A are both"),
    "one class": ("laws", "A", "a", "laws", "A", "b", "laws.first.A and .*laws.second.A have the same class name"),
    "a law and a motion": ("laws", "A", "a", "motions", "A", "a", "laws.first.A and .*motions.second.A have the same"),
}


@pytest.mark.parametrize("case", FILES)
def test_files_that_take_each_others_names_are_refused(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the catalogue is first read, since otherwise one of them would be lost without a word."""
    *files, words = FILES[case]
    for module, (room, kind, name) in (("first", files[:3]), ("second", files[3:])):
        base = {"laws": "Law", "motions": "DiscreteMotion"}[room]
        (tmp_path / room).mkdir(exist_ok=True)
        (tmp_path / room / f"{module}.py").write_text(
            f"from attnflow.{room} import {base}\n\nclass {kind}({base}):\n    name = {name!r}\n"
        )
    for room, package in (("laws", af.laws), ("motions", af.motions)):
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path / room)])
        for module in ("first", "second"):
            # Whatever the import puts there is taken away after the test.
            monkeypatch.setitem(sys.modules, f"{package.__name__}.{module}", None)
            monkeypatch.setattr(package, module, None, raising=False)
            del sys.modules[f"{package.__name__}.{module}"]
    catalogue._own.cache_clear()
    try:
        with refused(words):
            entries(files[0][:-1])
    finally:
        monkeypatch.undo()
        catalogue._own.cache_clear()
    assert "softmax" in entries("law")


NEIGHBOUR = {
    "laws": """
from dataclasses import dataclass
import numpy as np
import attnflow as af

@af.catalogue.register  # which an entry point makes needless, and which does no harm
@dataclass(frozen=True, eq=False)
class Flat(af.Law):
    '''Flat attention: P_ij = 1 / n.'''
    name = "flat"
    def log_weights(self, x, t=0, *, sources=None, masses=None):
        n = len(x if sources is None else sources)
        return np.full((len(x), n), -np.log(n))
""",
    "motions": """
from dataclasses import dataclass
import attnflow as af

@dataclass(frozen=True, eq=False)
class Still(af.motions.DiscreteMotion):
    '''No motion: x_i <- x_i.'''
    name = "still"
    def step(self, hearing, x, t):
        return x
""",
    "claims": """
import numpy as np
import attnflow as af
from attnflow.claims import Margins, Paper, Setting

SETTING = Setting({"tokens": ..., "steps": 3}, lambda instance: (af.Hardmax(), af.Layers(gamma=0.5)),
                  lambda rng, k: {"tokens": rng.standard_normal((3, 2))})

@Paper("next", "Neighbour", "Tokens next door", "0000.00000").claim(
    "finite", "Lemma 1", "proved", SETTING, "Tokens stay finite.")
def finite(e):
    '''Along the run.'''
    return Margins("finite", np.isfinite(e.states).all(axis=(1, 2)) * 2.0 - 1, e.times)
""",
    "figures": """
from attnflow.figures.gallery import Drawing, entry

@entry("next/dot", "A dot", "the neighbour", seed=0)
def dot(seed):
    from matplotlib.figure import Figure
    figure = Figure()
    figure.subplots().plot(seed, seed, "o")
    return Drawing(figure, "One dot.")
""",
    "broken": "raise RuntimeError('built for\\nanother version')",
}
GROUPS = ("laws", "motions", "claims", "figures")


def neighbour(folder: Path, points: dict[str, str], code: str) -> Any:
    """Run Python beside an installed package, as pip would leave it, that has these entry points."""
    package, about = folder / "neighbour", folder / "neighbour-1.0.dist-info"
    for place in (package, about):
        place.mkdir()
    for name, source in NEIGHBOUR.items():
        (package / f"{name}.py").write_text(source)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: neighbour\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("".join(f"[attnflow.{k}]\none = {v}\n" for k, v in points.items()))
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_an_installed_package_is_found_by_its_entry_points(tmp_path: Path) -> None:
    """Nothing imports it, and its law, motion, claim and figure are there, in the library and on the command line."""
    points = {"laws": "neighbour.laws:Flat", "motions": "neighbour.motions:Still"}
    points |= {"claims": "neighbour.claims", "figures": "neighbour.figures"}
    code = f"""
import attnflow as af
from attnflow.app.cli import main

print(af.catalogue.build("law", {{"name": "flat"}}).attend([[1.0], [3.0]]).tolist())
print(af.catalogue.build("motion", {{"name": "still"}}), af.check("next/finite", tokens=[[1.0]]).outcome)
main("check list".split())
main("figure list next".split())
main(["figure", "next/dot", "-o", {str(tmp_path)!r}, "--only", "svg"])
main("simulate --law flatt".split())
"""
    told = neighbour(tmp_path, points, code)
    # The first run after an installation also says that it compiles.
    assert sum("compiling kernels" not in line for line in told.stderr.splitlines()) == 1
    assert "there is no law 'flatt' (is 'flat' meant?), expected one of softmax" in told.stderr
    assert "flat\n" in told.stderr
    said = told.stdout.splitlines()
    assert said[:2] == ["[[2.0], [2.0]]", "Still() holds"]
    assert any(line.split()[:2] == ["next/finite", "proved"] for line in said)
    assert "next/dot  A dot" in said
    assert (tmp_path / "next-dot.svg").exists()


def test_a_package_whose_entry_points_fail_stops_nothing(tmp_path: Path) -> None:
    """One sentence for each, on the command line without a place in the code; all else works."""
    points = dict.fromkeys(GROUPS, "neighbour.broken") | {"motions": "neighbour.laws:Flat"}
    code = """
import attnflow as af
from attnflow.app.cli import main

main("check list".split())
main("figure list sphere".split())
main("simulate --law soft".split())
print("softmax" in af.catalogue.entries("law"), len(af.claims.all()) > 50)
"""
    told = neighbour(tmp_path, points, code)
    assert told.returncode == 0
    assert "fw/cluster-rate" in told.stdout
    assert "sphere/staircase" in told.stdout
    assert told.stdout.endswith("True True\n")
    said = told.stderr.splitlines()
    assert len(said) == 5
    for group in ("laws", "claims", "figures"):
        sentence = f"attnflow: neighbour.broken of the package neighbour is left out of attnflow.{group}, since"
        reason = "RuntimeError: built for another version; update or remove that package"
        assert any(line.startswith(sentence) and line.endswith(reason) for line in said)
    assert any("attnflow.motions" in line and "is a law, expected a motion" in line for line in said)


class Point:
    """An entry point whose package does something when it is loaded."""

    value, dist = "package", None

    def __init__(self, load: Any) -> None:
        self.load = load


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> list[Point]:
    """Entry points of every group, none of which has been loaded."""
    found: list[Point] = []
    monkeypatch.setattr(installed_packages, "_loaded", {})
    monkeypatch.setattr(metadata, "entry_points", lambda group: found)
    return found


def test_threads_wait_for_packages_that_are_being_loaded(points: list[Point]) -> None:
    begun, go_on, told = threading.Event(), threading.Event(), []

    def load() -> str:
        begun.set()
        go_on.wait()
        return "part"

    points.append(Point(load))
    threads = [threading.Thread(target=lambda: told.append(installed("slow"))) for _ in range(2)]
    threads[0].start()
    begun.wait()
    threads[1].start()
    threads[1].join(0.2)  # long enough for an answer that would come too early
    go_on.set()
    for thread in threads:
        thread.join()
    assert told == [["part"], ["part"]]


def test_a_package_that_ends_the_program_or_asks_again_stops_nothing(points: list[Point]) -> None:
    points += [Point(lambda: "first"), Point(lambda: sys.exit(3)), Point(lambda: len(installed("all")))]
    with pytest.warns(UserWarning, match="since loading it failed with SystemExit: 3"):
        assert installed("all") == ["first", 1]
    points.clear()
    assert installed("all") == ["first", 1]


def test_names_that_are_known_and_those_of_no_class_load_no_package(
    points: list[Point], everyone: type[af.Law]
) -> None:
    points.append(Point(lambda: pytest.fail("loaded")))
    assert class_named("FeedForward") is af.FeedForward
    assert af.Everyone is everyone
    assert not hasattr(af, "nothing_here")
    assert not hasattr(af, "_Nothing")
