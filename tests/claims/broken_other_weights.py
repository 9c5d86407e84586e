"""Models that break the claims about Sinkhorn weights and long contexts, on data where the right ones do not."""

from __future__ import annotations

from typing import Any

import attnflow as af
from attnflow.claims.long_context import equiangular

CLOUD = [[1.0, 0.0], [0.2, 0.9], [-0.5, -0.3], [0.1, -1.0]]

BROKEN: dict[str, dict[str, Any]] = {
    # Rows of softmax sum to one, columns do not.
    "sinkhorn/barycentre": {"tokens": CLOUD, "beta": 2.0, "law": af.Softmax(beta=2.0)},
    "sinkhorn/barycentre/flow": {"tokens": CLOUD, "until": 0.5, "law": af.Softmax()},
    "long-context/one-layer": {"tokens": equiangular(6, 0.5), "motion": af.Layers(gamma=0.9)},
}
