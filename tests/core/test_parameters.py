"""What parameters say of themselves: it is checked when a law is made, and when its class is written."""

from __future__ import annotations

import copy
import pickle
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from refusals import refused

import attnflow as af
from attnflow import catalogue
from attnflow.catalogue import build, entries, entry, register
from attnflow.core.parameters import about, parameters_of


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


def test_an_unknown_fact_about_a_parameter_is_refused_where_it_is_written() -> None:
    with refused("a fact about a parameter is 'leest', expected one of symbol, least, above, most, choices"):
        about("number", "width", leest=0.0)
    with refused("the kind of a parameter is 'numbr', expected one of function, number"):
        about("numbr", "width")


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

    def law(**fields: Any) -> type[Any]:
        made = type("Uniform", (af.Law,), {"name": "mistaken", "__annotations__": dict.fromkeys(fields, Any), **fields})
        return dataclass(frozen=True, eq=False)(made)

    held = field(default_factory=lambda: default, metadata=about(help="width", **facts))
    sentence = "class {} has a mistake in its parameter h: " + words
    with refused("^" + re.escape(sentence.format("Uniform"))):
        register(law(h=held))
    part: type = dataclass(type("Inner", (), {"__annotations__": {"h": Any}, "h": held}))
    outer = field(default=None, metadata=about("part", "what is inside", part=part))
    with refused("^" + re.escape(sentence.format("Inner"))):
        register(law(inner=outer))
    assert "mistaken" not in entries("law")


def test_fields_of_others_are_known_by_their_defaults() -> None:
    """A law whose fields say nothing of themselves: a yes or no is a switch, a text a choice of any text."""

    @dataclass(frozen=True, eq=False)
    class Plain(af.Law):
        name = "plain"
        on: bool = True
        way: str = "left"
        h: float = 1.0
        other: Any = None

    found = parameters_of(Plain)
    assert {name: one.kind for name, one in found.items()} == {
        "on": "switch", "way": "choice", "h": "function", "other": "any",
    }  # fmt: skip
    assert found["way"].check("anywhere") == "anywhere"
    with refused("way is 3, expected"):
        found["way"].check(3)
    with refused("on is 'yes', expected True or False"):
        found["on"].check("yes")
