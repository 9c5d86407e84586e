"""The table of the hypotheses of theorems as a picture: every head of every layer, beside null models."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from attnflow.core.inputs import Array, InputError
from attnflow.figures.style import DASHED, figure_of, log_axis, look, sheet, tone

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Panels by column of the table: a title, and whether the scale is logarithmic.
PANELS = {
    "plus": (r"positive part of sym$(B)$", False),
    "sym": (r"symmetric part of $B$", False),
    "beta_sphere": (r"largest $\beta$, $d\,|B|_2$", True),
    "leading": (r"heads: $V$ has a leading $\lambda > 0$", False),
    "hyperplanes": ("heads: hyperplane theorem", False),
    "entropy": (r"entropy of attention $/\,\log n$", False),
}
SHARES = ("leading", "hyperplanes")
COLUMNS = 3
STYLES: tuple[Any, ...] = (DASHED, (0, (1.2, 1.2)))


class Table(Protocol):
    """What `checkpoints.hypotheses` returns."""

    def dataset(self) -> Any: ...


def hypotheses(table: Table) -> Figure:
    """Draw how far the heads of a model are from the hypotheses of theorems, layer by layer, beside null models.

    Dots are heads and the solid line is their mean. Of a null model, the line is the mean over heads and seeds, and the
    band holds all its heads, of all seeds. Panels that count heads have no dots: their lines are shares of the heads
    of a layer, and bands reach from the least to the largest share of a seed.

    The columns are those of `checkpoints.hypotheses`: `plus`, `sym`, `beta_sphere`, `leading`, the heads to which the
    theorem on hyperplanes applies, and `entropy`, if it is there.

    Examples
    --------
    >>> import attnflow as af
    >>> rng = np.random.default_rng(0)
    >>> Q, K, V = rng.standard_normal((3, 4, 2, 8))
    >>> block = af.Block(af.Attention(Q, K, V, rng.standard_normal((4, 8, 2))))
    >>> figure = hypotheses(af.checkpoints.hypotheses(af.Transformer([block] * 3)))
    >>> len(figure.axes)
    5

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465).
    """
    if not hasattr(table, "dataset") or not hasattr(table, "nulls"):
        raise InputError(f"{type(table).__name__} has no table of heads: give what checkpoint.hypotheses() returned")
    data = table.dataset()
    shown = [name for name in PANELS if name in data]
    rows = -(-len(shown) // COLUMNS)
    with look():
        figure = sheet(7.4, 2.2 * rows + 0.7)
        axes = np.ravel(figure.subplots(rows, COLUMNS, sharex=True))
        for k, name in enumerate(shown):
            with warnings.catch_warnings():
                # A layer whose heads all have B = 0 has no share of anything: the line has a gap there.
                warnings.filterwarnings("ignore", "Mean of empty slice|All-NaN slice", RuntimeWarning)
                _panel(axes[k], data, name)
            axes[k].set_title(PANELS[name][0], fontsize=10.5)
            if k + COLUMNS >= len(shown):
                axes[k].set_xlabel("layer")
                axes[k].xaxis.set_tick_params(labelbottom=True)
        for ax in axes[len(shown) :]:
            ax.remove()
        if len(data["layer"]) == 1:
            axes[0].set_xticks([0])
        else:
            axes[0].xaxis.get_major_locator().set_params(integer=True)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=9.5)
    return figure


def _panel(ax: Any, data: Any, name: str) -> None:
    values: Array = data[name].values.astype(np.float64)
    layers = np.arange(len(values))
    # A model with one layer has no line: what is drawn reaches half a layer to each side.
    wide = layers if len(layers) > 1 else np.array([-0.4, 0.4])
    for k, kind in enumerate(data["null"].values if "null" in data.coords else ()):
        colour = tone().palette[1 + k % 6]
        others = data[f"{name}_null"].sel(null=kind).values.astype(np.float64)
        spread = others.mean(axis=2, keepdims=True) if name in SHARES else others
        low, high, middle = (
            np.broadcast_to(one, wide.shape)
            for one in (np.nanmin(spread, (0, 2)), np.nanmax(spread, (0, 2)), np.nanmean(others, (0, 2)))
        )
        label = f"null: {kind}, {len(others)} seed{'s' * (len(others) > 1)}"
        ax.fill_between(wide, low, high, color=colour, alpha=0.22, lw=0, zorder=1 + k, gid=f"band {kind}")
        ax.plot(wide, middle, color=colour, ls=STYLES[k % 2], lw=1.4, zorder=3 + k, label=label, gid=f"null {kind}")
    own = tone().palette[0]
    if name not in SHARES:
        heads = np.repeat(layers, values.shape[1])
        ax.scatter(heads, values.ravel(), s=7, color=own, alpha=0.45, lw=0, zorder=5, label="a head", gid="heads")
    mean = np.broadcast_to(np.nanmean(values, axis=1), wide.shape)
    ax.plot(wide, mean, color=own, lw=1.9, zorder=6, label="mean of heads", gid="mean")
    if PANELS[name][1]:
        log_axis(ax, "y")
    elif name in SHARES:
        ax.set_ylim(-0.03, 1.03)
    if not PANELS[name][1]:
        ax.yaxis.set_major_formatter(figure_of)
