"""The paper and its main model."""

from typing import Any

from attnflow.claims.claim import Paper
from attnflow.laws import Hardmax
from attnflow.motions import Layers

FW = Paper("fw", "Alcalde, Geshkovski, Ruiz-Balet", "Attention's forward pass and Frank-Wolfe", "2508.09628")


def hardmax_layers(given: dict[str, Any]) -> tuple[Hardmax, Layers]:
    """Return (SA_inf): every token takes a step gamma towards the mean of the points that maximise <B x_i, .>."""
    return Hardmax(B=given["B"], ties="points"), Layers(gamma=given["gamma"])
