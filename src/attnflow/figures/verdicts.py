"""Claims as a matrix of verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.claims.claim import DERIVED, FALSE, OPEN, PROVED, all
from attnflow.claims.verdict import HOLDS, NOT_MET, UNDECIDED, VIOLATED
from attnflow.claims.witness import REFUTED, SURVIVES
from attnflow.core.inputs import InputError
from attnflow.figures.style import look, sheet, tone

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    Row = Mapping[str, Any]

# Inches: the width of half a page, the height of a row, the middle of each column, the room for heads and for the key.
HALF, LINE, HEAD, KEY = 3.5, 0.172, 0.3, 0.5
COLUMNS = {"status": 1.73, "samples": 2.17, "search": 2.62, "certified": 3.15}
SMALL = 9.0
# How many letters a line holds: of a heading, and of the name of a claim, which leaves room for the marks.
HEADING, NAME = 66, 28
# Stands, falls, or neither: shapes that are told apart without their colours.
CIRCLE = ("o", 5.0)
SHAPES: dict[str, tuple[Any, float]] = {
    PROVED: CIRCLE, DERIVED: CIRCLE, OPEN: CIRCLE, FALSE: ("x", 5.0), HOLDS: ("check", 6.5), VIOLATED: ("x", 5.0),
    SURVIVES: ("check", 6.5), REFUTED: ("x", 5.0), UNDECIDED: ("$?$", 5.0), NOT_MET: ("s", 4.0),
}  # fmt: skip
MEANINGS = {
    PROVED: "proved", DERIVED: "derived", OPEN: "open", HOLDS: "holds; search finds nothing",
    VIOLATED: "false as printed; violated; refuted", UNDECIDED: "undecided", NOT_MET: "hypotheses not met",
}  # fmt: skip


def verdicts(report: Mapping[str, Any]) -> Figure:
    """Draw claims as a matrix: status, verdict on samples, what a search found, and how that is certified.

    `report` is what ``attnflow check all --json`` writes, or ``make claims``, which also
    searches: its "claims" are rows with "claim", "status", "outcome", "certified" and perhaps "search". A claim that
    should hold and does not has a shaded row.

    >>> import attnflow as af
    >>> from attnflow.claims.report import checked, report
    >>> rows = list(checked([af.claims.get("fw/cells")]))
    >>> figure = verdicts(report(rows, seed=0))
    >>> [text.get_text() for text in figure.axes[0].texts if text.get_gid() == "claims"]
    ['cells']
    """
    papers = _papers(report)
    halves = [half for half in _balanced(papers) if half]
    height = HEAD + KEY + LINE * max(_height(half) for half in halves)
    with look():
        width = HALF * len(halves) if len(halves) > 1 else 1.4 * HALF
        figure = sheet(width, height)
        figure.set_layout_engine("none")
        for k, half in enumerate(halves):
            ax: Any = figure.add_axes((k * HALF / width, KEY / height, HALF / width, 1 - KEY / height))
            # Inches, from the upper left corner.
            ax.set(xlim=(0, HALF), ylim=(height - KEY, 0))
            ax.set_axis_off()
            _matrix(ax, half)
        _key(figure)
    return figure


def alarming(row: Row) -> bool:
    """Say whether a claim that should hold is violated or refuted."""
    falls = row["outcome"] == VIOLATED or row.get("search") == REFUTED
    return bool(row["status"] in (PROVED, DERIVED) and falls)


def _papers(report: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Return the rows by paper."""
    found: dict[str, list[Row]] = {}
    try:
        for row in report["claims"]:
            _ = row["status"], row["outcome"], row["certified"]
            found.setdefault(row["claim"].partition("/")[0], []).append(row)
    except (KeyError, TypeError, AttributeError):
        raise InputError("the report has no rows of claims: give what `attnflow check all --json` wrote") from None
    if not found:
        raise InputError("the report is of no claims: give what `attnflow check all --json` wrote")
    return found


def _height(half: Mapping[str, Sequence[Row]]) -> float:
    """Return the height of some papers, in lines: a heading has half a line of room."""
    return sum(0.6 + len(_heading(short)) + sum(len(_lines(row)) for row in rows) for short, rows in half.items())


def _heading(short: str) -> list[str]:
    """Return the short name and the title of a paper, in lines."""
    titles = {claim.paper.short: claim.paper.title for claim in reversed(all())}
    return wrap(f"{short}: {titles.get(short, '')}", HEADING, subsequent_indent="    ")


def _lines(row: Row) -> list[str]:
    """Return the name of a claim within its paper, in two lines if it is long."""
    name = str(row["claim"].partition("/")[2])
    if len(name) <= NAME:
        return [name]
    front, slash, last = name.rpartition("/")
    return [f"{front}{slash}", f"    {last}"]


def _balanced(papers: Mapping[str, list[Row]]) -> list[dict[str, list[Row]]]:
    """Share papers between two halves of about one height, each in the order given; few rows need one half only."""
    if sum(map(len, papers.values())) < 12:
        return [dict(papers)]
    heights, half_of = np.zeros(2), {}
    for name in sorted(papers, key=lambda name: -len(papers[name])):
        half_of[name] = int(heights.argmin())
        heights[half_of[name]] += _height({name: papers[name]})
    return [{name: rows for name, rows in papers.items() if half_of[name] == k} for k in (0, 1)]


def _matrix(ax: Any, papers: Mapping[str, Sequence[Row]]) -> None:
    """Draw some papers below each other."""
    for name, x in COLUMNS.items():
        ax.text(x, 0.6 * HEAD, name, ha="center", va="center", fontsize=SMALL, color=tone().quiet)
    places: dict[tuple[str, str], list[float]] = {}
    y, stripe = HEAD, 0
    for short, rows in papers.items():
        y += 0.6 * LINE
        for heading in _heading(short):
            ax.text(0.08, y + LINE / 2, heading, va="center", fontsize=SMALL, style="italic", gid="papers")
            y += LINE
        for row in rows:
            lines = _lines(row)
            height = len(lines) * LINE
            middle = y + height / 2
            # Rows that give alarm are shaded, and every other row, to guide the eye.
            if alarming(row):
                ax.axhspan(y, y + height, color=tone().palette[1], alpha=0.35, lw=0, zorder=0, gid="alarms")
            elif stripe % 2 == 0:
                ax.axhspan(y, y + height, 0.02, 0.98, color=tone().wire, alpha=0.35, lw=0, zorder=0)
            ax.text(0.12, middle, "\n".join(lines), va="center", fontsize=SMALL, linespacing=1.1, gid="claims")
            for column, key in (("status", "status"), ("samples", "outcome"), ("search", "search")):
                if row.get(key) is not None:
                    places.setdefault((column, row[key]), []).append(middle)
            how = row.get("refutation") or row["certified"]
            ax.text(COLUMNS["certified"], middle, how, ha="center", va="center", fontsize=SMALL, gid="certified")
            y, stripe = y + height, stripe + 1
    for (column, what), ys in places.items():
        ax.plot(np.full(len(ys), COLUMNS[column]), ys, **_shape(what), gid=f"{column}: {what}")


def _shape(what: str) -> dict[str, Any]:
    """Return how a status or an outcome is drawn."""
    from matplotlib.path import Path

    if what not in SHAPES:
        raise InputError(f"the report says {what!r} of a claim, expected one of {', '.join(SHAPES)}")
    marker, size = SHAPES[what]
    falls = marker == "x"
    colour = tone().palette[1] if falls else tone().palette[0] if marker == "check" else tone().ink
    look: dict[str, Any] = {"ls": "", "ms": size, "mec": colour, "mfc": colour, "mew": 1.6 if falls else 0.9}
    if marker == "check":
        return {**look, "marker": Path([(-0.5, 0.05), (-0.12, -0.4), (0.55, 0.5)]), "mfc": "none", "mew": 1.3}
    if what in (OPEN, NOT_MET):
        return {**look, "marker": marker, "mfc": tone().paper}
    if what == DERIVED:
        return {**look, "marker": marker, "fillstyle": "left", "markerfacecoloralt": tone().paper}
    return {**look, "marker": marker, "mew": 0.4 if marker == "$?$" else look["mew"]}


def _key(figure: Any) -> None:
    """Say what the shapes mean."""
    from matplotlib.lines import Line2D

    shown = {str(line.get_gid()).partition(": ")[2] for ax in figure.axes for line in ax.lines}
    same = {FALSE: VIOLATED, REFUTED: VIOLATED, SURVIVES: HOLDS}
    used = [what for what in MEANINGS if what in {same.get(one, one) for one in shown}]
    marks = [Line2D([], [], **_shape(what)) for what in used]
    named = [MEANINGS[what] for what in used]
    style = {"fontsize": SMALL, "handletextpad": 0.2, "columnspacing": 1.2, "labelcolor": tone().quiet}
    figure.legend(marks, named, loc="lower center", ncols=min(len(used), 5), **style)
