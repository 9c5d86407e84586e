"""The feed-forward layer that may follow attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from attnflow.core.arrays import namespace
from attnflow.core.inputs import Array, InputError, Matrix, constant_matrix, matrix_at, one_of
from attnflow.core.parameters import about

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda y: namespace(y).clip(y, 0.0, None),
    "tanh": lambda y: namespace(y).tanh(y),
}


@dataclass(frozen=True, eq=False)
class FeedForward:
    """One layer y -> W sigma(y), sigma acting on each coordinate: "relu" or "tanh".

    Examples
    --------
    >>> import numpy as np
    >>> FeedForward(W=[[2.0]], activation="relu")(np.array([[-1.0], [3.0]]), t=0)
    array([[0.],
           [6.]])

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465).
    """

    W: Matrix = field(default=None, metadata=about("matrix", "output matrix"))
    activation: str = field(default="relu", metadata=about("choice", "sigma", choices=tuple(ACTIVATIONS)))

    def __post_init__(self) -> None:
        object.__setattr__(self, "W", constant_matrix(self.W, "W"))
        one_of(self.activation, ACTIVATIONS, "activation")

    def __call__(self, y: Array, t: float) -> Array:
        """Return W(t) sigma(y) for each row y."""
        W = matrix_at(self.W, t, y.shape[-1], "W", like=y)
        activated = ACTIVATIONS[self.activation](y)
        return activated if W is None else activated @ W.T


def check(layer: FeedForward | None) -> None:
    """Refuse what is not a feed-forward layer."""
    if layer is None or isinstance(layer, FeedForward):
        return
    raise InputError(f"feed_forward is {layer!r}, expected a FeedForward(W, activation) or None")
