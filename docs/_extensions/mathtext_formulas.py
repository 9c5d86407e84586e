"""Formulas between dollar signs, drawn by Matplotlib as outlines in the page itself.

No script is loaded, from this host or another, and the outlines have the colour of the text around them, on light and
on dark screens. What a formula says is its source, for those who do not see it.
"""

from __future__ import annotations

from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from docutils import nodes  # type: ignore[import-untyped]
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import text_to_path
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Outlines are computed at this size, in units of a drawing; on the page a formula is so much larger than the text,
# since its letters are smaller for their size.
UNITS, LARGER = 100.0, 1.13
# A line may end after a drawing, also before a full stop, unless this sign without width follows.
JOINED = "&#8288;"
LETTERS = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C", Path.CLOSEPOLY: "Z"}


@cache
def drawn(formula: str) -> str:
    """Return a formula, perhaps written on several lines, as a drawing that stands on the line of the text.

    >>> drawn("x")[:46]
    '<svg class="formula" role="img" aria-label="x"'
    """
    formula = " ".join(formula.split())
    said, font = f"${formula}$", FontProperties(size=UNITS, math_fontfamily="stix")
    corners, codes = map(np.asarray, text_to_path.get_text_path(font, said, ismath=True))
    width, _, _ = text_to_path.get_text_width_height_descent(said, font, ismath=True)
    # The letters of this font have points where they are widest and highest, so that no curve leaves the box of these.
    points = corners[codes != Path.CLOSEPOLY]
    (x0, y0), (x1, y1) = points.min(axis=0), points.max(axis=0)
    left, top, right, low = min(0.0, x0) - 2, y1 + 2, max(width, x1) + 2, min(0.0, y0) - 2
    wide, high = right - left, top - low
    em = LARGER / UNITS
    style = f"width: {wide * em:.3f}em; height: {high * em:.3f}em; vertical-align: {low * em:.3f}em"
    box = f"{left:.0f} {-top:.0f} {wide:.0f} {high:.0f}"
    return (
        f'<svg class="formula" role="img" aria-label="{escape(formula)}" '
        f'viewBox="{box}" style="{style}"><path d="{_outline(corners, codes)}"/></svg>'
    )


def _outline(corners: NDArray[np.float64], codes: NDArray[np.uint8]) -> str:
    """Return an outline in the words of SVG, whose vertical axis points down.

    >>> _outline(np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 0.0], [0.0, 0.0]]), np.array([1, 3, 3, 79]))
    'M0.0 -0.0Q1.0 -2.0 3.0 -0.0Z'
    """
    words, more = [], 0
    for kind, (x, y) in zip(codes.tolist(), (corners * (1, -1)).tolist(), strict=True):
        if kind == Path.CLOSEPOLY:
            words.append("Z")
            continue
        words.append(f"{' ' if more else LETTERS[kind]}{x:.1f} {y:.1f}")
        # A curve has two or three points, each with its code.
        more = (more or Path.NUM_VERTICES_FOR_CODE[kind]) - 1
    return "".join(words)


def inline(translator: Any, node: nodes.math) -> None:
    """Write a formula in a line of text, which does not end between the formula and a sign after it."""
    translator.body.append(drawn(node.astext()) + JOINED)
    raise nodes.SkipNode


def displayed(translator: Any, node: nodes.math_block) -> None:
    """Write a formula on a line of its own, which scrolls by itself where it is too long."""
    translator.body.append(f'<div class="formulas">{drawn(node.astext())}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_html_math_renderer("mathtext", (inline, None), (displayed, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
