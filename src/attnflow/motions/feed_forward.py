"""The feed-forward layer that may follow attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from attnflow.core.arrays import namespace
from attnflow.core.inputs import Array, Matrix, matrix_at
from attnflow.core.parameters import about, check_fields

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
        check_fields(self)

    def __call__(self, y: Array, t: float) -> Array:
        """Return W(t) sigma(y) for each row y."""
        W = matrix_at(self.W, t, y.shape[-1], "W", like=y)
        activated = ACTIVATIONS[self.activation](y)
        return activated if W is None else activated @ W.T


# What a motion says of the layer that it has as a parameter.
LAYER = about("part", "layer after attention", part=FeedForward)
