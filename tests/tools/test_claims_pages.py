"""The pages of docs/claims say what the register says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from refusals import refused

import attnflow as af
from tools import claims_pages as pages

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("short", pages.pages())
def test_the_page_of_a_paper_is_up_to_date(short: str) -> None:
    text = (DOCS / "claims" / f"{short}.md").read_text()
    claims = pages.pages()[short]
    assert re.findall(r"^## (\S+/\S+)$", text, re.MULTILINE) == [claim.id for claim in claims]
    flat = " ".join(text.split())
    for claim in claims:
        nothing = af.claims.Verdict("undecided", 0.0, None, "float", "")
        fixed = pages.section(claim, nothing, None).split("**undecided**")[0]
        assert " ".join(fixed.split()) in flat, f"run make claims: {claim.id} has changed"
        assert claim.paper.citation in text
        notation = "\n".join(pages._paragraphs(claim.paper.notation))
        assert " ".join(notation.split()) in flat
    assert f"claims/{short}.md" in (DOCS / "claims.md").read_text()


def test_every_false_claim_shows_its_counterexample() -> None:
    for short, claims in pages.pages().items():
        text = (DOCS / "claims" / f"{short}.md").read_text()
        for claim in claims:
            part = text.split(f"## {claim.id}\n")[1].split("\n## ")[0]
            assert ("Counterexample" in part) == claim.refutable, claim.id


def test_no_proved_claim_is_violated_on_its_page() -> None:
    for short, claims in pages.pages().items():
        text = (DOCS / "claims" / f"{short}.md").read_text()
        for claim in claims:
            part = text.split(f"## {claim.id}\n")[1].split("\n## ")[0]
            assert claim.refutable or "**violated**" not in part, claim.id


def test_texts_are_written_anew_and_verdicts_kept(tmp_path: Path) -> None:
    for page in (DOCS / "claims").glob("*.md"):
        (tmp_path / page.name).write_text(page.read_text().replace("How it is checked: ", "How it was checked: "))
    matrix = DOCS.parent / "src" / "attnflow" / "figures" / "gallery" / "verdicts.json"
    (tmp_path / "verdicts.json").write_text(matrix.read_text())
    pages.build(tmp_path, tmp_path / "verdicts.json", only=[])
    assert json.loads((tmp_path / "verdicts.json").read_text()) == json.loads(matrix.read_text())
    for page in (DOCS / "claims").glob("*.md"):
        assert (tmp_path / page.name).read_text() == page.read_text()


def test_a_claim_without_a_verdict_must_be_checked(tmp_path: Path) -> None:
    for page in (DOCS / "claims").glob("*.md"):
        (tmp_path / page.name).write_text(page.read_text().replace("## fw/cells\n", "## fw/others\n"))
    (tmp_path / "verdicts.json").write_text('{"claims": []}')
    with refused("name fw/cells after --only"):
        pages.build(tmp_path, tmp_path / "verdicts.json", only=[])
