"""Runs on disk: a Zarr store that grows while the run goes on and survives its death.

A store holds ``time`` (T,), ``tokens`` (T, n, d) and, if given, ``masses`` (n,), with named dimensions, and says of
itself what was run. Only whole chunks are written while the run goes on, each in one atomic replacement; everything
since the last whole chunk, and all that the next step depends on, is in ``tokens/checkpoint.npz``, replaced atomically
too. It is in the folder of an array, where Zarr looks for chunks alone: in that of a group it warns of other files.
A finished run keeps the checkpoint from before its last stretch, the first that the end of the run could shape: from
there it can be extended, bit for bit as if the end had been later from the beginning. Until the extended run has passed
the old end, it is kept in memory and the finished run stays on disk.
"""

from __future__ import annotations

import io
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from attnflow.catalogue import same_class
from attnflow.core.inputs import Array, InputError
from attnflow.runs.files import FILES, appears_whole
from attnflow.runs.lock import LOCK, Lock
from attnflow.runs.recording import Recording
from attnflow.serialise import versions

FORMAT = 1
CHUNK_BYTES = 1 << 22
CHUNK_RECORDS = 4096
# Whatever is no part of the Zarr group is in this folder.
ASIDE = "tokens"
CHECKPOINT = f"{ASIDE}/checkpoint.npz"
# Earlier versions had it here.
OLD_CHECKPOINT = "checkpoint.npz"

# Plain data, or the numbers of a stepper.
State = dict[str, Any]


def zarr_library() -> Any:
    """Return Zarr, or say how to install it."""
    try:
        import zarr
    except ImportError:
        raise InputError("storing runs needs Zarr: pip install 'attnflow[store]'") from None
    return zarr


class Store(Recording):
    """A run on disk, open for recording."""

    # How hard the compression of tokens tries.
    level: int | None = 1

    def __init__(self, path: Path, group: Any) -> None:
        self.path, self.group = path, group
        self.time, self.tokens = group["time"], group["tokens"]
        self.chunk = int(self.tokens.chunks[0])
        self.pending: list[tuple[NDArray[Any], Array]] = []
        self.written = int(self.time.shape[0])
        self.before_last: Callable[[], None] | None = None
        # While a finished run is extended: its last time, and its new end. Until the extended run has passed that time
        # nothing is written, so that whatever happens the finished run stays as it was.
        self.extending: tuple[float, float] | None = None
        self.lock: Lock | None = None

    @staticmethod
    def chunks(x: Array) -> tuple[int, ...]:
        """Return the shape of a chunk of tokens (T, n, d) for states like x."""
        return int(np.clip(CHUNK_BYTES // x.nbytes, 1, CHUNK_RECORDS)), *x.shape

    @classmethod
    def create(cls, path: Path, about: dict[str, Any], x: Array, masses: Array | None) -> Self:
        """Make an empty store; it appears under its name only when it is whole."""
        zarr, chunks = zarr_library(), cls.chunks(x)
        times = np.empty(0, np.int64 if isinstance(about["until"], int) else np.float64)
        with appears_whole(path, "made") as building:
            mine = {"attnflow": {"format": FORMAT, "run": about, "versions": versions()}}
            group = zarr.create_group(building, attributes=mine)
            new_array(group, "time", times, chunks[:1], ["time"])
            new_array(group, "tokens", np.empty((0, *x.shape)), chunks, ["time", "token", "coordinate"], cls.level)
            if masses is not None:
                new_array(group, "masses", masses, masses.shape, ["token"])
                group["masses"][:] = masses
        return cls(path, _opened(path, "r+"))

    @classmethod
    def open_or_create(cls, path: Path, about: dict[str, Any], x: Array, masses: Array | None) -> Self:
        """Open the store of this very run, or make it if nothing is there."""
        if path.suffix in FILES:
            raise InputError(f"store is {path}, but a store is a folder: give a name such as run.zarr, and save after")
        try:
            if not os.path.exists(path):  # false for a name that is too long for the disk, which is refused then
                cls.create(path, about, x, masses)
        except InputError:
            # Another run may have made the store at the same moment: the lock decides which of the two writes.
            if not os.path.exists(path):
                raise
        store = cls._of(path, about)
        if store.finished is not None and store.about["run"]["until"] == about["until"]:
            return store
        lock = _locked(path)
        try:
            # Another run may have written here until now.
            store = cls._of(path, about)
            if store.about["run"]["until"] < about["until"]:
                store.extend(about["until"])
        except BaseException:
            lock.release()
            raise
        store.lock = lock
        return store

    @classmethod
    def _of(cls, path: Path, about: dict[str, Any]) -> Self:
        """Open the store of this very run, which may end earlier."""
        store = cls(path, opened(path, "r+"))
        theirs, ours = _given(store.about["run"]), _given(json.loads(json.dumps(about)))
        different = [name for name in about if name != "until" and not _same(theirs.get(name), ours.get(name))]
        if different:
            raise InputError(f"{path} holds another run (compare {different[0]}): choose another store")
        if theirs["until"] > ours["until"]:
            raise InputError(
                f"{path} holds this run until {theirs['until']:g}, and until is {ours['until']:g}: give the same or a "
                "later one, or another store; attnflow.load reads what is there"
            )
        return store

    def extend(self, until: float) -> None:
        """Let the run end later; it goes on from its checkpoint, from before it had to do with its end."""
        if self.finished is not None and _place(self.path) is None:
            raise InputError(
                f"{self.path} has no checkpoint to go on from (it was written by save, or by an earlier version): give "
                "another store"
            )
        if self.finished is None:
            self.annotate(run={**self.about["run"], "until": until})
        else:
            self.extending = (self.time[-1].item(), until)

    def _replace(self) -> None:
        """Put what the extended run has recorded since its checkpoint in the place of how the finished run ended."""
        assert self.extending is not None
        until, self.extending = self.extending[1], None
        self.annotate(results=None, run={**self.about["run"], "until": until})
        self.checkpoint()
        self._forget()
        records, self.pending = self._joined(self.pending), []
        self.append(*records)

    def _forget(self) -> None:
        """Remove from disk what is not counted as written."""
        for array in (self.time, self.tokens):
            array.resize((self.written, *array.shape[1:]))

    def close(self) -> None:
        if self.lock is not None:
            self.lock.release()

    @property
    def about(self) -> dict[str, Any]:
        """What the store says of itself."""
        about: dict[str, Any] = self.group.attrs["attnflow"]
        return about

    @property
    def finished(self) -> dict[str, Any] | None:
        """The results of the run, if it is finished and not being extended."""
        return self.about.get("results") if self.extending is None else None

    def append(self, times: NDArray[Any], tokens: Array) -> None:
        """Add records; whole chunks go to disk."""
        if self.extending is not None:
            self.pending.append((times.copy(), tokens.copy()))
            return
        while len(times):
            waiting = sum(len(t) for t, _ in self.pending)
            taken = min(self.chunk - waiting, len(times))
            self.pending.append((times[:taken].copy(), tokens[:taken].copy()))
            times, tokens = times[taken:], tokens[taken:]
            if waiting + taken == self.chunk:
                self._write()

    def _joined(self, records: list[tuple[NDArray[Any], Array]]) -> tuple[NDArray[Any], Array]:
        none = np.empty(0, self.time.dtype), np.empty((0, *self.tokens.shape[1:]))
        times, tokens = zip(none, *records, strict=True)
        return np.concatenate(times), np.concatenate(tokens)

    def _write(self) -> None:
        times, tokens = self._joined(self.pending)
        start, end = self.written, self.written + len(times)
        for array, data in ((self.time, times), (self.tokens, tokens)):
            array.resize((end, *array.shape[1:]))
            array[start:end] = data
        self.pending, self.written = [], end

    def remember(self, t: float, x: Array, state: Callable[[], State], notes: Callable[[], State]) -> None:
        """Keep in mind all that is needed to go on from here: the stepper's numbers, and notes of plain data."""
        known, written, pending = state(), self.written, list(self.pending)
        self.before_last = lambda: self._save(t, x, known, notes(), written, pending)
        if self.extending is not None and t >= self.extending[0]:
            self._replace()

    def checkpoint(self) -> None:
        if self.before_last is not None and self.extending is None:
            self.before_last()

    def _save(
        self, t: float, x: Array, state: State, notes: State, written: int, pending: list[tuple[NDArray[Any], Array]]
    ) -> None:
        times, tokens = self._joined(pending)
        memory = io.BytesIO()
        np.savez(
            memory, t=t, x=x, written=written, times=times, tokens=tokens, notes=json.dumps(notes),
            **{f"state:{name}": value for name, value in state.items()},
        )  # fmt: skip
        place = self.path / CHECKPOINT
        temporary = place.with_name(f".{place.name}")
        temporary.write_bytes(memory.getvalue())
        os.replace(temporary, place)
        (self.path / OLD_CHECKPOINT).unlink(missing_ok=True)

    def resume(self) -> tuple[Any, Array, dict[str, Any], dict[str, Any]] | None:
        """Return (t, x, state, notes) of the last checkpoint and forget what came after it; None to start anew."""
        saved = checkpoint_of(self.path)
        self.written = 0 if saved is None else int(saved["written"])
        if self.extending is None:
            self._forget()
        if saved is None:
            return None
        self.append(saved["times"], saved["tokens"])
        state = {name.removeprefix("state:"): saved[name] for name in saved if name.startswith("state:")}
        return saved["t"].item(), saved["x"], state, json.loads(str(saved["notes"]))

    def finish(self, **results: Any) -> None:
        """Write what is left, how the run ended, and from where it could go on if its end were later."""
        if self.extending is not None:
            self._replace()
        else:
            self.checkpoint()
        if self.pending:
            self._write()
        self.annotate(results=results)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Zarr warns that this convenience for xarray is not in its standard yet
            zarr_library().consolidate_metadata(self.path)

    def annotate(self, **entries: Any) -> None:
        """Change what the store says of itself, in one atomic replacement; None takes an entry away."""
        self.group = _opened(self.path, "r+")
        said = {**self.about, **entries}
        self.group.attrs["attnflow"] = {name: value for name, value in said.items() if value is not None}

    def arrays(self) -> tuple[NDArray[Any], Callable[[], Array]]:
        """Return the times, and how to read the tokens: from disk, but for those that an extension would replace."""
        try:
            saved = checkpoint_of(self.path)
        except InputError:
            saved = None
        # Without a checkpoint, or with a damaged one, the run cannot be extended.
        fixed = self.time.shape[0] if saved is None else int(saved["written"])
        times, last = read_array(self.path, self.time), read_array(self.path, self.tokens, fixed)
        return times, lambda: np.concatenate([read_array(self.path, self.tokens, 0, fixed), last])


def new_array(
    group: Any, name: str, like: NDArray[Any], chunks: tuple[int, ...], names: list[str], level: int | None = 1
) -> None:
    """Make an array of the shape and type of another; what is missing in it is NaN, or -1 among whole numbers.

    Its chunks have checksums; they are compressed unless `level` is None.
    """
    codecs, fill = zarr_library().codecs, -1 if like.dtype == np.int64 else np.nan
    group.create_array(
        name, shape=like.shape, chunks=chunks, dtype=like.dtype, fill_value=fill, dimension_names=names,
        compressors=[*([] if level is None else [codecs.ZstdCodec(level=level)]), codecs.Crc32cCodec()],
    )  # fmt: skip


def same_run(theirs: Any, ours: Any) -> bool:
    """Say whether the stored description of a law or a motion is that of another, as far as it tells."""
    return _same(_given(theirs), _given(json.loads(json.dumps(ours))))


def _given(description: Any) -> Any:
    """Return the entries of a description that are not None: earlier versions knew fewer parameters."""
    if isinstance(description, list):
        return [_given(part) for part in description]
    if isinstance(description, dict):
        return {name: _given(part) for name, part in description.items() if part is not None}
    return description


def _same(theirs: Any, ours: Any) -> bool:
    """Say whether two descriptions are equal, up to how the classes in them are named."""
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(theirs) == len(ours) and all(map(_same, theirs, ours))
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return bool(theirs == ours)
    one, other = theirs.get("name"), ours.get("name")
    named = isinstance(one, str) and isinstance(other, str) and same_class(one, other)
    return theirs.keys() == ours.keys() and all(
        (key == "name" and named) or _same(theirs[key], ours[key]) for key in theirs
    )


def _locked(path: Path) -> Lock:
    """Return the right to write to a store, which earlier versions gave by a file beside the arrays."""
    lock = Lock(path, ASIDE)
    try:
        if (path / LOCK).exists():
            Lock(path).release()
            (path / LOCK).unlink(missing_ok=True)
    except BaseException:
        lock.release()
        raise
    return lock


def _place(path: Path) -> Path | None:
    """Return where the checkpoint of a store is, if it has one."""
    return next((path / name for name in (CHECKPOINT, OLD_CHECKPOINT) if (path / name).exists()), None)


def checkpoint_of(path: Path) -> dict[str, NDArray[Any]] | None:
    place = _place(path)
    if place is None:
        return None
    try:
        with np.load(place, allow_pickle=False) as saved:
            return dict(saved)
    except Exception as error:
        raise InputError(f"the checkpoint in {path} cannot be read ({error}): remove {path} and start anew") from None


def _opened(path: Path, mode: str) -> Any:
    """Open a group as its parts say it is: what is consolidated at the end of a run is old when the run goes on."""
    return zarr_library().open_group(path, mode=mode, use_consolidated=False)


def opened(path: Path, mode: str) -> Any:
    """Open one of our stores, or say what it is instead."""
    zarr_library()
    if not path.exists():
        raise InputError(f"{path} does not exist: give the path of a saved run")
    try:
        group = _opened(path, mode)
        about = group.attrs.get("attnflow")
        ours = isinstance(about, dict) and "run" in about
        shapes = (group["time"].shape, group["tokens"].shape) if ours else None
    except Exception:
        raise InputError(f"{path} is not a whole Zarr store: give the path of a run saved by attnflow") from None
    if not ours or shapes is None:
        raise InputError(
            f"{path} is a Zarr store that attnflow did not write: give the path of a run saved by attnflow"
        )
    if about["format"] != FORMAT:
        raise InputError(
            f"{path} has format {about['format']}, this version reads {FORMAT}: use the version that wrote it"
        )
    if "results" in about and shapes[0][0] != shapes[1][0]:
        raise InputError(
            f"{path} is damaged: its times and tokens have different lengths; use another copy, or run again"
        )
    return group


def read_array(path: Path, array: Any, start: int = 0, stop: int | None = None) -> NDArray[Any]:
    """Read an array of a store, or some of its entries, refusing silent gaps and damaged chunks."""
    name, chunks = array.basename, array.nchunks if stop is None else -(-stop // array.chunks[0])
    if array.nchunks_initialized < chunks:
        raise InputError(f"{path} is damaged: parts of '{name}' are missing; use another copy, or run again")
    try:
        data: NDArray[Any] = array[start:stop]
    except Exception:
        raise InputError(f"{path} is damaged: '{name}' cannot be read; use another copy, or run again") from None
    return data


def read(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the times, tokens and masses of a store, and what it says of itself."""
    group = opened(path, "r")
    about = group.attrs["attnflow"]
    names = ["time", "tokens", *(["masses"] if "masses" in group else [])]
    saved = None if "results" in about else checkpoint_of(path)
    written = None if "results" in about else 0 if saved is None else int(saved["written"])
    data = {name: read_array(path, group[name], 0, None if name == "masses" else written) for name in names}
    if saved is not None:
        data["time"] = np.concatenate([data["time"], saved["times"]])
        data["tokens"] = np.concatenate([data["tokens"], saved["tokens"]])
    return data, about
