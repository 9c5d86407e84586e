"""Exact cells on axes: who leads where, each a polygon with its hue, its boundary and its number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.core.inputs import Array, InputError
from attnflow.figures.marks import hollow
from attnflow.figures.polytope import bare
from attnflow.figures.stage import frame, lines
from attnflow.figures.style import colours, look, sheet, tone
from attnflow.geometry import Cells, Hull, Region

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# How much of its colour a cell has, at each round of the palette.
STRENGTHS = (0.42, 0.3, 0.62, 0.2)
# The hues of `wheel` in Oklab: where they begin, in turns, at the first colour of the palette, how light and how vivid
# they are; how much of them even cells have, odd cells, and the last of an odd number.
WHEEL_BEGINS, WHEEL_LIGHTNESS, WHEEL_CHROMA = 0.67, 0.66, 0.135
ALTERNATING = (0.62, 0.3, 0.45)
OKLAB_TO_CONES = (
    (1.0, 0.3963377774, 0.2158037573),
    (1.0, -0.1055613458, -0.0638541728),
    (1.0, -0.0894841775, -1.2914855480),
)
CONES_TO_RGB = (
    (4.0767416621, -3.3077115913, 0.2309699292),
    (-1.2684380046, 2.6097574011, -0.3413193965),
    (-0.0041960863, -0.7034186147, 1.7076147010),
)
# In points: how far outside the hull numbers stand, how far apart at least, and their type.
OUTSIDE, APART, TYPE = 9.0, 10.5, 8.5
# A number pushed away from its vertex by more than this many points is tied to it by a line.
TIED = 3.0
# Corners of the arc that goes around a vertex at a distance; the middle one is where its number belongs.
ARC = 9


def tints(labels: Iterable[int]) -> list[tuple[float, float, float, float]]:
    """Return the colour of each cell, which is that of its tokens, as it is filled: pale.

    >>> [round(alpha, 2) for *_, alpha in tints([0, 6, 7, 14])]
    [0.42, 0.42, 0.3, 0.62]
    """
    from matplotlib.colors import to_rgba

    numbers = list(labels)
    rounds = [label // len(tone().palette) % len(STRENGTHS) for label in numbers]
    return [to_rgba(hue, STRENGTHS[turn]) for hue, turn in zip(colours(numbers), rounds, strict=True)]


def wheel(k: int) -> list[tuple[float, float, float, float]]:
    """Return k fills that are all different, for cells around a point: hues once around, by turns strong and pale.

    Hues are evenly spaced in the colour space Oklab, where equal steps look equal; neighbours differ in lightness too,
    also in print. Of an odd number the last is between strong and pale, since its neighbour is the first.

    >>> fills = wheel(25)
    >>> len(set(fills)), [round(alpha, 2) for *_, alpha in fills[:3]], round(fills[-1][3], 2)
    (25, [0.62, 0.3, 0.62], 0.45)
    """
    turns = 2 * np.pi * (np.arange(k) / k + WHEEL_BEGINS)
    parts = [(WHEEL_LIGHTNESS, WHEEL_CHROMA * np.cos(turn), WHEEL_CHROMA * np.sin(turn)) for turn in turns]
    # Oklab to linear sRGB (Ottosson 2020), then to sRGB.
    cones = (np.array(parts) @ np.array(OKLAB_TO_CONES).T) ** 3
    linear = (cones @ np.array(CONES_TO_RGB).T).clip(0.0, 1.0)
    rgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    strengths = [ALTERNATING[i % 2] for i in range(k)]
    if k % 2 and k > 1:
        strengths[-1] = ALTERNATING[2]
    return [(*map(float, each), strength) for each, strength in zip(rgb, strengths, strict=True)]  # type: ignore[misc]


def cells_within(parts: Cells, within: Hull, bias: Array | None = None) -> list[Array]:
    """Return the corners of {x in W : <Bx, v_j> <= <Bx, v_i> for all j}, W another polygon than the hull of the v_i.

    With a bias b the scores are <Bx + b, v_j>.

    >>> from attnflow.geometry import cells, hull
    >>> window = hull([[2.0, 2.0], [-2.0, 2.0], [-2.0, -2.0], [2.0, -2.0]])
    >>> cells_within(cells([[1.0, 0.0], [-1.0, 0.0]]), window)[0]
    array([[ 2.,  2.],
           [ 0.,  2.],
           [ 0., -2.],
           [ 2., -2.]])
    """
    v = parts.vertices
    b = np.zeros(2) if bias is None else bias
    return [Region.cut(within, (v - v[i]) @ parts.B, (v[i] - v) @ b).vertices for i in range(len(v))]


def area(polygon: Array) -> float:
    """Return the area of a polygon with corners (m, 2) in order, 1/2 |sum_i x_i y_{i+1} - x_{i+1} y_i|.

    >>> area(np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]]))
    1.0
    """
    (x, y), (u, v) = polygon.T, np.roll(polygon, -1, axis=0).T
    return 0.5 * abs(float((x * v - u * y).sum()))


def draw_cells(
    ax: Any, parts: Cells | Sequence[Array], labels: Iterable[int] | None = None, inks: Sequence[Any] | None = None
) -> Any:
    """Draw cells in the plane, or any polygons, with a hue each (gid "cells") and return what was drawn.

    The i-th has the hue of i, or of the i-th of `labels`, or the i-th of `inks`: a colour, which is filled in pale, or
    (r, g, b, a), as it is. Those without an inside are left out.

    >>> from attnflow.figures.style import look, sheet
    >>> from attnflow.geometry import cells
    >>> with look():
    ...     ax = sheet(3.4, 3.4).add_subplot()
    ...     drawn = draw_cells(ax, cells([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0], [0.1, 0.1]]))
    >>> len(drawn.get_paths())
    3
    """
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgba

    shapes = parts.polygons() if isinstance(parts, Cells) else list(parts)
    fills = tints(range(len(shapes)) if labels is None else labels)
    if inks is not None:
        fills = [to_rgba(ink, None if isinstance(ink, tuple) and len(ink) == 4 else STRENGTHS[0]) for ink in inks]
    solid = [(shape, fill) for shape, fill in zip(shapes, fills, strict=True) if len(shape) > 2]
    drawn = PolyCollection(
        [shape for shape, _ in solid], facecolors=[fill for _, fill in solid], edgecolors=tone().quiet, linewidths=0.6,
        joinstyle="round", zorder=0.5, gid="cells",
    )  # fmt: skip
    return ax.add_collection(drawn)


def plot_cells(parts: Cells, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Draw the cells of a polygon and return the axes: see `attnflow.geometry.Cells.plot`."""
    corners = parts.hull.vertices
    if corners.shape[1] != 2 or parts.hull.dimension < 2:
        what = f"vertices in dimension {corners.shape[1]}" if corners.shape[1] != 2 else "vertices on a line"
        raise InputError(f"cells are drawn for polygons in the plane, these are {what}: use region(i)")
    with look():
        own = ax is None
        if ax is None:
            ax = sheet(4.4, 4.4).add_subplot()
            make_room(ax, np.concatenate([corners, np.zeros((1, 2))]) if parts.hull.contains([0.0, 0.0]) else corners)
        draw_cells(ax, parts)
        draw_hull(ax, parts.hull)
        if own:
            draw_origin(ax)
        draw_vertices(ax, parts.hull, parts.hull.indices)
        if title is not None:
            ax.set_title(title)
    return ax


def draw_walls(ax: Any, shapes: Iterable[Array], **style: Any) -> Any:
    """Draw the sides that two polygons share, once each (gid "walls"): dashes drawn twice would not be dashes."""
    seen: dict[tuple[Any, ...], int] = {}
    for shape in shapes:
        ends = [tuple(corner) for corner in (np.round(shape, 12) + 0.0).tolist()]
        for side in zip(ends, [*ends[1:], *ends[:1]], strict=True):
            seen[tuple(sorted(side))] = seen.get(tuple(sorted(side)), 0) + 1
    walls = np.array([side for side, times in seen.items() if times > 1])
    return lines(ax, walls, **{"zorder": 1.5, "gid": "walls", "colors": tone().ink, **style})


def draw_hull(ax: Any, outer: Hull) -> Any:
    """Draw the outline of a polygon as a thin solid line (gid "hull")."""
    from matplotlib.patches import Polygon

    style: dict[str, Any] = {"edgecolor": tone().ink, "lw": 1.0, "joinstyle": "round", "zorder": 2, "gid": "hull"}
    return ax.add_patch(Polygon(outer.vertices, closed=True, fill=False, **style))


def draw_origin(ax: Any) -> None:
    """Mark the origin with a small cross (gid "origin")."""
    ax.plot(0, 0, marker="+", ms=6, mew=0.9, color=tone().ink, ls="", zorder=3, gid="origin")


def make_room(ax: Any, points: Array) -> None:
    """Set limits that hold points, without a scale: shapes need none. Numbers find their room in the layout."""
    frame(ax, points)
    bare(ax)


def draw_vertices(
    ax: Any, outer: Hull, names: Iterable[Any] | None = None, *, filled: Any = False, point: float | None = None
) -> Any:
    """Ring the vertices of a polygon (gid "vertices") and number them 1, 2, ... around it, or by other names.

    Numbers (gid "number") stand outside, where they do not cover each other: those of vertices close together move
    along the outline, and a line ties them to their vertex. Set the limits of the axes before. `filled` says which
    rings are solid, and `point` what `point_of` would measure, for many panels of one scale.
    """
    corners = outer.vertices
    faces = np.where(np.broadcast_to(filled, len(corners)), tone().ink, tone().paper).tolist()
    rings = hollow(ax, corners, 26, facecolors=faces, zorder=4, clip_on=False, gid="vertices")
    said = [str(name) for name in (range(1, len(corners) + 1) if names is None else names)]
    point = point_of(ax) if point is None else point
    places, moved = _around(corners, OUTSIDE * point, APART * point)
    for corner, place, far, text in zip(corners, places, moved > TIED * point, said, strict=True):
        if far:
            tie = np.stack([corner, place + 0.45 * (corner - place)])
            ax.plot(*tie.T, lw=0.5, color=tone().pencil, zorder=2, clip_on=False)
        ax.text(*place, text, ha="center", va="center", fontsize=TYPE, color=tone().ink, zorder=5, gid="number")
    return rings


def point_of(ax: Any) -> float:
    """Return the length of a typographic point in units of the axes, after their places are settled."""
    ax.figure.draw_without_rendering()
    (left, _), (right, _) = ax.transData.transform([[0.0, 0.0], [1.0, 0.0]])
    return float(ax.figure.dpi / 72 / (right - left))


def _around(corners: Array, gap: float, apart: float) -> tuple[Array, Array]:
    """Return one place (k, 2) for each corner on the line at distance `gap` around a polygon, and how far it is moved.

    Along the line places are `apart`, and move by as little as can be in the sum of squares.
    """
    sides = np.roll(corners, -1, axis=0) - corners
    # The outward normal of each side; a corner sees the directions between those of its two sides.
    after = np.arctan2(-sides[:, 0], sides[:, 1])
    before = np.roll(after, 1)
    seen = before[:, None] + ((after - before) % (2 * np.pi))[:, None] * np.linspace(0.0, 1.0, ARC)
    line = (corners[:, None] + gap * np.stack([np.cos(seen), np.sin(seen)], axis=-1)).reshape(-1, 2)
    line = np.concatenate([line, line[:1]])
    way = np.append(0.0, np.linalg.norm(np.diff(line, axis=0), axis=1).cumsum())
    own = way[ARC // 2 : -1 : ARC]
    free = _spread(own, apart, float(way[-1]))
    places = np.column_stack([np.interp(free, way, axis, period=float(way[-1])) for axis in line.T])
    return places, np.abs(free - own)


def _spread(places: Array, apart: float, length: float) -> Array:
    """Return increasing places on a closed line of given length moved until they are `apart`, by least squares.

    >>> _spread(np.array([1.0, 1.5, 6.0]), 1.0, 10.0)
    array([0.75, 1.75, 6.  ])
    """
    from scipy.optimize import isotonic_regression

    k = len(places)
    apart = min(apart, length / k)
    steps = float(apart) * np.arange(k)
    # The closed line is cut open in its widest gap.
    first = (int(np.diff(places, append=places[0] + length).argmax()) + 1) % k
    opened = np.roll(places, -first) + length * (np.arange(k) >= k - first)
    moved: Array = isotonic_regression(opened - steps).x + steps
    if moved[-1] - moved[0] > length - apart:
        # The gap is closed as well: numbers stand evenly all around.
        moved = opened.mean() + np.linspace(-0.5, 0.5, k, dtype=np.float64) * (length - length / k)
    return np.roll(moved - length * (np.arange(k) >= k - first), first)
