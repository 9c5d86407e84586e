"""A picture of a sweep: lines, heat maps, small multiples, and scattered points of a design."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.core.inputs import Array, InputError
from attnflow.figures.marks import shade_bar
from attnflow.figures.style import colours, figure_of, log_axis, look, seen_ramp, sheet, tone
from attnflow.figures.sweep_values import FEWEST, MOST_PANELS, Study, Values, study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from xarray import Dataset

# Panels side by side.
COLUMNS = 3
# Whole numbers over no more than this many steps have a colour each.
MOST_STEPS = 12
# Lines with more values than this have no marks.
MOST_MARKS = 40
# The distance of marks of several lines at one word.
BESIDE = 0.1
MARKERS = ("o", "s", "D", "^")
# Letters of the caption for each inch of the figure.
LETTERS = 17


def sweep(
    dataset: Dataset,
    show: str | Iterable[str] | None = None,
    *,
    average: str | Iterable[str] | None = None,
    lines: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw what `af.sweep` returned: a line over one axis, a heat map over two, a row of panels over three.

    The first axis goes from left to right, the second upwards. Of three axes, the one with the fewest values has a
    panel for each of them. Several variables have a panel each. Points of a random design are dots over one or two of
    their coordinates.

    - Means are taken over the axis "seed". Over one axis they have a band: an interval that holds the expected value
      with 95 per cent confidence if cells with different seeds are independent. It allows for skewness (Hall's). Where
      all values are equal it has no width, which says nothing about values that are rare. Fewer than five values have
      none, as the text below the picture says.
    - Axes and values that span decades are logarithmic, and so are a few numbers such as 8, 16, 32; words, and numbers
      such as infinity, are at equal distances. Axes with up to ten numbers have ticks at these. Whole numbers, if they
      are few, have a colour each.
    - Cells that failed are hatched in a heat map and hollow elsewhere, and are counted below the picture. A mean of
      which some cells failed is that of the others: a ring in a heat map, a hollow mark on a line.

    Parameters
    ----------
    dataset
        What `af.sweep` returned, or a part of it, such as ``dataset.sel(n=32)``.
    show
        The names of the variables to draw; all whose cells are numbers if left out.
    average
        The names of the axes over which means are taken; ``()`` for none. Left out, axes called "seed".
    lines
        The name of an axis whose values are lines in one panel.
    ax
        Axes to draw on, if the picture has one panel.

    Examples
    --------
    >>> import numpy as np, xarray
    >>> beta, seed = np.linspace(0.0, 4.0, 9), np.arange(20)
    >>> rng = np.random.default_rng(0)
    >>> found = xarray.Dataset(
    ...     {"clusters": (("beta", "seed"), beta[:, None] + rng.standard_normal((9, 20)))},
    ...     {"beta": beta, "seed": seed},
    ... )
    >>> figure = sweep(found)
    >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel(), figure.get_supxlabel()
    ('$\\\\beta$', 'clusters', 'means of 20 seeds with 95 per cent intervals')
    """
    if ax is not None and not hasattr(ax, "pcolormesh"):
        raise InputError(f"ax is {ax!r}, expected axes of Matplotlib: leave ax out for a new figure")
    shown = study(dataset, show, average, lines)
    each = 1 if shown.panels is None else len(shown.panels.places)
    count = each * len(shown.values)
    if count > MOST_PANELS:
        raise InputError(f"the picture would have {count} panels, expected {MOST_PANELS} at most: choose with show")
    if ax is not None and count > 1:
        raise InputError(f"ax has room for one panel, but the picture has {count}: leave ax out")
    columns = _columns(len(shown.values), each)
    with look():
        panels: list[Any] = _pages(shown, each, columns) if ax is None else [ax]
        for k, values in enumerate(shown.values):
            _draw(panels[k * each : (k + 1) * each], shown, values)
        if shown.panels is not None:
            # In rows of variables, the first row says which column is which.
            for k, one in enumerate(panels[: each if columns == each else None]):
                one.set_title(shown.panels.says(k % each), fontsize=11)
        _outside(panels, columns, alike=shown.up is not None or each > 1)
        _say(panels, shown, own=ax is None)
    figure: Figure = panels[0].figure
    return figure


def _columns(variables: int, each: int) -> int:
    """Return how many panels stand side by side: those of a variable, if there are several of both.

    >>> [_columns(1, 5), _columns(4, 1), _columns(2, 5)]
    [3, 2, 5]
    """
    count = variables * each
    return each if variables > 1 and each > 1 else 2 if count == 4 else min(count, COLUMNS)


def _pages(shown: Study, each: int, columns: int) -> list[Any]:
    """Return empty panels, `each` for a variable, that share what they have in common."""
    count, coloured = each * len(shown.values), shown.up is not None
    rows = -(-count // columns)
    one = (6.0, 4.2) if coloured else (5.2, 3.9)
    figure = sheet(*(one if count == 1 else (2.9 * columns + 0.9, 2.6 * rows + 0.6)))
    panels: list[Any] = []
    for k in range(count):
        # Heat maps share both axes, lines the values of one variable.
        like = panels[0] if panels and coloured else panels[k - k % each] if k % each else None
        panels.append(figure.add_subplot(rows, columns, k + 1, sharex=panels[0] if panels else None, sharey=like))
    return panels


def _outside(panels: list[Any], columns: int, alike: bool) -> None:
    """Leave labels to the panels at the lower end and, where all panels of a row are `alike`, to those on the left."""
    for k, ax in enumerate(panels):
        if k + columns < len(panels):
            ax.set_xlabel("")
            ax.tick_params(labelbottom=False)
        if k % columns and alike:
            ax.set_ylabel("")
            ax.tick_params(labelleft=False)


def _draw(panels: list[Any], shown: Study, values: Values) -> None:
    """Draw a variable over its panels, all on one scale."""
    for ax in panels:
        shown.across.put(ax, "x")
        if shown.up is not None:
            shown.up.put(ax, "y")
    if shown.up is None:
        for p, ax in enumerate(panels):
            for k in range(values.mean.shape[1]):
                _line(ax, shown, values, p, k)
            if values.decades:
                log_axis(ax, "y")
            else:
                ax.yaxis.set_major_formatter(figure_of)
                ax.yaxis.get_major_locator().set_params(integer=values.whole)
            ax.set_ylabel(values.label)
        # Panels of a variable share its scale, which is known when all of them are drawn.
        if values.floor is not None:
            panels[0].set_ylim(values.floor)
        return
    scale, ticks = _colours(values)
    draw = _dots if shown.design else _cells
    drawn = [draw(ax, shown, values, p, scale) for p, ax in enumerate(panels)]
    bar = shade_bar(panels[0].figure, drawn[0], panels, shrink=1.0 if len(panels) == 1 else 0.9, aspect=24)
    bar.set_label(values.label)
    if ticks is not None:
        bar.set_ticks(ticks)


def _colours(values: Values) -> tuple[Any, Array | None]:
    """Return the scale of colours for a variable, and the numbers on its bar if these are not left to Matplotlib."""
    from matplotlib.colors import BoundaryNorm, LogNorm, Normalize

    low, high = float(values.seen.min()), float(values.seen.max())
    if values.whole and high - low < MOST_STEPS:
        steps = np.arange(low, high + 1)
        return BoundaryNorm(np.append(steps - 0.5, high + 0.5), 256), steps
    if values.decades:
        return LogNorm(low, high), None
    return Normalize(low, high) if low < high else Normalize(low - 1, high + 1), None


def _cells(ax: Any, shown: Study, values: Values, p: int, scale: Any) -> Any:
    """Draw a heat map; places without a value are hatched, and means that lack some of their cells wear a ring."""
    from matplotlib.collections import PolyCollection

    assert shown.up is not None
    mean, x, y = values.mean[p, 0], shown.across.edges, shown.up.edges
    # Grey to the eye of a colour-blind reader or a printer, it still goes from dark to light.
    image = ax.pcolormesh(
        x, y, np.ma.masked_invalid(mean.T), norm=scale, cmap="cividis", rasterized=True, gid="cells"
    )  # fmt: skip
    ax.set(xlim=x[[0, -1]], ylim=y[[0, -1]])
    empty = np.argwhere(~np.isfinite(mean))
    corners = [[(x[i + a], y[j + b]) for a, b in ((0, 0), (1, 0), (1, 1), (0, 1))] for i, j in empty]
    hatch: dict[str, Any] = {"facecolor": tone().paper, "edgecolor": tone().pencil, "hatch": "/////", "linewidth": 0.0}
    if corners:
        ax.add_collection(PolyCollection(corners, **hatch, gid="failed"), autolim=False)
    i, j = np.nonzero(values.part[p, 0])
    if len(i):
        ring = {"facecolors": tone().paper, "edgecolors": tone().ink, "linewidths": 0.8}
        ax.scatter(shown.across.places[i], shown.up.places[j], s=14, **ring, gid="part")
    return image


def _dots(ax: Any, shown: Study, values: Values, p: int, scale: Any) -> Any:
    """Draw points of a design in the plane of two of their coordinates; those without a value are hollow."""
    assert shown.up is not None
    mean, x, y = values.mean[p, 0, :, 0], shown.across.places, shown.up.places
    there = np.isfinite(mean)
    dots = ax.scatter(x[there], y[there], c=mean[there], norm=scale, cmap=seen_ramp(), s=30, gid="dots")
    if not there.all():
        hollow: dict[str, Any] = {"facecolors": "none", "edgecolors": tone().pencil, "linewidths": 1.0}
        ax.scatter(x[~there], y[~there], s=30, **hollow, gid="failed")
    part = values.part[p, 0, :, 0]
    if part.any():
        ax.scatter(x[part], y[part], s=70, facecolors="none", edgecolors=tone().ink, linewidths=0.8, gid="part")
    return dots


def _line(ax: Any, shown: Study, values: Values, p: int, k: int) -> None:
    """Draw a variable over one axis: a line with a band, or marks with bars where values are words or points."""
    mean, low, high, part = (a[p, k, :, 0] for a in (values.mean, values.low, values.high, values.part))
    x, there = shown.across.places, np.isfinite(mean)
    (colour,), marker = colours([k]), MARKERS[k % len(MARKERS)]
    label = None if shown.lines is None else shown.lines.says(k)
    apart = shown.design or shown.across.scale == "words"
    if shown.across.scale == "words":
        # Marks of several lines stand side by side.
        x = x + BESIDE * (k - (values.mean.shape[1] - 1) / 2)
    # A value between two that failed has no line to be seen by.
    marked = apart or len(x) <= MOST_MARKS or not there.all()
    style = {"color": colour, "marker": marker if marked else "", "ms": 4}
    bars = np.isfinite(low)
    if values.floor is not None:
        low = np.maximum(low, values.floor)
    if apart:
        ax.vlines(x[bars], low[bars], high[bars], color=colour, lw=1.0, gid="intervals")
    elif bars.any():
        ax.fill_between(x, low, high, color=colour, alpha=0.2, lw=0, gid="intervals")
    ax.plot(x, mean, ls="" if apart else "-", **style, label=label, gid="values")
    if part.any():
        ax.plot(x[part], mean[part], **{**style, "marker": marker}, ls="", mfc=tone().paper, gid="part")
    # At the lower end of the panel, whatever the scale of its values.
    if not there.all():
        ends = {"transform": ax.get_xaxis_transform(), "clip_on": False, "zorder": 4}
        ax.plot(
            x[~there], np.zeros((~there).sum()), ls="", marker=marker, ms=5, mfc=tone().paper, mec=colour, **ends,
            gid="failed",
        )  # fmt: skip


def _intervals(shown: Study) -> str:
    """Say which means have an interval, and whether some intervals are cut."""
    there = np.concatenate([np.isfinite(values.low[np.isfinite(values.mean)]) for values in shown.values])
    if not there.any():
        return f", no intervals for fewer than {FEWEST}"
    some = "" if there.all() else f", none for fewer than {FEWEST}"
    cut = any(values.floor is not None for values in shown.values)
    return f" with 95 per cent intervals{some}{', cut where they go below the panel' if cut else ''}"


def _errors(shown: Study) -> str:
    errors = np.concatenate([values.error[np.isfinite(values.error)] for values in shown.values])
    return f", standard errors up to {errors.max():.2g}" if len(errors) and len(shown.values) == 1 else ""


def _say(panels: list[Any], shown: Study, own: bool) -> None:
    """Write the key of the lines, and below the picture what it leaves out of sight."""
    flat = shown.up is None
    parts = []
    if shown.means:
        parts.append(f"means of {shown.means}{_intervals(shown) if flat else _errors(shown)}")
    if shown.lost:
        some = any(values.part.any() for values in shown.values)
        rest = (", on the axis if no value is left" if flat else ", in a ring: mean of the others") if some else ""
        parts.append(f"{shown.lost} ({'hollow' if flat or shown.design else 'hatched'}{rest})")
    text = "; ".join([*shown.notes, *parts])
    figure = panels[0].figure
    if shown.lines is not None:
        handles, labels = panels[0].get_legend_handles_labels()
        if own:
            figure.legend(handles, labels, loc="outside upper center", ncols=-(-len(labels) // -(-len(labels) // 4)))
        else:
            panels[0].legend()
    style: dict[str, Any] = {"fontsize": 9.5, "color": tone().quiet}
    if own and text:
        figure.supxlabel("\n".join(textwrap.wrap(text, int(LETTERS * figure.get_figwidth()))), **style)
    elif text:
        panels[0].set_title("\n".join(textwrap.wrap(text, 60)), **style)
