"""A run as a stream of answers: what starts, its frames while they are computed, how it ended, what it measures."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow.core.inputs import Array, InputError, number
from attnflow.explorer.attention_row import answer_row, whole_of
from attnflow.explorer.merged_dots import MergedDots
from attnflow.explorer.overlays import LEAST, OVERLAYS, overlays_of
from attnflow.explorer.protocol import Answer, RunFrames, Session
from attnflow.explorer.state import MANY, SECONDS, State, arguments, read
from attnflow.explorer.state_text import command, python, python_pair
from attnflow.explorer.turns import resting, taking, waited
from attnflow.figures.dashboard import MEASURED
from attnflow.figures.groups import COUNTED_ONE_BY_ONE
from attnflow.measure import clusters
from attnflow.motions import Stretch
from attnflow.runs import watch
from attnflow.runs.recording import Every, Recorder
from attnflow.runs.simulate import simulate
from attnflow.runs.trajectory import Trajectory

# A frame waits at most FLUSH seconds for others to be sent with it, in messages of at most about CHUNK bytes.
FLUSH = 0.03
CHUNK = 1 << 20
# A run without frames to send is reported on after this many seconds, and then each time after twice as long.
REPORTED = 1.0
# Measurements over time are taken at no more than MOST_MEASURED frames, and for no more than MEASURING seconds.
MOST_MEASURED, MEASURING = 120, 4.0
# Squares of larger coordinates leave float64.
LARGEST_MEASURED = 1e150
# The names of the measurements on the page, for those of the dashboard.
SERIES = {"clusters": "clusters", "rank": "rank of attention", "diameter": "diameter", "energy": "interaction energy"}
# What a page is drawn from between the first and the last state is sent as frames; the run itself need not keep it.
ENDS = Every(1 << 62)
FULL = "the memory for the frames of all pages is full: take fewer tokens, or a shorter run"


@dataclass
class Until(watch.Watcher):
    """Stop a run when nobody waits for it any more, or when there is no room for more of its frames."""

    unwanted: Callable[[], bool]
    full: Callable[[], bool] = lambda: False

    def stop(self, stretch: Stretch) -> tuple[int, str] | None:
        if self.unwanted():
            return len(stretch.times), "a newer run took its place"
        return (len(stretch.times), FULL) if self.full() else None


@dataclass
class Clock(watch.WallClock):
    """Stop a run after a number of seconds; seconds in which other pages computed are not counted."""

    waited: Callable[[], float] = lambda: 0.0

    def stop(self, stretch: Stretch) -> tuple[int, str] | None:
        """Stop if time is up."""
        return super().stop(stretch) if time.monotonic() >= self.deadline + self.waited() else None


def no_frames_yet(run: int, state: State) -> RunFrames:
    """Return the place for the frames of a run; moves of a chain, which nobody can count beforehand, are thinned."""
    return RunFrames(run, state, state.most_frames if state.record is None else None, state.precision)


def simulate_into(
    kept: RunFrames,
    stop: Callable[[], bool],
    full: Callable[[], bool] = lambda: False,
    waited: Callable[[], float] = lambda: 0.0,
) -> Trajectory:
    """Simulate, and keep the frames; return the run, of which only the first and last state are kept."""
    given = arguments(kept.state)
    recorder = Recorder(given.pop("record"), kept)
    run = simulate(**given, record=ENDS, watch=[Clock(SECONDS, waited), Until(stop, full), recorder])
    kept.close()
    return run


class Simulation(threading.Thread):
    """A simulation in a thread of its own, until it ends or is abandoned."""

    def __init__(self, kept: RunFrames, stop: Callable[[], bool], full: Callable[[], bool] = lambda: False) -> None:
        super().__init__(daemon=True)
        self.kept, self.stop, self.full, self.abandoned = kept, stop, full, threading.Event()
        self.stop_asked = lambda: stop() or self.abandoned.is_set()
        self.result: Trajectory | BaseException | None = None

    def run(self) -> None:
        """Simulate, in turns with other pages, and keep what was raised."""
        try:
            with taking(self.stop, self.abandoned.is_set):
                self.result = simulate_into(self.kept, self.stop_asked, self.full, lambda: waited(self.stop))
        except BaseException as error:
            self.result = error
        finally:
            self.kept.whole = True

    def finished(self) -> Trajectory:
        """Return the run, or raise what it raised."""
        self.join()
        assert self.result is not None
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


def run(message: dict[str, Any], session: Session, stop: Callable[[], bool]) -> Iterator[Answer]:
    """Yield the answers to "run": start, the overlays of frame 0, frames as they come, end, series.

    With a `token`, whom it hears in frame 0 comes after the overlays.

    `stop` is asked between the steps of the run and between answers; nothing comes after it has said yes.
    """
    id, want, least, state = message["id"], wanted(message), threshold(message), read(message.get("state"))
    token = whole_of(message) if message.get("token") is not None else None
    kept = no_frames_yet(id, state)
    session.begin(kept)
    simulation = Simulation(kept, stop, session.full)
    simulation.start()
    try:
        yield _start(id, state)
        yield _overlays(id, kept, 0, state.tokens, 0, want, least)
        if token is not None:
            yield answer_row(id, kept, 0, state.tokens, 0, token)
        yield from _frames(kept, simulation, stop)
        run = simulation.finished()
        if stop():
            return
        about = {"frames": len(kept.times), "stopped": run.stopped, "engine": run.report["engine"]}
        yield {"kind": "end", "id": id, **about, "ends_with": ends_with(run.final, dots_of(kept).tolerance(run.final))}
        measured = series(kept, run, stop)
        if not stop():
            yield {"kind": "series", "id": id, **measured}
    finally:
        # Whatever happened here, no computation is left behind.
        simulation.abandoned.set()
        with resting(stop):
            simulation.join()


def ends_with(x: Array, near: float) -> list[int] | None:
    """Return for each token the first one that it ends with, -1 if it ends alone; None if all do, or none was found.

    Many tokens are not coloured, so that nobody asks.

    >>> ends_with(np.array([[0.0], [1.0], [1.0], [5.0]]), near=0.1)
    [-1, 1, 1, -1]
    """
    if len(x) > MANY:
        return None
    try:
        labels = clusters(x, near).labels
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


def _overlays(id: int, kept: RunFrames, frame: int, x: Array, t: Any, want: Sequence[str], least: float) -> Answer:
    return {"id": id, "run": kept.run, "frame": frame, **overlays_of(x, t, kept.state, want, least)}


def _answer_overlays(message: dict[str, Any], session: Session) -> Iterator[Answer]:
    """Yield the overlays of a frame of the run that is here."""
    run, frame, want = whole_of(message, "run"), whole_of(message, "frame"), wanted(message)
    t, x = session.of(run).between(frame, message.get("part", 0))
    yield _overlays(message["id"], session.of(run), frame, x, t, want, threshold(message))


def _text(message: dict[str, Any]) -> Iterator[Answer]:
    """Yield the run as a script and as a command, or two runs of the same tokens."""
    state, beside = read(message.get("state")), message.get("beside")
    if beside is None:
        script, words = python(state), command(state)
    else:
        if not isinstance(beside, dict) or beside.keys() != {"law", "motion"}:
            raise InputError("beside is not the law and the motion of a second run: give {'law': ..., 'motion': ...}")
        other = read({**state.data, **beside})
        script, words = python_pair(state, other), f"{command(state)}\n{command(other)}"
    yield {"kind": "text", "id": message["id"], "python": script, "command": words}


def wanted(message: dict[str, Any]) -> list[str]:
    """Return what the page wants to see of a frame."""
    want = message.get("want", [])
    if not isinstance(want, list) or not all(isinstance(name, str) and name in OVERLAYS for name in want):
        raise InputError(f"want is not a list of overlays: give some of {', '.join(OVERLAYS)}")
    return list(dict.fromkeys(want))


def threshold(message: dict[str, Any]) -> float:
    """Return above which weight influences are drawn."""
    value = message.get("threshold")
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        raise InputError(f"threshold is {value!r:.40}, expected a number between 0 and 1")
    return LEAST if value is None else number(value, "threshold", least=0.0, most=1.0)


def _frames(kept: RunFrames, simulation: Simulation, stop: Callable[[], bool]) -> Iterator[Answer]:
    """Yield frames in messages of one or more until all are sent, or nobody wants them any more."""
    (n, d), type = kept.state.tokens.shape, np.dtype(kept.state.precision)
    sent, most, streaming = 0, max(1, CHUNK // (type.itemsize * n * d)), kept.most is None
    since, wait = time.monotonic(), REPORTED
    # To send is no work: the turn is left to the simulation.
    with resting(stop):
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
            if there > sent:
                since, wait = time.monotonic(), REPORTED
            sent = there
            if going:
                simulation.join(FLUSH)
                if time.monotonic() - since > wait:
                    since, wait = time.monotonic(), 2 * wait
                    yield _report(kept)


def _report(kept: RunFrames) -> Answer:
    """Return how far a run has come that has nothing to show at this moment, and whether it waits for a compiler."""
    from attnflow.engines.compilation import compiling

    state = kept.state
    about = {"n": len(state.tokens), "until": float(state.until), "discrete": state.motion.discrete}
    reached = 0.0 if kept.newest is None else float(kept.newest[0])
    return {"kind": "computing", "id": kept.run, **about, "t": reached, "compiling": compiling()}


def measured_frames(kept: RunFrames) -> list[int]:
    """Return the frames at which a run is measured."""
    count = len(kept.times)
    chosen: list[int] = np.unique(np.linspace(0, count - 1, min(count, MOST_MEASURED)).round().astype(int)).tolist()
    return chosen


def dots_of(kept: RunFrames) -> MergedDots:
    """Return when dots of a run look merged: the same for the colours of tokens and for the number of clusters."""
    return MergedDots([kept.frames[k] for k in measured_frames(kept)], kept.state.motion.surface == "sphere")


def series(kept: RunFrames, run: Trajectory, stop: Callable[[], bool] = lambda: False) -> dict[str, Any]:
    """Return measurements of a run at some of its frames, as on the dashboard; null for what has none, with a note.

    The coarse picture comes first: when time is up, frames are missing everywhere alike.
    """
    if not np.abs(run.final).max() < LARGEST_MEASURED:
        note = f"nothing is measured, since tokens become too large: {run.stopped}"
        return {"frames": [], **dict.fromkeys(SERIES), "merged": None, "note": note}
    deadline = time.monotonic() + MEASURING
    notes: dict[str, None] = {}
    measures = {name: next(m.of for m in MEASURED if m.title == title) for name, title in SERIES.items()}
    dots = dots_of(kept)
    if len(run.final) <= COUNTED_ONE_BY_ONE:
        measures["clusters"] = lambda run, x, t: dots.count(x)
    found: dict[int, dict[str, float]] = {}
    for k in _coarse_to_fine(measured_frames(kept)):
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
    return {"frames": frames, **values, "merged": dots.part, "note": "; ".join(notes) or None}


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
