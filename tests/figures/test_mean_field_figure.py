"""What the picture of the mean-field limit shows: distances with bars, predictions, densities."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow import figures
from attnflow.measure import MeanFieldDistances, sampling_rate

matplotlib.use("Agg")
pytestmark = pytest.mark.usefixtures("figures_closed")

SIZES = np.array([32, 64, 128, 256])


def made(times: int, d: int) -> MeanFieldDistances:
    noise = np.exp(0.1 * np.random.default_rng(0).standard_normal((times, 4, 5)))
    W = sampling_rate(SIZES, d)[None, :, None] * noise
    many = np.stack([af.tokens.uniform(20_000, d, seed=0) / (1 + k) for k in range(times)])
    return MeanFieldDistances(np.arange(times), SIZES, 0.98 * W, 1.02 * W, many, d)


def bars(ax: Any, k: int) -> tuple[Any, Any, Any]:
    points, _, (lines,) = ax.containers[k]
    ends = np.array([segment[:, 1] for segment in lines.get_segments()])
    return points.get_xdata(), points.get_ydata(), ends


def test_bars_hold_noise_and_brackets_and_predictions_meet_them() -> None:
    found = made(2, 1)
    ax: Any = figures.mean_field(found).axes[0]
    assert ax.get_xscale() == ax.get_yscale() == "log"
    for k in (0, 1):
        x, y, ends = bars(ax, k)
        np.testing.assert_allclose(x, SIZES, rtol=0.05)
        np.testing.assert_allclose(y, found.distance[k])
        half = 2 * found.standard_error[k] + found.half_width[k]
        np.testing.assert_allclose(ends, np.column_stack([y - half, y + half]), rtol=1e-9)
    dashed = [line for line in ax.lines if line.get_linestyle() == "--" and len(line.get_xdata())]
    for k, line in enumerate(dashed):
        n, W = line.get_xdata(), line.get_ydata()
        np.testing.assert_allclose(W, found.distance[k, -1] * np.sqrt(SIZES[-1] / n))
    assert len(dashed) == 2


def test_in_the_plane_the_predicted_constant_is_drawn_unless_there_is_a_gap() -> None:
    found = made(2, 2)
    figure: Any = figures.mean_field(found, gap=[False, True])
    first, second = (line for line in figure.axes[0].lines if line.get_linestyle() == "--" and len(line.get_xdata()))
    n, W = first.get_xdata(), first.get_ydata()
    slope = np.polyfit(np.log(n), n * W**2, 1)[0]
    assert slope == pytest.approx(4 / (4 * np.pi), rel=0.01)  # the area of the square over 4 pi
    n, W = second.get_xdata(), second.get_ydata()
    np.testing.assert_allclose(W * n**0.25, W[-1] * n[-1] ** 0.25)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[-1] == "predicted; bars: 2 standard errors, bounds of $W_2$"
    assert names[0].startswith("$t = 0$: slope $-0.")


def test_densities_are_those_of_the_reference() -> None:
    found = made(3, 2)
    figure: Any = figures.mean_field(found)
    images = [ax.images[0] for ax in figure.axes[1:4]]
    for k, image in enumerate(images):
        density, (left, right, *_) = np.ma.filled(image.get_array(), 0.0), image.get_extent()
        cell = (right - left) / len(density)
        assert density.sum() * cell**2 == pytest.approx(1.0)
        inside = density[density > 0]
        # Uniform in a square of side 2/(1 + k), up to bins on its edge.
        assert np.median(inside) == pytest.approx((1 + k) ** 2 / 4, rel=0.1)
    assert len({image.norm.vmax for image in images}) == 1
    # A row of pixels is a value of the second coordinate.
    tilted = MeanFieldDistances(
        np.array([0]), SIZES, found.low[:1], found.high[:1], found.reference[:1] * [1.0, 0.25], 2
    )
    ax: Any = figures.mean_field(tilted).axes[1]
    density = np.ma.filled(ax.images[0].get_array(), 0.0)
    assert (density.sum(axis=0) > 0).sum() > 2 * (density.sum(axis=1) > 0).sum()


def test_at_most_four_densities_and_a_line_has_one_panel() -> None:
    titles = [ax.get_title() for ax in figures.mean_field(made(6, 3)).axes[1:5]]
    assert titles == ["$t = 0$", "$t = 2$", "$t = 3$", "$t = 5$"]
    assert len(figures.mean_field(made(3, 1)).axes) == 2


def test_other_things_are_refused() -> None:
    with refused("expected what measure"):
        figures.mean_field([1.0])  # type: ignore[arg-type]
    with refused("one of these for each of the times"):
        figures.mean_field(made(3, 1), gap=[True])


def test_more_tokens_of_another_shape_are_refused() -> None:
    found = af.measure.mean_field(
        lambda n, seed: af.tokens.uniform(n, 1, seed=seed), af.Softmax(), af.Layers(gamma=0.5), [0, 1], sizes=[4, 8],
        reference=50,
    )  # fmt: skip
    with refused(r"many has the shape \(2, 9, 2\), expected \(2, 'N', 1\)"):
        figures.mean_field(found, many=np.zeros((2, 9, 2)))
