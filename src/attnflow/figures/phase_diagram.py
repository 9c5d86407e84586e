"""The picture of the phase diagram on the sphere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.core.inputs import Array
from attnflow.figures.style import found_by, log_axis, look, sheet, tone
from attnflow.measure.phase_diagram import PhaseDiagram, passing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Values over two decades whose steps grow by this factor are spread evenly in their logarithm.
DECADES, GROWTH = 100, 10


def phase_diagram(found: PhaseDiagram) -> Figure:
    """Draw the fraction of pairs that have met over time and beta, and the curve of tokens that start orthogonal.

    Betas or times that span decades, in growing steps, have a logarithmic axis; a time of 0 is then left out.

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
        long, wide = _spread(found.times), _spread(found.betas)
        seen = found.times > 0 if long else np.full(len(found.times), True)
        times, betas = _edges(found.times[seen], long), _edges(found.betas, wide)
        # Grey to the eye of a colour-blind reader or a printer, it still goes from dark to light.
        image = ax.pcolormesh(
            times, betas, found.fraction[seen].T, vmin=0, vmax=1, cmap="cividis", rasterized=True, gid="fraction"
        )
        ax.set(xlabel="time $t$", ylabel=r"$\beta$", xlim=times[[0, -1]], ylim=betas[[0, -1]])
        for which in [which for which, logarithmic in (("x", long), ("y", wide)) if logarithmic]:
            log_axis(ax, which)
        _curve(ax, found, betas, wide)
        bar = figure.colorbar(image, ax=ax, pad=0.02)
        bar.set_label(rf"fraction of pairs with $\langle x_i, x_j\rangle > {found.threshold:.12g}$")
        bar.outline.set_visible(False)
        ax.set_title(f"$n = {found.n}$, $d = {found.d}$, {found.systems} random starts", fontsize=11)
        if ax.lines:
            figure.legend(loc="outside lower center")
    return figure


def _curve(ax: Any, found: PhaseDiagram, edges: Array, wide: bool) -> None:
    """Draw when tokens that start orthogonal pass the threshold, as far as the picture goes."""
    from matplotlib.colors import to_rgb
    from matplotlib.patheffects import Normal, Stroke

    fine = (np.geomspace if wide else np.linspace)(edges[0], edges[-1], 400)
    curve = passing(fine, found.n, found.threshold, found.normalized)
    low, high = ax.get_xlim()
    seen = (low <= curve) & (curve <= high)
    if seen.any():
        label = rf"orthogonal start, $d \geq n$: $g_\beta(t) = {found.threshold:.12g}$"
        # Cells have the same colours on light and on dark paper: a bright line with a dark outline is seen on both.
        dark, bright = sorted((tone().ink, tone().paper), key=lambda colour: sum(to_rgb(colour)))
        outline = [Stroke(linewidth=3.2, foreground=dark), Normal()]
        style: dict[str, Any] = {"color": bright, "lw": 1.6, "path_effects": outline, "zorder": 3, "gid": "theory"}
        ax.plot(curve[seen], fine[seen], label=label, **style)


def _spread(centres: Array) -> bool:
    """Say whether values belong on a logarithmic axis: they span decades, in steps that grow.

    >>> _spread(np.geomspace(0.1, 100.0, 20)), _spread(np.linspace(0.1, 100.0, 20))
    (True, False)
    """
    positive = centres[centres > 0]
    if len(positive) < 3 or centres[0] < 0:
        return False
    steps = np.diff(positive)
    return bool(positive[-1] >= DECADES * positive[0] and steps.max() >= GROWTH * steps.min())


def _edges(centres: Array, logarithmic: bool = False) -> Array:
    """Return the edges of the cells around increasing centres, half way between them on the scale of their axis.

    >>> _edges(np.array([1.0, 2.0, 4.0])), _edges(np.array([1.0, 10.0, 100.0]), logarithmic=True).round(2)
    (array([0.5, 1.5, 3. , 5. ]), array([  0.32,   3.16,  31.62, 316.23]))
    """
    if logarithmic:
        return np.exp(_edges(np.log(centres)))
    if len(centres) == 1:
        return centres[0] + np.array([-0.5, 0.5])
    middle = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])
