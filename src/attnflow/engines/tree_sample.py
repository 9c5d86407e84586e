"""Estimate which part of all pairs the tree looks at, from a few boxes of queries and some of the sources.

A box of queries that are neighbours hears a source by the rule of `tree_lists`. The lower bound of the total is tried
with two nodes V: the source with the top score at the centre of the box, and all sources together. The tree finds
better nodes in between, and replaces some pairs by expansions. So with equal masses it looks at fewer pairs than
estimated.
"""

from __future__ import annotations

import math

import numpy as np

from attnflow.core.inputs import Array
from attnflow.engines.tree_lists import FAINT
from attnflow.engines.tree_trie import ordered

# Boxes that are looked at, queries in each, and sources of which each box may hear some.
BOXES, QUERIES, SOURCES = 16, 32, 2048


def heard(queries: Array, keys: Array, gain: float) -> float:
    """Return the part of all pairs that a tree of these tokens looks at, roughly.

    >>> x = np.random.default_rng(0).standard_normal((5000, 4))
    >>> heard(x, x, 1.0), heard(x, x, 1e3) < 0.5
    (1.0, True)
    """
    m, n, gain = len(queries), len(keys), max(gain, 1e-300)
    if not m:
        return 1.0
    first = np.linspace(0, max(0, m - QUERIES), BOXES).astype(int)
    boxes = queries[ordered(queries)[np.minimum(first[:, None] + np.arange(QUERIES), m - 1)]]
    low, high = boxes.min(axis=1), boxes.max(axis=1)
    some = keys[np.random.default_rng(0).choice(n, min(n, SOURCES), replace=False)]
    faint, parts = FAINT * math.log(2) / gain, np.empty((2, BOXES))
    with np.errstate(over="ignore", invalid="ignore"):
        every = keys.mean(axis=0)
        for k in range(BOXES):
            top = keys[np.argmax(keys @ (low[k] + high[k]))]
            for part, v, floor in ((0, top, faint - math.log(n) / gain), (1, every, faint)):
                reach = np.maximum(low[k] * (some - v), high[k] * (some - v)).sum(axis=1)
                parts[part, k] = np.mean(~(reach <= floor))
    return float(parts.min(axis=0).mean())
