"""The declared form of a sweep: a run as in a configuration file, some of whose keys vary."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attnflow import catalogue, engines
from attnflow.app.config import MODELS, Config, chosen
from attnflow.app.nested import copied, tables, words
from attnflow.core.calls import meant
from attnflow.core.identity import digest
from attnflow.core.inputs import InputError, quoted, whole
from attnflow.motions import Stretch
from attnflow.runs.ensemble_results import Ensemble, changed
from attnflow.runs.ensembles import independent
from attnflow.runs.recording import rule
from attnflow.runs.simulate import checked, simulate
from attnflow.runs.trajectory import Trajectory
from attnflow.runs.watch import Start, Watcher
from attnflow.serialise import parameters
from attnflow.sweeps.cells import Cells
from attnflow.sweeps.grid import Grid
from attnflow.sweeps.outcome import Outcome

TOP = ("until", "seed", "record", "engine", "precision", "masses")
# The arguments that say how a run begins and ends.
BEGIN = ("tokens", "law", "motion", "until", "masses", "watch")
STOPS = ("converged", "clusters", "tol")
# Parts of a configuration that belong to a single run.
OTHERS = {
    "output": "say where the sweep is stored by store",
    "measure": "list what is measured in measure, such as ['clusters']",
    "over": "give the axes by over",
}


# Larger clouds, whose sums engines make fast, and longer flows on the sphere, where `simulate` takes tokens that have
# met as one mass and then makes long steps, are simulated one by one.
MOST_TOKENS, LONG = 1024, 1000.0


class Key(NamedTuple):
    """A place in a configuration: a key of a table (None: the top); the whole table if there is no key."""

    table: str | None
    key: str | None


@dataclass(frozen=True)
class Declared:
    """A run that is declared, and the keys of it that vary, by the names of the parameters."""

    config: Config
    keys: Mapping[str, Key]

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of `simulate` for these values."""
        config, put = self.config.copy(), dict[str | None, dict[str, Any]]()
        for name, (table, key) in self.keys.items():
            value = values[name]
            if key is None:
                assert table is not None
                if isinstance(value, Mapping):
                    config.give(table, value)
                    continue
                key = MODELS[table][1]
            put.setdefault(table, {})[key] = value
        for table, given in put.items():
            config.put(table, given)
        return config.arguments()

    def __call__(self, **values: Any) -> Trajectory:
        """Return the run for these values, refusing one that ends early for a reason that nobody asked for."""
        given = self.arguments(values)
        asked = [_Asked(watcher) for watcher in given["watch"]]
        run = simulate(**given | {"watch": asked})
        if run.times[-1] < given["until"] and not any(run.stopped in watcher.said for watcher in asked):
            raise InputError(run.stopped)
        return run


class _Asked(Watcher):
    """A watcher of the user's, and the reasons it gave."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher, self.said = watcher, set[str]()

    def begin(self, start: Start) -> None:
        self.watcher.begin(start)

    def stop(self, stretch: Stretch) -> tuple[int, str] | None:
        found = self.watcher.stop(stretch)
        if found is not None:
            self.said.add(found[1])
        return found


def declared(run: Any, grid: Grid, seed: int, folder: Path) -> Declared:
    """Return the run that is declared by plain data, refusing axes that it does not have.

    Without a seed of its own it has the one given. Files it names are in the folder, and are read now: workers may be
    on other machines.
    """
    if not isinstance(run, Mapping):
        raise InputError(f"run is {quoted(run)}, expected a dictionary with tokens, law, motion and until")
    for other, remedy in OTHERS.items():
        if other in run:
            raise InputError(f"the run of a sweep has '{other}', which is no part of it: leave it out, and {remedy}")
    plain = {key: dict(value) if isinstance(value, Mapping) else value for key, value in run.items()}
    config = Config(copied(plain), folder)
    if "seconds" in config.data.get("stop", {}):
        raise InputError("seconds in [stop] would let results depend on the machine: leave it out, or lower until")
    # A name that does not exist is refused before axes that only its parameters would explain.
    for table, (_, named) in MODELS.items():
        for one in _names(config.data, grid, table):
            chosen({named: one}, table)
    keys = {name: _key(name, config.data, grid) for name in grid.names}
    _check_designs(keys, config.data, grid)
    places = list(keys.values())
    for name, key in keys.items():
        if places.count(key) > 1 or (key.key is not None and Key(key.table, None) in places):
            raise InputError(f"the axis {name!r} varies what another axis varies too: name it once")
    if "seed" not in config.data and Key(None, "seed") not in places:
        config.put(None, {"seed": seed})
    elif seed:
        raise InputError(f"seed is {seed}, but the run says its own: leave one of them out")
    found = Declared(config.with_files(*(values for axis in grid.axes.values() for values in axis.values())), keys)
    _check(found, grid)
    return found


def _check_designs(keys: Mapping[str, Key], data: Mapping[str, Any], grid: Grid) -> None:
    """Refuse designs that draw real numbers for parameters that are counts."""
    counts = {Key(None, "seed")}
    for table, (kind, _) in MODELS.items():
        models = [catalogue.entries(kind)[name] for name in _names(data, grid, table)]
        counts |= {Key(table, one.key) for model in models for one in model.parameters.values() if one.kind == "count"}
    for dimension, axis in grid.axes.items():
        for name, values in axis.items():
            if list(axis) != [dimension] and keys[name] in counts and not all(isinstance(one, int) for one in values):
                raise InputError(
                    f"the design {dimension!r} draws real numbers for {name!r}, expected whole ones: write "
                    f'{{"from": 4, "to": 32, "whole": true}} with its ends'
                )


def _check(found: Declared, grid: Grid) -> None:
    """Refuse a run of which neither the first, the middle nor the last cell can begin."""
    refusal = None
    for cell in (0, len(grid) // 2, len(grid) - 1):
        try:
            given = found.arguments(grid.parameters(cell))
            engine = engines.in_precision(given.get("engine", "auto"), given.get("precision", "double"))
            checked(engine=engine, **{name: given[name] for name in BEGIN})
            rule(given["record"])
            whole(given["seed"], "seed", least=0)
            return
        except InputError as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def _key(name: str, data: Mapping[str, Any], grid: Grid) -> Key:
    """Return the place that a name means: its last part is enough if only one place ends with it.

    >>> run = {"law": {"name": "softmax"}, "motion": {"name": "residual"}}
    >>> grid = Grid({"beta": [1.0]})
    >>> _key("beta", run, grid)
    Key(table='law', key='beta')
    >>> _key("b", run, grid)
    Traceback (most recent call last):
    ...
    attnflow.InputError: the axis 'b' is a key of several tables: say law.b or motion.b
    """
    known = dict(_known(data, grid))
    found = [full for full in known if full == name] or [full for full in known if full.endswith(f".{name}")]
    if len(found) == 1:
        return known[found[0]]
    if found:
        raise InputError(f"the axis {name!r} is a key of several tables: say {' or '.join(found)}")
    lasts = {full: full.rpartition(".")[2] for full in known}
    # 'motion.beta' means 'law.beta', not 'motion.V'.
    elsewhere = [full for full, last in lasts.items() if last == name.rpartition(".")[2]]
    near = f" (is {elsewhere[0]!r} meant?)" if elsewhere else meant(name, [*known, *lasts.values()])
    raise InputError(f"the axis {name!r} is no key of the run{near}, expected some of {', '.join(known)}")


def _known(data: Mapping[str, Any], grid: Grid) -> Iterator[tuple[str, Key]]:
    """Yield the full names of all that can vary."""
    yield from ((key, Key(None, key)) for key in TOP)
    for table, (kind, named) in MODELS.items():
        yield table, Key(table, None)
        entries = catalogue.entries(kind)
        names = _names(data, grid, table)
        keys = [named, *(["file"] if table == "tokens" else [])]
        for name in (one for one in names if one in entries):
            # One seed is that of everything random.
            keys += [one.key for one in entries[name].parameters.values() if (kind, one.key) != ("cloud", "seed")]
            keys += [key for others in catalogue.beside(kind, name).values() for key in others if key not in keys]
        yield from ((f"{table}.{key}", Key(table, key)) for key in keys)
    yield from ((f"stop.{key}", Key("stop", key)) for key in STOPS)


def _names(data: Mapping[str, Any], grid: Grid, table: str) -> list[str]:
    """Return the names of all clouds, laws or motions that the run and its axes ask for."""
    named = MODELS[table][1]
    found = [data.get(table), *_values(grid, table)]
    found += [*_values(grid, f"{table}.{named}"), *_values(grid, named)]
    each = [one for table_or_name in found for one in _each(table_or_name, *MODELS[table])]
    return [one for one in each if isinstance(one, str)]


def _each(given: Any, kind: str, named: str) -> list[Any]:
    """Return the names in a table or a line: several where a law is around another one."""
    if not isinstance(given, Mapping):
        return words(given) if isinstance(given, str) else [given]
    if kind == "cloud":
        return [given.get(named)]
    return [name for one in tables(kind, given) for name in _each(one.get(named), kind, named)]


def _values(grid: Grid, name: str) -> list[Any]:
    return next((axis[name] for axis in grid.axes.values() if name in axis), [])


@dataclass(frozen=True)
class DeclaredCells(Cells):
    """The cells of a declared run.

    Where nothing is measured but the first and the last state, neither stops, nor what is recorded, nor an engine is
    asked for, and clouds are small and times not long, cells of a batch that differ in their starts, in beta, or in
    what else a law takes system by system move together in the compiled loop of `ensemble`. There no system depends on
    those beside it. So which way a cell is computed, and each bit of its result, depends on the cell alone.
    """

    function: Declared

    @property
    def name(self) -> str:
        """What the cells are."""
        return "run"

    @property
    def identity(self) -> str:
        """The run with its files, wherever these are."""
        return digest(self.function.config.data, self.function.config.files, self.function.keys)

    def outcomes(self, cells: list[int]) -> list[Outcome]:
        """Return what is measured of these runs, of some of them together."""
        together = all(getattr(measure, "ends", False) for measure in self.measures.values())
        found = dict(self._together(cells)) if together else {}
        return [found[cell] if cell in found else self.outcome(cell) for cell in cells]

    def _together(self, cells: list[int]) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcomes of the cells that move in ensembles."""
        groups: dict[str, dict[int, dict[str, Any]]] = {}
        for cell in cells:
            try:
                given = self.function.arguments(self.grid.parameters(cell))
                groups.setdefault(_apart_from_systems(given), {})[cell] = given
            except Exception:  # said when the cell runs by itself
                continue
        for key, group in groups.items():
            if key:
                for cell, (found, k) in _moved(group):
                    yield cell, self.outcome_of(lambda found=found, k=k: self.measured(found[k]))  # type: ignore[misc]


def _apart_from_systems(given: Mapping[str, Any]) -> str:
    """Return the identity of all that systems of one ensemble share, "" for a run that is none of these."""
    law, plain = given["law"], given["record"] is None and given.get("engine", "auto") == "auto"
    plain = plain and given.get("precision", "double") == "double"
    plain = plain and not given["watch"] and not given["motion"].random
    own = parameters(law)
    plain = plain and len(given["tokens"]) <= MOST_TOKENS and _time_scales(given) <= LONG
    if not plain or not law.each_system or not all(isinstance(own[name], int | float) for name in law.each_system):
        return ""
    shared = {name: value for name, value in own.items() if name not in law.each_system}
    return digest(type(law), shared, given["motion"], given["until"], given["masses"], np.shape(given["tokens"]))


def _time_scales(given: Mapping[str, Any]) -> float:
    """Return how many times a flow on the sphere may contract a cluster by e until its end; 0 for other motions."""
    motion, exponents = given["motion"], given["law"].exponents
    if motion.discrete or motion.surface != "sphere" or exponents is None:
        return 0.0
    V, B = (1.0 if matrix is None else float(np.linalg.norm(matrix)) for matrix in (motion.V, exponents.B))
    # USA multiplies velocities by up to e^beta.
    faster = 1.0 if motion.normalized else math.exp(min(700.0, abs(exponents.beta) * B))
    return float(given["until"]) * V * faster


def _moved(group: Mapping[int, dict[str, Any]]) -> Iterator[tuple[int, tuple[Ensemble, int]]]:
    """Yield for each cell the ensemble that it is part of, and its number there; nothing for those that have none."""
    found = None
    try:
        first = next(iter(group.values()))
        own = {name: [parameters(given["law"])[name] for given in group.values()] for name in first["law"].each_system}
        law = changed(first["law"], {name: np.array(values, dtype=np.float64) for name, values in own.items()})
        starts = np.stack([np.asarray(given["tokens"], dtype=np.float64) for given in group.values()])
        found = independent(starts, law, first["motion"], first["until"], masses=first["masses"])
    except Exception:  # a failed system must not take down its neighbours: who it was shows below
        pass
    if found is not None:
        yield from ((cell, (found, k)) for k, cell in enumerate(group))
    elif len(group) > 1:
        cells, half = list(group), len(group) // 2
        for part in (cells[:half], cells[half:]):
            yield from _moved({cell: group[cell] for cell in part})
