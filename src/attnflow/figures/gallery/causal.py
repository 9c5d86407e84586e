"""Figures of causal attention on the sphere."""

from __future__ import annotations

from typing import Any

import numpy as np

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.papers import CAUSAL
from attnflow.figures.style import colours, log_axis, sheet, tone

# Angles on the vertical axis, and moments on the logarithmic time axis.
QUARTERS = {-np.pi: r"$-\pi$", -np.pi / 2: r"$-\pi/2$", 0.0: "0", np.pi / 2: r"$\pi/2$", np.pi: r"$\pi$"}
MOMENTS, FIRST = 240, 0.05
# A centre that has moved by less than this part of delta has stayed.
STAYED = 0.1


@entry("causal/centres", "Centres that stay, and what they capture", CAUSAL)
def centres(
    seed: int = 0, few: int = 32, cold: float = 9.0, late: float = 5000.0, many: int = 200, colder: float = 64.0
) -> Drawing:
    """Angles of causal tokens, which hear j <= k, over time, and centres that are 4 / sqrt(beta) from all others."""
    figure, shows = sheet(7.0, 3.2), {}
    panels = ((few, cold, late), (many, colder, late / 10))
    for ax, (n, beta, until) in zip(figure.subplots(1, 2, sharey=True), panels, strict=True):
        x0, delta = af.tokens.sphere(n=n, d=2, seed=seed), 4 / np.sqrt(beta)
        times = [0.0, *np.geomspace(FIRST, until, MOMENTS)]
        law = af.Masked(af.Softmax(beta=beta), causal=True)
        run = af.simulate(x0, law, af.SphereFlow(rtol=1e-6), until=until, record=times)
        angles = np.arctan2(run.tokens[..., 1], run.tokens[..., 0])
        strong, renyi = _centres(x0, delta)
        _draw(ax, np.maximum(run.times, FIRST), angles, strong, renyi)
        ax.set_title(rf"{n} tokens, $\beta = {beta:g}$, $\delta = {delta:.2g}$", fontsize=11)
        moved = np.arccos(np.clip((run.final * x0).sum(axis=1), -1, 1))
        shows[f"{n} tokens"] = {
            "strong centres": len(strong), "of which stayed": int((moved[strong] < STAYED * delta).sum()),
            "Renyi centres": len(renyi), "clusters at the end": len(af.measure.clusters(run.final, delta / 10).sizes),
        }  # fmt: skip
    figure.axes[0].set_ylabel("angle")
    figure.axes[0].set_yticks(list(QUARTERS), list(QUARTERS.values()))
    figure.legend(*figure.axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=9)
    told = "; ".join(
        f"of {name}, {found['of which stayed']} of {found['strong centres']} strong centres have stayed within "
        f"{STAYED:g} delta, and {found['clusters at the end']} clusters are left"
        for name, found in shows.items()
    )
    caption = (
        "Causal attention on the circle over time: token k hears itself and those before it. A strong centre is "
        "farther than delta = 4 / sqrt(beta) from all earlier tokens, a Renyi centre from all earlier Renyi centres. "
        f"The first token never moves; {told}."
    )
    return Drawing(figure, caption, shows)


def _centres(x: Array, delta: float) -> tuple[list[int], list[int]]:
    """Return the strong centres and the Renyi centres, in their order."""
    apart = np.arccos(np.clip(x @ x.T, -1, 1)) > delta
    strong = [k for k in range(len(x)) if apart[k, :k].all()]
    renyi: list[int] = []
    for k in range(len(x)):
        if apart[k, renyi].all():
            renyi.append(k)
    return strong, renyi


def _draw(ax: Any, times: Array, angles: Array, strong: list[int], renyi: list[int]) -> None:
    """Draw the angle of each token over time, centres on top."""
    # A line is broken where the angle jumps from pi to -pi.
    broken = np.where(np.abs(np.diff(angles, axis=0, prepend=angles[:1])) > np.pi, np.nan, angles)
    others = [k for k in range(angles.shape[1]) if k not in renyi]
    first, second = colours(range(2))
    ax.plot(times, broken[:, others], color=tone().pencil, linewidth=0.5, gid="tokens")
    only = [k for k in renyi if k not in strong]
    for chosen, colour, style, name in ((only, second, "--", "Renyi centres"), (strong, first, "-", "strong centres")):
        lines = ax.plot(times, broken[:, chosen], style, color=colour, linewidth=1.4, gid=name)
        if lines:
            lines[0].set_label(name)
    log_axis(ax, "x")
    ax.set_xlim(times[0], times[-1])
    ax.set_ylim(-np.pi, np.pi)
    ax.set_xlabel("time")
