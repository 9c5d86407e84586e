"""The figures of densities, with fewer points: what they draw and say, against formulas."""

from __future__ import annotations

import numpy as np
import pytest
from larger import larger
from scipy.special import ive

from attnflow.figures.gallery.densities import clusters, convergence, transitions

pytestmark = pytest.mark.usefixtures("figures_closed")


@larger
def test_the_wave_that_grows_fastest_is_that_of_bessel_functions() -> None:
    drawing = clusters(betas=(0.6, 2.0), size=1e-2)
    left = drawing.figure.axes[0]
    (line,) = (line for line in left.lines if line.get_gid() == "kmax")
    k = np.arange(1, 40)
    beta, drawn = (np.asarray(values)[::97] for values in line.get_data())
    assert drawn.tolist() == [int(k[(k**2 * ive(k, one)).argmax()]) for one in beta]
    assert drawing.shows["kmax"] == [1, 2]
    # From these waves as many clusters grow.
    assert drawing.shows["maxima"] == [1, 2]
    assert "1, 2 maxima above 1, for beta = 0.6, 2." in drawing.caption


@larger
def test_transitions_begin_to_jump_at_the_critical_beta() -> None:
    drawing = transitions(betas=3, ratios=3)
    assert f"beta_* = {drawing.shows['beta_*']:.6f}" in drawing.caption
    assert 2.0 < drawing.shows["beta_*"] < 3.0  # branches at 2 and 3 are on both sides
    assert 0.84 < drawing.shows["transition at beta 3"] < 1.0
    assert drawing.figure.axes[1].get_xlim() == (0.84, 1.2)


def test_errors_fall_geometrically() -> None:
    drawing = convergence(until=0.05)
    lines = drawing.figure.axes[0].lines
    assert len(lines) == len(drawing.shows) == 3
    for line in lines:
        modes, errors = (np.asarray(values) for values in line.get_data())
        rates = np.diff(np.log(errors)) / np.diff(modes)
        assert len(rates) >= 2
        assert (rates < -0.5).all()
    assert max(drawing.shows.values()) < 1e-9
