"""What is saved is what is seen: pictures and movies against the pixels of the stage, and how a movie is ended."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from browser import launch
from films import frames_of
from larger import details
from numpy.typing import NDArray
from PIL import Image
from served import Line, Served, serving, until

from attnflow.explorer.scratch import PREFIX
from attnflow.explorer.supervisor import Job, Supervisor

pytestmark = details

Page = Any
# Mean and largest differences of pixels of two pictures of one scene that are drawn at different scales.
MEAN, MOST = 2.0, 0.02
STATE = {
    "tokens": {"cloud": "gaussian", "n": 24, "d": 2, "seed": 103},
    "law": {"name": "softmax", "beta": 4, "B": None},
    "motion": {"name": "layers", "gamma": 0.6},
    "until": 1,
    "seed": 0,
    "clock": "linear",
}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def page(served: Served) -> Iterator[Page]:
    with launch(viewport={"width": 1000, "height": 560}, accept_downloads=True) as page:
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"http://127.0.0.1:{served.port}/")
        page.wait_for_function("window.attnflow?.requests.idle()")
        yield page
        assert not errors


def shown(page: Page, place: int, until: int = 1) -> NDArray[np.float64]:
    """Show a frame of a run, and return the pixels of the stage (h, w, 3) once all of it is drawn."""
    page.evaluate("(state) => attnflow.store.setState(state)", {**STATE, "until": until})
    page.wait_for_function("(t) => attnflow.requests.idle() && attnflow.store.run.until === t", arg=until)
    page.evaluate("(k) => { attnflow.player.seek(k); attnflow.store.notify('player'); }", place)
    page.wait_for_function("(k) => attnflow.requests.idle() && attnflow.store.overlays.frame === k", arg=place)
    page.wait_for_function("attnflow.store.series?.id === attnflow.player.id")
    return settled(page)


def settled(page: Page) -> NDArray[np.float64]:
    """Return the pixels of the stage once they stay the same."""
    frames = "for (let k = 0; k < 9; k++) await new Promise(requestAnimationFrame);"
    read = f"async () => {{ {frames} return stage.toDataURL(); }}"
    before, now = "", page.evaluate(read)
    while now != before:
        before, now = now, page.evaluate(read)
    return pixels(b64decode(now.partition(",")[2]))


def pixels(file: bytes) -> NDArray[np.float64]:
    return np.asarray(Image.open(io.BytesIO(file)).convert("RGB")).astype(float)


def saved(page: Page, ending: str) -> tuple[str, bytes]:
    with page.expect_download() as download:
        page.locator(f"#export-{ending}").click()
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


def alike(found: NDArray[np.float64], wanted: NDArray[np.float64]) -> None:
    """Check that a picture, at another scale perhaps, begins with the pixels of the stage."""
    height, width, _ = wanted.shape
    scale = found.shape[1] / width
    top = Image.fromarray(found[: round(height * scale)].astype(np.uint8)).resize((width, height), Image.Resampling.BOX)
    away = np.abs(np.asarray(top).astype(float) - wanted)
    assert away.mean() < MEAN
    assert (away.max(axis=2) > 80).mean() < MOST


def test_a_png_is_the_stage_over_its_caption(page: Page) -> None:
    wanted = shown(page, 1)
    name, file = saved(page, "png")
    assert name == "softmax-beta-4-layers-gamma-0.6-n24-t1.png"
    found = pixels(file)
    alike(found, wanted)
    # Another frame is not alike.
    with pytest.raises(AssertionError):
        alike(found, shown(page, 0))
    # The strip is paper with ink on it.
    strip = found[2 * len(wanted) + 4 :]
    assert len(strip) > 100
    assert (strip == 255).all(axis=2).mean() > 0.8
    assert (strip.max(axis=2) < 60).sum() > 500


def test_an_svg_has_the_caption_as_text(page: Page) -> None:
    shown(page, 1)
    wanted = page.evaluate("import('/page/caption.js').then((m) => m.captionOf(attnflow.store, attnflow.player))")
    assert wanted["law"] == "Softmax, β = 4 · averaging layers, γ = 0.6"
    assert wanted["time"] == "step 1"
    assert re.match(r"24 tokens, .*at the end; \d leaders", wanted["said"])
    name, file = saved(page, "svg")
    assert name.endswith("-n24-t1.svg")
    (caption,) = ElementTree.fromstring(file).findall(".//*[@class='caption']")
    texts = [one.text or "" for one in caption.iter() if one.tag.endswith("text")]
    (time,) = [text for text in texts if text.startswith("step")]
    assert time == wanted["time"]
    assert " ".join(text for text in texts if text != time) == f"{wanted['law']} {wanted['said']}"


def test_the_last_frame_of_a_movie_is_the_stage(page: Page, tmp_path: Path) -> None:
    wanted = shown(page, 1)
    start = shown(page, 0)
    name, file = saved(page, "mp4")
    assert name == "softmax-beta-4-layers-gamma-0.6-n24.mp4"
    (tmp_path / name).write_bytes(file)
    frames = frames_of(tmp_path / name)
    # Four seconds, and the end is held for a part of them.
    assert len(frames) == 100
    alike(frames[-1].astype(float), wanted)
    alike(frames[0].astype(float), start)
    with pytest.raises(AssertionError):
        alike(frames[50].astype(float), wanted)
    # Afterwards the page is where it was, with the overlays of this frame.
    assert page.evaluate("[attnflow.player.position, attnflow.store.overlays.frame]") == [0, 0]
    np.testing.assert_array_equal(settled(page), start)


def files() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"{PREFIX}{os.getpid()}-*"))


def encoders() -> list[int]:
    """Return the processes that write to the folder of a worker of ours."""
    mark, found = f"{PREFIX}{os.getpid()}-".encode(), []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"rawvideo" in words and mark in words[-2]:
            found.append(int(path.name))
    return found


def test_a_movie_that_is_cancelled_leaves_nothing(page: Page) -> None:
    until(lambda: not files())
    shown(page, 0, until=60)
    page.locator("#export-mp4").click()
    page.wait_for_function("/^Frame [2-9]/.test(document.querySelector('.recording p')?.textContent)")
    assert len(encoders()) == 1
    assert len(files()) == 1
    page.locator(".recording button").click()
    page.locator(".recording").wait_for(state="detached")
    assert page.locator("#status").text_content() == "The movie was cancelled."
    until(lambda: not files() and not encoders())
    page.wait_for_function("attnflow.player.position === 0 && attnflow.store.overlays.frame === 0")
    assert page.locator("#export-mp4").is_enabled()


def packed(header: Any, image: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(4, "little") + text + image


def png(width: int = 32, height: int = 16) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), "teal").save(file, "PNG")
    return file.getvalue()


def test_binary_messages_are_pictures_of_a_movie_or_refused(served: Served) -> None:
    with served.connect() as socket:
        line = Line(socket)
        for wrong in (
            *(b"", b"\0", b"\xff" * 50, b"\2\0\0\0\xff\xfex", b"\3\0\0\0{x}y", (2**31).to_bytes(4, "little") + b"{}x"),
            *(packed({"id": 1, "do": "frame"}), packed([], b"x"), packed({"do": "frame"}, b"x"), packed("frame", b"x")),
            packed({"id": 1, "do": "frame", "pad": " " * 2000}, b"x"),
        ):
            line.socket.send(wrong)
            assert line.refused()["id"] is None
        line.socket.send(packed({"id": 4, "do": "run"}, png()))
        assert "asks for 'run', expected 'frame'" in line.refused()["sentence"]
        frame = {"id": 5, "do": "frame", "movie": 6, "index": 0, "repeat": 3, "last": True}
        line.socket.send(packed(frame, png()))
        assert line.refused()["sentence"].startswith("a frame was sent without a movie")
        line.say(6, "movie", format="gif", width=32, height=16, rate=25)
        line.say(7, "movie", format="mp4", width=32, height=16, rate=25)
        assert line.refused()["sentence"] == "a movie file is being made, expected one at a time: wait for it"
        line.socket.send(packed({**frame, "id": 8}, png(30)))
        assert "a frame has 30 × 16 pixels" in line.refused()["sentence"]
        line.socket.send(packed({**frame, "id": 9}, png()))
        told = dict(sorted((header["id"], (header["kind"], body[:4])) for header, body in (line.hear(), line.hear())))
        assert told == {6: ("file", b"GIF8"), 9: ("taken", b"")}


def test_a_frame_may_follow_as_soon_as_the_last_one_is_answered() -> None:
    """The worker says that a job is over only after its answer: the page may be faster."""
    supervisor = Supervisor("exports")
    page, other = (supervisor.attach(lambda body: asyncio.sleep(0)) for _ in range(2))
    job = Job(1, page, 5, "frame", b"")
    supervisor.active = {1: job}
    assert supervisor.unanswered(page, "frame")
    assert not supervisor.unanswered(other, "frame")
    job.heard = True
    assert not supervisor.unanswered(page, "frame")
    supervisor.waiting[page, "frame"] = Job(2, page, 6, "frame", b"")
    assert supervisor.unanswered(page, "frame")


def test_cancelling_ends_the_worker_and_another_movie_can_begin(served: Served) -> None:
    with served.connect() as socket:
        line = Line(socket)
        line.say(1, "cancel")
        assert line.hear()[0] == {"kind": "cancelled", "id": 1}
        line.say(2, "movie", format="mp4", width=32, height=16, rate=25)
        until(lambda: any(any(folder.iterdir()) for folder in files() if folder.exists()))
        line.say(3, "cancel")
        assert line.refused() == {
            "kind": "refused", "id": 2, "sentence": "this was cancelled, as you asked: begin again if you want it",
        }  # fmt: skip
        assert line.hear()[0] == {"kind": "cancelled", "id": 3}
        until(lambda: not files())
        line.say(4, "movie", format="gif", width=32, height=16, rate=25)
        line.socket.send(packed({"id": 5, "do": "frame", "movie": 4, "index": 0, "repeat": 1, "last": True}, png()))
        assert {line.hear()[0]["kind"] for _ in range(2)} == {"taken", "file"}
