"""What is on the screen as text that makes the same run: a Python script, or a line for a shell."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from attnflow.app.flags import flags
from attnflow.catalogue import has_parameters
from attnflow.core.parameters import parameters_of
from attnflow.explorer.state import State, drawn
from attnflow.runs.recording import Every, Geometric
from attnflow.serialise import SCHEDULE, describe

LONGEST_WORD = 100_000  # systems refuse words of a command that are a little longer


def python(state: State) -> str:
    """Return a script that makes the same run.

    >>> from attnflow.explorer.state import read
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
    lines = [
        f"x0 = {_tokens(state)}",
        f"law = {_built(state.law, _graphs(state))}",
        f"motion = {_built(state.motion)}",
        f"run = af.simulate(x0, law, motion, {_arguments(state)})",
        "print(run.stopped)",
        "run.plot()",
    ]
    return _script([state], lines)


def python_pair(left: State, right: State) -> str:
    """Return a script that makes two runs of the same tokens, and says how far these are apart at the end.

    >>> from attnflow.explorer.state import read
    >>> soft = {"tokens": {"cloud": "polygon", "k": 3}, "law": {"name": "softmax", "beta": 4}, "until": 9,
    ...         "motion": {"name": "layers", "gamma": 0.5}}
    >>> print(python_pair(read(soft), read({**soft, "law": {"name": "softmax", "beta": "inf"}})))
    import numpy as np
    import attnflow as af
    <BLANKLINE>
    x0 = af.tokens.polygon(k=3)
    left = af.simulate(x0, af.Softmax(beta=4.0), af.Layers(gamma=0.5), until=9)
    right = af.simulate(x0, af.Hardmax(), af.Layers(gamma=0.5), until=9)
    # Where both runs were recorded:
    times = np.intersect1d(left.times, right.times)
    distances = np.linalg.norm(left.at(times) - right.at(times), axis=2)
    largest, rms = distances.max(axis=1), np.sqrt((distances**2).mean(axis=1))
    print(f"at t = {times[-1]:g}: largest distance {largest[-1]:.4g}, root mean square {rms[-1]:.4g}")
    <BLANKLINE>
    """
    runs = {
        name: f"af.simulate(x0, {_built(one.law, _graphs(one))}, {_built(one.motion)}, {_arguments(one)})"
        for name, one in (("left", left), ("right", right))
    }
    lines = [
        f"x0 = {_tokens(left)}",
        *(f"{name} = {text}" for name, text in runs.items()),
        "# Where both runs were recorded:",
        "times = np.intersect1d(left.times, right.times)",
        "distances = np.linalg.norm(left.at(times) - right.at(times), axis=2)",
        "largest, rms = distances.max(axis=1), np.sqrt((distances**2).mean(axis=1))",
        'print(f"at t = {times[-1]:g}: largest distance {largest[-1]:.4g}, root mean square {rms[-1]:.4g}")',
    ]
    return _script([left, right], lines)


def _script(states: Sequence[State], lines: Sequence[str]) -> str:
    """Return lines of Python after the imports that they need."""
    parts = [part for state in states for owner in (state.law, state.motion) for part in parts_of(owner)]
    foreign = [f"from {type(one).__module__} import {type(one).__name__}" for one in parts if not _public(one)]
    imports = [
        *(["import numpy as np"] if any("np." in line for line in lines) else []),
        "import attnflow as af",
        *(["from attnflow.laws import graphs"] if any(_graphs(state) for state in states) else []),
        *dict.fromkeys(foreign),
    ]
    return "\n".join([*imports, "", *lines]) + "\n"


def _arguments(state: State) -> str:
    """Return the arguments of `simulate` after the motion."""
    return ", ".join([f"until={_number(state.until)}", *(f"{name}={text}" for name, text in _options(state))])


def _tokens(state: State) -> str:
    table = state.data["tokens"]
    if isinstance(table, list):
        rows = "".join(f"    {row},\n" for row in state.tokens.tolist())
        return f"np.array([\n{rows}])"
    given = state.settings["tokens"] | ({"seed": state.settings["seed"]} if drawn(state.settings["tokens"]) else {})
    return f"af.tokens.{table['cloud']}({', '.join(f'{key}={v!r}' for key, v in given.items() if key != 'cloud')})"


def _graphs(state: State) -> dict[str, str]:
    """Return the Python that makes the graphs which the page has by their names."""
    # A name in whose place an array was put is that of a graph.
    made, n = state.settings["law"], len(state.tokens)
    given = state.data["law"].items()
    return {
        key: f"graphs.{name}({n})"
        for key, name in given
        if isinstance(name, str) and key in made and isinstance(made[key], list)
    }


def _built(thing: Any, texts_of: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the Python that makes a law or a motion, without its defaults; of some parameters the text is known."""
    known = parameters_of(thing.__class__)
    given = {key: v for key, v in describe(thing).items() if key in known and v != known[key].default}
    of = "af." if _public(thing) else ""
    values = {key: getattr(thing, key) for key in given}
    texts = {key: _built(v, texts_of) if has_parameters(v) else _parameter(given[key]) for key, v in values.items()}
    texts |= {key: text for key, text in texts_of.items() if key in texts}
    # What a law stands around comes first, without a name.
    around = {one.name for one in known.values() if one.part is not None and one.required}
    words = [text if key in around else f"{key}={text}" for key, text in texts.items()]
    return f"{of}{type(thing).__name__}({', '.join(words)})"


def parts_of(thing: Any) -> Iterator[Any]:
    """Yield a law or a motion, and those that it stands around."""
    yield thing
    for key in parameters_of(thing.__class__):
        if has_parameters(inside := getattr(thing, key, None)):
            yield from parts_of(inside)


def _public(thing: Any) -> bool:
    """Say whether its class is one of ours; that of another package has to be imported."""
    return type(thing).__module__.partition(".")[0] == "attnflow"


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
        yield "record", f"np.linspace(0, {_number(state.until)}, {len(record)})"


def command(state: State) -> str:
    """Return a line for a shell that makes the same run, or a comment if the tokens do not fit in one.

    >>> from attnflow.explorer.state import read
    >>> print(command(read({"tokens": {"cloud": "polygon", "k": 5}, "law": {"name": "softmax", "beta": "inf"},
    ...                     "motion": {"name": "layers", "gamma": "2 / (t + 2)"}, "until": 40})))
    attnflow simulate --cloud polygon --k 5 --law hardmax --motion layers --gamma '2 / (t + 2)' --until 40
    """
    settings = {**state.settings, **_recorded(state), "until": json.loads(_number(state.until))}
    from_seed = drawn(state.settings["tokens"])
    if state.motion.random and from_seed and settings["seed"] != state.seed:
        # The command line has one seed for the start and for the motion.
        settings["tokens"] = {"file": state.tokens.tolist()}
    if state.motion.random:
        settings["seed"] = state.seed
    elif not from_seed:
        del settings["seed"]
    words = ["attnflow", "simulate"]
    for flag, (table, key, _) in flags().items():
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
