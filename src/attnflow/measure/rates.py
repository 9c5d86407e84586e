"""How fast tokens contract: exponential rates, with errors that include noise and drift."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from attnflow.core.inputs import Array, InputError, number, reals
from attnflow.measure.by_name import number_of
from attnflow.measure.clusters import limit_points, same_dimension
from attnflow.measure.confidence import student
from attnflow.measure.diameter import diameter
from attnflow.runs.trajectory import Trajectory

# Of distances above this part of the scale, rounding takes less than a millionth.
FLOOR = 2.0**20 * float(np.finfo(np.float64).eps)
# Each third of the window needs a parabola and something left over.
FEWEST = 12


@dataclass(frozen=True)
class Rate:
    """An exponential rate: distances behave like e^{r t}, r the `value`, and contract where it is negative.

    `error` is the half-width of an interval that should hold the limit of the rate with 95 per cent confidence;
    `window` is the first and the last time used, and `points` how many times were used.
    """

    value: float
    error: float
    window: tuple[float, float]
    points: int


@overload
def contraction_rate(
    times: Trajectory, *, window: tuple[float, float] | None = None, scale: float | None = None
) -> Rate: ...
@overload
def contraction_rate(
    times: Trajectory, *, to: Any, window: tuple[float, float] | None = None, scale: float | None = None
) -> list[Rate | None]: ...
@overload
def contraction_rate(
    times: ArrayLike, distances: ArrayLike, *, window: tuple[float, float] | None = None, scale: float | None = None
) -> Any: ...
def contraction_rate(
    times: ArrayLike | Trajectory,
    distances: ArrayLike | None = None,
    *,
    to: Any = None,
    window: tuple[float, float] | None = None,
    scale: float | None = None,
) -> Any:
    """Return the slope of log distance against time, with its error: log(1 - gamma) for hardmax layers, -1 for flows.

    Distances (T,) at times (T,) have one `Rate`; distances (T, n) have a list, one for each token. Of a run: the rate
    of its diameter, or with ``to=limits``, an array (m, d) or an object with `points`, a list with the rate at which
    each token approaches the limit it ends nearest to. A token that has too few distances has None in the list.

    `window` restricts the times. `scale` is the size of the coordinates that distances were computed from (default:
    the largest distance; of a run, the largest coordinate): from the first distance at or below 2^20 rounding errors
    of it, 2.3e-10, distances are left out.

    The times used are cut into three parts, each fitted by least squares. The rate is the slope b_3 of the last. Its
    error adds three things: the statistical error of b_3, whose residuals may be correlated; what rounding can do; and
    a bound on the drift still to come, from that part of b_2 - b_1 and b_3 - b_2 which is no noise. Decay
    like a power of t thus has an error as large as its rate. A slope that dies out more slowly than 1/t, as that of
    e^{-sqrt(t)} does, drifts on beyond the error; correlations longer than a third of the window look like a drift, or
    are not seen.

    >>> import attnflow as af
    >>> x0 = [[1.0, 0.0], [-1.0, 0.2], [0.6, 0.1]]
    >>> run = af.simulate(x0, af.Hardmax(), af.Layers(gamma=0.1), until=100)
    >>> rate = contraction_rate(run, to=x0[:1])[2]
    >>> round(rate.value, 6), rate.error < 1e-6, rate.window, rate.points
    (-0.105361, True, (0.0, 100.0), 101)

    References
    ----------
    Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628).
    """
    if isinstance(times, Trajectory):
        if distances is not None:
            raise InputError("distances came with a run: give contraction_rate(run.times, distances) instead")
        when, apart, size = _history(times, to)
    else:
        if to is not None:
            raise InputError("limits `to` came without a run: give contraction_rate(run, to=limits)")
        when, apart = series(times, distances)
        size = float(apart.max())
    size = size if scale is None else number(scale, "scale", above=0.0)
    when, apart = within(window, when, apart)
    if apart.ndim == 1:
        return _rate(when, apart, size)
    rates = [_rate(when, column, size) if _usable(column, size) >= FEWEST else None for column in apart.T]
    if not any(rates):
        # Say of the best one why it has no rate.
        _rate(when, max(apart.T, key=lambda column: _usable(column, size)), size)
    return rates


@number_of(contraction_rate)
def _of_diameter(run: Trajectory, window: tuple[float, float] | None = None) -> dict[str, float]:
    """Return the rate at which the diameter of the run decays, and its error."""
    found = contraction_rate(run, window=window)
    return {"value": found.value, "error": found.error}


def _history(run: Trajectory, to: Any) -> tuple[Array, Array, float]:
    """Return the times of a run, the distances (T,) or (T, n) to be fitted, and the size of its coordinates."""
    from scipy.spatial import cKDTree

    run = run.to_numpy()
    when, size = np.array(run.times.tolist(), dtype=np.float64), float(np.abs(run.tokens).max())
    if to is None:
        return when, diameter(run), size
    limits = limit_points(to, "limits")
    same_dimension(run.tokens, limits, "limits")
    goal = limits[cKDTree(limits).query(run.final)[1]]
    return when, np.linalg.norm(run.tokens - goal, axis=2), max(size, float(np.abs(goal).max()))


def series(times: ArrayLike, distances: ArrayLike | None) -> tuple[Array, Array]:
    """Check times (T,), increasing, and distances (T,) or (T, n), none negative."""
    if distances is None:
        raise InputError("times came without distances: give contraction_rate(times, distances), or a run")
    when = reals(times, "times are", "T numbers")
    apart = reals(distances, "distances are", "T numbers, or T rows of n numbers")
    if when.ndim != 1 or apart.ndim not in (1, 2) or len(apart) != len(when) or apart.size == 0:
        raise InputError(
            f"times have shape {when.shape} and distances {apart.shape}, expected (T,) and (T,) or (T, n): "
            "give one row of distances per time"
        )
    if not (np.isfinite(when).all() and (when[1:] > when[:-1]).all()):
        raise InputError("times are not finite and increasing: sort them, and leave out repeated ones")
    if not (np.isfinite(apart).all() and (apart >= 0).all()):
        raise InputError("distances hold a value that is negative or not finite: remove or replace it")
    return when, apart


def within(window: tuple[float, float] | None, when: Array, apart: Array) -> tuple[Array, Array]:
    """Return the times in a window, and what belongs to them."""
    if window is None:
        return when, apart
    try:
        first, last = window
    except (TypeError, ValueError):
        raise InputError(f"window is {window!r}, expected two times, as in (5.0, 20.0)") from None
    first, last = number(first, "the first time of window"), number(last, "the last time of window")
    if first > last:
        raise InputError(f"window is reversed, from {first:g} to {last:g}: give ({last:g}, {first:g})")
    begin, end = np.searchsorted(when, first), np.searchsorted(when, last, side="right")
    if begin == end:
        raise InputError(
            f"window {window} holds none of the times, which go from {when[0]:g} to {when[-1]:g}: widen it"
        )
    return when[begin:end], apart[begin:end]


def _usable(distances: Array, scale: float) -> int:
    """Return the number of distances before the first that is rounding."""
    low = distances <= FLOOR * scale
    return int(low.argmax()) if low.any() else len(distances)


def _rate(when: Array, distances: Array, scale: float) -> Rate:
    n = _usable(distances, scale)
    if (distances <= FLOOR * scale).all():
        raise InputError(
            f"0 distances in the window are above rounding, {FLOOR * scale:.3g}, so nothing contracts there: "
            "give an earlier window, or tokens that move"
        )
    if n < FEWEST:
        raise InputError(
            f"{n} distances in the window are above rounding, {FLOOR * scale:.3g}, expected at least {FEWEST}: "
            "record more times, widen the window, or contract more slowly"
        )
    # Times are moved and scaled to [0, 1], so that squares of any times stay within float64.
    t = when[:n] / 4 - when[0] / 4
    t, span = t / t[-1], 4 * float(t[-1])
    y = np.log(distances[:n])
    parts = [slice(int(k[0]), int(k[-1]) + 1) for k in np.array_split(np.arange(n), 3)]
    fits = [_line(t[part], y[part]) for part in parts]
    noise = [_noise(t[part], fits, k) for k, part in enumerate(parts)]
    mid = np.array([t[part].mean() for part in parts])
    seen = [max(0.0, abs(fits[k + 1][0] - fits[k][0]) - noise[k + 1]) for k in (0, 1)]
    last = parts[2]
    rounding = _rounding(t[last], y[last], distances[last], scale)
    error = noise[2] + rounding + _further_drift(np.array(seen), np.diff(mid))
    value, error = fits[2][0] / span, float(error) / span
    if not np.isfinite([value, error, span]).all():
        raise InputError(f"times that span {span:.3g} have rates beyond float64: multiply them by a constant")
    return Rate(value, error, (float(when[0]), float(when[n - 1])), n)


def _line(t: Array, y: Array) -> tuple[float, Array]:
    """Return the slope of the least-squares line, and the residuals of the parabola, since a drift is not noise."""
    s = (t - t.mean()) / (t[-1] - t[0])
    bases = np.linalg.qr(np.column_stack([np.ones_like(s), s, s * s]))[0]
    return float(s @ y / (s @ s) / (t[-1] - t[0])), y - bases @ (bases.T @ y)


def _noise(t: Array, fits: list[tuple[float, Array]], k: int) -> float:
    """Return the statistical error of the slope of part k, whose times are t.

    The residuals of all parts tell their correlation; that of neighbours, rho, makes m points worth m (1 - rho) /
    (1 + rho), as in an autoregressive sequence.
    """
    residuals = [residual for _, residual in fits]
    total, square = sum(map(len, residuals)), sum(float(r @ r) for r in residuals)
    if square == 0:
        return 0.0
    free = len(t) - 3
    variance = float(residuals[k] @ residuals[k]) / free
    rho = sum(float(r[1:] @ r[:-1]) for r in residuals) / square
    # Residuals of a fit look less correlated than they are.
    rho = min(max(rho + (2 + 7 * rho) * 3 / total, 0.0), 0.97)
    worth = (1 - rho) / (1 + rho)
    s = t - t.mean()
    return student(max(1.0, free * worth)) * float(np.sqrt(variance / worth / (s @ s)))


def _rounding(t: Array, y: Array, distances: Array, scale: float) -> float:
    """Return how much rounding of coordinates and of logarithms can turn a least-squares line."""
    eps = float(np.finfo(np.float64).eps)
    s = t - t.mean()
    wrong = 4 * eps * (scale / distances + np.abs(y) + 1)
    return float(np.abs(s) @ wrong / (s @ s))


def _further_drift(drift: Array, apart: Array) -> float:
    """Bound how much the slope will drift after the last part, from two drifts between parts this far apart in time.

    If the slope tends to its limit like e^{-kappa t}, the speeds p of the drift tell kappa and hence what is left. For
    slopes like 1/t that is half of what is left, so four times it is taken, and never less than three times the last
    drift.
    """
    if drift[1] == 0:
        return 0.0
    p = drift / apart
    dying = float(np.log(p[0] / p[1])) if p[0] > 0 else 0.0
    # A drift that hardly dies out may go on for twenty times as long as it was seen.
    kappa = max(dying, 0.05) / float(apart.mean())
    left = p[1] * np.exp(-kappa * apart[1] / 2) / kappa
    return float(max(3 * drift[1], 4 * left))
