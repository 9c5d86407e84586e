"""Algebraic decay: the power of time, and the constant in front of it, with errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from attnflow.core.inputs import Array, InputError, number
from attnflow.measure.rates import FEWEST, Rate, contraction_rate, series, within

# The constant is read at three times this far apart, if the window allows: values drift little between nearer ones.
DECADES = 1.0


@dataclass(frozen=True)
class PowerLaw:
    """Values behave like constant * t^exponent as t grows, each known up to an error; `window` and `points` were used.

    The constant belongs to the power that was given, or else to the exponent that was found.
    """

    exponent: float
    error: float
    constant: float
    constant_error: float
    window: tuple[float, float]
    points: int


def power_law(
    times: ArrayLike, values: ArrayLike, *, power: float | None = None, window: tuple[float, float] | None = None
) -> PowerLaw:
    """Return the law C t^p that positive values (T,) at times (T,) tend to, with errors.

    Record at geometric times (`watch.Geometric`): every decade then counts alike. The exponent p is the slope of log
    value against log t, and its error is that of `contraction_rate`: noise, rounding, and a bound on the drift still to
    come. For the constant give the `power` that theory says: ``c(t) = value / t**power`` is read at three times a
    decade apart (or less, if the window is short), the last being the end, and Aitken's formula removes a correction
    like t^{-k}; the error is the whole of what it removed, plus what noise does. Without `power` the constant is that
    of the exponent found, and its error holds that of the exponent.

    >>> t = np.geomspace(1, 1e4, 81)
    >>> law = power_law(t, 3 / t * (1 + 0.5 / t), power=-1)
    >>> round(law.exponent, 3), round(law.constant, 6), law.constant_error < 2e-3
    (-1.0, 3.0, True)

    With V = -I tokens decay so slowly that t mean_i |x_i|^2 -> r/2, r the dimension of their affine hull:

    >>> import attnflow as af
    >>> x0, record = af.tokens.gaussian(n=12, d=2, seed=0), af.watch.Geometric()
    >>> run = af.simulate(x0, af.Softmax(), af.Flow(V=-np.eye(2)), until=1e4, record=record)
    >>> law = power_law(run.times[1:], (run.tokens[1:] ** 2).sum(axis=2).mean(axis=1), power=-1, window=(10, 1e4))
    >>> abs(law.exponent + 1) < law.error < 0.01, abs(law.constant - 1) < law.constant_error < 0.01
    (True, True)

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465), on V = -I; the rate is derived here.
    """
    t, y = within(window, *series(times, values))
    if y.ndim != 1 or not (t > 0).all():
        raise InputError("powers of time need one value per positive time: leave out t = 0, and give one series")
    if not (y > 0).all():
        raise InputError("a value is 0, so it follows no power of time: end the window before it")
    if len(t) < FEWEST:
        raise InputError(f"{len(t)} values are in the window, expected at least {FEWEST}: record more times")
    rate: Rate = contraction_rate(np.log(t), y, scale=float(np.finfo(np.float64).tiny))
    p = rate.value if power is None else number(power, "power")
    constant, error = _constant(np.log(t), np.log(y) - p * np.log(t))
    if power is None:
        error += abs(constant) * float(np.expm1(min(rate.error * np.log(t[-1]), 700.0)))
    return PowerLaw(rate.value, rate.error, constant, error, (float(t[0]), float(t[-1])), len(t))


def _constant(s: Array, log_c: Array) -> tuple[float, float]:
    """Return the limit of c as s = log t grows, and its error."""
    step = min(DECADES * np.log(10), (s[-1] - s[0]) / 3)
    a, b, c = (float(np.exp(np.interp(s[-1] - k * step, s, log_c))) for k in (2, 1, 0))
    # Values off a smooth curve through their neighbours are noise.
    noise = 3 * float(np.abs(np.diff(log_c[s >= s[-1] - step], 2)).max(initial=0.0)) * abs(c)
    bend = (c - b) - (b - a)
    limit = c - (c - b) ** 2 / bend if abs(c - b) < abs(b - a) and bend != 0 else c
    return limit, max(abs(limit - c), abs(c - b)) + noise
