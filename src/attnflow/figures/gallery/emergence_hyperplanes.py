"""Figures of the rescaled flow for a V with a dominant eigenvalue: tokens tend to parallel hyperplanes.

Let lambda_1 > 0 be the eigenvalue of largest modulus of V, simple and strictly dominant, with left eigenvector phi_1*.
Then each phi_1*(z_i), z = e^{-tV} x, tends to a, 0 or b, the limits of the smallest and of the largest value and 0: at
most three parallel hyperplanes {phi_1* = const}. With k eigenvalues of positive real part, so the conjecture, there are
at most three parallel subspaces of codimension k.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.gallery.emergence import basis, leading, projected, rescaled, seen, two_panels
from attnflow.figures.groups import Groups
from attnflow.figures.marks import key
from attnflow.figures.papers import EMERGENCE
from attnflow.figures.planes import planes
from attnflow.figures.plot import draw
from attnflow.figures.polytope import faces
from attnflow.figures.scene import Scene
from attnflow.figures.style import colours, tone

if TYPE_CHECKING:
    from attnflow.runs.trajectory import Trajectory

Rows = list[list[float]]

PLANES, LINES, THROUGH = "limit hyperplanes", "limit lines", "through 0, repels"
# A left eigenvector: \ast, unlike *, is not raised by itself already.
DUAL = r"$\varphi_{}^{{\,\ast}}$"
# Values of phi_1* this close, in parts of their spread at the start, are one.
CLOSE = 1e-3
# Tokens this close to a plane, in parts of the distance of the outer planes, are on it to the eye.
SEEN = 0.01
# The angle between planes and the direction in which one looks at them.
SLANT = np.radians(14.0)
# The room, in points, for the numbers of axes in space: beside the box, and below and above it.
NUMBERS = (24.0, 20.0)
# How the hyperplane through 0 is drawn, which repels.
UNSTABLE: dict[str, Any] = {"ls": (0, (1, 2)), "lw": 1.0}


@entry(
    "emergence/hyperplanes-2d", "Parallel lines attract rescaled tokens", EMERGENCE,
    seed=0, n=20, until=10.0, V=[[0.64709742, 0.81911926], [0.61210449, 0.63263484]],
)  # fmt: skip
@entry(
    "emergence/hyperplanes-3d-contracting", "Parallel planes, other eigenvalues with negative real part", EMERGENCE,
    seed=0, n=20, until=13.0,
    V=[[0.2362413, 0.0599536, 0.40506019], [0.81321448, 0.49948705, 0.33754772], [0.2160645, 0.38505272, 0.14588075]],
)  # fmt: skip
@entry(
    "emergence/hyperplanes-3d-expanding", "Parallel planes, other eigenvalues with positive real part", EMERGENCE,
    seed=0, n=20, until=13.0,
    V=[[0.18608476, 0.34391026, 0.13905949], [0.35244288, 0.6694859, 0.39992145], [0.46685606, 0.17094454, 0.42092308]],
)  # fmt: skip
def hyperplanes(seed: int, n: int, until: float, V: Rows) -> Drawing:
    """A dominant eigenvalue, in the plane or in space: tokens tend to hyperplanes {phi_1* = c}, at most three."""
    d = len(V)
    run = rescaled(seed, n, d, until, V)
    eigenvalues, phi = af.geometry.classify(V).eigenvalues, planes(run)
    assert phi is not None
    heights = run.tokens @ phi
    levels = _levels(heights)
    away = np.abs(heights[-1][:, None] - levels)
    # In space the picture ends when tokens are on the planes to the eye: later they only move apart in them.
    moment = until if d == 2 else _settled(run, phi, levels)
    shown = seen(run, moment, Groups(away.argmin(axis=1), np.ones(n, dtype=np.int64), None, leading(run)).starred())
    figure, ax, beside = two_panels(shown, (3.6, 1.15) if d == 2 else (4.1, 1.6))
    if d == 3:
        ax.set_title(rf"rescaled tokens $z_i(t)$, $t \leq {moment:g}$")
        # Planes are looked at under a small angle, at the usual height.
        up, along = np.radians(ax.elev), float(np.hypot(phi[0], phi[1]))
        turn = np.arccos(np.clip((np.sin(SLANT) - np.sin(up) * phi[2]) / (np.cos(up) * along or 1.0), -1.0, 1.0))
        ax.view_init(elev=ax.elev, azim=float(np.degrees(np.arctan2(phi[1], phi[0]) - turn)))
        _crop(ax, shown)
    for level in levels:
        (_line if d == 2 else _plane)(ax, phi, float(level))
    _over_time(figure.add_subplot(beside), run, phi, levels, shown.groups)
    key(figure)
    if d == 3:
        _fill(ax)
    first, *others = map(_number, eigenvalues)
    left = "" if moment == until else f" (left: to t = {moment:g})"
    caption = (
        f"{n} tokens, uniform in [-5, 5]^{d}, under the flow with Q = K = I, in the frame z = e^(-tV) x, up to t = "
        f"{until:g}{left}. The eigenvalues of V are {first}, with left eigenvector phi_1* (of length 1), and "
        f"{', '.join(others)}. Each phi_1*(z_i) tends to one of {', '.join(f'{level:.3f}' for level in levels)} "
        "(right): tokens tend to parallel hyperplanes, level sets of phi_1*, drawn where it says (left)."
    )
    if 0.0 in levels:
        caption += " The one through 0 (dotted) repels: almost no start leads there."
    shows = {
        "left eigenvector": phi,
        "eigenvalues": [first, *others],
        "levels": levels,
        "tokens on each": np.bincount(shown.groups.labels, minlength=len(levels)),
        "largest distance from a hyperplane": float(away.min(axis=1).max()),
    }
    return Drawing(figure, caption, shows)


def _levels(heights: Array) -> Array:
    """Return the values that phi_1* may tend to: a < 0 < b, or the one that is left when all have one sign."""
    a, b = float(heights[-1].min()), float(heights[-1].max())
    if a < 0 < b:
        return np.array([b, a, 0.0])
    return np.array([b]) if b - a <= CLOSE * np.ptp(heights[0]) else np.array([b, a])


def _settled(run: Trajectory, phi: Array, levels: Array) -> float:
    """Return the time from which all tokens are on the hyperplanes to the eye, rounded up to whole units of time."""
    times = np.arange(1.0, float(run.times[-1]))
    heights = run.at(times) @ phi
    away = np.abs(heights[..., None] - levels).min(axis=2).max(axis=1)
    on = away < SEEN * np.ptp(heights[-1])
    return float(times[on.argmax()]) if on.any() else float(run.times[-1])


def _crop(ax: Any, shown: Scene) -> None:
    """Leave no more room around tokens in space than the planes need, on one scale."""
    from matplotlib.ticker import MaxNLocator

    low, high = shown.paths.min(axis=(0, 1)), shown.paths.max(axis=(0, 1))
    middle, half = (low + high) / 2, 0.56 * (high - low)
    ax.set(**{f"{axis}lim": (middle[k] - half[k], middle[k] + half[k]) for k, axis in enumerate("xyz")})
    ax.set_box_aspect(half.tolist(), zoom=1.0)
    for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
        axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))


def _fill(ax: Any) -> None:
    """Make the box of a picture in space as large as its panel, after the places of panels are settled."""
    from mpl_toolkits.mplot3d.proj3d import proj_transform  # type: ignore[import-untyped]

    ax.figure.draw_without_rendering()
    box = (ax.get_xlim(), ax.get_ylim(), ax.get_zlim())
    corners = np.array(list(product(*box)))
    flat = ax.transData.transform(np.column_stack(proj_transform(*corners.T, ax.get_proj())[:2]))
    room = np.array([ax.bbox.width, ax.bbox.height]) - np.array(NUMBERS) * ax.figure.dpi / 72
    ax.set_box_aspect(np.ptp(box, axis=1).tolist(), zoom=float((room / np.ptp(flat, axis=0)).min()))


def _number(value: complex) -> str:
    """Return a real or complex number at three digits.

    >>> _number(1.25 + 0j), _number(0.5 - 0.25j)
    ('1.25', '0.5-0.25i')
    """
    if abs(value.imag) < 1e-12:
        return f"{value.real:.3g}"
    return f"{value.real:.3g}{value.imag:+.3g}i"


def _line(ax: Any, phi: Array, level: float) -> None:
    """Draw the line {<phi, z> = level} across the picture."""
    along = np.array([-phi[1], phi[0]])
    foot = level * phi
    style = {"ls": "-", "lw": 0.9, "label": PLANES} if level else {**UNSTABLE, "label": THROUGH}
    ax.axline(foot, foot + along, color=tone().ink, zorder=2, gid="hyperplane", **style)


def _plane(ax: Any, phi: Array, level: float) -> None:
    """Draw the part of the plane {<phi, z> = level} that lies in the box of the picture."""
    part = section(phi, level, np.array([ax.get_xlim(), ax.get_ylim(), ax.get_zlim()]).T)
    if len(part) < 3:
        return
    faces(ax, [part], 0.05 if level == 0 else 0.16)
    style = {**UNSTABLE, "label": THROUGH} if level == 0 else {"lw": 0.9, "label": PLANES}
    ax.plot(*np.vstack([part, part[:1]]).T, color=tone().ink, zorder=1, gid="hyperplane", **style)


def section(phi: Array, level: float, box: Array) -> Array:
    """Return the polygon (m, 3) in which the plane {<phi, z> = level} cuts a box with corners (2, 3).

    >>> square = section(np.array([0.0, 0.0, 1.0]), 0.5, np.array([[0.0] * 3, [1.0] * 3]))
    >>> len(square), square[:, 2]
    (4, array([0.5, 0.5, 0.5, 0.5]))
    """
    corners = np.array([[box[side, k] for k, side in enumerate(sides)] for sides in product((0, 1), repeat=3)])
    ends = np.array([(i, j) for i in range(8) for j in range(i) if (i ^ j).bit_count() == 1])
    start, step = corners[ends[:, 0]], corners[ends[:, 1]] - corners[ends[:, 0]]
    rise = step @ phi
    part = np.divide(level - start @ phi, rise, out=np.full(len(ends), np.nan), where=rise != 0)
    met = (part >= 0) & (part <= 1)
    points: Array = start[met] + part[met, None] * step[met]
    if len(points) < 3:
        return points
    # In the order of their angle, seen along phi.
    axes = np.linalg.svd(phi[None])[2][1:]
    turned = (points - points.mean(axis=0)) @ axes.T
    return points[np.argsort(np.arctan2(turned[:, 1], turned[:, 0]))]


def _over_time(ax: Any, run: Trajectory, phi: Array, levels: Array, colouring: Groups) -> None:
    """Draw phi_1*(z_i) over time, and the values it tends to."""
    times = np.linspace(0.0, float(run.times[-1]), 161)
    heights = run.at(times) @ phi
    for i, colour in enumerate(colours(colouring.labels)):
        ax.plot(times, heights[:, i], color=colour, lw=0.9, alpha=0.8, gid="height")
    for level, name in zip(levels, "ba0" if len(levels) == 3 else "ba", strict=False):
        style = {"lw": 0.9} if level else UNSTABLE
        ax.axhline(level, color=tone().ink, zorder=1, gid="level", **style)
        ax.annotate(f"${name}$", (1.02, level), xycoords=("axes fraction", "data"), va="center", annotation_clip=False)
    ax.set(xlim=(0, times[-1]), xlabel="time $t$", title=rf"{DUAL.format(1)}$(z_i(t))$")


@entry(
    "emergence/codimension", "Parallel lines in space, two positive eigenvalues", EMERGENCE,
    seed=0, n=20, until=14.0,
    V=[[0.92761287, 0.94333073, 0.3827744], [0.94333073, 0.59991396, 0.47825472], [0.3827744, 0.47825472, 0.46668605]],
)  # fmt: skip
def codimension(seed: int, n: int, until: float, V: Rows) -> Drawing:
    """Two positive eigenvalues in space: lines {phi_1* = a, phi_2* = b} through the leaders."""
    run = rescaled(seed, n, 3, until, V)
    values, vectors = basis(np.array(V))
    k = int((values > 0).sum())
    flat = run.tokens @ vectors[:, :k]
    assert run.law is not None
    heard = af.measure.leaders(run.law, run.seen(), float(run.times[-1]))
    led = np.searchsorted(heard.distinct, heard.index)
    shown = seen(run, until, Groups(led, np.ones(n, dtype=np.int64), None, heard.distinct).starred())
    names = tuple(DUAL.format(j) for j in (1, 2, 3))
    turned = replace(shown, paths=shown.paths @ vectors, names=names)
    figure, ax, beside = two_panels(turned, (3.9, 1.35))
    _upright(ax, turned, heard.distinct)
    plane = figure.add_subplot(beside)
    draw(plane, projected(shown, vectors[:, :2], names[:2]))
    plane.set_title("seen from above")
    key(figure)
    away = np.linalg.norm(flat[-1] - flat[-1][heard.index], axis=1)
    caption = (
        f"{n} tokens, uniform in [-5, 5]^3, under the flow with Q = K = I, in the frame z = e^(-tV) x, up to t = "
        f"{until:g}. V is symmetric with eigenvalues {', '.join(_number(value) for value in values)}, {k} of them "
        f"positive, and eigenvectors phi_j*. Seen along the last one (right), tokens tend to the {len(heard.distinct)} "
        "leaders; in space, in the basis of the eigenvectors (left), to lines through these, parallel to the last one. "
        "That there are at most three is a conjecture, false for some symmetric starts."
    )
    shows = {
        "eigenvalues": values,
        "positive eigenvalues": k,
        "lines": len(heard.distinct),
        "tokens on each": np.bincount(led),
        "largest distance from a line": float(away.max()),
    }
    return Drawing(figure, caption, shows)


def _upright(ax: Any, shown: Scene, leaders: NDArray[np.int64]) -> None:
    """Draw the vertical lines through the leaders; along them tokens move apart, so the vertical has its own scale."""
    low, high = shown.paths.min(axis=(0, 1)), shown.paths.max(axis=(0, 1))
    middle, half = (low + high) / 2, 0.56 * np.maximum(high - low, [np.ptp([low[:2], high[:2]])] * 2 + [0.0])
    ax.set(**{f"{axis}lim": (middle[k] - half[k], middle[k] + half[k]) for k, axis in enumerate("xyz")})
    for k, place in enumerate(shown.paths[-1, leaders, :2]):
        ends = np.column_stack([np.tile(place, (2, 1)), ax.get_zlim()])
        ax.plot(*ends.T, color=tone().ink, lw=0.9, zorder=2, gid="line", label="_line" if k else LINES)
