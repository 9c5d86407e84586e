"""What there is to show of a run, before anything is drawn: paths in two or three coordinates, groups, an outline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array, InputError
from attnflow.figures.clock import Clock
from attnflow.figures.groups import Groups, groups
from attnflow.figures.planes import levelled, planes, signed
from attnflow.figures.style import colours, found_by
from attnflow.geometry.hull import hull
from attnflow.runs.trajectory import Trajectory

# A picture holds about this many segments of trajectories: more are not seen, and only make its file heavy.
SEGMENTS = 12_000
# No picture needs more coordinates than this.
NUMBERS = 20_000_000
# The pace of a run is read from this many of its tokens.
PACERS = 64
# Squares and differences of larger coordinates leave the range of float64 on their way to the picture.
FARTHEST = 1e100
# Beyond this many tokens a cloud is shown as a density.
CROWD = 3000
# On the line, about LEAPT more states are filled in between those of `Leaps`.
LEAPT = 120
# Hulls that differ by less than this part of the cloud are one to the eye.
SAME_HULL = 0.01


@dataclass(frozen=True)
class Projection:
    """From token space to the picture: y = x A for a matrix A (d, k), and what to call the axes.

    In dimension 1 the picture is the plane of time and space. `chosen` says that the user has chosen coordinates.
    """

    matrix: Array
    names: tuple[str, ...]
    chosen: bool = False

    @property
    def plain(self) -> bool:
        """Whether points are tokens as they are."""
        return np.array_equal(self.matrix, np.eye(len(self.matrix)))

    def __call__(self, times: Array, states: Array) -> Array:
        """Return states (T, n, d) at times (T,) as points of the picture (T, n, k)."""
        points: Array = states if self.plain else states @ self.matrix
        if points.shape[-1] > 1:
            return points
        clock = np.broadcast_to(times[:, None, None], points.shape)
        return np.concatenate([clock, points], axis=-1)


def chosen(coords: Sequence[int], d: int) -> Projection:
    """Return the projection onto two or three coordinates of R^d, counted from 0.

    >>> chosen((0, 2), 3).matrix.tolist(), chosen((0, 2), 3).names
    ([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]], ('$x_1$', '$x_3$'))
    """
    if d == 1:
        raise InputError(
            f"coords is {coords!r}, but these tokens have one coordinate, which is drawn over time: leave coords out"
        )
    given = list(coords) if isinstance(coords, Sequence | np.ndarray) else []
    fits = all(isinstance(k, int | np.integer) and not isinstance(k, bool) and 0 <= k < d for k in given)
    if not (fits and len(given) in (2, 3) and len(set(given)) == len(given)):
        raise InputError(f"coords is {coords!r}, expected two or three different numbers of coordinates, 0 to {d - 1}")
    return Projection(np.eye(d)[:, given], tuple(f"$x_{{{k + 1}}}$" if k > 8 else f"$x_{k + 1}$" for k in given), True)


def projection(states: Sequence[Array]) -> Projection:
    """Return the identity in dimension 1 to 3, else the first two principal components of all states.

    >>> projection([np.zeros((1, 4, 2))]).names
    ('$x_1$', '$x_2$')
    """
    d = states[0].shape[-1]
    if d <= 3:
        names = ("$x$",) if d == 1 else tuple(f"$x_{k + 1}$" for k in range(d))
        return Projection(np.eye(d), names)
    count, total, squares = 0, np.zeros(d), np.zeros((d, d))
    for state in states:
        count, total = count + state.size // d, total + state.reshape(-1, d).sum(axis=0)
    for state in states:
        centred = state.reshape(-1, d) - total / count
        squares += centred.T @ centred
    variances, axes = np.linalg.eigh(squares)
    first, second = variances[[-1, -2]] / max(float(variances.sum()), np.finfo(float).tiny)
    named = f"1st principal component ({first:.0%} of variance)", f"2nd principal component ({second:.0%} of variance)"
    return Projection(signed(axes[:, [-1, -2]]), named)


@dataclass(frozen=True)
class Between(Sequence[Array]):
    """The states (n, d) of a run at given times, each computed when it is asked for.

    They are on the straight segments between recorded ones; of a chain, which rests between its moves, the last before.
    """

    run: Trajectory
    times: Array

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, k: Any) -> Any:
        return self._at(range(len(self))[k], slice(None))

    def of(self, some: slice) -> Array:
        """Return all states (T, m, d) of some of the tokens."""
        return np.stack([self._at(k, some) for k in range(len(self))])

    def _at(self, k: int, some: slice) -> Array:
        known, tokens, t = self._known, self.run.tokens, self.times[k]
        if self.run.motion is not None and self.run.motion.chain:
            return tokens[np.searchsorted(known, t, side="right") - 1, some]
        after = int(np.searchsorted(known, t).clip(min(1, len(known) - 1), len(known) - 1))
        if known[after] == t or after == 0:
            return tokens[after, some]
        part = (t - known[after - 1]) / (known[after] - known[after - 1])
        between: Array = (1 - part) * tokens[after - 1, some] + part * tokens[after, some]
        return between

    @cached_property
    def _known(self) -> Array:
        return self.run.times.astype(np.float64)


@dataclass(frozen=True)
class Scene:
    """A run as a picture shows it: `paths` (T, n, k) at `times` (T,), the groups of its last state, its surroundings.

    `outline` is the boundary of the convex hull of the start, in the plane as a closed line (m, 2), in space as edges
    (m, 2, 3), and `corners` one token at each vertex of the hull of the end (in the plane, in order) where tokens have
    gathered elsewhere; `sphere` says that tokens live on the unit sphere; `dimension` is that of the tokens, or of the
    coordinates that were chosen, k that of the picture. `inks` are colours of the user's choice. Where tokens tend to
    parallel planes, `normal` is orthogonal to them. `window` (2, k) is what the picture shows, if not what the run
    needs. Where memory does not hold all tokens at all times, `whole(k)` returns all tokens of the k-th state as
    points, and `paths` has those followed only.
    """

    times: Array
    paths: Array
    groups: Groups
    clock: Clock
    names: tuple[str, ...]
    outline: Array | None
    corners: NDArray[np.int64] | None
    sphere: bool
    dimension: int
    inks: Sequence[str] | None = None
    normal: Array | None = None
    window: Array | None = None
    whole: Callable[[int], Array] | None = None
    # The tokens in each strip of the line, by the number of the state and the ends of the picture: found once.
    strips: dict[tuple[int, float, float], NDArray[np.int64]] = field(default_factory=dict)

    def state(self, k: int) -> Array:
        """Return all tokens of the k-th state, as points (n, k) of the picture."""
        return self.paths[k] if self.whole is None else self.whole(k)

    @cached_property
    def colours(self) -> list[str]:
        """The colour of each token: of the user's choice, or else that of its group."""
        return colours(self.groups.labels) if self.inks is None else list(self.inks)

    @cached_property
    def extent(self) -> Array:
        """The corners (2, k) of the box that the picture has to hold; on the line, of the interval."""
        if self.window is not None:
            return self.window
        ends = [(points.min(axis=0), points.max(axis=0)) for points in map(self.state, range(len(self.times)))]
        low, high = np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)
        if self.dimension == 1:
            low, high = low[1:], high[1:]
        return np.stack([np.minimum(low, -1.0), np.maximum(high, 1.0)] if self.sphere else [low, high])

    def grouped(self, **changes: Any) -> Scene:
        """Return the same scene with some fields of its groups changed."""
        return replace(self, groups=replace(self.groups, **changes))

    @property
    def crowded(self) -> bool:
        """Whether there are too many tokens to show one by one."""
        return self.whole is not None or self.paths.shape[1] > CROWD

    @property
    def followed(self) -> slice:
        """The paths that are drawn as trajectories."""
        return slice(None) if self.whole is not None else _followed(self.paths.shape[1])


def scene(run: Trajectory, times: Array, states: Array | Between, *, onto: Projection | None = None) -> Scene:
    """Return the scene of some states of a run, the last of which is the one shown."""
    run = run.to_numpy()
    clock, (n, d) = Clock.of(run), run.final.shape
    shown = d if onto is None or not onto.chosen else onto.matrix.shape[1]
    if (size := max(float(np.abs(state).max()) for state in states)) > FARTHEST:
        raise InputError(f"tokens are as large as {size:.0e}, too large to draw: give an earlier t, or rescale the run")
    onto = onto or projection(states if isinstance(states, Between) else [states])
    whole = None
    if isinstance(states, Between) and n > CROWD and n * d * len(times) > NUMBERS:
        whole = partial(_points, onto, times, states)
        paths = onto(times, states.of(_followed(n)))
    else:
        paths = np.stack([_points(onto, times, states, k) for k in range(len(times))])
    first, last = paths[[0, -1]] if whole is None else (whole(0), whole(len(times) - 1))
    sphere = run.motion is not None and run.motion.surface == "sphere" and 2 <= shown <= 3
    normal = planes(run) if shown == 3 else None
    found, open_space = groups(run, states[-1], float(times[-1])), not (sphere or d == 1)
    if normal is not None:
        found = levelled(found, states[-1] @ normal)
    return Scene(
        times=times,
        paths=paths,
        groups=found,
        clock=clock,
        names=onto.names,
        outline=(edges if shown == 3 else outline)(first) if open_space else None,
        corners=_gathered_at(first, last, found) if open_space and normal is None else None,
        sphere=sphere,
        dimension=shown,
        normal=normal if normal is None else onto.matrix.T @ normal,
        whole=whole,
    )


def scene_at(run: Trajectory, t: float | None = None, *, onto: Projection | None = None) -> Scene:
    """Return the scene of a run up to t, or to its end."""
    return scene(run, *history(run, t), onto=onto)


def _points(onto: Projection, times: Array, states: Array | Between, k: int) -> Array:
    """Return the k-th of some states as points of the picture."""
    return onto(times[k : k + 1], states[k][None])[0]


def _gathered_at(first: Array, last: Array, found: Groups) -> NDArray[np.int64] | None:
    """Return one token at each vertex of the hull of the clusters, unless that is a point, or the hull of the start."""
    if not found.gathered:
        return None
    ones = np.unique(found.labels, return_index=True)[1]
    corners = ones[vertices(last[ones]) if last.shape[1] == 2 else hull(last[ones]).indices]
    return None if same_hull(first, last[corners]) or len(corners) < 2 else corners


def same_hull(first: Array, last: Array) -> bool:
    """Say whether the hulls of two clouds of points look the same: they are compared in many directions."""
    around = np.random.default_rng(0).standard_normal((last.shape[1], 128))
    around /= np.linalg.norm(around, axis=0)
    supports = [(points @ around).max(axis=0) for points in (first, last)]
    return bool(np.abs(supports[0] - supports[1]).max() <= SAME_HULL * np.ptp(first, axis=0).max())


def history(run: Trajectory, t: float | None = None) -> tuple[Array, Array]:
    """Return times and states of a run up to t, or to its end, that are about equally far from each other.

    Tokens move fast, then slowly: equal distances draw smooth trajectories from few states. On the line, where pictures
    show time, a chain rests between its moves, and what `Leaps` leap over is filled in.
    """
    found_by("simulate", run, Trajectory)
    run = run.to_numpy()
    times, states = run.times.astype(np.float64), run.tokens
    if t is not None:
        shown = run.at(t)
        past = times < t
        times, states = np.append(times[past], t), np.concatenate([states[past], shown[None]])
    _, n, d = states.shape
    # Enough for smooth trajectories, but not more than memory holds.
    smooth = np.clip(SEGMENTS // len(range(n)[_followed(n)]), 24, 240)
    chosen = _equally_far(states, most=int(min(smooth, max(2, NUMBERS // (n * d)))))
    times, states = times[chosen], states[chosen]
    if states.shape[2] > 1:
        return times, states
    if run.motion is not None and run.motion.chain:
        return np.repeat(times, 2)[1:], np.repeat(states, 2, axis=0)[:-1]
    return filled(run, times, states, LEAPT)


def filled(run: Trajectory, times: Array, states: Array, most: int) -> tuple[Array, Array]:
    """Return times and states with those added that a motion skips, about `most` on the scale of time shown.

    A leap may be longer than all that was before: a straight line over it in logarithmic time would be invented.
    """
    clock, motion = Clock.of(run), run.motion
    # Between its moves a chain rests.
    drifts = motion is not None and motion.skips_steps and not motion.chain
    if not (drifts and clock.logarithmic) or len(times) < 2:
        return times, states
    grid = np.unique(clock.even(most).round())
    after = np.searchsorted(times, grid)
    inside = (after > 0) & (after < len(times))
    grid, after = grid[inside], after[inside]
    # Only where no record is near, on the scale shown.
    known, asked = np.log1p(times - times[0]), np.log1p(grid - times[0])
    wide = known[-1] / most / 2
    lonely = grid[(asked - known[after - 1] > wide) & (known[after] - asked > wide)]
    if not len(lonely):
        return times, states
    between = run.at([int(t) for t in lonely])
    order = np.argsort(np.concatenate([times, lonely]), kind="stable")
    return np.concatenate([times, lonely])[order], np.concatenate([states, between])[order]


def _followed(n: int) -> slice:
    """The tokens whose trajectories are drawn: all, or about sixty of a crowd."""
    return slice(None, None, n // 60 if n > CROWD else 1)


def _equally_far(tokens: Array, most: int) -> NDArray[np.int64]:
    """Return the indices of at most about `most` states, first and last included."""
    if len(tokens) <= most:
        return np.arange(len(tokens))
    followed = tokens[:, :: max(1, tokens.shape[1] // PACERS)]
    steps = np.linalg.norm(np.diff(followed, axis=0), axis=-1).mean(axis=1)
    # A little of plain counting, so that a run at rest is also covered.
    way = np.cumsum(np.append(0.0, steps + 0.1 * steps.mean() + np.finfo(float).tiny))
    return np.unique(np.searchsorted(way, np.linspace(0.0, way[-1], most)).clip(0, len(tokens) - 1))


def outline(points: Array) -> Array:
    """Return the boundary (m, 2) of the convex hull of points in the plane, closed; a segment when they are on a line.

    >>> outline(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]))
    array([[0., 0.],
           [2., 2.]])
    """
    corners = vertices(points)
    if len(corners) == 1:
        corners = np.repeat(corners, 2)
    boundary: Array = points[np.append(corners, corners[0]) if len(corners) > 2 else corners]
    return boundary


def edges(points: Array) -> Array:
    """Return the edges (m, 2, d) of the convex hull of points.

    >>> len(edges(np.concatenate([np.eye(3), -np.eye(3)])))
    12
    """
    outer = hull(points)
    return outer.vertices[outer.edges]


def vertices(points: Array) -> NDArray[np.int64]:
    """Return the indices of the vertices of the convex hull of points in the plane, in order around it.

    >>> vertices(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]))
    array([0, 2])
    """
    from scipy.spatial import ConvexHull, QhullError

    centred = points - points.mean(axis=0)
    if not centred.any():
        return np.zeros(1, dtype=np.int64)
    try:
        # Qhull measures flatness in absolute terms: it gets a cloud of size one.
        return ConvexHull(centred / np.abs(centred).max()).vertices.astype(np.int64)
    except QhullError:
        along = centred @ np.linalg.svd(centred, full_matrices=False)[2][0]
        return np.sort([along.argmin(), along.argmax()])
