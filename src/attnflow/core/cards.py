"""Results as notebooks show them: small tables in the colours of the page, be it light or dark."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

_TABLE = "border-collapse: collapse; color: inherit"
_HEAD = "text-align: left; font-weight: 600; padding: 2px 12px 4px 0"
_NAME = "text-align: left; vertical-align: top; opacity: 0.7; padding: 1px 12px 1px 0; white-space: nowrap"
_VALUE = "text-align: left; vertical-align: top; padding: 1px 0; max-width: 60em"


def card(head: str, rows: Mapping[str, object]) -> str:
    """Return a heading and a row for each name whose value is not None, as an HTML table.

    >>> "<th" in card("a < b", {"n": 3, "seed": None}), "a &lt; b" in card("a < b", {})
    (True, True)
    """
    lines = [
        f'<tr><td style="{_NAME}">{escape(name)}</td><td style="{_VALUE}">{escape(str(value))}</td></tr>'
        for name, value in rows.items()
        if value is not None
    ]
    top = f'<tr><th colspan="2" style="{_HEAD}">{escape(head)}</th></tr>'
    return f'<table style="{_TABLE}">{top}{"".join(lines)}</table>'
