"""The fast engine: fused, separable or pruned sums, or two of them, whichever their predictions say is cheapest.

The choice is a function of the inputs, never of timings. All three are within 1e-10 of the diameter of the values.
"""

from __future__ import annotations

import math

import numpy as np

from attnflow.engines import SEPARABLE_DIMENSION, fused, pruned, separable
from attnflow.inputs import Array

# Separable sums at this many pairs of the fused engine per token are taken without looking further.
CHEAP = 500.0


def softmax(queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float) -> tuple[Array, Array]:
    """Return sum_j P_ij v_j and log sum_j w_j e^{g s_ij}, as the dense engine does, to 1e-10."""
    name, radius = plan(queries, keys, gain)
    if name != "both":
        return {"fused": fused, "separable": separable, "pruned": pruned}[name].softmax(
            queries, keys, values, log_masses, gain
        )
    # Queries near the origin hear almost everybody; the others only those near their top score.
    inner = np.einsum("ik,ik->i", queries, queries) <= radius * radius
    mean, log_total = np.empty((len(queries), values.shape[1])), np.empty(len(queries))
    for part, engine in ((inner, separable), (~inner, pruned)):
        mean[part], log_total[part] = engine.softmax(queries[part], keys, values, log_masses, gain)
    return mean, log_total


def plan(queries: Array, keys: Array, gain: float) -> tuple[str, float]:
    """Return which engine to take, and for "both" up to which |q| the separable one.

    >>> x = np.random.default_rng(0).standard_normal((50_000, 2))
    >>> plan(x, x, 1.0)[0], plan(x, x, 1e4)[0], plan(x[:100], x[:100], 1.0)[0]
    ('separable', 'pruned', 'fused')
    """
    m, n = len(queries), len(keys)
    flat = keys.shape[1] <= SEPARABLE_DIMENSION
    costs = {"fused": float(m * n), "separable": separable.cost(queries, keys, gain) if flat else math.inf}
    if costs["separable"] > CHEAP * (m + n):
        costs["pruned"] = pruned.cost(queries, keys, gain)
        radius = pruned.inner_radius(queries, keys, gain)
        if radius is not None:
            inner = np.einsum("ik,ik->i", queries, queries) <= radius * radius
            costs["both"] = separable.cost(queries[inner], keys, gain) + pruned.cost(queries[~inner], keys, gain)
            return min(costs, key=costs.__getitem__), radius
    return min(costs, key=costs.__getitem__), 0.0
