"""The marks of a scene: hollow dots at the start, trajectories, dots or a density, stars; and the key to them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.figures.look import INK, PAPER, QUIET, colours, ramp
from attnflow.figures.scene import CROWD, Scene
from attnflow.figures.stage import HULL
from attnflow.inputs import Array

START, LEADER = "start", "leader"
# How much of their colour trajectories have at their beginning and at their end; on the line; and over a density.
FAINT, STRONG, ON_LINE, IN_CROWD = 0.1, 0.55, 0.4, 0.2


def starts(ax: Any, shown: Scene) -> None:
    """Draw a hollow dot where each token starts, in the colour of the group it ends with; none for a crowd."""
    if not shown.crowded:
        edges, area = colours(shown.groups.labels), 0.4 * _area(shown.paths.shape[1])
        _scatter(ax, shown.paths[0], s=area, facecolors=PAPER, edgecolors=edges, linewidths=0.8, zorder=4, label=START)


def trails(ax: Any, shown: Scene, first: int, last: int) -> list[Any]:
    """Draw the trajectories between two of the states, the older the fainter, and return what was drawn."""
    if last <= first:
        return []
    from matplotlib.colors import to_rgba_array

    paths = shown.paths[first : last + 1, shown.followed]
    steps, n = len(paths) - 1, paths.shape[1]
    inks = [INK] * n if shown.crowded else colours(shown.groups.labels[shown.followed])
    rgba = np.tile(to_rgba_array(inks), (steps, 1))
    rgba[:, 3] = np.repeat(_strengths(paths, shown), n)
    segments = np.stack([paths[:-1], paths[1:]], axis=2).reshape(steps * n, 2, -1)
    return [_lines(ax, segments, colors=rgba, linewidths=0.7, capstyle="butt", zorder=3)]


def dots(ax: Any, shown: Scene, k: int, met: NDArray[np.int64] | None = None) -> list[Any]:
    """Draw the tokens of the k-th state, or their density if they are a crowd, and return what was drawn.

    `met` (n,) says how many tokens are where a token is: its dot grows with them.
    """
    points, n = shown.paths[k], shown.paths.shape[1]
    if shown.crowded and points.shape[1] == 2:
        return [_strips(ax, shown, k) if shown.dimension == 1 else _density(ax, points)]
    area = np.full(n, _area(n))
    if met is not None:
        # Area grows with the part of all tokens that met, after a first leap that makes room for a star.
        part = (met - 1) / n
        area += 36 * np.minimum(1.0, 25 * part) + 380 * part
    some = slice(None, None, -(-n // CROWD))
    faces = colours(shown.groups.labels[some])
    return [_scatter(ax, points[some], s=area[some], c=faces, edgecolors=PAPER, linewidths=0.4, zorder=5)]


def stars(ax: Any, shown: Scene) -> None:
    """Draw a star at each leader of the last state."""
    if shown.groups.leaders is not None:
        places = shown.paths[-1, shown.groups.leaders]
        space = {"depthshade": False} if places.shape[1] == 3 else {}
        _scatter(ax, places, marker="*", s=60, c=PAPER, edgecolors=INK, linewidths=0.8, zorder=6, label=LEADER, **space)


def key(figure: Any) -> None:
    """Say once, under all panels of a figure, what the marks mean."""
    named = {label: mark for ax in figure.axes for mark, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    used = [label for label in (START, LEADER, HULL) if label in named]
    if used:
        style = {"borderpad": 0.2, "handletextpad": 0.4, "fontsize": 9.5, "labelcolor": QUIET}
        marks = [named[label] for label in used]
        figure.legend(marks, used, loc="outside lower center", ncols=len(used), **style)


def _area(n: int) -> float:
    """Return the area of a dot, in points squared: n dots cover about the same part of the picture."""
    return float(np.clip(5000 / n, 3.0, 26.0))


def _scatter(ax: Any, points: Array, **options: Any) -> Any:
    # Marks at the edge of the picture are whole.
    return ax.scatter(*points.T, clip_on=False, **options)


def _strengths(paths: Array, shown: Scene) -> Array:
    """Return how strong each step of the trajectories is drawn, by the distance that tokens have come."""
    if shown.crowded or shown.dimension == 1:
        # Over a density trajectories stay in the background; on the line the axis tells their age.
        return np.full(len(paths) - 1, IN_CROWD if shown.crowded else ON_LINE)
    way = np.linalg.norm(np.diff(paths, axis=0), axis=-1).mean(axis=1).cumsum()
    strengths: Array = FAINT + (STRONG - FAINT) * way / max(way[-1], np.finfo(float).tiny)
    return strengths


def _lines(ax: Any, segments: Array, **options: Any) -> Any:
    if segments.shape[-1] == 3:
        from mpl_toolkits.mplot3d.art3d import Line3DCollection  # type: ignore[import-untyped]

        return ax.add_collection3d(Line3DCollection(segments, **options), autolim=False)
    from matplotlib.collections import LineCollection

    return ax.add_collection(LineCollection(list(segments), **options), autolim=False)


def _density(ax: Any, points: Array) -> Any:
    """Draw tokens in the plane as a density, dark where there are more, on a logarithmic scale."""
    cells = {"gridsize": 70, "extent": (*ax.get_xlim(), *ax.get_ylim()), "bins": "log", "mincnt": 1}
    return ax.hexbin(*points.T, **cells, cmap=ramp(), linewidths=0.1, zorder=1)


def _strips(ax: Any, shown: Scene, k: int) -> Any:
    """Draw tokens on the line as a density in time and space, up to the k-th state."""
    from matplotlib.colors import LogNorm

    low, high = ax.get_ylim()
    edges = np.linspace(low, high, 161)
    counts = np.stack([np.histogram(state, edges)[0] for state in shown.paths[: k + 1, :, 1]], axis=1)
    times = np.append(shown.times[: k + 1], shown.times[min(k + 1, len(shown.times) - 1)])
    norm = LogNorm(vmin=1, vmax=shown.paths.shape[1])
    cells = np.ma.masked_equal(counts, 0)
    return ax.pcolormesh(times, edges, cells, cmap=ramp(), norm=norm, zorder=1, rasterized=True)
