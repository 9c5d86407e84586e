"""The visual language of all figures: colours, type, sizes."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.core.inputs import InputError
from attnflow.serialise import name_and_parameters

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

    from attnflow.laws import Law
    from attnflow.motions import Motion


@dataclass(frozen=True)
class Tone:
    """The colours of a picture: its paper, four inks from strong to faint, and those that tell groups apart.

    `others` is for groups beyond all shades of the palette; `ramp` leads from nothing to much.
    """

    paper: str
    ink: str
    quiet: str
    pencil: str
    wire: str
    palette: tuple[str, ...]
    others: str
    ramp: tuple[str, ...]


# The colours of Okabe and Ito, which colour-blind readers tell apart, less their yellow, too pale for a thin line; on
# dark paper the same hues, lighter.
LIGHT = Tone(
    paper="#FFFFFF",
    ink="#262626",
    quiet="#5C5C5C",
    pencil="#8A8A8A",
    wire="#D0D0D0",
    palette=("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000"),
    others="#8C8C8C",
    ramp=("#FFFFFF", "#A6CDE6", "#0072B2", "#06263B"),
)
DARK = Tone(
    paper="#14171C",
    ink="#ECECEC",
    quiet="#B4B8BF",
    pencil="#7C828C",
    wire="#3E444E",
    palette=("#4FA8E0", "#F07C3E", "#2CC295", "#F2B134", "#E39AC2", "#A5DBF8", "#FFFFFF"),
    others="#8C8C8C",
    ramp=("#14171C", "#1F4E70", "#4FA8E0", "#EAF6FF"),
)

DPI = 150
DASHED = (0, (4, 3))
# Parameters that papers call by a Greek letter.
GREEK = {name: name for name in ("alpha", "beta", "gamma", "delta", "kappa", "sigma", "omega")} | {"eps": "varepsilon"}
# The least contrast of a mark that stands alone.
MARKED = 3.0

_tone: ContextVar[Tone] = ContextVar("tone", default=LIGHT)


def tone() -> Tone:
    """Return the colours of the picture that is being drawn."""
    return _tone.get()


def _style(colours: Tone) -> dict[str, Any]:
    return {
        "animation.embed_limit": 20.0,
        "axes.axisbelow": True,
        "axes.edgecolor": colours.pencil,
        "axes.facecolor": colours.paper,
        "axes.grid": False,
        "axes.labelcolor": colours.ink,
        "axes.labelsize": 11,
        "axes.linewidth": 0.7,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlecolor": colours.ink,
        "axes.titlesize": 12.5,
        "figure.constrained_layout.h_pad": 0.04,
        "figure.constrained_layout.w_pad": 0.05,
        "figure.dpi": DPI,
        "figure.facecolor": colours.paper,
        # STIX comes with Matplotlib: figures are the same on every machine, and text agrees with the formulas.
        "font.family": "STIXGeneral",
        "font.size": 11,
        "grid.color": colours.wire,
        "grid.linewidth": 0.5,
        "legend.fontsize": 10.5,
        "legend.frameon": False,
        "lines.linewidth": 1.4,
        "lines.solid_capstyle": "round",
        "mathtext.fontset": "stix",
        "pdf.fonttype": 42,
        "savefig.dpi": "figure",
        "svg.hashsalt": "attnflow",
        "text.color": colours.ink,
        "xtick.color": colours.pencil,
        "xtick.labelcolor": colours.ink,
        "xtick.labelsize": 10,
        "ytick.color": colours.pencil,
        "ytick.labelcolor": colours.ink,
        "ytick.labelsize": 10,
    }


# What real LaTeX needs: its own fonts, and the packages that our formulas use.
_LATEX: dict[str, Any] = {
    "text.usetex": True,
    "font.family": "serif",
    "text.latex.preamble": r"\usepackage{amsmath}\usepackage{amssymb}",
}


def pyplot() -> Any:
    """Return `matplotlib.pyplot` with its backend loaded, or say how to install it.

    A backend is loaded at first use, and that of notebooks changes settings then, such as `plt.isinteractive()`. Inside
    a block of `look` these changes would be undone at its end, and the notebook would show no picture from then on.
    """
    try:
        plt: Any = import_module("matplotlib.pyplot")
    except ImportError:
        raise InputError("plotting needs matplotlib: pip install 'attnflow[plot]'") from None
    # The one public call that loads the backend and makes no figure; an open window is drawn again at most.
    plt.draw_if_interactive()
    return plt


@contextmanager
def look(dark: bool | None = None, latex: bool | None = None) -> Iterator[None]:
    """Draw in the style of this library, within the block only: colours, type and line widths.

    `dark` asks for dark paper, `latex` for type set by LaTeX, which has to be installed; both stay as they are in a
    block within a block that leaves them out.

    >>> import matplotlib.pyplot as plt
    >>> with look():
    ...     plt.rcParams["mathtext.fontset"]
    'stix'
    >>> with look(dark=True), look():
    ...     plt.rcParams["figure.facecolor"]
    '#14171C'
    """
    plt = pyplot()
    if latex and shutil.which("latex") is None:
        raise InputError("no LaTeX was found: install it, or leave latex out, which sets formulas by Matplotlib")
    chosen = tone() if dark is None else DARK if dark else LIGHT
    token = _tone.set(chosen)
    typeset = _LATEX if (plt.rcParams["text.usetex"] if latex is None else latex) else {"text.usetex": False}
    try:
        with plt.rc_context({**_style(chosen), **typeset}):
            yield
    finally:
        _tone.reset(token)
        from attnflow.figures.sheets import finish

        finish()


def sheet(width: float, height: float) -> Figure:
    """Return an empty figure of the given size in inches, its panels kept apart."""
    pyplot()
    from attnflow.figures.sheets import opened

    return opened(width, height)


def colours(labels: Iterable[int]) -> list[str]:
    """Return the colour of each label, of tokens and of their cells alike.

    The palette comes first, then the palette again in other shades, 28 colours in all; then one grey for the rest.

    >>> colours([0, 1, 0, 7, 30])
    ['#0072B2', '#D55E00', '#0072B2', '#467f9f', '#8C8C8C']
    """
    known = shades(tone())
    return [known[k] if 0 <= k < len(known) else tone().others for k in labels]


@cache
def shades(chosen: Tone) -> tuple[str, ...]:
    """Return the palette, and its colours mixed with a grey, with ink, and with another grey."""
    others = ((chosen.others, 0.5), (chosen.ink, 0.5), (chosen.quiet, 0.65))
    return (*chosen.palette, *(_mixed(hue, other, part) for other, part in others for hue in chosen.palette))


def _mixed(hue: str, other: str, part: float) -> str:
    """Return a colour with a part of another one."""
    pairs = [(int(hue[k : k + 2], 16) / 255, int(other[k : k + 2], 16) / 255) for k in (1, 3, 5)]
    return "#" + "".join(f"{round((a + part * (b - a)) * 255):02x}" for a, b in pairs)


def figure_of(value: float, _: Any = None) -> str:
    """Return the number at a tick: plain up to a few digits, else with a power of ten.

    >>> figure_of(0.5), figure_of(1000), figure_of(2e6), figure_of(1e-9), figure_of(-1e4)
    ('0.5', '1000', '$2\\\\times 10^{6}$', '$10^{-9}$', '$-10^{4}$')
    """
    if math.isinf(value):
        return rf"${'-' if value < 0 else ''}\infty$"
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:g}".replace("-", "\N{MINUS SIGN}")
    digits, power = f"{abs(value):.2e}".split("e")
    lead = "" if float(digits) == 1 else f"{float(digits):g}\\times "
    return f"${'-' if value < 0 else ''}{lead}10^{{{int(power)}}}$"


def typeset(part: Law | Motion) -> str:
    """Return the name of a law or a motion with its numbers and whatever else was given, as figures write formulas.

    >>> import attnflow as af
    >>> typeset(af.Softmax(B=[[1.0]])), typeset(af.Hardmax(ties="first")), typeset(af.Layers(gamma=np.cos))
    ('Softmax, $\\\\beta = 1$, $B$', "Hardmax, ties = 'first'", 'Layers, $\\\\gamma$')
    >>> typeset(af.Positional(af.Masked(af.Hardmax(), causal=True), rope=0.1))  # what is inside comes first
    'Hardmax, causal, rope = 0.1'
    """
    name, given = name_and_parameters(part, numbers=True)
    if inside := getattr(part, "around", ""):
        name = typeset(getattr(part, inside))
        given = {each: None if value == "True" else value for each, value in given.items() if each != inside}
    return ", ".join([name, *(formula(each, value) for each, value in given.items())])


def formula(name: str, value: str | None = None) -> str:
    """Return a parameter and its value, if given, as a formula if its name is a letter.

    >>> formula("beta"), formula("n", "8"), formula("law", "softmax")
    ('$\\\\beta$', '$n = 8$', 'law = softmax')
    """
    letter = rf"\{GREEK[name]}" if name in GREEK else name if len(name) == 1 else None
    if value is None:
        return name if letter is None else f"${letter}$"
    try:
        number = figure_of(float(value)).strip("$")
    except ValueError:
        return f"{name} = {value}"
    return f"{name} = {value}" if letter is None else f"${letter} = {number}$"


def ramp() -> Colormap:
    """Return the scale from paper to ink, through the first colour, for densities and matrices."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("ramp", tone().ramp)


def seen_ramp() -> Colormap:
    """Return the part of the scale from paper to ink that is seen on paper, for marks that stand alone.

    Its palest colour has the contrast MARKED to the paper (W3C, Web Content Accessibility Guidelines 2.1, 1.4.11).

    >>> round(contrast(seen_ramp()(0.0)), 1), contrast(seen_ramp()(1.0)) > 12
    (3.0, True)
    """
    from matplotlib.colors import ListedColormap

    shades = ramp()(np.linspace(0.0, 1.0, 1024))
    seen = shades[[contrast(shade) >= MARKED for shade in shades]]
    return ListedColormap(seen[np.linspace(0, len(seen) - 1, 256).round().astype(int)], "seen_ramp")


def contrast(colour: Any) -> float:
    """Return the contrast of a colour to the paper, from 1 to 21: (L_1 + 0.05) / (L_2 + 0.05), L the luminances.

    >>> round(contrast("black"), 1), round(contrast("#8A8A8A"), 1)
    (21.0, 3.5)
    """
    from matplotlib.colors import to_rgb

    def luminance(rgb: Any) -> float:
        parts = np.asarray(rgb)
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    low, high = sorted((luminance(to_rgb(colour)), luminance(to_rgb(tone().paper))))
    return (high + 0.05) / (low + 0.05)


def beside(ax: Any, text: str, place: Any, away: Any, **style: Any) -> None:
    """Write beside a place, `away` from it in points."""
    ax.annotate(text, place, xytext=away, textcoords="offset points", **style)


def found_by(call: str, what: Any, kind: type) -> None:
    """Refuse to draw what is not of the kind that this call returns."""
    if not isinstance(what, kind):
        raise InputError(f"what is to be drawn is of type {type(what).__name__}, expected what {call} returned")


def log_axis(ax: Any, which: str) -> None:
    """Make an axis logarithmic, "x" or "y", with the numbers that it has room for."""
    ax.set(**{f"{which}scale": "log"})
    log_numbers(getattr(ax, f"{which}axis"))


def log_numbers(axis: Any) -> None:
    """Number a logarithmic axis: on less than two decades it has room for more numbers, and needs them."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0), numticks=9))
    axis.set_major_formatter(figure_of)
    axis.set_minor_formatter(NullFormatter())
