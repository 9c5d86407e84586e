"""A run as a movie."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnflow import measure
from attnflow.core import progress
from attnflow.core.inputs import InputError, number
from attnflow.figures import mp4
from attnflow.figures.clock import Clock
from attnflow.figures.gif import Gif
from attnflow.figures.groups import together
from attnflow.figures.marks import DENSITY, NOW, dots, hull_of, key, polytope, scale, stars, starts, trails
from attnflow.figures.plot import entitle, happened, headed, size
from attnflow.figures.saving import destination
from attnflow.figures.scene import Between, Scene, same_hull, scene
from attnflow.figures.stage import ground, panel
from attnflow.figures.style import DPI, look, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attnflow.runs.trajectory import Trajectory

# Frames a second. The last part of the movie, this fraction of it, holds the final state.
RATE = 25
HELD = 0.15
# Up to this many tokens dots grow as tokens meet: clusters are looked for in every frame.
MEETING = 500
# How many frames of the past a token trails behind it.
TRAIL = 18
# The scale of a density is found from JUDGED frames.
JUDGED = 12
# A notebook holds movies of up to this many bytes.
EMBEDDED = 20_000_000


@dataclass(frozen=True)
class Movie:
    """A movie that was written: `path` is its file. In a notebook it plays, if it is the value of a cell."""

    path: Path

    def _repr_html_(self) -> str:
        name = escape(str(self.path))
        if not self.path.is_file():
            return f"The movie {name} is not there any more."
        if self.path.stat().st_size > EMBEDDED:
            return f"The movie {name} is too large to be shown in a notebook."
        data = b64encode(self.path.read_bytes()).decode()
        if self.path.suffix.lower() == ".gif":
            return f'<img alt="{name}" style="max-width: 100%" src="data:image/gif;base64,{data}">'
        return f'<video controls loop style="max-width: 100%" src="data:video/mp4;base64,{data}"></video>'


def animate(
    run: Trajectory, path: str | Path | None = None, seconds: float = 6, behind: Callable[[Axes], object] | None = None
) -> Movie:
    """Write a run as a movie, MP4 or GIF by the ending of its path; a file that is there is replaced.

    What is returned holds the path, and plays in a notebook.

    Colours say with whom a token ends. Time passes evenly, or evenly in its logarithm from 200 steps, or units of
    time, on; the title tells it, under the law. The dashed line is the hull of the start; where it becomes another, a
    solid one is that of the moment. Between recorded states tokens move on straight lines, and those of a chain rest.
    At the end come the leaders. Hulls, densities and counts are those of all tokens, however many they are.

    Parameters
    ----------
    run
        What `simulate` returned.
    path
        Where to write, as "run.mp4" or "run.gif".
    seconds
        How long the movie lasts.
    behind
        Called once with the axes of the picture, it draws what stays behind the tokens, such as cells.

    Examples
    --------
    >>> import tempfile, attnflow as af
    >>> run = af.simulate([[2.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], af.Softmax(), af.Layers(gamma=0.5), until=9)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run.animate(f"{folder}/run.gif", seconds=0.1).path.name
    'run.gif'
    """
    if path is None:
        raise InputError("no path was given for the movie: give one, such as 'run.mp4' or 'run.gif'")
    if behind is not None and not callable(behind):
        raise InputError(f"behind is {behind!r}, expected a function that draws on axes: leave it out, or give one")
    target = destination(path, (".mp4", ".gif"))
    frames = max(2, round(number(seconds, "seconds", above=0.0, most=600.0) * RATE))
    held = round(HELD * frames)
    with look():
        from matplotlib.figure import Figure

        # Where Matplotlib finds ffmpeg.
        settings = {} if target.suffix.lower() == ".gif" else {"animation.ffmpeg_path": mp4.program()}
        times = Clock.of(run).even(frames - held)
        states = Between(run, times)
        shown = scene(run, times, states)
        # A figure that pyplot does not keep, with all that does not move.
        ax = panel(Figure(figsize=size(shown), layout="constrained"), 111, shown)
        ground(ax, shown)
        if behind is not None:
            behind(ax)
        starts(ax, shown)
        with pyplot().rc_context(settings):
            _film(ax, run, shown, _meetings(run, states), target, held)
    return Movie(target)


def _meetings(run: Trajectory, states: Between) -> list[NDArray[np.int64] | None]:
    """Return how many tokens are where each token is, at each time, while that is quick to say."""
    if len(run.final) > MEETING:
        return [None] * len(states)
    tol = together(run, run.final)
    found = [measure.clusters(state, tol) for state in states]
    return [clusters.sizes[clusters.labels] for clusters in found]


def _film(
    ax: Any, run: Trajectory, shown: Scene, met: Sequence[NDArray[np.int64] | None], target: Path, held: int
) -> None:
    """Draw and write one frame after the other, and the last one `held` times more."""
    last = len(shown.times) - 1
    hulls = shown.outline is not None and not same_hull(shown.state(0), shown.state(last))
    norm = _settled(ax, run, shown, met[-1], hulls)
    writer, resolution = _writer(target)
    with progress.task("movie: frame", last + 1 + held) as work, writer.saving(ax.figure, str(target), resolution):
        for k in range(last):
            work.reach(k)
            entitle(ax, headed(run, shown.clock.says(shown.times[k])))
            # At the start both hulls are one.
            moving = _moving(ax, shown, k, met[k], norm) + (hull_of(ax, shown, k) if hulls and k > 0 else [])
            writer.grab_frame()
            for artist in moving:
                artist.remove()
        _ended(ax, run, shown, met[-1], norm, hulls)
        for k in range(1 + held):
            work.reach(last + k)
            writer.grab_frame()


def _ended(ax: Any, run: Trajectory, shown: Scene, met: NDArray[np.int64] | None, norm: Any, hulls: bool) -> None:
    """Draw the last state, and what happened."""
    entitle(ax, headed(run, happened(shown)))
    polytope(ax, shown, label=NOW)
    if hulls and shown.corners is None:
        hull_of(ax, shown, len(shown.times) - 1)
    _moving(ax, shown, len(shown.times) - 1, met, norm)
    stars(ax, shown)


def _settled(ax: Any, run: Trajectory, shown: Scene, met: NDArray[np.int64] | None, hulls: bool) -> Any:
    """Draw the key, settle the places of everything by the last frame, and return the shades of a density, if any.

    With a new layout for each frame the picture would move.
    """
    before, most = set(ax.get_children()), _densest(ax, shown)
    _ended(ax, run, shown, met, None, hulls)
    norm = scale(ax.figure, most)
    key(ax.figure)
    ax.figure.draw_without_rendering()
    ax.figure.set_layout_engine("none")
    for mark in set(ax.get_children()) - before:
        mark.remove()
    return norm


def _densest(ax: Any, shown: Scene) -> float:
    """Return how many tokens are in the fullest cell of a density, judged by some of the frames."""
    most = 0.0
    if shown.crowded:
        for k in np.unique(np.linspace(0, len(shown.times) - 1, JUDGED).round().astype(int)).tolist():
            for mark in dots(ax, shown, k):
                most = max(most, float(mark.get_array().max()) if mark.get_gid() == DENSITY else 0.0)
                mark.remove()
    return most


def _moving(ax: Any, shown: Scene, k: int, met: NDArray[np.int64] | None, norm: Any) -> list[Any]:
    """Draw the tokens of the k-th state and the way they came; on the line, where that is the picture, all of it."""
    first = 0 if shown.dimension == 1 else max(0, k - TRAIL)
    drawn = trails(ax, shown, slice(first, k + 1)) + dots(ax, shown, k, met)
    for mark in drawn:
        if norm is not None and mark.get_gid() == DENSITY:
            mark.set_norm(norm)
    return drawn


def _writer(target: Path) -> tuple[Any, float]:
    """Return what writes the frames, and how many dots an inch has."""
    from matplotlib.animation import FFMpegWriter

    if target.suffix.lower() == ".gif":
        return Gif(RATE), 2 / 3 * DPI
    return FFMpegWriter(fps=RATE, codec="h264", extra_args=[*mp4.EXACT, "-crf", "20"]), DPI
