"""What the pictures of long times show: heights, merges, medians, slopes."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow import figures
from attnflow.figures import long_times

matplotlib.use("Agg")
pytestmark = pytest.mark.usefixtures("figures_closed")


def labelled(ax: Any) -> dict[str, Any]:
    return dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))


def test_a_staircase_shows_merges_on_the_curve_and_predicted_heights() -> None:
    x0 = af.tokens.sphere(n=4, d=2, seed=1)
    stairs = af.measure.staircase(af.simulate(x0, af.Softmax(beta=9.0), af.SphereFlow(rtol=1e-5), until=1e9))
    ax: Any = figures.staircase(stairs).axes[0]
    flat = [c.get_segments()[0] for c in ax.collections if len(c.get_segments()) == 1]
    heights = [s[0, 1] for s in flat if s[0, 1] == s[1, 1] and s[0, 0] < s[1, 0] / 1.01]
    np.testing.assert_allclose(heights, [p.predicted for p in stairs.plateaux])
    marks = [line for line in ax.lines if line.get_marker() == "o" and len(line.get_xdata())]
    np.testing.assert_allclose([m.get_xdata()[0] for m in marks], stairs.merges.time)
    curve = labelled(ax)["energy"]
    assert set(curve.get_xdata()) <= set(stairs.times)
    # Names of the early merges would overlap.
    assert [text.get_text() for text in ax.texts] == [f"$t = {figures.long_times._digits(stairs.merges[-1])}$"]
    assert ax.get_xscale() == "log"


def test_times_are_written_with_their_errors() -> None:
    digits = figures.long_times._digits
    assert digits(af.measure.Merge(12.3456, 0.0213, (1, 1), 1)) == "12.35(3)"
    assert digits(af.measure.Merge(12.3456, 0.013, (1, 1), 1)) == "12.346(13)"
    assert digits(af.measure.Merge(5.0e8, 7.0e3, (1, 1), 1)) == "5.00000(7) \\times 10^{8}"
    assert digits(af.measure.Merge(5.0e8, 7.0e9, (1, 1), 1)) == "5(70) \\times 10^{8}"
    assert digits(af.measure.Merge(5.0, np.inf, (1, 1), 1)) == "5?"


def test_exits_show_medians_intervals_and_the_slope_of_theory() -> None:
    rate = af.measure.exit_rate(af.tokens.polygon(3), [5.0, 10.0, 40.0], gamma=0.1, radius=0.1, runs=50)
    (ax,) = figures.exits(rate).axes
    shown = labelled(ax)
    exact = shown["exact median"].get_ydata()
    np.testing.assert_allclose(exact, [float(found.exact.median) for found in rate.exits if found.exact])
    guide = shown["slope of theory, 1.5"].get_ydata()
    np.testing.assert_allclose(np.diff(np.log(guide)), 1.5 * np.diff(rate.betas))
    points, _, (bars,) = shown["median of 50 chains"]
    np.testing.assert_allclose(points.get_ydata(), [float(found.median) for found in rate.exits])
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends, [list(map(float, found.interval)) for found in rate.exits], rtol=1e-12)


def test_phases_show_what_happened_where_it_did() -> None:
    triangle = af.tokens.polygon(3)
    found = af.measure.phases(np.vstack([triangle, 0.65 * triangle]), [4, 8], gamma=0.1, runs=6)
    left, right = figures.phases(found).axes
    shown = labelled(left)
    departure = next(handle for name, handle in shown.items() if "T_2" in name)[0]
    there = [t is not None for t in found.layers.departure]
    assert there == [False, True]
    np.testing.assert_allclose(departure.get_xdata(), found.betas[there])
    np.testing.assert_allclose(departure.get_ydata(), [float(t) for t in found.layers.departure if t is not None])
    assert left.get_yscale() == right.get_yscale() == "log"
    collapse = next(handle for name, handle in labelled(right).items() if "collapses" in name)[0]
    np.testing.assert_allclose(collapse.get_ydata(), [float(t) for t in found.chain.collapse])


def test_phases_of_layers_alone_have_one_panel() -> None:
    (only,) = figures.phases(af.measure.phases(af.tokens.polygon(3), [4, 8], gamma=0.1, runs=0)).axes
    assert only.get_title().startswith("layers")


@pytest.mark.parametrize("draw", [figures.staircase, figures.exits, figures.phases])
def test_other_things_are_refused(draw: Any) -> None:
    with refused("expected what measure"):
        draw([1.0])


def test_a_number_without_an_error_has_six_digits() -> None:
    assert long_times._measured(2.0 / 3, 0.0) == "0.666667"


def test_without_merges_the_key_is_below() -> None:
    found = af.measure.staircase(af.simulate([[1.0, 0.0]], af.Softmax(), af.SphereFlow(), until=1.0))
    assert long_times._free_corner(found, 1.0, 2.0) == "lower left"
