"""The dense reference: every formula written once with n-by-n arrays. Tests compare all other engines with it.

`scores`, `squared_distances`, `log_softmax`, `neighbours` and `log_shares` take the arrays of any library.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnflow.core.arrays import foreign, namespace, place, sign
from attnflow.core.blocks import row_blocks
from attnflow.core.inputs import Array
from attnflow.engines import LARGEST_GAIN
from attnflow.engines.centring import centre, clearly_near, size


def scores(queries: Array, keys: Array) -> Array:
    """Inner products <q_i, k_j>, summed coordinate by coordinate without fused operations.

    Code that compares scores needs this order: two sources whose products are equal up to a permutation of at
    most two terms then get the same score, bit for bit, and every engine sees the same ties. Leading axes stand for
    several systems.
    """
    total = queries[..., :, None, 0] * keys[..., None, :, 0]
    for k in range(1, queries.shape[-1]):
        total += queries[..., :, None, k] * keys[..., None, :, k]
    return total


def squared_distances(queries: Array, keys: Array) -> Array:
    """Return |q_i - k_j|^2, summed coordinate by coordinate."""
    total = (queries[:, None, 0] - keys[None, :, 0]) ** 2
    for k in range(1, queries.shape[1]):
        total += (queries[:, None, k] - keys[None, :, k]) ** 2
    return total


def log_softmax(queries: Array, keys: Array, log_masses: Array | None, gain: float) -> tuple[Array, Array]:
    """Return log P_ij and log sum_j w_j e^{g s_ij} for P_ij = w_j e^{g s_ij} / sum_k w_k e^{g s_ik}.

    The row maximum is subtracted before the gain g multiplies, so no gain is too large; and keys far from the origin
    are seen from their centre. Leading axes stand for several systems.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        s, shift = scores_about_centre(queries, keys, gain)
        top = _row_maxima(s)
        exponents = _applied(gain, s) * (s - top)
        shift = gain * (top[..., 0] + shift)
    log_p, log_sum = _normalised(exponents, log_masses)
    return log_p, shift + log_sum


def log_softmax_of_scores(scores: Array, log_masses: Array | None, gain: float) -> tuple[Array, Array]:
    """Return log P_ij and log sum_j w_j e^{g s_ij} for given scores, -inf where a source is not heard, whatever g is.

    Every row has a source that is heard.
    """
    xp, direction = namespace(scores), sign(gain)
    heard, turned = scores > -np.inf, direction * scores
    top = _row_maxima(xp.where(heard, turned, -np.inf))
    with np.errstate(over="ignore", invalid="ignore"):
        # Scores that are not heard are out of the way before they are multiplied: derivatives of the gain stay finite.
        apart = _applied(direction * gain, scores) * (xp.where(heard, turned, top) - top)
        shift = direction * gain * top[..., 0]
    log_p, log_sum = _normalised(xp.where(heard, apart, -np.inf), log_masses)
    return log_p, shift + log_sum


def _row_maxima(s: Array) -> Array:
    """Return the largest number of each row: for few tokens, a method of NumPy takes half the time of its function."""
    maxima: Array = namespace(s).max(s, axis=-1, keepdims=True) if foreign(s) else s.max(axis=-1, keepdims=True)
    return maxima


def _normalised(exponents: Array, log_masses: Array | None) -> tuple[Array, Array]:
    """Return log P_ij for weights w_j e^{e_ij}, and the logarithms of their sums; the largest e_ij of each row is 0."""
    xp = namespace(exponents)
    if log_masses is None and xp is np:
        log_sum = np.log(np.exp(exponents).sum(axis=-1, keepdims=True))
        return exponents - log_sum, log_sum[..., 0]
    if log_masses is not None:
        exponents = exponents + log_masses
    highest = _row_maxima(exponents)
    log_sum = highest + xp.log(xp.exp(exponents - highest).sum(axis=-1, keepdims=True))
    return exponents - log_sum, log_sum[..., 0]


def scores_about_centre(queries: Array, keys: Array, gain: float) -> tuple[Array, Array | float]:
    """Return <q_i, k_j - c> and <q_i, c>, c the centre of keys that are far from the origin, otherwise 0."""
    if not foreign(keys) and keys.ndim == 2 and clearly_near(keys):
        return queries @ keys.T, 0.0
    c = centre(keys, gain * size(queries))
    return queries @ (keys - c).swapaxes(-1, -2), (queries @ c.swapaxes(-1, -2))[..., 0]


def _applied(gain: float, scores: Array) -> float:
    """Return the gain, or the largest that the precision of the scores can hold: infinity times zero is no number."""
    if foreign(gain):
        return gain
    return min(gain, float(namespace(scores).finfo(scores.dtype).max) if foreign(scores) else LARGEST_GAIN)


def softmax(queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float) -> tuple[Array, Array]:
    """Return sum_j P_ij v_j and log sum_j w_j e^{g s_ij}."""
    log_p, log_total = log_softmax(queries, keys, log_masses, gain)
    if clearly_near(values):
        return np.exp(log_p) @ values, log_total
    c = centre(values)
    return np.exp(log_p) @ (values - c) + c, log_total


def softmax_by_blocks(
    queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float
) -> tuple[Array, Array]:
    """Return what `softmax` does from a few rows at a time: slow, but never an n-by-n array."""
    blocks = [softmax(queries[rows], keys, values, log_masses, gain) for rows in row_blocks(len(queries), len(keys))]
    mean, log_total = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return mean, log_total


def pull(queries: Array, x: Array, keys: Array, log_masses: Array | None, gain: float) -> tuple[Array, Array]:
    """Return sum_j P_ij (k_j - x_i) and log sum_j w_j e^{g s_ij}: differences first, so that nothing small is lost."""
    log_p, log_total = log_softmax(queries, keys, log_masses, gain)
    return np.einsum("ij,ijk->ik", np.exp(log_p), keys[None] - x[:, None]), log_total


def neighbours(
    queries: Array, keys: Array, weights: Array, slack: Array, relative: float
) -> tuple[NDArray[np.bool_], Array, NDArray[np.int64]]:
    """Return where s_ij >= M_i - slack_i - relative |M_i|, M_i = max_j s_ij, and the first index that attains it.

    Sources of weight 0 are absent. Leading axes stand for several systems.
    """
    s = namespace(queries).where(weights[..., None, :] > 0, scores(queries, keys), -np.inf)
    return near_top(s, slack, relative)


def near_top(s: Array, slack: Array, relative: float) -> tuple[NDArray[np.bool_], Array, NDArray[np.int64]]:
    """Return the same for given scores, -inf where a source is absent."""
    xp = namespace(s)
    best, leader = xp.max(s, axis=-1), s.argmax(axis=-1)
    near = s >= (best - slack - relative * xp.abs(best))[..., None]
    if foreign(s):
        # A compiler such as that of JAX may compute a score twice and round it in two ways: then none reaches the best.
        near = near | (xp.arange(s.shape[-1], **place(s)) == leader[..., None])
    return near, best, leader


def top(
    queries: Array, keys: Array, values: Array, weights: Array, slack: Array, relative: float
) -> tuple[Array, Array, NDArray[np.int64]]:
    """Return the weighted mean over each row's neighbours, its top score and its leader."""
    near, best, leader = neighbours(queries, keys, weights, slack, relative)
    return shares(near, weights) @ values, best, leader


def ball(queries: Array, keys: Array, values: Array, weights: Array, radius: float) -> Array:
    """Return the weighted mean of the values of the sources within a distance of each query."""
    return shares(squared_distances(queries, keys) <= radius * radius, weights) @ values


def shares(near: NDArray[np.bool_], weights: Array) -> Array:
    """Return P_ij: the weights of the true entries of each row, divided by their sum."""
    w = np.where(near, weights[..., None, :], 0.0)
    return w / w.sum(axis=-1, keepdims=True)


def log_shares(near: NDArray[np.bool_], weights: Array) -> Array:
    """Return log P_ij, -inf where false: in a form whose derivatives in the weights are finite everywhere."""
    xp = namespace(near)
    w = weights[..., None, :]
    with np.errstate(divide="ignore"):
        return xp.where(near, xp.log(w) - xp.log(xp.where(near, w, 0.0).sum(axis=-1, keepdims=True)), -np.inf)
