"""The figure of noise: order above the threshold, none below."""

from __future__ import annotations

import matplotlib.pyplot as plt

from attnflow.figures.gallery.noise import order


def test_order_grows_above_the_threshold_alone() -> None:
    drawing = order(n=200, until=8.0, dt=0.1, ratios="0.4 8")
    assert drawing.shows["0.4"] < 0.2 < 0.5 < drawing.shows["8"]
    lines = {line.get_gid() for line in drawing.figure.axes[0].lines}
    assert {"order-0.4", "order-8", "rate-8"} <= lines
    assert "rate-0.4" not in lines
    plt.close(drawing.figure)
