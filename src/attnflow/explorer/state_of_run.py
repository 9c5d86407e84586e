"""A run of the library as the state of the page: the inverse of `attnflow.explorer.state.read`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attnflow.catalogue import Entry, entries
from attnflow.core.dask_arrays import chunked
from attnflow.core.inputs import Array, InputError, varies_in_time
from attnflow.core.parameters import Parameter
from attnflow.core.schedules import Schedule
from attnflow.explorer.state import MOST_DIMENSIONS, MOST_TOKENS, read, shown
from attnflow.laws import Law
from attnflow.laws.graphs import GRAPHS
from attnflow.motions import Motion
from attnflow.runs.trajectory import Trajectory
from attnflow.serialise import brief, describe

COPY = "simulate something that the page can show, or draw this run with run.plot()"


def state_of(run: Trajectory) -> dict[str, Any]:
    """Return a run as the state of the page, as plain data; refuse in one sentence what the page cannot show.

    >>> import attnflow as af
    >>> run = af.simulate([[1.0], [0.0]], af.Hardmax(), af.Layers(gamma=0.5), until=3)
    >>> state_of(run)["law"], state_of(run)["motion"]
    ({'name': 'softmax', 'beta': 'inf'}, {'name': 'layers', 'gamma': 0.5})
    """
    if chunked(run.tokens):
        raise InputError(f"the run is in Dask, and the page shows at most {MOST_TOKENS} tokens: explore a sample of it")
    law, motion = run.law, run.motion
    if law is None or motion is None:
        raise InputError("the run was loaded without its functions of time: simulate it again, and explore that run")
    if run.masses is not None and np.ptp(run.masses) != 0:
        raise InputError("the run has masses, which the page does not show: simulate it without masses")
    run = run.to_numpy()
    state = {
        "tokens": rows_of(run.tokens[0]),
        "law": table_of("law", law, len(run.tokens[0])),
        "motion": table_of("motion", motion, len(run.tokens[0])),
        "until": float(run.about["until"]),
        "seed": run.seed or 0,
    }
    made = read(state)
    # What the page makes of these tables has to be what was run.
    pairs: list[tuple[str, Law | Motion, Law | Motion]] = [("law", law, made.law), ("motion", motion, made.motion)]
    for kind, given, found in pairs:
        if describe(given) != describe(found):
            raise InputError(f"the page would show {brief(found)} in place of the {kind} {brief(given)}: {COPY}")
    return made.data


def rows_of(tokens: Array) -> list[list[float]]:
    """Return tokens (n, d) as rows of numbers, if they are as few as the page shows."""
    n, d = tokens.shape
    if d > MOST_DIMENSIONS:
        raise InputError(
            f"the tokens have dimension {d}, but the page shows at most {MOST_DIMENSIONS}: explore tokens of fewer"
        )
    if n > MOST_TOKENS:
        raise InputError(f"there are {n} tokens, but the page shows at most {MOST_TOKENS}: explore some of them")
    rows: list[list[float]] = np.asarray(tokens, dtype=np.float64).tolist()
    return rows


def table_of(kind: str, part: Law | Motion, n: int) -> dict[str, Any]:
    """Return a law or a motion as a table of its name and the parameters that were given.

    A law that another one tends to is that one with its parameter at "inf"; masks stand in the table of the law that
    they are around.

    >>> import attnflow as af
    >>> table_of("law", af.Masked(af.Softmax(beta=9.0), causal=True), 3)
    {'name': 'softmax', 'beta': 9.0, 'causal': True}
    """
    found = next((one for one in entries(kind).values() if one.make is type(part)), None)
    if found is None:
        raise InputError(f"the page does not know the {kind} {brief(part)}: register it in the catalogue")
    given = {one.key: (one, getattr(part, one.name)) for one in found.parameters.values()}
    outside = {}
    if found.around is not None:
        _, inner = given.pop(found.around.key)
        outside = table_of(kind, inner, n)
    own = {key: plain(one, value, n) for key, (one, value) in given.items() if not _is_default(one, value)}
    if outside:
        return {**outside, **own}
    return {**_name(kind, found), **own}


def plain(parameter: Parameter, value: Any, n: int) -> Any:
    """Return the value of a parameter as the page has it: a formula of time as text, a graph by its name."""
    if isinstance(value, Schedule):
        return value.text
    if varies_in_time(value):
        raise InputError(
            f"{parameter.name} is a function of time that the page cannot read: give a formula, as "
            f"af.Schedule('2 / (t + 2)')"
        )
    if parameter.kind == "graph":
        names = (name for name, graph in GRAPHS.items() if np.array_equal(graph(n), np.asarray(value)))
        if (name := next(names, None)) is None:
            raise InputError(f"{parameter.name} is a graph that the page has no name for: {COPY}")
        return name
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    return describe(value)


def _is_default(parameter: Parameter, value: Any) -> bool:
    return value is None or (isinstance(value, bool | int | float | str) and value == parameter.default)


def _name(kind: str, found: Entry) -> dict[str, Any]:
    """Return the name by which the page has a law or a motion, and the parameter that leads to it, if it is a limit."""
    if found.name in shown(kind):
        return {"name": found.name}
    for other in entries(kind).values():
        for one in other.parameters.values():
            if one.limit == found.name and other.name in shown(kind):
                return {"name": other.name, one.key: "inf"}
    raise InputError(f"the page does not show the {kind} {found.title.lower()}: {COPY}")
