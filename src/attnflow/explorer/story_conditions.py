"""What a story may ask for and say: a small closed set of conditions on what is on the screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from attnflow import claims
from attnflow.catalogue import entry
from attnflow.core.inputs import InputError, number, one_of, whole
from attnflow.explorer.presets import SHOWN
from attnflow.explorer.state import CLOCKS, State, parameters_beside, shown

Table = dict[str, Any]
BOUNDS = ("at_least", "at_most", "is")
PARTS = ("tokens", "law", "motion", "until", "clock")
OUTCOMES = ("holds", "violated", "hypotheses not met", "undecided")
OF_HYPOTHESES = ("holds", "fails", "undecided")
PLACES = ("corners", "limits", "mean", "token")
LARGEST = 1e30


@dataclass(frozen=True)
class Condition:
    """One kind of condition: what it means, the keys that it needs or takes, and whether it compares a number.

    What only a `truth` may say is not `seen` by the page.
    """

    meaning: str
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    compares: bool = False
    seen: bool = True
    more: Callable[[Table, State], None] = field(default=lambda given, state: None)


def _parameter(given: Table, state: State) -> None:
    """Refuse a parameter that the law or the motion on the screen does not have."""
    part, _, key = given["key"].partition(".")
    one_of(part, ("law", "motion"), "the part before the point of key, as in 'law.beta',")
    name = state.data[part]["name"]
    known = {one.key for one in (*entry(part, name).parameters.values(), *parameters_beside(part, name))}
    one_of(key, tuple(sorted(known)), f"the parameter of {name}")


def _claim(given: Table, state: State) -> None:
    claim = next((one for one in claims.all() if one.id == given["claim"]), None)
    if claim is None:
        raise InputError(f"there is no claim '{given['claim']}': attnflow check --list has their names")
    if "hypothesis" in given:
        one_of(given["hypothesis"], tuple(claim.given), f"the hypothesis of {claim.id}")
    one_of(given["outcome"], OF_HYPOTHESES if "hypothesis" in given else OUTCOMES, "the outcome")


def _named(known: Callable[[Table], tuple[str, ...]]) -> Callable[[Table, State], None]:
    """Return a check of `name` against the names that are known."""

    def check(given: Table, state: State) -> None:
        one_of(given["name"], known(given), f"the name in '{given['what']}'")

    return check


CONDITIONS: dict[str, Condition] = {
    "parameter": Condition("a parameter of the law or the motion", ("key",), compares=True, more=_parameter),
    "model": Condition("the law or the motion that is chosen", ("part", "name"),
                       more=_named(lambda given: shown(given["part"]))),
    "unchanged": Condition("these parts are as the step opened them", ("parts",)),
    "time": Condition("the time shown; with at_most, while it does not play", compares=True),
    "until": Condition("when the run ends", compares=True),
    "clock": Condition("the clock that is chosen", ("name",), more=_named(lambda given: CLOCKS)),
    "moved": Condition("a token was moved by hand, or this one", takes=("token",)),
    "cell": Condition("a token was moved into another cell, or this one", takes=("token",)),
    "overlay": Condition("an overlay is switched on, or off", ("name",), ("on",), more=_named(lambda given: SHOWN)),
    "chosen": Condition("a token is chosen, or this one", takes=("token",)),
    "tokens": Condition("the number of tokens", compares=True),
    "clusters": Condition("the number of clusters at the end of the run", compares=True),
    "claim": Condition("the verdict on a claim, or on one of its hypotheses", ("claim", "outcome"), ("hypothesis",),
                       more=_claim),
    "clusters at": Condition("the number of clusters at a time", ("time",), compares=True, seen=False),
    "way": Condition("how far the token that moves most is from where it was", ("from", "to"), ("token",),
                     compares=True, seen=False),
    "bend": Condition("how far a path leaves the straight line, at most", compares=True, seen=False),
    "leaders": Condition("the number of leaders at the start", compares=True, seen=False),
    "corners": Condition("the number of corners of the hull at the start", compares=True, seen=False),
    "ends": Condition("how far tokens end from these places, at most", ("at",), ("token",), compares=True, seen=False),
    "cosine": Condition("the least cosine of two tokens at a time", ("time",), compares=True, seen=False),
    "mean": Condition("the length of the mean of all tokens at a time", ("time",), compares=True, seen=False),
    "drift": Condition("how far the mean of all tokens has moved at the end", compares=True, seen=False),
    "levels": Condition("how many places tokens have along a direction at the end", ("along",), compares=True,
                        seen=False),
    "quiescent": Condition("the number of quiescent sets at a time", ("time",), compares=True, seen=False),
}  # fmt: skip


def check_condition(given: Any, state: State, page: bool) -> Table:
    """Return a condition, or refuse it in one sentence: an unknown key, a missing one, or a value that is none.

    With `page` only what the page can see is taken.
    """
    if not isinstance(given, dict):
        raise InputError('a condition is no table, expected one such as {what = "time", at_least = 40}')
    known = tuple(name for name, one in CONDITIONS.items() if one.seen or not page)
    condition = CONDITIONS[one_of(given.get("what", ""), known, "what a condition is about")]
    bounds = BOUNDS if condition.compares else ()
    apart = () if page else ("answer", "given")
    for key in given:
        one_of(key, ("what", *condition.needs, *condition.takes, *bounds, *apart), f"a key of '{given['what']}'")
    missing = [key for key in condition.needs if key not in given]
    if missing:
        raise InputError(f"the condition '{given['what']}' does not say '{missing[0]}': add it")
    if condition.compares and not any(key in given for key in bounds):
        raise InputError(f"the condition '{given['what']}' compares with nothing: add at_least, at_most or is")
    for key, value in given.items():
        if key in VALUES:
            VALUES[key](value, key, state)
    condition.more(given, state)
    return given


def _text(value: Any, key: str, state: State) -> None:
    if not isinstance(value, str):
        raise InputError(f"{key} is no text: put it in quotation marks")


def _bound(value: Any, key: str, state: State) -> None:
    if value != "inf":
        _amount(value, key, state)


def _value(value: Any, key: str, state: State) -> None:
    if not isinstance(value, str):  # a word, for a parameter that is one of several words
        _amount(value, key, state)


def _amount(value: Any, key: str, state: State) -> None:
    if isinstance(value, bool):
        raise InputError(f"{key} is true or false, expected a number")
    number(value, key, least=-LARGEST, most=LARGEST)


def _token(value: Any, key: str, state: State) -> None:
    if isinstance(value, bool) or whole(value, key, least=0) >= len(state.tokens):
        raise InputError(f"{key} is {value}, but the tokens are 0 to {len(state.tokens) - 1}")


def _switch(value: Any, key: str, state: State) -> None:
    if not isinstance(value, bool):
        raise InputError(f"{key} is {value!r:.40}, expected true or false")


def _parts(value: Any, key: str, state: State) -> None:
    if not isinstance(value, list) or not value:
        raise InputError(f"{key} is no list, expected some of {', '.join(PARTS)}")
    for one in value:
        one_of(one, PARTS, f"one of {key}")


def _direction(value: Any, key: str, state: State) -> None:
    if not isinstance(value, list) or len(value) != state.tokens.shape[1]:
        raise InputError(f"{key} is no list of {state.tokens.shape[1]} numbers, one for each coordinate")
    for one in value:
        _amount(one, key, state)


def _among(known: tuple[str, ...]) -> Callable[[Any, str, State], None]:
    def check(value: Any, key: str, state: State) -> None:
        one_of(value, known, key)

    return check


def _table(value: Any, key: str, state: State) -> None:
    if not isinstance(value, dict):
        raise InputError(f'{key} is no table, expected one such as {{law = {{name = "softmax", beta = 8}}}}')
    for part in value:
        one_of(part, PARTS, f"a key of {key}")


VALUES: dict[str, Callable[[Any, str, State], None]] = {
    **dict.fromkeys(("key", "claim", "outcome", "hypothesis"), _text),
    **dict.fromkeys(("at_least", "at_most"), _bound),
    "is": _value,
    **dict.fromkeys(("from", "to", "time"), _amount),
    "token": _token,
    "part": _among(("law", "motion")),
    "at": _among(PLACES),
    "on": _switch,
    "answer": _switch,
    "parts": _parts,
    "along": _direction,
    "given": _table,
}
