"""Stored notebooks as pages of the site: their cells become Markdown, with what they show below them.

Pictures are in the page itself, as they are in the notebook. Nothing is run here: the tests run notebooks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes  # type: ignore[import-untyped]
from myst_parser.parsers.sphinx_ import MystParser

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def markdown(notebook: dict[str, Any], file: str) -> str:
    """Return a notebook as a page, which also offers its file.

    >>> said = {"output_type": "stream", "name": "stdout", "text": ["2\\n"]}
    >>> cell = {"cell_type": "code", "source": ["print(2)"], "outputs": [said]}
    >>> print(markdown({"cells": [{"cell_type": "markdown", "source": ["# Two"]}, cell]}, "two.ipynb"))
    # Two
    <BLANKLINE>
    {download}`The notebook as a file <two.ipynb>`
    <BLANKLINE>
    ```python
    print(2)
    ```
    <BLANKLINE>
    ```{code-block} text
    :class: output
    <BLANKLINE>
    2
    ```
    """
    blocks = [block for cell in notebook["cells"] for block in _blocks(cell)]
    blocks.insert(1, f"{{download}}`The notebook as a file <{file}>`")
    return "\n\n".join(blocks)


def _blocks(cell: dict[str, Any]) -> list[str]:
    """Return the blocks of a page that show a cell."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    return [f"```python\n{source}\n```", *(_shown(output) for output in cell["outputs"])]


def _shown(output: dict[str, Any]) -> str:
    """Return what a cell shows: a picture, or text."""
    data = output.get("data", {})
    if "image/png" in data:
        return f"![What this cell draws](data:image/png;base64,{''.join(data['image/png']).replace(chr(10), '')})"
    text = "".join(data["text/plain"] if data else output["text"]).rstrip("\n")
    return f"```{{code-block}} text\n:class: output\n\n{text}\n```"


class NotebookParser(MystParser):
    """Reads a notebook as the page that it makes."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse the page of a notebook."""
        super().parse(markdown(json.loads(inputstring), Path(document["source"]).name), document)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True}
