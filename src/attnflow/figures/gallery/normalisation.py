"""Figures of normalisation: how fast directions align under each way to keep the norm."""

from __future__ import annotations

import numpy as np

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.papers import NORM
from attnflow.figures.style import log_axis, sheet, tone
from attnflow.motions.normalisation import SCHEMES

TITLES = {"post": "Post-LN", "pre": "Pre-LN", "peri": "Peri-LN", "ngpt": "nGPT", "cod": "CoD", "mix": "Mix-LN"}


@entry("norm/mean-cosine", "How fast tokens align under each normalisation", NORM)
def mean_cosine(
    seed: int = 0, draws: int = 32, n: int = 32, d: int = 32, layers: int = 200, dt: float = 0.25, tau: float = 8.0
) -> Drawing:
    """Layers with random weights, new ones in each layer: the mean of <theta_i, theta_j> over pairs, and its spread."""
    found = {norm: np.empty((draws, layers + 1)) for norm in SCHEMES}
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw])
        Q, K, V = rng.standard_normal((3, layers, d, d))
        law = af.Softmax(B=np.swapaxes(K, 1, 2) @ Q / np.sqrt(d))
        x0 = rng.standard_normal((n, d))
        x0 /= np.linalg.norm(x0, axis=1, keepdims=True)
        for norm, values in found.items():
            motion = af.SphereLayers(V=V / np.sqrt(d), dt=dt, norm=norm, tau=tau if norm == "mix" else 1.0)
            values[draw] = _cosines(af.simulate(x0, law, motion, until=layers).tokens)
    figure = sheet(7.4, 4.6)
    axes = figure.subplots(2, 3, sharex=True, sharey=True)
    depth, medians = np.arange(1, layers + 1), {norm: np.median(values, axis=0) for norm, values in found.items()}
    for ax, norm, colour in zip(axes.flat, SCHEMES, tone().palette, strict=False):
        for other in SCHEMES:
            ax.plot(depth, medians[other][1:], color=tone().wire, lw=0.9, zorder=1)
        low, high = np.quantile(found[norm], [0.05, 0.95], axis=0)
        ax.fill_between(depth, low[1:], high[1:], color=colour, alpha=0.25, lw=0, zorder=2, gid=f"band {norm}")
        ax.plot(depth, medians[norm][1:], color=colour, lw=1.8, zorder=3, gid=f"median {norm}")
        ax.set_title(TITLES[norm], fontsize=11)
        log_axis(ax, "x")
        ax.set(xlim=(1, layers), ylim=(min(-0.03, low.min()), 1.02))
    figure.supxlabel("layer", fontsize=11)
    figure.supylabel(r"mean of $\langle \theta_i, \theta_j\rangle$ over pairs", fontsize=11)
    ends = {norm: float(values[-1]) for norm, values in medians.items()}
    caption = (
        f"The mean cosine of pairs of {n} tokens in dimension {d} after each of {layers} layers with random weights: "
        "Q, K and V are drawn anew for each layer, with independent normal entries of variance 1, 1 and 1/d, and "
        "scores are <Q x, K y> / sqrt(d). "
        f"Lines are medians of {draws} draws, bands hold 90 per cent of them; each panel has the medians of the others "
        f"in grey. Steps have length {dt:g}; Mix-LN turns from Post-LN to Pre-LN after {tau / dt:g} layers. All "
        "schemes see the same weights and starts."
    )
    return Drawing(figure, caption, {"medians after the last layer": [ends[norm] for norm in SCHEMES]})


def _cosines(tokens: Array) -> Array:
    """Return the mean of <x_i, x_j> over i != j of each state."""
    n = tokens.shape[1]
    total = tokens.sum(axis=1)
    return np.asarray(((total * total).sum(axis=1) - n) / (n * (n - 1)))
