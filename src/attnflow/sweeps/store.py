"""The store of a sweep: a Zarr group that grows box by box of the grid, and that xarray opens as it is.

It has the coordinates, an array for each value, in the shape of the grid, `failed`, the sentences of the cells that
failed, and `finished`. One chunk is one box of neighbouring cells; `finished` is written last, so a box counts whole or
not at all. The boxes are chosen, and the arrays made, when the time of a cell is known; those of values when the first
cell has returned some. They count when an attribute names them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import InputError
from attnflow.runs.files import FILES, appears_whole
from attnflow.runs.lock import Lock
from attnflow.runs.store import zarr_library
from attnflow.sweeps.grid import FAILED, FINISHED, Grid

FORMAT = 1
# The attribute that names the values, in the order in which cells return them.
VALUES = "values"
# What says which sweep it is, and is no digest.
SHOWN = ("seed", "version of attnflow", "version of Python")
# A chunk has at most this number of bytes: compressors take less than 2 GiB.
CHUNK_BYTES = 1 << 28

Box = tuple[slice, ...]


class Stored(NamedTuple):
    """What a store holds: its boxes, which cells are known, their failures, and their values by name."""

    box: tuple[int, ...]
    known: NDArray[np.bool_]
    failed: NDArray[Any]
    values: dict[str, NDArray[Any]]


class SweepStore:
    """A sweep on disk; `about` is plain data that says which sweep it is."""

    def __init__(self, path: Path, grid: Grid, about: dict[str, Any]) -> None:
        if path.suffix in FILES:
            raise InputError(f"store is {path}, but a store is a folder: give a name such as sweep.zarr")
        zarr_library()
        self.path, self.grid, self.about = path, grid, about
        self._group: Any = None
        self._arrays: dict[str, Any] = {}
        self._lock: Lock | None = None

    def close(self) -> None:
        """Let others write."""
        if self._lock is not None:
            self._lock.release()

    def claim(self) -> None:
        """Make the store if nothing is there; refuse it if another process writes to it."""
        if not os.path.exists(self.path):  # false for a name that is too long for the disk, which is refused then
            try:
                self._make()
            except InputError:
                # Another call may have made it at the same moment: the lock decides which of the two writes.
                if not os.path.exists(self.path):
                    raise
        self._opened("r")
        # The lock is in the folder of an array, where Zarr looks for chunks alone.
        self._lock = Lock(self.path, self.grid.names[0])

    def read(self) -> Stored | None:
        """Return what earlier calls have left; None if that is nothing."""
        if not os.path.exists(self.path):
            return None
        group = self._opened("r" if self._lock is None else "r+")
        if FINISHED not in group or FAILED not in group:
            return None
        try:
            known = np.asarray(group[FINISHED][...])
            # As long as nothing is finished, arrays of values may be there only in part.
            names = [FINISHED, FAILED, *(group.attrs[VALUES] if known.any() else ())]
            self._arrays = {name: group[name] for name in names}
            read = {name: np.asarray(array[...]) for name, array in self._arrays.items()}
        except Exception:
            raise InputError(
                f"{self.path} is damaged: parts of it cannot be read; use another copy, or remove it and run again"
            ) from None
        failed = read[FAILED].astype(object)
        return Stored(tuple(self._arrays[FINISHED].chunks), known, failed, {name: read[name] for name in names[2:]})

    def divide(self, box: tuple[int, ...]) -> None:
        """Make the arrays anew in which nothing is finished, of these boxes."""
        with self._writing():
            self._array(FINISHED, np.zeros(self.grid.shape, bool), box)
            self._array(FAILED, np.full(self.grid.shape, "", object), box)

    def name(self, values: dict[str, NDArray[Any]]) -> None:
        """Make the arrays of values like these."""
        with self._writing():
            for name, array in values.items():
                self._array(name, array, self._arrays[FINISHED].chunks)
            self.order(list(values))

    def order(self, names: list[str]) -> None:
        """Name the arrays of values."""
        with self._writing():
            self._group.attrs[VALUES] = names

    def write(self, box: Box, values: dict[str, NDArray[Any]], failed: NDArray[Any]) -> None:
        """Write a box of the grid, with its mark last."""
        with self._writing():
            for name, array in values.items():
                self._arrays[name][box] = array
            self._arrays[FAILED][box] = failed
            self._arrays[FINISHED][box] = np.ones(failed.shape, bool)

    def _array(self, name: str, like: NDArray[Any], box: tuple[int, ...]) -> None:
        fills = {"O": "", "b": False, "f": np.nan, "c": complex(np.nan, 0.0)}
        self._arrays[name] = self._group.create_array(
            name,
            shape=like.shape,
            dtype="str" if like.dtype == object else like.dtype,
            chunks=_chunks((*box, *like.shape[len(box) :]), like.dtype.itemsize),
            fill_value=fills[like.dtype.kind],
            dimension_names=dimensions(self.grid, name, like.ndim),
            overwrite=True,
        )

    def _make(self) -> None:
        """Make a store without results; it appears under its name only when it is whole."""
        with appears_whole(self.path, "made") as building:
            # Coordinates along a dimension of another name, as in a design, are named for xarray.
            others = " ".join(name for name in self.grid.names if name not in self.grid.dimensions)
            attributes = {"attnflow": {"format": FORMAT, "sweep": self.about}}
            group = zarr_library().create_group(
                building, attributes=attributes | ({"coordinates": others} if others else {})
            )
            for name, (dimension, places) in self.grid.coordinates.items():
                kind = "str" if places.dtype.kind == "U" else places.dtype
                array = group.create_array(name, shape=places.shape, dtype=kind, dimension_names=[dimension])
                array[:] = places

    def _opened(self, mode: str) -> Any:
        """Open the store of this very sweep."""
        try:
            self._group = zarr_library().open_group(self.path, mode=mode)
            about = self._group.attrs["attnflow"]
            theirs, form = about["sweep"], about["format"]
        except Exception:
            raise InputError(f"{self.path} is there, but is no store of a sweep: choose another name") from None
        if form != FORMAT:
            raise InputError(
                f"{self.path} has format {form}, this version reads {FORMAT}: use the version that wrote it"
            )
        ours = json.loads(json.dumps(self.about))
        different = [key for key, value in ours.items() if theirs.get(key) != value]
        if different:
            values = {key: f" ({theirs.get(key)} there, {ours[key]} here)" for key in SHOWN if key in theirs}
            parts = ", ".join(f"the {key}{values.get(key, '')}" for key in different)
            raise InputError(
                f"{self.path} holds another sweep; what differs is {parts}: choose another store, or remove it"
            )
        return self._group

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be written to ({error.strerror or error}): mend that, and repeat the call; only "
                "what is missing runs"
            ) from None


def dimensions(grid: Grid, name: str, axes: int) -> tuple[str, ...]:
    """Return the names of the dimensions of a value: those of the grid, and its own."""
    return (*grid.dimensions, *(f"{name}_{k}" for k in range(axes - len(grid.shape))))


def _chunks(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the shape of a chunk: all of it if it is small enough, and as much of its first axes as is.

    >>> _chunks((2, 0), 8), _chunks((2, 2**14, 2**14), 8)
    ((2, 1), (1, 2048, 16384))
    """
    chunk, rest = [max(1, size) for size in shape], itemsize
    for axis in reversed(range(len(chunk))):
        chunk[axis] = max(1, min(chunk[axis], CHUNK_BYTES // rest))
        rest *= chunk[axis]
    return tuple(chunk)
