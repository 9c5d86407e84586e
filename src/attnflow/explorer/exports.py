"""What is on the screen as files: a movie, of frames that the page draws, and the numbers."""

from __future__ import annotations

import io
import json
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import InputError, whole
from attnflow.explorer.picture_frames import read_picture
from attnflow.explorer.protocol import Answer, Session
from attnflow.explorer.run_stream import no_frames_yet, simulate_into
from attnflow.explorer.state import State, read
from attnflow.explorer.turns import resting, waited
from attnflow.figures import gif, mp4
from attnflow.runs.trajectory import Trajectory

TYPES = {"mp4": "video/mp4", "gif": "image/gif"}
# Pixels across or down, frames a second, pictures, seconds, and bytes of all pictures.
SMALLEST, LARGEST = 16, 1600
MOST_RATE = 50
MOST_PICTURES = 400
MOST_SECONDS = 60
MOST_BYTES = 200_000_000
# Pixels of all pictures of a GIF, of which each is a byte in memory until the last has come.
MOST_GIF_PIXELS = 300_000_000
# Pictures that wait to be encoded: a page that draws faster waits.
WAITING = 4
# A movie ends when no picture came for IDLE seconds; a picture waits at most BEGINNING seconds for its movie to begin.
IDLE, BEGINNING = 60.0, 20.0
# How often it is looked, in seconds, whether somebody still waits for the movie.
LOOK = 0.2

Picture = tuple[bytes, NDArray[np.uint8]]
Stop = Callable[[], bool]


class Unwanted(Exception):
    """Nobody waits for this file any more."""


class _Asking(io.BytesIO):
    """A file in memory that is written only as long as somebody waits for it."""

    def __init__(self, stop: Stop) -> None:
        super().__init__()
        self.stop, self.ended = stop, False

    def write(self, body: Any, /) -> int:
        """Write, or end what writes, once: what it still writes to close the file is lost."""
        if not self.ended and self.stop():
            self.ended = True
            raise Unwanted
        return len(body) if self.ended else super().write(body)


@dataclass
class Film:
    """A movie that is being made of pictures that come one after the other, each shown for some ticks."""

    id: int
    format: str
    width: int
    height: int
    rate: int
    coming: queue.Queue[tuple[Picture, int, bool]] = field(default_factory=lambda: queue.Queue(WAITING))
    taken: int = 0
    ticks: int = 0
    bytes: int = 0
    over: bool = False

    @classmethod
    def read(cls, message: dict[str, Any]) -> Film:
        """Return the movie that a message asks for, or refuse it."""
        format = message.get("format")
        if not isinstance(format, str) or format not in TYPES:
            raise InputError(f"format is {format!r:.40}, expected {' or '.join(TYPES)}")
        width, height = (_count(message, name, SMALLEST, LARGEST) for name in ("width", "height"))
        if width % 2 or height % 2:
            raise InputError(f"a movie has {width} × {height} pixels, expected even numbers: leave a row out")
        return cls(message["id"], format, width, height, _count(message, "rate", 1, MOST_RATE))

    @property
    def most_pictures(self) -> int:
        """How many pictures the movie may have."""
        most = MOST_GIF_PIXELS // (self.width * self.height)
        return min(MOST_PICTURES, most) if self.format == "gif" else MOST_PICTURES

    def take(self, message: dict[str, Any], stop: Stop) -> int:
        """Take the next picture of the movie, and return how many there are; refuse one that does not fit."""
        index, repeat = _count(message, "index", 0, MOST_PICTURES - 1), _count(message, "repeat", 1, MOST_RATE * 10)
        last = message.get("last", False)
        if not isinstance(last, bool):
            raise InputError(f"last is {last!r:.40}, expected true or false")
        if index != self.taken:
            raise InputError(f"frame {index} was sent, expected frame {self.taken}: send frames in their order")
        if index >= self.most_pictures:
            sentence = f"expected at most {self.most_pictures} of {self.width} × {self.height} pixels"
            raise InputError(f"frame {index} was sent, {sentence}: take fewer or smaller frames")
        picture = read_picture(message.get("image"), self.width, self.height)
        if self.ticks + repeat > MOST_SECONDS * self.rate or self.bytes + len(picture[0]) > MOST_BYTES:
            sentence = f"expected at most {MOST_SECONDS} s and {MOST_BYTES // 10**6} MB: take fewer frames"
            raise InputError(f"the movie becomes too long or too large with frame {index}, {sentence}")
        self.taken, self.ticks, self.bytes = self.taken + 1, self.ticks + repeat, self.bytes + len(picture[0])
        with resting(stop):
            while not self.over and not stop():
                try:
                    self.coming.put((picture, repeat, last), timeout=LOOK)
                    return self.taken
                except queue.Full:
                    continue
        raise InputError("the movie has ended before this frame: begin another one")

    def pictures(self, stop: Stop) -> Iterator[tuple[Picture, int]]:
        """Yield the pictures as they come, until the last."""
        last = False
        while not last:
            picture, repeat, last = self._next(stop)
            yield picture, repeat

    def _next(self, stop: Stop) -> tuple[Picture, int, bool]:
        """Wait for a picture, while other pages compute."""
        deadline = time.monotonic() + IDLE
        with resting(stop):
            while time.monotonic() < deadline and not stop():
                with suppress(queue.Empty):
                    return self.coming.get(timeout=LOOK)
        raise InputError(f"no frame came for {IDLE:g} s, so the movie was ended: try again")


def movie(message: dict[str, Any], session: Session, stop: Stop) -> Iterator[Answer]:
    """Yield the file of a movie once all its pictures have come."""
    film = Film.read(message)
    with session.changed:
        session.film = film
        session.changed.notify_all()
    try:
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"movie.{film.format}"
            {"mp4": _write_mp4, "gif": _write_gif}[film.format](film, path, stop)
            yield from _file(film.id, path.name, TYPES[film.format], path.read_bytes())
    finally:
        film.over, session.film = True, None


def _write_mp4(film: Film, path: Path, stop: Stop) -> None:
    with mp4.writing(path, film.width, film.height, film.rate) as writer:
        for (_, pixels), repeat in film.pictures(stop):
            writer.add(pixels, repeat)


def _write_gif(film: Film, path: Path, stop: Stop) -> None:
    # All pictures share one palette, so none can be written before the last has come.
    files, durations = [], []
    for (body, _), repeat in film.pictures(stop):
        files.append(body)
        durations.append(1000 * repeat // film.rate)
    file = _Asking(stop)
    gif.write(file, gif.alike(_Unpacked(files, stop)), durations)
    path.write_bytes(file.getvalue())


@dataclass
class _Unpacked(Sequence[Any]):
    """The pixels of pictures that are kept as files, which are much smaller."""

    files: list[bytes]
    stop: Stop

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, k: Any) -> Any:
        from PIL import Image

        if self.stop():
            raise Unwanted
        return np.asarray(Image.open(io.BytesIO(self.files[k])).convert("RGB"))


def frame(message: dict[str, Any], session: Session, stop: Stop) -> Iterator[Answer]:
    """Take a picture of the movie that is being made, and say so."""
    asked, deadline = message.get("movie"), time.monotonic() + BEGINNING
    with resting(stop), session.changed:
        while session.film is None or session.film.id != asked:
            if not session.changed.wait(deadline - time.monotonic()):
                raise InputError(f"movie {asked!r:.40} is not being made: ask for it before its frames")
        film = session.film
    yield {"kind": "taken", "id": message["id"], "frames": film.take(message, stop)}


def _count(message: dict[str, Any], name: str, least: int, most: int) -> int:
    value = message.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"{name} is {value!r:.40}, expected a whole number from {least} to {most}")
    return whole(value, name, least=least)


def data(state: State, stop: Stop = lambda: False) -> tuple[str, str, bytes]:
    """Return the run as an .npz file with `times` (T,), `tokens` (T, n, d), and the `state` as JSON text."""
    run, file = _simulated(state, stop), _Asking(stop)
    # Steps beyond int64 are Python integers, which would need pickle.
    times = run.times.astype(np.float64) if run.times.dtype == object else run.times
    np.savez_compressed(file, times=times, tokens=run.tokens, state=np.array(json.dumps(state.data)))
    return "attnflow.npz", "application/x-npz", file.getvalue()


def _simulated(state: State, stop: Stop) -> Trajectory:
    """Return the run with the frames that the page shows."""
    kept = no_frames_yet(0, state)
    run = simulate_into(kept, stop, waited=lambda: waited(stop))
    if stop():
        raise Unwanted
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


def _file(id: int, name: str, type: str, body: bytes) -> Iterator[Answer]:
    yield {"kind": "file", "id": id, "name": name, "type": type}, body


ANSWERS = {
    "movie": lambda message, done, session, stop: movie(message, session, stop),
    "frame": lambda message, done, session, stop: frame(message, session, stop),
    "data": lambda message, done, session, stop: _file(message["id"], *data(read(message.get("state")), stop)),
}
