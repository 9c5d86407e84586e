"""Steering with a fault for the claims on neural ODEs: each claim must notice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

SQUARE = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
TURNED = [SQUARE[-1], *SQUARE[:-1]]

BROKEN: dict[str, dict[str, Any]] = {
    "neuralode/controllability": {
        "tokens": SQUARE, "targets": TURNED, "motion": lambda m: replace(m, shears=m.shears[:-1]),
    },
    "neuralode/controllability/repaired": {
        "tokens": SQUARE, "targets": TURNED, "motion": lambda m: replace(m, shears=m.shears[::-1]),
    },
}  # fmt: skip
