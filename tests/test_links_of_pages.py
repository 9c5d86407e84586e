"""Links of README, the documentation, the files for contributors and the notebooks lead somewhere, as on a code host.

Addresses of other hosts are only read: nothing is asked of a network.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / ".github").rglob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "docs").rglob("*.ipynb")),
]
# Pages of the site whose headings are written when it is built.
WRITTEN_LATER = {ROOT / "docs" / "gallery.md"}
LINK = re.compile(r"(?<!\\)\]\(\s*(<[^>]*>|[^)\s]+)(?:\s+\"[^\"]*\")?\s*\)")


@cache
def prose(page: Path) -> str:
    """Return the text of a page without its code, which holds no links."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.sub(r"(?ms)^(```+|~~~).*?^\1$|<!--.*?-->", "", text)


def links(page: Path) -> list[str]:
    """Return the addresses of the links and pictures of a page."""
    return [found.strip("<>") for found in LINK.findall(re.sub(r"(?<!\[)`[^`\n]+`", "code", prose(page)))]


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors that a code host gives to the headings of a page."""
    found: set[str] = set()
    for heading in re.findall(r"(?m)^#{1,6} +(.+?) *#*$", prose(page)):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        again = sum(one == slug or re.fullmatch(rf"{re.escape(slug)}-\d+", one) is not None for one in found)
        found.add(f"{slug}-{again}" if again else slug)
    return found


def wrong(page: Path, address: str) -> str | None:
    """Return what is wrong with the address of a link, or None."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        well = parts.scheme == "https" and re.fullmatch(r"(?:[a-z0-9-]+\.)+[a-z]{2,}", parts.netloc)
        return None if well else "is no https address of a host"
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.is_relative_to(ROOT):
        return "leaves the repository"
    if not target.exists():
        return "leads to no file"
    if parts.fragment and target.suffix in (".md", ".ipynb") and target not in WRITTEN_LATER:
        return None if unquote(parts.fragment) in anchors(target) else "leads to no heading"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    assert {address: wrong(page, address) for address in links(page) if wrong(page, address)} == {}


def test_the_links_are_found() -> None:
    assert sum(len(links(page)) for page in PAGES) > 400
    assert {"README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"} <= {page.name for page in PAGES}
    assert sum(page.suffix == ".ipynb" for page in PAGES) == 5


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("docs/nowhere.md", "leads to no file"),
        ("docs/claims.md#no-such-heading", "leads to no heading"),
        ("#no-such-heading", "leads to no heading"),
        ("../outside.md", "leaves the repository"),
        ("http://example.org", "is no https address of a host"),
        ("https://localhost:8000/x", "is no https address of a host"),
        ("docs/claims.md#statuses", None),
        ("https://arxiv.org/abs/2508.09628", None),
    ],
)
def test_a_wrong_address_is_seen(address: str, what: str | None) -> None:
    assert wrong(ROOT / "README.md", address) == what


def test_no_page_names_a_machine() -> None:
    """No folder of a user, not even of whoever runs the tests, and nothing that only one network can reach."""
    here = [place for place in (str(ROOT), str(Path.home()), sys.prefix) if len(place) > 1]
    signs = [r"/home/\w", r"/Users/\w", r"/tmp/\w", r"[A-Z]:\\\\", r"\b(?:10|192\.168)\.\d+\.\d+\.\d+"]
    local = re.compile("|".join([*map(re.escape, here), *signs]))
    found = {page.name: set(local.findall(page.read_text(encoding="utf-8"))) for page in PAGES}
    # The address of a scheduler in a script that is printed as an example.
    assert {name: seen for name, seen in found.items() if seen} == {"cluster.md": {"10.0.0.7"}}
