"""Figures of self-attention on the sphere."""

from __future__ import annotations

import numpy as np

import attnflow as af
from attnflow import figures
from attnflow.figures.axes import edges
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.papers import METASTABLE, SPHERE
from attnflow.figures.phase_diagram import draw_fraction, fraction_bar
from attnflow.figures.style import sheet

# On the circle there are this many times as many random starts as in many dimensions.
FEWER_SYSTEMS = 16


@entry("sphere/staircase", "The staircase of the energy in logarithmic time", METASTABLE)
def staircase(seed: int = 9, n: int = 8, beta: float = 16.0) -> Drawing:
    """Few tokens on the circle at large beta: plateaux sum_q (n_q / n)^2 of the energy, a merge at each step."""
    x0 = af.tokens.sphere(n=n, d=2, seed=seed)
    run = af.simulate(x0, af.Softmax(beta=beta), af.SphereFlow(), until=1e14)
    stairs = af.measure.staircase(run)
    caption = (
        f"{n} tokens on the circle at beta = {beta:g}: the energy n^-2 sum_ij e^(beta (<x_i, x_j> - 1)) rests at the "
        "heights sum_q (n_q / n)^2 that clusters of n_q tokens predict (dashed), for times that grow exponentially. "
        "Errors of the merge times are the digits in brackets, from runs at other tolerances and from a start moved by "
        "one tolerance; as bars they are narrower than the marks."
    )
    shows = {"merge times": [merge.time for merge in stairs.merges], "heights": stairs.heights}
    return Drawing(figures.staircase(stairs), caption, shows)


@entry("sphere/phase-diagram", "When tokens have met, on the circle and in many dimensions", SPHERE)
def phase_diagram(
    seed: int = 0, n: int = 32, d: int = 64, systems: int = 128, betas: int = 90, times: int = 200, until: float = 30.0
) -> Drawing:
    """The fraction of pairs with <x_i, x_j> > 0.999 under the normalised flow, over time and beta, for d = 2 and d."""
    moments = np.linspace(until / times, until, times)
    circle = af.measure.phase_diagram(np.linspace(0.1, 9.0, betas), moments, n=n, systems=systems, seed=seed)
    # In many dimensions random starts differ less from each other, and take longer.
    few = max(2, systems // FEWER_SYSTEMS)
    coarse = np.linspace(0.1, 9.0, -(-betas // 2))
    sphere = af.measure.phase_diagram(coarse, moments, n=n, d=d, systems=few, seed=seed)
    figure = sheet(7.4, 3.5)
    panels = figure.subplots(1, 2, sharey=True)
    for ax, found in zip(panels, (circle, sphere), strict=True):
        image = draw_fraction(ax, found)
        ax.set_title(f"$n = {n}$, $d = {found.d}$, {found.systems} random starts", fontsize=11)
    # The cells of the right panel are higher, and reach beyond those of the left.
    panels[1].set(ylabel="", ylim=edges(circle.betas, False)[[0, -1]])
    fraction_bar(figure, image, panels, circle.threshold)
    # The curve that holds comes first.
    lines = [line for ax in panels[::-1] for line in ax.lines]
    figure.legend(handles=lines, loc="outside lower center", ncols=2, fontsize=9.5)
    errors = [float(found.error.max()) for found in (circle, sphere)]
    late = _lag(sphere)
    caption = (
        f"The fraction of pairs of {n} tokens with <x_i, x_j> > {circle.threshold:g} under the normalised dynamics, "
        f"left on the circle, right on the sphere in dimension {d}: means of {circle.systems} and {sphere.systems} "
        f"uniform starts (standard errors at most {errors[0]:.2g} and {errors[1]:.2g}). The curve is the time at which "
        f"tokens that start orthogonal, which takes d >= n, reach this inner product. Right, where random starts are "
        f"nearly so, half of the pairs have met at {late[0]:.2f} to {late[1]:.2f} times this time; left it is dashed, "
        "no more than a guide: clusters on the circle persist far beyond it."
    )
    return Drawing(figure, caption, {"largest standard errors": errors, "half have met, times the curve": late})


def _lag(found: af.measure.PhaseDiagram) -> tuple[float, float]:
    """Return between which multiples of the curve half of the pairs have met, for the betas where they have."""
    first = (found.fraction > 0.5).argmax(axis=0)
    met = found.fraction.max(axis=0) > 0.5
    ratios = found.times[first[met]] / found.curve[met]
    return (float(ratios.min()), float(ratios.max())) if met.any() else (float("nan"), float("nan"))
