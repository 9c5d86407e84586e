"""A run as plain data: what a TOML file or the command line says, turned into the arguments of `simulate`."""

from __future__ import annotations

import json
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attnflow import catalogue, watch
from attnflow.app import long_times
from attnflow.app.flags import NAMES, listed
from attnflow.app.nested import copied, has, name_in, owner, words
from attnflow.catalogue import check_keys, check_parameters
from attnflow.core.calls import meant
from attnflow.core.inputs import Array, InputError, number, quoted, whole
from attnflow.core.parameters import KINDS, Parameter
from attnflow.core.schedules import Schedule

# The tables of what the catalogue knows, each with the kind that it is of and the key of its name.
MODELS = {table: (kind, key) for kind, (table, key) in NAMES.items()}
TABLES = ("tokens", "law", "motion", "stop", "measure", "output")
# What every run must say, each with the flag that says it.
FLAGS = {"tokens": "--cloud or --tokens", "law": "--law", "motion": "--motion", "until": "--until"}
TOP = ("until", "seed", "record", "engine", "precision", "masses", *TABLES)


@dataclass(frozen=True)
class Config:
    """A run as plain data, checked: `arguments` are those of `simulate`, `output` says where results go.

    `files` holds what files have been read already, by their names.
    """

    data: dict[str, Any]
    folder: Path
    files: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in TABLES:
            if not isinstance(self.data.get(name, {}), dict):
                raise InputError(f"'{name}' is {self.data[name]!r}, expected a table [{name}]")
        for name in ("law", "motion"):
            self._unfold(name)

    def put(self, table: str | None, values: dict[str, Any]) -> None:
        """Put values over what the file says; another law, motion or cloud takes the parameters of the first away.

        So does a parameter that is given in place of another one of the file. A law around another one is named
        "masked,softmax"; a parameter is that of the innermost law or motion that has it.
        """
        place = self.data if table is None else self.data.setdefault(table, {})
        if table in ("law", "motion"):
            self._put_model(table, place, values)
            return
        for key, value in values.items():
            changed = table == "tokens" and key in ("cloud", "file") and place.get(key) != value
            for other in list(place) if changed else []:
                if other not in values:
                    place.pop(other, None)
            place[key] = value

    def put_all(self, said: dict[str | None, dict[str, Any]]) -> None:
        """Put what flags say; one that a law and a motion may have goes to the motion if only that one has it."""
        law, motion = said.get("law", {}), said.get("motion", {})
        for model, given in (("law", law), ("motion", motion)):
            if "name" in given:
                self.put(model, {"name": given["name"]})
        places = (self.data.get("law", {}), self.data.get("motion", {}))
        for key in [key for key in law if key not in motion]:
            if not has("law", places[0], key) and has("motion", places[1], key):
                said.setdefault("motion", motion)[key] = law.pop(key)
        for table, values in said.items():
            self.put(table, values)

    def give(self, table: str, values: Mapping[str, Any]) -> None:
        """Put a table in the place of another one."""
        self.data[table] = dict(values)
        if table in ("law", "motion"):
            self._unfold(table)

    def _unfold(self, table: str) -> None:
        """Write names in a line, as "noisy,sphere-flow", as tables in each other."""
        named = MODELS[table][1]
        given = dict(self.data.get(table, {}))
        if isinstance(given.get(named), str) and "," in given[named]:
            inside = [key for key in given if key in ("law", "motion")]
            if inside:
                raise InputError(
                    f"[{table}] names {given[named]!r} in a line and has a table [{table}.{inside[0]}] too: write its "
                    f"keys into [{table}], or one name into each table"
                )
            for one in words(given[named]):
                chosen({named: one}, table)
            self.data[table] = {}
            self._put_model(table, self.data[table], given)

    def _put_model(self, table: str, place: dict[str, Any], values: dict[str, Any]) -> None:
        kind, named = MODELS[table]
        if isinstance(values.get(named), str):
            name_in(kind, place, values[named])
        for key, value in values.items():
            if key == named and isinstance(value, str):
                continue
            one = owner(kind, place, key)
            for other in _alternatives(one, table, key):
                if other not in values:
                    one.pop(other, None)
            one[key] = value

    def copy(self) -> Config:
        """Return a configuration that can be changed apart from this one."""
        return Config(copied(self.data), self.folder, self.files)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `simulate`, the store left out."""
        data = self.data
        check_keys(data, TOP, "the configuration")
        # A name that does not exist is refused before anything that is lacking.
        for table, (_, key) in MODELS.items():
            if key in data.get(table, {}):
                chosen(data[table], table)
        if missing := [name for name in FLAGS if name not in data]:
            said = listed((f"'{name}'" for name in missing), "and")
            flags = listed((FLAGS[name] for name in missing), "and")
            raise InputError(
                f"the configuration does not say {said}: add {flags} to the command line, or write the same into a file"
            )
        optional: dict[str, Any] = {name: data[name] for name in ("seed", "engine", "precision") if name in data}
        return {
            "tokens": self._cloud(data["tokens"]),
            "law": self._built(data["law"], "law"),
            "motion": self._built(data["motion"], "motion"),
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
        check_keys(asked, long_times.KEYS, "[measure]")
        long_times.check(asked)
        return asked

    @property
    def output(self) -> dict[str, str]:
        """Return where to store, to plot the run, and to draw what was measured."""
        output: dict[str, str] = self.data.get("output", {})
        check_keys(output, ("store", "plot", "draw"), "[output]")
        for name, path in output.items():
            if not isinstance(path, str) or not path:
                raise InputError(f"{name} is {path!r}, expected a path")
        return output

    def text(self) -> str:
        """Return the configuration as TOML."""
        lines = _lines({key: value for key, value in self.data.items() if key not in TABLES})
        for table in (name for name in TABLES if name in self.data):
            lines += ["", f"[{table}]", *_lines(self.data[table])]
        return "\n".join(lines) + "\n"

    def _cloud(self, table: dict[str, Any]) -> ArrayLike:
        if "file" in table:
            check_keys(table, ("file",), "[tokens]")
            return self.numbers(table["file"], "tokens")
        drawn = catalogue.entry("cloud", chosen(table, "tokens")).parameters
        # One seed is that of everything random.
        given = [key for key in table if key != "cloud"]
        check_parameters(given, [key for key in drawn if key != "seed"], f"[tokens] {table['cloud']}")
        tokens: ArrayLike = self._built(
            table | ({"seed": self.data.get("seed", 0)} if "seed" in drawn else {}), "tokens"
        )
        return tokens

    def _built(self, table: dict[str, Any], where: str) -> Any:
        kind, key = MODELS[where]
        named = {"name": chosen(table, where), **{k: v for k, v in table.items() if k != key}}
        return catalogue.build(kind, named, self._parameter, f"[{where}]")

    def _parameter(self, parameter: Parameter, value: Any) -> Any:
        """Return what a text stands for: a formula in t, or a file of numbers."""
        if not isinstance(value, str):
            return value
        stands_for = KINDS[parameter.kind].text
        if stands_for == "formula":
            with suppress(ValueError):
                return float(value)
        if stands_for == "file":
            return self.numbers(value, parameter.name, vector=parameter.kind == "vector")
        return Schedule(value, parameter.name) if stands_for == "formula" else value

    def numbers(self, value: Any, what: str, vector: bool = False) -> ArrayLike:
        """Return an array from numbers written in place, or from a .csv or .npy file; `vector` if one row is one."""
        if not isinstance(value, str):
            numbers: ArrayLike = value
            if what == "tokens" and isinstance(value, list) and not any(isinstance(row, list) for row in value):
                raise InputError(f"tokens are {quoted(value)}, expected a list of rows: on the line, as in [[1], [2]]")
            return numbers
        path = self.folder / value
        if value not in self.files and not path.is_file():
            expected = "a list of rows, or a .csv or .npy file"
            if value.lstrip().startswith("["):
                raise InputError(f"{what} are {quoted(value)}, which is not a list of rows of numbers: give {expected}")
            raise InputError(f"{what} should come from {value}, which is not a file: give {expected}")
        try:
            table = self.files[value] if value in self.files else _read(path)
            # One row is one vector, several are one for each layer.
            one_row = path.suffix != ".npy" and (what == "masses" or (vector and len(table) == 1))
            return table.ravel() if one_row else table
        except (ValueError, OSError, EOFError):
            expected = "a .csv file of numbers separated by commas, without a header, or a .npy file"
            raise InputError(f"{value} cannot be read as numbers for {what}: give {expected}") from None

    def with_files(self, *more: Any) -> Config:
        """Return the configuration with the contents of all files of numbers that it, or `more` values, name."""

        def texts(value: Any) -> Iterator[str]:
            if isinstance(value, str):
                yield value
            elif isinstance(value, dict | list):
                for part in value.values() if isinstance(value, dict) else value:
                    yield from texts(part)

        files = dict(self.files)
        for name in {*texts(self.data), *texts(list(more))}:
            if name.endswith((".csv", ".npy")):
                with suppress(ValueError, OSError, EOFError):  # what cannot be read is refused where it is used
                    files[name] = _read(self.folder / name)
        return Config(self.data, self.folder, files)


@dataclass
class Remembered(watch.Watcher):
    """Write the configuration to the store as soon as there is one."""

    store: Path
    text: str

    def begin(self, start: watch.Start) -> None:
        from attnflow.runs.store import Store, opened

        Store(self.store, opened(self.store, "r+")).annotate(config=self.text)


def read(path: Path) -> Config:
    """Read a configuration from a TOML file; files it names are relative to its folder."""
    return Config(table_of(path), path.parent)


def table_of(path: Path) -> dict[str, Any]:
    """Return what a TOML file holds."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    except (OSError, ValueError):
        raise InputError(f"{str(path)!r} cannot be read: give the path of a TOML file") from None


def _read(path: Path) -> Array:
    """Return the numbers of a .csv or .npy file."""
    if path.suffix == ".npy":
        return np.asarray(np.load(path, allow_pickle=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty file is refused later, as an empty cloud
        return np.loadtxt(path, delimiter=",", ndmin=2)


def _alternatives(place: dict[str, Any], table: str, key: str) -> list[str]:
    """Return the parameters in whose place a parameter of a law or a motion is given."""
    kind, name = MODELS[table]
    known = catalogue.entries(kind)
    named = place.get(name)
    found = known[named].alternatives if isinstance(named, str) and named in known else ()
    return [other for other in found if key in found and other != key]


def chosen(table: dict[str, Any], where: str) -> str:
    """Return the name of the cloud, law or motion that a table is about."""
    what, key = MODELS[where]
    names = catalogue.entries(what)
    if key not in table:
        raise InputError(
            f"the configuration does not say which {what} it has: give --{what}, or {key} in [{where}], one of "
            f"{', '.join(names)}"
        )
    name = table[key]
    if not isinstance(name, str) or name not in names:
        raise InputError(f"there is no {what} {quoted(name)}{meant(name, names)}, expected one of {', '.join(names)}")
    return name


def _record(value: Any) -> watch.Record:
    if value == "geometric":
        return watch.Geometric()
    if isinstance(value, str):
        expected = "a whole number of steps, a list of times, 'geometric', or a table with first and per_decade"
        raise InputError(f"record is {value!r}, expected {expected}")
    if isinstance(value, dict):
        check_keys(value, ("first", "per_decade"), "record")
        return watch.Geometric(**value)
    record: watch.Record = value
    return record


def _stops(table: dict[str, Any]) -> list[watch.Watcher]:
    check_keys(table, ("converged", "clusters", "tol", "seconds"), "[stop]")
    if "tol" in table and "clusters" not in table:
        raise InputError("tol joins tokens to clusters, but no number of clusters to stop at was given: add clusters")
    stops: list[watch.Watcher] = []
    if "converged" in table:
        stops.append(watch.Converged(number(table["converged"], "converged", above=0.0)))
    if "clusters" in table:
        stops.append(watch.Clustered(whole(table["clusters"], "clusters", least=1), table.get("tol", 1e-3)))
    if "seconds" in table:
        stops.append(watch.WallClock(table["seconds"]))
    return stops


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(_lines(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    # JSON has other words for inf and nan.
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _lines(table: dict[str, Any]) -> list[str]:
    """Return the lines of a table in TOML, which has no null: what is None is left out, as what is not given."""
    return [f"{key} = {_toml(value)}" for key, value in table.items() if value is not None]
