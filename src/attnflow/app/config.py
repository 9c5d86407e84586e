"""A run as plain data: what a TOML file or the command line says, turned into the arguments of `simulate`."""

from __future__ import annotations

import inspect
import json
import tomllib
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attnflow import tokens
from attnflow.app import long_times
from attnflow.core.inputs import Array, InputError, number, quoted
from attnflow.core.schedules import Schedule
from attnflow.laws import Hardmax, Heads, HegselmannKrause, Law, Localmax, Softmax
from attnflow.motions import (
    FeedForward,
    Flow,
    HardmaxFlow,
    Jumps,
    Layers,
    Leaps,
    Motion,
    RescaledFlow,
    RescaledLayers,
    Residual,
    SphereFlow,
    SphereLayers,
)
from attnflow.runs import watch

CLOUDS: dict[str, tuple[Callable[..., Array], tuple[str, ...]]] = {
    "gaussian": (tokens.gaussian, ("n", "d", "seed")),
    "uniform": (tokens.uniform, ("n", "d", "seed", "low", "high")),
    "sphere": (tokens.sphere, ("n", "d", "seed")),
    "polygon": (tokens.polygon, ("k", "radius", "angle")),
    "grid": (tokens.grid, ("k", "d", "low", "high")),
    "orthogonal": (tokens.orthogonal, ("n", "d")),
}
LAWS: dict[str, type[Law]] = {
    "softmax": Softmax,
    "hardmax": Hardmax,
    "localmax": Localmax,
    "hegselmann-krause": HegselmannKrause,
}
MOTIONS: dict[str, type[Motion]] = {
    "layers": Layers,
    "residual": Residual,
    "rescaled-layers": RescaledLayers,
    "sphere-layers": SphereLayers,
    "flow": Flow,
    "rescaled-flow": RescaledFlow,
    "sphere-flow": SphereFlow,
    "hardmax-flow": HardmaxFlow,
    "jumps": Jumps,
    "leaps": Leaps,
}
# Parameters that a string turns into a function of time, and those that are matrices.
SCHEDULES = ("beta", "delta", "eps", "gamma", "alpha", "dt")
MATRICES = ("B", "V", "W", "Q", "K", "b")
# The key of each table that names what the others are parameters of, what it is, and those that exist.
NAMES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "tokens": ("cloud", "cloud", tuple(CLOUDS)),
    "law": ("name", "law", (*LAWS, "heads")),
    "motion": ("name", "motion", tuple(MOTIONS)),
}
TABLES = ("tokens", "law", "motion", "stop", "measure", "output")
TOP = ("until", "seed", "record", "engine", "masses", *TABLES)


@dataclass(frozen=True)
class Config:
    """A run as plain data, checked: `arguments` are those of `simulate`, `output` says where results go."""

    data: dict[str, Any]
    folder: Path

    def __post_init__(self) -> None:
        for name in TABLES:
            if not isinstance(self.data.get(name, {}), dict):
                raise InputError(f"'{name}' is {self.data[name]!r}, expected a table [{name}]")

    def set(self, table: str | None, key: str, value: Any) -> None:
        """Put a value over what the file says; another law, motion or cloud takes the parameters of the first away."""
        place = self.data if table is None else self.data.setdefault(table, {})
        if key in ("name", "cloud", "file") and place.get(key) != value:
            place.clear()
        for other in {"gamma", "alpha"} - {key} if key in ("gamma", "alpha") else ():
            place.pop(other, None)
        place[key] = value

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `simulate`, the store left out."""
        data = self.data
        _known(data, TOP, "the configuration")
        # A name that does not exist is refused before anything that is lacking.
        for table in NAMES:
            if NAMES[table][0] in data.get(table, {}):
                _chosen(data[table], table)
        for name in ("tokens", "law", "motion", "until"):
            if name not in data:
                raise InputError(f"the configuration does not say '{name}': add it to the file or the command line")
        optional: dict[str, Any] = {name: data[name] for name in ("seed", "engine") if name in data}
        return {
            "tokens": self._cloud(data["tokens"]),
            "law": self._law(data["law"]),
            "motion": self._motion(data["motion"]),
            "until": data["until"],
            "masses": self.numbers(data["masses"], "masses") if "masses" in data else None,
            "record": _record(data.get("record")),
            "watch": _stops(data.get("stop", {})),
            **optional,
        }

    @property
    def asked(self) -> dict[str, Any]:
        """Return what is to be measured over long times."""
        asked: dict[str, Any] = self.data.get("measure", {})
        _known(asked, long_times.KEYS, "[measure]")
        long_times.check(asked)
        return asked

    @property
    def output(self) -> dict[str, str]:
        """Return where to store, to plot the run, and to draw what was measured."""
        output: dict[str, str] = self.data.get("output", {})
        _known(output, ("store", "plot", "draw"), "[output]")
        for name, path in output.items():
            if not isinstance(path, str) or not path:
                raise InputError(f"{name} is {path!r}, expected a path")
        return output

    def text(self) -> str:
        """Return the configuration as TOML."""
        lines = [f"{k} = {_toml(v)}" for k, v in self.data.items() if k not in TABLES]
        for table in (name for name in TABLES if name in self.data):
            lines += ["", f"[{table}]", *(f"{k} = {_toml(v)}" for k, v in self.data[table].items())]
        return "\n".join(lines) + "\n"

    def _cloud(self, table: dict[str, Any]) -> ArrayLike:
        if "file" in table:
            _known(table, ("file",), "[tokens]")
            return self.numbers(table["file"], "tokens")
        name = _chosen(table, "tokens")
        make, keys = CLOUDS[name]
        given = {k: v for k, v in table.items() if k != "cloud"}
        _known(given, [k for k in keys if k != "seed"], f"[tokens] {name}")
        if "seed" in keys:
            given["seed"] = self.data.get("seed", 0)
        return make(**given)

    def _law(self, table: dict[str, Any]) -> Law:
        name = _chosen(table, "law")
        if name != "heads":
            law: Law = self._built(LAWS[name], table, "[law]")
            return law
        _known(table, ("name", "heads"), "[law] heads")
        heads = table.get("heads", [])
        if not isinstance(heads, list) or not all(isinstance(head, dict) for head in heads):
            raise InputError("[law] heads need a list of tables, each with a name and perhaps V")
        matrices = [self._parameter("V", head["V"]) if "V" in head else None for head in heads]
        return Heads([self._law({k: v for k, v in head.items() if k != "V"}) for head in heads], matrices)

    def _motion(self, table: dict[str, Any]) -> Motion:
        name = _chosen(table, "motion")
        motion: Motion = self._built(MOTIONS[name], table, "[motion]")
        return motion

    def _built(self, kind: type[Any], table: dict[str, Any], where: str) -> Any:
        given = {k: v for k, v in table.items() if k != "name"}
        where = f"{where} {table.get('name', '')}".strip()
        parameters = inspect.signature(kind).parameters
        _known(given, parameters, where)
        lacking = [name for name, one in parameters.items() if one.default is one.empty and name not in given]
        if lacking:
            raise InputError(f"{where} does not say {', '.join(lacking)}: add it")
        return kind(**{k: self._parameter(k, v) for k, v in given.items()})

    def _parameter(self, name: str, value: Any) -> Any:
        if name in MATRICES:
            return self.numbers(value, name) if isinstance(value, str) else value
        if name in SCHEDULES and isinstance(value, str):
            return Schedule(value, name)
        if name == "feed_forward":
            if not isinstance(value, dict):
                raise InputError(f"feed_forward is {value!r}, expected a table such as {{activation = 'tanh'}}")
            return self._built(FeedForward, value, "feed_forward")
        return value

    def numbers(self, value: Any, what: str) -> ArrayLike:
        """Return an array from numbers written in place, or from a .csv or .npy file."""
        if not isinstance(value, str):
            numbers: ArrayLike = value
            return numbers
        path = self.folder / value
        if not path.is_file():
            expected = "a list of rows, or a .csv or .npy file"
            raise InputError(f"{what} should come from {value}, which is not a file: give {expected}")
        try:
            if path.suffix == ".npy":
                return np.asarray(np.load(path, allow_pickle=False))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an empty file is refused below, as an empty cloud
                table = np.loadtxt(path, delimiter=",", ndmin=2)
            # One row is one vector, several are one for each layer.
            return table.ravel() if what == "masses" or (what == "b" and len(table) == 1) else table
        except (ValueError, OSError, EOFError):
            expected = "a .csv file of numbers separated by commas, without a header, or a .npy file"
            raise InputError(f"{value} cannot be read as numbers for {what}: give {expected}") from None


@dataclass
class Remembered(watch.Watcher):
    """Write the configuration to the store as soon as there is one."""

    store: Path
    text: str

    def begin(self, start: watch.Start) -> None:
        """Write it."""
        from attnflow.runs.store import Store, opened

        Store(self.store, opened(self.store, "r+")).annotate(config=self.text)


def read(path: Path) -> Config:
    """Read a configuration from a TOML file; files it names are relative to its folder."""
    try:
        with path.open("rb") as file:
            data = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    except (OSError, ValueError):
        raise InputError(f"{str(path)!r} cannot be read: give the path of a TOML file") from None
    return Config(data, path.parent)


def _known(table: dict[str, Any], keys: Iterable[str], where: str) -> None:
    expected = tuple(keys)
    for key in table:
        if key not in expected:
            raise InputError(f"{where} has an unknown key '{key}', expected some of {', '.join(expected)}")


def _chosen(table: dict[str, Any], where: str) -> str:
    """Return the name of the cloud, law or motion that a table is about."""
    key, what, names = NAMES[where]
    if key not in table:
        raise InputError(
            f"the configuration does not say which {what} it has: give --{what}, or {key} in [{where}], one of "
            f"{', '.join(names)}"
        )
    name = table[key]
    if not isinstance(name, str) or name not in names:
        raise InputError(f"there is no {what} {quoted(name)}, expected one of {', '.join(names)}")
    return name


def _record(value: Any) -> watch.Record:
    if value == "geometric":
        return watch.Geometric()
    if isinstance(value, dict):
        _known(value, ("first", "per_decade"), "record")
        return watch.Geometric(**value)
    record: watch.Record = value
    return record


def _stops(table: dict[str, Any]) -> list[watch.Watcher]:
    _known(table, ("converged", "clusters", "tol", "seconds"), "[stop]")
    if "tol" in table and "clusters" not in table:
        raise InputError("tol joins tokens to clusters, but no number of clusters to stop at was given: add clusters")
    stops: list[watch.Watcher] = []
    if "converged" in table:
        stops.append(watch.Converged(number(table["converged"], "converged", above=0.0)))
    if "clusters" in table:
        number(table["clusters"], "clusters", least=1)
        stops.append(watch.Clustered(table["clusters"], table.get("tol", 1e-3)))
    if "seconds" in table:
        stops.append(watch.WallClock(table["seconds"]))
    return stops


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    return json.dumps(value)
