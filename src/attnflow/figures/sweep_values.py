"""What a picture of a sweep shows: its values over their axes, means with intervals, and what failed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array, InputError, one_of, quoted
from attnflow.figures.axes import Axis, axis, scattered
from attnflow.figures.groups import counted
from attnflow.figures.style import formula, found_by
from attnflow.measure.confidence import mean_interval
from attnflow.sweeps.grid import FAILED, FINISHED

if TYPE_CHECKING:
    from xarray import DataArray, Dataset

# How many panels a page has room for, and how many lines a panel.
MOST_PANELS, MOST_LINES = 24, 8
# Positive values of which the largest is this many times the smallest are drawn on a logarithmic scale.
DECADES = 1000
# Intervals of fewer values are not drawn: how often they hold the expected value was not measured.
FEWEST = 5
# How far a logarithmic scale goes below the least mean, as a factor: intervals may go below it, even below 0.
BELOW = 3


@dataclass(frozen=True)
class Values:
    """A variable of a sweep over panels, lines and two axes, (p, l, k, m), with length 1 for each that is not there.

    `mean` is NaN where no cell has a finite value. `low` and `high` are the ends of 95 per cent intervals for the mean,
    NaN where fewer than FEWEST cells have a value, and where none are drawn; `error` are standard errors. `part` is
    True where some, not all, of the cells that are averaged have no value. `whole` says that the values are whole
    numbers, and no means.
    """

    label: str
    mean: Array = field(repr=False)
    low: Array = field(repr=False)
    high: Array = field(repr=False)
    error: Array = field(repr=False)
    part: NDArray[np.bool_] = field(repr=False)
    whole: bool

    @property
    def seen(self) -> Array:
        """All means that can be drawn, at least one."""
        return self.mean[np.isfinite(self.mean)]

    @property
    def decades(self) -> bool:
        """Whether the means belong on a logarithmic scale."""
        return bool(self.seen.min() > 0 and self.seen.max() >= DECADES * self.seen.min())

    @property
    def floor(self) -> float | None:
        """Where the scale of the means ends if intervals go below that end; None if none do."""
        least = float(self.seen.min()) / BELOW
        return least if self.decades and (self.low < least).any() else None


@dataclass(frozen=True)
class Study:
    """Variables of a sweep, the axes they are drawn over, and what is to be said below the picture.

    Where cells are points of a `design`, `across` and `up` are coordinates of these points. `means` says what is
    averaged, `lost` which cells have no value.
    """

    values: Sequence[Values]
    panels: Axis | None
    lines: Axis | None
    across: Axis
    up: Axis | None
    design: bool
    means: str
    lost: str
    notes: Sequence[str]


def study(
    dataset: Dataset, show: str | Iterable[str] | None, average: str | Iterable[str] | None, lines: str | None
) -> Study:
    """Return what is to be drawn of a Dataset; what cannot be drawn is refused."""
    xarray = sys.modules.get("xarray")
    if xarray is not None and isinstance(dataset, xarray.DataArray):
        name = dataset.name or "NAME"
        raise InputError(f"dataset is a DataArray, expected a Dataset: give what af.sweep returned, and show='{name}'")
    found_by("af.sweep(cell, over)", dataset, type(None) if xarray is None else xarray.Dataset)
    # An axis with one value becomes a coordinate without an axis.
    data = dataset.squeeze()
    axes = _axes(data)
    names, notes = _shown(data, axes, show)
    over = _averaged(axes, average)
    free = [name for name in axes if name not in over]
    if lines is not None:
        one_of(lines, free, "lines")
        _few(data, lines, MOST_LINES, "lines")
        free.remove(lines)
    design = _design(data, free)
    panels = _panels(data, free, lines, design)
    inside = [name for name in free if name != panels]
    along = [_axis(data, name) for name in inside] if design is None else [_coordinate(data, c) for c in design]
    roles = [panels, lines, inside[0], inside[1] if len(inside) > 1 else None]
    orders = [None if name is None else _axis(data, name).order for name in roles]

    def laid_out(variable: DataArray) -> NDArray[Any]:
        """Return a variable as an array (p, l, k, m, s), the s cells of a place last."""
        missing = {name: data.sizes[name] for name in axes if name not in variable.dims}
        named = [name for name in roles if name is not None]
        found = variable.expand_dims(missing).transpose(*named, *over).to_numpy()
        found = found.reshape(*(1 if name is None else data.sizes[name] for name in roles), -1)
        for k, order in enumerate(orders):
            found = found if order is None else found.take(order, axis=k)
        return found

    arrays = {name: laid_out(data[name]).astype(np.float64) for name in names}
    for name, array in arrays.items():
        if not np.isfinite(array).any():
            raise InputError(
                f"no value of {name!r} is a finite number: correct the function, or choose another by show"
            )
    marks = {name: laid_out(data[name]) for name in (FAILED, FINISHED) if name in data}
    return Study(
        [_values(_label(data[name]), array, bool(over), bars=len(along) == 1) for name, array in arrays.items()],
        None if panels is None else _axis(data, panels),
        None if lines is None else _axis(data, lines),
        along[0],
        along[1] if len(along) > 1 else None,
        design is not None,
        " and ".join(_counted(name, data.sizes[name]) for name in over),
        _lost(list(arrays.values()), marks.get(FAILED), marks.get(FINISHED)),
        [_fixed(data[name]) for name in data.coords if not data[name].dims] + notes,
    )


def _axes(data: Dataset) -> list[str]:
    """Return the names of the axes of a sweep: not those of the arrays that its cells returned."""
    if FAILED in data:
        axes = [str(name) for name in data[FAILED].dims]
    else:
        own = re.compile("|".join(rf"{re.escape(str(name))}_\d+" for name in data.data_vars) or "$.")
        axes = [str(name) for name in data.dims if not own.fullmatch(str(name))]
    if not axes:
        raise InputError("dataset has no axis with two values or more: give a sweep over a list of values")
    empty = [name for name in axes if data.sizes[name] == 0]
    if empty:
        raise InputError(f"dataset has no cells: its axis {empty[0]!r} is empty; select some of its values")
    return axes


def _shown(data: Dataset, axes: list[str], show: str | Iterable[str] | None) -> tuple[list[str], list[str]]:
    """Return the names of the variables to be drawn, and notes on those that are not."""
    known = [str(name) for name in data.data_vars if name != FINISHED and data[name].dtype.kind in "biufc"]
    if FAILED in data and all(said := data[FAILED].to_numpy().ravel().tolist()):
        raise InputError(
            f"all {len(said)} cells have failed, the first with {quoted(said[0])}: correct the function that was "
            "swept, and sweep again with retry_failed=True"
        )
    if not known:
        raise InputError("dataset has no numbers to draw: give what af.sweep returned for a function of numbers")
    arrays = {name: [str(dim) for dim in data[name].dims if dim not in axes] for name in known}
    if show is None:
        names = [name for name in known if not arrays[name]] or known[:1]
    else:
        names = [one_of(name, known, "show") for name in _listed(show, "show")]
    for name in names:
        if arrays[name]:
            first = ", ".join(f"{dim}=0" for dim in arrays[name])
            raise InputError(
                f"{name!r} is an array in each cell, expected a number: choose an entry, as dataset.isel({first})"
            )
        if data[name].dtype.kind == "c":
            raise InputError(f"{name!r} is complex, expected real numbers: draw its modulus, abs(dataset[[{name!r}]])")
    left = [name for name in known if arrays[name]] if show is None else []
    return names, [f"arrays are left out: {', '.join(left)}"] if left else []


def _listed(names: Any, what: str) -> list[str]:
    if isinstance(names, str):
        return [names]
    if not isinstance(names, Iterable) or not (found := list(names)):
        raise InputError(f"{what} is {quoted(names)}, expected a name or a list of names")
    return found


def _averaged(axes: list[str], average: str | Iterable[str] | None) -> list[str]:
    """Return the axes to be averaged: seeds, unless said otherwise, and unless nothing else varies."""
    if average is None:
        seeds = [name for name in axes if name.rpartition(".")[2] == "seed"]
        return seeds if len(seeds) < len(axes) else []
    if average == () or average == []:
        return []
    chosen = [one_of(name, axes, "average") for name in _listed(average, "average")]
    if len(set(chosen)) == len(axes):
        raise InputError(f"average is {quoted(average)}, which leaves no axis to draw over: leave one of them out")
    return [name for name in axes if name in chosen]


def _design(data: Dataset, free: list[str]) -> list[str] | None:
    """Return the names of the coordinates of the points of a design, if there is one."""
    for dim in free:
        found = [str(c) for c in data.coords if c != dim and data[c].dims == (dim,) and data[c].dtype.kind in "iuf"]
        if len(found) > 2:
            raise InputError(
                f"the points of {dim!r} have the coordinates {', '.join(found)}, expected two at most: leave some out, "
                f"as dataset.drop_vars({found[2:]})"
            )
        if found:
            # The points come first: other axes are for panels.
            free.remove(dim)
            free.insert(0, dim)
            return found
    return None


def _panels(data: Dataset, free: list[str], lines: str | None, design: list[str] | None) -> str | None:
    """Return the axis whose values have a panel each: the shortest, where there is one axis more than a panel has."""
    room = 2 if lines is None and design is None else 1
    if design is not None and lines is not None:
        raise InputError(f"lines is {lines!r}, but points of a design have no lines: leave it out")
    if not free:
        raise InputError(f"lines is {lines!r}, which leaves no axis to draw over: leave it out")
    if len(free) > room + 1:
        last = free[-1]
        raise InputError(
            f"dataset has {len(free)} axes to draw, {', '.join(free)}, expected {room + 1} at most: select one value, "
            f"as dataset.isel({{{last!r}: 0}}), or average, as average=[{last!r}]"
        )
    if len(free) <= room:
        return None
    rest = free[1:] if design else free[::-1]
    shortest = min(rest, key=lambda name: data.sizes[name])
    _few(data, shortest, MOST_PANELS, "panels")
    return shortest


def _few(data: Dataset, name: str, most: int, what: str) -> None:
    if data.sizes[name] > most:
        raise InputError(
            f"{name!r} has {data.sizes[name]} values, but there is room for {most} {what}: select some of them, as "
            f"dataset.isel({{{name!r}: slice(None, None, {-(-data.sizes[name] // most)})}})"
        )


def _axis(data: Dataset, name: str) -> Axis:
    """Return an axis of the grid; the values of one without a coordinate are numbered."""
    return axis(name, data[name].to_numpy(), data[name].attrs.get("long_name"))


def _coordinate(data: Dataset, name: str) -> Axis:
    return scattered(name, data[name].to_numpy(), data[name].attrs.get("long_name"))


def _label(variable: DataArray) -> str:
    return str(variable.attrs.get("long_name", str(variable.name).replace("_", " ")))


def _values(label: str, array: Array, averaged: bool, bars: bool) -> Values:
    """Return the means over the last axis of an array, over those of its entries that are finite.

    Intervals are computed if there are to be `bars`.
    """
    there = np.isfinite(array)
    count, shape = there.sum(axis=-1), array.shape[:-1]
    known = np.where(there, array, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(count > 0, known.sum(axis=-1) / count, np.nan)
        deviation = np.sqrt((np.where(there, array - mean[..., None], 0.0) ** 2).sum(axis=-1) / (count - 1))
        error = np.where(count > 1, deviation / np.sqrt(count), np.nan)
    ends = np.full((2, *shape), np.nan)
    for k in np.ndindex(shape) if averaged and bars else ():
        if count[k] >= FEWEST:
            ends[(slice(None), *k)] = mean_interval(array[k][there[k]])
    whole = not averaged and bool((known % 1 == 0).all())
    return Values(label, mean, ends[0], ends[1], error, (count > 0) & (count < array.shape[-1]), whole)


def _lost(arrays: list[Array], sentences: NDArray[Any] | None, finished: NDArray[Any] | None) -> str:
    """Return how many cells have failed, how many have not run yet, and how many others have a value not finite."""
    none = np.full(arrays[0].shape, False)
    failed = none if sentences is None else sentences != ""
    waiting = none if finished is None else ~finished.astype(bool)
    other = ~np.all([np.isfinite(array) for array in arrays], axis=0) & ~failed & ~waiting
    said = {"failed": failed, "have not run yet": waiting, "gave no finite number": other}
    parts = [f"{int(which.sum()):,} {what}" for what, which in said.items() if which.any()]
    return ", ".join(parts).replace(" ", f" of {counted(none.size, 'cell')} ", 1)


def _counted(name: str, size: int) -> str:
    plain = name.rpartition(".")[2]
    return counted(size, "seed") if plain == "seed" else f"{size} values of {formula(plain)}"


def _fixed(coordinate: DataArray) -> str:
    """Return the one value of a coordinate without an axis, for the caption."""
    value = coordinate.to_numpy()[()]
    number = coordinate.dtype.kind in "iuf"
    return formula(str(coordinate.name).rpartition(".")[2], f"{value:.12g}" if number else str(value))
