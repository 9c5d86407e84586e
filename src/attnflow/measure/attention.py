"""Measurements of attention: who leads, the rank of P, the interaction energy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.inputs import Array, InputError, Matrix, cloud, each_mass, mass_vector, number
from attnflow.laws import Heads, Law, Softmax
from attnflow.laws.law import row_blocks


@dataclass(frozen=True)
class Leaders:
    """Leaders of a configuration.

    `index` (n,) is the source each token weighs most, the first one if several; `distinct` lists those sources;
    `heard` (n,) is how much each token is listened to, the column mass sum_i w_i P_ij / sum_i w_i.
    """

    index: NDArray[np.int64]
    distinct: NDArray[np.int64]
    heard: Array


def leaders(law: Law, x: ArrayLike, t: float = 0, masses: ArrayLike | None = None) -> Leaders:
    """Return who leads: argmax_j P_ij for each token, the distinct leaders, and how much each token is heard.

    >>> import attnflow as af
    >>> leaders(af.Hardmax(), [[2.0], [1.0], [-1.0]]).index
    array([0, 0, 2])

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465).
    """
    if isinstance(law, Heads):
        raise InputError("heads have leaders one by one: ask for the leaders of each law of the heads")
    tokens = cloud(x)
    w = mass_vector(masses, len(tokens))
    listeners = each_mass(w, len(tokens))
    index, heard = [], np.zeros(len(tokens))
    for rows in row_blocks(len(tokens), len(tokens)):
        log_p = law.log_weights(tokens[rows], t, sources=tokens, masses=w)
        index.append(log_p.argmax(axis=1))
        heard += listeners[rows] @ np.exp(log_p)
    found = np.concatenate(index)
    return Leaders(found, np.unique(found), heard / listeners.sum())


@dataclass(frozen=True)
class Rank:
    """A numerical rank, with the singular values and the tolerance it was read from."""

    value: int
    singular_values: Array
    tol: float


def rank(P: ArrayLike, tol: float = 1e-8) -> Rank:
    """Return the number of singular values of P above tol times the largest.

    >>> rank([[0.5, 0.5], [0.5, 0.5]]).value
    1

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465), on the limiting low-rank attention matrix.
    """
    matrix = cloud(P, "P")
    values: Array = np.linalg.svd(matrix, compute_uv=False).astype(np.float64)
    cut = number(tol, "tol", least=0.0) * values[0]
    return Rank(int((values > cut).sum()), values, float(tol))


def energy(x: ArrayLike, beta: float = 1.0, B: Matrix = None, masses: ArrayLike | None = None) -> float:
    """Return the interaction energy E = (2 beta n^2)^{-1} sum_ij e^{beta <B x_i, x_j>}, n the total mass.

    >>> import math
    >>> math.isclose(energy([[1.0, 0.0], [1.0, 0.0]], beta=1.0), math.e / 2)
    True

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794).
    """
    tokens = cloud(x)
    w = mass_vector(masses, len(tokens))
    law = Softmax(beta=number(beta, "beta"), B=B)
    if beta == 0:
        raise InputError("beta is 0, where the energy has no finite value: give beta different from 0")
    log_total = law.hear(tokens, masses=w).log_total
    assert log_total is not None
    mass = each_mass(w, len(tokens))
    with np.errstate(over="ignore"):
        total = float((mass * np.exp(log_total)).sum() / (2 * beta * mass.sum() ** 2))
    if not np.isfinite(total):
        raise InputError(f"the energy at beta = {beta:g} leaves the range of float64: rescale the tokens or lower beta")
    return total
