"""What is on the screen as files: a movie, and the numbers."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from attnflow.core.inputs import InputError
from attnflow.explorer.protocol import Answer
from attnflow.explorer.run_stream import no_frames_yet, simulate_into
from attnflow.explorer.state import State, read
from attnflow.runs.trajectory import Trajectory

TYPES = {"mp4": "video/mp4", "gif": "image/gif"}
# How long a movie lasts, in seconds; each of them is 25 pictures to draw.
LENGTH = 6.0


def movie(state: State, format: Any, dark: Any) -> tuple[str, str, bytes]:
    """Return a movie of the run, as by `attnflow.figures.animate`: its name, its type, and its bytes."""
    from attnflow.figures.style import look

    if not isinstance(format, str) or format not in TYPES:
        raise InputError(f"format is {format!r:.40}, expected {' or '.join(TYPES)}")
    if not isinstance(dark, bool):
        raise InputError(f"dark is {dark!r:.40}, expected true or false")
    with TemporaryDirectory() as folder, look(dark=dark):
        path = Path(folder) / f"attnflow.{format}"
        _simulated(state).animate(path, seconds=LENGTH)
        return path.name, TYPES[format], path.read_bytes()


def data(state: State) -> tuple[str, str, bytes]:
    """Return the run as an .npz file with `times` (T,), `tokens` (T, n, d), and the `state` as JSON text."""
    run, file = _simulated(state), io.BytesIO()
    # Steps beyond int64 are Python integers, which would need pickle.
    times = run.times.astype(np.float64) if run.times.dtype == object else run.times
    np.savez_compressed(file, times=times, tokens=run.tokens, state=np.array(json.dumps(state.data)))
    return "attnflow.npz", "application/x-npz", file.getvalue()


def _simulated(state: State) -> Trajectory:
    """Return the run with the frames that the page shows."""
    kept = no_frames_yet(0, state)
    run = simulate_into(kept, stop=lambda: False)
    return Trajectory(
        np.array(kept.times),
        np.stack(kept.frames),
        law=run.law,
        motion=run.motion,
        masses=None,
        stopped=run.stopped,
        about=run.about,
        report=run.report,
    )


def _answer(id: int, name: str, type: str, body: bytes) -> Iterator[Answer]:
    yield {"kind": "file", "id": id, "name": name, "type": type}, body


ANSWERS = {
    "movie": lambda message, done, session, stop: _answer(
        message["id"], *movie(read(message.get("state")), message.get("format"), message.get("dark"))
    ),
    "data": lambda message, done, session, stop: _answer(message["id"], *data(read(message.get("state")))),
}
