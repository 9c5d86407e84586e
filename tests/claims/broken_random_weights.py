"""Layers with a fault for the claims on random value matrices: they must notice."""

from __future__ import annotations

from typing import Any

import attnflow as af

BROKEN: dict[str, dict[str, Any]] = {
    # Noise of each token's own, without random matrices: tokens meet.
    "random/antipodal": {
        "d": 3, "beta": 2.0, "rho": -0.5, "runs": 400,
        "motion": lambda m: af.Noisy(af.SphereLayers(dt=m.dt), sigma=0.01),
    },
    # At this temperature -1 attracts.
    "random/meet": {"d": 6, "beta": 1.0, "rho": -0.5, "runs": 400, "law": lambda law: af.Softmax(beta=2.0)},
}  # fmt: skip
