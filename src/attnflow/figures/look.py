"""The visual language of all figures: colours, type, sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnflow.inputs import InputError

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# The colours of Okabe and Ito, which colour-blind readers tell apart, less their yellow, too pale for a thin line.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000")
OTHERS = "#8C8C8C"
INK = "#262626"
QUIET = "#5C5C5C"
PENCIL = "#8A8A8A"
PAPER = "#FFFFFF"

DPI = 150

STYLE: dict[str, Any] = {
    "animation.embed_limit": 20.0,
    "axes.axisbelow": True,
    "axes.edgecolor": PENCIL,
    "axes.facecolor": PAPER,
    "axes.grid": False,
    "axes.labelcolor": INK,
    "axes.labelsize": 11,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlesize": 12.5,
    "figure.constrained_layout.h_pad": 0.04,
    "figure.constrained_layout.w_pad": 0.05,
    "figure.dpi": DPI,
    "figure.facecolor": PAPER,
    # STIX comes with Matplotlib: figures are the same on every machine, and text agrees with the formulas.
    "font.family": "STIXGeneral",
    "font.size": 11,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.5,
    "legend.fontsize": 10.5,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.solid_capstyle": "round",
    "mathtext.fontset": "stix",
    "pdf.fonttype": 42,
    "savefig.dpi": "figure",
    "svg.hashsalt": "attnflow",
    "text.color": INK,
    "xtick.color": PENCIL,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 10,
    "ytick.color": PENCIL,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 10,
}


def pyplot() -> Any:
    """Return `matplotlib.pyplot`, or say how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise InputError("plotting needs matplotlib: pip install 'attnflow[plot]'") from None
    return plt


@contextmanager
def look() -> Iterator[None]:
    """Draw in the style of this library: colours, type and line widths, within the block only.

    >>> import matplotlib.pyplot as plt
    >>> with look():
    ...     plt.rcParams["mathtext.fontset"]
    'stix'
    """
    with pyplot().rc_context(STYLE):
        yield


def sheet(width: float, height: float) -> Figure:
    """Return an empty figure of the given size in inches, its panels kept apart."""
    figure: Figure = pyplot().figure(figsize=(width, height), layout="constrained")
    return figure


def colours(labels: Sequence[int] | NDArray[np.int64]) -> list[str]:
    """Return the colour of each label: the palette in order, then one grey for all the rest.

    >>> colours([0, 1, 0, 30])
    ['#0072B2', '#D55E00', '#0072B2', '#8C8C8C']
    """
    return [PALETTE[k] if 0 <= k < len(PALETTE) else OTHERS for k in labels]


def figure_of(value: float, _: Any = None) -> str:
    """Return the number at a tick: plain up to a few digits, else with a power of ten.

    >>> figure_of(0.5), figure_of(1000), figure_of(2e6), figure_of(1e-9)
    ('0.5', '1000', '$2\\\\times 10^{6}$', '$10^{-9}$')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:g}".replace("-", "\N{MINUS SIGN}")
    digits, power = f"{value:.2e}".split("e")
    lead = "" if float(digits) == 1 else f"{float(digits):g}\\times "
    return f"${lead}10^{{{int(power)}}}$"


def ramp() -> Colormap:
    """Return the scale from paper to ink, through the first colour, for densities and matrices: dark is more."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("ramp", [PAPER, "#A6CDE6", PALETTE[0], "#06263B"])


def found_by(call: str, what: Any, kind: type) -> None:
    """Refuse to draw what is not of the kind that this call returns."""
    if not isinstance(what, kind):
        raise InputError(f"what is to be drawn is of type {type(what).__name__}, expected what {call} returned")


def log_numbers(axis: Any) -> None:
    """Number a logarithmic axis: on less than two decades it has room for more numbers, and needs them."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0), numticks=9))
    axis.set_major_formatter(figure_of)
    axis.set_minor_formatter(NullFormatter())
