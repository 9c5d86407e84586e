"""Figures of exponentially long times: exits of the chain, and what finite temperature does to hardmax."""

from __future__ import annotations

import math

import numpy as np

import attnflow as af
from attnflow import figures
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.papers import FRANK_WOLFE

POLYGONS = {3: "triangle", 4: "square", 5: "pentagon", 6: "hexagon", 7: "heptagon", 8: "octagon"}


@entry("long-times/exits", "Exit times of the chain against beta, with the exact law", FRANK_WOLFE)
def exits(
    seed: int = 0, sides: tuple[int, ...] = (3, 4, 5),
    betas: tuple[float, ...] = (2.5, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0), runs: int = 1000,
    gamma: float = 0.1, radius: float = 0.1,
) -> Drawing:  # fmt: skip
    """Regular k-gons: the first exit is exactly geometric, and grows like e^{beta (1 - cos(2 pi / k))}."""
    rates = {
        POLYGONS.get(k, f"{k}-gon"): af.measure.exit_rate(
            af.tokens.polygon(k), list(betas), gamma, radius, runs=runs, seed=seed + k
        )
        for k in sides
    }
    inside = sum(
        found.exact is not None and found.interval[0] <= found.exact.median <= found.interval[1]
        for rate in rates.values()
        for found in rate.exits
    )
    total = len(sides) * len(betas)
    caption = (
        f"How long the vertices of regular polygons stay within {radius:g} of their places in the Markov chain of "
        f"attention with gamma = {gamma:g}. Marks are medians of {runs} sampled chains, with intervals that hold the "
        "median with 95 per cent confidence whatever its law; they hold the exact median, the solid line, in "
        f"{inside} of {total} cases. Times grow like e^(beta (1 - cos(2 pi / k))) for the k-gon, the dashed line; the "
        "slopes in the key are fitted to the exact medians."
    )
    shows = {
        "slopes": [rate.slope for rate in rates.values()],
        "errors": [rate.error for rate in rates.values()],
        "theory": [1 - math.cos(2 * math.pi / k) for k in sides],
        "intervals that hold the exact median": f"{inside} of {total}",
    }
    return Drawing(figures.exits(rates), caption, shows)


@entry("long-times/phases", "How long hardmax tells the truth at finite beta", FRANK_WOLFE)
def phases(
    seed: int = 0, k: int = 3, inner: float = 0.65, betas: tuple[float, ...] = (4.0, 6.0, 8.0, 12.0, 18.0, 26.0),
    gamma: float = 0.1, tol: float = 0.05, runs: int = 20,
) -> Drawing:  # fmt: skip
    """Two polygons, one in the other: layers and chain leave hardmax, arrive, depart like e^{gap beta}, collapse."""
    polygon = af.tokens.polygon(k)
    x0 = np.vstack([polygon, inner * polygon])
    found = af.measure.phases(x0, list(betas), gamma, tol=tol, runs=runs, seed=seed)
    caption = (
        f"The first steps at which {2 * k} tokens, a regular {k}-gon and {inner:g} times itself, are farther than "
        f"{tol:g} of their diameter from where hardmax has them; all are so near to the limits of hardmax (T_1); "
        "some is no more (T_2); all are so near to each other. Left the layers at finite beta, right medians of the "
        f"Markov chain with 95 per cent intervals. Departures grow like e^(gap beta), gap = {found.gap:.6g}, the "
        "dotted line. Arrivals do not grow."
    )
    shows = {"gap": found.gap, "slope of the layers": found.layers.slope, "slope of the chain": found.chain.slope}
    return Drawing(figures.phases(found), caption, shows)
