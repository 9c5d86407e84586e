"""What a law is asked and what it answers: sources, queries and keys, averages."""

from __future__ import annotations

from typing import NamedTuple

from attnflow.core.inputs import Array
from attnflow.engines import Lists, Memory


class Heard(NamedTuple):
    """What each query hears: `mean` (m, k) = sum_j P_ij v_j and `log_total` (m,).

    `log_total` is log sum_j w_j e^{g s_ij} for softmax, the top score for hardmax and localmax, and None for
    laws without scores.
    """

    mean: Array
    log_total: Array | None


class Sources(NamedTuple):
    """What queries listen to: places (n, d) with values (n, k) and masses (n,), by which engine, with which memory.

    A gain g means that every token is multiplied by sqrt(g), so that scores are multiplied by g; a law with scores
    applies it after subtracting the row maximum.
    """

    places: Array
    values: Array
    masses: Array | None
    gain: float
    engine: str
    memory: Memory | None = None

    @property
    def lists(self) -> Lists | None:
        """Whom each query hears, where that is known."""
        return None if self.memory is None else self.memory.lists


class Products(NamedTuple):
    """Queries (m, k) and keys (n, k) of a law with scores s_ij = <q_i, k_j>, before any beta multiplies them."""

    queries: Array
    keys: Array
