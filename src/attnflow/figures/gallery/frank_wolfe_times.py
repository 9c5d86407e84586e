"""Tokens on their way to the vertices of their cells, and how long it takes: figures of the Frank-Wolfe paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.figures.cells import draw_cells, draw_hull, draw_origin, draw_vertices, make_room
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.gallery.frank_wolfe_polygons import directions, uniform_in
from attnflow.figures.marks import dots, key, stars, starts, trails
from attnflow.figures.papers import FRANK_WOLFE
from attnflow.figures.plot import happened
from attnflow.figures.scene import Scene, scene_at
from attnflow.figures.style import DASHED, colours, log_axis, sheet, tone
from attnflow.geometry import Cells, cells
from attnflow.runs.trajectory import Trajectory

MARKERS = ("o", "s", "^", "D", "v")
# Distances below this are left to rounding.
SMALLEST = 1e-9


@entry("fw/run", "Tokens run along straight lines to the vertices of their cells", FRANK_WOLFE)
def straight_lines(
    seed: int = 0, k: int = 7, n: int = 150, gamma: float = 0.1, moment: int = 8, until: int = 60
) -> Drawing:
    """Hardmax layers from the vertices of a polygon and tokens inside: x_i^t = v + (1 - gamma)^t (x_i^0 - v)."""
    run, parts = _run_inside(seed, k, n, gamma, until)
    shown = scene_at(run, moment)
    figure = sheet(5.2, 5.3)
    ax = figure.add_subplot()
    # Tokens 0, 1, ... are the vertices, so theirs are the colours of the cells.
    behind = partial(_cells_behind, parts=parts, labels=shown.groups.labels[:k])
    behind(ax)
    _followers(ax, shown, parts)
    ax.set_title(happened(shown))
    key(figure)
    goal = parts.vertices[parts.label(run.tokens[0])]
    left = (1 - gamma) ** run.times.astype(float)
    worst = float(np.abs(run.tokens - goal - left[:, None, None] * (run.tokens[0] - goal)).max())
    ends = af.measure.clusters(run.final, 0.05).count
    sizes = np.bincount(parts.label(run.tokens[0]), minlength=k)
    caption = (
        f"{n} tokens under hardmax attention, gamma = {gamma:g}, {moment} steps after the start (hollow dots): each "
        "runs along a straight line to the vertex of the cell it started in, all at the same rate, and the vertices, "
        f"which lead (stars), never move. In {until} steps no coordinate is farther than {worst:.1g} from the formula "
        "x^t = v + (1 - gamma)^t (x^0 - v). The movie shows the whole run over the same cells."
    )
    shows = {"tokens by cell": sizes, "clusters at the end": ends, "largest distance from the formula": worst}
    return Drawing(figure, caption, shows, film=run, behind=behind)


def _run_inside(seed: int, k: int, n: int, gamma: float, until: int) -> tuple[Trajectory, Cells]:
    """Return a hardmax run of the vertices of a polygon and tokens in it, and its cells."""
    x0, parts = inside_a_polygon(seed, k, n)
    return af.simulate(x0, af.Hardmax(), af.Layers(gamma=gamma), until=until), parts


def inside_a_polygon(seed: int, k: int, n: int) -> tuple[Array, Cells]:
    """Return the k vertices of a polygon and n - k tokens uniform in it, and its cells."""
    rng = np.random.default_rng(seed)
    parts = cells(directions(k, rng))
    return np.concatenate([parts.vertices, uniform_in(parts.hull.vertices, n - k, rng)]), parts


def _cells_behind(ax: Any, parts: Cells, labels: NDArray[np.int64]) -> None:
    """Draw cells in the colours of their tokens, and the hull, which stays as it is from the start to the end."""
    # The dashes of the hull of the start would lie on the solid line.
    for dashed in list(ax.lines):
        dashed.remove()
    make_room(ax, parts.hull.vertices)
    draw_cells(ax, parts, labels)
    draw_hull(ax, parts.hull)
    draw_origin(ax)
    draw_vertices(ax, parts.hull)


def _followers(ax: Any, shown: Scene, parts: Cells) -> None:
    """Draw a scene in which tokens have the colours of the cells they started in."""
    shown = shown.grouped(labels=shown.groups.labels[parts.label(shown.paths[0])])
    starts(ax, shown)
    trails(ax, shown)
    dots(ax, shown, -1)
    stars(ax, shown)


@entry("fw/rates", "Contraction to the vertices", FRANK_WOLFE)
def rates(
    seed: int = 0, k: int = 7, n: int = 60, gamma: Sequence[float] = (0.1, 0.35, 0.7), until: int = 60
) -> Drawing:
    """The largest distance of a token to its vertex, step by step, beside (1 - gamma)^t: slopes log(1 - gamma)."""
    figure = sheet(3.4, 3.7)
    ax = figure.add_subplot()
    slopes: list[float] = []
    for number, (step, colour) in enumerate(zip(gamma, colours(range(len(gamma))), strict=True)):
        run, parts = _run_inside(seed, k, n, step, until)
        goal = parts.vertices[parts.label(run.tokens[0])]
        far = np.linalg.norm(run.tokens - goal, axis=2)[:, k:]
        worst = far.max(axis=1)
        slopes.append(af.measure.contraction_rate(run.times, worst, scale=1.0).value)
        seen = worst > SMALLEST
        predicted = worst[0] * (1 - step) ** run.times.astype(float)
        ax.plot(run.times, predicted, color=colour, lw=1.0, zorder=2, gid="theory")
        ax.plot(
            run.times[seen][::2], worst[seen][::2], marker=MARKERS[number], ms=4, mfc=tone().paper, mew=0.9, ls="",
            color=colour, zorder=3, gid="distances", label=rf"$\gamma={step:g}$: slope ${slopes[-1]:.6f}$",
        )  # fmt: skip
    ax.set(xlabel="step $t$", ylabel=r"$\max_i\,|x_i^t-v_{\sigma(i)}|$", ylim=(SMALLEST, 3.0), xlim=(-1, until + 1))
    log_axis(ax, "y")
    ax.plot([], [], color=tone().ink, lw=1.0, label=r"$(1-\gamma)^t$")
    figure.legend(loc="outside lower center", ncols=1)
    exact = np.log1p(-np.asarray(gamma))
    caption = (
        f"The largest distance of {n - k} tokens in a polygon with {k} vertices to the vertices of their cells under "
        f"hardmax attention (marks), and (1 - gamma)^t times the first (lines). Slopes measured: {_plain(slopes)}; "
        f"log(1 - gamma): {_plain(exact)}."
    )
    return Drawing(figure, caption, {"slopes": slopes, "log(1 - gamma)": exact})


def _plain(numbers: Iterable[float], digits: int = 7) -> str:
    return ", ".join(f"{x:.{digits}g}" for x in numbers)


@entry("fw/arrival", "When softmax arrives where hardmax does", FRANK_WOLFE)
def arrival(
    k: Sequence[int] = (3, 4, 5), gamma: float = 0.1, inside: float = 0.35, radius: float = 0.05,
    lowest: float = 8.0, highest: float = 128.0, count: int = 161, until: int = 2000,
) -> Drawing:  # fmt: skip
    """The first step with |x_i - v_i| <= radius for all i, against beta, under softmax layers x + gamma (m - x)."""
    betas = np.geomspace(lowest, highest, count)
    hard = int(np.ceil(np.log(radius / inside) / np.log1p(-gamma)))
    found = {m: arrivals(m, betas, gamma, inside, radius, until) for m in k}
    first = [float(betas[steps >= 0].min(initial=np.inf)) for steps in found.values()]
    # From the next beta on, all polygons take as long as under hardmax.
    other = np.flatnonzero(np.any([steps != hard for steps in found.values()], axis=0)).max(initial=-1)
    settled = float(betas[min(int(other) + 1, count - 1)])
    figure = sheet(3.4, 3.3)
    ax = figure.add_subplot()
    for place, (m, steps) in enumerate(found.items()):
        ax.plot(
            betas, np.where(steps < 0, np.nan, steps), color=tone().palette[place], lw=1.0, marker=MARKERS[place],
            ms=9 - 3 * place, mfc=tone().paper, mew=0.9, markevery=count // 20, zorder=3 + place, gid="arrivals",
            label=f"$k={m}$",
        )  # fmt: skip
    ax.axhline(hard, color=tone().ink, lw=0.9, ls=DASHED, zorder=2, gid="hardmax", label=f"hardmax: {hard}")
    ax.axvspan(lowest, min(first), color=tone().wire, alpha=0.5, lw=0, zorder=0, gid="never")
    middle = float(np.sqrt(lowest * min(first)))
    style: dict[str, Any] = {"rotation": 90, "ha": "center", "va": "center", "transform": ax.get_xaxis_transform()}
    ax.text(middle, 0.64, f"not within {until} steps", **style)
    ax.set(xlabel=r"$\beta$", ylabel="steps to arrive", xlim=(lowest, 1.1 * highest), ylim=(0, None))
    log_axis(ax, "x")
    ax.legend(loc="upper right", borderaxespad=0.0)
    caption = (
        f"Regular polygons with one token at each vertex and one at distance {inside:g} from it towards the centre, "
        f"under softmax layers with gamma = {gamma:g}: the first step at which all are within {radius:g} of their "
        f"vertices. Hardmax takes {hard} steps, and so does softmax from beta = {settled:.3g} on. "
        f"For beta below {_plain(first, 3)} (k = {', '.join(map(str, k))}) it does not happen in {until} steps: tokens "
        "at the vertices are drawn inwards, and the others meet them too far from there."
    )
    shows = {
        "hardmax": hard,
        "smallest beta with an arrival": first,
        "steps at the largest beta": [int(s[-1]) for s in found.values()],
    }
    return Drawing(figure, caption, shows)


def arrivals(k: int, betas: Array, gamma: float, inside: float, radius: float, until: int) -> Array:
    """Return the first step at which all tokens are within the radius of their vertices, -1 where there is none."""
    v = af.tokens.polygon(k)
    goal = np.concatenate([v, v])
    start = np.concatenate([v, (1 - inside) * v])
    many = np.repeat(start[None], len(betas), axis=0)
    found = af.ensemble(
        many, af.Softmax(beta=betas), af.Layers(gamma=gamma), until=until, record=range(until),
        observe=lambda x: np.linalg.norm(x - goal, axis=-1).max(axis=-1),
    )  # fmt: skip
    near = found.values.reshape(len(found.times), len(betas)) <= radius
    return np.where(near.any(axis=0), found.times[near.argmax(axis=0)], -1)
