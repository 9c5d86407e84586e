"""A run on one page: where tokens are, whom they hear, and four measurements over time."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attnflow import measure
from attnflow.core.inputs import Array, InputError, number_at
from attnflow.figures.clock import Clock
from attnflow.figures.groups import COUNTED_ONE_BY_ONE, close, counted, heard
from attnflow.figures.marks import key, scale
from attnflow.figures.places import places
from attnflow.figures.plot import draw
from attnflow.figures.polytope import bare
from attnflow.figures.scene import Scene, filled, scene_at
from attnflow.figures.stage import panel
from attnflow.figures.style import colours, log_axis, look, ramp, sheet, tone
from attnflow.laws import varies
from attnflow.measure.clusters import CLOSE
from attnflow.measure.energies import energy_of
from attnflow.measure.over_time import State
from attnflow.serialise import brief

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attnflow.runs.trajectory import Trajectory

# What is still quick to compute: attention matrices, singular values at each time, and what looks at all pairs.
MATRIX = 1000
RANKED = 200
PAIRS = 5000
# In few dimensions clusters, diameters and energies are found without all pairs. Of more tokens, or pairs, they are
# found at fewer times.
PLAIN, FEWEST, SEEN, PAIRED = 3, 8, 8_000_000, 200_000_000
TIMES, RANK_TIMES = 60, 40
# Counts that vary by more than this factor are shown on a logarithmic scale.
WIDE = 12
# From here on an energy is shown by its logarithm.
LARGE = 1e4


class Measured(NamedTuple):
    """What a panel shows over time: `of(run, x, t)` for states x of a run, at no more than `most` times.

    `of` raises InputError, with the reason, where it does not apply. `scale` is "count", "log" or "large", which shows
    large values by their logarithm; `counts` is what is counted, and `crowd` what of very many tokens.
    """

    title: str
    of: Callable[[Trajectory, Array, float], float]
    most: int
    scale: str
    counts: str = ""
    crowd: str = ""


def dashboard(run: Trajectory) -> Figure:
    """Draw a run on one page.

    The final tokens as by `plot`; the attention matrix P of the final state, tokens in the order of their clusters;
    the number of clusters (tokens joined by chains of steps of a hundredth of the cloud's extent; of more than 20,000
    tokens: of places with a hundredth of them or more), the rank of P, the diameter and the interaction energy E (its
    logarithm where it is 10,000 or more) over time, at no more than 60 recorded times (and on the way of `Leaps`, which
    are long). A panel that does not apply to the run says why. Above them stands why the run ended, and when tokens are
    expected to move again, as `run.next_change` says.

    >>> import attnflow as af
    >>> x0 = af.tokens.gaussian(n=20, d=2, seed=0)
    >>> run = af.simulate(x0, af.Softmax(beta=2.0), af.Layers(gamma=0.5), until=30)
    >>> figure = run.dashboard()
    >>> [ax.get_title() for ax in figure.axes if ax.get_title()]
    ['tokens', 'attention', 'clusters', 'rank of attention', 'diameter', 'interaction energy']
    """
    with look():
        shown = scene_at(run)
        figure = sheet(11.0, 6.8)
        grid = figure.add_gridspec(2, 3)
        tokens = panel(figure, grid[0, 0], shown)
        draw(tokens, shown)
        tokens.set_title("tokens")
        _attention(figure.add_subplot(grid[0, 1]), run, shown)
        for place, what in zip((grid[0, 2], grid[1, 0], grid[1, 1], grid[1, 2]), MEASURED, strict=True):
            _over_time(figure.add_subplot(place), run, shown.clock, what)
        figure.suptitle(_headline(run))
        scale(figure)
        key(figure)
    return figure


def _clusters(run: Trajectory, x: Array, t: float) -> float:
    _at_most(PAIRS, x, "numbers of clusters")
    if len(x) > COUNTED_ONE_BY_ONE:
        both = np.concatenate([run.tokens[0], run.final])
        return len(places(x, both.min(axis=0), both.max(axis=0)).counts)
    return measure.clusters(x, close(run.tokens[0], run.final)).count


def _rank(run: Trajectory, x: Array, t: float) -> float:
    _at_most(RANKED, x, "ranks")
    return int(measure.rank(_weights(run, x, t)).value)


def _diameter(run: Trajectory, x: Array, t: float) -> float:
    _at_most(PAIRS, x, "distances")
    return measure.diameter(x)


def _energy(run: Trajectory, x: Array, t: float) -> float:
    law = run.law
    found = None if law is None else law.exponents
    if law is None or found is None or varies(law) or found.b is not None or found.beta == 0:
        raise InputError("defined for softmax with a constant $\\beta\\neq0$, without a bias")
    _at_most(PAIRS, x, "energies")
    return energy_of(State(heard(run, x, t), t, run.masses), law, number_at(found.beta, 0, "beta"), run)


MEASURED = (
    Measured(
        "clusters", _clusters, TIMES, "count", f"joined at {CLOSE:.0%} of the extent", "places with 1% of the tokens"
    ),
    Measured("rank of attention", _rank, RANK_TIMES, "count"),
    Measured("diameter", _diameter, TIMES, "log"),
    Measured("interaction energy", _energy, TIMES, "large"),
)


def _weights(run: Trajectory, x: Array, t: float) -> Array:
    """Return the attention matrix of a state, or say why there is none to show."""
    if run.law is None:
        raise InputError("the law of this run was not stored")
    if run.law.head_count:
        raise InputError("each head has a matrix of its own")
    return run.law.weights(heard(run, x, t), t, run.masses)


def _at_most(most: int, x: Array, what: str) -> None:
    if len(x) > most and (most < PAIRS or x.shape[1] > PLAIN):
        raise InputError(f"{what} are shown for at most {most} tokens, these are {len(x):,}")


def _over_time(ax: Any, run: Trajectory, clock: Clock, what: Measured) -> None:
    ax.set_title(what.title)
    _, n, d = run.tokens.shape
    most = max(FEWEST, min(what.most, SEEN // n if d <= PLAIN else PAIRED // n**2))
    chosen = clock.recorded(run.times, most)
    times, states = filled(run, run.times[chosen].astype(np.float64), run.tokens[chosen], most)
    try:
        values = np.array([what.of(run, x, t) for x, t in zip(states, times.tolist(), strict=True)], dtype=np.float64)
        if what.scale == "log" and not values.any():
            raise InputError("0 at all times: the tokens coincide")
    except InputError as reason:
        _say(ax, str(reason))
        return
    large = what.scale == "large" and np.abs(values).max() >= LARGE
    if what.scale == "log" or large:
        values[values == 0] = np.nan
    if large:
        # Energies are of the order of e^{beta |x|^2}, too large to be read off an axis.
        values = np.log10(np.abs(values))
        ax.set_ylabel(r"$\log_{10}|E|$")
    # A chain rests between its moves.
    style = "steps-post" if getattr(run.motion, "random", False) else "default"
    ax.plot(times, values, color=tone().palette[0], marker="o", ms=2.6, drawstyle=style)
    if what.counts:
        ax.set_ylabel(what.crowd if n > COUNTED_ONE_BY_ONE else what.counts)
    clock.axis(ax)
    _scale(ax, values, what.scale)


def _scale(ax: Any, values: Array, scale: str) -> None:
    """Make counts whole numbers, and spread what spans orders of magnitude."""
    from matplotlib.ticker import MaxNLocator

    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    wide = high >= WIDE * low > 0
    if scale == "count" and not wide:
        ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        ax.set_ylim(0, max(1.08 * high + 0.2, 1.2))
    elif scale != "large":
        ax.set_ylim((0.9, 1.3 * high) if scale == "count" else (low / 1.6, high * 1.6))
        log_axis(ax, "y")


def _attention(ax: Any, run: Trajectory, shown: Scene) -> None:
    """Draw P, tokens in the order of their groups, whose colours run along its sides."""
    ax.set_title("attention")
    try:
        _at_most(MATRIX, run.final, "matrices")
        P = _weights(run, run.final, shown.times[-1])
    except InputError as reason:
        _say(ax, str(reason))
        return
    order = np.argsort(shown.groups.labels, kind="stable")
    image = ax.imshow(
        P[np.ix_(order, order)], cmap=ramp(), vmin=min(0.0, P.min()), interpolation="nearest", rasterized=True
    )
    ax.figure.colorbar(image, ax=ax, shrink=0.75, pad=0.02, aspect=24).outline.set_visible(False)
    bare(ax)
    ax.set_xlabel("token heard $j$", labelpad=9)
    ax.set_ylabel("token $i$", labelpad=9)
    n, sizes = len(P), np.bincount(shown.groups.labels)
    middles, inks = (sizes.cumsum() - sizes / 2) / n, colours(range(len(sizes)))
    for strip, along in ((ax.bar, middles), (ax.barh, 1 - middles)):
        strip(along, 0.02, sizes / n, -0.03, color=inks, transform=ax.transAxes, clip_on=False)
    # The strips are placed in parts of the panel, yet they have moved its limits.
    ax.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5))


def _say(ax: Any, sentence: str) -> None:
    """Put a sentence where a picture would have been."""
    bare(ax)
    style = {"ha": "center", "va": "center", "color": tone().quiet, "transform": ax.transAxes}
    ax.text(0.5, 0.5, textwrap.fill(sentence, 34), **style)


def _headline(run: Trajectory) -> str:
    n, d = run.final.shape
    what = [brief(part) for part in (run.law, run.motion) if part is not None]
    lines = ["  ·  ".join([f"{counted(n, 'token')} in dimension {d}", *what]), textwrap.fill(run.stopped, 120)]
    if run.next_change.time is not None:
        lines.append(_with_powers(str(run.next_change)))
    return "\n".join(lines)


def _with_powers(sentence: str) -> str:
    """Typeset the powers of ten of a sentence.

    >>> print(_with_powers("near step 3.6 * 10^7"), _with_powers("within 10^300 steps"))
    near step $3.6 \\cdot 10^{7}$ within $10^{300}$ steps
    """
    return re.sub(r"([\d.]+) \* \$", r"$\1 \\cdot ", re.sub(r"10\^(\d+)", r"$10^{\1}$", sentence))
