"""Laws and motions of one's own in the catalogue: registered, built from plain data, stored, and refused."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow import catalogue
from attnflow.catalogue import build, class_name, class_named, entries, entry, register, same_class
from attnflow.core.parameters import about
from attnflow.serialise import describe, rebuild


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
