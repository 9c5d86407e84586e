"""The numbers of papers on arXiv become links, on pages and in docstrings alike."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes  # type: ignore[import-untyped]
from sphinx.transforms import SphinxTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx

NUMBER = re.compile(r"arXiv[\s:]+(\d{4}\.\d{4,5})")


class ArxivLinks(SphinxTransform):  # type: ignore[misc]
    """Put a link in the place of a number that is plain text."""

    default_priority = 600

    def apply(self, **options: Any) -> None:
        """Look at all text that is neither code nor in a link already."""
        for text in list(self.document.findall(nodes.Text)):
            if NUMBER.search(text) and not _within(text, nodes.reference, nodes.literal, nodes.literal_block):
                text.parent.replace(text, _linked(str(text)))


def _within(node: nodes.Node, *kinds: type[nodes.Node]) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kinds):
            return True
    return False


def _linked(text: str) -> list[nodes.Node]:
    parts: list[nodes.Node] = []
    end = 0
    for found in NUMBER.finditer(text):
        parts.append(nodes.Text(text[end : found.start()]))
        address, name = f"https://arxiv.org/abs/{found[1]}", f"arXiv\N{NO-BREAK SPACE}{found[1]}"
        parts.append(nodes.reference("", name, refuri=address, internal=False))
        end = found.end()
    return [*parts, nodes.Text(text[end:])]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_transform(ArxivLinks)
    return {"parallel_read_safe": True}
