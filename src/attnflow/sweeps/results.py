"""The results of a sweep as far as they are known, in memory and, if asked, in a store.

All cells return values of the same names, shapes and types: those of the first cell, the one with the lowest number of
those that did not fail. Cells may come in any order. So the first one to come decides, until one before it comes; if
that one differs, what was known is forgotten and runs again. What a sweep returns does not depend on the order.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import InputError
from attnflow.sweeps.grid import FAILED, FINISHED, Grid
from attnflow.sweeps.outcome import Outcome, Schema
from attnflow.sweeps.store import SweepStore, dimensions


class Results:
    """Values of all cells as far as they are known.

    `about` is plain data that says which sweep this is; a store of another one is refused.
    """

    def __init__(self, grid: Grid, about: dict[str, Any], store: Path | None) -> None:
        self.grid, self.about = grid, about
        self.known = np.zeros(grid.shape, dtype=bool)
        self.failed = np.full(grid.shape, "", dtype=object)
        self.values: dict[str, NDArray[Any]] = {}
        self.schema: Schema | None = None
        self.box: tuple[int, ...] | None = None
        # The cell that has decided on names, shapes and types, and whether all before it are known to fail.
        self._first, self._sure = len(grid), False
        self._store = None if store is None else SweepStore(store, grid, about)
        self._read()

    def close(self) -> None:
        """Let others write to the store."""
        if self._store is not None:
            self._store.close()

    # Cells

    def missing(self, retry_failed: bool) -> NDArray[np.int64]:
        """Return the cells that are still to run, in order."""
        return np.flatnonzero(~self.known | (retry_failed & (self.failed != "")))

    def claim(self, retry_failed: bool) -> NDArray[np.int64]:
        """Make the store, or see that nobody else writes to it, and return the cells that are still to run."""
        if self._store is not None:
            self._store.claim()
            # Another call may have written to it until now.
            self._read()
        missing = self.missing(retry_failed)
        self.known.ravel()[missing] = False
        return missing

    def take(self, cells: list[int], outcomes: list[Outcome]) -> None:
        """Take the outcomes of some cells, and write each box that has become whole."""
        for cell, outcome in zip(cells, outcomes, strict=True):
            outcome = self._fitted(cell, outcome)
            place = self.grid.place(cell)
            for name, array in self.values.items():
                array[place] = np.nan if outcome.failed else outcome.values[name]
            self.failed[place] = outcome.failed
            self.known[place] = True
        self._sure = self._sure or bool(self._first < len(self.grid) and self.known.ravel()[: self._first].all())
        self._write(cells)

    def divide(self, size: int) -> None:
        """Choose boxes of about `size` cells, unless there are some already, and store what is known in them."""
        if self.box is None:
            self.box = self.grid.boxes(size)
            if self._store is not None:
                self._store.divide(self.box)
                self._store.name(self.values)
                self._write(np.flatnonzero(self.known).tolist())

    def batches(self, cells: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return these cells box by box."""
        assert self.box is not None
        corners = np.stack(np.unravel_index(cells, self.grid.shape)) // np.array(self.box)[:, None]
        _, box = np.unique(corners, axis=1, return_inverse=True)
        order = np.argsort(box, kind="stable")
        cuts = np.flatnonzero(np.diff(box[order])) + 1
        return [batch for batch in np.split(cells[order], cuts) if len(batch)]

    def dataset(self) -> Any:
        """Return everything as an `xarray.Dataset`."""
        data: dict[str, Any] = {
            name: (dimensions(self.grid, name, array.ndim), array) for name, array in self.values.items()
        }
        data[FAILED] = (self.grid.dimensions, self.failed.astype(str))
        return xarray_library().Dataset(data, self.grid.coordinates, {"attnflow": json.dumps(self.about)})

    # Parts

    def _read(self) -> None:
        """Take what earlier calls have stored."""
        if self._store is None or not (stored := self._store.read()):
            return
        self.box, self.known, self.failed = stored.box, stored.known, stored.failed
        good = np.flatnonzero(self.known & (self.failed == ""))
        if len(good):
            self._first, axes = int(good[0]), len(self.grid.shape)
            self._sure = bool(self.known.ravel()[: self._first].all())
            self.values = stored.values
            self.schema = {name: (array.shape[axes:], array.dtype.str) for name, array in self.values.items()}
            for array in self.values.values():
                # A call may have been killed while it ran a failed cell again, between its values and its end.
                array[self.failed != ""] = np.nan

    def _fitted(self, cell: int, outcome: Outcome) -> Outcome:
        """Return the outcome of a cell, a failure if its values do not fit those of the first cell."""
        if outcome.failed:
            return outcome
        taken = self._taken(outcome.schema)
        if taken is not None:
            return Outcome(failed=f"it names a value {taken!r}, as an axis or a part of the Dataset: rename it")
        if cell < self._first and not self._sure:
            if self.schema != outcome.schema:
                self._decide(cell, outcome.schema)
            elif list(self.schema) != list(outcome.schema):
                self._order(outcome.schema)
            self._first = cell
        return outcome.fitted(self.schema or {})

    def _taken(self, schema: Schema) -> str | None:
        """Return a name that a value, or a dimension of its own, would share with something else."""
        names = [FAILED, FINISHED, *self.grid.dimensions, *self.grid.names]
        for name, (shape, _) in schema.items():
            own = dimensions(self.grid, name, len(self.grid.shape) + len(shape))[len(self.grid.shape) :]
            twice = next((one for one in (name, *own) if one in names), None)
            if twice is not None:
                return name
            names += [name, *own]
        return None

    def _decide(self, cell: int, schema: Schema) -> None:
        """Make room for values of these shapes, forgetting the cells after this one that are known with others."""
        try:
            self.values = {
                name: np.full((*self.grid.shape, *shape), np.nan, dtype=kind) for name, (shape, kind) in schema.items()
            }
        except MemoryError:
            raise InputError(
                f"the values of {len(self.grid)} cells do not fit into memory: return less from each cell, or run fewer"
            ) from None
        if self.schema is not None:
            self.known.ravel()[cell:] = False
        self.schema = schema
        if self._store is not None and self.box is not None:
            self._store.divide(self.box)
            self._store.name(self.values)
            self._write(np.flatnonzero(self.known).tolist())

    def _order(self, schema: Schema) -> None:
        """Take values in this order."""
        self.schema, self.values = schema, {name: self.values[name] for name in schema}
        if self._store is not None and self.box is not None:
            self._store.order(list(schema))

    def _write(self, cells: list[int]) -> None:
        """Write the boxes of these cells that are whole."""
        if self._store is None or self.box is None:
            return
        step = np.array(self.box)
        for corner in sorted({tuple(np.array(self.grid.place(cell)) // step) for cell in cells}):
            box = tuple(slice(int(k) * size, int(k + 1) * size) for k, size in zip(corner, self.box, strict=True))
            if self.known[box].all():
                self._store.write(box, {name: array[box] for name, array in self.values.items()}, self.failed[box])


def xarray_library() -> Any:
    """Return xarray, refusing to begin what could not return its results."""
    try:
        import xarray
    except ImportError:
        raise InputError("a sweep returns an xarray.Dataset: pip install 'attnflow[cluster]'") from None
    return xarray
