"""Figures of many tokens: their mean-field limit, and a crowd in the plane."""

from __future__ import annotations

from functools import partial

import attnflow as af
from attnflow import figures
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.papers import EMERGENCE
from attnflow.figures.places import places


@entry("many-tokens/mean-field", "The mean-field limit of a million tokens", EMERGENCE)
def mean_field(
    seed: int = 0, n: int = 1_000_000, beta: float = 1.0, dt: float = 0.1, steps: tuple[int, ...] = (0, 10, 20, 30),
    sizes: tuple[int, ...] = (32, 64, 128, 256, 512), reference: int = 100_000, runs: int = 12,
) -> Drawing:  # fmt: skip
    """Layers x + dt m in their moving frame, from a square: densities, and W_2 of few to many: (log n / n)^{1/2}."""
    square, law, motion = partial(af.tokens.uniform, d=2), af.Softmax(beta=beta), af.RescaledLayers(dt=dt)
    crowd = af.simulate(square(n=n, seed=seed), law, motion, until=steps[-1], record=list(steps[1:])).tokens
    found = af.measure.mean_field(
        square, law, motion, steps, sizes=sizes, reference=reference, runs=runs, seed=seed + 1
    )
    # By the last step the middle of the square is empty.
    gap = [t == steps[-1] for t in steps]
    rates = found.rates(gap=gap)
    predicted = [rate.predicted if rate.corrected is None else rate.corrected for rate in rates]
    off = [t for t, rate, slope in zip(steps, rates, predicted, strict=True) if abs(rate.exponent - slope) > rate.error]
    caption = (
        f"Right: the densities of {n} tokens, uniform in a square at the start, after {', '.join(map(str, steps))} "
        f"layers x + {dt:g} m of softmax attention with beta = {beta:g}, in the frame that grows with them. Left: "
        f"how far n tokens that move by themselves are from {reference} that do, in the Wasserstein distance W_2; "
        f"means of {runs} clouds, bars twice the standard error plus what is not known of each distance. Dashed is "
        "the rate at which samples approach their law, ((c log n + c')/n)^(1/2) with the known c, and n^(-1/4) at "
        "the last step, when hardly a token is left between the clusters. Steps at which the fitted slope is off "
        f"the predicted one by more than its error: {', '.join(map(str, off)) or 'none'}."
    )
    shows = {
        "slopes": [rate.exponent for rate in rates],
        "errors": [rate.error for rate in rates],
        "predicted": predicted,
        "off by more than the error": off,
    }
    return Drawing(figures.mean_field(found, gap=gap, many=crowd), caption, shows)


@entry("many-tokens/plane", "Two hundred thousand tokens in the plane", EMERGENCE)
def plane(seed: int = 0, n: int = 200_000, beta: float = 4.0, gamma: float = 0.2, steps: int = 18) -> Drawing:
    """A crowd on its way to few places, under softmax layers x_i <- x_i + gamma (m_i - x_i)."""
    x0 = af.tokens.gaussian(n=n, d=2, seed=seed)
    run = af.simulate(x0, af.Softmax(beta=beta), af.Layers(gamma=gamma), until=steps)
    ax = run.plot()
    low, high = run.tokens.min(axis=(0, 1)), run.tokens.max(axis=(0, 1))
    found = places(run.final, low, high)
    share = found.counts / n
    caption = (
        f"{n} Gaussian tokens after {steps} softmax layers with beta = {beta:g} and gamma = {gamma:g}: how many are "
        "in each cell, on a logarithmic scale. A ring marks a place that holds a hundredth of the tokens or more, "
        f"its area says how many; there are {len(share)}, with {share.sum():.0%} of all tokens. Thin lines are the "
        "ways of some of the tokens, the dashed line is the hull of the start."
    )
    return Drawing(ax.figure, caption, {"places": found.points, "shares": share})
