"""The results of a sweep, in memory, or in a Zarr store that grows box by box of the grid.

A store is a Zarr group that xarray opens as it is: an array for each value, in the shape of the grid, the coordinates,
`failed`, the sentences of the cells that failed, and `finished`. One chunk is one box of neighbouring cells, which one
task computes; `finished` is written last, so a box counts whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import InputError
from attnflow.runs.files import appears_whole
from attnflow.runs.lock import Lock
from attnflow.runs.store import zarr_library
from attnflow.sweeps.grid import Grid
from attnflow.sweeps.outcome import Outcome, Schema

FORMAT = 1
# Names that results cannot have.
FAILED, FINISHED = "failed", "finished"
# The attribute that names the values, in the order in which cells return them.
VALUES = "values"
# The lock is in the folder of an array, where Zarr looks for chunks alone.
ASIDE = FINISHED


class Results:
    """Values of all cells as far as they are known.

    `about` is plain data that says which sweep this is; a store of another one is refused.
    """

    def __init__(self, grid: Grid, about: dict[str, Any], store: Path | None) -> None:
        self.grid, self.about, self.store = grid, about, store
        self.known = np.zeros(grid.shape, dtype=bool)
        self.failed = np.full(grid.shape, "", dtype=object)
        self.values: dict[str, NDArray[Any]] = {}
        self.schema: Schema | None = None
        self.box: tuple[int, ...] | None = None
        self._group: Any = None
        self._lock: Lock | None = None
        _xarray()
        if store is not None:
            zarr_library()
            if store.exists():
                self._open(store)

    def close(self) -> None:
        """Let others write to the store."""
        if self._lock is not None:
            self._lock.release()

    # Cells

    def missing(self, retry_failed: bool) -> NDArray[np.int64]:
        """Return the cells that are still to run, in order."""
        if retry_failed:
            self.known &= self.failed == ""
        return np.flatnonzero(~self.known)

    def take(self, cells: list[int], outcomes: list[Outcome]) -> None:
        """Take the outcomes of some cells, and write each box that has become whole."""
        for cell, outcome in zip(cells, outcomes, strict=True):
            place = self.grid.place(cell)
            if not outcome.failed:
                if self.schema is None:
                    self._shape(outcome.schema)
                outcome = outcome.fitted(self.schema or {})
            for name, array in self.values.items():
                array[place] = np.nan if outcome.failed else outcome.values[name]
            self.failed[place] = outcome.failed
            self.known[place] = True
        if self._group is not None:
            self._write(cells)

    def divide(self, size: int) -> None:
        """Choose boxes of about `size` cells, unless the store has them already, and make the store."""
        if self.box is None:
            self.box = self.grid.boxes(size)
        if self.store is not None and self._group is None:
            self._make(self.store)
            self._write(np.flatnonzero(self.known).tolist())

    def batches(self, cells: NDArray[np.int64]) -> list[list[int]]:
        """Return these cells box by box."""
        assert self.box is not None
        corners = np.stack(np.unravel_index(cells, self.grid.shape)) // np.array(self.box)[:, None]
        _, box = np.unique(corners, axis=1, return_inverse=True)
        order = np.argsort(box, kind="stable")
        cuts = np.flatnonzero(np.diff(box[order])) + 1
        return [batch.tolist() for batch in np.split(cells[order], cuts) if len(batch)]

    def dataset(self) -> Any:
        """Return everything as an `xarray.Dataset`."""
        data: dict[str, Any] = {
            name: (self._dimensions(name, array.ndim), array) for name, array in self.values.items()
        }
        data[FAILED] = (self.grid.dimensions, self.failed.astype(str))
        return _xarray().Dataset(data, self.grid.coordinates, {"attnflow": json.dumps(self.about)})

    # Parts

    def _dimensions(self, name: str, axes: int) -> tuple[str, ...]:
        own = range(axes - len(self.grid.shape))
        return (*self.grid.dimensions, *(f"{name}_{k}" for k in own))

    def _shape(self, schema: Schema) -> None:
        """Make room for values of these shapes, the same in all cells."""
        taken = {FAILED, FINISHED, *self.grid.dimensions, *self.grid.names}
        for name, (shape, kind) in schema.items():
            if name in taken:
                raise InputError(f"a value is named {name!r}, as an axis or a part of the Dataset: rename it")
            self.values[name] = np.full((*self.grid.shape, *shape), np.nan, dtype=kind)
        self.schema = schema
        if self._group is not None:
            self._make_values(self._group)

    def _make_values(self, group: Any) -> None:
        """Make the arrays of the values; they count when the attribute names them."""
        for name, array in self.values.items():
            self._array(group, name, array)
        if self.values:
            group.attrs[VALUES] = list(self.values)

    def _array(self, group: Any, name: str, like: NDArray[Any]) -> None:
        rest = like.shape[len(self.grid.shape) :]
        group.create_array(
            name,
            shape=like.shape,
            dtype="str" if like.dtype == object else like.dtype,
            chunks=(*(self.box or ()), *rest),
            fill_value="" if like.dtype == object else like.dtype.type(np.nan) if like.dtype.kind in "fc" else False,
            dimension_names=self._dimensions(name, like.ndim),
            overwrite=True,
        )

    def _make(self, path: Path) -> None:
        """Make a store without results; it appears under its name only when it is whole."""
        zarr = zarr_library()
        with appears_whole(path, "made") as building:
            coordinates = " ".join(name for name in self.grid.names if name not in self.grid.dimensions)
            attributes = {"attnflow": {"format": FORMAT, "sweep": self.about}}
            group = zarr.create_group(
                building, attributes=attributes | ({"coordinates": coordinates} if coordinates else {})
            )
            for name, (dimension, places) in self.grid.coordinates.items():
                kind = "str" if places.dtype.kind == "U" else places.dtype
                array = group.create_array(name, shape=places.shape, dtype=kind, dimension_names=[dimension])
                array[:] = places
            self._array(group, FAILED, self.failed)
            self._array(group, FINISHED, self.known)
            self._make_values(group)
        self._group = zarr.open_group(path, mode="r+")
        self._lock = Lock(path, ASIDE)

    def _open(self, path: Path) -> None:
        """Read what an earlier call has left."""
        zarr = zarr_library()
        try:
            group = zarr.open_group(path, mode="r+")
            about = group.attrs["attnflow"]["sweep"]
        except Exception:
            raise InputError(f"{path} is there, but is no store of a sweep: choose another name") from None
        different = [key for key in self.about if json.loads(json.dumps(self.about[key])) != about.get(key)]
        if different:
            raise InputError(f"{path} holds another sweep (another {different[0]}): choose another store, or remove it")
        self._lock = Lock(path, ASIDE)
        self._group, self.box = group, tuple(group[FINISHED].chunks)
        self.known = np.asarray(group[FINISHED][...])
        self.failed = np.asarray(group[FAILED][...]).astype(object)
        if VALUES in group.attrs:
            self.values = {name: np.asarray(group[name][...]) for name in group.attrs[VALUES]}
            axes = len(self.grid.shape)
            self.schema = {name: (array.shape[axes:], array.dtype.str) for name, array in self.values.items()}

    def _write(self, cells: Iterable[int]) -> None:
        """Write the boxes of these cells that are whole, each with its mark last."""
        assert self.box is not None
        corners = {tuple(k // step for k, step in zip(self.grid.place(cell), self.box, strict=True)) for cell in cells}
        for corner in sorted(corners):
            box = tuple(slice(k * step, (k + 1) * step) for k, step in zip(corner, self.box, strict=True))
            if self.known[box].all():
                for name, array in self.values.items():
                    self._group[name][box] = array[box]
                self._group[FAILED][box] = self.failed[box]
                self._group[FINISHED][box] = self.known[box]


def _xarray() -> Any:
    try:
        import xarray
    except ImportError:
        raise InputError("a sweep returns an xarray.Dataset: pip install 'attnflow[cluster]'") from None
    return xarray
