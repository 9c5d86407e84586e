"""Pictures of a transformer layer by layer, beside null models: cosines, ranks, entropies, leaders, directions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow import measure
from attnflow.core.inputs import Array, InputError, whole
from attnflow.figures.style import DASHED, figure_of, found_by, log_axis, look, sheet, tone
from attnflow.motions.normalisation import directions
from attnflow.runs.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Histograms side by side; layers that are drawn if none are chosen.
COLUMNS, MOST_LAYERS = 3, 6
BINS = 50
# Lines of null models are told apart without colours too.
STEPS: tuple[Any, ...] = ("-", (0, (3, 1.5)), (0, (1.2, 1.2)))
STYLES: tuple[Any, ...] = (DASHED, (0, (1.2, 1.2)), (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)))


def cosine_histograms(
    runs: Mapping[str, Trajectory], layers: Sequence[int] | None = None, *, diagonal: bool = False
) -> Figure:
    """Draw histograms of cos(x_i, x_j) over all pairs of tokens, layer by layer: the first run filled, others as lines.

    The pairs are those with i != j. Published histograms also count the pairs i = j, whose cosine is 1:
    ``diagonal=True`` draws these, and the picture says so. Shares of pairs are on a logarithmic scale. The short
    vertical line is the mean cosine of the first run.

    Parameters
    ----------
    runs
        Runs by name: first the one that is looked at, then others, such as null models or other numbers of heads.
    layers
        The states that are drawn, counted from 0, the start; about six of them if not given.
    diagonal
        Whether pairs i = j are counted.

    Examples
    --------
    >>> import attnflow as af
    >>> x0 = af.tokens.sphere(n=20, d=8, seed=0)
    >>> runs = {f"beta = {b:g}": af.simulate(x0, af.Transformer([af.Block(af.Softmax(b))] * 6)) for b in (1.0, -1.0)}
    >>> [ax.get_title() for ax in cosine_histograms(runs, layers=[0, 3, 6]).axes]
    ['start', 'after 3 layers', 'after 6 layers']

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794), whose
    histograms of an ALBERT count the pairs i = j.
    """
    if not isinstance(runs, Mapping) or not runs:
        raise InputError('runs names no run: give runs by name, such as {"trained": run, "null": other}')
    for run in runs.values():
        found_by("simulate(tokens, transformer)", run, Trajectory)
    states = min(map(len, runs.values()))
    if layers is None:
        layers = np.unique(np.linspace(0, states - 1, min(states, MOST_LAYERS)).round().astype(int)).tolist()
    if not isinstance(layers, Iterable) or not list(layers):
        raise InputError(f"layers is {layers!r}, expected a list of states: give some, as [0, {states - 1}]")
    shown = [whole(k, "a layer", least=0, most=states - 1) for k in layers]
    rows, columns = math.ceil(len(shown) / COLUMNS), min(COLUMNS, len(shown))
    with look():
        figure = sheet(max(2.4 * columns, 3.6), 1.75 * rows + 0.75)
        axes = np.ravel(figure.subplots(rows, columns, sharex=True, sharey=True))
        for ax in axes[len(shown) :]:
            ax.remove()
        n = max(run.tokens.shape[1] for run in runs.values())
        for place, (ax, k) in enumerate(zip(axes, shown, strict=False)):
            for number, (name, run) in enumerate(runs.items()):
                found = measure.cosine_histogram(run.tokens[k], BINS, diagonal=diagonal)
                _histogram(ax, found, number, name, 1 / n**2)
            ax.set_title(f"after {k} layer{'s' * (k > 1)}" if k else "start", fontsize=11)
            ax.set(xlim=(-1.02, 1.02), xticks=[-1, 0, 1], yscale="log", ylim=(1 / n**2, 1.6))
            ax.minorticks_off()
            if place % columns == 0:
                ax.set_ylabel("share of pairs")
            if place + columns >= len(shown):
                ax.set_xlabel(r"$\cos(x_i, x_j)$, " + ("all $i, j$" if diagonal else r"$i \neq j$"))
                ax.xaxis.set_tick_params(labelbottom=True)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=9.5)
    return figure


def _histogram(ax: Any, found: measure.CosineHistogram, number: int, name: str, least: float) -> None:
    """Draw one histogram from the share `least` on, filled if it is the first."""
    if number == 0:
        style: dict[str, Any] = {"fill": True, "color": tone().palette[0], "alpha": 0.55, "lw": 0}
        ax.axvline(found.mean, ymax=0.09, color=tone().ink, lw=1.8, zorder=9, gid="mean")
    else:
        style = {"color": tone().palette[number % 7], "ls": STEPS[(number - 1) % len(STEPS)], "lw": 1.4}
    shares = np.maximum(found.share, least)
    ax.stairs(shares, found.edges, baseline=least, label=name, gid=f"histogram {number}", zorder=2 + number, **style)


# Panels by their titles, with whether the scale is logarithmic where values differ by more than this factor.
PANELS = {
    "mean cosine of pairs": False, "effective rank of tokens": True, r"stable rank of $P$": True,
    r"entropy of attention $/\,\log n$": False, "distinct leaders": False, "largest column mass": False,
}  # fmt: skip
WIDE = 30


def _measured(run: Trajectory) -> tuple[Array, ...]:
    """Return what the panels show: the first two of all states, the others of the layers that hear."""
    leaders = measure.leaders(run.law, run)
    return (
        measure.mean_cosine(run),
        measure.effective_rank(run),
        _mean(measure.stable_rank(run, of="attention")),
        _mean(measure.entropy(run.law, run)) / math.log(max(2, run.tokens.shape[1])),
        np.array([np.mean(one.count) for one in leaders]),
        np.array([float(one.heard.max()) for one in leaders]),
    )


def _mean(found: Array) -> Array:
    """Return the mean over heads and tokens."""
    mean: Array = found.reshape(len(found), -1).mean(axis=1)
    return mean


def by_layer(
    run: Trajectory, nulls: Mapping[str, Sequence[Trajectory]] | None = None, *, name: str = "trained"
) -> Figure:
    """Draw six measurements of a run of a transformer layer by layer, and of null models as bands over their seeds.

    They are the mean of cos(x_i, x_j) over i != j and the effective rank e^H of the tokens, in every state; the stable
    rank |P|_F^2 / |P|_2^2 of attention and its entropy, the mean over heads, in parts of log n; the number of distinct
    leaders argmax_j P_ij, the mean over heads; and the largest column mass sum_i P_ij / n of all heads, in every layer.
    Bands go from the least to the largest value of the runs of a null model, with their median as a line.

    Parameters
    ----------
    run
        A run of a `Transformer`.
    nulls
        Runs of null models by name, each with one run for each seed.
    name
        What the key calls the run.

    Examples
    --------
    >>> import attnflow as af
    >>> def run(seed):
    ...     rng = np.random.default_rng(seed)
    ...     Q, K, V = rng.standard_normal((3, 2, 4, 8))
    ...     block = af.Block(af.Attention(Q, K, V, rng.standard_normal((2, 8, 4))))
    ...     return af.simulate(rng.standard_normal((6, 8)), af.Transformer([block] * 3))
    >>> figure = by_layer(run(0), {"other weights": [run(seed) for seed in range(1, 4)]})
    >>> [ax.get_title() for ax in figure.axes[:2]]
    ['mean cosine of pairs', 'effective rank of tokens']

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794). Dong,
    Cordonnier, Loukas, *Attention is not all you need* (arXiv 2103.03404).
    """
    known = _groups(nulls)
    for one in (run, *(null for group in known.values() for null in group)):
        found_by("simulate(tokens, transformer)", one, Trajectory)
    for label, runs in known.items():
        if len(lengths := {len(one) - 1 for one in runs}) > 1:
            several = " and ".join(map(str, sorted(lengths)))
            raise InputError(f"the runs of {label!r} have {several} layers, expected one number: give runs alike")
    own, others = _measured(run), {label: [_measured(one) for one in runs] for label, runs in known.items()}
    with look():
        figure = sheet(7.2, 4.6)
        axes = figure.subplots(2, 3, sharex=True)
        for place, (ax, (title, logarithmic)) in enumerate(zip(axes.flat, PANELS.items(), strict=True)):
            for k, (label, each) in enumerate(others.items()):
                _band(ax, np.array([one[place] for one in each]), k, label)
            values = own[place]
            marker = "o" if len(values) < 40 else ""
            ax.plot(np.arange(len(values)), values, color=tone().palette[0], lw=1.9, marker=marker, ms=3, zorder=6,
                    label=name, gid="run")  # fmt: skip
            ax.set_title(title, fontsize=11)
            low, high = ax.dataLim.intervaly
            if logarithmic and high > WIDE * low > 0:
                log_axis(ax, "y")
                ax.tick_params(axis="y", which="minor", left=False)
            else:
                ax.yaxis.set_major_formatter(figure_of)
        for ax in axes[1]:
            ax.set_xlabel("layer")
            ax.xaxis.get_major_locator().set_params(integer=True)
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=min(4, len(labels)), fontsize=9.5)
    return figure


def _groups(nulls: Mapping[str, Sequence[Trajectory]] | None) -> dict[str, list[Trajectory]]:
    """Return the runs of each null model, refusing what is none."""
    if nulls is not None and not isinstance(nulls, Mapping):
        raise InputError(f'nulls is {type(nulls).__name__!r}, expected runs by name, such as {{"gaussian": [run]}}')
    for label, runs in (nulls or {}).items():
        if isinstance(runs, Trajectory) or not isinstance(runs, Iterable) or not list(runs):
            raise InputError(f"the null model {label!r} came with no list of runs: give a run for each seed")
    return {label: list(runs) for label, runs in (nulls or {}).items()}


def _band(ax: Any, values: Array, k: int, label: str) -> None:
    """Draw the values (seeds, layers) of a null model."""
    layers, style = np.arange(values.shape[1]), {"color": tone().palette[1 + k % 6]}
    low, high = values.min(axis=0), values.max(axis=0)
    ax.fill_between(layers, low, high, alpha=0.22, lw=0, zorder=1 + k, gid=f"band {label}", **style)
    ax.plot(layers, np.median(values, axis=0), ls=STYLES[k % len(STYLES)], lw=1.4, zorder=2 + k, label=label,
            gid=f"median {label}", **style)  # fmt: skip


def stream(run: Trajectory) -> Trajectory:
    """Return the residual stream as directions x / |x|, a run to be drawn or filmed in its two leading directions.

    Pictures and movies of runs in more than three dimensions show the two principal components of all states. In
    models with the norm before attention the first token may be a hundred times as long as all others and hide them;
    directions are also what attention hears, up to its norm.

    >>> import attnflow as af
    >>> run = af.simulate(af.tokens.gaussian(n=9, d=8, seed=0), af.Transformer([af.Block(af.Softmax())] * 4))
    >>> stream(run)
    <Trajectory: 5 states of 9 tokens in dimension 8; reached step 4, as asked>
    >>> ax = stream(run).plot()  # or .animate("stream.mp4")

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794), where
    tokens live on the sphere.
    """
    found_by("simulate(tokens, transformer)", run, Trajectory)
    return Trajectory(
        run.times, directions(run.tokens), law=None, motion=None, masses=run.masses, stopped=run.stopped,
        about=run.about, report=run.report,
    )  # fmt: skip
