"""Models that break every claim of the hardmax paper, on data where the right one does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import attnflow as af

TRIANGLE = [[2.0, 0.0], [-1.0, 1.5], [-1.0, -1.0], [0.5, 0.25], [-0.25, 0.5]]
LINE = [[1.0], [-1.0], [0.1], [-0.1]]

BROKEN: dict[str, dict[str, Any]] = {
    "hardmax/hull": {"tokens": TRIANGLE, "motion": af.Residual(dt=0.5)},
    "hardmax/norms": {"tokens": TRIANGLE, "law": af.Hardmax(B=[[-1.0, 0.0], [0.0, -1.0]])},
    "hardmax/first-leaders": {"tokens": TRIANGLE, "law": af.Softmax(beta=1.0)},
    "hardmax/leaders-persist": {"tokens": LINE, "law": af.Localmax(delta=0.05)},
    # Leaders of another form: (1, 1) leads for diag(1, 9), not for the identity.
    "hardmax/limits": {
        "tokens": [[4.0, 0.0], [1.0, 1.0], [-4.0, 0.0], [1.0, 0.875], [0.0, -1.0]],
        "law": lambda law: replace(law, B=[[1.0, 0.0], [0.0, 9.0]]),
    },
    "hardmax/vertices-in-finite-time": {"tokens": LINE, "law": af.Localmax(delta=0.05)},
    "hardmax/leaders-are-vertices": {"tokens": LINE, "law": af.Localmax(delta=0.05)},
    "hardmax/follower-rate": {"tokens": TRIANGLE, "motion": af.Layers(alpha=0.75)},
}
