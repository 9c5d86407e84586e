"""What is on the screen, as plain data: read and bounded, and turned into the arguments of `simulate`.

What comes in is JSON from a page, so nothing in it is trusted: strings never become files, and everything has a bound.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow.catalogue import beside, build, entries, entry
from attnflow.core.inputs import Array, InputError, cloud, matrix_at, number, one_of, whole
from attnflow.core.installed import of_this_process
from attnflow.core.parameters import KINDS, Parameter, parameters_of
from attnflow.core.schedules import Schedule
from attnflow.laws import Hearing, Law
from attnflow.laws.graphs import GRAPHS
from attnflow.motions import Motion
from attnflow.runs.recording import Every, Geometric, Record
from attnflow.serialise import varying

# Of a cloud that has a name. Tokens that are given as rows have room for fewer in a message of the page.
MOST_TOKENS = 200_000
# More than MANY tokens travel and are kept in float32, and single ones are neither moved nor coloured.
MANY = 5000
# A chain keeps the probabilities of all pairs.
MOST_IN_CHAINS = 1000
# A graph is an array of all pairs.
MOST_IN_GRAPHS = 500
MOST_DIMENSIONS = 3
LARGEST_COORDINATE = 1e6
LARGEST_PARAMETER = 1e12
LARGEST_SEED = 2**53  # as far as a page counts
MOST_STEPS = 20_000
SHORTEST, LONGEST = 1e-9, 1e25  # times of flows; jumps and leaps may make as many steps
LONGEST_TEXT = 200
DEEPEST = 3
MOST_ENTRIES = 100  # of a law or a motion
MOST_FRAMES = 600
MOMENTS = 240  # frames of a flow, or a few more
RUN_BYTES = 100_000_000  # of all frames of a run
SECONDS = 30.0  # of wall clock for one run

# The first screen.
FIRST: dict[str, Any] = {
    "tokens": {"cloud": "gaussian", "n": 24, "d": 2, "seed": 103},
    "law": {"name": "softmax", "beta": 4, "B": None},
    "motion": {"name": "layers", "gamma": 0.1},
    "until": 60,
    "seed": 0,
    "clock": "linear",
}
CLOCKS = ("linear", "log")
PAIRS = ("graph", "scores")  # kinds of parameters with a value for each pair of tokens
KEYS = ("tokens", "law", "motion", "until", "seed", "clock")
EXAMPLES = {
    "the state": '{"tokens": [[1.0], [0.0]], "law": {"name": "softmax"}, "motion": {"name": "flow"}, "until": 1}',
    "tokens": 'a list of rows, or a cloud such as {"cloud": "polygon", "k": 3}',
    "law": '{"name": "softmax", "beta": 4}',
    "motion": '{"name": "layers", "gamma": 0.5}',
}


@dataclass(frozen=True, eq=False)
class State:
    """A run that somebody looks at: `data` is the plain JSON, `settings` the same as in a configuration file.

    >>> state = read({"tokens": [[1.0], [0.0]], "law": {"name": "softmax", "beta": "inf"},
    ...               "motion": {"name": "layers", "gamma": 0.5}, "until": 1000})
    >>> state.law, state.motion, state.record
    (Hardmax(B=None, ties='tokens', b=None), Layers(gamma=0.5, alpha=None, V=None), Every(k=2))
    """

    data: dict[str, Any]
    settings: dict[str, Any]
    tokens: Array
    law: Law
    motion: Motion
    until: float
    seed: int
    clock: str

    @property
    def precision(self) -> type[np.floating[Any]]:
        """The numbers in which frames travel and are kept: float64, and float32 of many tokens."""
        return np.float32 if len(self.tokens) > MANY else np.float64

    @property
    def most_frames(self) -> int:
        """How many frames of these tokens have room in `RUN_BYTES`, at most `MOST_FRAMES`."""
        return min(MOST_FRAMES, RUN_BYTES // (self.tokens.size * np.dtype(self.precision).itemsize))

    @property
    def record(self) -> Record:
        """Return what to record: about `MOMENTS` moments of a flow, at most `MOST_FRAMES` layers, or every move.

        Of very many tokens there are fewer of all these. Motions that skip steps are recorded at every move: what they
        skip cannot be seen.

        On the logarithmic clock moments grow geometrically, whatever the motion.
        """
        discrete, most = self.motion.discrete, self.most_frames
        if self.clock == "log":
            first = 1.0 if discrete else min(0.01, self.until / 1000)
            return Geometric(first, int((min(MOMENTS, most) - 3) / max(1.0, math.log10(self.until / first))))
        if self.motion.skips_steps:
            return None
        if discrete:
            return Every(math.ceil(self.until / (most - 2)))
        return np.linspace(0.0, self.until, min(moments(self.until), most))


def moments(until: float) -> int:
    """Return the number of frames of a flow: such that whole times are among them, where layers have frames, too.

    >>> moments(2.5), moments(60)
    (240, 241)
    >>> np.linspace(0, 60, moments(60))[:5]
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    if until % 1 or until > MOST_FRAMES - 1:
        return MOMENTS
    return int(until) * math.ceil((MOMENTS - 1) / until) + 1


def read(data: Any) -> State:
    """Return the state that plain JSON stands for, or refuse it in one sentence.

    >>> read({"tokens": [[1.0]], "law": {"name": "softmax", "B": "m.csv"}, "motion": {"name": "flow"}, "until": 1})
    Traceback (most recent call last):
    ...
    attnflow.InputError: B is a text, expected a list of rows such as [[1, 0], [0, 1]]
    """
    given = _said(data)
    chosen = _at_the_limit(_part(given["law"], "law"), _part(given["motion"], "motion"))
    start, seed = _start(given["tokens"])
    tokens = _placed(start, seed)
    chosen["law"] = _with_graphs(chosen["law"], len(tokens))
    law, motion = (build(kind, table, _value) for kind, table in chosen.items())
    until = _until(given["until"], law, motion)
    state = State(
        data={key: json.loads(json.dumps(value)) for key, value in given.items()},
        settings={"tokens": start, **chosen, "until": until, "seed": seed},
        tokens=tokens,
        law=law,
        motion=motion,
        until=until,
        seed=_seed(given["seed"], "seed"),
        clock=one_of(_text(given["clock"], "clock"), CLOCKS, "clock"),
    )
    _fit(state)
    return state


def shown(kind: str) -> tuple[str, ...]:
    """Return the names of the laws or motions that can be chosen.

    A law that says which one tends to it is reached through that one: one slider leads from softmax to hardmax. What is
    known in this process alone is not shown, since workers compute.

    >>> "softmax" in shown("law"), "hardmax" in shown("law")
    (True, False)
    """
    return tuple(
        name
        for name, each in entries(kind).items()
        if not getattr(each.make, "limit_of", "")
        and not of_this_process(each.make)
        and not any(one.required and not one.shown for one in each.parameters.values())
    )


def parameters_beside(kind: str, name: str) -> list[Parameter]:
    """Return the parameters of what may stand around a law or a motion, such as masks.

    >>> [one.key for one in parameters_beside("law", "softmax")]
    ['causal', 'window', 'graph', 'rope', 'alibi', 'bias']
    """
    return [
        one
        for other, keys in beside(kind, name).items()
        for one in entry(kind, other).parameters.values()
        if one.key in keys
    ]


def outside(kind: str, name: str) -> list[dict[str, Any]]:
    """Return what may stand around a law or a motion, as JSON data, with the parameters for which a page has fields.

    >>> [(one["adds"], [each["key"] for each in one["parameters"]]) for one in outside("motion", "sphere-flow")]
    [('noise', ['kappa', 'dt'])]
    """
    found, inside = [], entry(kind, name).make
    for other, keys in beside(kind, name).items():
        one = entry(kind, other)
        taken = one.make.parameters_around(inside) if hasattr(one.make, "parameters_around") else tuple(one.parameters)
        together = bool(getattr(one.make, "given_together", False))
        shown = [
            each
            for key, each in one.parameters.items()
            if key in taken and each.key in keys and (each.shown or each.kind in PAIRS)
        ]
        # Where all are needed, a page that cannot show one of them has none.
        if shown and (not together or len(shown) == len(taken)):
            adds = getattr(one.make, "adds", "") or one.title.lower()
            ordered = bool(getattr(one.make, "by_order", False))
            fields = [each.data | ({"choices": list(GRAPHS)} if each.kind == "graph" else {}) for each in shown]
            able = {"adds": adds, "together": together, "ordered": ordered, "parameters": fields}
            found.append({key: one.data.get(key) for key in ("name", "summary", "formula", "random")} | able)
    return found


def arguments(state: State) -> dict[str, Any]:
    """Return the arguments of `simulate`."""
    return {name: getattr(state, name) for name in ("tokens", "law", "motion", "until", "seed", "record")}


def _said(data: Any) -> dict[str, Any]:
    """Return what the state says under each of its keys."""
    if not isinstance(data, dict):
        raise InputError(f"the state is {_kind(data)}, expected a table such as {EXAMPLES['the state']}")
    for key in data:
        one_of(_text(key, "a key of the state"), KEYS, "a key of the state")
    given = {"seed": 0, "clock": "linear"} | {key: value for key, value in data.items() if value is not None}
    for key in KEYS:
        if key not in given:
            raise InputError(f"the state does not say '{key}': add it, as in {EXAMPLES['the state']}")
    return {key: given[key] for key in KEYS}


def _table(value: Any, name: str) -> dict[str, Any]:
    """Return a table without its nulls, which stand for defaults; so small that a sentence may quote any of it."""
    if not isinstance(value, dict):
        verb = "are" if name == "tokens" else "is"
        raise InputError(f"{name} {verb} {_kind(value)}, expected {EXAMPLES[name]}")
    _bounded(value, name)
    return {key: one for key, one in value.items() if one is not None}


def _part(value: Any, kind: str) -> dict[str, Any]:
    """Return what is said of the law or the motion; what its parameters mean is checked when it is made."""
    table = _table(value, kind)
    name = one_of(table.get("name", ""), shown(kind), f"the name of the {kind}")
    own = entry(kind, name).parameters
    limits = [entry(kind, one.limit).parameters for one in own.values() if one.limit]
    outside = {one.key: one for one in parameters_beside(kind, name)}
    known = outside | {one.key: one for parameters in (*limits, own) for one in parameters.values()}
    return {key: _checked(known.get(key), key, one, kind) for key, one in table.items()}


def _checked(parameter: Parameter | None, key: str, given: Any, kind: str) -> Any:
    """Return what is given for a parameter; a formula that does not mention t as the number that it is everywhere."""
    if parameter and parameter.kind in ("matrix", "rectangular", "scores"):
        return _rows(given, key)
    if parameter and parameter.kind == "vector":
        return _rows([given], key)[0]
    if parameter and parameter.kind == "graph":
        return one_of(_named(given, key), GRAPHS, key)
    if isinstance(given, dict | list) or (parameter and not KINDS[parameter.kind].flag):
        raise InputError(f"{key} of {kind} is {_kind(given)}, which cannot be shown here: give a number or a formula")
    formula = _value(parameter, given) if parameter and given != "inf" else given
    return number(formula(0), key) if isinstance(formula, Schedule) and formula.constant else given


def _named(given: Any, key: str) -> str:
    """Return the name of a graph, or refuse an array, which the page could not show."""
    if not isinstance(given, str):
        raise InputError(f"{key} is {_kind(given)}, which cannot be shown here: give one of {', '.join(GRAPHS)}")
    return given


def _with_graphs(law: dict[str, Any], n: int) -> dict[str, Any]:
    """Return the table of a law with the arrays of n tokens in place of the names of graphs."""
    outside = {one.key: one for one in parameters_beside("law", law["name"])}
    named = {key: one for key, one in law.items() if key in outside and outside[key].kind == "graph"}
    if named and n > MOST_IN_GRAPHS:
        raise InputError(f"there are {n} tokens, but graphs are shown of at most {MOST_IN_GRAPHS}: take some away")
    return {**law, **{key: GRAPHS[name](n).astype(int).tolist() for key, name in named.items()}}


def _value(parameter: Parameter, given: Any) -> Any:
    """Return what a law or motion is made with: formulas become functions of time."""
    formula = KINDS[parameter.kind].text == "formula" and isinstance(given, str)
    return Schedule(given, parameter.name) if formula else given


def _bounded(value: dict[str, Any], name: str) -> None:
    """Refuse what is too deep, too long or too large."""
    waiting: list[tuple[Any, int]] = [(value, 0)]
    for count, (one, depth) in enumerate(waiting):
        if depth > DEEPEST or count > MOST_ENTRIES:
            raise InputError(
                f"{name} has more than {MOST_ENTRIES} entries or more than {DEEPEST} levels: leave some out"
            )
        if isinstance(one, dict):
            waiting += [(part, depth + 1) for pair in one.items() for part in pair]
        elif isinstance(one, list):
            waiting += [(part, depth + 1) for part in one[: MOST_ENTRIES + 1]]
        elif isinstance(one, str):
            _text(one, f"a text of {name}")
        elif not isinstance(one, bool | None):
            what = next((key for key, part in value.items() if part is one), f"a number of {name}")
            number(one, what, least=-LARGEST_PARAMETER, most=LARGEST_PARAMETER)


def _rows(rows: Any, name: str) -> list[list[float]]:
    """Check rows of numbers: no strings, which would be files, and no true or false, which would be 1 and 0."""
    if not isinstance(rows, list):
        raise InputError(f"{name} is {_kind(rows)}, expected a list of rows such as [[1, 0], [0, 1]]")
    what = "a coordinate of tokens" if name == "tokens" else f"an entry of {name}"
    for row in rows:
        if not isinstance(row, list):
            raise InputError(f"a row of {name} is {_kind(row)}, expected a list of numbers")
        if len(row) > MOST_DIMENSIONS:
            raise InputError(f"a row of {name} has {len(row)} numbers, expected at most {MOST_DIMENSIONS}")
        for one in row:
            _amount(one, what)
    return rows


def _at_the_limit(law: dict[str, Any], motion: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the law and the motion; a law with a parameter at "inf" is the one that it tends to.

    So softmax at beta "inf" is hardmax, and the rescaled flow for V = I under it is the flow of hardmax.
    """
    parameters = entry("law", law["name"]).parameters.values()
    end = next((one for one in parameters if one.limit and law.get(one.key) == "inf"), None)
    if end is None:
        return {"law": law, "motion": motion}
    law = {**{key: one for key, one in law.items() if key != end.key}, "name": end.limit}
    exact = {
        one.data["exact_for"]: name for name, one in entries("motion").items() if one.data["only_law"] == end.limit
    }
    # What is exact needs no tolerance, and a law around which nothing stands.
    plain = not any(one.key in law for one in parameters_beside("law", end.limit))
    if plain and motion["name"] in exact and motion.keys() <= {"name", "rtol"}:
        motion = {"name": exact[motion["name"]]}
    return {"law": law, "motion": motion}


def _start(tokens: Any) -> tuple[dict[str, Any], int]:
    """Return the tokens as configuration files have them, and the seed they are drawn from."""
    if isinstance(tokens, list):
        if len(tokens) > MOST_TOKENS:
            raise InputError(f"there are {len(tokens)} tokens, expected at most {MOST_TOKENS}: take some away")
        return {"file": _rows(tokens, "tokens")}, 0
    table = _table(tokens, "tokens")
    name = one_of(table.get("cloud", ""), entries("cloud"), "the cloud of the tokens")
    known = entry("cloud", name).parameters
    for key in table:
        one_of(key, ("cloud", *known), f"a key of the cloud {name}")
    # A cloud that need not be told its dimension takes as many as it has tokens.
    alone = "d" in known and not known["d"].required
    most = {"n": MOST_DIMENSIONS if alone else MOST_TOKENS, "k": MOST_TOKENS, "d": MOST_DIMENSIONS}
    for key in most.keys() & table.keys():
        table[key] = whole(number(table[key], key, most=most[key]), key, least=1)
    for key in (key for key in table if key in known and known[key].kind == "number"):
        table[key] = number(table[key], key)
    if table.get("k", 1) ** table.get("d", 1) > MOST_TOKENS:
        raise InputError(f"a grid of {table['k']} tokens per axis has more than {MOST_TOKENS}: give a smaller k")
    return table, _seed(table.pop("seed", 0), "the seed of the tokens")


def _placed(start: dict[str, Any], seed: int) -> Array:
    """Return the tokens that are meant, none of them far away."""
    if "file" in start:
        x = cloud(start["file"])
    else:
        given = {"name": start["cloud"], **{key: one for key, one in start.items() if key != "cloud"}}
        x = cloud(build("cloud", given | ({"seed": seed} if drawn(start) else {})))
    if float(np.abs(x).max()) > LARGEST_COORDINATE:
        i = int(np.abs(x).max(axis=1).argmax())
        raise InputError(f"token {i} is farther than {LARGEST_COORDINATE:g} from 0 in a coordinate: move it closer")
    return x


def drawn(start: dict[str, Any]) -> bool:
    """Say whether the tokens are drawn from a seed."""
    return "cloud" in start and "seed" in entry("cloud", start["cloud"]).parameters


def _until(value: Any, law: Law, motion: Motion) -> float:
    """Return when the run ends: whole for layers and chains, very late only where steps are skipped."""
    end = _amount(value, "until")
    if not motion.discrete:
        return number(end, "until", least=SHORTEST, most=LONGEST)
    long = motion.skips_steps and not varying(law, 0) and not varying(motion, 0)
    # The page counts in float64: beyond 2**53 the nearest one is meant.
    return whole(number(end, "until", most=LONGEST if long else MOST_STEPS), "until", least=1)


def _seed(value: Any, name: str) -> int:
    return whole(number(_amount(value, name), name, most=LARGEST_SEED), name, least=0)


def _amount(value: Any, name: str) -> float:
    """Return a number as it is; what is none may be too long to be quoted."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{name} is {_kind(value)}, expected a number")
    return value


def _fit(state: State) -> None:
    """Ask the library whether tokens, law and motion go together, before anything moves."""
    n, d = state.tokens.shape
    if state.motion.stores_all_pairs and n > MOST_IN_CHAINS:
        raise InputError(f"there are {n} tokens, but chains are shown of at most {MOST_IN_CHAINS}: take some away")
    owners: tuple[Any, ...] = (state.law, state.motion)
    for owner in owners:
        for name, one in parameters_of(owner.__class__).items():
            if one.kind == "matrix":
                matrix_at(getattr(owner, name), 0, d, name)
    state.motion.prepare(state.tokens, Hearing(state.law))
    for owner in owners:
        varying(owner, 0)


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT or not value.isprintable():
        raise InputError(f"{what} is {_kind(value)}, expected at most {LONGEST_TEXT} printable characters")
    return value


def _kind(value: Any) -> str:
    """Return what a value is, for a sentence that cannot quote it."""
    kinds = {dict: "a table", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")
