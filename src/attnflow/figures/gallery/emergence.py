"""Figures of the rescaled flow for V = I and its like: tokens tend to points S of a polytope, or of a prism over one.

The flow x_i' = V sum_j P_ij x_j is drawn in the frame z_i = e^{-tV} x_i, where z_i' = V sum_j P_ij (z_j - z_i). For
V = I the hull of the z_i decreases to a polytope K with vertices v_j, and each z_i tends to a point of
S = {x in K : |x|^2 = max_j <x, v_j>}: vertices, feet of perpendiculars from 0 on faces, perhaps 0.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import attnflow as af
from attnflow import figures
from attnflow.core.inputs import Array
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.groups import Groups, counted, groups
from attnflow.figures.marks import key
from attnflow.figures.papers import EMERGENCE
from attnflow.figures.planes import signed
from attnflow.figures.plot import draw
from attnflow.figures.polytope import faces, shade, solid, stations
from attnflow.figures.scene import Projection, Scene, edges, outline, scene_at
from attnflow.figures.stage import HULL, panel
from attnflow.figures.style import DASHED, beside, colours, figure_of, log_axis, sheet, tone
from attnflow.geometry import Hull, StationaryPoints

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attnflow.runs.trajectory import Trajectory

# The limit is read from a longer run than the one drawn: by then tokens are within about 1e-6 of it.
LATE = 14.0


@entry("emergence/polytope-2d", "A polygon attracts rescaled tokens", EMERGENCE)
def polytope_2d(seed: int = 9, n: int = 20, until: float = 5.0) -> Drawing:
    """V = I in the plane: trajectories to the vertices of the limit polygon, and how fast."""
    return _polytope(seed, n, 2, until)


@entry("emergence/polytope-3d", "A polytope attracts rescaled tokens", EMERGENCE)
def polytope_3d(seed: int = 6, n: int = 20, until: float = 5.0) -> Drawing:
    """V = I in space: trajectories to the vertices of the limit polytope, and how fast."""
    return _polytope(seed, n, 3, until)


def _polytope(seed: int, n: int, d: int, until: float) -> Drawing:
    run = rescaled(seed, n, d, max(until, LATE))
    K = limit(run.final)
    S = af.geometry.stationary_points(K.vertices)
    shown = seen(run, until, alike(groups(run, run.final, float(run.times[-1]))))
    if d == 3:
        shown = replace(shown, outline=edges(shown.paths[0]))
    figure, ax, beside = two_panels(shown, (3.9, 1.25) if d == 2 else (4.1, 1.5))
    if d == 2:
        widen(ax)
    solid(ax, K)
    stations(ax, S, K)
    slope = _approach(figure.add_subplot(beside), run, S, until, shown.groups)
    key(figure)
    taken = gathered(run.final)
    caption = (
        f"{n} tokens, uniform in [-5, 5]^{d}, under the flow with Q = K = V = I, in the frame z = e^-t x, up to t = "
        f"{until:g}. Their hull (dashed at the start) decreases to a {'polygon' if d == 2 else 'polytope'} of "
        f"{len(K.vertices)} vertices (numbered); S has {len(S)} points, of which tokens take {taken.count}; the others "
        f"are diamonds{', grey on faces that are turned away' if d == 3 else ''}. Right: the distance of "
        f"each token from S, but for those at its points, decreases like e^{slope:.2f}t once its leader is settled "
        "(dashed: e^-t)."
    )
    shows = {
        "vertices": len(K.vertices),
        "points of S": len(S),
        "limits taken": taken.count,
        "leaders": 0 if shown.groups.leaders is None else len(shown.groups.leaders),
        f"{'area' if d == 2 else 'volume'} of the limit polytope": volume(K),
        "slope of the distance": slope,
    }
    if d == 2:
        # By the end of the longer run tokens have met, and the movie counts and colours them as the picture does.
        caption += f" The movie goes on to t = {run.times[-1]:g}."
    return Drawing(figure, caption, shows, run if d == 2 else None, behind=partial(shade, points=K.vertices))


def rescaled(seed: int, n: int, d: int, until: float, V: Any = None) -> Trajectory:
    """Return the run of n tokens, uniform in [-5, 5]^d, under the flow with Q = K = I in its frame z = e^{-tV} x."""
    x0 = af.tokens.uniform(n=n, d=d, seed=seed, low=-5, high=5)
    return af.simulate(x0, af.Softmax(), af.RescaledFlow(V=V), until=until)


def two_panels(shown: Scene, shape: tuple[float, float]) -> tuple[Figure, Any, Any]:
    """Draw rescaled tokens on the left of a page, and return it, their panel, and the place on its right.

    `shape` is the height of the page, in inches, and how many times as wide the left of it is as the right.
    """
    figure = sheet(7.0, shape[0])
    grid = figure.add_gridspec(1, 2, width_ratios=(shape[1], 1.0))
    ax = panel(figure, grid[0], shown)
    draw(ax, shown)
    if shown.dimension == 3:
        furnish(ax)
    ax.set_title("rescaled tokens $z_i(t)$")
    return figure, ax, grid[1]


def limit(z: Array) -> Hull:
    """Return the polytope that tokens have come to: the hull of their clusters, at 1e-3 of their diameter."""
    return af.geometry.hull(gathered(z).centres)


def gathered(z: Array) -> af.measure.Clusters:
    """Return the clusters of tokens near their limits."""
    return af.measure.clusters(z, 1e-3 * af.measure.diameter(z))


def volume(K: Hull) -> float:
    """Return the area of a polygon or the volume of a polytope; 0 where it is flat.

    >>> volume(af.geometry.hull([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]))
    1.0
    """
    if K.dimension < K.vertices.shape[1]:
        return 0.0
    centre = K.vertices.mean(axis=0)
    cones = K.vertices[K.boundary()] - centre
    return float(np.abs(np.linalg.det(cones)).sum()) / (1, 1, 2, 6)[K.dimension]


def alike(found: Groups) -> Groups:
    """Return groups whose tokens all have dots of one size, with room for a star, so that one ring fits them all."""
    n = len(found.labels)
    return replace(found, met=np.full(n, 1 + n // 8))


def seen(run: Trajectory, until: float, colouring: Groups) -> Scene:
    """Return the scene of a run of a rescaled flow up to a time, coloured by given groups."""
    d = run.final.shape[1]
    names = tuple(f"$z_{k + 1}$" for k in range(d))
    found = scene_at(run, until, onto=Projection(np.eye(d), names))
    # The hull of the end is left to the limit polytope; in space that of the start has many edges, which hide tokens.
    # A figure chooses for itself from where it looks at planes.
    return replace(found, groups=colouring, corners=None, normal=None, outline=None if d == 3 else found.outline)


def projected(shown: Scene, matrix: Array, names: tuple[str, ...]) -> Scene:
    """Return the same scene as seen in the plane, y = z A for a matrix A (d, 2)."""
    paths = shown.paths @ matrix
    return replace(shown, paths=paths, names=names, dimension=2, outline=outline(paths[0]))


def basis(V: Array) -> tuple[Array, Array]:
    """Return the eigenvalues of a symmetric matrix, largest first, and eigenvectors, as columns.

    >>> basis(np.array([[1.0, 0.0], [0.0, 2.0]]))[0]
    array([2., 1.])
    """
    values, vectors = np.linalg.eigh(V)
    return values[::-1], signed(vectors)[:, ::-1]


def furnish(ax: Any) -> None:
    """Make a picture in space as large as its panel allows, with few numbers, the vertical ones on its free side."""
    from matplotlib.ticker import MaxNLocator

    ax.set_box_aspect((1, 1, 1), zoom=1.0)
    for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(figure_of)
    ax.zaxis.set_ticks_position("lower")
    ax.zaxis.set_label_position("lower")
    ax.zaxis.set_rotate_label(False)
    ax.set_zlabel(ax.get_zlabel(), rotation=0, labelpad=2)


def widen(ax: Any) -> None:
    """Leave room for numbers around a picture in the plane."""
    for low, high, put in ((*ax.get_xlim(), ax.set_xlim), (*ax.get_ylim(), ax.set_ylim)):
        put(low - 0.07 * (high - low), high + 0.07 * (high - low))


def _approach(ax: Any, run: Trajectory, S: StationaryPoints, until: float, colouring: Groups) -> float:
    """Draw the distance of each token from S over time, and return the median slope of its logarithm at the end."""
    times = np.linspace(0.0, until, 101)
    states = run.at(times)
    away = np.stack([af.measure.distance_to_limits(state, S) for state in states])
    # What the limit is known up to; a token that is itself a vertex has no distance to show.
    floor = 1e-5 * af.measure.diameter(run.tokens[0])
    moving = away[-1] > floor
    for i in np.flatnonzero(moving):
        ax.plot(times, away[:, i], color=colours(colouring.labels[[i]])[0], lw=0.9, alpha=0.8, gid="distance")
    top = 1.6 * float((away[:, moving] * np.exp(times)[:, None]).max(initial=1.0))
    ax.plot(times, top * np.exp(-times), color=tone().ink, lw=1.0, ls=DASHED, zorder=1, gid="guide")
    beside(ax, "$e^{-t}$", (0.45 * until, top * np.exp(-0.45 * until)), (4, 4))
    low = float(away[-1, moving].min(initial=top * np.exp(-until)))
    ax.set(xlim=(0, until), ylim=(low / 2, 1.3 * top), xlabel="time $t$", title="distance from $S$")
    log_axis(ax, "y")
    last = slice(-21, None)
    slopes = [np.polyfit(times[last], np.log(away[last, i]), 1)[0] for i in np.flatnonzero(moving)]
    return float(np.median(slopes)) if slopes else float("nan")


@entry(
    "emergence/polytope-hyperplane", "A polygon times a line attracts rescaled tokens", EMERGENCE,
    seed=2, n=20, until=5.0, V=[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -0.5]],
)  # fmt: skip
def polytope_hyperplane(seed: int, n: int, until: float, V: list[list[float]]) -> Drawing:
    """V = I on a plane F and smaller on a line G: the walls of a prism K x G, and the projection on F along G."""
    run = rescaled(seed, n, 3, max(until, LATE), V)
    left = af.geometry.classify(V).dominant.left
    assert left is not None
    # F has no preferred basis: here it is that in which the first two coordinates are those of space.
    along = np.asarray(np.linalg.solve(left[:, :2], left), dtype=np.float64)
    flat = run.final @ along.T
    K = limit(flat)
    S = af.geometry.stationary_points(K.vertices)
    nearest = np.linalg.norm(flat[:, None] - K.vertices[None], axis=2)
    walls = Groups(nearest.argmin(axis=1), np.ones(n, dtype=np.int64), None, leading(run))
    shown = seen(run, until, walls.starred())
    figure, space, beside = two_panels(shown, (3.9, 1.2))
    _prism(space, shown, K)
    plane = figure.add_subplot(beside)
    draw(plane, projected(replace(shown, groups=alike(walls)), along.T, ("$z_1$", "$z_2$")))
    solid(plane, K)
    widen(plane)
    stations(plane, S, K)
    plane.set_title("projected on $F$ along $G$")
    key(figure)
    away = af.measure.distance_to_limits(flat, S)
    caption = (
        f"{n} tokens, uniform in [-5, 5]^3, under the flow with Q = K = I and V = diag(1, 1, {V[2][2]:g}), in the "
        f"frame z = e^(-tV) x, up to t = {until:g}. Projected along G, the third axis, on F, the plane of the first "
        f"two, they tend to points S of a polygon K with {len(K.vertices)} vertices (right); in space, to lines over "
        "these, on the walls of K x G (left), along which they move apart."
    )
    shows = {
        "vertices": len(K.vertices),
        "points of S": len(S),
        "area of K": volume(K),
        "largest distance from S at t = " + f"{run.times[-1]:g}": float(away.max()),
    }
    return Drawing(figure, caption, shows)


def leading(run: Trajectory) -> NDArray[np.int64]:
    """Return the tokens that some token hears most at the end of a run."""
    assert run.law is not None
    return af.measure.leaders(run.law, run.seen(), float(run.times[-1])).distinct


def _prism(ax: Any, shown: Scene, K: Hull) -> None:
    """Draw the walls of K x G in the height of the picture, which is that of the tokens."""
    low, high = shown.paths[..., 2].min(), shown.paths[..., 2].max()
    reach = 1.06 * float(np.abs(shown.paths[..., :2]).max())
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), zlim=(low, high))
    sides = [K.vertices[list(edge)] for edge in K.boundary()]
    quads = [np.column_stack([np.vstack([s, s[::-1]]), [low, low, high, high]]) for s in sides]
    faces(ax, quads, 0.1, edgecolors=tone().ink, linewidths=0.6, gid="walls")


@entry("emergence/vertices", "How many vertices the limit polytope has", EMERGENCE)
def vertices(
    seed: int = 0, sizes: tuple[int, ...] = (5, 10, 20, 40, 80), dimensions: tuple[int, ...] = (2, 3, 4),
    starts: int = 20,
) -> Drawing:  # fmt: skip
    """The mean number of vertices of the limit polytope for V = I over random starts, against n, for several d."""
    over = {"n": sizes, "d": dimensions, "seed": range(seed, seed + starts)}
    found = af.sweep(limit_vertices, over=over, on="here")
    found.n.attrs["long_name"] = "number of tokens $n$"
    figure = figures.sweep(found, "vertices", lines="d")
    ax: Any = figure.axes[0]
    means, begun = ({d: found[name].mean("seed").sel(d=d).values for d in dimensions} for name in ("vertices", "start"))
    for d, colour in zip(dimensions, colours(range(len(dimensions))), strict=True):
        ax.plot(sizes, begun[d], color=colour, lw=0.9, ls=DASHED, gid=f"start d={d}")
    ax.plot([], [], color=tone().ink, lw=0.9, ls=DASHED, label=HULL)
    ax.legend(handles=ax.lines[-1:], loc="upper left")
    log_axis(ax, "y")
    grown = "; ".join(f"from {means[d][-2]:.3g} to {means[d][-1]:.3g} for d = {d}" for d in dimensions)
    caption = (
        "The number of vertices of the limit polytope against n, tokens uniform in [-5, 5]^d, Q = K = V = I: means of "
        f"{counted(starts, 'start')}, seeds {seed} to {seed + starts - 1}, with 95 per cent intervals, and for "
        "comparison the mean number of vertices of the hull of the start (dashed). They are counted at t = "
        f"{LATE:g}, tokens within 1e-3 of the diameter as one. From n = {sizes[-2]} to {sizes[-1]} the mean goes "
        f"{grown}. No law is known: this is evidence for these n and d alone."
    )
    shows = {f"mean vertices, d = {d}": means[d] for d in dimensions}
    shows |= {f"mean vertices of the start, d = {d}": begun[d] for d in dimensions}
    return Drawing(figure, caption, shows)


def limit_vertices(n: int, d: int, seed: int) -> dict[str, int]:
    """Return how many vertices the limit polytope of a start has, and the hull of the start."""
    run = rescaled(seed, n, d, LATE)
    return {"vertices": len(limit(run.final).vertices), "start": len(af.geometry.hull(run.tokens[0]).vertices)}
