"""Laws and motions as plain data, and back: what a stored run says of itself."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import metadata
from typing import Any

import numpy as np

from attnflow import laws, motions
from attnflow.arrays import foreign, library, plain
from attnflow.inputs import InputError, called
from attnflow.laws import Law
from attnflow.motions import FeedForward, Motion
from attnflow.schedules import Schedule

FUNCTION = "function of time"
SCHEDULE = "schedule"


def describe(value: Any) -> Any:
    """Return plain data (numbers, strings, lists, dictionaries) for a law, a motion or one of their parameters.

    >>> import attnflow as af
    >>> describe(af.Softmax(beta=9.0))
    {'name': 'Softmax', 'beta': 9.0, 'B': None}
    """
    if isinstance(value, Law | Motion | FeedForward):
        return {"name": type(value).__name__, **{k: describe(v) for k, v in parameters(value).items()}}
    if isinstance(value, Schedule):
        return {SCHEDULE: value.text}
    if callable(value):
        return {FUNCTION: getattr(value, "__name__", type(value).__name__)}
    if isinstance(value, np.ndarray | np.generic) or foreign(value):
        try:
            return plain(value).tolist()
        except (TypeError, RuntimeError):
            raise InputError(
                f"a parameter is traced by {library(value)}, expected a number that is known, or tokens of that library"
            ) from None
    if isinstance(value, tuple | list):
        return [describe(v) for v in value]
    return value


def rebuild(data: Any) -> Any:
    """Return the law or motion that `describe` spoke of, or None if it holds functions or is not one of ours."""
    try:
        return _rebuilt(data)
    except (KeyError, TypeError, ValueError):
        return None


def _rebuilt(data: Any) -> Any:
    if isinstance(data, list):
        return [_rebuilt(item) for item in data]
    if not isinstance(data, dict):
        return data
    if SCHEDULE in data:
        return Schedule(data[SCHEDULE])
    name = data["name"]
    known = {**vars(laws), **vars(motions)}
    return known[name](**{k: _rebuilt(v) for k, v in data.items() if k != "name"})


def varying(value: Any, t: float) -> list[Any]:
    """Return the values at time t of all parameters that are functions of time.

    >>> import attnflow as af
    >>> varying(af.Layers(gamma=lambda t: 2 / (t + 2)), 2)
    [0.5]
    """
    name = f"a parameter of {type(value).__name__}"
    return [
        called(lambda t, f=f: np.asarray(plain(f(t)), dtype=np.float64).tolist(), t, name)  # type: ignore[misc]
        for f in _functions(value)
    ]


def _functions(value: Any) -> Iterator[Any]:
    if isinstance(value, Law | Motion | FeedForward):
        for part in parameters(value).values():
            yield from _functions(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _functions(part)
    elif callable(value):
        yield value


def parameters(value: Any) -> dict[str, Any]:
    """Return the parameters of a law or a motion by name; one that is no dataclass has none that are known."""
    return (
        {field.name: getattr(value, field.name) for field in fields(value) if field.init} if is_dataclass(value) else {}
    )


def versions() -> dict[str, str]:
    """Return the versions that a run's numbers depend on."""
    packages = {name: metadata.version(name) for name in ("attnflow", "numpy", "scipy", "numba")}
    return {"python": platform.python_version(), **packages}
