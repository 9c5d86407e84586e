"""Wrong models under which the claims of the Frank-Wolfe paper must fail."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from attnflow.core.inputs import Array
from attnflow.core.schedules import Schedule
from attnflow.laws import Hardmax, Law, Localmax, Softmax
from attnflow.motions import Jumps, Layers
from attnflow.tokens import polygon

TRIANGLE = polygon(3)
# The vertices own their cells; the last token lies in the cell of the first.
INSIDE = [[1.0, 0.0], [-0.5, 0.75], [-0.5, -0.75], [0.25, 0.0625]]
STRETCH = Layers(V=np.diag([0.1, 2.8]))


class _First(Law):
    """Everyone hears the first token alone."""

    def log_weights(
        self,
        x: Array,
        t: float = 0,
        *,
        sources: Array | None = None,
        masses: Array | None = None,
        rows: Any = None,
        columns: Any = None,
    ) -> Array:
        weights = np.full((len(rows), len(columns)), -np.inf)
        weights[:, columns == 0] = 0.0
        return weights


def _form(B: Any) -> Callable[[Hardmax], Hardmax]:
    return lambda law: replace(law, B=np.asarray(B, dtype=float))


def _step(gamma: Any) -> Callable[[Layers], Layers]:
    return lambda motion: replace(motion, gamma=gamma)


BROKEN: dict[str, dict[str, Any]] = {
    # The least score instead of the greatest, or a form that is not that of the instance.
    "fw/cells": {"law": _form(-np.eye(2)), "tokens": INSIDE},
    "fw/voronoi": {"law": _form([[1.0, 0.0], [0.0, 3.0]]), "tokens": TRIANGLE},
    "fw/own-cell": {"law": _form(-np.eye(2)), "tokens": INSIDE},
    "fw/own-cell/repaired": {"law": _form(-np.eye(2)), "tokens": INSIDE},
    # A threshold lets vertices hear others too.
    "fw/gaussian-own-cell": {"law": Localmax(delta=40.0), "k": 3, "d": 4},
    "fw/gaussian-own-cell/explicit": {"law": Localmax(delta=0.5), "k": 2, "d": 3},
    "fw/cluster-rate": {"law": _form([[1.0]]), "tokens": [[1.0], [-1.0]], "steps": 20},
    "fw/cluster-rate/repaired": {"law": _form([[1.0]]), "tokens": [[1.0], [-1.0]], "steps": 20},
    # Coordinates at different speeds.
    "fw/hull-shrinks": {"motion": STRETCH, "tokens": [[1.0, 2.0], [0.0, 1.0]], "V": np.eye(2), "steps": 3},
    "fw/hull-shrinks/repaired": {"motion": STRETCH, "tokens": [[1.0, 2.0], [0.0, 1.0]], "steps": 3},
    "fw/duality-gap": {"law": _form(-np.eye(2)), "tokens": INSIDE, "steps": 5},
    # Every score is 0.
    "fw/single-leader": {"law": _form(np.zeros((2, 2))), "tokens": INSIDE, "steps": 3},
    # Slower than it says.
    "fw/straight-lines": {"motion": _step(0.49999), "tokens": INSIDE, "steps": 5},
    "fw/exponential-rate": {"motion": _step(Schedule("1 / (t + 2)")), "tokens": INSIDE, "steps": 5},
    "fw/exponential-rate/repaired": {"motion": _step(0.49999), "tokens": INSIDE, "c": 0.5, "steps": 5},
    "fw/ode": {"law": _form([[0.0, 1.0], [1.0, 0.0]]), "tokens": INSIDE, "until": 1.0},
    # Two tokens contract exactly at the promised factor: a little colder is too slow.
    "fw/collapse": {"law": Softmax(beta=1.000001), "tokens": [[1.0], [-0.5]], "beta": 1.0, "gamma": 0.5, "steps": 5},
    # Everyone goes to the first token.
    "fw/collapse-to-origin": {"law": _First(), "tokens": [[1.0], [-1.0]], "gamma": 0.6},
    "fw/exit-time": {"law": Softmax(beta=4.0001), "beta": 4.0},
    # Tokens that are slower than tau was computed for.
    "fw/first-phase": {
        "motion": Jumps(gamma=0.1), "vertices": TRIANGLE, "tokens": 0.7 * TRIANGLE, "gamma": 0.5, "C": 1.5,
    },
    "fw/first-phase/repaired": {
        "motion": Jumps(gamma=0.1), "vertices": TRIANGLE, "tokens": 0.7 * TRIANGLE, "gamma": 0.5,
    },
    # Hot chains leave.
    "fw/metastable": {"law": Softmax(beta=0.5), "vertices": TRIANGLE, "runs": 60},
    "fw/metastable/repaired": {"law": Softmax(beta=3.0), "vertices": TRIANGLE, "runs": 60},
    "fw/metastable/staged": {"law": Softmax(beta=3.0), "vertices": TRIANGLE, "runs": 60},
}  # fmt: skip
