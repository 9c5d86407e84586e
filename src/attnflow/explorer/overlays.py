"""What there is to see in one frame: hull, cells, limits, leaders, quiescent sets, influences, attention."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.blocks import row_blocks
from attnflow.core.inputs import Array, InputError, matrix_at, number_at
from attnflow.core.schedules import Schedule
from attnflow.explorer.attention_row import MOST_PAIRS
from attnflow.explorer.menu_words import in_menu_words
from attnflow.explorer.state import MANY, State
from attnflow.figures.leading import leading_form
from attnflow.geometry import Hull, cells, hull, stationary_points
from attnflow.geometry.forms import score_rounding
from attnflow.geometry.quiescent import closed_sets
from attnflow.geometry.region import clip

# What is quick to find: the cells of a hull with at most MOST_CELLS vertices, its edges and its limits likewise; what
# looks at all pairs does so for at most MOST_PAIRS tokens.
MOST_CELLS, MOST_EDGES, MOST_LIMITS = 100, 300, 60
# More influences than these are a tangle: the strongest are drawn. They are those above a threshold, by default LEAST.
MOST_INFLUENCES, LEAST = 1500, 0.1
# Attention is shown in full up to this many tokens, and by the means of as many blocks beyond.
BLOCKS = 128
# Cells are cut by a box that reaches this many times the extent of the tokens beyond them.
AROUND = 2.0


class Frame:
    """Tokens x (n, d) at time t, and what several overlays of them share."""

    def __init__(self, x: Array, t: float, state: State, threshold: float = LEAST) -> None:
        self.x, self.t, self.state, self.threshold = x, t, state, threshold

    @cached_property
    def hull(self) -> Hull:
        """The convex hull of the tokens."""
        return hull(self.x)

    @cached_property
    def form(self) -> Array:
        """The matrix whose scores decide who leads whom."""
        return leading_form(self.state.law, self.state.motion, self.t, self.x.shape[1])

    @cached_property
    def leader(self) -> NDArray[np.int64]:
        """For each token the vertex, as a row of the hull's, that has its top score; -1 where rounding could decide."""
        queries, v = self.x @ self.form.T, self.hull.vertices
        if len(v) == 1:
            return np.zeros(len(queries), dtype=np.int64)
        rounding = score_rounding(self.form, self.x, v)
        found = []
        for rows in row_blocks(len(queries), len(v)):
            scores = queries[rows] @ v.T
            second, top = np.partition(scores, -2, axis=1)[:, -2:].T
            found.append(np.where(top - second > rounding[rows], scores.argmax(axis=1), -1))
        return np.concatenate(found)

    def few_vertices(self, most: int, what: str) -> None:
        """Refuse an overlay of a hull that has too many vertices."""
        if (count := len(self.hull.vertices)) > most:
            raise InputError(f"{what} are shown for at most {most} vertices of the hull, this one has {count}")

    def seen(self, what: str) -> Array:
        """Return the tokens as the law sees them, for an overlay of all pairs; refuse too many."""
        if len(self.x) > MOST_PAIRS:
            raise InputError(f"{what} are shown for at most {MOST_PAIRS} tokens, these are {len(self.x)}")
        return self.state.motion.seen(self.x, self.t)

    @cached_property
    def weights(self) -> Array:
        """The matrix P of the law."""
        return self.state.law.weights(self.state.motion.seen(self.x, self.t), self.t)


def overlays_of(x: Array, t: float, state: State, want: Iterable[str], threshold: float = LEAST) -> dict[str, Any]:
    """Return what is wanted of the tokens x at time t, as plain data; `why` says what is missing and for which reason.

    Influences are those above the threshold.

    >>> from attnflow.explorer.state import read
    >>> state = read({"tokens": [[1, 1], [-1, 1], [0, -1], [0.2, 0.1]], "law": {"name": "softmax", "beta": "inf"},
    ...               "motion": {"name": "layers", "gamma": 0.5}, "until": 9})
    >>> found = overlays_of(state.tokens, 0, state, ["hull", "leaders"])
    >>> found["hull"], found["leaders"], found["follows"], found["why"]
    ([0, 1, 2], [0, 1, 2], [0, 1, 2, 0], {})
    """
    frame = Frame(x, t, state, threshold)
    found: dict[str, Any] = {}
    why: dict[str, str] = {}
    for name in want:
        if name not in OVERLAYS:
            why[name] = f"there is no overlay '{name}': ask for {', '.join(OVERLAYS)}"
            continue
        try:
            found |= OVERLAYS[name](frame)
        except InputError as reason:
            why[name] = in_menu_words(str(reason))
    return {"kind": "overlays", **found, "why": why}


def _hull(frame: Frame) -> dict[str, Any]:
    body = frame.hull
    if frame.x.shape[1] < 3:
        return {"hull": body.indices.tolist()}
    frame.few_vertices(MOST_EDGES, "edges")
    return {"hull": body.indices.tolist(), "edges": body.indices[body.edges].tolist()}


def _cells(frame: Frame) -> dict[str, Any]:
    """Return who leads where, polygons in the plane, and for each token the cell that it is in."""
    many, plane = len(frame.x) > MANY, frame.x.shape[1] == 2
    if many and not plane:
        raise InputError(f"cells colour at most {MANY} tokens, these are {len(frame.x)}")
    vertices = frame.hull.indices.tolist()
    if many:
        shapes = _polygons(frame)
        return {"cells": [{"vertex": vertices[i], "polygon": polygon} for i, polygon in shapes.items()]}
    labels = frame.leader
    shapes = _polygons(frame) if plane else {i: [] for i in np.unique(labels[labels >= 0]).tolist()}
    # The last place is that of tokens on a boundary, which have the label -1.
    place = np.full(len(frame.hull.vertices) + 1, -1)
    place[list(shapes)] = np.arange(len(shapes))
    return {
        "cells": [{"vertex": vertices[i], "polygon": polygon} for i, polygon in shapes.items()],
        "labels": place[labels].tolist(),
    }


def _polygons(frame: Frame) -> dict[int, list[list[float]]]:
    """Return the corners of the cells that have an inside, cut by a box."""
    frame.few_vertices(MOST_CELLS, "cells")
    parts, box = cells(frame.hull.vertices, frame.form), _box(frame)
    regions = [parts.region(i, within=box) for i in range(len(parts.vertices))]
    rings = {i: clip(box, region.normals, region.offsets) for i, region in enumerate(regions)}
    return {i: ring.tolist() for i, ring in rings.items() if len(ring) > 2 and np.ptp(ring, axis=0).min() > box.tol}


def _box(frame: Frame) -> Hull:
    """Return a square around the tokens, as they are and as they were, and around the origin, where all cells meet."""
    both = np.concatenate([frame.x, frame.state.tokens, np.zeros((1, 2))])
    low, high = both.min(axis=0), both.max(axis=0)
    reach = (0.5 + AROUND) * (float((high - low).max()) or 1.0)
    return hull((low + high) / 2 + reach * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]))


def _limits(frame: Frame) -> dict[str, Any]:
    """Return the points of the hull where tokens can come to rest under hardmax."""
    law, motion = frame.state.law, frame.state.motion
    if motion.surface == "sphere":
        raise InputError("tokens on the sphere stay there: the limits shown here are those of tokens in their hull")
    if motion.random and not motion.chain:
        raise InputError("noise keeps these tokens from coming to rest: limits are those of a motion without it")
    if motion.grows:
        raise InputError("these tokens grow without end: their limits are seen in the rescaled frame")
    V = matrix_at(getattr(motion, "V", None), frame.t, frame.x.shape[1], "V")
    if V is not None and not (V[0, 0] > 0 and (V[0, 0] * np.eye(len(V)) == V).all()):
        raise InputError("limits are a finite set where V is the identity or a positive multiple of it")
    near, exponents = law.neighbourhood, law.exponents
    # A formula that tends to 0 is known to do so if it is a quotient of polynomials.
    vanishing = near is not None and isinstance(near.size, Schedule) and near.size.limit() == 0
    if near is not None and near.by_scores and number_at(near.size, frame.t, "delta") > 0 and not vanishing:
        raise InputError(f"under {law.name} with a delta that stays tokens can come to rest anywhere in their hull")
    if exponents is not None and number_at(exponents.beta, frame.t, "beta") < 0:
        raise InputError("beta is negative, so that tokens flee from each other: limits are those of a positive beta")
    frame.few_vertices(MOST_LIMITS, "limits")
    found = stationary_points(frame.hull.vertices, frame.form)
    return {"limits": {"points": found.points.tolist(), "attracting": found.attracts.tolist()}}


def _leaders(frame: Frame) -> dict[str, Any]:
    """Return whom each token listens to most, a vertex of the hull; -1 where several are heard alike.

    `heard` is how much each token j is heard by all tokens in the mean, sum_i P_ij / n; None where that is not known.
    """
    follows = np.append(frame.hull.indices, -1)[frame.leader]
    try:
        frame.seen("how much leaders are heard")
        heard = frame.weights.mean(axis=0).tolist()
    except InputError:
        heard = None
    followed = {} if len(follows) > MANY else {"follows": follows.tolist()}
    return {"leaders": np.unique(follows[follows >= 0]).tolist(), **followed, "heard": heard}


def _quiescent(frame: Frame) -> dict[str, Any]:
    law = frame.state.law
    if law.exponents is not None:
        raise InputError(f"under {law.name} every token hears every other: all of them are one set")
    sets = closed_sets(law, frame.seen("quiescent sets"), frame.t)
    return {"quiescent": [{"members": members.tolist()} for members in sets]}


def _influence(frame: Frame) -> dict[str, Any]:
    """Return the edges of the influence graph, the strongest first: `from` hears `to`, with weights above a threshold.

    `count` is how many there are; no more than `MOST_INFLUENCES` are given.
    """
    frame.seen("influences")
    sizes = np.abs(frame.weights)
    listener, source = np.nonzero(sizes > frame.threshold)
    apart = listener != source
    listener, source = listener[apart], source[apart]
    order = np.argsort(-sizes[listener, source], kind="stable")[:MOST_INFLUENCES]
    edges = {"from": listener[order].tolist(), "to": source[order].tolist()}
    weights = frame.weights[listener, source][order].tolist()
    return {"influence": {**edges, "weights": weights, "count": len(listener), "threshold": frame.threshold}}


def _attention(frame: Frame) -> dict[str, Any]:
    """Return the matrix P, or the means of its blocks of about as many tokens, which come in their order.

    Where a mask decides who may be heard, `heard` has a text of zeros and ones for each row; a block with a one has a
    pair that hears.
    """
    law, n = frame.state.law, len(frame.x)
    frame.seen("attention matrices")
    P = frame.weights
    heard = law.may_hear(np.arange(n), np.arange(n), frame.t)
    if n > BLOCKS:
        starts = np.linspace(0, n, BLOCKS + 1).astype(np.int64)
        sizes, starts = np.diff(starts), starts[:-1]
        P = np.add.reduceat(np.add.reduceat(P, starts, axis=0), starts, axis=1) / (sizes[:, None] * sizes)
        if heard is not None:
            heard = np.logical_or.reduceat(np.logical_or.reduceat(heard, starts, axis=0), starts, axis=1)
    masked = {} if heard is None else {"heard": ["".join("01"[int(one)] for one in row) for row in heard]}
    return {"attention": {"size": len(P), "rows": P.tolist(), **masked}}


OVERLAYS: dict[str, Callable[[Frame], dict[str, Any]]] = {
    "hull": _hull,
    "cells": _cells,
    "limits": _limits,
    "leaders": _leaders,
    "quiescent": _quiescent,
    "influence": _influence,
    "attention": _attention,
}
