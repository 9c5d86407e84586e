"""Numbers for each pair of tokens, perhaps functions of time: scores, and graphs of who may hear whom."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attnflow.core import inputs
from attnflow.core.arrays import foreign, namespace, place, plain
from attnflow.core.inputs import Array, InputError, Matrix


class Order(NamedTuple):
    """Who may be heard by the order of tokens: with causal j <= i, with a window |i - j| < window."""

    causal: bool = False
    window: int | None = None


def constant_graph(graph: Any, name: str) -> Any:
    """Check a graph that is a value, or a sequence of values over layers; leave None and functions of time.

    >>> constant_graph([[1, 0], [1, 1]], "graph").tolist()
    [[True, False], [True, True]]
    """
    return inputs.constant(graph, name, 2, _checked)


def graph_at(graph: Any, t: float, name: str) -> Any:
    """Return the value at time t of a graph that passed `constant_graph`."""
    return _checked(inputs.called(graph, t, name), f"{name}({t:g})") if inputs.varies_in_time(graph) else graph


def constant_scores(scores: Matrix, name: str) -> Any:
    """Check numbers for each pair of n tokens, (n, n), that are a value, or a sequence of values over layers."""
    return inputs.constant(scores, name, 2, _of_pairs)


def scores_at(scores: Matrix, t: float, name: str, like: Any = None) -> Array | None:
    """Return the value at time t of numbers that passed `constant_scores`."""
    return inputs.value_at(scores, t, name, like, _of_pairs)


def _of_pairs(scores: Any, name: str) -> Any:
    return inputs.any_square(scores, name, "n")


def edges(graph: Any, rows: Any, columns: Any) -> Any:
    """Return graph[i, j] for these rows and columns, as an array of their library."""
    own = namespace(rows).asarray(graph, **place(rows)) if foreign(rows) else graph
    every = len(columns) == len(graph)
    return own[rows] if every else own[rows][:, columns]


def _checked(graph: Any, name: str) -> Any:
    """Return a graph as an array of truth values, one byte each."""
    given = plain(graph)
    if not (isinstance(given, np.ndarray) and given.dtype == bool):
        numbers = inputs.reals(graph, f"{name} is", "n rows of n numbers 0 or 1")
        wrong = (numbers != 0) & (numbers != 1)
        if wrong.any():
            raise InputError(
                f"{name} holds {numbers[wrong][0]:g}, expected numbers 0 or 1: graph[i, j] = 1 where token i hears j"
            )
        given = numbers != 0
    if given.ndim != 2 or given.shape[0] != given.shape[1] or given.size == 0:
        raise InputError(f"{name} has shape {given.shape}, expected a square array (n, n) for n tokens")
    return np.array(given)
