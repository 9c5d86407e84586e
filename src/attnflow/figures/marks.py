"""The marks of a scene: hollow dots at the start, trajectories, dots or a density, stars; and the key to them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array
from attnflow.figures.places import places
from attnflow.figures.scene import CROWD, Scene, edges, outline
from attnflow.figures.stage import HULL, lines
from attnflow.figures.style import figure_of, ramp, tone

# A token at the time that the picture shows: at the end or, in a movie, now. Tokens at one place are one dot.
START, TOKEN, LEADER, END, SAMPLE = "start", "token", "leader", "hull of the end", "one dot: "
NOW = "hull of now"
# How much of their colour trajectories have at their beginning and at their end; on the line; and over a density.
FAINT, STRONG, ON_LINE, IN_CROWD = 0.1, 0.55, 0.4, 0.2
# The area, in points squared, of the ring around a place with all tokens in it; the key shows that of a twentieth. And
# the areas of a start and of a token in the key.
RING, SHOWN, SHOWN_START, SHOWN_TOKEN = 2200.0, 0.05, 14.0, 26.0
PLACE = f"{SHOWN:.0%} of the tokens"
DENSITY = "density"
# Up to this many names of the key stand well apart.
FEW_NAMES = 4
# The area of a star, in points squared.
STAR = 60.0
# The part of the scale of colours that is left to paper, so that a single token is seen.
PALEST = 0.16


def starts(ax: Any, shown: Scene) -> None:
    """Draw a hollow dot where each token starts, in the colour of the group it ends with; none for a crowd."""
    if not shown.crowded:
        style = {"facecolors": tone().paper, "edgecolors": shown.colours, "linewidths": 0.8}
        signs(ax, shown.paths[0], s=0.4 * _area(shown.paths.shape[1]), zorder=4, label=START, **style)


def trails(ax: Any, shown: Scene, states: slice = slice(None)) -> list[Any]:
    """Draw the trajectories through some or all states, the older the fainter, and return what was drawn."""
    paths = shown.paths[states, shown.followed]
    if len(paths) < 2:
        return []
    from matplotlib.colors import to_rgba_array

    steps, n = len(paths) - 1, paths.shape[1]
    inks = [tone().ink] * n if shown.crowded else shown.colours
    rgba = np.tile(to_rgba_array(inks), (steps, 1))
    rgba[:, 3] = np.repeat(_strengths(paths, shown), n)
    segments = np.stack([paths[:-1], paths[1:]], axis=2).reshape(steps * n, 2, -1)
    return [lines(ax, segments, colors=rgba, linewidths=0.7, capstyle="butt", zorder=3)]


def dots(ax: Any, shown: Scene, k: int, met: NDArray[np.int64] | None = None) -> list[Any]:
    """Draw the tokens of the k-th state, or their density if they are a crowd, and return what was drawn.

    `met` (n,) says how many tokens are where a token is: its dot grows with them. Where much of a crowd has gathered at
    one place, a ring says how much.
    """
    if shown.crowded:
        draw, points = {1: _strips, 3: _sample}.get(shown.dimension, _density), shown.state(k)
        return [draw(ax, shown, k, points), *_rings(ax, shown, k, points)]
    n = shown.paths.shape[1]
    area = np.full(n, _area(n)) if met is None else _grown(n, met)
    return [_dots(ax, shown.paths[k], s=area, c=shown.colours, label=TOKEN)]


def polytope(ax: Any, shown: Scene, label: str = END) -> None:
    """Draw the hull of the end, if it is another than that of the start, and ring its vertices; a key gives the label.

    The hull is that of all tokens; of those in one cluster, one is ringed.
    """
    if shown.corners is None:
        return
    tokens = shown.state(len(shown.times) - 1)
    corners = tokens[shown.corners]
    if shown.dimension == 3:
        style = {"colors": tone().quiet, "linewidths": 0.8, "label": label, "gid": "end"}
        lines(ax, edges(tokens), zorder=2, **style)
    else:
        style = {"facecolor": (tone().ink, 0.05), "edgecolor": tone().quiet, "lw": 0.8}
        ax.fill(*outline(tokens).T, **style, zorder=2, label=label, gid="end")
    if not shown.crowded:
        # The rings of a crowd say how many tokens are there.
        area = _grown(shown.paths.shape[1], shown.groups.met)[shown.corners]
        ring = {"facecolors": "none", "edgecolors": tone().ink, "linewidths": 0.8, "gid": "vertices"}
        signs(ax, corners, s=(np.sqrt(area) + 4.5) ** 2, zorder=5, **ring)


def hull_of(ax: Any, shown: Scene, k: int) -> list[Any]:
    """Draw the hull of all tokens of the k-th state as a thin line, and return what was drawn."""
    tokens = shown.state(k)
    style = {"linewidths": 0.8, "zorder": 2, "gid": "now", "label": NOW}
    if shown.dimension == 3:
        return [lines(ax, edges(tokens), colors=[(tone().quiet, 0.7)], **style)]
    return [lines(ax, outline(tokens)[None], colors=[(tone().ink, 0.7)], **style)]


def stars(ax: Any, shown: Scene) -> None:
    """Draw a star at each leader of the last state."""
    if shown.groups.leaders is not None:
        star(ax, shown.paths[-1, shown.groups.leaders], label=LEADER)


def hollow(ax: Any, points: Array, area: float, **options: Any) -> Any:
    """Draw a mark in the colour of the paper, with a line around it, at each of some points; options of `scatter`."""
    style = {"facecolors": tone().paper, "edgecolors": tone().ink, "linewidths": 0.9}
    return ax.scatter(*points.T, s=area, **{**style, **options})


def star(ax: Any, points: Array, area: float = STAR, **options: Any) -> Any:
    """Draw a star at each of some points, whole at the edge of the picture too; options as those of `scatter`."""
    style = {"marker": "*", "c": tone().paper, "edgecolors": tone().ink, "linewidths": 0.8, "zorder": 6}
    return signs(ax, points, s=area, **{**style, **options})


def key(figure: Any) -> None:
    """Say once, under all panels of a figure, what the marks mean."""
    named = {label: mark for ax in figure.axes for mark, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    # Marks that have many colours or sizes are shown in ink, and in one size.
    plain = {START: _ring(SHOWN_START), TOKEN: _ring(SHOWN_TOKEN, filled=True), PLACE: _ring(SHOWN * RING)}
    named |= {label: mark for label, mark in plain.items() if label in named}
    order = (START, TOKEN, LEADER, HULL, NOW, END, PLACE)
    used = sorted(named, key=lambda label: order.index(label) if label in order else len(order))
    if used:
        style = {"borderpad": 0.2, "handletextpad": 0.4, "fontsize": 9.5, "labelcolor": tone().quiet}
        # Many names stand closer together, so that they fit under a picture.
        style["columnspacing"] = 2.0 if len(used) <= FEW_NAMES else 1.2
        marks = [named[label] for label in used]
        figure.legend(marks, used, loc="outside lower center", ncols=len(used), **style)
    if any(mark.get_gid() == DENSITY for ax in figure.axes for mark in ax.collections):
        # Beside a bar panels find their places in two passes: one here, one when they are drawn.
        figure.draw_without_rendering()


def scale(figure: Any, most: float | None = None, counts: str = "tokens") -> Any:
    """Give all densities of a figure one logarithmic scale of shades, up to `most` or to the largest, and a bar.

    The bar says what the density `counts`.
    """
    drawn = [mark for ax in figure.axes for mark in ax.collections if mark.get_gid() == DENSITY]
    if not drawn:
        return None
    from matplotlib.colors import LogNorm

    # From one token in a cell on.
    norm = LogNorm(1, max(10.0, most or max(float(mark.get_array().max()) for mark in drawn)))
    for mark in drawn:
        mark.set_norm(norm)
    shade_bar(figure, drawn[0], [mark.axes for mark in drawn]).set_label(f"{counts} in a cell")
    return norm


def shade_bar(figure: Any, drawn: Any, axes: Any, shrink: float = 0.7, aspect: float = 28) -> Any:
    """Draw a bar beside some axes that says which number has which shade."""
    bar = figure.colorbar(drawn, ax=axes, shrink=shrink, pad=0.03, aspect=aspect)
    bar.ax.yaxis.set_major_formatter(figure_of)
    bar.ax.minorticks_off()
    bar.outline.set_visible(False)
    return bar


def _area(n: int) -> float:
    """Return the area of a dot, in points squared: n dots cover about the same part of the picture."""
    return float(np.clip(5000 / n, 3.0, 26.0))


def _grown(n: int, met: NDArray[np.int64]) -> Array:
    """Return the areas of the dots of n tokens; `met` says how many tokens are at each dot."""
    # Area grows with the part of all tokens that met, after a first leap that makes room for a star.
    part = (met - 1) / n
    return _area(n) + 36 * np.minimum(1.0, 25 * part) + 380 * part


def _scatter(ax: Any, points: Array, **options: Any) -> Any:
    # Marks at the edge of the picture are whole.
    return ax.scatter(*points.T, clip_on=False, **options)


def signs(ax: Any, points: Array, **options: Any) -> Any:
    """Draw marks that are as strong behind as in front."""
    return _scatter(ax, points, **({"depthshade": False} if points.shape[1] == 3 else {}), **options)


def _dots(ax: Any, points: Array, **options: Any) -> Any:
    return _scatter(ax, points, edgecolors=tone().paper, linewidths=0.4, zorder=5, **options)


def _ring(area: float, filled: bool = False) -> Any:
    """Return a ring of the key, or a filled dot, which has an edge of paper as in the picture."""
    from matplotlib.lines import Line2D

    inside, edge = (tone().ink, tone().paper) if filled else ("none", tone().ink)
    return Line2D([], [], ls="", marker="o", mfc=inside, mec=edge, mew=0.4 if filled else 0.8, ms=math.sqrt(area))


def _strengths(paths: Array, shown: Scene) -> Array:
    """Return how strong each step of the trajectories is drawn, by the distance that tokens have come."""
    if shown.crowded or shown.dimension == 1:
        # Over a density trajectories stay in the background; on the line the axis tells their age.
        return np.full(len(paths) - 1, IN_CROWD if shown.crowded else ON_LINE)
    way = np.linalg.norm(np.diff(paths, axis=0), axis=-1).mean(axis=1).cumsum()
    strengths: Array = FAINT + (STRONG - FAINT) * way / max(way[-1], np.finfo(float).tiny)
    return strengths


def _density(ax: Any, shown: Scene, k: int, points: Array) -> Any:
    """Draw tokens in the plane as a density, dark where there are more, on a logarithmic scale."""
    cells = {"gridsize": 70, "extent": (*ax.get_xlim(), *ax.get_ylim()), "mincnt": 1}
    return ax.hexbin(*points.T, **cells, cmap=_inks(), linewidths=0.1, zorder=1, gid=DENSITY)


def _strips(ax: Any, shown: Scene, k: int, points: Array) -> Any:
    """Draw tokens on the line as a density in time and space, up to the k-th state."""
    low, high = ax.get_ylim()
    edges = np.linspace(low, high, 161)
    for j in range(k + 1):
        if (j, low, high) not in shown.strips:
            shown.strips[j, low, high] = np.histogram((points if j == k else shown.state(j))[:, 1], edges)[0]
    counts = np.stack([shown.strips[j, low, high] for j in range(k + 1)], axis=1)
    times = np.append(shown.times[: k + 1], shown.times[min(k + 1, len(shown.times) - 1)])
    cells = np.ma.masked_equal(counts, 0)
    return ax.pcolormesh(times, edges, cells, cmap=_inks(), zorder=1, rasterized=True, gid=DENSITY)


def _sample(ax: Any, shown: Scene, k: int, points: Array) -> Any:
    """Draw some of the tokens in space, and say how many each of them stands for."""
    step = -(-len(points) // CROWD)
    return _dots(ax, points[::step], s=7.0, c=shown.colours[::step], label=f"{SAMPLE}{step:,} tokens")


def _rings(ax: Any, shown: Scene, k: int, points: Array) -> list[Any]:
    """Draw a ring around each place that holds a hundredth of a crowd or more: its area says how much."""
    low, high = shown.extent
    found = places(points[:, 1:] if shown.dimension == 1 else points, low, high)
    if not len(found.counts):
        return []
    where = found.points
    if shown.dimension == 1:
        where = np.column_stack([np.full(len(where), shown.times[k]), where])
    style = {"facecolors": "none", "edgecolors": tone().ink, "linewidths": 1.0, "label": PLACE, "gid": "places"}
    return [_scatter(ax, where, s=RING * found.counts / len(points), zorder=6, **style)]


def _inks() -> Any:
    """Return the scale of colours without its palest part."""
    from matplotlib.colors import ListedColormap

    return ListedColormap(ramp()(np.linspace(PALEST, 1.0, 256)))
