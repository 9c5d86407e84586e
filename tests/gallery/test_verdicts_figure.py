"""The matrix of verdicts says what the stored report says, and the report what the register says."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from refusals import refused

import attnflow as af
from attnflow.claims.witness import REFUTED, SURVIVES
from attnflow.figures.gallery import named
from attnflow.figures.gallery.verdicts import stored
from attnflow.figures.verdicts import COLUMNS, verdicts

pytestmark = pytest.mark.usefixtures("figures_closed")


def texts(figure: Any, gid: str) -> list[Any]:
    return [text for ax in figure.axes for text in ax.texts if text.get_gid() == gid]


def name(text: Any) -> str:
    """The name of a claim, which may take two lines."""
    return "".join(line.strip() for line in text.get_text().splitlines())


def row_of(**changes: Any) -> dict[str, Any]:
    row = {"claim": "fw/cells", "status": "proved", "outcome": "holds", "certified": "exact", "search": SURVIVES}
    return {**row, **changes}


def test_the_stored_report_names_every_claim_with_its_status() -> None:
    rows = stored()["claims"]
    assert [(row["claim"], row["status"]) for row in rows] == [(c.id, c.status) for c in af.claims.all()], "make claims"
    assert {row["search"] for row in rows} <= {REFUTED, SURVIVES, None}
    # What is false as printed is refuted, and nothing that should hold is; what is open may be.
    for row in rows:
        if row["status"] != "open":
            assert (row["search"] == REFUTED) == (row["status"] == "false as printed"), row["claim"]


def test_the_stored_verdicts_are_those_of_today() -> None:
    rows = {row["claim"]: row for row in stored()["claims"]}
    for id in ("fw/voronoi", "fw/hull-shrinks", "hardmax/norms"):
        verdict = af.check(id)
        assert (verdict.outcome, verdict.certified) == (rows[id]["outcome"], rows[id]["certified"])


def test_marks_stand_in_the_rows_of_their_claims() -> None:
    drawing = named("claims/verdicts").draw()
    figure, rows = drawing.figure, {row["claim"].partition("/")[2]: row for row in stored()["claims"]}
    assert Counter(name(text) for text in texts(figure, "claims")) == Counter(
        row["claim"].partition("/")[2] for row in stored()["claims"]
    )
    panels: Any = figure.axes
    for ax in panels:
        height = {round(t.get_position()[1], 6): name(t) for t in ax.texts if t.get_gid() == "claims"}
        seen: dict[tuple[str, str], str] = {}
        for line in ax.lines:
            column, what = str(line.get_gid()).split(": ")
            for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True):
                assert x == COLUMNS[column]
                seen[height[round(float(y), 6)], column] = what
        for claim in height.values():
            if sum(row["claim"].endswith(f"/{claim}") for row in stored()["claims"]) > 1:
                continue
            row = rows[claim]
            found = [seen.get((claim, column)) for column in ("status", "samples", "search")]
            assert found == [row["status"], row["outcome"], row["search"]], claim
    assert drawing.shows["claims"] == len(stored()["claims"])
    assert drawing.shows["alarms"] == 0


def test_titles_are_whole() -> None:
    said = "".join(text.get_text() for text in texts(named("claims/verdicts").draw().figure, "papers"))
    titles = {claim.paper.short: claim.paper.title for claim in reversed(af.claims.all())}
    squeezed = said.replace(" ", "")
    assert all(title.replace(" ", "") in squeezed for title in titles.values())


def test_no_text_is_cut_and_names_end_before_the_marks() -> None:
    figure: Any = named("claims/verdicts").draw().figure
    figure.canvas.draw()
    for ax in figure.axes:
        heads = [text.get_window_extent() for text in ax.texts if text.get_text() in COLUMNS]
        assert all(right.x0 - left.x1 > 0.06 * figure.dpi for left, right in pairwise(heads))
        assert min(text.get_fontsize() for text in ax.texts) >= 9
        for text in ax.texts:
            box = ax.transData.inverted().transform(text.get_window_extent())
            assert box[:, 0].min() >= 0
            assert box[:, 0].max() <= (COLUMNS["status"] - 0.05 if text.get_gid() == "claims" else 3.5), text.get_text()


def test_a_proved_claim_that_falls_gives_alarm() -> None:
    for row, alarms in (
        (row_of(), 0),
        (row_of(outcome="violated"), 1),
        (row_of(search=REFUTED), 1),
        (row_of(status="false as printed", outcome="violated"), 0),
        (row_of(status="open", outcome="undecided"), 0),
    ):
        figure = verdicts({"claims": [row]})
        found = [patch for ax in figure.axes for patch in ax.patches if patch.get_gid() == "alarms"]
        assert len(found) == alarms


def test_reports_that_are_none_are_refused() -> None:
    reports: tuple[Any, ...] = ({}, {"claims": []}, {"claims": [{"claim": "fw/cells"}]})
    for report in reports:
        with refused("attnflow check all --json"):
            verdicts(report)
    with refused("'perhaps'"):
        verdicts({"claims": [row_of(outcome="perhaps")]})
