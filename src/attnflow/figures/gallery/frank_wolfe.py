"""Cells of polygons under hardmax attention, exactly: figures of the Frank-Wolfe paper."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array
from attnflow.figures.cells import (
    area,
    cells_within,
    draw_cells,
    draw_hull,
    draw_origin,
    draw_vertices,
    draw_walls,
    make_room,
    point_of,
    tints,
    wheel,
)
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.gallery.frank_wolfe_polygons import corners, directions, scattered
from attnflow.figures.marks import hollow
from attnflow.figures.papers import FRANK_WOLFE
from attnflow.figures.style import colours, figure_of, ramp, sheet, tone
from attnflow.geometry import Cells, Hull, Region, cells

# How the points of a polygon are drawn, and what its row of the figure is called.
VARIANTS = {"equal norms": directions, "all on the hull": corners, "some inside": scattered}


@entry("fw/cells", "Cells of random polygons", FRANK_WOLFE)
def polygon_cells(seed: int = 3, k: Sequence[int] = (5, 9, 25)) -> Drawing:
    """The cells C_i = {x in K : <x, v_j> <= <x, v_i> for all j} of polygons of three kinds and several sizes."""
    figure = sheet(7.0, 7.9)
    panels = figure.subplots(len(VARIANTS), len(k), squeeze=False)
    drawn: list[list[Cells]] = []
    for row, (name, points) in enumerate(VARIANTS.items()):
        drawn.append([cells(points(m, np.random.default_rng([seed, row, column]))) for column, m in enumerate(k)])
        for ax, m in zip(panels[row], k, strict=True):
            _unit_circle(ax)
            ax.set_title(f"{name}, $k={m}$", fontsize=10.5, pad=9)
    point = point_of(panels[0, 0])
    for ax, parts in zip(panels.flat, chain(*drawn), strict=True):
        _polygon(ax, parts, point=point)
    _key(figure)
    counts = [[sum(len(shape) > 2 for shape in parts.polygons()) for parts in row] for row in drawn]
    owners = [[int(_owned(parts, parts.hull).sum()) for parts in row] for row in drawn]
    areas = [[sum(map(area, parts.polygons())) for parts in row] for row in drawn]
    caption = (
        "The cell of a vertex v_i of a polygon holds the points x for which <x, v_i> is largest: under hardmax "
        "attention tokens there follow v_i. Angles are drawn uniformly, norms are 1 (top) or drawn uniformly from "
        "[0.4, 1]; polygons without the disc of radius 1/4 inside are drawn again, and in the middle row a point is "
        "kept only if all stay vertices, so neither is quite uniform in the end. The grey circle has radius 1. "
        "Vertices are ringed and numbered; dots are points inside the hull, whose cells have no "
        "area; the cross is the origin. A filled ring is a vertex in the cell of another, which it follows; with "
        f"equal norms there is none. Of the vertices in the middle row {_list(owners[1])} own their cell, of those in "
        f"the last row {_list(owners[2])}."
    )
    return Drawing(figure, caption, {"cells": counts, "vertices that own their cell": owners, "areas": areas})


def _list(numbers: Sequence[float]) -> str:
    """Return numbers as text.

    >>> _list([1, 2, 5])
    '1, 2 and 5'
    """
    return " and ".join(filter(None, [", ".join(f"{x:g}" for x in numbers[:-1]), f"{numbers[-1]:g}"]))


def _owned(keys: Cells, outer: Hull) -> NDArray[np.bool_]:
    """Say which vertices of a polygon lie in the cell of their own key."""
    return keys.label(outer.vertices) == outer.indices


def _polygon(ax: Any, parts: Cells, keys: Cells | None = None, point: float | None = None) -> None:
    """Draw a polygon with the cells of its vertices, or of other keys, one each; rings outside their own are filled."""
    outer, keys = parts.hull, keys or parts
    inner = np.delete(parts.vertices, outer.indices, axis=0)
    shapes = cells_within(keys, outer)
    # Numbers and hues go around the hull: no hue comes twice, and neighbours differ.
    draw_cells(ax, [shapes[i] for i in outer.indices], inks=wheel(len(outer.indices)))
    draw_hull(ax, outer)
    draw_origin(ax)
    if len(inner):
        ax.scatter(*inner.T, s=7, color=tone().ink, zorder=3, gid="inside")
    draw_vertices(ax, outer, filled=~_owned(keys, outer), point=point)


def _key(figure: Any) -> None:
    """Say under all panels of polygons what their marks mean, as far as they are there."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    ink, (first, *_) = tone().ink, wheel(2)
    ring: dict[str, Any] = {"ls": "", "marker": "o", "ms": 26**0.5, "mec": ink, "mew": 0.9}
    gids = {mark.get_gid() for ax in figure.axes for mark in ax.get_children()}
    marks: dict[str, Any] = {
        "vertex in its own cell": Line2D([], [], mfc=tone().paper, **ring),
        "vertex in the cell of another": Line2D([], [], mfc=ink, **ring),
        "cell, hues in the order of numbers": Patch(fc=first, ec=tone().quiet, lw=0.6),
        "origin": Line2D([], [], ls="", marker="+", ms=6, mew=0.9, color=ink),
        "circle of radius 1": Line2D([], [], ls="", marker="o", ms=9, mfc="none", mec=tone().pencil, mew=0.6),
    }
    if "inside" in gids:
        marks["point inside the hull"] = Line2D([], [], ls="", marker="o", ms=7**0.5, color=ink)
    if "walls" in gids:
        marks["cells of the left"] = Line2D([], [], color=ink, lw=1.0, ls=(0, (3, 2)))
    style = {"fontsize": 9.5, "handletextpad": 0.5, "labelcolor": tone().quiet}
    figure.legend(list(marks.values()), list(marks), loc="outside lower center", ncols=3, **style)
    # Panels of one scale find their places in two passes: one here, one when they are drawn.
    figure.draw_without_rendering()


def _unit_circle(ax: Any) -> None:
    """Make room for the unit disc, and draw its edge."""
    from matplotlib.patches import Circle

    make_room(ax, np.array([[-1.0, -1.0], [1.0, 1.0]]))
    ax.add_patch(Circle((0, 0), 1.0, fill=False, edgecolor=tone().wire, lw=0.6, zorder=0.3))


@entry("fw/cells-raw-and-directions", "Cells of vertices and cells of their directions", FRANK_WOLFE)
def raw_and_directions(seed: int = 6, k: int = 7) -> Drawing:
    """The cells argmax <x, v_i> of a polygon beside the cones argmax <x, v_i / |v_i|>, which are others."""
    parts = cells(corners(k, np.random.default_rng(seed)))
    outer, norms = parts.hull, np.linalg.norm(parts.vertices, axis=1)
    units = cells(parts.vertices / norms[:, None])
    kinds = [parts.polygons(), cells_within(units, outer)]
    figure = sheet(7.0, 4.1)
    left, right = figure.subplots(1, 2)
    for ax, keys in ((left, parts), (right, units)):
        _unit_circle(ax)
        _polygon(ax, parts, keys)
    draw_walls(right, kinds[0], linestyles=[(0, (3, 2))], linewidths=1.0)
    left.set_title(r"vertices: largest $\langle x, v_i\rangle$")
    right.set_title(r"directions: largest $\langle x, v_i/|v_i|\rangle$")
    _key(figure)
    both = [[(one.vertices - one.vertices[i]) @ one.B for one in (parts, units)] for i in range(k)]
    common = sum(area(Region.cut(outer, np.concatenate(normals), np.zeros(2 * k)).vertices) for normals in both)
    share = 1 - common / area(outer.vertices)
    own = int(_owned(parts, outer).sum())
    caption = (
        f"Left, the cells of a polygon whose {k} vertices have norms between {norms.min():.2f} and {norms.max():.2f}: "
        "hardmax attention sends the tokens of a cell to its vertex. Right, what comes out if vertices are replaced by "
        f"their directions, with the cells of the left dashed: on {share:.0%} of the polygon another vertex leads. The "
        f"two agree when all norms are equal. On the left {own} of {k} vertices lie in their own cell, the others have "
        "filled rings; on the right all do."
    )
    shows = {
        "areas of cells": [area(shape) for shape in kinds[0]],
        "areas of cells of directions": [area(shape) for shape in kinds[1]],
        "part of the polygon on which they differ": share,
        "vertices that own their cell": own,
    }
    return Drawing(figure, caption, shows)


@entry("fw/contours", "The energy over polygons with vertices on one level", FRANK_WOLFE)
def contours(seed: int = 5, k: Sequence[int] = (5, 7, 10), c: float = 1.0) -> Drawing:
    """Contours of J(x) = 1/2 <Bx, x> over the hull of points v = sqrt(c) B^{-1/2} u, u unit vectors: J(v) = c / 2."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm, ListedColormap

    rng = np.random.default_rng(seed)
    stretch, B = _form(rng)
    edges = np.linspace(0.0, 1.0, 9) * c / 2
    # Numbers and lines have to stay visible on it, so the darkest end of the scale is left out.
    shades = ramp()(np.linspace(0.08, 0.6, len(edges) - 1))
    figure = sheet(7.0, 2.95)
    energies: list[list[float]] = []
    for ax, number in zip(figure.subplots(1, len(k)), k, strict=True):
        v = np.sqrt(c) * directions(number, rng) @ stretch
        parts = cells(v, B)
        make_room(ax, np.sqrt(c) * np.linalg.norm(stretch, axis=0) * np.array([[1.0], [-1.0]]))
        _levels(ax, parts.hull, B, edges, shades)
        draw_walls(ax, parts.polygons(), linestyles=[(0, (3, 2))], linewidths=0.9)
        draw_hull(ax, parts.hull)
        draw_origin(ax)
        draw_vertices(ax, parts.hull)
        ax.set_title(f"$k={number}$", pad=9)
        energies.append(parts.energies().tolist())
    scale = ScalarMappable(BoundaryNorm(edges, len(shades)), ListedColormap(shades))
    bar = figure.colorbar(scale, ax=figure.axes, orientation="horizontal", shrink=0.5, aspect=40, pad=0.02)
    bar.set_label(r"$J(x)=\frac{1}{2}\langle Bx,x\rangle$")
    bar.set_ticks(edges[::2].tolist(), labels=[figure_of(x) for x in edges[::2]])
    bar.outline.set(edgecolor=tone().pencil, linewidth=0.6)
    worst = max(abs(e - c / 2) for row in energies for e in row)
    caption = (
        f"The energy J(x) = 1/2 <Bx, x> over polygons with {_list(k)} vertices v = sqrt(c) B^(-1/2) u, u random unit "
        f"vectors, all of them on the ellipse J = {c / 2:g} (thin line outside), for B = {np.round(B, 3).tolist()}. "
        "Since all J(v_i) are equal, the cells (dashed) are the Voronoi cells of the vertices in the norm of B."
    )
    shows = {"levels": edges, "largest |J(v_i) - c/2|": worst, "B": B}
    return Drawing(figure, caption, shows)


def _form(rng: np.random.Generator) -> tuple[Array, Array]:
    """Return B^{-1/2} and B = R diag(1, 2) R^T, R a random rotation."""
    angle = rng.uniform(0.0, np.pi)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    values = np.array([1.0, 2.0])
    return (turn / np.sqrt(values)) @ turn.T, (turn * values) @ turn.T


def _levels(ax: Any, outer: Hull, B: Array, edges: Array, shades: Array) -> None:
    """Fill the ellipses {1/2 <Bx, x> <= level}, the largest first, cut by the polygon; outline the largest."""
    from matplotlib.patches import Ellipse, Polygon

    values, axes = np.linalg.eigh(B)
    angle = float(np.degrees(np.arctan2(axes[1, 0], axes[0, 0])))
    cut = Polygon(outer.vertices, closed=True, transform=ax.transData)

    def ellipse(level: float, **style: Any) -> Any:
        width, height = 2 * np.sqrt(2 * level / values)
        return ax.add_patch(Ellipse((0, 0), width, height, angle=angle, **style))

    for level, shade in zip(edges[:0:-1], shades[::-1], strict=True):
        part = ellipse(level, facecolor=shade, edgecolor=tone().quiet, lw=0.4, zorder=1, gid="level")
        part.set_clip_path(cut)
    ellipse(edges[-1], fill=False, edgecolor=tone().pencil, lw=0.6, zorder=0.4, gid="ellipse")


@entry("fw/dominance", "A strict dominance cone and its erosion", FRANK_WOLFE)
def dominance(seed: int = 0, k: int = 7, eta: float = 0.05, delta: float = 0.03) -> Drawing:
    """The cone I_i(eta) = {x in K : <v_i - v_j, x> >= eta for all j != i}, and its points with a delta-ball in it."""
    parts = cells(directions(k, np.random.default_rng(seed)))
    names = [int(i) for i in parts.hull.indices]
    cones = [parts.dominance(i, eta) for i in names]
    inner = [cone.erode(delta) for cone in cones]
    sizes = [area(one.vertices) if len(one.vertices) > 2 else 0.0 for one in inner]
    i = int(np.argmax(sizes))
    nested = [parts.region(names[i]).vertices, cones[i].vertices, inner[i].vertices]
    figure = sheet(7.0, 4.0)
    left, right = figure.subplots(1, 2)
    for ax, seen in ((left, parts.hull.vertices), (right, nested[0])):
        _nested(ax, parts, nested, i)
        make_room(ax, seen)
    draw_vertices(left, parts.hull)
    hollow(right, parts.hull.vertices[i], 26, zorder=4)
    right.spines[:].set(visible=True, color=tone().wire)
    _widths(right, parts.hull.vertices, i, eta, delta)
    left.set_title(f"$k={k}$ vertices of equal norm")
    right.set_title(f"the cone of vertex {i + 1}")
    handles = [mark for mark in left.patches if mark.get_gid() in ("cell", "cone", "eroded")]
    texts = [f"cell $C_{{{i + 1}}}$", rf"$I_{{{i + 1}}}(\eta)$, $\eta={eta:g}$", rf"eroded by $\delta={delta:g}$"]
    figure.legend(handles, texts, loc="outside lower center", ncols=3)
    areas = [area(polygon) for polygon in nested]
    left_over = [j + 1 for j, size in enumerate(sizes) if size > 0]
    caption = (
        f"The cell of vertex {i + 1} of a polygon with {k} vertices on the unit circle (area {areas[0]:.4f}); in it "
        f"the strict dominance cone I(eta), eta = {eta:g}, where <v_i - v_j, x> >= eta for every other vertex (area "
        f"{areas[1]:.4f}); in that the points whose ball of radius delta = {delta:g} stays inside (hatched, area "
        f"{areas[2]:.4f}). Of the {k} vertices {_list(left_over)} keep something after the erosion; the others have a "
        "neighbour too close."
    )
    shows = {"vertex": i + 1, "areas of cell, cone, eroded cone": areas, "vertices that keep something": left_over}
    return Drawing(figure, caption, shows)


def _widths(ax: Any, v: Array, i: int, eta: float, delta: float) -> None:
    """Mark how far the cone is from the wall towards a neighbour, eta / |v_i - v_j|, and what the erosion takes."""
    near, far = sorted([i - 1, (i + 1) % len(v)], key=lambda j: float(np.linalg.norm(v[i] - v[j])))
    # Norms are equal: the wall goes through the middle between the two vertices, where the side of the cell ends.
    apart, said = v[i] - v[far], rf"$\eta/|v_{{{i + 1}}}-v_{{{far % len(v) + 1}}}|$"
    _width(ax, 0.3 * (v[i] + v[far]), eta * apart / (apart @ apart), said)
    side, middle = v[near] - v[i], (3 * v[i] + v[near]) / 4
    inward = np.array([-side[1], side[0]]) / np.linalg.norm(side)
    _width(ax, middle, delta * inward * np.sign(-middle @ inward), r"$\delta$")


def _width(ax: Any, place: Array, step: Array, text: str) -> None:
    """Mark the distance from a place by a step, and name it in front of the place."""
    bar = {"arrowstyle": "|-|,widthA=0.25,widthB=0.25", "shrinkA": 0, "shrinkB": 0, "color": tone().ink}
    ax.annotate("", place, place + step, arrowprops=bar, zorder=5)
    before = place - 0.03 * step / np.linalg.norm(step)
    ax.text(*before, text, ha="left" if step[0] < 0 else "right", va="bottom" if step[1] < 0 else "top", fontsize=10)


def _nested(ax: Any, parts: Cells, nested: Sequence[Array], i: int) -> None:
    """Draw all cells in outline, and in one of them the cone and what is left of it, each stronger than the last."""
    from matplotlib.patches import Polygon

    draw_walls(ax, parts.polygons(), colors=tone().wire, linewidths=0.8, zorder=0.5)
    draw_hull(ax, parts.hull)
    draw_origin(ax)
    (hue,) = colours([i])
    ((*pale, _),) = tints([i])
    looks: list[dict[str, Any]] = [
        {"gid": "cell", "facecolor": (*pale, 0.18), "edgecolor": tone().quiet, "lw": 0.6},
        {"gid": "cone", "facecolor": (*pale, 0.35), "edgecolor": hue, "lw": 1.2},
        {"gid": "eroded", "facecolor": (*pale, 0.35), "edgecolor": tone().ink, "lw": 0.8, "hatch": "///"},
    ]
    for polygon, style in zip(nested, looks, strict=True):
        if len(polygon) > 2:
            ax.add_patch(Polygon(polygon, closed=True, zorder=1, **style))
