"""A run in one picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.figures.look import PENCIL, colours, look, sheet
from attnflow.figures.scene import Scene, history, scene
from attnflow.inputs import Array, InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attnflow.trajectory import Trajectory

FAINT, STRONG = 0.06, 0.55


def plot(run: Trajectory, ax: Axes | None = None, t: float | None = None) -> Axes:
    """Draw a run in one picture and return its axes; the figure is ``ax.figure``.

    Tokens leave hollow dots where they start and trajectories that are fainter the older they are. Their last places
    are dots, coloured by cluster (by leader while there are more than 24 clusters), larger where more tokens met;
    leaders, as in `measure.leaders`, wear a star. The dashed line is the hull of the start.

    - Dimension 1: time and space; time is logarithmic from 200 steps, or units of time, on.
    - Dimension 2: the plane. Dimension 3: space. On the sphere, the sphere is drawn.
    - Higher dimensions: the first two principal components of the recorded tokens, as the axes say.
    - More than 3000 tokens: the density of the last state, and some of the trajectories.

    Parameters
    ----------
    run
        What `simulate` returned.
    ax
        Where to draw; by default a new figure. For tokens in dimension 3 it has ``projection="3d"``.
    t
        The time shown as the last, by default the end of the run.

    Examples
    --------
    >>> import attnflow as af
    >>> run = af.simulate(af.tokens.gaussian(n=30, d=2, seed=0), af.Hardmax(), af.Layers(alpha=0.5), until=50)
    >>> ax = run.plot()
    >>> ax.get_title()
    '6 clusters, 4 leaders at step 50'
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    with look():
        shown = scene(run, *history(run, t))
        if ax is None:
            ax = panel(sheet(*((6.4, 4.2) if shown.dimension == 1 else (5.2, 5.2))), 111, shown)
        elif (ax.name == "3d") != (shown.dimension == 3):
            wanted, given = ("3-D", "flat") if shown.dimension == 3 else ("flat", "3-D")
            raise InputError(
                f"ax is {given}, but tokens in dimension {shown.dimension} need {wanted} axes: leave ax out"
            )
        draw(ax, shown)
        ax.set_title(f"{shown.groups} at {shown.clock.says(shown.times[-1])}")
    return ax


def panel(figure: Any, place: Any, shown: Scene) -> Any:
    """Return new axes of a figure that fit a scene."""
    return figure.add_subplot(place, projection="3d" if shown.dimension == 3 else None)


def draw(ax: Any, shown: Scene) -> None:
    """Draw a whole scene on axes that fit it."""
    ground(ax, shown)
    trails(ax, shown, 0, len(shown.times) - 1)
    dots(ax, shown, len(shown.times) - 1)
    stars(ax, shown)


def ground(ax: Any, shown: Scene) -> None:
    """Draw what does not move: axes, the hull of the start or the sphere, the start itself."""
    if shown.dimension == 1:
        shown.clock.axis(ax)
        ax.set_ylabel(shown.names[0])
        frame(ax, shown.paths[..., 1:].reshape(-1, 1))
    else:
        for name, text in zip("xyz", shown.names, strict=False):
            getattr(ax, f"set_{name}label")(text)
        frame(ax, shown.paths.reshape(-1, shown.paths.shape[-1]), equal=True)
    if shown.sphere:
        _sphere(ax, shown.dimension)
    if shown.outline is not None:
        ax.plot(*shown.outline.T, ls=(0, (4, 3)), lw=0.9, color=PENCIL, zorder=1, label="hull of the start")
    if not shown.crowded:
        start = shown.paths[0]
        size = 0.55 * _area(len(start))
        ax.scatter(*start.T, s=size, facecolors="none", edgecolors=PENCIL, linewidths=0.6, zorder=2, label="start")


def frame(ax: Any, points: Array, *, equal: bool = False) -> None:
    """Set the limits of an axis, or of all with one scale, to hold the points, also when they all coincide."""
    low, high = points.min(axis=0), points.max(axis=0)
    spans = np.where(high > low, high - low, max(1.0, float(np.abs(points).max()) * 1e-3))
    if equal and len(spans) == 3:
        spans = np.full(3, spans.max())
    middle, half = (low + high) / 2, 0.54 * spans
    names = "y" if len(spans) == 1 else "xyz"
    for k, name in enumerate(names[: len(spans)]):
        getattr(ax, f"set_{name}lim")(middle[k] - half[k], middle[k] + half[k])
    if len(spans) == 3:
        ax.set_box_aspect((1, 1, 1))
    elif equal:
        ax.set_aspect("equal", adjustable="datalim")


def trails(ax: Any, shown: Scene, first: int, last: int) -> list[Any]:
    """Draw the trajectories between two of the states, the older the fainter, and return what was drawn."""
    if last <= first:
        return []
    paths = shown.paths[first : last + 1, shown.followed]
    steps, n = len(paths) - 1, paths.shape[1]
    segments = np.stack([paths[:-1], paths[1:]], axis=2).reshape(steps * n, 2, -1)
    from matplotlib.colors import to_rgba_array

    rgba = np.tile(to_rgba_array(colours(shown.groups.labels[shown.followed])), (steps, 1))
    rgba[:, 3] = np.repeat(np.linspace(FAINT, STRONG, steps), n)
    return [_lines(ax, segments, rgba)]


def _lines(ax: Any, segments: Array, rgba: Array) -> Any:
    options = {"colors": rgba, "linewidths": 0.7, "capstyle": "butt", "zorder": 3}
    if segments.shape[-1] == 3:
        from mpl_toolkits.mplot3d.art3d import Line3DCollection  # type: ignore[import-untyped]

        return ax.add_collection3d(Line3DCollection(segments, **options), autolim=False)
    from matplotlib.collections import LineCollection

    return ax.add_collection(LineCollection(list(segments), **options), autolim=False)
