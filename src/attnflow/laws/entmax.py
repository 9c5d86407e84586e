"""Entmax attention: between softmax and hardmax, with weights that are exactly zero."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from attnflow.core.inputs import Array, Scalar, each_mass, number_at
from attnflow.core.parameters import about
from attnflow.laws.scored import Scored, WithBeta

# Newton's method for the thresholds ends when the sum of a row, or the threshold, is known up to rounding.
ROUNDING, MOST_STEPS = 4e-16, 300
# Exponentials of larger numbers leave float64.
LARGEST = 700.0


@dataclass(frozen=True, eq=False)
class WithAlpha:
    """The parameter alpha of entmax, which stands before beta."""

    alpha: Scalar = field(default=1.5, metadata=about("function", "1 is softmax, 2 is sparsemax", least=1.0))


@dataclass(frozen=True, eq=False)
class Entmax(Scored, WithBeta, WithAlpha):
    """Entmax attention: row i of P maximises <p, z_i> + H_alpha(p) over probabilities p, z_ij = beta <B x_i + b, x_j>.

    H_alpha(p) = sum_j (p_j - p_j^alpha) / (alpha (alpha - 1)) is the Tsallis entropy. So
    P_ij = [(alpha - 1) z_ij - tau_i]_+^{1 / (alpha - 1)}, with the tau_i for which the row sums to one: sources far
    below the top score have weight exactly 0. alpha = 1 is `Softmax`, alpha = 2 is `Sparsemax`, and alpha or beta to
    infinity is `Hardmax`. Weights are continuous in the scores: Lipschitz for alpha <= 2, and for larger alpha up to
    a power 1 / (alpha - 1) where a weight is nearly 0.

    A token of mass w counts as w tokens: P_ij = w_j [(alpha - 1) z_ij - tau_i]_+^{1 / (alpha - 1)}. For alpha > 1 the
    weights depend on the total mass too: two copies of all tokens are as one copy at twice the beta, for alpha = 2.

    Sums are formed in blocks of rows. The time is that of n^2 powers for each of about ten steps of Newton's method, of
    n^2 products for alpha = 1.5 and 2. B, b, Q and K are those of `Softmax`.

    Examples
    --------
    >>> import attnflow as af
    >>> x = [[1.0], [0.5], [-1.0]]
    >>> af.Entmax(alpha=1.5).weights(x)[0].round(4)
    array([0.674, 0.326, 0.   ])
    >>> af.Entmax(alpha=2.0).weights(x)[0]
    array([0.75, 0.25, 0.  ])

    References
    ----------
    Peters, Niculae, Martins, *Sparse sequence-to-sequence models* (arXiv 1905.05702).
    """

    name: ClassVar[str] = "entmax"
    title: ClassVar[str] = "Entmax"
    formula: ClassVar[str] = "P_ij = [(alpha - 1) beta <B x_i, x_j> - tau_i]_+^{1/(alpha - 1)}"

    def of_scores(
        self, scores: Array, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return log P_ij from the thresholds of the rows; -inf where P_ij = 0."""
        alpha = number_at(self.alpha, t, "alpha", least=1.0)
        if alpha == 1:
            return self.softmax().of_scores(scores, x, t, sources=sources, masses=masses)
        return log_entmax(scores, alpha, number_at(self.beta, t, "beta"), masses)


def log_entmax(scores: Array, alpha: float, beta: float, masses: Array | None) -> Array:
    """Return log P_ij of entmax with alpha > 1 of the rows of beta times the scores; a score of -inf is not heard.

    With v_ij = (alpha - 1) beta (s_ij - M_i), M_i the top score, and q = 1 / (alpha - 1), weights are
    w_j [r + v_ij]_+^q, where r > 0 is how far the threshold is below the top.

    >>> log_entmax(np.array([[0.0, -0.5, -2.0]]), 2.0, 1.0, None).round(4)
    array([[-0.2877, -1.3863,    -inf]])
    """
    q, w = 1 / (alpha - 1), each_mass(masses, scores.shape[-1])[..., None, :]
    unheard = (scores == -np.inf) | (w == 0)
    s = np.where(unheard, -np.inf, scores if beta >= 0 else -scores)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        v = (alpha - 1) * (abs(beta) * (s - s.max(axis=-1, keepdims=True)))
        v = np.where(unheard, -np.inf, v)
        mass = np.where(unheard, 0.0, w)
        log_p: Array = np.log(mass) + (_from_the_top(v, mass, q) if alpha <= 2 else _from_the_lowest(v, mass, alpha))
        log_p -= np.log(np.exp(log_p).sum(axis=-1, keepdims=True))
    return log_p


def _from_the_top(v: Array, mass: Array, q: float) -> Array:
    """Return q log [r + v]_+ for alpha <= 2, up to a constant in each row.

    The logarithm of sum_j w_j r^q [1 + v_j / r]_+^q is an increasing function of log r, of which Newton's method finds
    the zero between bounds that it narrows.
    """
    # All sources at the top score have at most the whole weight; all sources, were they there, at least.
    low = -np.log(mass.sum(axis=-1, keepdims=True)) / q
    high = -np.log(np.where(v == 0, mass, 0.0).sum(axis=-1, keepdims=True)) / q
    found: Array = q * np.log(_bases(v, _zero(v, mass, q, low, high)))
    return found


def _from_the_lowest(v: Array, mass: Array, alpha: float) -> Array:
    """Return q log [r + v]_+ for alpha > 2, where a small weight p makes r + v = p^(alpha - 1) less than r can resolve.

    So the lowest source k with a weight is sought first: it has one if the others, with r = -v_k, have a sum less than
    one. The unknown is then u = (r + v_k)^q. With d_j = v_j - v_k >= 0 and c_j = d_j^q, the others have
    (r + v_j)^q = (u^(alpha - 1) + c_j^(alpha - 1))^q, the norm of (u, c_j) in l^(alpha - 1): the sum of a row is convex
    in u, with slopes between the mass of source k and that of all, and Newton's method falls to u from above.
    """
    d = v - _lowest(v, mass, 1 / (alpha - 1))
    mass, c = np.where(d >= 0, mass, 0.0), np.maximum(d, 0.0) ** (1 / (alpha - 1))
    rest = 1 - (mass * c).sum(axis=-1, keepdims=True)
    u = rest / np.where(d == 0, mass, 0.0).sum(axis=-1, keepdims=True)
    for _ in range(MOST_STEPS):
        norm = _norm(u, c, alpha - 1)
        value = (mass * norm).sum(axis=-1, keepdims=True) - 1
        new = u - value / (mass * (u / norm) ** (alpha - 2)).sum(axis=-1, keepdims=True)
        # Steps that do not go down are rounding.
        found = (value <= ROUNDING) | ~((new > 0) & (new < u))
        if found.all():
            break
        u = np.where(found, u, new)
    return np.where(d >= 0, np.log(_norm(u, c, alpha - 1)), -np.inf)


def _lowest(v: Array, mass: Array, q: float) -> Array:
    """Return the v_k (..., m, 1) of the lowest source with a weight in each row, by bisection over the sorted ones."""
    ordered = np.sort(v, axis=-1)[..., ::-1]
    low = np.zeros((*v.shape[:-1], 1), dtype=np.int64)  # a source at the top always has a weight
    high = np.full_like(low, v.shape[-1])
    while (high - low > 1).any():
        middle = (low + high) // 2
        others = np.maximum(v - np.take_along_axis(ordered, middle, axis=-1), 0.0) ** q
        heard = (mass * others).sum(axis=-1, keepdims=True) < 1
        low, high = np.where(heard, middle, low), np.where(heard, high, middle)
    return np.take_along_axis(ordered, low, axis=-1)


def _norm(u: Array, c: Array, p: float) -> Array:
    """Return (u^p + c^p)^(1/p), for u > 0 and c >= 0, also where powers leave float64."""
    large = np.maximum(u, c)
    found: Array = large * (1 + (np.minimum(u, c) / large) ** p) ** (1 / p)
    return found


def _bases(v: Array, log_r: Array) -> Array:
    """Return [1 + v / r]_+, 1 where v = 0 however small r is."""
    found: Array = np.maximum(1 + v * np.exp(np.minimum(-log_r, LARGEST)), 0.0)
    return found


def _zero(v: Array, mass: Array, q: float, low: Array, high: Array) -> Array:
    """Return the log r (..., m, 1) between the bounds at which sum_j w_j r^q [1 + v_j / r]_+^q = 1 in each row."""
    y, before = high, np.inf
    for _ in range(MOST_STEPS):
        base = _bases(v, y)
        lower = _power(base, q - 1) * mass
        total, slope = (lower * base).sum(axis=-1, keepdims=True), lower.sum(axis=-1, keepdims=True)
        value = q * y + np.log(total)
        low, high = np.where(value <= 0, y, low), np.where(value >= 0, y, high)
        found = (np.abs(value) <= ROUNDING * (1 + np.abs(q * y))) | (high - low <= ROUNDING * (1 + np.abs(y)))
        if found.all():
            break
        new = y - value * total / (q * slope)
        # Where a step leaves the bounds or gains little, the middle of the bounds is further.
        slow = ~((new >= low) & (new <= high)) | (np.abs(value) > before / 2)
        y, before = np.where(found, y, np.where(slow, (low + high) / 2, new)), np.abs(value)
    return y


def _power(base: Array, q: float) -> Array:
    """Return base^q, 0 where the base is."""
    if q == 1:
        return base
    with np.errstate(divide="ignore"):
        found: Array = np.where(base > 0, 1.0 if q == 0 else base**q, 0.0)
    return found
