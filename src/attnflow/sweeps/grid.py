"""The grid of a sweep: its axes, and the parameters of each cell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.catalogue import check_keys
from attnflow.core.inputs import InputError, number, one_of, quoted, whole

# Keys of an axis whose values are spaced between two ends, or counted.
AXIS = ("from", "to", "count", "scale")
# Keys of a parameter of a design.
RANGE = ("from", "to", "scale", "whole")
SCALES = ("linear", "log")
DESIGNS = ("latin_hypercube", "random")
# Values that a coordinate of a Dataset can hold; others are named by their text.
PLAIN = (bool, int, float, str, np.bool_, np.integer, np.floating, np.str_)
LONGEST_LABEL = 60
# Parts of the Dataset, and of a store, beside axes and values.
FAILED, FINISHED = "failed", "finished"

WANTED = (
    'a list of values, {"from": 1, "to": 9, "count": 5}, {"count": 20} for 0 to 19, or a design such as '
    '{"design": "latin_hypercube", "count": 64, "beta": [0.1, 9.0]}'
)


def is_name(name: Any) -> bool:
    """Say whether an axis or a value can have this name, which is that of an array in a store too.

    >>> is_name("law.beta"), is_name("a/b"), is_name(3)
    (True, False, False)
    """
    if not isinstance(name, str) or name in ("", "zarr.json") or name.startswith((".", "__")):
        return False
    return name.isprintable() and not {"/", "\\"} & set(name)


class Grid:
    """All combinations of the values of some axes; cells are counted in C order, the last axis first.

    An entry of `over` is a list of values; ``{"from": a, "to": b, "count": k, "scale": "log"}``, k values between two
    ends; ``{"count": k}``, the numbers 0 to k - 1, such as seeds; or a design, k points that vary several parameters
    at once: ``{"design": "latin_hypercube", "count": k, "seed": 0, "beta": [0.1, 9.0], "gamma": [0.0, 1.0]}``.

    >>> grid = Grid({"beta": [1.0, 4.0], "seed": {"count": 3}})
    >>> grid.shape, len(grid), grid.parameters(4)
    ((2, 3), 6, {'beta': 4.0, 'seed': 1})
    >>> Grid({"beta": {"from": 1, "to": 100, "count": 3, "scale": "log"}}).coordinates["beta"][1].tolist()
    [1.0, 10.0, 100.0]
    """

    def __init__(self, over: Any) -> None:
        if not isinstance(over, Mapping) or not over:
            raise InputError(f"over is {quoted(over)}, expected the axes of the sweep, such as {{'beta': [1.0, 4.0]}}")
        self.axes: dict[str, dict[str, list[Any]]] = {}
        for name, given in over.items():
            _check_name(name)
            self.axes[name] = _axis(name, given)
        names = [parameter for axis in self.axes.values() for parameter in axis]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"the parameter {twice!r} varies along two axes: name it once")
        self.names = tuple(names)
        self.dimensions = tuple(self.axes)
        self.shape = tuple(len(next(iter(axis.values()))) for axis in self.axes.values())

    def __len__(self) -> int:
        return math.prod(self.shape)

    def place(self, cell: int) -> tuple[int, ...]:
        """Return where a cell is on each axis."""
        return tuple(int(k) for k in np.unravel_index(cell, self.shape))

    def parameters(self, cell: int) -> dict[str, Any]:
        """Return the values of a cell by name."""
        columns = zip(self.axes.values(), self.place(cell), strict=True)
        return {name: values[k] for axis, k in columns for name, values in axis.items()}

    def label(self, cell: int) -> str:
        """Return the values of a cell as text, for those who read.

        >>> Grid({"beta": [1.0, 4.0], "seed": {"count": 3}}).label(4)
        'beta=4.0, seed=1'
        """
        return ", ".join(f"{name}={value}" for name, value in self.parameters(cell).items())

    @property
    def coordinates(self) -> dict[str, tuple[str, NDArray[Any]]]:
        """The dimension of each parameter, and its values along it, as numbers or text."""
        return {
            name: (dimension, _labels(name, values))
            for dimension, axis in self.axes.items()
            for name, values in axis.items()
        }

    @property
    def said(self) -> str:
        """How many cells there are, and along which axes.

        >>> Grid({"beta": [1.0, 4.0], "seed": {"count": 3}}).said
        '6 (2 beta x 3 seed)'
        """
        axes = " x ".join(f"{size} {name}" for name, size in zip(self.dimensions, self.shape, strict=True))
        return f"{len(self)} ({axes})"

    def boxes(self, size: int) -> tuple[int, ...]:
        """Return the shape of boxes of at most about `size` neighbouring cells: last axes whole, a part of the next.

        >>> Grid({"beta": range(200), "seed": range(20)}).boxes(50), Grid({"seed": range(20)}).boxes(15)
        ((2, 20), (10,))
        """
        shape = [1] * len(self.shape)
        for axis in reversed(range(len(shape))):
            length = self.shape[axis]
            pieces = -(-length // min(length, max(1, size)))
            shape[axis] = -(-length // pieces)
            if shape[axis] < length:
                break
            size //= length
        return tuple(shape)


def _check_name(name: Any) -> None:
    if not is_name(name):
        raise InputError(f"an axis is named {name!r}, expected the name of a parameter")
    if name in (FAILED, FINISHED):
        raise InputError(f"an axis is named {name!r}, as a part of the Dataset of results: rename it")


def _axis(name: str, given: Any) -> dict[str, list[Any]]:
    """Return the values along an axis of each parameter that varies along it."""
    if isinstance(given, Mapping):
        if "design" in given:
            return _design(name, given)
        check_keys(given, AXIS, f"the axis {name!r}")
        return {name: _spaced(name, given)}
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        raise InputError(f"the axis {name!r} is {quoted(given)}, expected {WANTED}")
    values = given.tolist() if isinstance(given, np.ndarray) and given.ndim == 1 else list(given)
    if not values:
        raise InputError(f"the axis {name!r} has no values: give at least one")
    bad = next((v for v in values if isinstance(v, float | np.floating) and not np.isfinite(v)), None)
    if bad is not None:
        raise InputError(f"the axis {name!r} has the value {bad}, expected finite numbers")
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    plain = [value for value in values if isinstance(value, PLAIN)]
    if len(set(plain)) < len(plain):
        twice = next(value for value in plain if plain.count(value) > 1)
        raise InputError(f"the axis {name!r} has the value {twice!r} more than once: give each value once")
    return {name: values}


def _spaced(name: str, given: Mapping[str, Any]) -> list[Any]:
    if "count" not in given:
        raise InputError(f"the axis {name!r} does not say how many values it has: add count")
    count = whole(given["count"], f"count of the axis {name!r}", least=1)
    if set(given) == {"count"}:
        return list(range(count))
    if "from" not in given or "to" not in given:
        raise InputError(f"the axis {name!r} is {dict(given)!r}, expected {WANTED}")
    first, last = (number(given[end], f"{end} of the axis {name!r}") for end in ("from", "to"))
    scale = one_of(given.get("scale", "linear"), SCALES, f"scale of the axis {name!r}")
    if scale == "log" and not (first > 0 and last > 0):
        raise InputError(f"the axis {name!r} goes from {first:g} to {last:g}: a log scale needs ends above 0")
    spaced: list[float] = (np.geomspace if scale == "log" else np.linspace)(first, last, count).tolist()
    if len(set(spaced)) < count:
        raise InputError(f"the axis {name!r} has {count} values from {first:g} to {last:g}: move the ends apart")
    return spaced


def _design(name: str, given: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return points that vary several parameters at once, each uniform between its ends, or its logarithm."""
    kind = one_of(given["design"], DESIGNS, f"design of the axis {name!r}")
    count = whole(given.get("count"), f"count of the axis {name!r}", least=1)
    seed = whole(given.get("seed", 0), f"seed of the axis {name!r}", least=0)
    ranges = {key: ends for key, ends in given.items() if key not in ("design", "count", "seed")}
    if not ranges:
        raise InputError(f"the design of the axis {name!r} varies nothing: add parameters, such as beta = [0.1, 9.0]")
    for key in ranges:
        _check_name(key)
    if kind == "random":
        unit = np.random.default_rng(seed).random((count, len(ranges)))
    else:
        from scipy.stats import qmc

        unit = qmc.LatinHypercube(len(ranges), rng=np.random.default_rng(seed)).random(count)
    return {
        key: _drawn(f"{key} of the axis {name!r}", ends, unit[:, k]) for k, (key, ends) in enumerate(ranges.items())
    }


def _drawn(what: str, given: Any, unit: NDArray[np.float64]) -> list[Any]:
    """Return where numbers between 0 and 1 lie between two ends; all whole numbers between these have equal shares.

    >>> _drawn("beta", [0.0, 8.0], np.array([0.25, 0.5]))
    [2.0, 4.0]
    >>> _drawn("beta", {"from": 0.1, "to": 10.0, "scale": "log"}, np.array([0.5]))
    [1.0]
    >>> _drawn("n", {"from": 4, "to": 5, "whole": True}, np.array([0.25, 0.75]))
    [4, 5]
    """
    ends = {"from": given[0], "to": given[1]} if isinstance(given, list | tuple) and len(given) == 2 else given
    if not isinstance(ends, Mapping) or not {"from", "to"} <= set(ends):
        raise InputError(f"{what} is {quoted(given)}, expected two ends, such as [0.1, 9.0]")
    check_keys(ends, RANGE, what)
    counts = ends.get("whole", False)
    if not isinstance(counts, bool):
        raise InputError(f"whole of {what} is {quoted(counts)}, expected true or false")
    low, high = ((whole if counts else number)(ends[end], f"{end} of {what}") for end in ("from", "to"))
    if not low < high:
        raise InputError(f"{what} goes from {low:g} to {high:g}: the first end must be smaller")
    scale = one_of(ends.get("scale", "linear"), SCALES, f"scale of {what}")
    if scale == "log" and not low > 0:
        raise InputError(f"{what} goes from {low:g} to {high:g}: a log scale needs ends above 0")
    top = high + counts
    points = low * (top / low) ** unit if scale == "log" else low + unit * (top - low)
    return np.minimum(np.floor(points), high).astype(int).tolist() if counts else np.minimum(points, high).tolist()


def _labels(name: str, values: list[Any]) -> NDArray[Any]:
    """Return values as a coordinate: numbers or text as they are, others by their text, or their number.

    >>> _labels("seed", [1, 2**70]).tolist()  # beyond 64 bits
    ['1', '1180591620717411303424']
    """
    kinds = {type(value) for value in values}
    plain = all(isinstance(value, PLAIN) and not _large(value) for value in values)
    if plain and (str not in kinds or kinds == {str}):
        return np.array(values)
    labels = [" ".join(str(value).split()) for value in values]
    short = max(map(len, labels)) <= LONGEST_LABEL and len(set(labels)) == len(labels)
    return np.array(labels if short else [f"{name} {k}" for k in range(len(labels))])


def _large(value: Any) -> bool:
    """Say whether this is a whole number beyond 64 bits."""
    return isinstance(value, int) and not -(2**63) <= value < 2**63
