"""Claims of rotary positions: how fast tokens agree whose scores depend on how far apart they stand."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnflow.claims.claim import DERIVED, Paper, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, Undecided, once, unknown
from attnflow.claims.samplers import Rng, log_uniform
from attnflow.core.inputs import Array, number
from attnflow.laws import Law, Positional, Softmax
from attnflow.motions import Motion, SphereFlow

ROPE = Paper(
    "rope",
    "Su, Lu, Pan, Murtadha, Wen, Liu",
    "RoFormer: enhanced transformer with rotary position embedding",
    "2104.09864",
    heading="Rotary positions",
    notation="""Tokens x_0 .. x_{n-1} on the unit circle; token i stands at position i. Scores are <R^i x_i, R^j x_j>
    with R the rotation by the angle omega = 2 pi / n; values are not rotated: x_i' = Proj_{x_i} sum_j P_ij x_j with
    P_ij = e^{beta <R^i x_i, R^j x_j>} / Z_i. I_k are the modified Bessel functions. The paper brings the positions;
    the statement is derived.""",
)

# A circle of this many tokens has the rate of infinitely many to rounding, for beta up to 8.
FEWEST = 64
# Angles are at most this large at the start; what is left out of the linear equation is of third order in them.
LARGEST = 0.1
# What is left out of the linear equation may be at most this part of the first wave, whose rate is else not seen.
SEEN = 0.1


def rate(beta: float, mode: int = 1) -> float:
    """Return 1 - I_k(beta) / I_0(beta), the rate at which the k-th wave of angles around consensus decays.

    >>> [round(rate(beta), 5) for beta in (1.0, 2.0)]
    [0.55361, 0.30223]
    """
    from scipy.special import ive

    return float(1 - ive(mode, beta) / ive(0, beta))


def rotary_model(given: dict[str, Any]) -> tuple[Law, Motion]:
    """Return softmax with positions that go once around the circle, and the flow on it."""
    n = len(given["tokens"])
    return Positional(Softmax(beta=number(given["beta"], "beta")), rope=2 * np.pi / n), SphereFlow()


def _angles(x: Array) -> Array:
    """Return the angles of tokens, seen from their mean direction."""
    mean = x.mean(axis=-2, keepdims=True)
    along = (x * mean).sum(axis=-1)
    across = mean[..., 0] * x[..., 1] - mean[..., 1] * x[..., 0]
    return np.arctan2(across, along)


def _near_consensus(e: Experiment) -> list[Margins]:
    n, d = e.shape
    widest = float(np.abs(_angles(e.tokens)).max())
    return [
        once("d = 2", -abs(d - 2)),
        once(f"at least {FEWEST} tokens", (n - FEWEST) / FEWEST),
        once("0 < beta <= 8", min(e.beta, 8 - e.beta) / 8, strict=True),
        once(f"angles of at most {LARGEST} around their mean", 1 - widest / LARGEST),
    ]


def _sample(rng: Rng, k: int) -> dict[str, Any]:
    n = FEWEST + 16 * (k % 3)
    beta = log_uniform(rng, 0.3, 6.0)
    size = rate(beta) / beta * 10.0 ** -(3 + k % 2)
    angles = rng.uniform(0, 2 * np.pi) + size * rng.uniform(-1, 1, n)
    angles += size * np.cos(2 * np.pi * np.arange(n) / n)
    tokens = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return {"tokens": tokens, "beta": beta, "until": float(2 / rate(beta))}


CIRCLE = Setting({"tokens": ..., "beta": 1.0, "until": 4.0}, rotary_model, _sample, samples=6, lengths=())


@ROPE.claim(
    "consensus-rate", "derived: linear stability of consensus", DERIVED, CIRCLE,
    """On the circle, with rotary positions omega = 2 pi / n in the scores only and n large, consensus is approached at
    the rate 1 - I_1(beta) / I_0(beta): .55361 at beta = 1, .30223 at beta = 2. At first order in the angles the wave
    e^{2 pi i k j / n} decays at the rate 1 - I_k(beta) / I_0(beta), of which that is the smallest.""",
    plain="With rotary positions, tokens near one point come together at a rate that is known from beta.",
    given={"tokens near consensus on the circle": _near_consensus},
)  # fmt: skip
def consensus_rate(e: Experiment) -> list[Margins]:
    """The first wave of angles along the run against its rate, and all waves against the smallest rate.

    Angles a_i obey a_i' = sum_j P_ij sin(a_j - a_i). With D the largest |a_i|, P_ij is e^{beta cos(omega (i - j))} / Z,
    its value at consensus, up to a factor within e^{+-4 beta D}, and sin(a_j - a_i) is a_j - a_i up to 4 D^3 / 3. So
    a_i' is what it is at first order up to 8 beta D^2 e^{4 beta D} + 4 D^3 / 3; D never grows.
    """
    angles, times, gap = _angles(e.states), e.times, rate(e.beta)
    what = "the first wave decays at the rate 1 - I_1 / I_0"
    widest = np.abs(angles).max(axis=1)
    error = np.concatenate([[0.0], np.cumsum(np.diff(times) * _off(widest, e.beta)[:-1] * np.exp(gap * times[1:]))])
    waves = np.fft.rfft(angles, axis=1)[:, 1:] / e.shape[0]
    first = np.abs(waves[:, 0] - waves[0, 0] * np.exp(-gap * times))
    norm = np.sqrt((angles * angles).mean(axis=1))
    amplitude = float(np.abs(waves[0, 0]))
    if error[-1] > SEEN * amplitude:
        why = Undecided("the angles are too large, or their first wave too small, to see its rate", "start closer")
        return [unknown(what, why, times[-1])]
    decay = np.exp(-gap * times)
    scale, slower = amplitude * decay, norm - decay * norm[0]
    tol = (64 * e.rtol + 1e-13) / scale
    return [
        Margins(what, (decay * error - first) / scale, times, tol),
        Margins("no wave decays more slowly", (decay * error - slower) / scale, times, tol),
    ]


def _off(widest: Array, beta: float) -> Array:
    """Return by how much the motion of angles of this size differs from the linear one, at most."""
    return 8 * beta * widest**2 * np.exp(4 * beta * widest) + 4 * widest**3 / 3
