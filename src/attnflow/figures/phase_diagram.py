"""The picture of the phase diagram on the sphere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.core.inputs import Array
from attnflow.figures.axes import edges, logarithmic
from attnflow.figures.style import DASHED, found_by, log_axis, look, sheet, tone
from attnflow.measure.phase_diagram import PhaseDiagram, passing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Values that span two decades or more may have a logarithmic axis.
DECADES = 100


def phase_diagram(found: PhaseDiagram) -> Figure:
    """Draw the fraction of pairs that have met over time and beta, and the curve of tokens that start orthogonal.

    Such a start needs d >= n: the curve is dashed where tokens have fewer dimensions, and no more than a guide. Betas
    or times that span decades, in growing steps, have a logarithmic axis; a time of 0 is then left out.

    >>> import attnflow as af
    >>> found = af.measure.phase_diagram([1.0, 4.0, 9.0], times=[0.0, 10.0, 20.0, 30.0], n=8, systems=16)
    >>> figure = phase_diagram(found)
    >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
    ('time $t$', '$\\\\beta$')
    """
    found_by("measure.phase_diagram(betas, times)", found, PhaseDiagram)
    with look():
        figure = sheet(6.0, 4.0)
        ax = figure.add_subplot()
        fraction_bar(figure, draw_fraction(ax, found), ax, found.threshold)
        ax.set_title(f"$n = {found.n}$, $d = {found.d}$, {found.systems} random starts", fontsize=11)
        if ax.lines:
            figure.legend(loc="outside lower center")
    return figure


def draw_fraction(ax: Any, found: PhaseDiagram) -> Any:
    """Draw a phase diagram with its curve on axes, and return its cells."""
    long, wide = logarithmic(found.times[found.times > 0], DECADES), logarithmic(found.betas, DECADES)
    seen = found.times > 0 if long else np.full(len(found.times), True)
    times, betas = edges(found.times[seen], long), edges(found.betas, wide)
    # Grey to the eye of a colour-blind reader or a printer, it still goes from dark to light.
    image = ax.pcolormesh(
        times, betas, found.fraction[seen].T, vmin=0, vmax=1, cmap="cividis", rasterized=True, gid="fraction"
    )
    ax.set(xlabel="time $t$", ylabel=r"$\beta$", xlim=times[[0, -1]], ylim=betas[[0, -1]])
    for which in [which for which, spans in (("x", long), ("y", wide)) if spans]:
        log_axis(ax, which)
    _curve(ax, found, betas, wide)
    return image


def fraction_bar(figure: Any, image: Any, axes: Any, threshold: float) -> None:
    """Say beside axes which fraction of pairs has which colour."""
    bar = figure.colorbar(image, ax=axes, pad=0.02)
    bar.set_label(rf"fraction of pairs with $\langle x_i, x_j\rangle > {threshold:.12g}$")
    bar.outline.set_visible(False)


def _curve(ax: Any, found: PhaseDiagram, edges: Array, wide: bool) -> None:
    """Draw when tokens that start orthogonal pass the threshold, as far as the picture goes."""
    from matplotlib.colors import to_rgb
    from matplotlib.patheffects import Normal, Stroke

    fine = (np.geomspace if wide else np.linspace)(edges[0], edges[-1], 400)
    curve = passing(fine, found.n, found.threshold, found.normalized)
    low, high = ax.get_xlim()
    seen = (low <= curve) & (curve <= high)
    if seen.any():
        level = rf"$g_\beta(t) = {found.threshold:.12g}$"
        label = f"orthogonal start: {level}" if found.d >= found.n else rf"{level}, valid for $d \geq n$: a guide only"
        # Cells have the same colours on light and on dark paper: a bright line with a dark outline is seen on both.
        dark, bright = sorted((tone().ink, tone().paper), key=lambda colour: sum(to_rgb(colour)))
        outline = [Stroke(linewidth=3.2, foreground=dark), Normal()]
        style: dict[str, Any] = {"color": bright, "lw": 1.6, "path_effects": outline, "zorder": 3, "gid": "theory"}
        ax.plot(curve[seen], fine[seen], label=label, ls="-" if found.d >= found.n else DASHED, **style)
