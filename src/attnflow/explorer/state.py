"""What is on the screen, as plain data: read and bounded, turned into the arguments of `simulate`, and into text.

What comes in is JSON from a page, so nothing in it is trusted: strings never become files, and everything has a bound.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from attnflow.app.config import CLOUDS, LAWS, MATRICES, SCHEDULES, Config
from attnflow.core.inputs import Array, InputError, cloud, matrix_at, number, one_of, whole
from attnflow.core.schedules import Schedule
from attnflow.laws import Hearing, Law
from attnflow.motions import Jumps, Leaps, Motion
from attnflow.runs.watch import Every, Geometric, Record
from attnflow.serialise import SCHEDULE, describe, varying

MOST_TOKENS = 5000
# A chain keeps the probabilities of all pairs.
MOST_IN_CHAINS = 1000
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
MOMENTS = 240  # frames of a flow
SECONDS = 30.0  # of wall clock for one run
LONGEST_WORD = 100_000  # systems refuse words of a command that are a little longer

# Hardmax is softmax with beta "inf": one slider leads to it.
SHOWN_LAWS = tuple(name for name in LAWS if name != "hardmax")
CLOCKS = ("linear", "log")
KEYS = ("tokens", "law", "motion", "until", "seed", "clock")
EXAMPLES = {
    "the state": '{"tokens": [[1.0], [0.0]], "law": {"name": "softmax"}, "motion": {"name": "flow"}, "until": 1}',
    "tokens": 'a list of rows, or a cloud such as {"cloud": "polygon", "k": 3}',
    "law": '{"name": "softmax", "beta": 4}',
    "motion": '{"name": "layers", "gamma": 0.5}',
}


@dataclass(frozen=True, eq=False)
class State:
    """A run that somebody looks at: `data` is the plain JSON, `settings` the same as `attnflow.app.config` has it.

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
    def record(self) -> Record:
        """Return what to record: `MOMENTS` moments of a flow, at most `MOST_FRAMES` layers, every move of a chain.

        On the logarithmic clock moments grow geometrically, whatever the motion.
        """
        discrete = self.motion.discrete
        if self.clock == "log":
            first = 1.0 if discrete else min(0.01, self.until / 1000)
            return Geometric(first, int((MOMENTS - 3) / max(1.0, math.log10(self.until / first))))
        if isinstance(self.motion, Jumps | Leaps):
            return None
        if discrete:
            return Every(math.ceil(self.until / (MOST_FRAMES - 2)))
        return np.linspace(0.0, self.until, MOMENTS)


def read(data: Any) -> State:
    """Return the state that plain JSON stands for, or refuse it in one sentence.

    >>> read({"tokens": [[1.0]], "law": {"name": "softmax", "B": "m.csv"}, "motion": {"name": "flow"}, "until": 1})
    Traceback (most recent call last):
    ...
    attnflow.InputError: B is a text, expected a list of rows such as [[1, 0], [0, 1]]
    """
    given = _said(data)
    law, motion = _table(given["law"], "law"), _table(given["motion"], "motion")
    law, motion = _hardened(law, motion)
    start, seed = _start(given["tokens"])
    settings = {"tokens": start, "law": law, "motion": motion, "until": 1, "seed": seed}
    built = Config(settings, Path()).arguments()
    until = _until(given["until"], built["law"], built["motion"])
    state = State(
        data={key: json.loads(json.dumps(value)) for key, value in given.items()},
        settings={**settings, "until": until},
        tokens=_placed(built["tokens"]),
        law=built["law"],
        motion=built["motion"],
        until=until,
        seed=_seed(given["seed"], "seed"),
        clock=one_of(_text(given["clock"], "clock"), CLOCKS, "clock"),
    )
    _fit(state)
    return state


def arguments(state: State) -> dict[str, Any]:
    """Return the arguments of `simulate`."""
    names = ("tokens", "law", "motion", "until", "seed", "record")
    return {name: getattr(state, name) for name in names}


# Reading


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
    for key, entry in value.items():
        if key in MATRICES and entry is not None:
            _rows(entry, key)
        elif isinstance(entry, dict | list):
            raise InputError(
                f"{key} of {name} is {_kind(entry)}, which cannot be shown here: give a number or a formula"
            )
    return {key: _plain(key, entry) for key, entry in value.items() if entry is not None}


def _plain(key: str, entry: Any) -> Any:
    """Return a number for a formula that does not mention t: it is one, wherever it is copied to."""
    if key in SCHEDULES and isinstance(entry, str) and entry != "inf" and (formula := Schedule(entry, key)).constant:
        return number(formula(0), key)
    return entry


def _bounded(value: dict[str, Any], name: str) -> None:
    """Refuse what is too deep, too long or too large."""
    waiting: list[tuple[Any, int]] = [(value, 0)]
    for count, (entry, depth) in enumerate(waiting):
        if depth > DEEPEST or count > MOST_ENTRIES:
            raise InputError(
                f"{name} has more than {MOST_ENTRIES} entries or more than {DEEPEST} levels: leave some out"
            )
        if isinstance(entry, dict):
            waiting += [(part, depth + 1) for pair in entry.items() for part in pair]
        elif isinstance(entry, list):
            waiting += [(part, depth + 1) for part in entry[: MOST_ENTRIES + 1]]
        elif isinstance(entry, str):
            _text(entry, f"a text of {name}")
        elif not isinstance(entry, bool | None):
            what = next((key for key, part in value.items() if part is entry), f"a number of {name}")
            number(entry, what, least=-LARGEST_PARAMETER, most=LARGEST_PARAMETER)


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
        for entry in row:
            _amount(entry, what)
    return rows


def _hardened(law: dict[str, Any], motion: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return softmax at beta "inf" as hardmax, and the rescaled flow for V = I under it as the flow of hardmax."""
    one_of(law.get("name", ""), SHOWN_LAWS, "the name of the law")
    if law["name"] != "softmax" or law.get("beta") != "inf":
        return law, motion
    law = {"name": "hardmax", **{key: entry for key, entry in law.items() if key not in ("name", "beta")}}
    if motion.get("name") == "rescaled-flow" and "V" not in motion:
        motion = {
            "name": "hardmax-flow",
            **{key: entry for key, entry in motion.items() if key not in ("name", "rtol")},
        }
    return law, motion


def _start(tokens: Any) -> tuple[dict[str, Any], int]:
    """Return the tokens as `attnflow.app.config` has them, and the seed they are drawn from."""
    if isinstance(tokens, list):
        if len(tokens) > MOST_TOKENS:
            raise InputError(f"there are {len(tokens)} tokens, expected at most {MOST_TOKENS}: take some away")
        return {"file": _rows(tokens, "tokens")}, 0
    table = _table(tokens, "tokens")
    name = one_of(table.get("cloud", ""), CLOUDS, "the cloud of the tokens")
    keys = CLOUDS[name][1]
    for key in table:
        one_of(key, ("cloud", *keys), f"a key of the cloud {name}")
    # Orthogonal tokens need as many dimensions.
    most = {"n": MOST_DIMENSIONS if name == "orthogonal" else MOST_TOKENS, "k": MOST_TOKENS, "d": MOST_DIMENSIONS}
    for key in most.keys() & table.keys():
        table[key] = whole(number(table[key], key, most=most[key]), key, least=1)
    for key in table.keys() & {"low", "high", "radius", "angle"}:
        table[key] = number(table[key], key)
    if table.get("k", 1) ** table.get("d", 1) > MOST_TOKENS:
        raise InputError(f"a grid of {table['k']} tokens per axis has more than {MOST_TOKENS}: give a smaller k")
    return table, _seed(table.pop("seed", 0), "the seed of the tokens")


def _placed(tokens: Any) -> Array:
    x = cloud(tokens)
    if float(np.abs(x).max()) > LARGEST_COORDINATE:
        i = int(np.abs(x).max(axis=1).argmax())
        raise InputError(f"token {i} is farther than {LARGEST_COORDINATE:g} from 0 in a coordinate: move it closer")
    return x


def _until(value: Any, law: Law, motion: Motion) -> float:
    """Return when the run ends: whole for layers and chains, very late only where steps are skipped."""
    end = _amount(value, "until")
    if not motion.discrete:
        return number(end, "until", least=SHORTEST, most=LONGEST)
    skips = isinstance(motion, Leaps) or (isinstance(motion, Jumps) and not motion.literal)
    long = skips and not varying(law, 0) and not varying(motion, 0)
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
    if isinstance(state.motion, Jumps) and n > MOST_IN_CHAINS:
        raise InputError(f"there are {n} tokens, but chains are shown of at most {MOST_IN_CHAINS}: take some away")
    for owner, name in ((state.law, "B"), (state.motion, "V")):
        matrix_at(getattr(owner, name, None), 0, d, name)
    state.motion.prepare(state.tokens, Hearing(state.law))
    for owner in (state.law, state.motion):
        varying(owner, 0)


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT or not value.isprintable():
        raise InputError(f"{what} is {_kind(value)}, expected at most {LONGEST_TEXT} printable characters")
    return value


def _kind(value: Any) -> str:
    """Return what a value is, for a sentence that cannot quote it."""
    kinds = {dict: "a table", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


# Writing


def python(state: State) -> str:
    """Return a script that makes the same run.

    >>> print(python(read({"tokens": {"cloud": "polygon", "k": 3}, "law": {"name": "softmax", "beta": 4},
    ...                    "motion": {"name": "jumps", "gamma": 0.1}, "until": 1e20, "seed": 7})))
    import attnflow as af
    <BLANKLINE>
    x0 = af.tokens.polygon(k=3)
    law = af.Softmax(beta=4.0)
    motion = af.Jumps(gamma=0.1)
    run = af.simulate(x0, law, motion, until=1e+20, seed=7)
    print(run.stopped)
    run.plot()
    <BLANKLINE>
    """
    end = _number(state.until)
    options = [f"until={end}", *(f"{name}={text}" for name, text in _options(state))]
    lines = [
        "import attnflow as af",
        "",
        f"x0 = {_tokens(state)}",
        f"law = {_built(state.law)}",
        f"motion = {_built(state.motion)}",
        f"run = af.simulate(x0, law, motion, {', '.join(options)})",
        "print(run.stopped)",
        "run.plot()",
    ]
    if any("np." in line for line in lines):
        lines.insert(0, "import numpy as np")
    return "\n".join(lines) + "\n"


def _tokens(state: State) -> str:
    table = state.data["tokens"]
    if isinstance(table, list):
        rows = "".join(f"    {row},\n" for row in state.tokens.tolist())
        return f"np.array([\n{rows}])"
    given = state.settings["tokens"] | ({"seed": state.settings["seed"]} if _drawn(state) else {})
    return f"af.tokens.{table['cloud']}({', '.join(f'{key}={v!r}' for key, v in given.items() if key != 'cloud')})"


def _drawn(state: State) -> bool:
    """Say whether the tokens are drawn from a seed."""
    name = state.settings["tokens"].get("cloud")
    return name is not None and "seed" in CLOUDS[name][1]


def _built(thing: Any) -> str:
    """Return the Python that makes a law or a motion, without its defaults."""
    default = {field.name: field.default for field in fields(thing)}
    given = {key: v for key, v in describe(thing).items() if key != "name" and v != default[key]}
    return f"af.{type(thing).__name__}({', '.join(f'{key}={_parameter(v)}' for key, v in given.items())})"


def _parameter(value: Any) -> str:
    return f"af.Schedule({value[SCHEDULE]!r})" if isinstance(value, dict) else repr(value)


def _number(value: float) -> str:
    """Return a number as short as it can be read back.

    >>> _number(40), _number(2.5), _number(int(1e25)), _number(1 / 3)
    ('40', '2.5', '1e+25', '0.3333333333333333')
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def _options(state: State) -> Iterator[tuple[str, str]]:
    """Yield the keywords of `simulate` that are not left at their defaults."""
    record = state.record
    if state.motion.random:
        yield "seed", str(state.seed)
    if isinstance(record, Geometric):
        yield "record", f"af.watch.{record!r}"
    elif isinstance(record, Every) and record.k > 1:
        yield "record", str(record.k)
    elif isinstance(record, np.ndarray):
        yield "record", f"np.linspace(0, {_number(state.until)}, {MOMENTS})"


def command(state: State) -> str:
    """Return a line for a shell that makes the same run, or a comment if the tokens do not fit in one.

    >>> print(command(read({"tokens": {"cloud": "polygon", "k": 5}, "law": {"name": "softmax", "beta": "inf"},
    ...                     "motion": {"name": "layers", "gamma": "2 / (t + 2)"}, "until": 40})))
    attnflow simulate --cloud polygon --k 5 --law hardmax --motion layers --gamma '2 / (t + 2)' --until 40
    """
    from attnflow.app.cli import FLAGS

    settings = {**state.settings, **_recorded(state), "until": json.loads(_number(state.until))}
    drawn = _drawn(state)
    if state.motion.random and drawn and settings["seed"] != state.seed:
        # The command line has one seed for the start and for the motion.
        settings["tokens"] = {"file": state.tokens.tolist()}
    if state.motion.random:
        settings["seed"] = state.seed
    elif not drawn:
        del settings["seed"]
    words = ["attnflow", "simulate"]
    for flag, (table, key, _) in FLAGS.items():
        place = settings if table is None else settings.get(table, {})
        if key in place:
            value = place[key]
            words += [f"--{flag}", value if isinstance(value, str) else json.dumps(value)]
    if max(map(len, words)) > LONGEST_WORD:
        return f"# {len(state.tokens)} tokens placed by hand do not fit in one line of a shell: use the Python script"
    return shlex.join(words)


def _recorded(state: State) -> dict[str, Any]:
    record = state.record
    if isinstance(record, Geometric):
        return {"record": {"first": record.first, "per_decade": record.per_decade}}
    return {"record": record.k} if isinstance(record, Every) and record.k > 1 else {}
