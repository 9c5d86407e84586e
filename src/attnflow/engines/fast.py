"""The fast engine: all pairs, separable sums or the tree, whichever its predictions say is cheapest.

The choice is a function of the inputs, never of timings. All are within 1e-10 of the diameter of the values.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from attnflow.core.inputs import Array
from attnflow.engines import BLOCKED_DIMENSION, Memory, module, separable, tree_sample
from attnflow.engines.centring import about_centre

# The work of the tree, in pairs of the engine that sums all of them: of a call, and of a token; and in the plane, for n
# tokens that are spread over S > COMPACT boxes of a separable grid, TREE_SPREAD times the root of n (S - COMPACT).
# Separable sums that cost more are left to the tree: those of 100,000 tokens in a disc from about beta R^2 = 125 on.
TREE_CALL, TREE_TOKEN, TREE_SPREAD, COMPACT = 5e6, 110.0, 3000.0, 64.0
# Beyond the plane the tree looks at a part of all pairs, and each takes it longer: IN_SPACE times as long in space, and
# d / IN_DIMENSIONS times in d dimensions. In space expansions leave at most the work of MOST_IN_SPACE pairs a token.
IN_SPACE, IN_DIMENSIONS, MOST_IN_SPACE = 1.6, 3.5, 20000.0


class Choice(NamedTuple):
    """Which engine to take, and its work, in pairs of the engine that sums all of them.

    For the separable engine also its plan; for the tree the part of all pairs that it looks at.
    """

    name: str
    work: float
    plan: separable.Plan | None = None
    heard: float = 0.0


def name(queries: Array, keys: Array, gain: float) -> str:
    """Return which engine `softmax` takes: "fused" or "blocked", "separable" or "tree".

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

    An engine that the memory holds is taken again, but for the separable one, which needs a plan of its own.
    """
    if memory is not None and memory.engine not in ("", "separable"):
        return carry_out(Choice(memory.engine, 0.0), queries, keys, values, log_masses, gain)
    choice = plan(queries, keys, gain)
    if memory is not None:
        memory.engine = choice.name
    return carry_out(choice, queries, keys, values, log_masses, gain)


def carry_out(
    choice: Choice, queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float
) -> tuple[Array, Array]:
    """Return what `softmax` does, by the choice made for these queries and keys."""
    if choice.name == "separable":
        return separable.carry_out(choice.plan, queries, keys, values, log_masses, gain)
    sums: tuple[Array, Array] = module(choice.name).softmax(queries, keys, values, log_masses, gain)
    return sums


def plan(queries: Array, keys: Array, gain: float) -> Choice:
    """Return the choice with the least predicted work."""
    m, n, d = len(queries), len(keys), keys.shape[1]
    least = Choice("blocked" if d >= BLOCKED_DIMENSION else "fused", float(m * n))
    if not m:
        return least
    made = separable.plan(queries, keys, gain, lambda spread: min(least.work, _in_plane(m, n, d, spread)))
    if made is not None and made.cost(m, n) < least.work:
        least = Choice("separable", made.cost(m, n), made)
        if d <= 2:
            return least
    if least.work <= _work_of_tree(m, n, d, 0.0):
        return least
    heard = tree_sample.heard(queries, keys, gain) if d > 2 else 0.0
    tree = Choice("tree", _work_of_tree(m, n, d, heard), None, heard)
    return min(least, tree, key=lambda choice: choice.work)


def for_others(choice: Choice, queries: Array, keys: Array, gain: float) -> Choice:
    """Return the same choice for other tokens; the tree where the separable engine does not apply to them."""
    m, n, d = len(queries), len(keys), keys.shape[1]
    if choice.name in ("fused", "blocked"):
        return choice._replace(work=float(m * n))
    if choice.name == "separable" and (made := separable.plan(queries, keys, gain)) is not None:
        return Choice("separable", made.cost(m, n), made)
    heard = choice.heard if choice.name == "tree" else 1.0
    return Choice("tree", _work_of_tree(m, n, d, heard), None, heard)


def _in_plane(m: int, n: int, d: int, spread: float) -> float:
    """Return the work of the tree for tokens that are spread over this number of boxes, infinite beyond the plane."""
    return _work_of_tree(m, n, d, 0.0) + TREE_SPREAD * math.sqrt(m * max(0.0, spread - COMPACT)) if d <= 2 else math.inf


def _work_of_tree(m: int, n: int, d: int, heard: float) -> float:
    """Return the work of m queries and n keys, if the tree looks at this part of their pairs."""
    work = TREE_CALL + TREE_TOKEN * (m + n)
    if d == 3:
        work += min(IN_SPACE * heard * m * n, MOST_IN_SPACE * (m + n))
    elif d > 3:
        work += d / IN_DIMENSIONS * heard * m * n
    return work
