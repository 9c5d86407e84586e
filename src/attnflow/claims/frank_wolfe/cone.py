"""Cone polytopes, and many runs of the Markov chain (SA_P) around their vertices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, once
from attnflow.claims.samplers import Rng, rotation
from attnflow.core.inputs import Array, InputError, cloud, number, whole
from attnflow.laws import Softmax
from attnflow.motions import Jumps


def chain_model(given: dict[str, Any]) -> tuple[Softmax, Jumps]:
    return Softmax(beta=given["beta"]), Jumps(gamma=given["gamma"])


def many_chains(e: Experiment, x: Array, until: int, stop: Any) -> tuple[NDArray[Any], Array]:
    """Run the chains of the experiment from x; return when each stopped and where."""
    from attnflow.motions.jumps import chains

    motion: Any = e.motion
    if not motion.chain:
        raise InputError(f"motion is {motion!r}, but this claim is about the chain: give Jumps(gamma=...)")
    gamma = number(motion.gamma, "gamma", above=0.0, most=1.0)
    rng = np.random.default_rng([e.seed, 1])
    return chains(x, e.law, gamma, until, whole(e.runs, "runs", least=1), rng, stop)


@dataclass(frozen=True)
class Cone:
    """A cone polytope: vertices with equal norms R, gap c0 = min_i (<v_i, v_i> - <v_i, v_j>), diameter D."""

    v: Array

    @property
    def c0(self) -> float:
        """The gap between a vertex' own score and the others'."""
        G = self.v @ self.v.T
        return float((np.diag(G)[:, None] - G)[~np.eye(len(G), dtype=bool)].min())

    @property
    def R(self) -> float:
        """The largest norm of a vertex."""
        return float(np.linalg.norm(self.v, axis=1).max())

    @property
    def D(self) -> float:
        """The diameter."""
        return float(np.linalg.norm(self.v[:, None] - self.v[None], axis=2).max())

    def assigned(self, x: Array) -> NDArray[np.int64]:
        """Return sigma: the vertex whose cell each token lies in."""
        return (x @ self.v.T).argmax(axis=1)

    def margin(self) -> float:
        """Return by how much vertex cones are acute and norms equal, over the squared size."""
        v, norms = self.v, (self.v**2).sum(axis=1)
        edges = [np.delete(v, i, axis=0) - v[i] for i in range(len(v))]
        acute = min(float((edge @ edge.T).min()) for edge in edges)
        unequal = float(norms.max() - norms.min())
        return -unequal / self.R**2 if unequal > 1e-12 * self.R**2 else min(acute, self.c0) / self.R**2


def cone_of(e: Experiment) -> Cone:
    v, x = cloud(e.vertices, "vertices"), e.instance["tokens"]
    if len(v) < 2:
        raise InputError(f"vertices holds {len(v)} point, expected the two or more vertices of a cone polytope")
    if x is not None and x.shape[1] != v.shape[1]:
        raise InputError(f"tokens have {x.shape[1]} coordinates and vertices {v.shape[1]}: give both in one space")
    return Cone(v)


def is_cone(e: Experiment) -> Margins:
    return once("vertex cones acute, norms equal", cone_of(e).margin(), 1e-12, strict=True)


def random_simplex(rng: Rng, k: int) -> Array:
    """Return a random acute triangle around its circumcentre, or a regular simplex, turned."""
    d = int(rng.integers(2, 4))
    if d == 2 and k % 2:
        while True:
            angles = np.sort(rng.uniform(0, 2 * np.pi, 3))
            v = np.column_stack([np.cos(angles), np.sin(angles)])
            if Cone(v).margin() > 0.05:
                return v
    corners = np.eye(d + 1) - 1 / (d + 1)
    basis = np.linalg.svd(corners)[2][:d]
    turn = rotation(rng, d)
    v = corners @ basis.T @ turn
    return v / np.linalg.norm(v, axis=1, keepdims=True)


def log_sum(log_weights: Array) -> Array:
    """Return log sum_j e^{w_ij} for each row, minus infinity for a row of nothing."""
    top = np.maximum(log_weights.max(axis=1), -1e300)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(np.exp(log_weights - top[:, None]).sum(axis=1)))
