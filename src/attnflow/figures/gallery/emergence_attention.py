"""Figures of attention under the flow x_i' = V sum_j P_ij x_j: leaders, rank, and the Boolean limit on the line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.gallery.emergence import basis, leading
from attnflow.figures.groups import counted
from attnflow.figures.marks import LEADER, hollow, key, star
from attnflow.figures.papers import EMERGENCE
from attnflow.figures.stage import lines
from attnflow.figures.style import DASHED, beside, colours, figure_of, log_axis, ramp, sheet, tone

if TYPE_CHECKING:
    from attnflow.runs.trajectory import Trajectory

# Beyond this many units of 1 / lambda_1 the leaders of tokens that are nearly tied are rounding noise.
LAST = 28.0
# A rank is the number of singular values above this part of the largest.
RANK = 1e-8
# Singular values below this part of the largest are rounding.
LEAST = 1e-17
# In dimension 80 tokens uniform in [-1, 1]^d would hear only themselves for long; these hear everybody at first.
SIZE = 0.32
TOKEN, QUERY = "token $x_j$", "query $Bx_i$"
# The faintest line that is still seen, and the weights whose lines the key shows.
FAINTEST, SHOWN_WEIGHTS = 0.03, (1.0, 0.1, 0.01)


def square(d: int, rng: np.random.Generator, scale: float = 1.0) -> Array:
    """Return M M^T, the entries of M (d, d) uniform in [-scale, scale]."""
    M = rng.uniform(-scale, scale, (d, d))
    return M @ M.T


@entry("emergence/leaders", "Few tokens become leaders", EMERGENCE)
def leaders(seed: int = 11, n: int = 20, until: float = 10.0, threshold: float = 1e-4) -> Drawing:
    """Who hears whom: lines between B x_i and x_j where P_ij > threshold, as strong as P_ij, at three times."""
    rng = np.random.default_rng(seed)
    V, B = square(2, rng), square(2, rng)
    x0 = rng.uniform(-1, 1, (n, 2))
    until = min(until, LAST / float(np.linalg.eigvalsh(V).max()))
    times = [0.0, 0.2 * until, until]
    law = af.Softmax(B=B)
    run = af.simulate(x0, law, af.RescaledFlow(V=V), until=until, record=times)
    ends = af.measure.leaders(law, run.seen(), until)
    figure = sheet(7.0, 3.05)
    grid = figure.add_gridspec(1, 3)
    counts, edges = [], []
    for k, t in enumerate(times):
        found = af.measure.leaders(law, run.seen(k), t)
        heard = af.measure.influence(law, run.seen(k), t, threshold)
        counts.append(len(found.distinct))
        edges.append(len(heard))
        ax = figure.add_subplot(grid[k])
        weights = law.weights(run.seen(k), t)[tuple(heard.T)]
        pairs = (heard, strengths(weights))
        _who_hears_whom(ax, run.seen(k), B, pairs, found.distinct, np.searchsorted(ends.distinct, ends.index))
        ax.set_title(f"$t = {t:.3g}$")
        ax.set_xlabel(f"{counted(counts[-1], 'leader')}, {counted(edges[-1], 'line')}")
    _named_in_ink(ax)
    key(figure)
    caption = (
        f"{n} tokens, uniform in [-1, 1]^2, under the flow with V and B = K^T Q of the form M M^T, M uniform in [-1, "
        f"1]. A line joins B x_i and x_j where P_ij > {threshold:g}, the stronger the larger P_ij is (opacity and "
        "width grow with its square root); all are divided by the largest norm at each time, coloured by whom they "
        f"hear most at the end, and starred where some token hears them most: {counts[0]} at first, {counts[-1]} at "
        f"t = {until:.3g}."
    )
    return Drawing(figure, caption, {"times": times, "leaders": counts, "lines": edges, "V": V, "B": B})


def _named_in_ink(ax: Any) -> None:
    """Name tokens, queries and lines of some weights for the key, which shows them in ink, whatever their colours."""
    ink: dict[str, Any] = {"color": tone().ink, "ls": ""}
    ax.plot([], [], marker="o", ms=5, label=TOKEN, **ink)
    ax.plot([], [], marker="s", ms=3.6, mfc=tone().paper, mew=0.8, label=QUERY, **ink)
    for weight in SHOWN_WEIGHTS:
        strong = float(strengths(np.array(weight)))
        ax.plot([], [], color=(tone().ink, strong), lw=_width(strong), label=f"$P_{{ij}} = {weight:g}$")


def strengths(weights: Array) -> Array:
    """Return how opaque the lines of weights P_ij are: sqrt(P_ij), but seen.

    >>> strengths(np.array([1.0, 0.25, 1e-6])).tolist()
    [1.0, 0.5, 0.03]
    """
    found: Array = np.sqrt(weights).clip(FAINTEST, 1.0)
    return found


def _width(strength: Any) -> Any:
    """Return the width of a line of given strength, in points."""
    return 0.4 + 0.9 * strength


def _who_hears_whom(
    ax: Any,
    x: Array,
    B: Array,
    pairs: tuple[NDArray[np.int64], Array],
    stars: NDArray[np.int64],
    labels: NDArray[np.int64],
) -> None:
    """Draw tokens x_j as dots, queries B x_i as squares, and a line from each query to all tokens it hears.

    `pairs` are the tokens (m, 2) that lines join, and the strengths (m,) of these.
    """
    from matplotlib.colors import to_rgba_array

    heard, strong = pairs
    size = float(np.linalg.norm(np.vstack([x, x @ B.T]), axis=1).max())
    x, asks = x / size, x @ B.T / size
    inks = np.array(colours(labels))
    ends = np.stack([asks[heard[:, 0]], x[heard[:, 1]]], axis=1)
    rgba = to_rgba_array(inks[heard[:, 0]])
    rgba[:, 3] = strong
    lines(ax, ends, colors=rgba, linewidths=_width(strong), gid="lines")
    hollow(ax, asks, 12, marker="s", edgecolors=inks, linewidths=0.8, zorder=3, gid="queries")
    dot: dict[str, Any] = {"edgecolors": tone().paper, "linewidths": 0.4, "zorder": 4}
    ax.scatter(*x.T, s=20, c=inks, gid="tokens", **dot)
    # The dot of a leader is seen around its star.
    ax.scatter(*x[stars].T, s=90, c=inks[stars], **dot)
    star(ax, x[stars], zorder=5, gid="leaders", label=LEADER)
    ax.plot(0, 0, marker="+", ms=6, color=tone().ink, mew=0.9, zorder=6)
    ax.set(xlim=(-1.08, 1.08), ylim=(-1.08, 1.08), aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(True)


@entry("emergence/low-rank", "Attention becomes a matrix of low rank", EMERGENCE)
def low_rank(
    seed: int = 0, n: int = 40, d: int = 80, size: float = SIZE, until: float = 11.0,
    moments: tuple[float, ...] = (0.0, 2.0, 4.0, 7.0, 11.0),
) -> Drawing:  # fmt: skip
    """Attention matrices P(t) at several times over their singular values sigma_k / sigma_1."""
    run = _high(seed, (n, d), size, until, moments)
    assert run.law is not None
    matrices = [run.law.weights(run.seen(k), float(t)) for k, t in enumerate(run.times)]
    found = [af.measure.rank(P, RANK) for P in matrices]
    ends = matrices[-1].argmax(axis=1)
    # Tokens that hear the same leader stand together.
    order = np.lexsort((np.arange(n), ends))
    figure = sheet(7.0, 3.9)
    parts: Any = figure.subfigures(2, 1, height_ratios=(1.0, 1.25))
    top, bottom = parts
    panels = top.subplots(1, len(moments))
    for ax, P, t, r in zip(panels, matrices, moments, found, strict=True):
        image = heat(ax, P[np.ix_(order, order)])
        ax.set_title(f"$t = {t:g}$", fontsize=11)
        ax.set_xlabel(f"rank {r.value}")
    scale(top, image, list(panels))
    _spectra(bottom.subplots(), [r.singular_values for r in found], moments)
    caption = (
        f"Attention matrices of {n} tokens, uniform in [-{size:g}, {size:g}]^{d}, under the flow with Q = K = I and V "
        f"= M M^T / {d}, M uniform in [-1, 1], and below their singular values. The rank at each time is the number of "
        f"singular values above {RANK:g} of the largest: {', '.join(str(r.value) for r in found)}. Tokens are in the "
        "order of their leaders at the end."
    )
    shows = {"ranks": [r.value for r in found], "tolerance": RANK, "leaders": len(np.unique(ends))}
    return Drawing(figure, caption, shows)


def _high(seed: int, shape: tuple[int, int], size: float, until: float, record: Sequence[float] | Array) -> Trajectory:
    """Run the flow in a high dimension with V = M M^T / d, whose eigenvalues lie between 0 and about 4/3."""
    rng = np.random.default_rng(seed)
    V = square(shape[1], rng, scale=shape[1] ** -0.5)
    x0 = rng.uniform(-size, size, shape)
    return af.simulate(x0, af.Softmax(), af.RescaledFlow(V=V, rtol=1e-7), until=until, record=list(record))


def heat(ax: Any, P: Array) -> Any:
    """Draw a matrix of weights, from 0 (paper) to 1 (dark)."""
    image = ax.imshow(P, cmap=ramp(), vmin=0.0, vmax=1.0, interpolation="nearest", rasterized=True)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(True)
    return image


def scale(figure: Any, image: Any, panels: list[Any]) -> None:
    """Put the scale of the weights beside some panels."""
    bar = figure.colorbar(image, ax=panels, fraction=0.05, pad=0.01, aspect=14, ticks=[0, 0.5, 1])
    bar.outline.set_visible(False)
    bar.ax.set_title("$P_{ij}$", fontsize=10.5)


def _spectra(ax: Any, spectra: Sequence[Array], moments: Sequence[float]) -> None:
    """Draw singular values in decreasing order, the later the darker, and the tolerance that the rank is read at."""
    # What is paler would not be seen as a thin line.
    inks = ramp()(np.linspace(0.45, 1.0, len(spectra)))
    for values, t, ink, marker in zip(spectra, moments, inks, "osD^v", strict=False):
        count, style = 1 + np.arange(len(values)), {"marker": marker, "ms": 3.2, "lw": 0.9}
        ax.plot(count, values / values[0], color=ink, label=f"$t = {t:g}$", **style)
    ax.axhline(RANK, color=tone().ink, lw=0.9, ls=DASHED, gid="tolerance")
    ax.set(ylim=(LEAST, 3), xlim=(0, len(spectra[0]) + 1), xlabel="number $k$")
    ax.set_ylabel(r"$\sigma_k(P)\,/\,\sigma_1(P)$")
    log_axis(ax, "y")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


@entry("emergence/coordinates", "Some coordinates cluster, others diverge", EMERGENCE)
def coordinates(seed: int = 0, n: int = 128, d: int = 128, until: float = 15.0, density: float = 0.03) -> Drawing:
    """Mean and standard deviation of the coordinates <z_i, phi_k>, phi_k the eigenvectors of a sparse symmetric V."""
    from matplotlib.ticker import SymmetricalLogLocator

    rng = np.random.default_rng(seed)
    V = _sparse(d, density, rng)
    values, vectors = basis(V)
    x0 = rng.standard_normal((n, d)) / d**0.5
    run = af.simulate(x0, af.Softmax(), af.RescaledFlow(V=V), until=until, record=[0.0, until])
    first, last = run.tokens[0] @ vectors, run.tokens[-1] @ vectors
    spread = last.std(axis=0) / first.std(axis=0)
    clustered, diverging = int((spread < 0.5).sum()), int((spread > 2).sum())
    figure = sheet(7.0, 3.7)
    left, right = figure.subplots(1, 2)
    signs = {r"$\lambda_k > 0$": values > 0, r"$\lambda_k \leq 0$": values <= 0}
    for side, (name, part) in enumerate(signs.items()):
        mark: dict[str, Any] = {"color": tone().palette[1 - side], "marker": "^o"[side], "ms": 3, "ls": ""}
        _bars(left, values[part], last[:, part], mark["color"])
        left.plot(values[part], last.mean(axis=0)[part], **mark, gid="mean")
        right.plot(values[part], spread[part], **mark, gid="spread", label=name)
    left.set_yscale("symlog", linthresh=1.0)
    left.yaxis.set_major_locator(SymmetricalLogLocator(base=100, linthresh=1.0))
    left.yaxis.set_major_formatter(figure_of)
    grid = np.array([values[0], values[-1]])
    style = {"color": tone().ink, "lw": 0.9, "ls": DASHED, "zorder": 1, "gid": "guide"}
    right.plot(grid, np.exp(-until * grid), **style, label=r"$e^{-t\lambda}$")
    log_axis(right, "y")
    left.set(title=f"coordinates at $t = {until:g}$", ylabel=r"coordinate $\langle z_i, \varphi_k\rangle$")
    right.set(title="growth of the standard deviation", ylabel=f"at $t = {until:g}$, in parts of that at $t = 0$")
    for ax in (left, right):
        ax.set_xlabel(r"eigenvalue $\lambda_k$ of $V$")
    _coordinates_key(figure, right)
    slope = float(np.polyfit(values[values < 0], np.log(spread[values < 0]), 1)[0])
    caption = (
        f"{n} tokens, normal with variance 1 / {d}, under the flow with Q = K = I and V sparse and symmetric, its "
        f"largest eigenvalue 1, in the frame z = e^(-tV) x at t = {until:g}: coordinates along the eigenvectors of V "
        f"against their eigenvalues, triangles where these are positive. {clustered} of them have lost more than half "
        f"of their standard deviation, {diverging} have more than doubled it, on the right against e^(-t lambda) "
        f"(dashed); the logarithm falls by {-slope:.2f} per unit of a negative eigenvalue."
    )
    shows = {"clustered": clustered, "diverging": diverging, "positive": int((values > 0).sum()), "slope": slope}
    return Drawing(figure, caption, shows)


def _bars(ax: Any, values: Array, coordinates: Array, colour: str) -> None:
    """Draw the mean and the standard deviation of coordinates (n, k) over n tokens as bars at k eigenvalues."""
    means, deviations = coordinates.mean(axis=0), coordinates.std(axis=0)
    ax.vlines(values, means - deviations, means + deviations, color=colour, lw=0.8, gid="deviation")


def _coordinates_key(figure: Any, ax: Any) -> None:
    """Name the marks of both panels below them: those of one, and the bar of a mean with its standard deviation."""
    from matplotlib.lines import Line2D

    marks, names = ax.get_legend_handles_labels()
    # A vertical bar through a mean; marks of both kinds have one.
    bar = Line2D([], [], ls="", color=tone().ink, marker="|", ms=11, mew=0.8)
    style = {"fontsize": 9.5, "handletextpad": 0.4, "labelcolor": tone().quiet}
    handles, texts = [*marks, bar], [*names, r"mean $\pm$ standard deviation"]
    figure.legend(handles, texts, loc="outside lower center", ncols=len(texts), **style)


def _sparse(d: int, density: float, rng: np.random.Generator) -> Array:
    """Return a symmetric matrix with a part `density` of its entries not 0, and largest eigenvalue 1."""
    upper = np.triu(rng.standard_normal((d, d)) * (rng.random((d, d)) < density))
    V = upper + np.triu(upper, 1).T
    return V / float(np.linalg.eigvalsh(V).max())


@entry("emergence/one-dimension", "On the line attention becomes Boolean", EMERGENCE)
def one_dimension(seed: int = 0, n: int = 12, until: float = 8.0) -> Drawing:
    """Trajectories z_i(t) = e^{-t} x_i(t) on the line, and attention P at the start and in the limit."""
    x0 = np.sort(af.tokens.uniform(n=n, d=1, seed=seed, low=-1, high=1), axis=0)[::-1]
    run = af.simulate(x0, af.Softmax(), af.RescaledFlow(), until=until)
    assert run.law is not None
    begin, end = (run.law.weights(run.seen(k), float(run.times[k])) for k in (0, -1))
    ranks = [af.measure.rank(P, RANK).value for P in (begin, end)]
    found = af.measure.leaders(run.law, run.seen(), until)
    labels = np.searchsorted(found.distinct, found.index)
    figure = sheet(7.0, 2.7)
    left, *panels = figure.subplots(1, 3, width_ratios=(1.2, 1.0, 1.0))
    inks = colours(labels)
    for i, ink in enumerate(inks):
        left.plot(run.times, run.tokens[:, i, 0], color=ink, lw=1.0, gid="trajectory")
        left.plot(0, x0[i, 0], marker="o", ms=3.6, mfc=tone().paper, mec=ink, clip_on=False, zorder=4)
    star(left, np.column_stack([np.full(len(found.distinct), until), run.final[found.distinct, 0]]), gid="leaders")
    left.set(xlim=(0, until), xlabel="time $t$", title="rescaled tokens $z_i(t)$")
    for ax, P, t, rank in zip(panels, (begin, end), (0.0, until), ranks, strict=True):
        image = heat(ax, P)
        ax.set_title(f"$P({t:g})$")
        ax.set_xlabel(f"rank {rank}")
    scale(figure, image, panels)
    off = float(np.abs(end - end.round()).max())
    caption = (
        f"{n} tokens, uniform in [-1, 1], in decreasing order, under the flow with Q = K = V = 1, in the frame z = "
        "e^-t x; each tends to the limit of the smallest or to that of the largest, the leaders (stars), and is "
        "coloured by which. "
        f"All rows of attention P but at most one become Boolean: at t = {until:g} its entries are within {off:.1g} "
        f"of 0 or 1. Its rank falls from {ranks[0]} to {ranks[1]} (singular values above {RANK:g} of the largest)."
    )
    shows = {
        "rank at the start": ranks[0],
        "rank at the end": ranks[1],
        "distance from a Boolean matrix": off,
        "leaders": found.distinct,
        "limits": run.final[found.distinct, 0],
    }
    return Drawing(figure, caption, shows)


@entry("emergence/rank", "The rank of attention over time", EMERGENCE)
def rank(
    seed: int = 0, n: int = 40, d: int = 80, size: float = SIZE, until: float = 11.0,
    tolerances: tuple[float, ...] = (1e-2, 1e-4, 1e-8, 1e-12),
) -> Drawing:  # fmt: skip
    """The rank of P(t) at fixed tolerances, for V = I in the plane and for V = M M^T / d in a high dimension d."""
    times = np.linspace(0.0, until, 56)
    plane = af.tokens.uniform(n=n, d=2, seed=seed)
    runs = {
        "$V = I$, $d = 2$": af.simulate(plane, af.Softmax(), af.RescaledFlow(), until=until, record=times.tolist()),
        f"$V = MM^T/d$, $d = {d}$": _high(seed, (n, d), size, until, times),
    }
    figure = sheet(7.0, 3.3)
    shows: dict[str, Any] = {}
    for ax, (name, run) in zip(figure.subplots(1, 2, sharey=True), runs.items(), strict=True):
        led, ranks = _ranks(ax, run, tolerances)
        ax.set(xlim=(0, until), ylim=(0.6, 1.25 * n), xlabel="time $t$", title=name)
        log_axis(ax, "y")
        shows[f"leaders, {name.replace('$', '')}"] = led
        shows[f"last ranks, {name.replace('$', '')}"] = ranks
    figure.axes[0].set_ylabel("rank of $P(t)$")
    figure.axes[1].legend(title="tolerance", loc="upper right")
    caption = (
        f"The rank of the attention matrix of {n} tokens: the number of singular values above a part, the tolerance, "
        f"of the largest. Left: V = I, tokens uniform in [-1, 1]^2. Right: V = M M^T / {d}, tokens uniform in "
        f"[-{size:g}, {size:g}]^{d}. The rank at a given time is a matter of the tolerance, until attention is Boolean "
        "and the rank is the number of leaders (grey)."
    )
    return Drawing(figure, caption, shows)


def _ranks(ax: Any, run: Trajectory, tolerances: Sequence[float]) -> tuple[int, list[int]]:
    """Draw the rank over time at each tolerance; return the number of leaders and the ranks at the end."""
    values = af.measure.rank(run).singular_values
    styles = ("-", (0, (5, 2)), (0, (2, 1.5)), "-.")
    last = []
    for k, tol in enumerate(tolerances):
        ranks = (values > tol * values[:, :1]).sum(axis=1)
        style = {"color": tone().palette[k], "ls": styles[k], "label": figure_of(tol)}
        ax.step(run.times, ranks, where="post", gid=f"rank {tol:g}", **style)
        last.append(int(ranks[-1]))
    led = len(leading(run))
    ax.axhline(led, color=tone().pencil, lw=0.8, zorder=1, gid="leaders")
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "top", "fontsize": 9.5}
    beside(ax, counted(led, "leader"), (1.0, led), (-2, -3), **place)
    return led, last
