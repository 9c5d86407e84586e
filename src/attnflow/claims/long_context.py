"""Attention in long contexts (arXiv 2510.05554): how beta must grow with the number of tokens."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attnflow.claims.claim import PROVED, Paper, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, once
from attnflow.claims.samplers import Rng, pick
from attnflow.core.inputs import Array
from attnflow.geometry.forms import EPS
from attnflow.laws import Softmax
from attnflow.motions import Layers

LONG_CONTEXT = Paper(
    "long-context",
    "Chen, Lin, Polyanskiy, Rigollet",
    "Critical attention scaling in long-context transformers",
    "2510.05554",
    notation="""Unit tokens x_1 .. x_n with <x_i, x_j> = rho for i != j, 0 < rho < 1; one layer x_i <- m_i = sum_j P_ij
    x_j of softmax with beta = gamma log n. The overlap after it is <m_i, m_j> / (|m_i| |m_j|). The parameter `ratio` is
    gamma (1 - rho): 1 at the critical scaling gamma = 1 / (1 - rho).""",
)


def equiangular(n: int, rho: float) -> Array:
    """Return n unit vectors in dimension n + 1, each two of which have the inner product rho >= 0.

    >>> x = equiangular(3, 0.25)
    >>> (x @ x.T).round(12)
    array([[1.  , 0.25, 0.25],
           [0.25, 1.  , 0.25],
           [0.25, 0.25, 1.  ]])
    """
    return np.column_stack([np.full(n, math.sqrt(rho)), math.sqrt(1 - rho) * np.eye(n)])


def overlap(n: int, rho: float, ratio: float) -> float:
    """Return the overlap after one layer, exactly.

    P = u I + (1 - u) J / n with u = (n^ratio - 1) / (n^ratio + n - 1), and the Gram matrix of the tokens is
    (1 - rho) I + rho J, J the matrix of ones. So that of the m_i is (1 - rho) u^2 (I - J / n) + r J, r = rho +
    (1 - rho) / n.

    >>> round(overlap(100, 0.5, 1.0), 6)
    0.802797
    """
    u = -math.expm1(-ratio * math.log(n)) / (1 + (n - 1) * math.exp(-ratio * math.log(n)))
    common, own = rho + (1 - rho) / n, (1 - rho) * u * u
    return (common - own / n) / (common + own * (1 - 1 / n))


def limit(rho: float, ratio: float) -> float:
    """Return where the overlap tends as n grows."""
    return 1.0 if ratio < 1 else rho if ratio > 1 else 4 * rho / (1 + 3 * rho)


def distance(n: int, rho: float, ratio: float) -> float:
    """Return a bound of the distance of the overlap from its limit."""
    if ratio == 1:
        return 1.5 / (rho * n)
    return 2 * (1 - rho) / rho * n ** (2 * ratio - 2) if ratio < 1 else 2 * (1 - rho) * n ** (1 - ratio)


def _mean_overlap(x: Array) -> float:
    n = len(x)
    return float(((x @ x.T).sum() - (x * x).sum()) / (n * (n - 1))) if n > 1 else 0.0


def _one_layer(given: dict[str, Any]) -> tuple[Softmax, Layers]:
    x = np.asarray(given["tokens"])
    rho = min(_mean_overlap(x), 1 - EPS)
    return Softmax(beta=given["ratio"] * math.log(len(x)) / (1 - rho)), Layers(gamma=1.0)


def _sample(rng: Rng, k: int) -> dict[str, Any]:
    n = pick(rng, (2, 3, 5, 10, 40))
    ratio = (1.0, 0.5, 2.0, float(rng.uniform(0.1, 3)))[k % 4]
    return {"tokens": equiangular(n, float(rng.uniform(0.05, 0.95))), "ratio": ratio}


ONE_LAYER = Setting({"tokens": ..., "ratio": 1.0}, _one_layer, _sample, samples=12, lengths=())


def _equiangular(e: Experiment) -> list[Margins]:
    (n, d), rho = e.shape, _mean_overlap(e.tokens)
    off = e.tokens @ e.tokens.T - (rho + (1 - rho) * np.eye(n))
    return [
        once("n >= 2", n - 1.5, strict=True),
        once("|x_i| = 1 and <x_i, x_j> = rho", -float(np.abs(off).max()), 64 * EPS * d),
        once("0 < rho < 1", min(rho, 1 - rho), 8 * EPS, strict=True),
    ]


def _not_negative(e: Experiment) -> Margins:
    return once("gamma >= 0", e.ratio)


@LONG_CONTEXT.claim(
    "one-layer", "equiangular tokens, as we read it", PROVED, ONE_LAYER,
    """From equiangular tokens with overlap rho and beta = gamma log n, the overlap after one layer tends to 1 for
    gamma < 1 / (1 - rho), to 4 rho / (1 + 3 rho) for gamma = 1 / (1 - rho), and to rho for gamma > 1 / (1 - rho), as n
    grows.""",
    plain="In a very long context one layer merges tokens or leaves them, depending on how beta grows with it.",
    given={"equiangular tokens": _equiangular, "gamma >= 0": _not_negative},
    note="""What is checked is more, and ours. Let g be the ratio gamma (1 - rho). For every n the overlap is
    (r - q / n) / (r + q - q / n), with r = rho + (1 - rho) / n, q = (1 - rho) u^2 and u = (n^g - 1) / (n^g + n - 1);
    and its distance from the limit is at most 2 (1 - rho) n^{2 g - 2} / rho for g < 1, 3 / (2 rho n) for g = 1, and
    2 (1 - rho) n^{1 - g} for g > 1.""",
)  # fmt: skip
def one_layer(e: Experiment) -> list[Margins]:
    """The overlaps of all pairs after one simulated layer against the formula, and their distance from the limit."""
    n, rho, m = e.shape[0], _mean_overlap(e.tokens), e.states[-1]
    unit = m / np.linalg.norm(m, axis=1, keepdims=True)
    found = (unit @ unit.T)[~np.eye(n, dtype=bool)]
    # |m_i|^2 >= rho, and an error of beta s_ij is one of the weights.
    tol = 64 * e.rounding * (e.shape[1] + (1 + e.ratio) * math.log(n) / (1 - rho)) / rho
    exact = overlap(n, rho, e.ratio)
    far = np.abs(found - limit(rho, e.ratio)).max()
    return [
        once("the overlap is that of the formula", -float(np.abs(found - exact).max()), tol),
        once("its distance from the limit is at most the bound", distance(n, rho, e.ratio) - float(far), tol),
    ]
