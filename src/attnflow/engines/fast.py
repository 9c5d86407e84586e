"""The fast engine: fused, separable or pruned sums, or two of them, whichever their predictions say is cheapest.

The choice is a function of the inputs, never of timings. All three are within 1e-10 of the diameter of the values.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array
from attnflow.engines import Memory, fused, pruned, separable
from attnflow.engines.centring import about_centre

# If separable sums cost at most this many pairs of the fused engine per token, the other engines are not considered.
CHEAP = 500.0
BOTH = "separable and pruned"


class Choice(NamedTuple):
    """Which engine to take; its work in pairs of the fused one.

    Of the separable engine also the plan, and up to which |q| it is taken if two engines are.
    """

    name: str
    work: float
    plan: separable.Plan | None = None
    radius: float = 0.0


def name(queries: Array, keys: Array, gain: float) -> str:
    """Return which engine `softmax` takes: "fused", "separable", "pruned" or "separable and pruned".

    >>> x = np.random.default_rng(0).standard_normal((50_000, 2))
    >>> name(x, x, 1.0), name(x, x, 1e4), name(x[:100], x[:100], 1.0)
    ('separable', 'pruned', 'fused')
    """
    return plan(queries, keys, gain).name


@about_centre
def softmax(
    queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float, memory: Memory | None = None
) -> tuple[Array, Array]:
    """Return sum_j P_ij v_j and log sum_j w_j e^{g s_ij}, as the dense engine does, to 1e-10.

    If the memory holds the order of a pruned sum, the pruned engine is used again.
    """
    if memory is not None and memory.keys is not None:
        return pruned.softmax(queries, keys, values, log_masses, gain, memory)
    return carry_out(plan(queries, keys, gain), queries, keys, values, log_masses, gain, memory)


def carry_out(
    choice: Choice,
    queries: Array,
    keys: Array,
    values: Array,
    log_masses: Array | None,
    gain: float,
    memory: Memory | None = None,
) -> tuple[Array, Array]:
    """Return what `softmax` does, by the choice made for these queries and keys."""
    if choice.name == "separable":
        return separable.carry_out(choice.plan, queries, keys, values, log_masses, gain)
    if choice.name == "pruned":
        return pruned.softmax(queries, keys, values, log_masses, gain, memory)
    if choice.name == "fused":
        return fused.softmax(queries, keys, values, log_masses, gain)
    inner = _within(queries, choice.radius)
    outer = ~inner
    mean, log_total = np.empty((len(queries), values.shape[1])), np.empty(len(queries))
    mean[inner], log_total[inner] = separable.carry_out(choice.plan, queries[inner], keys, values, log_masses, gain)
    mean[outer], log_total[outer] = pruned.softmax(queries[outer], keys, values, log_masses, gain)
    return mean, log_total


def plan(queries: Array, keys: Array, gain: float) -> Choice:
    """Return the choice with the least predicted work.

    Queries near the origin hear almost all sources; the others only the sources near their top score.
    """
    m, n = len(queries), len(keys)
    made = separable.plan(queries, keys, gain)
    alone = math.inf if made is None else made.cost(m, n)
    choices = [Choice("fused", float(m * n)), Choice("separable", alone, made)]
    if alone > CHEAP * (m + n):
        heard = pruned.listeners(queries, keys, gain)
        choices.append(Choice("pruned", pruned.cost(queries, keys, gain, heard)))
        radius = pruned.inner_radius(queries, keys, gain, heard)
        if radius is not None:
            both = for_others(Choice(BOTH, 0.0, None, radius), queries, keys, gain)
            choices.append(both._replace(work=work(both, queries, keys, gain)))
    return min(choices, key=lambda choice: choice.work)


def for_others(choice: Choice, queries: Array, keys: Array, gain: float) -> Choice:
    """Return the same choice for other tokens: far cheaper than to choose anew."""
    if choice.name not in ("separable", BOTH):
        return choice
    inner = queries if choice.name == "separable" else queries[_within(queries, choice.radius)]
    return choice._replace(plan=separable.plan(inner, keys, gain) if len(inner) else None)


def work(choice: Choice, queries: Array, keys: Array, gain: float) -> float:
    """Predict the work of a choice that was made for these tokens, or for others, in pairs of the fused engine."""
    if choice.name == "fused":
        return float(len(queries) * len(keys))
    if choice.name == "pruned":
        return pruned.cost(queries, keys, gain)
    if choice.plan is None:
        return math.inf
    alone = choice.plan.cost(len(choice.plan.queries), len(keys))
    outer = queries[~_within(queries, choice.radius)] if choice.name == BOTH else queries[:0]
    return alone + (pruned.cost(outer, keys, gain) if len(outer) else 0.0)


def _within(queries: Array, radius: float) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = np.einsum("ik,ik->i", queries, queries) <= radius * radius
    return inside
