"""The picture of the phase diagram on the sphere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.figures.look import INK, PAPER, found_by, look, sheet
from attnflow.inputs import Array
from attnflow.measure.phase_diagram import PhaseDiagram, passing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def phase_diagram(found: PhaseDiagram) -> Figure:
    """Draw the fraction of pairs that have met over time and beta, and the curve of tokens that start orthogonal.

    >>> import attnflow as af
    >>> found = af.measure.phase_diagram([1.0, 4.0, 9.0], times=[0.0, 10.0, 20.0, 30.0], n=8, systems=16)
    >>> figure = phase_diagram(found)
    >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
    ('time $t$', '$\\\\beta$')
    >>> import matplotlib.pyplot as plt
    >>> plt.close(figure)
    """
    found_by("measure.phase_diagram(betas, times)", found, PhaseDiagram)
    with look():
        figure = sheet(6.0, 4.0)
        ax = figure.add_subplot()
        # Grey to the eye of a colour-blind reader or a printer, it still goes from dark to light.
        image = ax.pcolormesh(
            _edges(found.times), _edges(found.betas), found.fraction.T, vmin=0, vmax=1, cmap="cividis", rasterized=True
        )
        low, high = _edges(found.betas)[[0, -1]].tolist()
        betas = np.linspace(low, high, 400)
        curve = passing(betas, found.n, found.threshold, found.normalized)
        seen = curve <= _edges(found.times)[-1]
        label = rf"orthogonal start, $d \geq n$: $g_\beta(t) = {found.threshold:.12g}$"
        ax.plot(curve[seen], betas[seen], color=PAPER, lw=1.6, path_effects=_outlined(), label=label, zorder=3)
        ax.set(xlabel="time $t$", ylabel=r"$\beta$")
        ax.set(xlim=_edges(found.times)[[0, -1]], ylim=_edges(found.betas)[[0, -1]])
        bar = figure.colorbar(image, ax=ax, pad=0.02)
        bar.set_label(rf"fraction of pairs with $\langle x_i, x_j\rangle > {found.threshold:.12g}$")
        bar.outline.set_visible(False)
        ax.set_title(f"$n = {found.n}$, $d = {found.d}$, {found.systems} random starts", fontsize=11)
        if seen.any():
            figure.legend(loc="outside lower center")
    return figure


def _outlined() -> list[Any]:
    from matplotlib.patheffects import Normal, Stroke

    return [Stroke(linewidth=3.2, foreground=INK), Normal()]


def _edges(centres: Array) -> Array:
    """Return the edges of the cells around increasing centres.

    >>> _edges(np.array([1.0, 2.0, 4.0]))
    array([0.5, 1.5, 3. , 5. ])
    """
    if len(centres) == 1:
        return centres[0] + np.array([-0.5, 0.5])
    middle = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])
