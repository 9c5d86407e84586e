"""Models with a fault for the claims about densities: each claim must notice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

BROKEN: dict[str, dict[str, Any]] = {
    "noise/uniform-threshold": {"beta": 2.0, "d": 3, "law": lambda law: replace(law, beta=2.01)},
    "noise/first-order": {"beta": 3.0, "d": 2, "motion": lambda motion: replace(motion, normalized=True)},
    "mean-field/kmax": {"beta": 2.0, "law": lambda law: replace(law, beta=1.0)},
    "gaussian/covariance": {
        "covariance": [[0.3, 0.1], [0.1, 0.2]], "beta": 1.0, "until": 0.5, "law": lambda law: replace(law, beta=1.01),
    },
    "gaussian/threshold": {"sigma": 1.0, "beta": 1.1, "gamma": 0.5, "law": lambda law: replace(law, beta=0.9)},
}  # fmt: skip
