"""The fast engine: fused, separable or tree sums, whichever their predictions say is cheapest.

The choice is a function of the inputs, never of timings. All three are within 1e-10 of the diameter of the values.
"""

from __future__ import annotations

from typing import NamedTuple

from attnflow.core.inputs import Array
from attnflow.engines import Memory, fused, separable, tree
from attnflow.engines.centring import about_centre

# The work of the tree, in pairs of the fused engine: of a call, and of a token in the plane and in space. Separable
# sums that cost more than that, as they do from beta R^2 = 90 on with 100,000 tokens, are left to the tree.
TREE_CALL, TREE_TOKEN, TREE_TOKEN_IN_SPACE = 3e6, 400.0, 20000.0


class Choice(NamedTuple):
    """Which engine to take, its work in pairs of the fused one, and the plan of the separable engine."""

    name: str
    work: float
    plan: separable.Plan | None = None


def name(queries: Array, keys: Array, gain: float) -> str:
    """Return which engine `softmax` takes: "fused", "separable" or "tree".

    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((50_000, 2))
    >>> name(x, x, 1.0), name(x, x, 1e4), name(x[:100], x[:100], 1.0)
    ('separable', 'tree', 'fused')
    """
    return plan(queries, keys, gain).name


@about_centre
def softmax(
    queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float, memory: Memory | None = None
) -> tuple[Array, Array]:
    """Return sum_j P_ij v_j and log sum_j w_j e^{g s_ij}, as the dense engine does, to 1e-10.

    If the memory says that the tree was taken last time, it is taken again.
    """
    if memory is None or memory.engine != "tree":
        choice = plan(queries, keys, gain)
        if memory is not None:
            memory.engine = choice.name
        return carry_out(choice, queries, keys, values, log_masses, gain)
    return tree.softmax(queries, keys, values, log_masses, gain)


def carry_out(
    choice: Choice, queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float
) -> tuple[Array, Array]:
    """Return what `softmax` does, by the choice made for these queries and keys."""
    if choice.name == "separable":
        return separable.carry_out(choice.plan, queries, keys, values, log_masses, gain)
    return (tree if choice.name == "tree" else fused).softmax(queries, keys, values, log_masses, gain)


def plan(queries: Array, keys: Array, gain: float) -> Choice:
    """Return the choice with the least predicted work."""
    choices = [for_others(Choice(engine, 0.0), queries, keys, gain) for engine in ("fused", "separable", "tree")]
    return min(choices, key=lambda choice: choice.work)


def for_others(choice: Choice, queries: Array, keys: Array, gain: float) -> Choice:
    """Return the same choice for other tokens; the tree where the separable engine does not apply."""
    m, n, d = len(queries), len(keys), keys.shape[1]
    if choice.name == "fused":
        return Choice("fused", float(m * n))
    if choice.name == "separable":
        made = separable.plan(queries, keys, gain)
        if made is not None:
            return Choice("separable", made.cost(m, n), made)
    return Choice("tree", TREE_CALL + (m + n) * (TREE_TOKEN if d <= 2 else TREE_TOKEN_IN_SPACE))
