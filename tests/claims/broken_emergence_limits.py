"""Wrong models under which the claims on limits of the rescaled flow must fail."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnflow.core.inputs import Array
from attnflow.laws import Law, Softmax


@dataclass(frozen=True)
class Deaf(Law):
    """Tokens hear only themselves and what is at the same place."""

    def log_weights(
        self, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return scores that fall off at once with the distance."""
        y = x if sources is None else sources
        apart = -1e6 * ((x[:, None] - y[None]) ** 2).sum(axis=2)
        log_weights: Array = apart - np.log(np.exp(apart).sum(axis=1, keepdims=True))
        return log_weights


def _faster(motion: Any) -> Any:
    return replace(motion, V=1.2 * np.asarray(motion.V))


KITE = [[2.0, 0.1], [-1.3, 1.6], [-1.1, -1.9], [0.4, 0.3]]
FIVE = [[1.8, 0.2], [-1.6, 0.4], [-0.5, -0.2], [0.9, 0.4], [0.7, -0.1]]
STEEP = {"V": [[1.0, 0.1], [0.0, 0.9]], "B": [[1.0, 0.2], [0.2, 0.8]], "tokens": FIVE, "until": 14.0}
SPLIT = [[1.2, 0.0, 0.3], [0.0, 1.2, -0.2], [0.0, 0.0, 0.4]]
WIDE = {"V": SPLIT, "tokens": [[*point, 0.5 * k - 1] for k, point in enumerate(KITE)], "until": 18.0}

BROKEN: dict[str, dict[str, Any]] = {
    # Attention to the opposite of the true scores: norms shrink.
    "emergence/polytope": {"law": Softmax(B=-np.eye(2)), "tokens": KITE},
    # Nobody listens: the attention matrix stays the identity, with an interior token.
    "emergence/polytope/rank": {"law": Deaf(), "tokens": KITE},
    "emergence/polytope/rank/repaired": {"law": Deaf(), "tokens": KITE},
    # Far too cold: the pair never comes close; with the right law it is still collapsing at the horizon.
    "emergence/polytope/pair": {"law": Softmax(beta=400.0), "tokens": [[1.0, 0.1], [1.0, -0.1]]},
    # Tokens outgrow the frame.
    "emergence/hyperplanes": {"motion": _faster, **STEEP, "V": [[1.0, 0.1], [0.0, 0.2]], "until": 20.0},
    "emergence/polytope-times-subspace": {"motion": _faster, **WIDE},
    # Nobody listens: a token stays in the interior of K.
    "emergence/polytope-times-subspace/projected": {"law": Deaf(), **WIDE},
    # Nobody listens: five tokens stay apart.
    "emergence/codimension-k/a": {"law": Deaf(), **STEEP},
    "emergence/codimension-k/b": {"law": Deaf(), **STEEP},
    "emergence/codimension-k/c": {"law": Deaf(), **STEEP},
    "emergence/codimension-k/repaired": {"law": Deaf(), **STEEP},
}
