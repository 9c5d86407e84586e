"""Pictures of exponentially long times: the staircase of the energy, exits against beta, phases of finite beta."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.core.inputs import Array
from attnflow.figures.style import DASHED, beside, colours, found_by, log_axis, look, sheet, tone
from attnflow.measure.exits import ExitRate
from attnflow.measure.merges import Merge, Staircase
from attnflow.measure.phases import EVENTS, Course, Phases

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Log time begins this factor before the first merge; merges nearer than this factor to the one before go unnamed.
BEFORE, APART = 100.0, 1e3
# The legend is on the left if the last merge is beyond this part of the axis.
CLIMBED = 0.6
PREDICTED: dict[str, Any] = {"ls": DASHED, "lw": 0.9}
GUIDE: dict[str, Any] = {"ls": "--", "lw": 1.0}
EXACT = "exact median"
# Events that often coincide have marks that fit into each other.
MARKERS, SIZES = ("o", "s", "D", "^"), (8.0, 4.0, 4.0, 3.0)
MEANING = {
    "parting": "leaves the hardmax trajectory",
    "arrival": "arrives at its limits, $T_1$",
    "departure": "leaves its limits, $T_2$",
    "collapse": "collapses to a point",
}


def staircase(stairs: Staircase) -> Figure:
    """Draw the energy in log time, the predicted heights between merges, and each merge with its error bar.

    >>> import attnflow as af
    >>> x0 = af.tokens.sphere(n=4, d=2, seed=3)
    >>> run = af.simulate(x0, af.Softmax(beta=12.0), af.SphereFlow(), until=1e12)
    >>> figure = staircase(af.measure.staircase(run))
    >>> figure.axes[0].get_xscale()
    'log'
    """
    found_by("measure.staircase(run)", stairs, Staircase)
    last = float(stairs.times[-1])
    first = min([m.time for m in stairs.merges if m.time > 0] or [last]) / BEFORE
    first = max(first, float(stairs.times[stairs.times > 0].min(initial=last)))
    with look():
        figure = sheet(7.0, 3.6)
        ax = figure.add_subplot()
        seen = stairs.times >= first
        ax.plot(stairs.times[seen], stairs.energy[seen], color=tone().palette[0], label="energy", zorder=3)
        for plateau in stairs.plateaux:
            if plateau.end > first:
                ax.hlines(
                    plateau.predicted, max(plateau.start, first), plateau.end, zorder=4, color=tone().ink, **PREDICTED
                )
        named = first
        # The last merges of a long run happen between two floats, so that the curve is not yet up there.
        seen_then = np.interp([float(merge.time) for merge in stairs.merges], stairs.times, stairs.energy)
        for merge, height in zip(stairs.merges, np.maximum(stairs.heights[1:], seen_then).tolist(), strict=True):
            _mark(ax, merge, height, named=merge.time > APART * named)
            named = max(named, merge.time)
        ax.plot([], [], color=tone().ink, **PREDICTED, label=r"predicted, $\sum_q (n_q/n)^2$")
        if len(stairs.merges):
            ax.plot([], [], color=tone().palette[1], marker="o", ms=4, ls="", label="merge")
        log_axis(ax, "x")
        whole = any(isinstance(merge.time, int) for merge in stairs.merges)
        ax.set(xlim=(first, last), ylim=(0, 1.15), xlabel="step" if whole else "time $t$")
        ax.set_ylabel("energy")
        corner: Any = _free_corner(stairs, first, last)
        ax.legend(loc=corner, borderaxespad=0.2)
    return figure


def _free_corner(stairs: Staircase, first: float, last: float) -> str:
    """Return where a legend covers neither the curve nor the times of merges: mostly on the left."""
    if not len(stairs.merges):
        return "lower left"
    climbed = math.log(max(stairs.merges[-1].time / first, 1.0)) / math.log(last / first) if last > first else 1.0
    return "upper left" if climbed > CLIMBED else "lower right"


def _mark(ax: Any, merge: Merge, height: float, named: bool) -> None:
    """Mark a merge at its height; its error bar is drawn to scale, and written, since the eye often cannot see it."""
    time = float(merge.time)
    error = min(merge.error, time * (1 - 1e-9))
    ax.errorbar(time, height, xerr=error, color=tone().palette[1], marker="o", ms=4, capsize=2.5, zorder=4)
    if named:
        beside(ax, f"$t = {_digits(merge)}$", (time, height), (-5, 5), ha="right", va="bottom", fontsize=9.5)


def _digits(merge: Merge) -> str:
    """Return a time with its error in units of the last digits, as in 134703.68(15).

    >>> _digits(Merge(134703.6832, 0.00015, (1, 1), 1)), _digits(Merge(2.5e9, 3.0e4, (1, 1), 1))
    ('134703.68320(15)', '2.50000(3) \\\\times 10^{9}')
    >>> _digits(Merge(36289, 0.0, (1, 1), 1))
    '36289'
    """
    if not math.isfinite(merge.error):
        return f"{merge.time:.3g}?"
    if merge.error == 0:
        return f"{merge.time:.10g}"
    power = math.floor(math.log10(merge.time)) if not 1e-3 <= merge.time < 1e6 else 0
    t, error = merge.time / 10.0**power, merge.error / 10.0**power
    digit = math.floor(math.log10(error))
    places = max(0, -digit + (error / 10.0**digit < 2))
    text = f"{t:.{places}f}({math.ceil(round(error * 10.0**places, 6))})"
    return text if power == 0 else f"{text} \\times 10^{{{power}}}"


def exits(rate: ExitRate | Mapping[str, ExitRate]) -> Figure:
    """Draw median exit times against beta with their confidence intervals, the exact law, and the theoretical slope.

    Several of them, by name, are drawn in one picture, with one colour and mark each.

    >>> import attnflow as af
    >>> rate = af.measure.exit_rate(af.tokens.polygon(3), [5.0, 10.0, 20.0, 40.0], gamma=0.1, radius=0.1, runs=100)
    >>> figure = exits(rate)
    >>> figure.axes[0].get_yscale()
    'log'
    """
    many = isinstance(rate, Mapping) and len(rate) > 0
    rates: Mapping[str, Any] = rate if isinstance(rate, Mapping) and rate else {"": rate}
    for one in rates.values():
        found_by("measure.exit_rate(...)", one, ExitRate)
    with look():
        figure = sheet(5.2, 3.8)
        ax = figure.add_subplot()
        for k, (name, one) in enumerate(rates.items()):
            _exits(ax, one, name, k if many else None)
        log_axis(ax, "y")
        ax.set(xlabel=r"$\beta$", ylabel="first exit, steps")
        if many:
            # What lines and marks mean, whatever their colour.
            runs = sorted({len(one.exits[0].times) for one in rates.values()})
            counts = f"{runs[0]:,}" if len(runs) == 1 else f"{runs[0]:,} to {runs[-1]:,}"
            ax.plot([], [], color=tone().ink, label=f"{EXACT}; marks: of {counts} chains, 95% bars")
            ax.plot([], [], color=tone().pencil, **GUIDE, label="slope of theory")
        else:
            (one,) = rates.values()
            ax.set_title(f"slope {_measured(one.slope, one.error)}", color=tone().quiet, fontsize=11)
        ax.legend(loc="upper left" if many else "best", fontsize=9.5 if many else None)
    return figure


def _exits(ax: Any, rate: ExitRate, name: str, k: int | None) -> None:
    """Draw the exits from one start, as the k-th of several, or alone."""
    sampled = _floats([found.median for found in rate.exits])
    low = _floats([found.interval[0] for found in rate.exits])
    high = _floats([min(found.interval[1], 1e308) for found in rate.exits])
    line, marks = tone().palette[:2] if k is None else colours([k, k])
    if all(found.exact is not None for found in rate.exits):
        exact = _floats([found.exact.median for found in rate.exits if found.exact is not None])
        label = EXACT if k is None else None
        ax.plot(rate.betas, exact, color=line, label=label, zorder=2, gid=f"exact {name}")
    if rate.gap is not None:
        guide = _sloped(rate.betas, sampled, rate.gap)
        label = rf"slope of theory, {rate.gap:.4g}" if k is None else None
        ax.plot(rate.betas, guide, color=tone().pencil, **GUIDE, label=label, gid=f"theory {name}")
    label = f"median of {len(rate.exits[0].times)} chains"
    if k is not None:
        theory = "" if rate.gap is None else f", theory {rate.gap:.4g}"
        label = f"{name}: slope {_measured(rate.slope, rate.error)}{theory}"
    ax.errorbar(
        rate.betas, sampled, yerr=[sampled - low, high - sampled], color=marks, marker=MARKERS[(k or 0) % len(MARKERS)],
        ms=4, ls="", capsize=2.5, zorder=3, label=label,
    )  # fmt: skip


def _measured(value: float, error: float) -> str:
    """Return a value with its error, both to the first digit of the error.

    >>> _measured(1.50514, 0.0021), _measured(-1e-9, 0.2), _measured(0.91, 5e7)
    ('1.505 $\\\\pm$ 0.002', '0.0 $\\\\pm$ 0.2', '1 $\\\\pm$ 5e+07')
    """
    if error == 0:
        return f"{value:.6g}"
    places = max(0, -math.floor(math.log10(error)))
    return f"{round(value, places) + 0.0:.{places}f} $\\pm$ {error:.1g}"


def phases(found: Phases) -> Figure:
    """Draw when tokens leave the hardmax trajectory, arrive, leave again and collapse, against beta, in two panels.

    Left the layers (SA_beta), right the medians of the chain (SA_P) with their confidence intervals, if chains were
    followed. What never happens at some beta is not drawn there; step 0 is drawn at 1.

    >>> import attnflow as af
    >>> figure = phases(af.measure.phases(af.tokens.polygon(3), betas=[2, 4], gamma=0.1, runs=20))
    >>> [ax.get_title().split(",")[0] for ax in figure.axes]
    ['layers', 'chain']
    """
    found_by("measure.phases(...)", found, Phases)
    with look():
        figure = sheet(7.2 if found.runs else 4.8, 4.0)
        panels = figure.subplots(1, 2 if found.runs else 1, sharey=True, squeeze=False)[0].tolist()
        _course(panels[0], found.layers)
        panels[0].set_title(r"layers, $\mathrm{SA}_\beta$")
        panels[0].set_ylabel("step")
        if found.runs:
            _course(panels[1], found.chain, found.low, found.high)
            panels[1].set_title(rf"chain, $\mathrm{{SA}}_P$: medians of {found.runs}")
        log_axis(panels[0], "y")
        known: dict[str, Any] = {}
        for ax, course in zip(panels, (found.layers, found.chain), strict=False):
            ax.set_xlabel(r"$\beta$")
            _guide(ax, course, found.gap)
            handles, labels = ax.get_legend_handles_labels()
            known |= dict(zip(labels, handles, strict=True))
        figure.legend(list(known.values()), list(known), loc="outside lower center", ncols=3 if found.runs else 2)
    return figure


def _course(ax: Any, course: Course, low: Course | None = None, high: Course | None = None) -> None:
    for k, event in enumerate(EVENTS):
        steps = _floats(getattr(course, event))
        happened = np.isfinite(steps)
        if not happened.any():
            continue
        bars = None
        if low is not None and high is not None:
            ends = [_floats(getattr(part, event)) for part in (low, high)]
            bars = [np.nan_to_num(np.abs(end - steps), nan=0.0, posinf=0.0)[happened] for end in ends]
        ax.errorbar(
            course.betas[happened], np.maximum(steps[happened], 1.0), yerr=bars, color=tone().palette[k],
            marker=MARKERS[k], ms=SIZES[k], mfc=tone().paper if SIZES[k] > SIZES[2] else None, lw=1.2, capsize=2.5,
            label=MEANING[event],
            zorder=3 + k if SIZES[k] <= SIZES[2] else 2,
        )  # fmt: skip


def _guide(ax: Any, course: Course, gap: float | None) -> None:
    """Draw the slope of theory through the last departure."""
    steps = _floats(course.departure)
    there = np.isfinite(steps)
    if gap is not None and there.sum() > 1:
        guide, label = _sloped(course.betas[there], steps[there], gap), rf"$e^{{\beta\,\mathrm{{gap}}}}$, gap {gap:.4g}"
        ax.plot(course.betas[there], guide, color=tone().ink, ls=":", lw=1.0, label=label, zorder=1)


def _sloped(betas: Array, steps: Array, gap: float) -> Array:
    """Return e^{gap beta} times a constant, through the last point, where the limit is nearest."""
    return np.asarray(np.exp(np.log(steps[-1]) + gap * (betas - betas[-1])))


def _floats(steps: Any) -> Array:
    """Return steps as floats, not a number where there is none."""
    return np.array([np.nan if t is None else float(min(t, 10**308)) for t in steps], dtype=np.float64)
