"""Proofs in ball arithmetic: softmax layers with rigorous error bounds, by FLINT."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.claims import exact
from attnflow.claims.margins import objects
from attnflow.core.inputs import matrix_at
from attnflow.core.schedules import Schedule
from attnflow.enclosures.numbers import arithmetic, ball
from attnflow.laws import Law
from attnflow.motions import Motion

Balls = NDArray[np.object_]
BITS = 256


def replayable(law: Law, motion: Motion) -> bool:
    """Say whether the layers of a law can be enclosed step by step: softmax, with parameters that fractions hold."""
    found, layers = law.exponents, motion.as_layers
    if law.replays != "balls" or found is None or found.b is not None or layers is None or layers.V is not None:
        return False
    parameters = (found.beta, layers.gamma, layers.alpha)
    return all(not isinstance(parameter, Schedule) or parameter.rational for parameter in parameters)


def precision(bits: int = BITS) -> AbstractContextManager[None]:
    """Compute with this number of bits inside the block."""
    return arithmetic(bits)


def balls(value: Any) -> Balls:
    """Return an array of balls, each exactly the number given.

    >>> balls([0.5]).tolist()
    [0.500000000000000]
    """
    from flint import arb

    given = np.asarray(value, dtype=np.float64)
    return objects((arb(float(v)) for v in given.ravel()), given.shape)


def replay(tokens: Balls, law: Law, motion: Motion, steps: int) -> Balls:
    """Return balls around the states x^0 .. x^steps of softmax layers, shape (steps + 1, n, d).

    >>> import attnflow as af
    >>> law, motion = af.Softmax(beta=2.0), af.Layers(gamma=0.5)
    >>> state = replay(balls([[1.0], [-0.5]]), law, motion, 3)[-1]
    >>> plain = af.simulate([[1.0], [-0.5]], law, motion, 3).final
    >>> bool(np.abs(state.astype(float) - plain).max() < 1e-15)
    True
    """
    found, layers = law.exponents, motion.as_layers
    assert found is not None
    assert layers is not None
    d, states = tokens.shape[1], [tokens]
    for t in range(steps):
        x = states[-1]
        B = matrix_at(found.B, t, d, "B")
        scores = (x if B is None else x @ balls(B).T) @ x.T * ball(exact.value_at(found.beta, t))
        centres = np.array([[float(s.mid()) for s in row] for row in scores]).max(axis=1)
        weights = np.frompyfunc(lambda s: s.exp(), 1, 1)(scores - balls(centres)[:, None])
        mean = (weights @ x) / weights.sum(axis=1, keepdims=True)
        gamma = ball(exact.step_size(layers, t))
        states.append(x + gamma * (mean - x))
    return np.array(states, dtype=object)
