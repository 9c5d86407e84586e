"""Figures of attention with noise."""

from __future__ import annotations

import numpy as np

import attnflow as af
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.papers import SPHERE
from attnflow.figures.style import colours, sheet, tone

# The straight lines end where the linear growth they show is over.
LINEAR = 0.4


@entry("noise/order", "Noise that order overcomes, and noise that it does not", SPHERE)
def order(
    seed: int = 0, n: int = 500, beta: float = 1.0, until: float = 30.0, dt: float = 0.05, ratios: str = "0.5 0.9 1.5 3"
) -> Drawing:
    """The order parameter |sum_i x_i| / n of noisy tokens on the circle over time, below and above the threshold."""
    from scipy.special import iv

    threshold, figure = float(beta / iv(1, beta)), sheet(5.6, 3.6)
    ax, shows = figure.subplots(), {}
    x0, given = af.tokens.sphere(n=n, d=2, seed=seed), [float(word) for word in ratios.split()]
    for colour, ratio in zip(colours(range(len(given))), given, strict=True):
        kappa = ratio * threshold
        motion = af.Noisy(af.SphereFlow(normalized=False), kappa=kappa, dt=dt)
        run = af.simulate(x0, af.Softmax(beta=beta), motion, until=until, seed=seed)
        length = np.linalg.norm(run.tokens.mean(axis=1), axis=1)
        ax.semilogy(run.times, length, color=colour, lw=1.4, label=rf"${ratio:g}\,\kappa_\#$", gid=f"order-{ratio:g}")
        shows[f"{ratio:g}"] = float(length[len(length) // 2 :].mean())
        rate = 1 / threshold - 1 / kappa
        if rate > 0:
            # From the size that sampling gives to n uniform tokens.
            last = min(until, np.log(LINEAR * np.sqrt(n)) / rate)
            t = np.array([0.0, last])
            ax.semilogy(t, np.exp(rate * t) / np.sqrt(n), color=colour, lw=1.0, ls=(0, (4, 3)), gid=f"rate-{ratio:g}")
    ax.axhline(1 / np.sqrt(n), color=tone().quiet, lw=0.8, zorder=0)
    ax.set(xlabel="time", ylabel=r"$|\frac{1}{n}\sum_i x_i|$", ylim=(6e-3, 1.5), xlim=(0, until))
    ax.legend(title=r"$\kappa$", loc="center right", bbox_to_anchor=(1.0, 0.69), fontsize=9, ncols=2)
    caption = (
        f"{n} tokens on the circle under the unnormalised flow at beta = {beta:g} with noise sqrt(2 / kappa) dW, from "
        "a uniform start: the length of their mean. The uniform law loses its stability at kappa# = beta / I_1(beta) = "
        f"{threshold:.3f}. Below it the length stays at about n^(-1/2) (grey), that of independent tokens; above it "
        "order grows, first at the rate I_1(beta) / beta - 1 / kappa (dashed)."
    )
    return Drawing(figure, caption, shows)
