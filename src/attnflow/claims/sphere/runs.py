"""Tokens on the sphere: the model, clouds, and what can be said of every run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnflow.claims.claim import Instance, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, per_token
from attnflow.claims.samplers import Rng, cloud, pick
from attnflow.core.inputs import Array, InputError, number
from attnflow.core.inputs import cloud as rows_of
from attnflow.geometry.forms import EPS
from attnflow.geometry.nearest import nearest
from attnflow.laws import Softmax
from attnflow.motions import SphereFlow

# Pairs closer than this, in 1 - <x_i, x_j>, are left to rounding.
FLOOR = 1e-12
# A pair counts as merged from this inner product on.
MERGE = 0.999


def sphere_model(given: dict[str, Any]) -> tuple[Softmax, SphereFlow]:
    """Return SA, or USA if `normalized` is False."""
    beta = number(given["beta"], "beta")
    return Softmax(beta=beta, B=given.get("B")), SphereFlow(normalized=given.get("normalized", True))


def flows_until(until: float, sample: Callable[[Rng, int], Instance], samples: int, beta: float = 1.0) -> Setting:
    """Return the setting of SA and USA with B = I, with these defaults."""
    parameters = {"tokens": ..., "beta": beta, "normalized": True, "until": until}
    return Setting(parameters, sphere_model, sample, samples=samples, lengths=())


def normalised(x: Array) -> Array:
    """Return the tokens divided by their norms; those at 0 go to the first pole."""
    x = x.copy()
    x[~x.any(axis=1), 0] = 1.0
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def on_sphere(rng: Rng, k: int, n: int | None = None, d: int | None = None) -> Array:
    d = int(rng.integers(2, 5)) if d is None else d
    return normalised(cloud(rng, k, n, d))


def in_hemisphere(rng: Rng, k: int) -> Array:
    """Return the k-th kind of cloud, reflected and pushed into an open hemisphere."""
    x = on_sphere(rng, k)
    w = normalised(rng.standard_normal((1, x.shape[1])))[0]
    x = np.where((x @ w < 0)[:, None], -x, x)
    return normalised(x + pick(rng, (0.05, 0.2, 1.0)) * w)


def pair_gaps(x: Array) -> Array:
    """Return 1 - <x_i, x_j> for all pairs as |x_i - x_j|^2 / 2, to full relative precision near 0."""
    apart = x[..., :, None, :] - x[..., None, :, :]
    return (apart * apart).sum(axis=-1) / 2


def score_size(e: Experiment) -> float:
    """Return beta |B|, the largest score up to its sign."""
    return abs(e.beta) * (1.0 if e.instance.get("B") is None else float(np.linalg.norm(e.form(), 2)))


def best_axis(x: Array) -> tuple[Array, float]:
    """Return the direction w with the largest min_i <x_i, w>, and that minimum: 0 if no hemisphere is open enough."""
    foot = nearest(x, np.zeros(x.shape[1]))[1] @ x
    length = float(np.linalg.norm(foot))
    w = foot / length if length > 0 else foot
    return w, float((x @ w).min())


def pole_of(e: Experiment) -> Array:
    """Return the w that was given, or the axis of the tokens at the start."""
    if e.w is None:
        return best_axis(e.tokens)[0]
    w = rows_of(np.reshape(e.w, (1, -1)), "w")[0]
    if w.shape != (e.shape[1],) or not w.any():
        raise InputError(f"w has {w.size} coordinates, expected a direction: give a list of {e.shape[1]} numbers")
    return np.asarray(w / np.linalg.norm(w))


def integration_error(e: Experiment) -> float:
    """Return how far the integrator may be off between two records, beside the difference from a rerun."""
    return 0.0 if e.motion.discrete else 8 * e.rtol


def lowest_never_falls(e: Experiment) -> Margins:
    """The least <x_i, w> after every step against the step before."""
    lowest = (e.states @ pole_of(e)).min(axis=1)
    tol = 16 * e.shape[1] * EPS + integration_error(e)
    return Margins("min_i <x_i, w> never decreases", np.diff(lowest), e.times[:-1], tol)


def open_hemisphere(e: Experiment) -> Margins:
    """<x_i, w> > 0 for all i, w the best direction or the one given."""
    return per_token("<x_i, w> > 0", e.tokens @ pole_of(e), 1e-12, strict=True)


def least_weight(e: Experiment, gap: Array) -> Array:
    """Return a lower bound of all a_ij while 1 - <x_i, x_j> <= gap for all pairs."""
    n = e.shape[0]
    plain = e.instance.get("B") is None
    if e.instance.get("normalized", True):
        spread = abs(e.beta) * gap if plain else score_size(e) * np.sqrt(2 * gap)
        return 1 / (1 + (n - 1) * np.exp(spread))
    least = np.minimum(e.beta * (1 - gap), e.beta) if plain else np.full(gap.shape, -score_size(e))
    return np.asarray(np.exp(least) / n)


def acute_contracts(e: Experiment, clock: Array | None = None) -> Margins:
    """Return by how much c = min <x_i, x_j>, once positive, grows faster than c' >= 2 min a_ij c (1 - c).

    The `clock` is how much time passes for the slowest token between two records, the time itself unless given.

    For a pair where the minimum is attained, <x_i, x_j>' = sum_k a_ik (<x_k, x_j> - <x_i, x_k> c) + the same with i
    and j exchanged; each term is at least a_ik c (1 - <x_i, x_k>), and that of k = j is a_ij c (1 - c) or more.
    So log(c / (1 - c)) grows at least at the rate 2 min a_ij, and c tends to 1.
    """
    gap = pair_gaps(e.states).max(axis=(1, 2))
    before, after = gap[:-1], gap[1:]
    usable = (before < 1 - 1e-9) & (before > FLOOR) & (after > FLOOR)
    u, v = np.where(usable, before, 0.5), np.where(usable, np.minimum(after, 1 - EPS), 0.5)
    gain = np.log((1 - v) / v) - np.log((1 - u) / u)
    passed = np.diff(e.times) if clock is None else clock
    margin = np.where(usable, gain - 2 * least_weight(e, u) * passed, 1.0)
    what = "log(c / (1 - c)), c = min <x_i, x_j> > 0, grows at the rate 2 min a_ij or faster"
    return Margins(what, margin, e.times[:-1], integration_error(e) / (np.sqrt(np.minimum(u, v)) * (1 - u)))


def local_rate(e: Experiment) -> Margins:
    """Return by how much the decay of every 1 - <x_i, x_j> keeps within an explicit distance of the local rate.

    With eta = max (1 - <x_i, x_j>) and s = beta |B|, SA has |(log(1 - <x_i, x_j>))' + 2| <= (2 + 8 s) eta as long as
    2 s eta <= 1. USA has the rate 2 a, a = e^{beta <B x, x>}, up to 2 a (q - 1) + a q (2 eta + 6 s delta), with
    delta^2 = 2 eta and q = e^{2 s delta}, as long as s delta <= 1.
    """
    gaps, s, step = pair_gaps(e.states), score_size(e), np.diff(e.times)
    eta = gaps.max(axis=(1, 2))[:-1]
    if e.normalized:
        rate, error = np.full(eta.shape, 2.0), (2 + 8 * s) * eta
    else:
        first = e.states[:-1, 0]
        a, delta = np.exp(e.beta * ((first @ e.form().T) * first).sum(axis=1)), np.sqrt(2 * eta)
        q = np.exp(np.minimum(2 * s * delta, 50))
        rate, error = 2 * a, 2 * a * (q - 1) + a * q * (2 * eta + 6 * s * delta)
    near = (error <= rate / 4) & (s * np.sqrt(2 * eta) <= 1)
    usable = near[:, None, None] & (gaps[:-1] > FLOOR) & (gaps[1:] > FLOOR)
    u, v = np.where(usable, gaps[:-1], 1.0), np.where(usable, gaps[1:], 1.0)
    off = np.where(usable, np.abs(np.log(v / u) + (rate * step)[:, None, None]), 0.0).max(axis=(1, 2))
    least = np.minimum(u, v).min(axis=(1, 2))
    margin = np.where(usable.any(axis=(1, 2)), (error * step - off) / (rate * step), 1.0)
    what = "near consensus 1 - <x_i, x_j> decays like e^{-2t}, or e^{-2 e^{beta <Bx,x>} t} for USA, up to O(its size)"
    return Margins(what, margin, e.times[:-1], integration_error(e) / np.sqrt(least) / (rate * step))
