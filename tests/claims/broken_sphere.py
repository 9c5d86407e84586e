"""Models with a fault for the claims on the sphere: each claim must notice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import attnflow as af

# Four tokens in general position in space; four in the open hemisphere z > 0.
SPACE = af.tokens.sphere(n=4, d=3, seed=3)
NORTH = np.array([[0.8, 0.0, 0.6], [-0.8, 0.0, 0.6], [0.0, 0.6, 0.8], [0.0, -0.96, 0.28]])
CHAIN = np.array([[np.cos(a), np.sin(a)] for a in (0.0, 0.3, 2.6)])
FACING = np.array([[np.cos(a), np.sin(a)] for a in (0.1, 0.0, -0.1, 1.9, 2.1)])
TRIANGLE = np.array([[np.cos(a), np.sin(a)] for a in (0.1, 2.1, 4.1)])
CENTRES = np.array([[1.0, 0.0], [np.cos(2.0), np.sin(2.0)]])

EVERY_SIXTH_TURN = np.array([[0.5, -np.sqrt(0.75), 0.0], [np.sqrt(0.75), 0.5, 0.0], [0.0, 0.0, 1.0]])


BROKEN: dict[str, dict[str, Any]] = {
    "sphere/energy": {"tokens": SPACE, "law": lambda law: replace(law, beta=1.02), "beta": 1.0, "until": 4.0},
    "sphere/hemisphere": {"tokens": NORTH, "motion": lambda m: replace(m, V=-np.eye(3)), "until": 30.0},
    "sphere/hemisphere-discrete": {"tokens": NORTH, "motion": lambda m: replace(m, V=EVERY_SIXTH_TURN)},
    "sphere/collapse": {"tokens": SPACE, "motion": lambda m: replace(m, V=-np.eye(3)), "until": 100.0},
    "sphere/collapse/announced": {"tokens": TRIANGLE, "beta": -0.1, "law": lambda law: replace(law, beta=-1.5)},
    "sphere/collapse/gap": {"tokens": TRIANGLE, "beta": -0.4, "law": lambda law: replace(law, beta=-1.5)},
    "sphere/collapse/every-start": {"tokens": SPACE, "motion": lambda m: replace(m, V=np.zeros((3, 3)))},
    "sphere/orthogonal-start": {"tokens": np.eye(3), "law": lambda law: replace(law, beta=1.01), "until": 5.0},
    "sphere/metastability": {
        "tokens": FACING, "centres": CENTRES, "eps": 0.01, "beta": 6.0, "law": lambda law: replace(law, beta=0.0),
    },
    "sphere/staircase": {
        "tokens": CHAIN, "beta": 12.0, "until": 1e5, "motion": lambda m: replace(m, V=np.zeros((2, 2))),
    },
    "sphere/phase-diagram": {"n": 2, "motion": lambda m: replace(m, V=0.3 * np.eye(2))},
}  # fmt: skip
