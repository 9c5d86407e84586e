"""Figures of the hardmax transformer: leaders, whom tokens follow, and where they end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.figures.cells import draw_cells, draw_hull, draw_origin, draw_vertices, make_room
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.marks import LEADER, dots, key, stars, starts, trails
from attnflow.figures.papers import HARDMAX
from attnflow.figures.polytope import attracting, bare, shade, unstable
from attnflow.figures.scene import scene_at
from attnflow.figures.stage import ground, lines
from attnflow.figures.style import DASHED, colours, log_numbers, sheet, tone
from attnflow.runs.trajectory import Trajectory

Points = Sequence[tuple[float, float]]

EMERGING: Points = (
    (1, 1 / 3), (-1 / 12, 1 / 12), (-1, -1), (0, 1 / 4), (-0.3, -0.7), (-0.6, -0.9), (0.8, 0.1), (0.6, 0.15),
)  # fmt: skip
# Tokens on the axis of a trapezium hear two of its corners alike, and tend to the middle between them.
BETWEEN: Points = (
    (1, 0.9), (1, -0.9), (-0.8, 0.6), (-0.8, -0.6), (0.2, 0), (0.45, 0), (0.7, 0), (-0.15, 0), (-0.5, 0),
    (0.4, 0.5), (0.1, -0.6), (-0.4, 0.35), (-0.3, -0.45),
)  # fmt: skip
SQUARE: Points = ((1, 1), (-1, 1), (-1, -1), (1, -1))


@entry("hardmax/layers", "Leaders and followers, layer by layer", HARDMAX)
def layers(
    seed: int = 0, alpha: float = 0.5, layers: Sequence[int] = (0, 1, 2, 5, 30), followers: int = 9,
    emerging: Points = EMERGING, between: Points = BETWEEN,
) -> Drawing:  # fmt: skip
    """Four clouds, a row for each: the set C_i that every token follows, who leads, C_i = {i}, and their polygon."""
    rows = four_clouds(seed, followers, emerging, between)
    figure = sheet(7.0, 6.0)
    panels = figure.subplots(len(rows), len(layers), squeeze=False)
    shows: dict[str, Any] = {}
    for axes, (name, x0) in zip(panels, rows.items(), strict=True):
        run = af.simulate(x0, af.Hardmax(), af.Layers(alpha=alpha), until=max(layers))
        heard = [_followed(run, k) for k in layers]
        # What is followed keeps its colour through the layers of a row.
        known = {who: k for k, who in enumerate(dict.fromkeys(chain.from_iterable(heard)))}
        for ax, k, follows in zip(axes, layers, heard, strict=True):
            _layer(ax, run, k, follows, known)
        axes[0].set_ylabel(name, fontsize=10.5)
        shows[f"{name}: leaders"] = [(_leaders(who) + 1).tolist() for who in heard]
        shows[f"{name}: clusters at layer {layers[-1]}"] = af.measure.clusters(run.tokens[-1], 1e-3).count
    for ax, k in zip(panels[0], layers, strict=True):
        ax.set_title(f"layer {k}", fontsize=11)
    key(figure)
    new = af.simulate(rows["emerging leader"], af.Hardmax(), af.Layers(alpha=alpha), until=1).final[1]
    caption = (
        f"Hardmax layers with alpha = {alpha:g}, one cloud in each row. A line leads from every token to what it "
        "follows, which its colour tells too; stars are leaders, tokens that follow themselves alone and never move "
        f"again; their polygon is shaded. In the second row token 2 becomes a leader at layer 1, at ({new[0]:.4f}, "
        f"{new[1]:.4f}). In the last row tokens on the axis follow two leaders alike and gather between them, where "
        "nobody leads."
    )
    return Drawing(figure, caption, shows)


def four_clouds(seed: int, followers: int, emerging: Points, between: Points) -> dict[str, Array]:
    """Return the cloud of each row of the figure, by name."""
    return {
        "triangle": _within(af.tokens.polygon(3, angle=np.pi / 2), followers, seed),
        "emerging leader": np.array(emerging, dtype=np.float64),
        "square": _within(np.array(SQUARE, dtype=np.float64), followers + 3, seed),
        "non-leader clusters": np.array(between, dtype=np.float64),
    }


def _within(corners: Array, count: int, seed: int) -> Array:
    """Return corners and some random points of their convex hull."""
    inside = np.random.default_rng(seed).dirichlet(np.ones(len(corners)), count) @ corners
    return np.concatenate([corners, inside])


def _followed(run: Trajectory, k: int) -> list[tuple[int, ...]]:
    """Return the set C_i that each token follows at layer k."""
    assert run.law is not None
    return [tuple(np.flatnonzero(row).tolist()) for row in run.law.weights(run.tokens[k], k)]


def _leaders(follows: Sequence[tuple[int, ...]]) -> NDArray[np.int64]:
    """Return the tokens with C_i = {i}."""
    return np.array([i for i, who in enumerate(follows) if who == (i,)], dtype=np.int64)


def _layer(
    ax: Any, run: Trajectory, k: int, follows: Sequence[tuple[int, ...]], known: Mapping[tuple[int, ...], int]
) -> None:
    """Draw one layer of one cloud."""
    labels = np.array([known[who] for who in follows], dtype=np.int64)
    shown = scene_at(run, k).grouped(labels=labels, leaders=_leaders(follows))
    shown = replace(shown, groups=shown.groups.starred())
    ground(ax, shown)
    make_room(ax, run.tokens[0])
    x = run.tokens[k]
    draw_origin(ax)
    shade(ax, x[shown.groups.leaders], gid="leader polygon")
    pairs = [(i, j) for i, who in enumerate(follows) for j in who if j != i]
    inks = colours([labels[i] for i, _ in pairs])
    lines(ax, x[np.array(pairs)], colors=inks, linewidths=0.6, alpha=0.6, zorder=3, gid="links")
    dots(ax, shown, -1, shown.groups.met)[0].set_gid("tokens")
    stars(ax, shown)


@entry("hardmax/limits-on-faces", "Limits on faces", HARDMAX)
def limits_on_faces(
    alpha: float = 0.5, layers: int = 30, tokens: Points = ((0.5, 0.0), (-0.5, 0.0)), lift: float = 0.02
) -> Drawing:
    """Two tokens on the axis of a square tend to the middles of its sides like (1 + alpha)^{-k}, lifted ones do not."""
    square, inner = np.array(SQUARE, dtype=np.float64), np.array(tokens, dtype=np.float64)
    clouds = {"on the axis": inner, f"lifted by {lift:g}": inner + np.array([0.0, lift])}
    figure = sheet(7.0, 2.9)
    places = figure.subplots(1, 3)
    rate = places[2]
    shows: dict[str, Any] = {}
    ways = {}
    for ax, (name, x) in zip(places, clouds.items(), strict=False):
        run = af.simulate(np.concatenate([square, x]), af.Hardmax(), af.Layers(alpha=alpha), until=layers)
        assert run.law is not None
        # After the last layer each token goes straight on to the mean of what it follows.
        limits = run.law.attend(run.final)
        _square(ax, run)
        ax.set_title(name, fontsize=11)
        ways[name] = away = np.linalg.norm(run.tokens - limits, axis=2).max(axis=1)
        slope = float(np.polyfit(run.times[layers // 2 :], np.log(away[layers // 2 :]), 1)[0])
        shows |= {f"{name}: limits": limits[len(square) :], f"{name}: slope of the logarithm": slope}
    key(figure)
    _rates(rate, ways, alpha)
    found = af.geometry.stationary_points(square)
    shows |= {"points of S": len(found), "that attract": int(found.attracts.sum())}
    caption = (
        f"A square and two tokens, hardmax layers with alpha = {alpha:g}. On the axis a token scores two corners "
        "alike, follows both and tends to the middle of a side: a point of S that nobody ever reaches. Lifted by "
        f"{lift:g}, it is in the cell of one corner and tends to it. Colours are cells, diamonds the points of S that "
        f"do not attract ({len(found) - int(found.attracts.sum())} of {len(found)}). Right: the distance from the "
        f"limit shrinks by 1/(1 + alpha) = {1 / (1 + alpha):.3g} in every layer."
    )
    return Drawing(figure, caption, shows)


def _square(ax: Any, run: Trajectory) -> None:
    """Draw the cells of the square, the points of S and the tokens on their way."""
    corners = run.tokens[0, : len(SQUARE)]
    shown = scene_at(run)
    parts = af.geometry.cells(corners)
    labels = parts.label(shown.paths[-1])
    # A token on the boundary of two cells belongs to neither.
    labels[parts.gap(shown.paths[-1]) == 0] = -1
    shown = replace(shown.grouped(labels=labels), outline=None)
    ground(ax, shown)
    bare(ax)
    draw_cells(ax, parts)
    draw_hull(ax, parts.hull)
    draw_vertices(ax, parts.hull)
    draw_origin(ax)
    unstable(ax, af.geometry.stationary_points(corners))
    trails(ax, shown)
    # The corners lead and rest; the others go from hollow dots to full ones.
    rest = slice(len(corners), None)
    moving = replace(shown.grouped(labels=labels[rest]), paths=shown.paths[:, rest])
    starts(ax, moving)
    dots(ax, moving, -1)[0].set_gid("tokens")
    attracting(ax, corners, LEADER)


def _rates(ax: Any, ways: Mapping[str, Array], alpha: float) -> None:
    """Draw how far the tokens still have to go, and the rate of theory."""
    for k, (name, away) in enumerate(ways.items()):
        ax.semilogy(away, color=tone().palette[k], marker="os"[k], ms=3, lw=1.0, label=name, gid="distance")
    steps = np.arange(len(next(iter(ways.values()))))
    label = r"$\propto (1+\alpha)^{-k}$"
    ax.semilogy(steps, 0.1 * (1 + alpha) ** -steps, color=tone().pencil, ls=DASHED, lw=0.9, label=label)
    ax.set(xlabel="layer $k$", title="distance from the limit")
    ax.title.set_fontsize(11)
    log_numbers(ax.yaxis)
    ax.legend(fontsize=9, handlelength=1.6, borderaxespad=0.1)
