"""Models that break the claims about Sinkhorn weights, long contexts and perceptrons, on data where others do not."""

from __future__ import annotations

from typing import Any

import attnflow as af
from attnflow.claims.long_context import equiangular

CLOUD = [[1.0, 0.0], [0.2, 0.9], [-0.5, -0.3], [0.1, -1.0]]

BROKEN: dict[str, dict[str, Any]] = {
    # Rows of softmax sum to one, columns do not.
    "sinkhorn/barycentre": {"tokens": CLOUD, "beta": 2.0, "law": af.Softmax(beta=2.0)},
    "sinkhorn/barycentre/flow": {"tokens": CLOUD, "until": 0.5, "law": af.Softmax()},
    # Attention that draws tokens together leaves them all in one arc.
    "mlp/cluster-mass": {
        "tokens": [[1.0, 0.0], [0.8, 0.6], [0.6, -0.8]],
        "motion": af.SphereFlow(normalized=False),
    },
    "long-context/one-layer": {"tokens": equiangular(6, 0.5), "motion": af.Layers(gamma=0.9)},
}
