"""Pictures of the mean-field limit: distances to it against the number of tokens, and what it looks like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.core.inputs import Array, InputError
from attnflow.figures.marks import shade_bar
from attnflow.figures.style import DASHED, colours, figure_of, found_by, log_axis, log_numbers, look, ramp, sheet, tone
from attnflow.measure.mean_field import MeanFieldDistances, SizeRate, sampling_rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Densities are drawn at no more than MOST_TIMES times, with PER_BIN tokens in a bin on average.
MOST_TIMES, PER_BIN = 4, 50
PREDICTED: dict[str, Any] = {"ls": DASHED, "lw": 1.0}


def mean_field(found: MeanFieldDistances, *, gap: bool | Sequence[bool] = False, many: Array | None = None) -> Figure:
    """Draw W_2 against n at each time, with error bars and the predicted rate, and the density of the many tokens.

    Bars are twice the noise of sampling plus what the brackets leave open. The prediction goes through the largest
    size; in the plane without a gap it is ((c log n + c') / n)^{1/2}, c predicted and c' fitted. `gap` is that of
    `MeanFieldDistances.rates`. Densities are those of the first two coordinates, at up to four of the times, of the
    reference or of `many` (T, N, d), more tokens at the same times.

    >>> import attnflow as af
    >>> from functools import partial
    >>> square = partial(af.tokens.uniform, d=2)
    >>> found = af.measure.mean_field(square, af.Softmax(), af.Layers(gamma=0.2), [0, 4], sizes=[8, 16], reference=500)
    >>> figure = mean_field(found)
    >>> [ax.get_title() for ax in figure.axes[1:3]]
    ['$t = 0$', '$t = 4$']
    """
    found_by("measure.mean_field(...)", found, MeanFieldDistances)
    crowd = found.reference if many is None else np.asarray(many)
    if crowd.ndim != 3 or (len(crowd), crowd.shape[2]) != (len(found.times), found.reference.shape[2]):
        wanted = (len(found.times), "N", found.reference.shape[2])
        raise InputError(f"many has the shape {crowd.shape}, expected {wanted}: tokens at the times of what was found")
    shown = np.unique(np.linspace(0, len(found.times) - 1, min(MOST_TIMES, len(found.times))).round().astype(int))
    with look():
        rows = 1 if len(shown) == 1 or found.reference.shape[2] == 1 else 2
        columns = 1 if found.reference.shape[2] == 1 else math.ceil(len(shown) / rows)
        figure = sheet(7.0, 4.2)
        grid = figure.add_gridspec(rows, 1 + columns, width_ratios=[2.0 if columns == 2 else 1.4, *[1.0] * columns])
        _distances(figure.add_subplot(grid[:, 0]), found, gap)
        if found.reference.shape[2] == 1:
            _on_a_line(figure.add_subplot(grid[0, 1]), crowd, shown.tolist())
        else:
            panels = [figure.add_subplot(grid[k // columns, 1 + k % columns]) for k in range(len(shown))]
            _in_the_plane(panels, crowd[shown][:, :, :2], found.times[shown].tolist())
    return figure


def _distances(ax: Any, found: MeanFieldDistances, gap: bool | Sequence[bool]) -> None:
    n, bars = found.sizes, 2 * found.standard_error + found.half_width
    fine = np.geomspace(n[0], n[-1], 60)
    for k, (rate, colour) in enumerate(zip(found.rates(gap=gap), colours(range(len(found.times))), strict=True)):
        predicted = rate.predicted if rate.corrected is None else rate.corrected
        label = f"$t = {rate.time:g}$: slope ${rate.exponent:.2f} \\pm {rate.error:.2f}$, predicted ${predicted:.2f}$"
        ax.plot(fine, _predicted(found, rate, k, fine), color=colour, zorder=2, **PREDICTED)
        # Side by side, so that no bar hides another.
        ax.errorbar(
            n * 1.03 ** (k - (len(found.times) - 1) / 2), found.distance[k], yerr=bars[k], color=colour, marker="o",
            ms=3.5, ls="", capsize=2, zorder=3, label=label,
        )  # fmt: skip
    ax.plot([], [], color=tone().ink, label="predicted; bars: 2 standard errors, bounds of $W_2$", **PREDICTED)
    ax.set(xscale="log", yscale="log", xlabel="tokens $n$")
    ax.set_xticks(n, [figure_of(count) for count in n.tolist()] if len(n) < 9 else None)
    ax.minorticks_off()
    log_numbers(ax.yaxis)
    ax.set_ylabel(f"$W_2$ to {figure_of(found.reference.shape[1])} tokens")
    handles = ax.get_legend_handles_labels()[0]
    ax.figure.legend(handles=[*handles[1:], handles[0]], loc="outside lower center", ncols=2)


def _predicted(found: MeanFieldDistances, rate: SizeRate, k: int, n: Array) -> Array:
    if rate.offset is not None and rate.predicted_constant is not None:
        return np.asarray(np.sqrt((rate.predicted_constant * np.log(n) + rate.offset) / n))
    shape = sampling_rate(n, found.dimension, gap=rate.gap)
    return np.asarray(found.distance[k, -1] * shape / shape[-1])


def _on_a_line(ax: Any, many: Array, shown: list[int]) -> None:
    edges = np.linspace(many.min(), many.max(), 1 + min(160, max(10, many.shape[1] // PER_BIN)))
    for k, colour in zip(shown, colours(shown), strict=True):
        density = np.histogram(many[k], edges, density=True)[0]
        ax.stairs(density, edges, color=colour, lw=1.2)
    ax.set(xlabel="$x$", ylabel=_density_of(many))
    log_axis(ax, "y")


def _in_the_plane(panels: list[Any], many: Array, times: list[float]) -> None:
    """Draw histograms, all on one logarithmic scale: an empty bin is paper, and what is rare is still seen."""
    from matplotlib.colors import LogNorm

    reach = np.abs(many).max(axis=(1, 2))
    side = min(160, max(12, int(math.sqrt(many.shape[1] / PER_BIN))))
    width = 2 * float(reach.max()) / side or 1.0
    images = [_histogram(state, far, width) for state, far in zip(many, reach.tolist(), strict=True)]
    # From one token in a bin on.
    scale = LogNorm(1 / (many.shape[1] * width**2) / 3, max(image.max() for image in images))
    for ax, image, far, t in zip(panels, images, reach.tolist(), times, strict=True):
        drawn = ax.imshow(
            np.ma.masked_equal(image, 0), norm=scale, cmap=ramp(), origin="lower", interpolation="nearest",
            extent=(-far, far, -far, far), gid="density",
        )  # fmt: skip
        ax.set_title(f"$t = {t:g}$", fontsize=11)
        margin = 1.05 * float(reach.max()) or 1.0
        ax.set(xticks=[], yticks=[], xlim=(-margin, margin), ylim=(-margin, margin))
        ax.spines[:].set(visible=True, color=tone().pencil, lw=0.5)
    shade_bar(panels[0].figure, drawn, panels, shrink=0.9, aspect=20).set_label(_density_of(many))


def _density_of(many: Array) -> str:
    return f"density of {figure_of(many.shape[1])} tokens"


def _histogram(x: Array, reach: float, width: float) -> Array:
    """Return the density of a cloud in bins of about this width, which end where the cloud does.

    Bins that are cut by the rim of a cloud would look paler than it is.
    """
    far = reach or width
    edges = np.linspace(-far, far, 1 + max(1, round(2 * far / width)))
    # Rows of pixels are values of the second coordinate.
    return np.histogramdd(x[:, ::-1], [edges, edges], density=True)[0]
