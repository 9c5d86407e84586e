"""Clouds that the tests of the Frank-Wolfe paper share."""

import os
from typing import Any

import numpy as np

from attnflow.claims.samplers import distinct
from attnflow.tokens import polygon

INSIDE = [[1.0, 0.0], [-0.5, 0.75], [-0.5, -0.75], [0.25, 0.0625]]
TRIANGLE = polygon(3)
ALL = "ATTNFLOW_EXAMPLES" in os.environ


def lattice(rng: np.random.Generator, d: int) -> Any:
    x = distinct(rng.integers(-3, 4, (int(rng.integers(2, 8)), d)).astype(float))
    return x if len(x) > 1 else np.vstack([x, x + 1])
