"""Pictures of densities: how they move, the branches of stationary ones, and the phase diagram over beta and kappa."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.core.inputs import Array, InputError
from attnflow.densities import Branch, DensityRun, Diagram
from attnflow.figures.axes import edges
from attnflow.figures.marks import shade_bar
from attnflow.figures.style import DASHED, colours, found_by, look, ramp, sheet, tone

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Points of a meridian or of the circle at which densities are drawn, and times in a picture of a run.
POINTS, TIMES = 720, 400


def density_run(run: DensityRun) -> Figure:
    """Draw a density over time, as shades of its logarithm, with its order parameter and free energy.

    >>> import attnflow as af
    >>> run = af.MeanField(beta=3.0, kappa=8.0).solve(lambda theta: 1 + 0.1 * np.cos(theta), until=10.0)
    >>> [ax.get_ylabel() for ax in density_run(run).axes[:2]]
    ['angle $\\\\theta$', 'order parameter $|\\\\int x\\\\,f|$']
    """
    found_by("MeanField(...).solve(...)", run, DensityRun)
    from matplotlib.colors import LogNorm

    with look():
        figure = sheet(6.4, 4.4)
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 1.0])
        circle = run.model.d == 2
        places = np.linspace(-np.pi, np.pi, POINTS) if circle else np.linspace(-1, 1, POINTS)
        shown = np.unique(np.linspace(0, len(run) - 1, min(len(run), TIMES)).round().astype(int))
        values = np.array([run[k].at(places) for k in shown.tolist()])
        top = float(values.max())
        scale = LogNorm(max(1e-2, float(values.min())), top)
        image = upper.pcolormesh(
            run.times[shown], places, np.clip(values, scale.vmin, None).T, norm=scale, cmap=ramp(), shading="nearest",
            rasterized=True, gid="density",
        )  # fmt: skip
        upper.set(ylabel=r"angle $\theta$" if circle else r"$\langle x, e\rangle$")
        if circle:
            upper.set_yticks([-np.pi, 0, np.pi], [r"$-\pi$", "0", r"$\pi$"])
        shade_bar(figure, image, [upper]).set_label("density $f$")
        lower.plot(run.times, run.order, color=colours([0])[0], lw=1.6, gid="order")
        lower.set(xlabel="time $t$", ylabel=r"order parameter $|\int x\,f|$", ylim=(0, 1))
        lower.set_xlim(run.times[0], run.times[-1])
    return figure


def branches(found: Sequence[Branch]) -> Figure:
    """Draw the order parameter of stationary densities against kappa: stable ones solid, unstable ones dashed.

    Rings are folds, filled points transitions of first order. Kappa is in parts of the threshold of each branch.

    >>> import attnflow as af
    >>> figure = branches([af.MeanField(beta=3.0, normalized=False).branch()])
    >>> figure.axes[0].get_ylabel()
    'order parameter'
    """
    if not found or not all(isinstance(one, Branch) for one in found):
        raise InputError("found holds no branches: give a list of what MeanField(...).branch() returned")
    with look():
        figure = sheet(5.6, 3.8)
        ax = figure.add_subplot()
        draw_branches(ax, found)
        figure.legend(loc="outside lower center", ncols=3)
    return figure


def draw_branches(ax: Any, found: Sequence[Branch]) -> None:
    """Draw branches on these axes."""
    for branch, colour in zip(found, colours(range(len(found))), strict=True):
        curve = branch.curve()
        for solid, style in ((True, "-"), (False, DASHED)):
            label = rf"$\beta = {branch.model.beta:g}$" if solid else None
            seen = np.where(curve.stable == solid, curve.orders, np.nan)
            ax.plot(curve.kappas / branch.start, seen, color=colour, ls=style, lw=1.6, label=label, zorder=2)
        for one in branch.folds:
            ax.plot(one.kappa / branch.start, one.order, "o", mfc=tone().paper, mec=colour, ms=5, zorder=3, gid="fold")
        for one in branch.crossings:
            ax.plot(one.kappa / branch.start, one.order, "o", color=colour, ms=5, zorder=3, gid="transition")
    low = min(float((one.kappas / one.start).min()) for one in found)
    high = max(float((one.kappas / one.start).max()) for one in found)
    ax.plot([low - 0.05, 1], [0, 0], color=tone().ink, lw=1.6, zorder=1)
    ax.plot([1, high], [0, 0], color=tone().ink, lw=1.6, ls=DASHED, zorder=1)
    ax.set(xlabel=r"$\kappa / \kappa_\#$", ylabel="order parameter", xlim=(low - 0.03, min(high, 1.5)), ylim=(-0.02, 1))


def density_diagram(found: Diagram) -> Figure:
    """Draw the order parameter over beta and kappa: a solid line for continuous transitions, a dashed one for jumps.

    Between the dotted line of folds and the threshold, clusters and the uniform density are both stable.

    >>> import attnflow as af
    >>> found = af.densities.diagram([1.0, 2.0, 3.0, 4.0], np.linspace(0.9, 1.2, 4))
    >>> density_diagram(found).axes[0].get_xlabel()
    '$\\\\beta$'
    """
    found_by("densities.diagram(betas, ratios)", found, Diagram)
    with look():
        figure = sheet(6.0, 4.2)
        draw_diagram(figure.add_subplot(), found)
        figure.legend(loc="outside lower center", ncols=2)
    return figure


def draw_diagram(ax: Any, found: Diagram) -> None:
    """Draw a phase diagram on these axes."""
    image = ax.pcolormesh(
        edges(found.betas), edges(found.ratios), found.orders.T, vmin=0, vmax=1, cmap="cividis", rasterized=True,
        gid="order",
    )  # fmt: skip
    bar = ax.figure.colorbar(image, ax=ax, pad=0.02)
    bar.set_label("order parameter")
    bar.outline.set_visible(False)
    betas = found.betas
    lines: list[tuple[Array, Array, dict[str, Any]]] = []
    jumps = np.asarray(found.first_order, dtype=bool) & (found.transitions < found.thresholds)
    start = [(found.critical, 1.0)] if found.critical is not None and jumps.any() and not jumps.all() else []
    head, ones = [one[0] for one in start], [one[1] for one in start]
    calm = np.concatenate([betas[~np.asarray(found.first_order, dtype=bool)], head])
    calmly = {"ls": "-", "lw": 2.0, "label": "continuous transition", "gid": "continuous"}
    lines.append((calm, np.ones(len(calm)), calmly))
    if jumps.any():
        at = np.concatenate([head, betas[jumps]])
        ratio = np.concatenate([ones, (found.transitions / found.thresholds)[jumps]])
        lines.append((at, ratio, {"ls": DASHED, "lw": 2.0, "label": "transition of first order: jump", "gid": "jump"}))
        fold = np.concatenate([ones, (found.folds / found.thresholds)[jumps]])
        lines.append((at, fold, {"ls": ":", "lw": 1.4, "label": "fold: clusters exist above it", "gid": "fold"}))
        over = np.ones(len(at))
        lines.append(
            (at, over, {"ls": "-", "lw": 0.8, "label": r"$\kappa_\#$: uniform unstable above it", "gid": "threshold"})
        )
    for x, y, style in lines:
        ax.plot(x, y, color="white", zorder=3, path_effects=_outline(style["lw"]), **style)
    if start:
        ax.plot(*start[0], "o", color="white", mec="black", ms=6, zorder=4, gid="critical")
        ax.annotate(
            rf"$\beta_* = {found.critical:.4f}$", start[0], (6, 8), textcoords="offset points", color="white",
            path_effects=_outline(1.0), zorder=4,
        )  # fmt: skip
    ax.set(
        xlabel=r"$\beta$", ylabel=r"$\kappa / \kappa_\#$", xlim=edges(betas)[[0, -1]], ylim=edges(found.ratios)[[0, -1]]
    )


def _outline(width: float) -> list[Any]:
    """Return a dark rim: cells have the same colours on light and on dark paper."""
    from matplotlib.patheffects import Normal, Stroke

    return [Stroke(linewidth=width + 1.6, foreground="#262626"), Normal()]
