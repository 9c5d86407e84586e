"""The page of models and the reference list what is in the catalogue."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from refusals import refused

from attnflow.catalogue import entries
from tools import models_page

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_models_is_up_to_date() -> None:
    page = (DOCS / "models.md").read_text(encoding="utf-8")
    assert models_page.written(page) == page, "run make models: a law, a motion or a cloud has changed"
    for kind in ("law", "motion", "cloud"):
        for name in entries(kind):
            assert len(re.findall(rf"^\| `\S.*` \| `{name}` \| .+ \|$", page, re.MULTILINE)) == 1


def test_cells_of_tables_hold_no_bars() -> None:
    for listed in models_page.tables().values():
        for row in models_page.table(listed).splitlines():
            assert row.count("|") == 4


def test_a_table_that_does_not_exist_is_refused() -> None:
    with refused("table of engines, expected one of laws"):
        models_page.written("<!-- engines from the catalogue, by make models -->\n<!-- end -->")


@pytest.mark.parametrize("kind", ["law", "motion"])
def test_the_reference_has_every_law_and_motion(kind: str) -> None:
    text = (DOCS / "reference" / f"{kind}s.rst").read_text(encoding="utf-8")
    assert models_page.written(text) == text, "run make models: a law or a motion has changed"
    for found in entries(kind).values():
        if found.make.__module__.startswith("attnflow."):
            assert f".. autoclass:: attnflow.{found.make.__name__}\n" in text
