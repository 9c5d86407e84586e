"""The loop for Dask arrays: layer after layer, chunk by chunk, on the scheduler that Dask has.

It is the loop of `simulate` without watchers, which look at NumPy arrays between the steps. A step asks the law what
tokens hear, which takes passes over all chunks; then each chunk moves by itself. The first of these passes also checks
the tokens that were given, and those of a store are also told from others by it. A worker holds a few chunks for each
of its threads, and the sums of the law. With a store nothing else is in memory; without one, all recorded states are,
and the newest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core import progress
from attnflow.core.dask_arrays import chunked_cloud, dask_array
from attnflow.core.inputs import SAMPLE, Array, InputError, location
from attnflow.laws import Heard, Hearing, Law, check_law
from attnflow.laws.chunks import Chunks, along, check_rows, check_size, computed, done
from attnflow.motions import Motion, check_motion
from attnflow.motions.motion import end_of, lost
from attnflow.runs.chunk_store import ChunkStore, LostError, first_lost, refuse_lost
from attnflow.runs.recording import Record, Recorder, Recording, rule
from attnflow.runs.trajectory import Trajectory
from attnflow.runs.watch import Checkpoint, Progress, Start, Watcher
from attnflow.serialise import brief, check_layers, describe, varying

# This many numbers are looked at at a time, which fit in the cache.
MIXED = 1 << 14


def simulate_chunks(
    tokens: Any,
    law: Law,
    motion: Motion,
    until: float,
    record: Record,
    watch: Sequence[Watcher],
    store: str | Path | None,
    others: dict[str, Any],
) -> Trajectory:
    """Do the work of `simulate` for a Dask array; `others` are its other arguments, None where they were not given."""
    _check(law, motion, watch, others)
    end, path = int(end_of(until, motion)), None if store is None else location(store, "store")
    check_layers(law, motion, end)
    if path is not None and not all(map(is_dataclass, (law, motion))):
        raise InputError("a store must be able to tell runs apart: make your law and motion dataclasses")
    at_once = any(isinstance(watcher, Progress) for watcher in watch)
    with progress.task("simulate: step", end, at_once=at_once) as work:
        work.reach(0, part=0.0)
        return _simulated(chunked_cloud(tokens), law, motion, end, record, path, work)


def _simulated(
    tokens: Any, law: Law, motion: Motion, until: int, record: Record, path: Path | None, work: progress.Task
) -> Trajectory:
    x, heard = _each_row(partial(_prepared, motion, law), tokens), None
    if path is not None:
        x = x.rechunk((max(x.chunks[0]), -1))  # Zarr has chunks of one size
    with along(Chunks(x).each(partial(_look, path is not None))) as looked:
        # What the law refuses leaves no store behind.
        if path is not None and not path.exists():
            heard = law.attend(x, 0)
    about = {
        "law": describe(law), "motion": describe(motion), "until": until, "seed": None, "engine": "auto",
        "record": repr(rule(record)), "tokens": _identity(x, looked), "arrays": "dask",
        "functions of time": varying(law, 0) + varying(motion, 0),
    }  # fmt: skip
    recording: _Kept | ChunkStore = _Kept()
    if path is not None:
        recording = ChunkStore.open_or_create(path, about, x, None)
        x = x.rechunk((recording.tokens.chunks[1], -1))  # an interrupted run goes on in chunks of its own
    try:
        results = recording.finished
        if results is None:
            results = _run((x, heard), law, motion, until, Recorder(record, recording), work)
            recording.finish(**results)
        times, states = recording.arrays()
    finally:
        recording.close()
    return Trajectory(times, states, law=law, motion=motion, masses=None, about=about, **results)


def _run(
    start: tuple[Any, Any], law: Law, motion: Motion, until: int, recorder: Recorder, work: progress.Task
) -> dict[str, Any]:
    """The loop, from the start or from the last whole step; return how it ended. What is heard first may be known."""
    (x, heard), t, recording, stopped = start, 0, recorder.recording, f"reached step {until}, as asked"
    assert isinstance(recording, _Kept | ChunkStore)
    if (saved := recording.resume()) is not None:
        t, x, _, notes = saved
        heard = None
        recorder.resume(notes["recorder"])
        if notes["varying"] != varying(law, t) + varying(motion, t):
            raise InputError("a function of time differs from that of the stored run: give the same, or a new store")
    recorder.begin(Start(t, x, until, True, x))
    while True:
        x = recording.held(t, x)
        recorder.newest = t, x
        recording.mark({"recorder": recorder.state(), "varying": varying(law, t) + varying(motion, t)})
        if t >= until:
            break
        work.reach(t, part=0.0)
        if t or heard is None:
            heard = law.attend(x, t)
        moved = _each_row(partial(_stepped, motion, t), recording.leaving(x), heard)
        try:
            recorder.take(t, np.array([t + 1]), [moved])
            t, x = t + 1, recording.held(t + 1, moved)
        except LostError as error:
            recorder.newest = t, x
            stopped = lost(f"token {error.token}", motion, law, error.coordinates, f"step {t + 1}")
            break
    recorder.end()
    return {"stopped": stopped, "report": {"arrays": "dask", "chunks": len(x.chunks[0])}}


def _check(law: Law, motion: Motion, watch: Sequence[Watcher], others: dict[str, Any]) -> None:
    check_law(law)
    check_motion(motion)
    for name, value in others.items():
        if value is not None:
            raise InputError(f"tokens in Dask take no {name}: leave it out, or {SAMPLE}")
    if not isinstance(watch, list | tuple) or not all(isinstance(one, Progress | Checkpoint) for one in watch):
        raise InputError(
            "watchers look at tokens in memory, but these are in Dask: leave watch out, and measure the run at its end"
        )
    if not motion.by_rows:
        sphere = 'SphereLayers(norm="post")' if getattr(motion, "keeps_radii", False) else "SphereLayers"
        raise InputError(
            f"{brief(motion)} moves tokens in memory, not those in Dask: use Layers, Residual or {sphere}, or {SAMPLE}"
        )


class _Kept(Recording):
    """Records that stay in the memory of the workers."""

    finished: dict[str, Any] | None = None

    def __init__(self) -> None:
        self.times: list[int] = []
        self.states: list[Any] = []
        self.newest: tuple[int, Any] | None = None

    def append(self, times: NDArray[Any], tokens: Any) -> None:
        for t, x in zip(times.tolist(), tokens, strict=True):
            self.states.append(self.held(t, x))
            self.times.append(t)

    def held(self, t: int, x: Any) -> Any:
        """Return the state at time t as it is in memory."""
        if self.newest is None or self.newest[0] != t:
            (kept,) = done([x])
            refuse_lost(computed(Chunks(kept).each(first_lost)))
            self.newest = t, kept
        return self.newest[1]

    def leaving(self, x: Any) -> Any:
        """Return the newest state as the next one must be computed from it."""
        return x

    def mark(self, notes: dict[str, Any]) -> None:
        """Nothing of it outlives the process."""

    def arrays(self) -> tuple[NDArray[Any], Any]:
        """Return the times and the tokens (T, n, d)."""
        return np.array(self.times), dask_array().stack(self.states)


def _each_row(function: Any, *arrays: Any) -> Any:
    """Return a Dask array with the chunks of others, each from theirs."""
    located = partial(_located, function)
    return dask_array().map_blocks(located, *arrays, dtype=np.float64, meta=np.empty((0, 0)))


def _located(function: Any, *chunks: Array, block_info: Any = None) -> Array:
    """Call a function of some rows, and say in what it refuses which rows these were."""
    try:
        result: Array = function(*chunks)
    except InputError as error:
        first = block_info[0]["array-location"][0][0]
        raise InputError(
            f"{error} (in a chunk whose tokens are counted from {first})" if first else str(error)
        ) from None
    return result


def _prepared(motion: Motion, law: Law, x: Array) -> Array:
    return motion.prepare(x, Hearing(law))


def _stepped(motion: Any, t: int, x: Array, mean: Array) -> Array:
    """Return some rows of the next state from those of this one and of what they hear."""
    with np.errstate(over="ignore", invalid="ignore"):
        return motion.step(lambda *_: Heard(mean, None), x, t)


def _identity(x: Any, looked: Sequence[tuple[float, int | None]]) -> str | None:
    """Check the sizes found in chunks, as `cloud` does; return what tells the tokens from others, if it is known."""
    check_size(max(size for size, _ in looked))
    mixed = [bits for _, bits in looked if bits is not None]
    return f"{x.shape} {sum(mixed) % 2**64:016x}" if mixed else None


def _look(fingerprint: bool, chunk: Array, first: int) -> tuple[float, int | None]:
    """Check some rows; return their largest coordinate, and the sum of their mixed bits, if it is wanted."""
    largest = float(max(-chunk.min(), chunk.max()))
    if not np.isfinite(largest):
        check_rows(chunk, first)
    return largest, _fingerprint(chunk, first * chunk.shape[1]) if fingerprint else None


def _fingerprint(chunk: Array, first: int) -> int:
    """Return a sum over all numbers, modulo 2^64, of their bits times a factor of their place: the same for all chunks.

    Factors are odd, so that no number can change alone; `first` is the place of the first number.

    >>> x = np.arange(6.0).reshape(3, 2)
    >>> (_fingerprint(x[:1], 0) + _fingerprint(x[1:], 2)) % 2**64 == _fingerprint(x, 0) != _fingerprint(x[::-1], 0)
    True
    """
    bits, total, position = np.ascontiguousarray(chunk).view(np.uint64).ravel(), 0, first
    folded = np.empty(MIXED, dtype=np.uint64)
    while len(bits):
        block, k = divmod(position, MIXED)
        some, bits = bits[: MIXED - k], bits[MIXED - k :]
        # The bits that round numbers differ in come down to where no product loses them.
        mixed = np.right_shift(some, np.uint64(32), out=folded[: len(some)])
        mixed ^= some
        mixed *= _factors()[k : k + len(some)]
        total += int(mixed.sum()) * int(_mixed(np.array([block], dtype=np.uint64))[0] | np.uint64(1))
        position += len(some)
    return total % 2**64


@cache
def _factors() -> NDArray[np.uint64]:
    """Return odd numbers, by which the bits of MIXED numbers in a row are multiplied."""
    return _mixed(np.arange(1, MIXED + 1, dtype=np.uint64)) | np.uint64(1)


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64 bits that depend on all 64 given, as in the generator SplitMix64 of Steele, Lea and Flood (2014)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
