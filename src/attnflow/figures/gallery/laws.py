"""Figures that nobody has: one cloud under several laws, from beta = 0 to infinity, and the basins of its limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.figures.cells import area, draw_cells, draw_hull, draw_origin, draw_vertices, make_room, tints
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.groups import close
from attnflow.figures.marks import START, dots, hollow, key, stars, starts, trails
from attnflow.figures.papers import EMERGENCE, FRANK_WOLFE, LOCALMAX
from attnflow.figures.polytope import attracting, shade, unstable
from attnflow.figures.scene import Scene, scene_at
from attnflow.figures.stage import ground, lines
from attnflow.figures.style import colours, sheet, tone
from attnflow.geometry import Cells
from attnflow.runs.trajectory import Trajectory

RECONSTRUCTED = f"{LOCALMAX}, reconstructed from its abstract"
LIMITS = f"{EMERGENCE}, for the set S; {FRANK_WOLFE}, for the cells"
# After LONG layers it is decided which tokens lead, and followers are still apart from their leaders:
# (1 + alpha)^-60 is well above rounding.
LONG = 60
# All layers up to this one are recorded for trajectories.
EARLY = 12
# Basins that are not polygons are found point by point, ACROSS points in each direction, after SETTLED steps. Next to
# an outline FINER times as many points in each direction are looked at, and it is smoothed over SMOOTH points.
ACROSS, SETTLED, FINER, SMOOTH = 240, 60, 6, 1.3
Labels = NDArray[np.int64]


@entry("laws/side-by-side", "One cloud under three laws, with exact cells", f"{FRANK_WOLFE}; {RECONSTRUCTED}")
def side_by_side(
    seed: int = 0, n: int = 40, beta: float = 6.0, delta: float = 0.2, alpha: float = 0.5, layers: int = 60
) -> Drawing:
    """Three laws, one cloud: who ends where, and the cells {x : <x, v_j> <= <x, v_i>} of the polytope that is left."""
    x0 = af.tokens.gaussian(n=n, d=2, seed=seed)
    laws: dict[str, tuple[str, af.Law]] = {
        "softmax": (rf"softmax, $\beta={beta:g}$", af.Softmax(beta=beta)),
        "localmax": (rf"localmax, $\delta={delta:g}$", af.Localmax(delta=delta)),
        "hardmax": ("hardmax", af.Hardmax()),
    }
    runs = {name: _run(x0, law, alpha, layers) for name, (_, law) in laws.items()}
    scenes = _alike(list(runs.values()))
    figure = sheet(7.0, 3.1)
    shows: dict[str, Any] = {}
    for ax, (name, run), shown in zip(figure.subplots(1, 3), runs.items(), scenes, strict=True):
        parts = _limit_cells(run)
        ax.set_title(laws[name][0], fontsize=11)
        _final(ax, shown, x0)
        numbers = _numbers(parts.label(run.final), shown.groups.labels, len(parts.vertices))
        draw_cells(ax, parts, numbers)
        draw_hull(ax, parts.hull)
        ax.set_xlabel(str(shown.groups), fontsize=9.5)
        shows |= {
            f"{name}: clusters": shown.groups.clusters,
            f"{name}: vertices": len(parts.hull.vertices),
            f"{name}: area": area(parts.hull.vertices),
            f"{name}: areas of cells": [area(shape) for shape in parts.polygons()],
        }
    key(figure)
    caption = (
        f"{n} Gaussian tokens after {layers} layers with alpha = {alpha:g}. Tokens have the colour of the cell in "
        "which they end; cells are exact polygons of the hull that is left (solid), in the hull of the start "
        "(dashed). Its area: "
        + ", ".join(f"{shows[f'{name}: area']:.3g} under {name}" for name in runs)
        + ". Softmax at finite beta is still on its way: in the end it gathers all tokens in one point."
    )
    return Drawing(figure, caption, shows)


def _run(x0: Array, law: af.Law, alpha: float, layers: int) -> Trajectory:
    """Run layers and record the first ones, where tokens move most, and then fewer and fewer."""
    late = np.geomspace(min(EARLY, layers), layers, 8).round().astype(int)
    steps = sorted({*range(min(EARLY, layers) + 1), *late.tolist()})
    return af.simulate(x0, law, af.Layers(alpha=alpha), until=layers, record=steps)


def _limit_cells(run: Trajectory) -> Cells:
    """Return the cells of the hull of the clusters in which tokens have gathered."""
    gathered = af.measure.clusters(run.final, close(run.tokens[0], run.final))
    return af.geometry.cells(af.geometry.hull(gathered.centres).vertices)


def _alike(runs: Sequence[Trajectory]) -> list[Scene]:
    """Return the scenes of runs of one cloud; tokens are coloured by the cell in which they end, as in the last run."""
    scenes = [scene_at(run).grouped(labels=_limit_cells(run).label(run.final)) for run in runs]
    return [replace(shown, groups=shown.groups.matched(scenes[-1].groups)) for shown in scenes]


def _numbers(cells: Labels, labels: Labels, count: int) -> list[int]:
    """Return the label of each of `count` cells, given those of its tokens; cells without tokens get free ones."""
    known = dict(zip(cells.tolist(), labels.tolist(), strict=True))
    free = iter(sorted(set(range(2 * count + max(known.values()) + 1)) - set(known.values())))
    return [known[i] if i in known else next(free) for i in range(count)]


def _final(ax: Any, shown: Scene, x0: Array) -> None:
    """Draw a run without scales: hull of the start, trajectories, clusters, leaders."""
    ground(ax, shown)
    make_room(ax, x0)
    draw_origin(ax)
    starts(ax, shown)
    trails(ax, shown)
    dots(ax, shown, -1, shown.groups.met)[0].set_gid("tokens")
    stars(ax, shown)


@entry("laws/strip", "From beta = 0 to infinity", FRANK_WOLFE)
def strip(
    seed: int = 0, n: int = 40, betas: Sequence[float] = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 32.0, math.inf),
    alpha: float = 0.5, layers: int = 60,
) -> Drawing:  # fmt: skip
    """One cloud under softmax, P_ij = e^{beta <x_i, x_j>} / Z_i, at growing beta, the last of which is hardmax."""
    x0 = af.tokens.gaussian(n=n, d=2, seed=seed)
    laws = [af.Hardmax() if math.isinf(beta) else af.Softmax(beta=beta) for beta in betas]
    runs = [_run(x0, law, alpha, layers) for law in laws]
    columns = -(-len(betas) // 2)
    figure = sheet(7.0, 4.6)
    panels = figure.subplots(2, columns, squeeze=False).ravel()
    scenes = _alike(runs)
    for ax in panels[len(betas) :]:
        ax.set_visible(False)
    for ax, beta, shown in zip(panels, betas, scenes, strict=False):
        _final(ax, shown, x0)
        shade(ax, shown.paths[-1])
        ax.set_title(r"$\beta=\infty$" if math.isinf(beta) else rf"$\beta={beta:g}$", fontsize=11)
        ax.set_xlabel(str(shown.groups), fontsize=9)
    key(figure)
    shows: dict[str, Any] = {
        "clusters": [shown.groups.clusters for shown in scenes],
        "leaders": [0 if shown.groups.leaders is None else len(shown.groups.leaders) for shown in scenes],
        "diameters": [af.measure.diameter(run.final) for run in runs],
    }
    caption = (
        f"{n} Gaussian tokens after {layers} layers with alpha = {alpha:g}: softmax at beta = 0, where all go to the "
        f"mean, up to infinity, which is hardmax. Clusters: {', '.join(map(str, shows['clusters']))}; places that "
        f"lead: {', '.join(map(str, shows['leaders']))}. The hull of the last tokens is shaded, that of the start is "
        "dashed."
    )
    return Drawing(figure, caption, shows)


@entry("laws/basins", "The basin of each limit point", LIMITS)
def basins(
    seed: int = 2, n: int = 40, B: Sequence[Sequence[float]] = ((1.5, 0.5), (0.5, 0.8)), beta: float = 4.0,
    gamma: float = 0.05, tokens: int = 16,
) -> Drawing:  # fmt: skip
    """Polygons held fixed, and where a token ends under x <- x + gamma (m - x), m the mean of what it hears."""
    x0, form = af.tokens.gaussian(n=n, d=2, seed=seed), np.array(B)
    limits = [_limit_polygon(x0, af.Hardmax(B=matrix)) for matrix in (None, form)]
    held = {
        "limit of hardmax": af.geometry.cells(limits[0]),
        r"limit of hardmax, $B\neq I$": af.geometry.cells(limits[1], form),
        "hull of the start": af.geometry.cells(af.geometry.hull(x0).vertices),
    }
    figure = sheet(7.0, 6.6)
    panels = figure.subplots(2, 2).ravel()
    shows: dict[str, Any] = {}
    for ax, (name, parts) in zip(panels, held.items(), strict=False):
        ends = _ends(parts)
        found = af.geometry.stationary_points(parts.vertices, parts.B)
        _stage(ax, parts, found.points[found.attracts])
        unstable(ax, found)
        # Hues in order: those of vertices without a basin are free.
        labels = np.unique(ends, return_inverse=True)[1]
        draw_cells(ax, parts, labels)
        _tests(ax, parts, labels, _follow(af.Hardmax(B=parts.B), parts.vertices, _drawn(parts, tokens), gamma))
        ax.set_title(name, fontsize=11)
        areas = np.bincount(ends, [area(shape) for shape in parts.polygons()], len(ends))
        plain = name.replace(r"$B\neq I$", "B")
        shows |= {f"{plain}: areas of basins": areas[areas > 0], f"{plain}: points of S": len(found)}
    first = held["limit of hardmax"]
    share, attractors = _softmax_basins(panels[3], first, beta)
    way = _follow(af.Softmax(beta=beta), first.vertices, _drawn(first, tokens), gamma)
    _tests(panels[3], first, np.arange(len(first.vertices)), way)
    panels[3].set_title(rf"softmax, $\beta={beta:g}$", fontsize=11)
    key(figure)
    start = _ends(held["hull of the start"])
    lost = int((start != np.arange(len(start))).sum())
    shows |= {"softmax: points that attract": attractors, "softmax: part that ends elsewhere than in its cell": share}
    caption = (
        "The polygons are held fixed, and a token (hollow dot, with its way) moves towards the vertex that it scores "
        "highest. Colours tell where it ends, stars are the points that attract, diamonds the other points of S. "
        f"Above: the limit polygons of {n} Gaussian tokens under hardmax with B = I and B = {form.tolist()}, where "
        "every vertex owns its cell, so that basins are cells. Below left: the hull of the start, where cells of "
        f"vertices that do not own theirs ({lost} of {len(start)}) belong to the basin of another. Below right: the "
        f"first polygon under softmax at beta = {beta:g}, where {len(attractors)} points attract and basins are not "
        f"cells (dashed): {share:.0%} of the polygon ends elsewhere."
    )
    return Drawing(figure, caption, shows)


def _limit_polygon(x0: Array, law: af.Hardmax) -> Array:
    """Return the vertices of the limit under hardmax, which tokens occupy after finitely many layers."""
    last = af.simulate(x0, law, af.Layers(alpha=0.5), until=LONG).final
    alone = np.diagonal(law.weights(last)) == 1.0
    return af.geometry.hull(last[alone]).vertices


def _ends(parts: Cells) -> Labels:
    """Return for each cell C_i of a polygon the vertex at which its tokens end, B symmetric positive definite.

    A token in C_i moves towards v_i. It stays in C_i if v_i is there; else it enters the cell of the neighbour v_j on
    that side, the one with <B v_i, v_j> > <B v_i, v_i>, and never comes back, since <B v_j, v_i> > <B v_j, v_j> too
    would make <B(v_i - v_j), v_i - v_j> negative.
    """
    v = parts.vertices
    owned = parts.own_margins() > parts.own_rounding()
    scores = v @ parts.B.T @ v.T  # <B v_i, v_j>
    order = parts.hull.indices
    beside = {int(i): order[parts.hull.neighbours(k)] for k, i in enumerate(order)}
    after = np.array([i if owned[i] else beside[i][scores[i, beside[i]].argmax()] for i in range(len(v))])
    ends = np.arange(len(v))
    for _ in v:
        ends = after[ends]
    return ends


def _stage(ax: Any, parts: Cells, attractors: Array) -> None:
    """Draw what all panels share: the polygon, its vertices with their numbers, and stars at what attracts."""
    make_room(ax, parts.vertices)
    draw_hull(ax, parts.hull)
    draw_vertices(ax, parts.hull)
    attracting(ax, attractors)


def _step(law: af.Law, held: Array, x: Array, gamma: float) -> Array:
    """Return tokens after one layer in which they listen to sources held fixed: x + gamma (m - x)."""
    heard = np.exp(law.log_weights(x, sources=held)) @ held
    moved: Array = x + gamma * (heard - x)
    return moved


def _follow(law: af.Law, held: Array, x: Array, gamma: float) -> Array:
    """Return the way (T, n, 2) of tokens until they have all but e^-6 of it behind them."""
    way = [x]
    for _ in range(math.ceil(6 / gamma)):
        way.append(_step(law, held, way[-1], gamma))
    return np.stack(way)


def _drawn(parts: Cells, count: int) -> Array:
    """Return points spread evenly over a polygon: the first of a Halton sequence that are inside."""
    from scipy.stats.qmc import Halton, scale

    v = parts.vertices
    points: Array = scale(Halton(2, scramble=False).random(16 * count), v.min(axis=0), v.max(axis=0))
    return points[np.asarray(parts.hull.contains(points))][:count]


def _tests(ax: Any, parts: Cells, labels: Labels, way: Array) -> None:
    """Draw some tokens on their way (T, n, 2), in the colour, by label, of the cell in which they end."""
    inks = colours(labels[parts.label(way[-1])].tolist())
    lines(ax, way.transpose(1, 0, 2), colors=inks, linewidths=1.0, zorder=3, gid="ways")
    hollow(ax, way[0], 12, edgecolors=inks, zorder=4, label=START, gid="starts")


def _softmax_basins(ax: Any, parts: Cells, beta: float) -> tuple[float, Array]:
    """Colour a polygon by where softmax tokens end, its cells dashed; return how much differs, and what attracts."""
    v, law = parts.vertices, af.Softmax(beta=beta)
    axes = [np.linspace(low, high, ACROSS) for low, high in zip(v.min(axis=0), v.max(axis=0), strict=True)]
    points = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    ends = parts.label(_settle(law, v, points))
    # A token that starts at a vertex ends near it, or where its basin leads.
    attractors = af.measure.clusters(_settle(law, v, v), 1e-3).centres
    _stage(ax, parts, attractors)
    _regions(ax, axes, lambda x: parts.label(_settle(law, v, x)), ends)
    inside = np.asarray(parts.hull.contains(points))
    for shape in parts.polygons():
        ax.plot(*np.append(shape, shape[:1], axis=0).T, c=tone().ink, lw=0.7, ls=(0, (3, 2)), zorder=2.1, gid="cell")
    return float((ends != parts.label(points))[inside].mean()), attractors


def _regions(ax: Any, axes: Sequence[Array], label: Callable[[Array], Labels], labels: Labels) -> None:
    """Fill where each label is (gid "basins"), known on a grid, within the hull; outlines are smooth curves."""
    from scipy.ndimage import gaussian_filter

    present, shares = _shares(axes, label, labels)
    parts = np.stack([gaussian_filter(share, SMOOTH) for share in shares])
    hull = next(patch for patch in ax.patches if patch.get_gid() == "hull")
    for k, fill in enumerate(tints(present.tolist())):
        # Where it is more than any other: regions that share an outline leave no gap.
        margin = parts[k] - np.delete(parts, k, axis=0).max(axis=0, initial=0.0)
        for drawn in (
            ax.contourf(*axes, margin, levels=[0.0, 1.5], colors=[fill], zorder=0.4),
            ax.contour(*axes, margin, levels=[0.0], colors=[tone().quiet], linewidths=0.6, zorder=0.5),
        ):
            drawn.set_gid("basins")
            drawn.set_clip_path(hull)


def _shares(axes: Sequence[Array], label: Callable[[Array], Labels], labels: Labels) -> tuple[Labels, Array]:
    """Return the labels on a grid and how much of each of its squares each of them has, (k, m, m)."""
    from scipy.ndimage import maximum_filter, minimum_filter

    present, known = np.unique(labels, return_inverse=True)
    square = known.reshape([len(axis) for axis in axes[::-1]])
    mixed = maximum_filter(square, 3) != minimum_filter(square, 3)
    shares = np.stack([square == k for k in range(len(present))]).astype(np.float64)
    inner = (np.arange(FINER) + 0.5) / FINER - 0.5
    offsets = np.stack(np.meshgrid(*(inner * (axis[1] - axis[0]) for axis in axes)), axis=-1).reshape(-1, 2)
    near = np.stack(np.meshgrid(*axes), axis=-1)[mixed]
    found = label((near[:, None] + offsets).reshape(-1, 2)).reshape(len(near), -1)
    shares[:, mixed] = (found == present[:, None, None]).mean(axis=-1)
    return present, shares


def _settle(law: af.Law, held: Array, x: Array) -> Array:
    """Return where tokens end, up to what a picture shows."""
    for _ in range(SETTLED):
        x = _step(law, held, x, 0.5)
    return x
