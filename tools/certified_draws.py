"""What certified checks draw and compare: few tokens, positive definite forms, extremes of balls."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from attnflow.claims import exact
from attnflow.claims.samplers import distinct
from attnflow.core.inputs import Array
from attnflow.enclosures import Enclosure
from attnflow.enclosures.numbers import Numbers

# At most this many coordinates, so that an enclosure takes a second or so.
MOST = 9
# An enclosure that waits for something ends after this many steps.
STEPS = 40


class NotDecided(ArithmeticError):
    """Nothing is proved of an instance; the sentence says why."""


def few(x: Array) -> Array:
    """Return the first distinct tokens, as many as are enclosed quickly, none farther than 3 from 0."""
    x = distinct(x)[: max(2, MOST // x.shape[1])]
    if len(x) < 2:
        raise NotDecided("there is one token")
    return x * min(1.0, 3.0 / (float(np.abs(x).max()) or 1.0))


def form_of(B: Array | None, d: int) -> Array:
    """Return a positive definite form of norm at most 1; refuse one that is not so in fractions."""
    B = np.eye(d) if B is None else B / max(1.0, float(np.abs(B).sum(axis=1).max()))
    if not exact.positive_semidefinite(exact.rational(B), strictly=True):
        raise NotDecided("B is not positive definite in fractions")
    return B


def highest(values: list[Any]) -> Any:
    """Return the largest of some balls, rigorously."""
    return reduce(lambda a, b: a.max(b), values)


def lowest(values: list[Any]) -> Any:
    """Return the smallest of some balls, rigorously."""
    return reduce(lambda a, b: a.min(b), values)


def soon(enough: Callable[[Numbers], bool]) -> Callable[[Numbers], bool]:
    """Return the same condition, which is met after STEPS steps in any case."""
    left = iter(range(STEPS))
    return lambda x: next(left, None) is None or enough(x)


def reached(found: Enclosure) -> Enclosure:
    """Return an enclosure that came to its end; refuse one that stopped before."""
    if not found.reached:
        raise NotDecided("no step can be enclosed")
    return found
