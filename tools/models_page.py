"""The tables of laws, motions and clouds on the page of models, and their lists in the reference, from the catalogue.

python -m tools.models_page docs/models.md docs/reference/laws.rst docs/reference/motions.rst
"""

from __future__ import annotations

import re
from argparse import ArgumentParser
from pathlib import Path

from attnflow.catalogue import Entry, entries
from attnflow.core.inputs import InputError
from tools.typeset import markdown

# A table, or a list in the reference, stands between two comments, the first of which names it.
NAMED = "{} from the catalogue, by make models"


def tables() -> dict[str, list[Entry]]:
    """Return what the tables of the page list."""
    motions = entries("motion").values()
    return {
        "laws": list(entries("law").values()),
        "motions in layers": [found for found in motions if _discrete(found)],
        "motions in continuous time": [found for found in motions if not _discrete(found)],
        "clouds": list(entries("cloud").values()),
    }


def table(listed: list[Entry]) -> str:
    """Return a table in Markdown: how each is called in Python, its name elsewhere, what it is."""
    rows = [f"| `{_call(found)}` | `{found.name}` | {_cell(_told(found))} |" for found in listed]
    return "\n".join(["| in Python | elsewhere | what it is |", "|---|---|---|", *rows])


def reference(listed: list[Entry]) -> str:
    """Return the directives that write the docstrings of laws or motions into the reference."""
    return "\n".join(f".. autoclass:: attnflow.{found.make.__name__}" for found in listed)


def written(page: str) -> str:
    """Return the page with its tables written anew.

    >>> print(written("Text\\n<!-- clouds from the catalogue, by make models -->\\n<!-- end -->")[:70])
    Text
    <!-- clouds from the catalogue, by make models -->
    <BLANKLINE>
    | in Python |
    """

    def anew(place: re.Match[str]) -> str:
        begin, name, end = place.groups()
        if name not in tables():
            raise InputError(f"the page asks for a table of {name}, expected one of {', '.join(tables())}")
        lines = table(tables()[name]) if end.startswith("<") else reference(tables()[name])
        return f"{begin}\n\n{lines}\n\n{end}"

    named = NAMED.format("([a-z ]+)")
    return re.sub(rf"(?s)((?:<!--|\.\.) {named}(?: -->)?)\n.*?(<!-- end -->|\.\. end)", anew, page)


def _discrete(found: Entry) -> bool:
    discrete: bool = found.make.discrete  # type: ignore[attr-defined]
    return discrete


def _call(found: Entry) -> str:
    name = found.make.__name__ if isinstance(found.make, type) else f"tokens.{found.name}"
    return f"{name}({', '.join(found.parameters)})"


def _told(found: Entry) -> str:
    """Return the first line of its docstring; where there are several formulas, those of other parameters too."""
    said = found.summary.removeprefix("Return ")
    said = said if said[0].isupper() or len(said.split()[0]) == 1 else said[0].upper() + said[1:]
    if isinstance(found.formula, str):
        return said
    shown = "".join(f"; `{key}`: {found.formula[key]}" for key in list(found.formula)[1:])
    return f"{said.removesuffix('.')}{shown}."


def _cell(text: str) -> str:
    """Return a text for a cell of a table, which a bar would end."""
    return re.sub(r"\\?\|(?=[\w\\])", r"\\vert ", markdown(text)).replace("\\|", "|").replace("|", r"\vert")


if __name__ == "__main__":
    parser = ArgumentParser(description="write the tables of the page of models and the lists of the reference anew")
    parser.add_argument("pages", type=Path, nargs="+")
    for page in parser.parse_args().pages:
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
