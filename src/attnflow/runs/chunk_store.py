"""Runs of Dask arrays on disk: a store with chunks of rows, each written by the worker that computed it.

The layout is that of all stores, but a chunk of ``tokens`` holds some rows of one state. Every step is written: a
recorded one to ``tokens``, any other to an array of its own in the folder ``tokens/steps``, which is removed when the
next one is whole. The checkpoint says where the newest whole state is. A place is used for one state alone, so that a
worker that is late, after the process that asked it was killed, does no harm.

The start is given again when a call is repeated. So it is not written before the first step, but with it: each chunk is
read once for both. A run that was killed before its first step was whole starts anew.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.dask_arrays import dask_array
from attnflow.core.inputs import LARGEST_CLOUD, Array, InputError
from attnflow.laws.chunks import Chunks, computed
from attnflow.runs.store import (
    ASIDE,
    Store,
    checkpoint_of,
    new_array,
    opened,
    read_array,
    zarr_library,
)

# A place on disk: the step whose array between records it is, or RECORD, and the number of the state in the array.
Place = tuple[int, int]
RECORD = -1
STEPS = f"{ASIDE}/steps"


class LostError(Exception):
    """The token with this number is not finite or too large; these are its coordinates."""

    def __init__(self, token: int, coordinates: Array) -> None:
        super().__init__(token, coordinates)
        self.token, self.coordinates = token, coordinates


class ChunkStore(Store):
    """A run of a Dask array on disk, open for recording."""

    # The digits of a cloud do not shrink, and trying would cost more than writing them.
    level = None

    def __init__(self, path: Path, group: Any) -> None:
        super().__init__(path.absolute(), group)  # workers may be in another folder
        self.newest: tuple[int, Place] | None = None
        self.marked: tuple[int, dict[str, Any]] | None = None
        # The start of a new run, each of whose chunks is written when it is computed, as long as not all are.
        self.expects_start = False
        self.start: tuple[int, Any] | None = None

    @staticmethod
    def chunks(x: Any) -> tuple[int, ...]:
        return 1, *x.chunksize

    def append(self, times: NDArray[Any], tokens: Any) -> None:
        """Write states to the recording, chunk by chunk; the start of a run only when the first step is."""
        for t, x in zip(times.tolist(), tokens, strict=True):
            k = self.written + (self.start is not None)
            self.tokens.resize((k + 1, *self.tokens.shape[1:]))
            if self.expects_start:
                self.expects_start = False
                written = partial(_written, self.path / ASIDE)
                self.start = t, x.map_blocks(written, dtype=np.float64, meta=np.empty((0, 0)))
                continue
            try:
                self._fill((RECORD, k), x)
            except LostError:
                self._forget()
                raise
            self._count(t)

    def _count(self, t: int) -> None:
        """Note that the next record is whole."""
        k = self.written
        self.time.resize((k + 1,))
        self.time[k] = t
        self.written, self.newest = k + 1, (t, (RECORD, k))

    def held(self, t: int, x: Any) -> Any:
        """Return the state at time t as it is on disk, writing it if it was not recorded; the start as it was given."""
        if self.start is not None and self.start[0] == t:
            return x
        if self.newest is None or self.newest[0] != t:
            self._fill((t, 0), x)
            self.newest = t, (t, 0)
        return self._at(*self.newest)

    def leaving(self, x: Any) -> Any:
        """Return the newest state as the next one must be computed from it: the start is written meanwhile."""
        return x if self.start is None else self.start[1]

    def mark(self, notes: dict[str, Any]) -> None:
        """Write down that the newest state is whole, and what else is needed to go on from there."""
        self.marked = self.written + (self.start is not None), notes
        if self.start is None:
            self._mark()

    def _mark(self) -> None:
        assert self.newest is not None
        assert self.marked is not None
        t, place = self.newest
        self._save(t, np.array(place), {}, self.marked[1], self.marked[0], [])
        for old in (self.path / STEPS).glob("[0-9]*"):
            if old.name != str(place[0]):
                shutil.rmtree(old, ignore_errors=True)

    def resume(self) -> tuple[Any, Any, dict[str, Any], dict[str, Any]] | None:
        """Return (t, x, state, notes) of the last whole step and forget what came after it; None to start anew."""
        saved = checkpoint_of(self.path)
        if saved is not None:
            t, (slot, k) = saved["t"].item(), saved["x"].tolist()
            self.newest, self.marked = (t, (slot, k)), (int(saved["written"]), json.loads(str(saved["notes"])))
            if slot == RECORD and k >= self.marked[0]:
                # The last state of a finished run, which its rule did not pick, makes way for those to come.
                last, self.newest = self._at(t, (slot, k)), None
                self.held(t, last)
                self._mark()
        resumed = super().resume()
        if resumed is None or self.newest is None:
            self.expects_start = True
            return None
        return resumed[0], self._at(*self.newest), *resumed[2:]

    def extend(self, until: float) -> None:
        super().extend(until)
        if self.extending is not None:
            self.extending = None
            self.annotate(results=None, run={**self.about["run"], "until": until})

    def finish(self, **results: Any) -> None:
        """Write how the run ended, and from where it could go on if its end were later."""
        if self.marked is not None:
            self._mark()
        shutil.rmtree(self.path / STEPS, ignore_errors=True)
        super().finish(**results)

    def arrays(self) -> tuple[NDArray[Any], Any]:
        """Return the times, and the tokens as a Dask array that reads them from disk."""
        times = read_array(self.path, self.time)
        return times, _recorded(self.path, self.tokens, times)

    def _at(self, t: int, place: Place) -> Any:
        """Return the state at time t, which is at this place."""
        slot, k = place
        if slot == RECORD:
            return _recorded(self.path, self.tokens, np.array([t]), k)[0]
        return _on_disk(self.tokens, 1, partial(_read, self.path, f"{STEPS}/{slot}", 0, None))[0]

    def _fill(self, place: Place, x: Any) -> None:
        """Write a state to a place, each chunk where it is computed; refuse it if no law can hear it."""
        slot, k = place
        if slot != RECORD and not (self.path / STEPS / str(slot)).exists():
            like = np.broadcast_to(0.0, (1, *self.tokens.shape[1:]))
            between = zarr_library().open_group(self.path / STEPS, mode="a")
            new_array(between, str(slot), like, self.tokens.chunks, ["time", "token", "coordinate"], self.level)
        name, rows = ASIDE if slot == RECORD else f"{STEPS}/{slot}", int(self.tokens.chunks[1])
        even = x if x.chunksize[0] == rows else x.rechunk((rows, -1))
        self._compute(even, partial(_write, self.path / name, k))

    def _compute(self, x: Any, look: Any) -> None:
        """Compute a state, with the start if that is still to be written; refuse the state if no law can hear it."""
        found = computed(Chunks(x).each(look))
        if self.start is not None:
            t, self.start = self.start[0], None
            self._count(t)
        refuse_lost(found)


def _write(path: Path, k: int, chunk: Array, first: int) -> tuple[int, Array] | None:
    """Write some rows of state k, and say which is the first that no law can hear."""
    # Zarr would copy a part that has another shape than a chunk, and look whether it need be written at all: together
    # that takes as long as writing.
    array = zarr_library().open_array(path, mode="r+")
    if hasattr(array, "with_config"):  # since Zarr 3.1.6
        array = array.with_config({"write_empty_chunks": True})
    array[k : k + 1, first : first + len(chunk)] = chunk[None]
    return first_lost(chunk, first)


def _written(path: Path, chunk: Array, block_info: Any = None) -> Array:
    """Write some rows of the start, and return them."""
    _write(path, 0, chunk, block_info[0]["array-location"][0][0])
    return chunk


def first_lost(chunk: Array, first: int) -> tuple[int, Array] | None:
    """Return the number and the coordinates of the first token of a chunk that no law can hear, if there is one.

    It is not finite, or so large that scores leave float64.
    """
    if chunk.min() >= -LARGEST_CLOUD and chunk.max() <= LARGEST_CLOUD:  # neither if one is NaN
        return None
    lost = int((~(np.abs(chunk) <= LARGEST_CLOUD)).any(axis=1).argmax())
    return first + lost, chunk[lost]


def refuse_lost(found: Iterable[tuple[int, Array] | None]) -> None:
    """Raise LostError if some chunk has a token that no law can hear."""
    for lost in found:
        if lost is not None:
            raise LostError(*lost)


def _recorded(path: Path, tokens: Any, times: NDArray[Any], start: int = 0) -> Any:
    """Return the states at these times, which are the records from `start` on, as a Dask array."""
    return _on_disk(tokens, len(times), partial(_read, path, ASIDE, start, times))


def _on_disk(tokens: Any, count: int, read: Any) -> Any:
    """Return a Dask array of `count` states in the chunks of an array on disk."""
    lazy = dask_array()
    chunks = lazy.core.normalize_chunks(tokens.chunks, shape=(count, *tokens.shape[1:]))
    # The same place may hold another state later, which Dask must not take for this one.
    name = f"tokens-{secrets.token_hex(8)}"
    return lazy.map_blocks(read, dtype=np.float64, chunks=chunks, meta=np.empty((0, 0, 0)), name=name)


def _read(path: Path, name: str, start: int, times: NDArray[Any] | None, block_info: Any = None) -> Array:
    """Return one chunk of an array on disk, refusing gaps, damage, and records that have been replaced."""
    (a, b), (first, last), _ = block_info[None]["array-location"]
    wanted, zarr = slice(start + a, start + b), zarr_library()
    damaged = f"{path} is damaged: tokens {first} to {last - 1} cannot be read; use another copy, or run again"
    try:
        there = None if times is None else zarr.open_array(path / "time", mode="r")[wanted].tolist()
        data: Array = zarr.open_array(path / name, mode="r")[wanted, first:last]
    except Exception:
        raise InputError(damaged) from None
    if times is not None and there != times[a:b].tolist():
        raise InputError(f"the run in {path} has gone on since it was read: read it again with attnflow.load")
    if np.isnan(data).any():  # what is missing
        raise InputError(damaged)
    return data


def too_large(path: Path) -> bool:
    """Say whether a run is read as Dask arrays: that of one, and one that fills more than half of the memory."""
    group = opened(path, "r")
    if group.attrs["attnflow"]["run"].get("arrays") == "dask":
        return True
    return bool(group["tokens"].nbytes > physical_memory() / 2)


def physical_memory() -> float:
    """Return the bytes of memory that this machine has, infinity where it does not say."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else np.inf


def read_chunks(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the times and tokens of a store, tokens as a Dask array, and what it says of itself."""
    path = path.absolute()
    group = opened(path, "r")
    about = group.attrs["attnflow"]
    saved = None if "results" in about else checkpoint_of(path)
    written = None if "results" in about else 0 if saved is None else int(saved["written"])
    times = read_array(path, group["time"], 0, written)
    data = {"time": times, "tokens": _recorded(path, group["tokens"], times)}
    if saved is not None and len(saved["times"]):
        data["time"] = np.concatenate([times, saved["times"]])
        data["tokens"] = dask_array().concatenate([data["tokens"], saved["tokens"]])
    if "masses" in group:
        data["masses"] = read_array(path, group["masses"])
    return data, about
