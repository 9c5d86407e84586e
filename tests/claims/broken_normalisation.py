"""Models with a fault for the claims about normalisation: each claim must notice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import attnflow as af

SPACE = af.tokens.sphere(n=4, d=3, seed=3)

BROKEN: dict[str, dict[str, Any]] = {
    "norm/rates": {"tokens": np.eye(3), "motion": lambda m: replace(m, norm="pre"), "until": 15.0},
    "norm/clusters": {"tokens": SPACE, "motion": lambda m: replace(m, V=-np.eye(3)), "until": 100.0},
}
