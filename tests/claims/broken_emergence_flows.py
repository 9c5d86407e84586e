"""Wrong models under which the claims on flows of the emergence paper must fail."""

from dataclasses import replace
from typing import Any

import numpy as np

from attnflow.claims import get
from attnflow.laws import Softmax

TRIANGLE = [[1.0, 0.0], [-0.5, 0.8], [-0.4, -0.9]]


def _bounded() -> dict[str, Any]:
    """The same paths three times as fast: the bounded token stays bounded, but X is no longer like e^t."""
    # Finding the bounded token takes two runs, which is not for the import of this file.
    found = get("emergence/bounded-extreme").setting.sample(np.random.default_rng(1), 0)
    return {"motion": lambda m: replace(m, V=3 * np.asarray(m.V)), **found}


def _valued(V: Any) -> Any:
    return lambda motion: replace(motion, V=np.asarray(V, dtype=float))


BROKEN: dict[str, Any] = {
    # The value matrix is a little larger than it says: tokens outgrow their bound.
    "emergence/growth": {"motion": _valued(1.05 * np.eye(2)), "tokens": 3 * np.array(TRIANGLE), "V": np.eye(2)},
    # Tokens move against what they hear, and towards each other.
    "emergence/distances": {"motion": _valued(-np.eye(2)), "tokens": TRIANGLE},
    "emergence/no-consensus": {"law": Softmax(beta=-1.0), "tokens": TRIANGLE},
    # Twice as fast: the identity of L and the rate 2t both see it.
    "emergence/negative-identity": {"motion": _valued(-2 * np.eye(2)), "tokens": TRIANGLE, "until": 300.0},
    # Attention to scores a twentieth of the true ones: tokens are carried along by the mean, not by their leaders.
    "emergence/boolean": {"law": Softmax(beta=0.05), "tokens": [[-1.0], [0.5], [2.0]]},
    "emergence/boolean/doubly-exponential": {"law": Softmax(beta=0.05), "tokens": [[-1.0], [0.5], [2.0]]},
    "emergence/bounded-extreme": _bounded,
    # Hotter by a percent: at 0 two atoms attain the Lipschitz constant.
    "emergence/mean-field": {"law": Softmax(beta=1.01), "tokens": [[0.5], [-0.5]], "others": [[0.4], [-0.4]]},
    "emergence/keller-segel": {"motion": lambda m: replace(m, strength=1.01), "tokens": TRIANGLE},
}
