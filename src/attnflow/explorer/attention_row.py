"""Whom one token hears in one frame: its row of the attention matrix, in O(n) where no row needs the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attnflow.core.indices import weights
from attnflow.core.inputs import Array, InputError, matrix_at
from attnflow.explorer.menu_words import in_menu_words
from attnflow.explorer.protocol import Answer, RunFrames, Session
from attnflow.explorer.state import State

# As many lines are drawn on the page at most; what the others are heard is said as a sum.
MOST_HEARD = 300
# The tokens that carry this part of a row are counted. Sums of many weights round.
MOST_OF_IT, ROUNDING = 0.9, 1e-9
# What looks at all pairs does so for at most this many tokens.
MOST_PAIRS = 1000


def row_of(x: Array, t: float, state: State, token: int) -> Array:
    """Return the weights P_ij, (n,), of the token i at time t, for tokens x (n, d) as they are drawn.

    They are those of the tokens as the law sees them, which is told who asks: masks and positions count.

    >>> from attnflow.explorer.state import read
    >>> state = read({"tokens": [[2.0], [1.0], [-1.0]], "law": {"name": "softmax", "beta": "inf", "causal": True},
    ...               "motion": {"name": "layers", "gamma": 0.5}, "until": 9})
    >>> row_of(state.tokens, 0, state, 1)
    array([1., 0., 0.])
    """
    law, n = state.law, len(x)
    if not 0 <= token < n:
        raise InputError(f"token {token} was asked for, but there are {n}: ask for one from 0 to {n - 1}")
    seen = state.motion.seen(x, t)
    if not law.rows_apart:
        if n > MOST_PAIRS:
            raise InputError(f"under {law.name} rows are found for at most {MOST_PAIRS} tokens, these are {n}")
        return law.weights(seen, t)[token]
    with np.errstate(over="ignore", invalid="ignore"):
        found = weights(law, seen[token : token + 1], t, sources=seen, rows=np.array([token]))[0]
    if not np.isfinite(found).all():
        raise InputError("the scores of these tokens leave the range of float64: divide the tokens by a constant")
    return found


def about_row(x: Array, t: float, state: State, token: int) -> dict[str, Any]:
    """Return, as plain data, whom a token hears: the strongest first, what the others have, and where that pulls it.

    `heard` are tokens, `weights` theirs, `rest` how many others are heard and their sum, `carry` how many tokens have
    nine tenths of all (None for weights that are no probabilities), and `mean` is sum_j P_ij x_j as it is drawn.

    >>> from attnflow.explorer.state import read
    >>> state = read({"tokens": [[1.0, 1.0], [1.0, -1.0], [0.5, 0.0]], "law": {"name": "softmax", "beta": "inf"},
    ...               "motion": {"name": "layers", "gamma": 0.5}, "until": 9})
    >>> found = about_row(state.tokens, 0, state, 2)
    >>> found["heard"], found["weights"], found["rest"], found["carry"], found["mean"]
    ([0, 1], [0.5, 0.5], [0, 0.0], 2, [1.0, 0.0])
    """
    P, motion = row_of(x, t, state, token), state.motion
    # Of weights that are alike, the token with the smaller number comes first.
    order = np.argsort(-np.abs(P), kind="stable")
    order = order[P[order] != 0]
    shown, others = order[:MOST_HEARD], order[MOST_HEARD:]
    carry = None
    if state.law.stochastic:
        carry = int(np.searchsorted(np.cumsum(P[order]), MOST_OF_IT - ROUNDING)) + 1
    V = matrix_at(getattr(motion, "V", None), t, x.shape[1], "V")
    return {
        "token": token,
        "heard": shown.tolist(),
        "weights": P[shown].tolist(),
        "rest": [len(others), float(P[others].sum())],
        "carry": carry,
        "mean": (P @ x).tolist(),
        # Whether the motion takes V of the mean, which is drawn without it.
        "turned": V is not None and not np.array_equal(V, np.eye(len(V))),
    }


def answer_row(id: int, kept: RunFrames, frame: int, x: Array, t: Any, token: int) -> Answer:
    """Return the answer to who is heard by a token in a frame; what cannot be said is `why`."""
    about = {"kind": "row", "id": id, "run": kept.run, "frame": frame}
    try:
        return {**about, **about_row(x, t, kept.state, token)}
    except InputError as reason:
        return {**about, "token": token, "why": in_menu_words(str(reason))}


def whole_of(message: dict[str, Any], name: str = "token") -> int:
    """Return the whole number that a message gives under a name."""
    value = message.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"{name} is {value!r:.40}, expected a whole number")
    return value


def _answer(message: dict[str, Any], session: Session) -> Iterator[Answer]:
    run, frame, token = (whole_of(message, name) for name in ("run", "frame", "token"))
    kept = session.of(run)
    t, x = kept.frame(frame)
    yield answer_row(message["id"], kept, frame, x, t, token)


ANSWERS = {"row": lambda message, done, session, stop: _answer(message, session)}
