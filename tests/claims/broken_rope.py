"""Models with a fault for the claims of rotary positions: each claim must notice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

ANGLES = 1e-4 * (np.random.default_rng(0).uniform(-1, 1, 64) + np.cos(2 * np.pi * np.arange(64) / 64))
NEAR = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)

BROKEN: dict[str, dict[str, Any]] = {
    "rope/consensus-rate": {
        "tokens": NEAR, "beta": 1.0, "until": 4.0, "law": lambda law: replace(law, law=replace(law.law, beta=1.05)),
    },
}  # fmt: skip
