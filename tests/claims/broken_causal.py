"""Models with a fault for the claims of causal attention: each claim must notice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

PLANE = np.array([[np.cos(a), np.sin(a)] for a in (0.3, 1.4, 2.0)])

BROKEN: dict[str, dict[str, Any]] = {
    # Without the mask the first token hears the others, and moves.
    "causal/first-token": {"tokens": PLANE, "B": np.eye(2), "until": 40.0, "law": lambda law: law.law},
    "causal/two-points": {
        "tokens": PLANE, "V": np.diag([2.0, 0.5]), "B": np.eye(2), "until": 40.0,
        "motion": lambda m: replace(m, V=np.diag([0.5, 2.0])),
    },
    "causal/two-points/repaired": {
        "tokens": PLANE, "V": np.diag([2.0, 0.5]), "beta": 1.0, "until": 40.0,
        "motion": lambda m: replace(m, V=np.diag([0.5, 2.0])),
    },
    # Where tokens hear later ones too, fewer are far from all that they hear.
    "causal/strong-centres": {"d": 2, "delta": 0.5, "n": 60, "draws": 400, "law": lambda law: law.law},
    "causal/strong-centres/printed": {"law": lambda law: replace(law, window=2)},
}  # fmt: skip
