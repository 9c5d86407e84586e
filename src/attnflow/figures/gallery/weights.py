"""Weights between softmax and hardmax: how far below the top score tokens are still heard."""

from __future__ import annotations

from typing import Any

import numpy as np

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.papers import LOCALMAX
from attnflow.figures.style import log_axis, sheet, tone

ENTMAX = "Peters, Niculae, Martins, Sparse sequence-to-sequence models (arXiv 1905.05702)"
# Dashes of the curves, in the order of the laws: curves are told apart without colours too.
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (3, 1, 1, 1)), (0, (1.2, 1.2)))


def _laws(beta: float, alpha: float) -> dict[str, af.Law]:
    return {
        "softmax": af.Softmax(beta=beta),
        rf"entmax, $\alpha={alpha:g}$": af.Entmax(alpha=alpha, beta=beta),
        r"sparsemax, $\alpha=2$": af.Sparsemax(beta=beta),
        r"localmax, $\delta=1/\beta$": af.Localmax(delta=1 / beta),
    }


@entry("laws/support", "From softmax to hardmax with weights that are zero", f"{ENTMAX}; {LOCALMAX}")
def support(seed: int = 0, n: int = 200, beta: float = 4.0, alpha: float = 1.5, scores: int = 25) -> Drawing:
    """One row of weights P_ij against the score <x_i, x_j>, and the number of tokens heard over beta: four laws."""
    figure = sheet(7.0, 3.0)
    left, right = figure.subplots(1, 2)
    places = np.linspace(-1.0, 0.0, scores)[:, None]
    cloud, betas = af.tokens.gaussian(n=n, d=2, seed=seed), np.geomspace(0.1, 20.0, 17)
    shows: dict[str, Any] = {}
    for k, (name, law) in enumerate(_laws(beta, alpha).items()):
        style: dict[str, Any] = {"color": tone().palette[k], "ls": DASHES[k], "lw": 1.7, "label": name}
        row = _row(law, places)
        left.plot(places[:, 0], row, gid=f"row {k}", marker="o", ms=2.4, **style)
        heard = [float((list(_laws(b, alpha).values())[k].weights(cloud) > 0).sum(axis=1).mean()) for b in betas]
        right.plot(betas, heard, gid=f"heard {k}", **style)
        plain = law.name
        shows |= {f"{plain}: heard of {scores}": int((row > 0).sum()), f"{plain}: largest weight": float(row.max())}
        shows[f"{plain}: mean number heard"] = heard
    left.set(xlabel="score minus the top one", ylabel="weight")
    log_axis(right, "x")
    log_axis(right, "y")
    right.set(xlabel=r"$\beta$", ylabel="tokens heard, on average")
    left.legend(loc="upper left", frameon=False, fontsize=9, handlelength=2.8)
    caption = (
        f"Left: the weights of {scores} sources with equally spaced scores, at beta = {beta:g}. Softmax hears all of "
        "them. Entmax is 0 below a threshold, which for sparsemax, alpha = 2, is at most "
        f"1 / beta = {1 / beta:g} below the top score. Localmax has equal weights within that distance. Right: how "
        f"many tokens have a weight above 0, as a mean over {n} Gaussian tokens in the plane, against beta. All laws "
        "but softmax come to hear one token alone, as hardmax does."
    )
    return Drawing(figure, caption, shows)


def _row(law: af.Law, places: Array) -> Array:
    """Return the weights of a query at 1 that hears sources on a line, whose places are their scores."""
    row: Array = np.exp(law.log_weights(np.ones((1, 1)), sources=places))[0]
    return row
