"""Fast attention sums: the engines that compute them, and the choice among them, from the inputs alone.

An engine is a module with some of three functions; it knows no B, beta, V or motion:

- ``softmax(queries, keys, values, log_masses, gain) -> (mean, log_total)``: averages with the weights
  w_j e^{g <q_i, k_j>}; the row maximum is subtracted before the gain g multiplies, and keys far from the origin are
  seen from their centre, by the decorator `centring.about_centre`;
- ``top(queries, keys, values, weights, slack, relative) -> (mean, best, leader)``: averages over the sources
  whose score is within ``slack_i + relative |M_i|`` of the top score M_i; sources of weight 0 are absent;
  ``candidates(queries, keys) -> indices``, which an engine may have too, says beforehand at which sources it looks,
  None for all;
- ``ball(queries, keys, values, weights, radius) -> mean``: averages over the sources within a distance.

Those in `REMEMBERS` take a last argument, ``memory``: see `Memory`.

A new engine is one module here and one name in `CHOICES`; the suite in ``tests/engines`` then runs on it.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

from attnflow.core.inputs import InputError, one_of

# With a gain above this only the top scores count; products with it do not overflow. The least gain is its inverse.
LARGEST_GAIN = 1e300

# The first engines compute every kind of sum, exactly up to rounding. The next ones compute softmax sums only: blocked
# up to rounding, the others up to 1e-10 in a time proportional to n. The vertices engine computes averages over top
# scores only, the neighbours engine those over nearly top scores and over balls. "precise" is the automatic choice
# among engines that are exact up to rounding.
ENGINES = ("dense", "fused")
SOFTMAX = ("blocked", "fast", "separable", "tree")
# "pruned" is an earlier name of "tree".
CHOICES = ("auto", "precise", *ENGINES, *SOFTMAX, "pruned", "vertices", "neighbours")
# Precision "single" is asked for as the engine "single": that of `single.py` where it is faster, else as "auto".
PRECISIONS, AUTOMATIC = ("double", "single"), ("auto", "single")
REMEMBERS = ("fast", "listed")
# From dimension BLOCKED_DIMENSION on, with more than BLOCKED_PAIRS pairs, tiles of matrix products are faster than the
# fused softmax, and single precision is faster than double. With fewer pairs, dense arrays are faster beyond dimension
# WIDE.
BLOCKED_DIMENSION, BLOCKED_PAIRS, WIDE = 4, 1 << 16, 32
# From TREE_PAIRS pairs on, in at most TREE_DIMENSION dimensions, it is faster to look for the vertices first, or to put
# tokens into trees that find all neighbours.
TREE_PAIRS, TREE_DIMENSION = 1 << 22, 3
# The kinds of sums that each of these two engines serves, and the laws that need them.
TREES = {"vertices": (("top",), "Hardmax"), "neighbours": (("near", "ball"), "Localmax and HegselmannKrause")}
# It is faster to compare engines before summing from FAST_PAIRS pairs on in at most SEPARABLE_DIMENSION dimensions, and
# from MANY_PAIRS pairs on in at most FAST_DIMENSION dimensions.
FAST_PAIRS, SEPARABLE_DIMENSION, MANY_PAIRS, FAST_DIMENSION = 1 << 24, 3, 1 << 28, 10


class Lists(NamedTuple):
    """Whom queries hear: they are in the `order` of their groups, each from one of `begins` to the next.

    Group k hears the `sources` from `first[k]` to `first[k + 1]`.
    """

    order: Any
    begins: Any
    sources: Any
    first: Any

    @property
    def pairs(self) -> int:
        """How many pairs of a query and a source there are."""
        return int((self.begins[1:] - self.begins[:-1]) @ (self.first[1:] - self.first[:-1]))


@dataclass
class Memory:
    """What engines keep from one sum to the next, over tokens that have hardly moved: which engine was chosen.

    Or, in `lists`, whom each query hears, if that is known: sums are then those of the engine `listed`.

    Sums stay within the tolerance whatever the memory holds, but their last digits depend on it. For results that
    depend on the tokens alone, forget it at moments that depend on them alone.
    """

    engine: str = ""
    lists: Lists | None = None

    def forget(self) -> None:
        """Start anew."""
        self.engine = ""


def choose(name: str, kind: str, queries: int, sources: int, d: int) -> str:
    """Return the engine that computes a sum of this kind and size when the user asks for `name`.

    The kinds are "softmax"; "top" and "near", averages over the top scores and over those nearly so; and "ball".

    >>> choose("auto", "softmax", 10_000, 10_000, 2), choose("auto", "softmax", 500, 500, 64)
    ('fast', 'blocked')
    >>> choose("precise", "softmax", 10_000, 10_000, 2)
    'fused'
    >>> choose("auto", "top", 10_000, 10_000, 2), choose("auto", "near", 10_000, 10_000, 2)
    ('vertices', 'neighbours')
    >>> choose("single", "softmax", 500, 500, 64), choose("single", "softmax", 500, 500, 2)
    ('single', 'fused')
    """
    name = "tree" if name == "pruned" else name
    wide = kind == "softmax" and d >= BLOCKED_DIMENSION and queries * sources > BLOCKED_PAIRS
    if name == "single":
        return "single" if wide else choose("auto", kind, queries, sources, d)
    if one_of(name, CHOICES, "engine") not in ("auto", "precise"):
        if name in SOFTMAX and (kind != "softmax" or (name == "separable" and d > SEPARABLE_DIMENSION)):
            where = f" in up to {SEPARABLE_DIMENSION} dimensions" if name == "separable" else ""
            raise InputError(f"engine {name!r} serves Softmax{where} alone: choose 'auto', 'dense' or 'fused'")
        if name in TREES and (kind not in TREES[name][0] or d > TREE_DIMENSION):
            raise InputError(
                f"engine {name!r} serves {TREES[name][1]} in up to {TREE_DIMENSION} dimensions alone: "
                "choose 'auto', 'dense' or 'fused'"
            )
        return name
    if kind != "softmax" and d <= TREE_DIMENSION and queries * sources >= TREE_PAIRS:
        return "vertices" if kind == "top" else "neighbours"
    few = FAST_PAIRS if d <= SEPARABLE_DIMENSION else MANY_PAIRS
    if name == "auto" and kind == "softmax" and d <= FAST_DIMENSION and queries * sources >= few:
        return "fast"
    if wide:
        return "blocked"
    return "dense" if kind == "softmax" and d > WIDE else "fused"


def said(name: str) -> str:
    """Return how a user asked for an engine."""
    return "precision 'single'" if name == "single" else f"engine {name!r}"


def in_precision(name: str, precision: str) -> str:
    """Return the engine to ask for when the user asks for an engine and a precision.

    >>> in_precision("auto", "single"), in_precision("fused", "double")
    ('single', 'fused')
    """
    if one_of(precision, PRECISIONS, "precision") == "double":
        return one_of(name, CHOICES, "engine")
    if name != "auto":
        raise InputError(f"engine is {name!r}, which computes in double precision: leave engine or precision out")
    return "single"


def engine(name: str, kind: str, queries: int, sources: int, d: int) -> ModuleType:
    """Return the module of the chosen engine; Numba is loaded only when it is needed."""
    return module(choose(name, kind, queries, sources, d))


@cache
def module(name: str) -> ModuleType:
    """Return the module of an engine by its name."""
    return importlib.import_module(f"{__name__}.{'tree' if name == 'pruned' else name}")
