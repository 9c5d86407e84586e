"""What movies show behind and over their tokens, the colours of GIF files, one colour for tokens and their cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from PIL import Image, ImageSequence
from refusals import refused

import attnflow as af
from attnflow import figures
from attnflow.figures.cells import draw_cells
from attnflow.figures.gallery import named
from attnflow.figures.gif import COLOURS, Gif, alike
from attnflow.figures.groups import groups
from attnflow.figures.marks import LEADER, NOW, START, TOKEN
from attnflow.figures.mp4 import program, writing
from attnflow.figures.stage import HULL
from attnflow.figures.style import look, sheet
from attnflow.runs.trajectory import Trajectory

matplotlib.use("Agg")
pytestmark = pytest.mark.usefixtures("figures_closed")


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the axes hold in each frame that is written: kinds by gid or label, texts, and the key."""
    seen: list[dict[str, Any]] = []
    grab = Gif.grab_frame

    def watched(writer: Any) -> None:
        (ax,) = writer.figure.axes
        said = [text.get_text() for legend in writer.figure.legends for text in legend.get_texts()]
        names = [artist.get_gid() or artist.get_label() for artist in ax.get_children()]
        fills = {
            artist.get_gid(): [to_hex(c[:3]) for c in artist.get_facecolors()]
            for artist in ax.collections
            if artist.get_gid()
        }
        dots = [c for c in ax.collections if c.get_zorder() == 5 and len(c.get_offsets()) > 1 and c.get_gid() is None]
        inks = [[to_hex(c) for c in mark.get_facecolors()] for mark in dots]
        seen.append({"title": ax.get_title(), "names": names, "key": said, "fills": fills, "dots": inks, "ax": ax})
        grab(writer)

    monkeypatch.setattr(Gif, "grab_frame", watched)
    return seen


@pytest.fixture(scope="module")
def twelve() -> Trajectory:
    """Twelve groups: tokens inside a polygon that its vertices lead."""
    v = af.tokens.polygon(12)
    inside = af.tokens.sphere(n=80, d=2, seed=1) * np.linspace(0.2, 0.9, 80)[:, None]
    return af.simulate(np.concatenate([v, inside]), af.Hardmax(), af.Layers(gamma=0.3), until=40)


@pytest.mark.parametrize("dark", [False, True])
def test_tokens_have_the_colour_of_their_cell_however_many_there_are(twelve: Trajectory, dark: bool) -> None:
    parts = af.geometry.cells(twelve.tokens[0, :12])
    labels = groups(twelve, twelve.final, 40).labels
    with look(dark=dark):
        ax: Any = figures.plot(twelve)
        cells = draw_cells(sheet(3, 3).add_subplot(), parts, labels[:12])
    (start,) = [mark for mark in ax.collections if mark.get_label() == START]
    (tokens,) = [c for c in ax.collections if c.get_zorder() == 5 and c.get_gid() is None]
    # Hardmax tokens end at the vertex that they score highest, and so lie in its cell at the start.
    cell = (twelve.tokens[0] @ twelve.tokens[0, :12].T).argmax(axis=1)
    wanted = [to_hex(colour[:3]) for colour in cells.get_facecolors()[cell]]
    assert [to_hex(colour) for colour in tokens.get_facecolors()] == wanted
    assert [to_hex(colour) for colour in start.get_edgecolors()] == wanted
    assert len(set(wanted)) == 12


def test_the_movie_of_a_figure_shows_its_cells(frames: list[dict[str, Any]], tmp_path: Path) -> None:
    drawing = named("fw/run").draw()
    assert drawing.film is not None
    drawing.film.animate(tmp_path / "run.gif", seconds=0.2, behind=drawing.behind)
    still: Any = drawing.figure.axes[0]
    (cells,) = [mark for mark in still.collections if mark.get_gid() == "cells"]
    wanted = [to_hex(colour[:3]) for colour in cells.get_facecolors()]
    kept = {"cells", "hull", "vertices", "origin", START}
    for frame in frames:
        assert kept <= set(frame["names"])
        assert frame["fills"]["cells"] == wanted
        # The hull is one line, drawn solid: it is that of the start and of the end.
        assert HULL not in frame["names"] + frame["key"]
    v, x0 = drawing.film.tokens[0, :7], drawing.film.tokens[0]
    for frame in (frames[0], frames[-1]):
        (inks,) = frame["dots"]
        assert inks == [wanted[k] for k in (x0 @ v.T).argmax(axis=1)]


def test_every_frame_has_the_key_and_the_last_the_leaders(frames: list[dict[str, Any]], tmp_path: Path) -> None:
    run = af.simulate(af.tokens.gaussian(n=30, d=2, seed=0), af.Hardmax(), af.Layers(alpha=0.5), until=50)
    run.animate(tmp_path / "run.gif", seconds=0.4)
    assert [frame["key"] for frame in frames] == [[START, TOKEN, LEADER, HULL, NOW]] * len(frames)
    for name in (LEADER, "end", "vertices"):
        assert [name in frame["names"] for frame in frames] == [False] * 7 + [True] * 3
    assert frames[0]["title"] == "Hardmax\nstep 0"
    # As in a picture of the run.
    assert frames[-1]["title"] == run.plot().get_title() == "Hardmax\n5 clusters, 5 leaders at step 50"
    # The hull of the moment is a line, and at the end a polygon.
    assert ["now" in frame["names"] for frame in frames] == [False] + [True] * 6 + [False] * 3
    assert [HULL in frame["names"] for frame in frames] == [True] * len(frames)


def test_what_is_behind_is_drawn_once_and_stays(frames: list[dict[str, Any]], tmp_path: Path) -> None:
    calls = []

    def behind(ax: Any) -> None:
        calls.append(ax)
        ax.plot([0, 1], [0, 1], label="line")

    af.simulate(np.eye(2), af.Softmax(), af.Layers(gamma=0.5), until=3).animate(
        tmp_path / "run.gif", seconds=0.2, behind=behind
    )
    assert calls == [frames[0]["ax"]]
    assert all("line" in frame["names"] for frame in frames)


def test_a_gif_has_one_palette_and_exact_colours_where_there_are_few() -> None:
    rng = np.random.default_rng(0)
    flat = [np.full((20, 30, 3), colour, dtype=np.uint8) for colour in ((0, 114, 178), (213, 94, 0), (255, 255, 255))]
    noise = rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)
    images = alike([*flat, noise])
    assert len({tuple(image.getpalette()) for image in images}) == 1
    assert len(images[0].getpalette()) // 3 <= COLOURS
    for image, frame in zip(images, flat, strict=False):
        np.testing.assert_array_equal(np.asarray(image.convert("RGB")), frame)
    # Each pixel is the nearest colour there is.
    palette = np.reshape(images[0].getpalette(), (-1, 3))
    away = np.linalg.norm(noise.reshape(-1, 1, 3).astype(float) - palette, axis=2)
    drawn = np.asarray(images[3].convert("RGB")).reshape(-1, 3).astype(float)
    np.testing.assert_allclose(np.linalg.norm(drawn - noise.reshape(-1, 3), axis=1), away.min(axis=1))


def test_a_small_dot_keeps_its_hue_among_many_greys() -> None:
    greys = np.repeat(np.arange(256, dtype=np.uint8), 3).reshape(16, 16, 3).repeat(20, axis=0).repeat(20, axis=1)
    pinks = greys.copy()
    pinks[100:104, 100:104] = (227, 154, 194)
    drawn = np.asarray(alike([greys, pinks])[1].convert("RGB"))
    assert {tuple(colour) for colour in drawn[100:104, 100:104].reshape(-1, 3).tolist()} == {(227, 154, 194)}
    assert np.abs(drawn.astype(int) - pinks).max() <= 2


def local_palettes(file: bytes) -> list[bool]:
    """Whether each image of a GIF brings colours of its own, by the blocks of its format."""
    found, place = [], 13 + 3 * 2 ** ((file[10] & 7) + 1) * (file[10] >> 7)
    while file[place] != 0x3B:
        if file[place] == 0x2C:
            packed = file[place + 9]
            found.append(bool(packed >> 7))
            place += 11 + 3 * 2 ** ((packed & 7) + 1) * (packed >> 7)
        else:
            place += 2
        while file[place]:
            place += 1 + file[place]
        place += 1
    return found


def test_a_movie_as_gif_has_no_palette_beside_the_first(tmp_path: Path) -> None:
    x0 = np.concatenate([af.tokens.polygon(7), 0.3 * af.tokens.gaussian(n=30, d=2, seed=2)])
    af.simulate(x0, af.Hardmax(), af.Layers(gamma=0.1), until=20).animate(tmp_path / "run.gif", seconds=0.6)
    own = local_palettes((tmp_path / "run.gif").read_bytes())
    assert len(own) > 9
    assert not any(own)
    with Image.open(tmp_path / "run.gif") as film:
        for frame in ImageSequence.Iterator(film):
            assert (np.asarray(frame.convert("RGB"))[0, 0] == 255).all()


def test_a_gif_is_read_as_it_was_drawn(tmp_path: Path) -> None:
    rng, writer = np.random.default_rng(1), Gif(rate=25)
    frames = [np.full((40, 50, 3), 255, dtype=np.uint8) for _ in range(6)]
    for k, frame in enumerate(frames):
        frame[10:20, 5 * k : 5 * k + 20] = rng.integers(0, 256, (10, 20, 3))
    with writer.saving(None, str(tmp_path / "noise.gif"), 100.0):
        writer.frames.extend(frames)
    with Image.open(tmp_path / "noise.gif") as film:
        read = [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(film)]
    for drawn, shown in zip(alike(frames), read, strict=True):
        np.testing.assert_array_equal(np.asarray(drawn.convert("RGB")), shown)


def test_ffmpeg_that_fails_says_why_and_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(path: Path, then: type[BaseException] | None = None) -> None:
        with writing(path, 16, 16, rate=25) as movie:
            movie.add(np.zeros((16, 16, 3), dtype=np.uint8))
            if then is not None:
                raise then

    with refused(r"ffmpeg could not write the movie \(.+\): ask for a GIF"):
        write(tmp_path / "nowhere" / "run.mp4")
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "run.mp4", KeyboardInterrupt)

    def missing() -> str:
        raise RuntimeError("no ffmpeg exe could be found")

    monkeypatch.setattr("imageio_ffmpeg.get_ffmpeg_exe", missing)
    with refused("no ffmpeg program was found: install ffmpeg, or ask for a .gif"):
        program()
