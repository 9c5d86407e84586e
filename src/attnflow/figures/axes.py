"""Axes of grids: on which scale values are drawn, and where the cells around them end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array
from attnflow.figures.style import figure_of, formula, log_axis

# Unless a picture says otherwise, values on a logarithmic axis span a factor of at least this.
SPAN = 8
# If the largest of their steps is this many times the smallest, numbers are drawn at equal distances, as words are.
UNEVEN = 30
# More words than this are not all written on an axis; more characters than this are not written side by side.
MOST_WORDS, MOST_CHARACTERS = 24, 40
# A logarithmic axis with at most FEW_WORDS values, of at most SHORT digits each, has its ticks at these values.
FEW_WORDS, SHORT = 10, 4


@dataclass(frozen=True)
class Axis:
    """An axis of a grid.

    `places` (k,) are where its values are drawn, in increasing order, and `order` (k,) are the indices of these values
    among those that were given. On the scale "words" values are at equal distances, with `words` beside them.
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
        if self.scale == "log":
            log_axis(ax, which)
            if len(self.words) <= FEW_WORDS and max(map(len, self.words)) <= SHORT:
                ax.set(**{f"{which}ticks": self.places, f"{which}ticklabels": self.words})
                getattr(ax, f"{which}axis").minorticks_off()
        elif self.scale == "words":
            every = -(-len(self.words) // MOST_WORDS)
            shown = self.words[::every]
            ax.set(**{f"{which}ticks": self.places[::every], f"{which}ticklabels": shown})
            ax.set(**{f"{which}lim": self.edges[[0, -1]]})
            if which == "x" and sum(map(len, shown)) > MOST_CHARACTERS:
                ax.set_xticks(self.places[::every], shown, rotation=30, ha="right", rotation_mode="anchor")
        else:
            getattr(ax, f"{which}axis").set_major_formatter(figure_of)
            if (self.places % 1 == 0).all():
                getattr(ax, f"{which}axis").get_major_locator().set_params(integer=True)


def axis(name: str, values: NDArray[Any], label: str | None = None) -> Axis:
    """Return the axis for given values: numbers are sorted, anything else is a word, in the order given.

    >>> axis("beta", np.array([4.0, 1.0, 2.0, 8.0])).scale, axis("beta", np.array([1.0, 3.0, 2.0])).places
    ('log', array([1., 2., 3.]))
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
        uneven = len(places) > 2 and np.diff(places).max() > UNEVEN * np.diff(places).min()
        scale = "log" if logarithmic(places) else "words" if uneven else "linear"
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
    return replace(known, places=np.asarray(values, dtype=np.float64), order=np.arange(len(values)), scale=scale)
