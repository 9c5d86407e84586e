"""A run as a stream of answers: what starts, its frames while they are computed, how it ended, what it measures."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow.core.inputs import Array, InputError
from attnflow.explorer.overlays import OVERLAYS, overlays_of
from attnflow.explorer.protocol import Answer, RunFrames, Session
from attnflow.explorer.state import MANY, SECONDS, State, arguments, read
from attnflow.explorer.state_text import command, python
from attnflow.figures.dashboard import MEASURED
from attnflow.figures.groups import close
from attnflow.measure import clusters
from attnflow.motions import Stretch
from attnflow.runs import watch
from attnflow.runs.recording import Every, Recorder
from attnflow.runs.simulate import simulate
from attnflow.runs.trajectory import Trajectory

# A frame waits at most FLUSH seconds for others to be sent with it, in messages of at most about CHUNK bytes.
FLUSH = 0.03
CHUNK = 1 << 20
# Measurements over time are taken at no more than MOST_MEASURED frames, and for no more than MEASURING seconds.
MOST_MEASURED, MEASURING = 120, 4.0
# Squares of larger coordinates leave float64.
LARGEST_MEASURED = 1e150
# The names of the measurements on the page, for those of the dashboard.
SERIES = {"clusters": "clusters", "rank": "rank of attention", "diameter": "diameter", "energy": "interaction energy"}
# What a page is drawn from between the first and the last state is sent as frames; the run itself need not keep it.
ENDS = Every(1 << 62)


@dataclass
class Until(watch.Watcher):
    """Stop a run when nobody waits for it any more."""

    unwanted: Callable[[], bool]

    def stop(self, stretch: Stretch) -> tuple[int, str] | None:
        return (len(stretch.times), "a newer run took its place") if self.unwanted() else None


def no_frames_yet(run: int, state: State) -> RunFrames:
    """Return the place for the frames of a run; moves of a chain, which nobody can count beforehand, are thinned."""
    return RunFrames(run, state, state.most_frames if state.record is None else None, state.precision)


def simulate_into(kept: RunFrames, stop: Callable[[], bool]) -> Trajectory:
    """Simulate, and keep the frames; return the run, of which only the first and last state are kept."""
    given = arguments(kept.state)
    recorder = Recorder(given.pop("record"), kept)
    run = simulate(**given, record=ENDS, watch=[watch.WallClock(SECONDS), Until(stop), recorder])
    kept.close()
    return run


class Simulation(threading.Thread):
    """A simulation in a thread of its own, until it ends or is abandoned."""

    def __init__(self, kept: RunFrames, stop: Callable[[], bool]) -> None:
        super().__init__(daemon=True)
        self.kept, self.abandoned = kept, threading.Event()
        self.stop_asked = lambda: stop() or self.abandoned.is_set()
        self.result: Trajectory | BaseException | None = None

    def run(self) -> None:
        """Simulate, and keep what was raised."""
        try:
            self.result = simulate_into(self.kept, self.stop_asked)
        except BaseException as error:
            self.result = error

    def finished(self) -> Trajectory:
        """Return the run, or raise what it raised."""
        self.join()
        assert self.result is not None
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


def run(message: dict[str, Any], session: Session, stop: Callable[[], bool]) -> Iterator[Answer]:
    """Yield the answers to "run": start, the overlays of frame 0, frames as they come, end, series.

    `stop` is asked between the steps of the run and between answers; nothing comes after it has said yes.
    """
    id, want, state = message["id"], wanted(message), read(message.get("state"))
    session.last = kept = no_frames_yet(id, state)
    simulation = Simulation(kept, stop)
    simulation.start()
    try:
        yield _start(id, state)
        yield _overlays(id, kept, 0, state.tokens, 0, want)
        yield from _frames(kept, simulation, stop)
        run = simulation.finished()
        if stop():
            return
        about = {"frames": len(kept.times), "stopped": run.stopped, "engine": run.report["engine"]}
        yield {"kind": "end", "id": id, **about, "ends_with": ends_with(run.final, state.tokens)}
        measured = series(kept, run, stop)
        if not stop():
            yield {"kind": "series", "id": id, **measured}
    finally:
        # Whatever happened here, no computation is left behind.
        simulation.abandoned.set()
        simulation.join()


def ends_with(x: Array, start: Array) -> list[int] | None:
    """Return for each token the first one that it ends with, -1 if it ends alone; None if all do, or none was found.

    Many tokens are not coloured, so that nobody asks.

    >>> ends_with(np.array([[0.0], [1.0], [1.0], [5.0]]), np.arange(4.0)[:, None])
    [-1, 1, 1, -1]
    """
    if len(x) > MANY:
        return None
    try:
        labels = clusters(x, close(start, x)).labels
    except InputError:
        return None
    _, first, group, count = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    return np.where(count > 1, first, -1)[group].tolist() if count.max() > 1 else None


def _start(id: int, state: State) -> Answer:
    n, d = state.tokens.shape
    what = {"law": repr(state.law), "motion": repr(state.motion), "until": float(state.until)}
    start = {"kind": "start", "id": id, "n": n, "d": d, "discrete": state.motion.discrete, **what}
    if n > MANY:
        tokens = state.tokens.astype(state.precision)
        return {**start, "count": 1, "type": tokens.dtype.name}, tokens
    return {**start, "tokens": state.tokens.tolist()}


def _overlays(id: int, kept: RunFrames, frame: int, x: Array, t: Any, want: Sequence[str]) -> Answer:
    return {"id": id, "run": kept.run, "frame": frame, **overlays_of(x, t, kept.state, want)}


def _answer_overlays(message: dict[str, Any], session: Session) -> Iterator[Answer]:
    """Yield the overlays of a frame of the run that is here."""
    run, frame, want = _whole(message, "run"), _whole(message, "frame"), wanted(message)
    kept = session.of(run)
    t, x = kept.frame(frame)
    yield _overlays(message["id"], kept, frame, x, t, want)


def _text(message: dict[str, Any]) -> Iterator[Answer]:
    """Yield the run as a script and as a command."""
    state = read(message.get("state"))
    yield {"kind": "text", "id": message["id"], "python": python(state), "command": command(state)}


def _whole(message: dict[str, Any], name: str) -> int:
    value = message.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"{name} is {value!r:.40}, expected a whole number")
    return value


def wanted(message: dict[str, Any]) -> list[str]:
    """Return what the page wants to see of a frame."""
    want = message.get("want", [])
    if not isinstance(want, list) or not all(isinstance(name, str) and name in OVERLAYS for name in want):
        raise InputError(f"want is not a list of overlays: give some of {', '.join(OVERLAYS)}")
    return list(dict.fromkeys(want))


def _frames(kept: RunFrames, simulation: Simulation, stop: Callable[[], bool]) -> Iterator[Answer]:
    """Yield frames in messages of one or more until all are sent, or nobody wants them any more."""
    (n, d), type = kept.state.tokens.shape, np.dtype(kept.state.precision)
    sent, most, streaming = 0, max(1, CHUNK // (type.itemsize * n * d)), kept.most is None
    while not stop():
        going = simulation.is_alive()
        there = len(kept.times) if streaming or not going else 0
        if there == sent and not going:
            return
        for first in range(sent, there, most):
            if stop():
                return
            last = min(first + most, there)
            times = [float(t) for t in kept.times[first:last]]
            about = {"kind": "frames", "id": kept.run, "first": first, "count": last - first, "n": n, "d": d}
            yield {**about, "type": type.name, "times": times}, np.stack(kept.frames[first:last])
        sent = there
        if going:
            simulation.join(FLUSH)


def series(kept: RunFrames, run: Trajectory, stop: Callable[[], bool] = lambda: False) -> dict[str, Any]:
    """Return measurements of a run at some of its frames, as on the dashboard; null for what has none, with a note.

    The coarse picture comes first: when time is up, frames are missing everywhere alike.
    """
    if not np.abs(run.final).max() < LARGEST_MEASURED:
        note = f"nothing is measured, since tokens become too large: {run.stopped}"
        return {"frames": [], **dict.fromkeys(SERIES), "note": note}
    count = len(kept.times)
    chosen = np.unique(np.linspace(0, count - 1, min(count, MOST_MEASURED)).round().astype(int)).tolist()
    deadline = time.monotonic() + MEASURING
    notes: dict[str, None] = {}
    measures = {name: next(m.of for m in MEASURED if m.title == title) for name, title in SERIES.items()}
    found: dict[int, dict[str, float]] = {}
    for k in _coarse_to_fine(chosen):
        if stop() or (time.monotonic() > deadline and len(found) > 1):
            break
        t, x = kept.frame(k)
        found[k] = {}
        for name, of in list(measures.items()):
            try:
                found[k][name] = of(run, x, t)
            except (InputError, np.linalg.LinAlgError) as reason:
                # The dashboard speaks TeX.
                said = str(reason).replace(r"$\beta\neq0$", "beta different from 0")
                notes[f"no {name}: {said}"] = None
                del measures[name]
    frames = sorted(found)
    values = {name: [found[k][name] for k in frames] if name in measures else None for name in SERIES}
    return {"frames": frames, **values, "note": "; ".join(notes) or None}


def _coarse_to_fine(items: Sequence[int]) -> list[int]:
    """Return the items in an order in which every beginning is spread evenly: ends first, then halves, quarters...

    >>> _coarse_to_fine(range(9))
    [0, 8, 4, 2, 6, 1, 3, 5, 7]
    """
    last = len(items) - 1
    order = sorted(range(1, last), key=lambda k: (-(k & -k), k))
    return [items[k] for k in dict.fromkeys([0, last, *order])]


ANSWERS = {
    "run": lambda message, done, session, stop: run(message, session, stop),
    "overlays": lambda message, done, session, stop: _answer_overlays(message, session),
    "text": lambda message, done, session, stop: _text(message),
}
