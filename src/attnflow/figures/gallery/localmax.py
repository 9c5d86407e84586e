"""Figures of localmax: quiescent sets, leaders that move, an energy that rises.

The rule is a reconstruction from the published abstract, as `attnflow.Localmax` says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.figures.cells import draw_origin, make_room
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.groups import counted
from attnflow.figures.marks import LEADER, dots, trails
from attnflow.figures.papers import LOCALMAX
from attnflow.figures.plot import draw
from attnflow.figures.polytope import attracting
from attnflow.figures.scene import outline, scene_at
from attnflow.figures.stage import HULL, ground
from attnflow.figures.style import DASHED, beside, colours, sheet, tone
from attnflow.geometry import QuiescentSet
from attnflow.runs.trajectory import Trajectory

RECONSTRUCTED = f"{LOCALMAX}; the rule is a reconstruction from its abstract"
CONFIDENCE = "Hegselmann, Krause, Opinion dynamics and bounded confidence (2002)"
Points = Sequence[Sequence[float]]
# Outlines keep this part of the picture away from the tokens they surround.
ROOM = 0.035
PROVED, UNPROVED = "quiescent, proved by its certificate", "quiescent, without certificate"


@entry("localmax/quiescent-sets", "Quiescent sets of localmax", RECONSTRUCTED)
def quiescent_sets(
    seed: int = 0, n: int = 40, deltas: Sequence[float] = (0.05, 0.6, 1.0), alpha: float = 0.5, layer: int = 4,
    until: int = 60,
) -> Drawing:  # fmt: skip
    """Tokens hear all j with <x_i, x_j> >= max - delta: the smallest groups that hear no other token."""
    x0 = af.tokens.gaussian(n=n, d=2, seed=seed)
    figure = sheet(7.0, 5.2)
    panels = figure.subplots(2, len(deltas), squeeze=False)
    shows: dict[str, Any] = {}
    for (early, late), delta in zip(panels.T, deltas, strict=True):
        law = af.Localmax(delta=delta)
        run = af.simulate(x0, law, af.Layers(alpha=alpha), until=until)
        found = {k: af.geometry.quiescent_sets(law, run.tokens[k], k) for k in (layer, until)}
        for ax, (k, groups) in zip((early, late), found.items(), strict=True):
            _groups(ax, run, k, groups, _numbers(groups, found[until]))
            ax.set_xlabel(counted(len(groups), "quiescent set"), fontsize=10)
            shows[f"delta = {delta:g}, layer {k}: sizes"] = [len(group.members) for group in groups]
        early.set_title(rf"$\delta={delta:g}$", fontsize=11.5)
    panels[0, 0].set_ylabel(f"layer {layer}")
    panels[1, 0].set_ylabel(f"layer {until}")
    _key(figure)
    caption = (
        f"{n} Gaussian tokens under localmax layers with alpha = {alpha:g}, after {layer} layers and after {until}, "
        "with their ways (lines, from faint to strong) and the hull of the start (dashed). A token hears all tokens "
        "whose score is within delta of its best one. Outlined are the quiescent sets: the "
        "smallest groups that hear nobody else (solid where the geometric certificate proves it, dotted elsewhere); "
        "their members are coloured, all others are grey. Numbers of sets at the end: "
        + ", ".join(f"{len(shows[f'delta = {d:g}, layer {until}: sizes'])} for delta = {d:g}" for d in deltas)
        + "."
    )
    return Drawing(figure, caption, shows)


def _numbers(groups: Sequence[QuiescentSet], last: Sequence[QuiescentSet]) -> list[int]:
    """Return the number of each set: that of the last one that most of its members end in, if it is still free."""
    numbers: list[int] = []
    for group in groups:
        shared = [0 if k in numbers else len(np.intersect1d(group.members, end.members)) for k, end in enumerate(last)]
        numbers.append(int(np.argmax(shared)) if any(shared) else max([len(last) - 1, *numbers]) + 1)
    return numbers


def _groups(ax: Any, run: Trajectory, k: int, groups: Sequence[QuiescentSet], numbers: Sequence[int]) -> None:
    """Draw a state with an outline around each quiescent set, in the colour of its number."""
    from matplotlib.patches import Polygon

    labels = np.full(len(run.final), -1)
    for number, group in zip(numbers, groups, strict=True):
        labels[group.members] = number
    shown = scene_at(run, k).grouped(labels=labels, leaders=None)
    ground(ax, shown)
    make_room(ax, run.tokens[0])
    draw_origin(ax)
    trails(ax, shown)
    dots(ax, shown, -1)[0].set_gid("tokens")
    room = ROOM * float(np.ptp(run.tokens[0], axis=0).max())
    for number, group in zip(numbers, groups, strict=True):
        proved = group.certificate is not None and group.certificate.holds
        ring = _around(run.tokens[k, group.members], room)
        style: dict[str, Any] = {"ls": "-" if proved else (0, (1, 1.5)), "label": PROVED if proved else UNPROVED}
        ax.add_patch(Polygon(ring, fill=False, ec=colours([number])[0], lw=1.2, zorder=6, gid="quiescent", **style))


def _around(points: Array, room: float) -> Array:
    """Return the boundary of the convex hull of discs around some points."""
    turns = np.linspace(0.0, 2 * np.pi, 48, endpoint=False)
    disc = room * np.column_stack([np.cos(turns), np.sin(turns)])
    return outline((points[:, None] + disc).reshape(-1, 2))


def _key(figure: Any) -> None:
    """Name dots and outlines under all panels, whatever their colour, and the hull."""
    from matplotlib.lines import Line2D

    used = {patch.get_label(): patch for ax in figure.axes for patch in ax.patches}
    lines = [Line2D([], [], color=tone().ink, lw=1.2, ls=patch.get_linestyle()) for patch in used.values()]
    marks, names = figure.axes[0].get_legend_handles_labels()
    lines.append(dict(zip(names, marks, strict=True))[HULL])
    dot: dict[str, Any] = {"ls": "", "marker": "o", "mec": tone().paper, "mew": 0.4, "ms": 5}
    lines[:0] = [Line2D([], [], mfc=ink, **dot) for ink in (tone().ink, tone().others)]
    style = {"fontsize": 9.5, "handletextpad": 0.4, "labelcolor": tone().quiet}
    texts = ["token of a set", "other token", *used, HULL]
    figure.legend(lines, texts, loc="outside lower center", ncols=3, **style)


@entry("localmax/leaders-move", "Leaders move under localmax", RECONSTRUCTED)
def leaders_move(
    tokens: Sequence[float] = (1.0, -1.0, 0.1, -0.1), gamma: float = 0.5, delta: float = 0.05, layers: int = 16
) -> Drawing:
    """Two leaders on the line with a follower each: it comes so close, <x_i, x_j> >= max - delta, that both move."""
    x0, step = np.array(tokens)[:, None], af.Layers(gamma=gamma)
    laws: dict[str, af.Law] = {"localmax": af.Localmax(delta=delta), "hardmax": af.Hardmax()}
    soft, hard = (af.simulate(x0, law, step, until=layers) for law in laws.values())
    limits = {name: af.simulate(x0, law, step, until=40 * layers).final[:, 0] for name, law in laws.items()}
    # The first layer at which the leader, token 0, hears somebody else.
    heard = next(k for k, x in enumerate(soft.tokens) if (laws["localmax"].weights(x)[0] > 0).sum() > 1)
    figure = sheet(7.0, 3.0)
    wide, near = figure.subplots(1, 2)
    for ax in (wide, near):
        _paths(ax, soft, hard)
        ax.set(xlabel="layer", xlim=(-0.4, layers + 0.4))
        ax.xaxis.get_major_locator().set_params(integer=True)
    wide.set(ylabel="$x$", ylim=(-1.15, 1.15))
    wide.set_title("all four tokens", fontsize=11)
    top = float(limits["localmax"].max())
    low, high = 1 - 4 * (1 - top), 1 + 0.5 * (1 - top)
    near.set(ylim=(low, high))
    near.set_title("near the leader at 1", fontsize=11)
    for name, value in (("localmax", top), ("hardmax", float(limits["hardmax"].max()))):
        near.axhline(value, color=tone().pencil, lw=0.7, ls=DASHED, zorder=1, gid=f"limit of {name}")
        beside(near, f"{value:.7g}", (layers, value), (0, -3), ha="right", va="top", fontsize=9)
    near.axvline(heard, color=tone().pencil, lw=0.7, zorder=1)
    beside(near, "the leader hears\nits follower", (heard, low), (4, 4), va="bottom", fontsize=9)
    attracting(wide, np.array([[0.0, x0.max()], [0.0, x0.min()]]), LEADER)
    wide.legend(loc="center right", fontsize=9.5)
    shows = {f"limits, {name}": value for name, value in limits.items()}
    caption = (
        f"Tokens {', '.join(f'{x:g}' for x in tokens)} on the line, gamma = {gamma:g}. Under hardmax the leaders at 1 "
        f"and -1 never move. Under localmax with delta = {delta:g} each hears its follower from layer {heard} on, and "
        f"the two pairs tend to {top:.7g} and {limits['localmax'].min():.7g}: leaders have moved, and the hull has "
        "lost its vertices."
    )
    return Drawing(figure, caption, {**shows, "leader hears its follower from layer": heard})


def _paths(ax: Any, soft: Trajectory, hard: Trajectory) -> None:
    """Draw both runs over the layers, a colour for each side of 0."""
    square = {"lw": 0.9, "ls": (0, (4, 2)), "marker": "s", "ms": 3.4, "mfc": tone().paper, "mew": 0.8, "gid": "hardmax"}
    dot = {"lw": 1.3, "marker": "o", "ms": 2.8, "gid": "localmax"}
    for i, ink in enumerate(colours([0 if x > 0 else 1 for x in soft.tokens[0, :, 0]])):
        for run, style in ((hard, square), (soft, dot)):
            ax.plot(run.times, run.tokens[:, i, 0], color=ink, label=None if i else style["gid"], **style)


@entry("localmax/lyapunov", "An energy that falls, and rises on a directed graph", f"{RECONSTRUCTED}; {CONFIDENCE}")
def lyapunov(
    seed: int = 0, n: int = 40, width: float = 6.0, eps: float = 1.0, tokens: Points = ((4.0,), (0.0,), (-1.0,)),
    gamma: float = 0.2, delta: float = 1.125, layers: int = 14,
) -> Drawing:  # fmt: skip
    """The pair energy sum_ij min(|x_i - x_j|^2, eps^2) under Hegselmann-Krause and, with eps^2 = 2 delta, localmax."""
    x0 = af.tokens.uniform(n=n, d=1, seed=seed, low=0.0, high=width)
    mutual = af.simulate(x0, af.HegselmannKrause(eps=eps), af.Layers(gamma=1.0), until=layers)
    directed = af.simulate(tokens, af.Localmax(delta=delta), af.Layers(gamma=gamma), until=layers)
    verdict = af.check("localmax/lyapunov/directed", tokens=tokens, gamma=gamma, delta=delta, steps=1)
    figure = sheet(7.0, 4.8)
    panels = figure.subplots(2, 2)
    cuts = (eps, math.sqrt(2 * delta))
    named = ("Hegselmann–Krause: a symmetric graph", "localmax: a directed graph")
    line: dict[str, Any] = {"color": tone().palette[0], "marker": "o", "ms": 3.2, "label": "pair energy"}
    energies = []
    for (above, below), run, cut, name in zip(panels.T, (mutual, directed), cuts, named, strict=True):
        draw(above, scene_at(run).grouped(leaders=None))
        above.set_xlabel("")
        above.set_title(name, fontsize=11)
        energies.append(af.measure.pair_energy(run, eps=cut))
        below.plot(run.times, energies[-1], **line, gid="energy")
        below.set(xlabel="layer", xlim=above.get_xlim())
        below.xaxis.get_major_locator().set_params(integer=True)
    for ax in panels[:, 1]:
        ax.set_ylabel("")
    panels[0, 0].set_ylabel("$x$")
    panels[1, 0].set_ylabel("pair energy")
    moved = 4 * (np.diff(mutual.tokens, axis=0) ** 2).sum(axis=(1, 2))
    bound = energies[0][0] - np.append(0.0, moved.cumsum())
    label = r"start $-\,4\sum|\Delta_i|^2$"
    panels[1, 0].plot(mutual.times, bound, color=tone().pencil, ls=DASHED, lw=1.0, label=label, gid="bound")
    panels[1, 0].legend(fontsize=9.5)
    rises = np.flatnonzero(np.diff(energies[1]) > 0)
    for k in rises:
        panels[1, 1].plot(
            directed.times[k : k + 2], energies[1][k : k + 2], color=tone().palette[1], marker="^", ms=4.5, lw=2.2,
            label="rises" if k == rises[0] else None, gid="rise",
        )  # fmt: skip
    panels[1, 1].legend(fontsize=9.5)
    drops = -np.diff(energies[0])
    # Tokens that have met move by rounding.
    moving = np.flatnonzero(moved > n * (np.finfo(float).eps * 8 * width) ** 2)
    frozen = int(moving.max(initial=-1)) + 1
    shows = {
        "at rest from layer": frozen, "least excess of the drop before": float((drops - moved)[moving].min()),
        "rises at layers": rises, "energies": energies[1][:3], "the claim that it never rises": verdict.outcome,
        "certified": verdict.certified,
    }  # fmt: skip
    caption = (
        f"Left: {n} uniform tokens, each moving to the mean of those within {eps:g} (Hegselmann-Krause). The energy "
        "sum_ij min(|x_i - x_j|^2, eps^2) drops in every step by at least 4 sum_i |Delta_i|^2 (dashed: the sum of "
        f"these from the start), and the tokens rest from layer {frozen} on. Right: localmax with delta = {delta:g}, "
        f"gamma = {gamma:g} from {', '.join(f'{float(x[0]):g}' for x in tokens)}, with eps^2 = 2 delta. Who hears whom "
        "is not symmetric: token 2, at 0, hears all and is pulled away from token 3, and the energy rises from "
        f"{energies[1][0]:.4g} to {energies[1][1]:.4g} in the first layer. The claim that it never rises is "
        f"{verdict.outcome}, in exact fractions."
    )
    return Drawing(figure, caption, shows)
