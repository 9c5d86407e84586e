"""What there is to show of a run, before anything is drawn: paths in two or three coordinates, groups, an outline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnflow.figures.clock import Clock
from attnflow.figures.groups import Groups, groups
from attnflow.inputs import Array, InputError
from attnflow.motions import SphereFlow, SphereLayers

if TYPE_CHECKING:
    from attnflow.trajectory import Trajectory

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


@dataclass(frozen=True)
class Projection:
    """From token space to the picture: y = x A for a matrix A (d, k), and what to call the axes.

    In dimension 1 the picture is the plane of time and space.
    """

    matrix: Array
    names: tuple[str, ...]

    def __call__(self, times: Array, states: Array) -> Array:
        """Return states (T, n, d) at times (T,) as points of the picture (T, n, k)."""
        points: Array = states @ self.matrix
        if points.shape[-1] > 1:
            return points
        clock = np.broadcast_to(times[:, None, None], points.shape)
        return np.concatenate([clock, points], axis=-1)


def projection(states: Sequence[Array]) -> Projection:
    """Return the identity in dimension 1 to 3, else the first two principal components of all states.

    >>> projection([np.zeros((1, 4, 2))]).names
    ('$x_1$', '$x_2$')
    """
    d = states[0].shape[-1]
    if d <= 3:
        names = ("$x$",) if d == 1 else tuple(f"$x_{k + 1}$" for k in range(d))
        return Projection(np.eye(d), names)
    cloud = np.concatenate([state.reshape(-1, d) for state in states])
    centred = cloud - cloud.mean(axis=0)
    variances, axes = np.linalg.eigh(centred.T @ centred)
    matrix = axes[:, [-1, -2]]
    # An axis has no sign of its own: its largest entry is made positive, so that a picture can be drawn again.
    matrix = matrix * np.sign(matrix[np.abs(matrix).argmax(axis=0), [0, 1]])
    parts = variances[[-1, -2]] / max(float(variances.sum()), np.finfo(float).tiny)
    names = tuple(
        f"{order} principal component ({part:.0%} of variance)"
        for order, part in zip(("1st", "2nd"), parts, strict=True)
    )
    return Projection(matrix, names)


@dataclass(frozen=True)
class Scene:
    """A run as a picture shows it: `paths` (T, n, k) at `times` (T,), the groups of its last state, its surroundings.

    `outline` (m, 2) is the boundary of the convex hull of the start, in the plane; `sphere` says that tokens live on
    the unit sphere; `dimension` is that of the tokens, k that of the picture.
    """

    times: Array
    paths: Array
    groups: Groups
    clock: Clock
    names: tuple[str, ...]
    outline: Array | None
    sphere: bool
    dimension: int

    @property
    def extent(self) -> Array:
        """The corners (2, k) of the box that the picture has to hold; on the line, of the interval."""
        points = self.paths[..., 1:] if self.dimension == 1 else self.paths
        low, high = points.min(axis=(0, 1)), points.max(axis=(0, 1))
        return np.stack([np.minimum(low, -1.0), np.maximum(high, 1.0)] if self.sphere else [low, high])

    @property
    def crowded(self) -> bool:
        """Whether there are too many tokens to show one by one."""
        return self.paths.shape[1] > CROWD

    @property
    def followed(self) -> slice:
        """The tokens whose trajectories are drawn."""
        return _followed(self.paths.shape[1])


def scene(run: Trajectory, times: Array, states: Array, *, onto: Projection | None = None) -> Scene:
    """Return the scene of some states of a run, the last of which is the one shown."""
    clock, d = Clock.of(run), states.shape[-1]
    if (size := float(np.abs(states).max())) > FARTHEST:
        raise InputError(f"tokens are as large as {size:.0e}, too large to draw: give an earlier t, or rescale the run")
    onto = onto or projection([states])
    paths = onto(times, states)
    sphere = isinstance(run.motion, SphereFlow | SphereLayers) and 2 <= d <= 3
    return Scene(
        times=times,
        paths=paths,
        groups=groups(run, states[-1], float(times[-1])),
        clock=clock,
        names=onto.names,
        outline=None if sphere or d in (1, 3) else outline(paths[0]),
        sphere=sphere,
        dimension=d,
    )


def history(run: Trajectory, t: float | None = None) -> tuple[Array, Array]:
    """Return times and states of a run up to t, or to its end, that are about equally far from each other.

    Tokens move fast, then slowly: equal distances draw smooth trajectories from few states.
    """
    times, states = run.times.astype(np.float64), run.tokens
    if t is not None:
        shown = run.at(t)
        past = times < t
        times, states = np.append(times[past], t), np.concatenate([states[past], shown[None]])
    chosen = _equally_far(states, most=_room(*states.shape[1:]))
    return times[chosen], states[chosen]


def _room(n: int, d: int) -> int:
    """Return how many states to show: for smooth trajectories, but not more than memory holds."""
    smooth = np.clip(SEGMENTS // len(range(n)[_followed(n)]), 24, 240)
    return int(min(smooth, max(2, NUMBERS // (n * d))))


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


def interpolated(run: Trajectory, times: Array) -> Array:
    """Return the states (k, n, d) at given times on the straight segments between recorded ones."""
    known = run.times.astype(np.float64)
    if len(known) == 1:
        return np.repeat(run.tokens, len(times), axis=0)
    after = np.clip(np.searchsorted(known, times), 1, len(known) - 1)
    part = ((times - known[after - 1]) / (known[after] - known[after - 1]))[:, None, None]
    between: Array = (1 - part) * run.tokens[after - 1] + part * run.tokens[after]
    return between


def outline(points: Array) -> Array:
    """Return the boundary (m, 2) of the convex hull of points in the plane, closed; a segment when they are on a line.

    >>> outline(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]))
    array([[0., 0.],
           [2., 2.]])
    """
    from scipy.spatial import ConvexHull, QhullError

    centred = points - points.mean(axis=0)
    try:
        # Qhull measures flatness in absolute terms: it gets a cloud of size one.
        corners = ConvexHull(centred / (np.abs(centred).max() or 1.0)).vertices
    except QhullError:
        along = centred @ np.linalg.svd(centred, full_matrices=False)[2][0]
        return points[np.sort([along.argmin(), along.argmax()])]
    boundary: Array = points[np.append(corners, corners[0])]
    return boundary
