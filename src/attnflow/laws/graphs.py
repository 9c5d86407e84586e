"""Graphs of who hears whom, for `Masked`, each for any number n of tokens: arrays (n, n) of True where i hears j.

>>> ring(4).astype(int)
array([[1, 1, 0, 1],
       [1, 1, 1, 0],
       [0, 1, 1, 1],
       [1, 0, 1, 1]])
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import whole

Graph = NDArray[np.bool_]


def ring(n: int) -> Graph:
    """Return the graph in which each token hears itself, the one before it and the one after it; the ends are joined.

    >>> int(ring(10).sum())
    30
    """
    apart = _apart(n)
    return (apart <= 1) | (apart == n - 1)


def star(n: int) -> Graph:
    """Return the graph in which token 0 hears all, and the others hear it and themselves.

    >>> star(3).astype(int)
    array([[1, 1, 1],
           [1, 1, 0],
           [1, 0, 1]])
    """
    i = np.arange(whole(n, "n", least=1))
    return (i[:, None] == i) | (i[:, None] == 0) | (i == 0)


def two_groups(n: int) -> Graph:
    """Return the graph in which each half of the tokens hears itself alone; of an odd number the first has one more.

    >>> two_groups(3).astype(int)
    array([[1, 1, 0],
           [1, 1, 0],
           [0, 0, 1]])
    """
    first = _first_half(n)
    return first[:, None] == first


def fixed_context(n: int) -> Graph:
    """Return the graph of cross-attention: the second half of the tokens hears the first, whose tokens hear themselves.

    Tokens that hear themselves alone rest in motions that average and on the sphere.

    >>> fixed_context(4).astype(int)
    array([[1, 0, 0, 0],
           [0, 1, 0, 0],
           [1, 1, 0, 0],
           [1, 1, 0, 0]])
    """
    first = _first_half(n)
    return np.where(first[:, None], _apart(n) == 0, first)


def _apart(n: int) -> NDArray[np.int64]:
    i = np.arange(whole(n, "n", least=1))
    return np.abs(i[:, None] - i)


def _first_half(n: int) -> Graph:
    return np.arange(whole(n, "n", least=1)) < (n + 1) // 2


GRAPHS: dict[str, Callable[[int], Graph]] = {one.__name__: one for one in (ring, star, two_groups, fixed_context)}
