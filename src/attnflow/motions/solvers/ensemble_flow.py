"""Many small systems in one compiled loop, where the law is softmax and nothing depends on time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.arrays import plain
from attnflow.core.inputs import Array, each_mass
from attnflow.core.query_key import form_at
from attnflow.engines.centring import centre, size
from attnflow.laws import Law, Softmax, varies
from attnflow.motions.flows import ContinuousMotion
from attnflow.motions.motion import ABSOLUTE, SLOW_STEPS, Motion

# A piece of the compiled loop takes PIECE pairs of tokens, a fraction of a second.
PIECE = 1 << 26
# A step of a flow evaluates its velocity EVALUATIONS times.
EVALUATIONS = 12

# Called with the part of the work that is done, and whether very many steps are to come.
Going = Callable[[float, bool], None]


def paths(
    start: Array,
    law: Law,
    motion: Motion,
    masses: Array | None,
    times: NDArray[Any],
    going: Going = lambda part, slow: None,
) -> tuple[Array, int] | None:
    """Return the states (T, b, n, d) at these times and the largest number of steps, or None.

    After every piece of the work, a fraction of a second, `going` is told which part is done, and whether the steps to
    come are very many.

    None means that there is no such loop for this law and motion, or that a token left the range of float64, or that
    the integrator got stuck: the caller then moves the systems by other means, which say what is wrong.
    """
    b, n, d = start.shape
    # A subclass may have other weights or another velocity.
    if type(law) is not Softmax or law.b is not None or varies(law) or varies(motion):
        return None
    if (moves := motion.matrix_form(d)) is None:
        return None
    from attnflow.engines import compilation
    from attnflow.motions.solvers import ensemble_kernels as kernels
    from attnflow.motions.solvers.scipy_solver import coefficients

    compilation.announce()
    B = form_at(law, 0, d)
    gains = np.broadcast_to(np.asarray(plain(law.beta), dtype=np.float64), (b,)).copy()
    # These sums are not taken about the centre of a cloud, as those of the engines are; at one place nothing is summed.
    reach = np.abs(gains) * (1.0 if B is None else np.abs(B).max()) * size(start)
    if (centre(start, reach)[:, 0].any(axis=1) & np.ptp(start, axis=1).any(axis=1)).any():
        return None
    w = each_mass(masses, n)
    w = w / w.max()
    rule = kernels.Rule(np.empty((0, 0)) if B is None else B, w, np.log2(w), *moves)
    states, steps = np.empty((len(times), b, n, d)), np.full(b, int(times[-1]))
    if isinstance(motion, ContinuousMotion):
        method = kernels.Method(*map(coefficients, kernels.Method._fields))
        atol = motion.rtol * ABSOLUTE * np.abs(start).max(axis=(1, 2)).clip(1e-300)
        way, most = kernels.under_way(n, d), max(1, PIECE // (EVALUATIONS * kernels.WIDTH * n * n))
        given = (start, gains, rule, method, (motion.rtol, atol), times, states, steps)
        while not kernels.flows(*given, way, most):
            h, t = way.clock.h, way.clock.t
            slow = bool(((h > 0) & (times[-1] - t > SLOW_STEPS * h)).any())
            going((way.done[0] + kernels.WIDTH * t.mean() / times[-1]) / b, slow)
    else:
        _layers(start, gains, rule, times, states, going)
    return (states, int(steps.max())) if steps.min() >= 0 and np.isfinite(states[-1]).all() else None


def _layers(start: Array, gains: Array, rule: Any, times: NDArray[Any], states: Array, going: Going) -> None:
    """Fill the states after these numbers of steps, piece by piece: some systems, and some steps of them."""
    from attnflow.motions.solvers import ensemble_kernels as kernels

    b, n, _ = start.shape
    until, one = int(times[-1]), kernels.WIDTH * n * n
    most, together = max(1, PIECE // one), kernels.WIDTH * max(1, PIECE // (one * until))
    for first in range(0, b, together):
        part = slice(first, first + together)
        x, t, k = start[part], 0, 0
        while k < len(times):
            end = min(until, t + most)
            due = int(np.searchsorted(times, end, side="right"))
            ends = np.unique(np.append(times[k:due], end)) - t
            reached = np.empty((len(ends), *x.shape))
            kernels.layers(x, gains[part], rule, ends, reached)
            states[k:due, part] = reached[: due - k]
            x, t, k = reached[-1], end, due
            going(min(1.0, (first + together * t / until) / b), False)
