"""Movies of the pictures that a page sends, and data of what is on the screen."""

from __future__ import annotations

import io
import json
import queue
import threading
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from films import frames_of
from PIL import Image, ImageSequence

import attnflow as af
from attnflow.explorer import exports
from attnflow.explorer.protocol import Answer, Session
from attnflow.explorer.state import MOST_FRAMES, arguments, read
from attnflow.explorer.worker import answers

TOKENS = {"cloud": "gaussian", "n": 8, "d": 2, "seed": 3}
SOFT = {"tokens": TOKENS, "law": {"name": "softmax"}, "motion": {"name": "layers", "gamma": 0.2}, "until": 30}
JUMPS = {**SOFT, "motion": {"name": "jumps", "gamma": 0.1}}


def loaded(state: dict[str, Any]) -> Any:
    name, kind, body = exports.data(read(state))
    assert (name, kind) == ("attnflow.npz", "application/x-npz")
    return np.load(io.BytesIO(body), allow_pickle=False)


def test_data_are_the_run_and_the_state_it_came_from() -> None:
    file = loaded(SOFT)
    run = af.simulate(af.tokens.gaussian(8, 2, seed=3), af.Softmax(), af.Layers(gamma=0.2), until=30)
    np.testing.assert_array_equal(file["times"], run.times)
    np.testing.assert_array_equal(file["tokens"], run.tokens)
    again = af.simulate(**arguments(read(json.loads(str(file["state"])))))
    np.testing.assert_array_equal(file["tokens"], again.tokens)


def test_data_are_bounded_however_long_the_run() -> None:
    file = loaded({**JUMPS, "until": 10**5})
    assert len(file["times"]) <= MOST_FRAMES
    run = af.simulate(**arguments(read({**JUMPS, "until": 10**5})))
    np.testing.assert_array_equal(file["tokens"][-1], run.final)
    file = loaded(
        {**JUMPS, "tokens": {"cloud": "polygon", "k": 3}, "law": {"name": "softmax", "beta": 60}, "until": 1e25}
    )
    assert file["times"].dtype == np.float64
    assert file["times"][-1] == 1e25


@dataclass
class Tired:
    """A page that waits no longer after it was asked so many times."""

    patience: int
    asked: int = 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.asked > self.patience


def test_what_nobody_waits_for_is_not_written_to_the_end() -> None:
    """A page that cancels must not keep the process of all pages busy until it is killed."""
    tired = Tired(0)
    with pytest.raises(exports.Unwanted):
        exports.data(read({**SOFT, "until": 20_000}), tired)
    assert tired.asked < 10
    # While the numbers are packed.
    patient = Tired(10**9)
    exports.data(read(SOFT), patient)
    tired = Tired(patient.asked - 3)
    with pytest.raises(exports.Unwanted):
        exports.data(read(SOFT), tired)
    assert tired.asked == patient.asked - 2


@pytest.mark.parametrize("patience", [0, 5, 10])
def test_a_gif_that_nobody_waits_for_is_not_put_together(patience: int, tmp_path: Path) -> None:
    film, tired = exports.Film.read(MOVIE), Tired(patience)
    for k, paint in enumerate(PAINTS):
        last = k == len(PAINTS) - 1
        film.take({"index": k, "repeat": 1, "image": picture(paint), "last": last}, lambda: False)
    pictures = list(film.pictures(lambda: False))
    film.pictures = lambda stop: iter(pictures)  # type: ignore[method-assign]
    with pytest.raises(exports.Unwanted):
        exports._write_gif(film, tmp_path / "film.gif", tired)
    assert tired.asked == patience + 1
    assert not (tmp_path / "film.gif").exists()


PAINTS = ((0, 114, 178), (213, 94, 0), (255, 255, 255))
MOVIE = {"id": 7, "do": "movie", "format": "gif", "width": 48, "height": 32, "rate": 25}


def picture(paint: tuple[int, int, int], width: int = 48, height: int = 32, format: str = "PNG") -> str:
    """Return the file of a flat picture with a dark edge, as it comes in a frame."""
    pixels = np.full((height, width, 3), paint, dtype=np.uint8)
    pixels[:4] = 30
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format)
    return b64encode(file.getvalue()).decode()


def filmed(frames: list[dict[str, Any]], **changes: Any) -> list[Answer]:
    """Return what a worker answers to a movie and to its frames."""
    session, said = Session(), queue.Queue[Answer]()

    def say(message: dict[str, Any]) -> None:
        for answer in answers(message, 0, session, lambda: False):
            said.put(answer)

    movie = threading.Thread(target=say, args=({**MOVIE, **changes},))
    movie.start()
    for k, one in enumerate(frames):
        say({"id": 10 + k, "do": "frame", "movie": 7, "index": k, "repeat": 2, "last": k == len(frames) - 1, **one})
    movie.join()
    return list(said.queue)


def file_of(told: list[Answer]) -> tuple[dict[str, Any], bytes]:
    (found,) = [answer for answer in told if isinstance(answer, tuple)]
    header, body = found
    assert isinstance(body, bytes)
    return header, body


def test_a_gif_is_the_pictures_that_were_sent() -> None:
    header, body = file_of(filmed([{"image": picture(paint)} for paint in PAINTS]))
    assert (header["kind"], header["id"], header["type"]) == ("file", 7, "image/gif")
    with Image.open(io.BytesIO(body)) as film:
        shown = [
            (np.asarray(one.convert("RGB"))[20, 20].tolist(), one.info["duration"])
            for one in ImageSequence.Iterator(film)
        ]
    assert shown == [(list(paint), 80) for paint in PAINTS]


def test_an_mp4_is_the_pictures_that_were_sent(tmp_path: Path) -> None:
    repeats = (1, 3, 2)
    frames = [
        {"image": picture(paint, format=format), "repeat": repeat}
        for paint, repeat, format in zip(PAINTS, repeats, ("PNG", "JPEG", "PNG"), strict=True)
    ]
    header, body = file_of(filmed(frames, format="mp4"))
    assert header["type"] == "video/mp4"
    (tmp_path / "film.mp4").write_bytes(body)
    seen = frames_of(tmp_path / "film.mp4")
    assert seen.shape == (6, 32, 48, 3)
    assert np.abs(seen[:, 20, 24].astype(int) - np.repeat(PAINTS, repeats, axis=0)).max() <= 6


def refusals(told: list[Answer]) -> list[dict[str, Any]]:
    found = [answer for answer in told if isinstance(answer, dict) and answer["kind"] == "refused"]
    assert all("\n" not in one["sentence"] and len(one["sentence"]) < 200 for one in found)
    return found


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"image": picture(PAINTS[0], width=50)}, "a frame has 50 × 32 pixels, expected 48 × 32"),
        ({"image": picture(PAINTS[0], format="GIF")}, "is no picture, expected a PNG or JPEG"),
        ({"image": picture(PAINTS[0])[:120]}, "is damaged or cut short"),
        ({"image": b64encode(b"GIF89a" + bytes(99)).decode()}, "is no picture"),
        ({"image": "x y"}, "a frame has no picture"),
        ({"image": 5}, "a frame has no picture"),
        ({}, "a frame has no picture"),
        ({"index": 2, "image": picture(PAINTS[0])}, "frame 2 was sent, expected frame 0"),
        ({"index": -1}, "index is -1, expected a whole number from 0 to 399"),
        ({"repeat": 0}, "repeat is 0"),
        ({"repeat": True}, "repeat is True"),
        ({"repeat": 1e9}, "repeat is 1000000000.0"),
        ({"last": "no"}, "last is 'no', expected true or false"),
    ],
)
def test_pictures_that_do_not_fit_are_refused_and_the_movie_goes_on(wrong: dict[str, Any], why: str) -> None:
    session = Session()
    movie = iter(exports.movie(MOVIE, session, bool))
    told: list[Answer] = []
    maker = threading.Thread(target=lambda: told.extend(movie))
    maker.start()
    for message in (wrong, {"image": picture(PAINTS[0]), "last": True}):
        told += answers({"id": 9, "do": "frame", "movie": 7, "index": 0, "repeat": 1, **message}, 0, session, bool)
    maker.join()
    (refusal,) = refusals(told)
    assert why in refusal["sentence"]
    assert file_of(told)[1].startswith(b"GIF8")


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "avi"}, {"format": None}, {"format": ["gif"]}, {"width": 47}, {"width": 10**6}, {"height": 0},
        {"height": "32"}, {"rate": 0}, {"rate": True}, {"width": None},
    ],
)  # fmt: skip
def test_movies_that_make_no_sense_are_refused(changes: dict[str, Any]) -> None:
    (refusal,) = refusals(list(answers({**MOVIE, **changes}, 0, Session(), lambda: False)))
    assert refusal["id"] == 7


def test_a_movie_is_bounded_and_ends_when_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "IDLE", 0.2)
    monkeypatch.setattr(exports, "MOST_SECONDS", 1)
    told = refusals(filmed([{"image": picture(PAINTS[0]), "repeat": 20}] * 2))
    assert "becomes too long or too large with frame 1" in told[0]["sentence"]
    assert "no frame came for 0.2 s" in told[1]["sentence"]
    # Pictures of a GIF wait in memory: many of them have to be small.
    monkeypatch.setattr(exports, "MOST_GIF_PIXELS", 2 * 48 * 32)
    monkeypatch.setattr(exports, "MOST_SECONDS", 60)
    three = [{"image": picture(PAINTS[0])}] * 3
    assert "frame 2 was sent, expected at most 2 of 48 × 32 pixels" in refusals(filmed(three))[0]["sentence"]
    assert file_of(filmed(three, format="mp4"))[0]["type"] == "video/mp4"
    monkeypatch.setattr(exports, "BEGINNING", 0.05)
    (late,) = refusals(list(answers({"id": 1, "do": "frame", "movie": 3}, 0, Session(), lambda: False)))
    assert late["sentence"] == "movie 3 is not being made: ask for it before its frames"
