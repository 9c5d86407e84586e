"""Laws and motions as plain data, and back: what a stored run says of itself."""

from __future__ import annotations

import hashlib
import math
import platform
from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from importlib import metadata
from typing import Any

import numpy as np

from attnflow.catalogue import class_name, class_named, has_parameters
from attnflow.core.arrays import foreign, library, plain
from attnflow.core.inputs import InputError, OverLayers, called, varies_in_time
from attnflow.core.schedules import Schedule
from attnflow.laws import Law
from attnflow.motions import Motion

FUNCTION = "function of time"
SCHEDULE = "schedule"
LAYERS = "over layers"
OTHER = "another value"
LARGE = "large array"
# Of weights with more numbers than this only the digest is stored: a store is no place for a trained model.
MOST_NUMBERS = 1 << 20


def describe(value: Any) -> Any:
    """Return plain data (numbers, strings, lists, dictionaries) for a law, a motion or one of their parameters.

    >>> import attnflow as af
    >>> describe(af.Softmax(beta=9.0))
    {'name': 'Softmax', 'beta': 9.0, 'B': None, 'b': None}
    """
    if has_parameters(value):
        return _described(value)
    if isinstance(value, Schedule):
        return {SCHEDULE: value.text}
    if isinstance(value, OverLayers):
        return {LAYERS: _each_layer(value)}
    if varies_in_time(value):
        return {FUNCTION: getattr(value, "__name__", type(value).__name__)}
    if isinstance(value, np.ndarray | np.generic) or foreign(value):
        try:
            return plain(value).tolist() if math.prod(np.shape(value)) <= MOST_NUMBERS else _large(plain(value))
        except (TypeError, RuntimeError):
            raise InputError(
                f"a parameter is traced by {library(value)}, expected a number that is known, or tokens of that library"
            ) from None
    if isinstance(value, tuple | list):
        return [describe(v) for v in value]
    if isinstance(value, dict):
        return {str(k): describe(v) for k, v in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else {OTHER: repr(value)}


def _described(value: Any, turned: bool = False) -> dict[str, Any]:
    """Return a law or a motion as plain data; Q and K are told apart where its queries and keys are `turned`."""
    if hasattr(value, "described"):
        return {"name": class_name(type(value)), **value.described()}
    turned = turned or getattr(value, "turns", False)
    given, matrices = parameters(value), getattr(value, "query_key", None)
    if turned and matrices is not None:
        given = {**{name: one for name, one in given.items() if name != "B"}, **matrices._asdict()}
    told = {name: _described(one, turned) if has_parameters(one) else describe(one) for name, one in given.items()}
    return {"name": class_name(type(value)), **told}


def _large(array: Any) -> dict[str, Any]:
    """Return what is stored of an array with very many numbers, such as a graph of all tokens."""
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return {LARGE: list(array.shape), "sha256": digest}


def _each_layer(sequence: OverLayers) -> Any:
    size = sum(math.prod(np.shape(one)) for one in sequence.values)
    if size <= MOST_NUMBERS:
        return [describe(one) for one in sequence.values]
    digest = hashlib.sha256()
    for one in sequence.values:
        digest.update(np.ascontiguousarray(plain(one)).tobytes())
    return {"layers": len(sequence), "numbers": size, "sha256": digest.hexdigest()}


def brief(part: Law | Motion) -> str:
    """Return the name of a law or a motion with the parameters that were given, in short.

    >>> import attnflow as af
    >>> brief(af.Softmax(beta=9.0, B=[[1.0]])), brief(af.Hardmax(ties="first")), brief(af.Layers(gamma=np.cos))
    ('Softmax(beta=9, B)', "Hardmax(ties='first')", 'Layers(gamma)')
    >>> brief(af.RescaledFlow()), brief(af.RescaledLayers(dt=0.5))
    ('RescaledFlow', 'RescaledLayers(dt=0.5)')
    >>> brief(af.Masked(af.Softmax(beta=9.0), causal=True))
    'Masked(Softmax(beta=9), causal=True)'
    """
    name, given = name_and_parameters(part)
    inside = getattr(part, "around", "")
    written = [
        each if value is None else value if each == inside else f"{each}={value}" for each, value in given.items()
    ]
    return f"{name}({', '.join(written)})" if written else name


def name_and_parameters(part: Law | Motion, numbers: bool = False) -> tuple[str, dict[str, str | None]]:
    """Return the name of a law or a motion, and the parameters that were given: their values in short, or None.

    Matrices and functions of time are named, not written out. `numbers` asks for all numbers, those by default too.

    >>> import attnflow as af
    >>> name_and_parameters(af.Softmax(B=[[1.0]])), name_and_parameters(af.Softmax(B=[[1.0]]), numbers=True)
    (('Softmax', {'B': None}), ('Softmax', {'beta': '1', 'B': None}))
    """
    given: dict[str, str | None] = {}
    known: tuple[Field[Any], ...] = fields(part) if is_dataclass(part) else ()
    # What a part works out from its parameters, or keeps for itself, nobody has given.
    for field in (field for field in known if field.init and field.repr):
        value = getattr(part, field.name)
        plain = isinstance(value, bool | int | float | str)
        default = value is field.default or (plain and value == field.default)
        if not default or (numbers and plain and not isinstance(value, bool | str)):
            short = repr(value) if isinstance(value, bool | str) else f"{value:g}" if plain else None
            given[field.name] = brief(value) if hasattr(value, "short_name") else short
    return part.short_name, given


def rebuild(data: Any) -> Any:
    """Return the law or motion that `describe` spoke of, or None if it holds functions or is not one of ours."""
    try:
        return _rebuilt(data)
    except Exception:  # whatever the class of another package raises
        return None


def _rebuilt(data: Any) -> Any:
    if isinstance(data, list):
        # A list of numbers would be a sequence over layers.
        flat = data and all(isinstance(item, int | float) for item in data)
        return np.array(data) if flat else [_rebuilt(item) for item in data]
    if not isinstance(data, dict):
        return data
    if SCHEDULE in data:
        return Schedule(data[SCHEDULE])
    if LAYERS in data:
        if not isinstance(data[LAYERS], list):
            raise ValueError("only the digest of these weights was stored")
        return [np.asarray(one) if isinstance(one, list) else one for one in data[LAYERS]]
    return class_named(data["name"])(**{k: _rebuilt(v) for k, v in data.items() if k != "name"})


def varying(value: Any, t: float) -> list[Any]:
    """Return the values at time t of all parameters that are functions of time.

    >>> import attnflow as af
    >>> varying(af.Layers(gamma=lambda t: 2 / (t + 2)), 2)
    [0.5]
    """
    name = f"a parameter of {type(value).__name__}"
    return [
        called(lambda t, f=f: np.asarray(plain(f(t)), dtype=np.float64).tolist(), t, name)  # type: ignore[misc]
        for f in _parts(value)
        if varies_in_time(f) and not isinstance(f, OverLayers)
    ]


def _parts(value: Any) -> Iterator[Any]:
    """Yield the parameters of a law or a motion, and of the laws and layers among them, one by one."""
    if hasattr(value, "described"):  # by digests: a norm is no function of time
        return
    if isinstance(value, tuple | list) or has_parameters(value):
        for part in value if isinstance(value, tuple | list) else parameters(value).values():
            yield from _parts(part)
    else:
        yield value


def check_layers(law: Law, motion: Motion, until: float) -> None:
    """Refuse sequences over layers in continuous time, and those that end before the run.

    >>> import attnflow as af
    >>> check_layers(af.Softmax(beta=[1.0, 2.0]), af.Layers(gamma=0.5), 3)
    Traceback (most recent call last):
    ...
    attnflow.InputError: beta has 2 entries, one for each layer, but the run has 3 layers: give at least 3...
    """
    for sequence in (part for part in (*_parts(law), *_parts(motion)) if isinstance(part, OverLayers)):
        if not motion.discrete:
            raise InputError(
                f"{sequence.name} is given layer by layer, but {type(motion).__name__} moves in continuous time: give "
                "one value, or a function of time"
            )
        sequence.check_length(int(until))


def parameters(value: Any) -> dict[str, Any]:
    """Return the parameters of a law or a motion by name; one that is no dataclass has none that are known."""
    return (
        {field.name: getattr(value, field.name) for field in fields(value) if field.init} if is_dataclass(value) else {}
    )


def versions() -> dict[str, str]:
    """Return the versions that a run's numbers depend on."""
    packages = {name: metadata.version(name) for name in ("attnflow", "numpy", "scipy", "numba")}
    return {"python": platform.python_version(), **packages}
