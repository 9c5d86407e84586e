"""What the picture of the phase diagram shows."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pytest
from refusals import refused

import attnflow as af

matplotlib.use("Agg")


def test_cells_are_the_fractions_and_the_curve_ends_with_the_times() -> None:
    import matplotlib.pyplot as plt

    found = af.measure.phase_diagram([1.0, 3.0, 9.0], [2.0, 4.0, 8.0, 16.0], n=8, systems=8)
    figure: Any = af.figures.phase_diagram(found)
    ax = figure.axes[0]
    assert ax.lines[0].get_linestyle() == "--"
    assert figure.legends[0].get_texts()[0].get_text().endswith(r"valid for $d \geq n$: a guide only")
    np.testing.assert_array_equal(np.asarray(ax.collections[0].get_array()).reshape(3, 4), found.fraction.T)
    (curve,) = ax.lines
    for beta, time in zip(found.betas[:2], found.curve[:2], strict=True):
        assert np.interp(beta, curve.get_ydata(), curve.get_xdata()) == pytest.approx(time, rel=1e-3)
    assert found.curve[2] > 20 > curve.get_xdata().max() > 19  # the last cell ends at 20
    plt.close(figure)
    with refused(r"expected what measure.phase_diagram\(betas, times\) returned"):
        af.figures.phase_diagram(3)  # type: ignore[arg-type]


def test_the_curve_is_solid_where_tokens_can_start_orthogonal() -> None:
    import matplotlib.pyplot as plt

    found = af.measure.phase_diagram([1.0, 3.0], [2.0, 8.0], n=3, d=3, systems=4)
    figure: Any = af.figures.phase_diagram(found)
    assert figure.axes[0].lines[0].get_linestyle() == "-"
    assert figure.legends[0].get_texts()[0].get_text().startswith("orthogonal start")
    plt.close(figure)


def test_values_that_span_decades_have_logarithmic_axes_and_a_time_of_zero_is_left_out() -> None:
    import matplotlib.pyplot as plt

    betas, times = np.geomspace(0.05, 8.0, 7), np.concatenate([[0.0], np.geomspace(0.1, 30.0, 9)])
    found = af.measure.phase_diagram(betas, times, n=6, systems=8)
    figure: Any = af.figures.phase_diagram(found)
    ax = figure.axes[0]
    assert ax.get_xscale() == ax.get_yscale() == "log"
    cells = ax.collections[0]
    np.testing.assert_array_equal(np.asarray(cells.get_array()).reshape(7, 9), found.fraction[1:].T)
    corners = np.asarray(cells.get_coordinates())
    # The centre of each cell, on the scale of its axis, is where it was measured.
    np.testing.assert_allclose(np.sqrt(corners[0, :-1, 0] * corners[0, 1:, 0]), times[1:])
    np.testing.assert_allclose(np.sqrt(corners[:-1, 0, 1] * corners[1:, 0, 1]), betas)
    (curve,) = ax.lines
    inside = (found.curve > 0.2) & (found.curve < 20)
    fits = np.interp(np.log(betas[inside]), np.log(curve.get_ydata()), curve.get_xdata())
    np.testing.assert_allclose(fits, found.curve[inside], rtol=1e-3)
    plt.close(figure)


@pytest.mark.parametrize("dark", [False, True])
def test_the_curve_is_bright_with_a_dark_outline_whatever_the_paper(dark: bool) -> None:
    import matplotlib.pyplot as plt
    from matplotlib.colors import to_rgb

    found = af.measure.phase_diagram([1.0, 3.0], [2.0, 8.0], n=4, systems=4)
    with af.figures.look(dark=dark):
        figure: Any = af.figures.phase_diagram(found)
    (curve,) = figure.axes[0].lines
    outline = curve.get_path_effects()[0]._gc["foreground"]
    assert min(to_rgb(curve.get_color())) > 0.9
    assert max(to_rgb(outline)) < 0.2
    plt.close(figure)
