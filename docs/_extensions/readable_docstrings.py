"""Docstrings are written for people, with formulas as plain text; here Sphinx learns to read them.

A bar of |x| and the underscore of v_ would be markup of reStructuredText and are escaped; a name in single backticks
becomes a link if it is public, and code otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import attnflow

if TYPE_CHECKING:
    from sphinx.application import Sphinx

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

    >>> print(readable("The norm |v_| of `v`, as in `Hull`.", {"Hull": "attnflow.geometry.Hull"}))
    The norm \|v\_\| of ``v``, as in :py:obj:`Hull <attnflow.geometry.Hull>`.
    """
    done: list[str] = []
    literal: int | None = None  # the indentation of the text above a literal block
    for block in text.split("\n\n"):
        indent = len(block) - len(block.lstrip())
        if literal is not None and indent > literal:
            done.append(block)
            continue
        prose, example = re.fullmatch(r"(?s)(.*?)((?:^\s*>>> .*)?)", block, re.MULTILINE).groups()  # type: ignore[union-attr]
        literal = indent if prose.rstrip().endswith("::") else None
        done.append(_marked(prose, names) + example)
    return "\n\n".join(done)


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
