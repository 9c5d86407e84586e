"""Figures of self-attention on the sphere."""

from __future__ import annotations

import numpy as np

import attnflow as af
from attnflow import figures
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.papers import METASTABLE, SPHERE


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


@entry("sphere/phase-diagram", "When tokens on the circle have met", SPHERE)
def phase_diagram(
    seed: int = 0, n: int = 32, systems: int = 128, betas: int = 90, times: int = 200, until: float = 30.0
) -> Drawing:
    """The fraction of pairs with <x_i, x_j> > 0.999 under the normalised flow, over time and beta."""
    found = af.measure.phase_diagram(
        np.linspace(0.1, 9.0, betas), np.linspace(until / times, until, times), n=n, systems=systems, seed=seed
    )
    error = float(found.error.max())
    caption = (
        f"The fraction of pairs of {n} tokens on the circle with <x_i, x_j> > {found.threshold:g} under the "
        f"normalised dynamics, the mean of {systems} uniform starts (standard error at most {error:.2g}). The curve is "
        "the time at which tokens that start orthogonal reach this inner product: a prediction for d >= n alone."
    )
    return Drawing(figures.phase_diagram(found), caption, {"largest standard error": error})
