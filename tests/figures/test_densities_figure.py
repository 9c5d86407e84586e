"""Pictures of densities show what was computed."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow import figures

matplotlib.use("Agg")
pytestmark = pytest.mark.usefixtures("figures_closed")


def test_the_diagram_has_a_line_for_each_kind_of_transition() -> None:
    found = af.densities.diagram(np.linspace(1, 4, 7), np.linspace(0.9, 1.1, 5))
    ax: Any = figures.density_diagram(found).axes[0]
    lines = {line.get_gid(): line.get_xydata() for line in ax.lines}
    # Both kinds meet at beta_*.
    assert lines["continuous"][-1] == pytest.approx([found.critical, 1.0])
    assert lines["jump"][0] == pytest.approx([found.critical, 1.0])
    assert lines["critical"][0, 0] == pytest.approx(2.446918, abs=1e-6)
    assert (lines["fold"][1:, 1] < lines["jump"][1:, 1]).all()
    assert (lines["jump"][1:, 1] < lines["threshold"][1:, 1]).all()


def test_branches_are_dashed_up_to_their_fold() -> None:
    branch = af.MeanField(4.0, normalized=False).branch()
    ax: Any = figures.branches([branch]).axes[0]
    (fold,) = [line.get_xydata()[0] for line in ax.lines if line.get_gid() == "fold"]
    assert fold == pytest.approx([branch.folds[0].kappa / branch.start, branch.folds[0].order])
    solid, dashed = ax.lines[:2]
    assert np.nanmin(solid.get_ydata()) > fold[1] > np.nanmax(dashed.get_ydata())
    assert np.nanmin(solid.get_ydata()) - np.nanmax(dashed.get_ydata()) < 0.01
    with refused("give a list"):
        figures.branches([])


def test_the_picture_of_a_run_ends_at_its_order_parameter() -> None:
    run = af.MeanField(1.5, d=3).solve(lambda s: 1 + 0.5 * s, until=1.0)
    axes: list[Any] = figures.density_run(run).axes
    upper, lower = axes[:2]
    assert lower.lines[0].get_ydata()[-1] == run.final.order
    assert "x, e" in upper.get_ylabel()
