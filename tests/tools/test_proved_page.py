"""The page of what is proved says what the certificates say."""

from pathlib import Path

from tools.proved_page import page


def test_the_page_is_up_to_date() -> None:
    stored = Path(__file__).parents[2] / "docs/proved.md"
    assert stored.read_text(encoding="utf-8") == page(), "make proved writes it anew"
