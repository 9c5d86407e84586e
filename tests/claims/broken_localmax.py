"""Models that break every claim on localmax, on data where the right one does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import attnflow as af
from attnflow.claims.localmax import Periodic

TRIANGLE = [[2.0, 0.0], [-1.0, 1.5], [-1.0, -1.0], [0.5, 0.25], [-0.25, 0.5]]
LINE = [[1.0], [-1.0], [0.1], [-0.1]]
# It hears (2, 8) alone and all three in turn, and goes from (2, 1/4) to (2, 39/32) and back.
WANDERER = [[2.0, 8.0], [2.0, -28.8125], [2.0, 0.25]]

BROKEN: dict[str, dict[str, Any]] = {
    "localmax/hull": {"tokens": TRIANGLE, "motion": af.Residual(dt=0.5)},
    "localmax/norms": {"tokens": TRIANGLE, "law": lambda law: replace(law, delta=4.0)},
    # (1, 1) and (1, -7/8) within delta of each other: a token between them stays there.
    "localmax/vanishing": {
        "tokens": [[1.0, 1.0], [1.0, -0.875], [0.5, 0.0]],
        "law": lambda law: replace(law, delta=0.25),
    },
    "localmax/neighbours-converge": {"tokens": TRIANGLE, "law": lambda law: replace(law, B=[[-1.0, 0.0], [0.0, -1.0]])},
    "localmax/no-finite-time": {"tokens": TRIANGLE, "motion": af.Layers(gamma=0.25)},
    "localmax/cluster-gap": {"tokens": [[1.0, 0.0], [0.96, 0.28], [-1.0, 0.0]], "delta": 0.25, "law": af.Hardmax()},
    "localmax/leaders-move": {"tokens": LINE, "law": af.Hardmax()},
    "localmax/constant-converges": {
        "tokens": WANDERER, "gamma": 0.125, "delta": 1.0, "law": af.Localmax(delta=Periodic((1.0, 50.0))),
    },
    "localmax/lyapunov": {"tokens": [[0.0], [0.75], [2.0], [2.75]], "law": af.HegselmannKrause(eps=2.0)},
    "localmax/lyapunov/directed": {"tokens": TRIANGLE, "delta": 0.5, "motion": af.Residual(dt=0.5)},
}  # fmt: skip
