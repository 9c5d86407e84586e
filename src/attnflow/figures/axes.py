"""Axes of grids: on which scale values are drawn, and where the cells around them end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array
from attnflow.figures.style import figure_of, formula, log_axis, log_numbers

# Unless a picture says otherwise, values on a logarithmic axis span a factor of at least this.
SPAN = 8
# If the largest of their steps is this many times the smallest, numbers are drawn at equal distances, as words are.
UNEVEN = 30
# More words than this are not all written on an axis; more characters than this are not written side by side.
MOST_WORDS, MOST_CHARACTERS = 24, 40
# An axis with at most FEW values has its ticks at these values, and at no others.
FEW = 10
# Steps are even if the largest is at most this many times the smallest.
EVEN = 1.05
# The size of numbers at ticks, in points, of which an inch has INCH; the least distance of two numbers, in inches; and
# the part of the room for a panel that its axes have at least.
TYPE, INCH, GAP, PART = 10, 72, 0.07, 0.9
ROUNDING = 1e-9


@dataclass(frozen=True)
class Axis:
    """An axis of a grid.

    `places` (k,) are where its values are drawn, in increasing order, and `order` (k,) are the indices of these values
    among those that were given. On the scale "words" values are at equal distances, with `words` beside them. An axis
    of scattered points has no words, and its places are in any order.
    """

    name: str
    label: str
    places: Array = field(repr=False)
    order: NDArray[np.intp] = field(repr=False)
    scale: str
    words: tuple[str, ...] = field(repr=False)

    @property
    def edges(self) -> Array:
        """The ends (k + 1,) of the cells around the values."""
        return edges(self.places, self.scale == "log")

    def says(self, k: int) -> str:
        """Return the k-th of its values with its name."""
        return f"{self.label} = {self.words[k]}"

    def put(self, ax: Any, which: str) -> None:
        """Give axes of Matplotlib this axis, "x" or "y", with its scale, its numbers and its label."""
        ax.set(**{f"{which}label": self.label})
        side = getattr(ax, f"{which}axis")
        if self.scale == "log":
            log_axis(ax, which)
        if self.scale != "words" and 0 < len(self.words) <= FEW:
            side.set_ticks(self.places, self._numbers(ax, which))
            side.minorticks_off()
        elif self.scale == "log":
            side.set_ticks(_log_ticks(side, self.places.min(), self.places.max()))
        elif self.scale == "words":
            every = -(-len(self.words) // MOST_WORDS)
            shown = self.words[::every]
            ax.set(**{f"{which}ticks": self.places[::every], f"{which}ticklabels": shown})
            ax.set(**{f"{which}lim": self.edges[[0, -1]]})
            if which == "x" and sum(map(len, shown)) > MOST_CHARACTERS:
                ax.set_xticks(self.places[::every], shown, rotation=30, ha="right", rotation_mode="anchor")
        else:
            side.set_major_formatter(figure_of)
            if (self.places % 1 == 0).all():
                side.get_major_locator().set_params(integer=True)

    def _numbers(self, ax: Any, which: str) -> list[str]:
        """Return what is written at the ticks of all values: numbers that have no room beside others are left out."""
        from matplotlib.textpath import TextPath

        # The layout of the figure is not known yet; the room for a panel is.
        room = PART * (ax.bbox.width if which == "x" else ax.bbox.height) / ax.figure.dpi
        ends, at = (np.log(a) if self.scale == "log" else a for a in (self.edges, self.places))
        at = room * (at - ends[0]) / (ends[-1] - ends[0])
        # Rounded by a twentieth of the least step at most; whole numbers stay as they are.
        digits = max(0, 1 - math.floor(math.log10(np.diff(self.places).min())))
        rounded = tuple(figure_of(round(float(one), digits)) for one in self.places)
        for words in (self.words, rounded):
            boxes = [TextPath((0, 0), word, size=TYPE).get_extents() for word in words]
            kept = apart(at, [(box.width if which == "x" else TYPE) / INCH + GAP for box in boxes])
            if len(kept) == len(words):
                break
        return [word if k in kept else "" for k, word in enumerate(words)]


def apart(places: Array, sizes: Sequence[float]) -> set[int]:
    """Return the indices of those words that are written: both ends, and the others that touch none written before.

    >>> sorted(apart(np.array([0.0, 1.0, 1.1, 5.0]), [0.5] * 4))
    [0, 1, 3]
    """
    last = len(places) - 1
    kept: set[int] = set()
    for k in (0, last, *range(1, last)):
        if all(abs(places[k] - places[j]) >= (sizes[k] + sizes[j]) / 2 for j in kept):
            kept.add(k)
    return kept


def _log_ticks(side: Any, low: float, high: float) -> Array:
    """Return the places of numbers on a logarithmic axis of Matplotlib from low to high, none beyond."""
    side.set_view_interval(low, high, ignore=True)
    log_numbers(side)
    ticks = np.asarray(side.get_major_locator().tick_values(low, high))
    # Ends that are powers of ten may be so up to rounding.
    return ticks[(ticks >= low * (1 - ROUNDING)) & (ticks <= high * (1 + ROUNDING))]


def _even(values: Array) -> bool:
    steps = np.diff(values)
    return bool(steps.max() <= EVEN * steps.min())


def axis(name: str, values: NDArray[Any], label: str | None = None) -> Axis:
    """Return the axis for given values: numbers are sorted, anything else is a word, in the order given.

    >>> axis("beta", np.array([4.0, 1.0, 2.0, 8.0])).scale, axis("beta", np.array([1.0, 3.0, 2.0])).places
    ('log', array([1., 2., 3.]))
    >>> axis("n", np.array([8, 16, 32])).scale, axis("n", np.array([8, 16, 24])).scale
    ('log', 'linear')
    >>> axis("law", np.array(["softmax", "hardmax"])).places, axis("beta", np.array([1.0, np.inf])).words
    (array([0., 1.]), ('1', '$\\\\infty$'))
    """
    label = formula(name.rpartition(".")[2].replace("_", " ")) if label is None else label
    number = values.dtype.kind in "iuf" and not np.isnan(values).any()
    order = np.argsort(values, kind="stable") if number else np.arange(len(values))
    ordered = values[order]
    words = tuple(figure_of(float(one)) if number else str(one).replace("$", r"\$") for one in ordered)
    places, scale = ordered.astype(np.float64) if number else np.arange(len(values), dtype=np.float64), "words"
    if number and np.isfinite(places).all() and (len(places) == 1 or np.diff(places).min() > 0):
        # Few numbers may span less on a logarithmic axis, since each of them has a tick.
        close = 2 < len(places) <= FEW and places[0] > 0 and _even(np.log(places))
        uneven = len(places) > 2 and np.diff(places).max() > UNEVEN * np.diff(places).min()
        scale = "log" if logarithmic(places, 1 if close else SPAN) else "words" if uneven else "linear"
    if scale == "words":
        places = np.arange(len(values), dtype=np.float64)
    return Axis(name, label, places, order, scale, words)


def logarithmic(values: Array, span: float = SPAN) -> bool:
    """Say whether increasing values belong on a logarithmic axis: their logarithms are more evenly spaced than they.

    The largest has to be at least `span` times the smallest.

    >>> logarithmic(np.geomspace(0.1, 100.0, 20)), logarithmic(np.linspace(0.1, 100.0, 20))
    (True, False)
    >>> logarithmic(np.array([8.0, 16.0, 32.0, 64.0])), logarithmic(np.array([1.0, 2.0, 4.0]))
    (True, False)
    """
    if len(values) < 3 or values[0] <= 0 or values[-1] < span * values[0]:
        return False
    steps, factors = np.diff(values), np.diff(np.log(values))
    return bool(factors.max() / factors.min() < steps.max() / steps.min())


def edges(centres: Array, logarithmic: bool = False) -> Array:
    """Return the edges of the cells around increasing centres, half way between them on the scale of their axis.

    >>> edges(np.array([1.0, 2.0, 4.0])), edges(np.array([1.0, 10.0, 100.0]), logarithmic=True).round(2)
    (array([0.5, 1.5, 3. , 5. ]), array([  0.32,   3.16,  31.62, 316.23]))
    """
    if logarithmic:
        return np.exp(edges(np.log(centres)))
    if len(centres) == 1:
        return centres[0] + np.array([-0.5, 0.5])
    middle = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])


def scattered(name: str, values: Array, label: str | None = None) -> Axis:
    """Return the axis for numbers in any order, as those of a random design.

    >>> scattered("beta", np.array([3.0, 1.0, 2.0])).places
    array([3., 1., 2.])
    """
    known = axis(name, values, label)
    # Gaps between random numbers are uneven on every scale; their quantiles are not.
    scale = "log" if logarithmic(np.quantile(values, [0.0, 0.25, 0.5, 0.75, 1.0])) else "linear"
    places = np.asarray(values, dtype=np.float64)
    return replace(known, places=places, order=np.arange(len(values)), scale=scale, words=())
