"""Figures of densities: their phase diagram, how many clusters appear, and how fast the solver converges."""

from __future__ import annotations

import numpy as np

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.figures.densities import draw_branches, draw_diagram
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.papers import MEAN_FIELD, NOISE, SPHERE
from attnflow.figures.style import DASHED, colours, sheet, tone


@entry("densities/transitions", "Where noisy tokens cluster, and whether by a jump", NOISE)
def transitions(betas: int = 56, ratios: int = 90, d: int = 2) -> Drawing:
    """The order parameter |int x f| of least free energy over (beta, kappa / kappa#), and branches at five beta."""
    found = af.densities.diagram(np.linspace(0.5, 6.0, betas), np.linspace(0.84, 1.2, ratios), d=d)
    shown = [af.MeanField(beta, d=d, normalized=False).branch() for beta in (1.0, 2.0, 3.0, 4.0, 6.0)]
    figure = sheet(9.0, 4.2)
    left, right = figure.subplots(1, 2, width_ratios=[1.15, 1.0])
    draw_diagram(left, found)
    draw_branches(right, shown)
    right.set_xlim(0.84, 1.2)
    right.legend(loc="lower right")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    jump = shown[2]
    caption = (
        f"Noisy unnormalised self-attention on the unit sphere of R^{d}, infinitely many tokens. Left: the order "
        "parameter of the density with the least free energy, over beta and kappa in parts of kappa#, where the "
        f"uniform density loses its stability. Up to beta_* = {found.critical:.6f} it grows continuously from 0; "
        "beyond, it jumps before kappa# is reached. Between the fold and kappa# clusters and the uniform density are "
        "both stable. Right: stationary densities with one cluster, stable (solid) or not (dashed); rings are "
        "folds, points are transitions. "
        f"At beta = 3 the transition is at {jump.crossings[0].kappa / jump.start:.4f} kappa#, the fold at "
        f"{jump.folds[0].kappa / jump.start:.4f} kappa#."
    )
    shows = {"beta_*": found.critical, "transition at beta 3": jump.crossings[0].kappa / jump.start}
    return Drawing(figure, caption, shows)


@entry("densities/clusters", "How many clusters appear from a nearly uniform density", MEAN_FIELD)
def clusters(seed: int = 0, betas: tuple[float, ...] = (0.6, 2.0, 5.0, 25.0), size: float = 1e-8) -> Drawing:
    """The wave argmax_k k^2 I_k(beta) that grows fastest, against beta and sqrt(2 beta), and densities that grew."""
    figure = sheet(9.0, 4.0)
    grid = figure.add_gridspec(len(betas), 2, width_ratios=[1.1, 1.0])
    left = figure.add_subplot(grid[:, 0])
    fine = np.geomspace(0.3, 100, 800)
    left.plot(fine, [af.MeanField(beta).fastest for beta in fine.tolist()], color=tone().ink, lw=1.6, gid="kmax")
    left.plot(fine, np.sqrt(2 * fine), color=tone().quiet, ls=DASHED, lw=1.2, label=r"$\sqrt{2\beta}$")
    left.set(xscale="log", xlabel=r"$\beta$", ylabel=r"$k_{\max} = \arg\max_k\, k^2 I_k(\beta)$", ylim=(0, None))
    left.set_xticks([0.3, 1, 3, 10, 30, 100], ["0.3", "1", "3", "10", "30", "100"])
    left.minorticks_off()
    left.legend(loc="upper left")
    counts = []
    for row, (beta, colour) in enumerate(zip(betas, colours(range(len(betas))), strict=True)):
        ax = figure.add_subplot(grid[row, 1])
        f = _grown(beta, size, seed)
        theta = np.linspace(-np.pi, np.pi, len(f))
        counts.append(int(((f > np.roll(f, 1)) & (f > np.roll(f, -1)) & (f > 1)).sum()))
        ax.fill_between(theta, f, color=colour, alpha=0.25, lw=0)
        ax.plot(theta, f, color=colour, lw=1.4)
        ax.set(xlim=(-np.pi, np.pi), ylim=(0, 3.4), yticks=[0, 1, 2, 3])
        ax.set_xticks([-np.pi, 0, np.pi], [r"$-\pi$", "0", r"$\pi$"] if row == len(betas) - 1 else [])
        ax.set_title(rf"$\beta = {beta:g}$, $k_{{\max}} = {af.MeanField(beta).fastest}$", fontsize=10)
        left.plot(beta, af.MeanField(beta).fastest, "o", color=colour, ms=6, zorder=3)
    ax.set(xlabel=r"angle $\theta$")
    figure.axes[1 + len(betas) // 2].set_ylabel("density $f$")
    caption = (
        "Left: the degree of the wave that grows fastest on the uniform density on the circle, which switches from 1 "
        "to 2 at beta = 1.044457 and from 2 to 3 at 3.165434, and is about sqrt(2 beta) for large beta (dashed). "
        f"Right: densities under SA from 1 + 16 random waves of size {size:g} in all, when their maximum passes 3: "
        f"{', '.join(map(str, counts))} maxima above 1, for beta = {', '.join(f'{b:g}' for b in betas)}."
    )
    return Drawing(figure, caption, {"maxima": counts, "kmax": [af.MeanField(beta).fastest for beta in betas]})


def _grown(beta: float, size: float, seed: int) -> Array:
    """Return a density under SA at the first step at which its maximum passes 3, at equidistant angles."""
    theta, k = np.linspace(-np.pi, np.pi, 720, endpoint=False), np.arange(1, 17)
    phases = np.random.default_rng(seed).uniform(0, 2 * np.pi, len(k))
    model = af.MeanField(beta)

    def start(x: Array) -> Array:
        return np.asarray(1 + size * np.cos(np.outer(x, k) - phases).mean(axis=1))

    run = model.solve(start, 2 * np.log(1 / size) / float(model.rates(64).max()), rtol=1e-8)
    grown = (f for f in map(run.final.__class__.at, run.densities, [theta] * len(run)) if f.max() > 3)
    return next(grown, run.final.at(theta))


@entry("densities/convergence", "Errors of densities fall geometrically with the number of modes", SPHERE)
def convergence(until: float = 0.5, sharpness: float = 4.0) -> Drawing:
    """The error of |int x f| at a time against the number K of modes, for three beta, with noise and without."""
    figure = sheet(5.6, 3.8)
    ax = figure.add_subplot()
    cases: list[tuple[float, float | None, int]] = [(4.0, 20.0, 2), (9.0, None, 2), (4.0, 20.0, 3)]
    last = {}
    for (beta, kappa, d), colour in zip(cases, colours(range(len(cases))), strict=True):
        model = af.MeanField(beta, kappa, d)
        start = af.densities.Density.of(
            (lambda x: np.exp(sharpness * np.cos(x))) if d == 2 else (lambda s: np.exp(sharpness * s)), d
        )
        exact = model.solve(start, until, rtol=1e-10, modes=64).order[-1]
        modes = np.arange(2, 24, 3)
        errors = np.array([abs(model.solve(start, until, rtol=1e-10, modes=int(K)).order[-1] - exact) for K in modes])
        seen = errors > 1e-11
        noise = "no noise" if kappa is None else rf"$\kappa = {kappa:g}$"
        label = rf"$d = {d}$, $\beta = {beta:g}$, {noise}"
        ax.plot(modes[seen], errors[seen], "o-", color=colour, ms=3.5, lw=1.2, label=label)
        last[f"beta {beta:g}, d {d}"] = float(errors[-1])
    ax.set(yscale="log", xlabel="modes $K$", ylabel="error of the order parameter")
    ax.legend(loc="upper right")
    caption = (
        f"The error of the order parameter |int x f| of SA at t = {until:g}, against the number K of Fourier or "
        f"Gegenbauer modes, from a density like e^({sharpness:g} s), s the cosine with the pole; the reference has 64 "
        "modes, and errors below 1e-11, the tolerance in time, are left out. Errors fall geometrically. `solve` "
        "doubles K by itself when the upper third of the modes is not negligible."
    )
    return Drawing(figure, caption, last)
