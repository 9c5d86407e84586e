"""Docstrings are written for people, with formulas as plain text; here Sphinx learns to read them.

Formulas are typeset. What else would be markup of reStructuredText, a bar or the underscore of v_, is escaped; a name
in single backticks becomes a link if it is public, and code otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import attnflow
from tools.typeset import typeset

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Sections of a docstring that list names.
SECTIONS = ("Attributes", "Parameters", "Raises", "Returns", "Yields")
MODULES = ("claims", "figures", "geometry", "measure", "tokens", "watch")


def public(module: ModuleType) -> list[str]:
    """Return the public names of a module: those that it lists, or else those that it defines and describes."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return [name for name in listed if not isinstance(getattr(module, name), ModuleType)]
    own = {name: thing for name, thing in vars(module).items() if not name.startswith("_") and callable(thing)}
    return [name for name, thing in own.items() if thing.__module__ == module.__name__ and thing.__doc__]


@cache
def targets() -> Mapping[str, str]:
    """Return the full names of what is public, by the names that docstrings use.

    A lone small word may as well be a parameter, so it is a link only with its module before it.
    """
    found = {name: f"attnflow.{name}" for name in public(attnflow)}
    for short in MODULES:
        module = getattr(attnflow, short)
        for name in public(module):
            also = getattr(attnflow, name, None) is getattr(module, name)
            full = found[f"{short}.{name}"] = f"attnflow.{name}" if also else f"attnflow.{short}.{name}"
            if name[0].isupper() or "_" in name:
                found.setdefault(name, full)
    return found


def readable(text: str, names: Mapping[str, str]) -> str:
    r"""Return a docstring as reStructuredText; examples and literal blocks stay as they are.

    >>> print(readable("The norm |v_i| of `v`, as in `Hull`.", {"Hull": "attnflow.geometry.Hull"}))
    The norm :math:`|v_i|` of ``v``, as in :py:obj:`Hull <attnflow.geometry.Hull>`.
    >>> print(readable("The name v_ is a str|int.", {}))
    The name v\_ is a str\|int.
    """
    done: list[str] = []
    literal: int | None = None  # the indentation of the text above a literal block
    named = False  # in a section whose lines without indentation are names
    for block in text.split("\n\n"):
        indent = len(block) - len(block.lstrip())
        if literal is not None and indent > literal:
            done.append(block)
            continue
        prose, example = re.fullmatch(r"(?s)(.*?)((?:^\s*>>> .*)?)", block, re.MULTILINE).groups()  # type: ignore[union-attr]
        literal = indent if prose.rstrip().endswith("::") else None
        told, named = _told(prose, names, named)
        done.append(told + example)
    return "\n\n".join(done)


def _told(prose: str, names: Mapping[str, str], named: bool) -> tuple[str, bool]:
    """Return a paragraph in which headings, and the names of parameters, stay as they are."""
    done: list[str] = []
    lines = prose.split("\n")
    heads = [k for k in range(len(lines) - 1) if re.fullmatch("-{3,}", lines[k + 1])]
    plain: list[str] = []
    for k, line in enumerate(lines):
        if k in heads:
            named = line.strip() in SECTIONS
        if k in heads or k - 1 in heads or (named and line and not line[0].isspace()):
            done += [_typeset("\n".join(plain), names)] if plain else []
            done.append(_marked(line, names))
            plain = []
        else:
            plain.append(line)
    return "\n".join([*done, *([_typeset("\n".join(plain), names)] if plain else [])]), named


def _typeset(prose: str, names: Mapping[str, str]) -> str:
    r"""Return prose with its formulas typeset, set off from signs between which Sphinx would not see them.

    >>> print(_typeset("E[x_i | c] of xs", {}))
    :math:`E`\ [:math:`x_i` \| :math:`c`] of xs
    """
    parts = re.split(r"(\*[A-Z][^*]*\*)", prose)  # titles hold no formulas
    parts[::2] = [typeset(part, ":math:`{}`".format, lambda part: _marked(part, names)) for part in parts[::2]]
    text = "".join(parts)
    text = re.sub(r"""(?<=[^\s'"(\[{<\-/:])(?=:math:`)""", r"\\ ", text)
    return re.sub(r"""(:math:`[^`]*`)(?=[^\s'")\]}>\-/:.,;!?\\])""", r"\1\\ ", text)


def _marked(prose: str, names: Mapping[str, str]) -> str:
    parts = re.split(r"(``.+?``|`[^`]+`)", prose, flags=re.DOTALL)
    parts[::2] = [re.sub(r"(?<=\w)_(?!\w)|\|", lambda sign: f"\\{sign[0]}", part) for part in parts[::2]]
    parts[1::2] = [part if part.startswith("``") else _name(part[1:-1], names) for part in parts[1::2]]
    return "".join(parts)


def _name(name: str, names: Mapping[str, str]) -> str:
    return f":py:obj:`{name} <{names[name]}>`" if name in names else f"``{name}``"


def process(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Rewrite a docstring before its sections are looked at."""
    lines[:] = readable("\n".join(lines), targets()).split("\n")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx, ahead of what reads the sections."""
    app.connect("autodoc-process-docstring", process, priority=400)
    return {"parallel_read_safe": True}
