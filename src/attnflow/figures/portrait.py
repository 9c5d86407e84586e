"""A run in one picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnflow.figures.look import INK, PAPER, PENCIL, QUIET, colours, look, ramp, sheet
from attnflow.figures.scene import Scene, history, scene
from attnflow.inputs import Array, InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attnflow.trajectory import Trajectory

# How much of their colour trajectories have at their beginning and at their end.
FAINT, STRONG = 0.1, 0.55
START, LEADER, HULL = "start", "leader", "hull of the start"


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
        own = ax is None
        if ax is None:
            ax = panel(sheet(*size(shown)), 111, shown)
        elif (ax.name == "3d") != (shown.dimension == 3):
            wanted, given = ("3-D", "flat") if shown.dimension == 3 else ("flat", "3-D")
            raise InputError(
                f"ax is {given}, but tokens in dimension {shown.dimension} need {wanted} axes: leave ax out"
            )
        draw(ax, shown)
        ax.set_title(title(shown))
        if own:
            key(ax.figure)
    return ax


def size(shown: Scene) -> tuple[float, float]:
    """Return the width and height, in inches, of a figure with one picture."""
    return (6.4, 4.4) if shown.dimension == 1 else (5.2, 5.4)


def title(shown: Scene) -> str:
    """Return what happened, and when."""
    return f"{shown.groups} at {shown.clock.says(shown.times[-1])}"


def panel(figure: Any, place: Any, shown: Scene) -> Any:
    """Return new axes of a figure that fit a scene."""
    return figure.add_subplot(place, projection="3d" if shown.dimension == 3 else None)


def draw(ax: Any, shown: Scene) -> None:
    """Draw a whole scene on axes that fit it."""
    ground(ax, shown)
    trails(ax, shown, 0, len(shown.times) - 1)
    dots(ax, shown, len(shown.times) - 1, None if shown.crowded else shown.groups.met)
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
    if shown.dimension == 3:
        _room(ax, empty=shown.sphere)
    if shown.sphere:
        _sphere(ax, shown.dimension)
    if shown.outline is not None:
        ax.plot(*shown.outline.T, ls=(0, (4, 3)), lw=0.8, color=PENCIL, zorder=1, label=HULL)
    if not shown.crowded:
        start, edges = shown.paths[0], colours(shown.groups.labels)
        size = 0.4 * _area(len(start))
        ax.scatter(
            *start.T, s=size, facecolors=PAPER, edgecolors=edges, linewidths=0.8, zorder=4, label=START, clip_on=False
        )


def frame(ax: Any, points: Array, *, equal: bool = False) -> None:
    """Set the limits of an axis, or of all with one scale, to hold the points, also when they all coincide."""
    low, high = points.min(axis=0), points.max(axis=0)
    spans = np.where(high > low, high - low, max(1.0, float(np.abs(points).max()) * 1e-3))
    if equal:
        # A cloud on a line, or nearly so, still gets a picture of some width.
        spans = np.maximum(spans, spans.max() * (1.0 if len(spans) == 3 else 0.5))
    middle, half = (low + high) / 2, 0.56 * spans
    names = "y" if len(spans) == 1 else "xyz"
    for k, name in enumerate(names[: len(spans)]):
        getattr(ax, f"set_{name}lim")(middle[k] - half[k], middle[k] + half[k])
    if equal and len(spans) == 2:
        ax.set_aspect("equal", adjustable="box")
        ax.xaxis.set_major_locator(_few_ticks())
        ax.yaxis.set_major_locator(_few_ticks())


def trails(ax: Any, shown: Scene, first: int, last: int) -> list[Any]:
    """Draw the trajectories between two of the states, the older the fainter, and return what was drawn."""
    if last <= first:
        return []
    paths = shown.paths[first : last + 1, shown.followed]
    steps, n = len(paths) - 1, paths.shape[1]
    segments = np.stack([paths[:-1], paths[1:]], axis=2).reshape(steps * n, 2, -1)
    from matplotlib.colors import to_rgba_array

    inks = [INK] * n if shown.crowded else colours(shown.groups.labels[shown.followed])
    rgba = np.tile(to_rgba_array(inks), (steps, 1))
    rgba[:, 3] = np.repeat(_strengths(paths, shown), n)
    return [_lines(ax, segments, rgba)]


def _strengths(paths: Array, shown: Scene) -> Array:
    """Return how strong each step of the trajectories is drawn, by the distance that tokens have come."""
    if shown.crowded or shown.dimension == 1:
        # Over a density trajectories stay in the background; on the line the axis tells their age.
        return np.full(len(paths) - 1, 0.2 if shown.crowded else 0.4)
    way = np.linalg.norm(np.diff(paths, axis=0), axis=-1).mean(axis=1).cumsum()
    strengths: Array = FAINT + (STRONG - FAINT) * way / max(way[-1], np.finfo(float).tiny)
    return strengths


def _lines(ax: Any, segments: Array, rgba: Array) -> Any:
    options = {"colors": rgba, "linewidths": 0.7, "capstyle": "butt", "zorder": 3}
    if segments.shape[-1] == 3:
        from mpl_toolkits.mplot3d.art3d import Line3DCollection  # type: ignore[import-untyped]

        return ax.add_collection3d(Line3DCollection(segments, **options), autolim=False)
    from matplotlib.collections import LineCollection

    return ax.add_collection(LineCollection(list(segments), **options), autolim=False)


def dots(ax: Any, shown: Scene, k: int, met: NDArray[np.int64] | None = None) -> list[Any]:
    """Draw the tokens of the k-th state, or their density if they are a crowd, and return what was drawn.

    `met` (n,) says how many tokens are where a token is: its dot grows with them.
    """
    points = shown.paths[k]
    if shown.crowded and points.shape[1] == 2:
        return [_strips(ax, shown, k) if shown.dimension == 1 else _density(ax, points)]
    every = max(1, len(points) // 3000)
    area = np.full(len(points), _area(len(points)))
    if met is not None:
        # Area grows with the part of all tokens that met, after a first leap that makes room for a star.
        part = (met - 1) / len(points)
        area += 36 * np.minimum(1.0, 25 * part) + 380 * part
    faces = colours(shown.groups.labels[::every])
    return [
        ax.scatter(
            *points[::every].T, s=area[::every], c=faces, edgecolors=PAPER, linewidths=0.4, zorder=5, clip_on=False
        )
    ]


def stars(ax: Any, shown: Scene) -> list[Any]:
    """Draw a star at each leader of the last state and return what was drawn."""
    if shown.groups.leaders is None:
        return []
    places = shown.paths[-1, shown.groups.leaders]
    options: dict[str, Any] = {
        "marker": "*",
        "s": 60,
        "facecolors": PAPER,
        "edgecolors": INK,
        "linewidths": 0.8,
        "zorder": 6,
        "clip_on": False,
    }
    if places.shape[1] == 3:
        options["depthshade"] = False
    return [ax.scatter(*places.T, **options, label=LEADER)]


def key(figure: Any) -> None:
    """Say once, under all panels of a figure, what the marks mean."""
    named = {label: mark for ax in figure.axes for mark, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    shown = [label for label in (START, LEADER, HULL) if label in named]
    if shown:
        figure.legend(
            [named[label] for label in shown],
            shown,
            loc="outside lower center",
            ncols=len(shown),
            borderpad=0.2,
            handletextpad=0.4,
            fontsize=9.5,
            labelcolor=QUIET,
        )


def _area(n: int) -> float:
    """Return the area of a dot, in points squared: n dots cover about the same part of the picture."""
    return float(np.clip(5000 / n, 3.0, 26.0))


def _density(ax: Any, points: Array) -> Any:
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    return ax.hexbin(
        *points.T,
        gridsize=70,
        extent=(left, right, low, high),
        bins="log",
        mincnt=1,
        cmap=ramp(),
        zorder=1,
        linewidths=0.1,
    )


def _strips(ax: Any, shown: Scene, k: int) -> Any:
    """Draw tokens on the line as a density in time and space."""
    from matplotlib.colors import LogNorm

    edges = np.linspace(*ax.get_ylim(), 161)
    counts = np.stack([np.histogram(state, edges)[0] for state in shown.paths[: k + 1, :, 1]], axis=1)
    times = np.append(shown.times[: k + 1], shown.times[min(k + 1, len(shown.times) - 1)])
    norm = LogNorm(vmin=1, vmax=shown.paths.shape[1])
    return ax.pcolormesh(times, edges, np.ma.masked_equal(counts, 0), cmap=ramp(), norm=norm, zorder=1, rasterized=True)


def _room(ax: Any, *, empty: bool) -> None:
    """Furnish space: pale walls, few numbers, marks in front of lines; nothing at all when empty."""
    ax.computed_zorder = False
    if empty:
        ax.set_axis_off()
    ax.set_box_aspect((1, 1, 1), zoom=1.35 if empty else 0.92)
    for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
        axis.set_pane_color(PAPER)
        axis.line.set_color(PENCIL)
        axis.set_major_locator(_few_ticks())


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(7, steps=[1, 2, 5, 10])


def _sphere(ax: Any, d: int) -> None:
    angles = np.linspace(0.0, 2 * np.pi, 181)
    if d == 2:
        ax.plot(np.cos(angles), np.sin(angles), lw=0.8, color=PENCIL, zorder=1)
        return
    for turn in np.linspace(0.1, np.pi + 0.1, 7)[:-1]:
        ax.plot(np.cos(turn) * np.cos(angles), np.sin(turn) * np.cos(angles), np.sin(angles), lw=0.4, color="#D0D0D0")
    for height in np.linspace(-1.0, 1.0, 7)[1:-1]:
        radius = np.sqrt(1 - height**2)
        ax.plot(radius * np.cos(angles), radius * np.sin(angles), height, lw=0.4, color="#D0D0D0")
