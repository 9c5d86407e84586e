"""Sentences of the library in the words of the page: laws and motions by their titles in the menus."""

from __future__ import annotations

import re
from functools import cache

from attnflow.catalogue import entries

# How the library asks for what the page has no field for.
FOR_THE_TERMINAL = {"exact=True (--exact)": "`attnflow check --exact` in a terminal"}


@cache
def _titles(names: tuple[tuple[str, str], ...]) -> tuple[re.Pattern[str], dict[str, str]]:
    longest_first = sorted(dict(names), key=len, reverse=True)
    return re.compile(rf"\b({'|'.join(map(re.escape, longest_first))})\b(?:\(\w*\))?"), dict(names)


def in_menu_words(sentence: str) -> str:
    """Return a sentence with the titles of laws and motions in place of the names of their classes.

    >>> in_menu_words("Flow integrates continuous laws, but Localmax jumps as tokens move: use Layers")
    '“Flow” integrates continuous laws, but “Localmax” jumps as tokens move: use “Averaging layers”'
    """
    found = [(each.make.__name__, each.title) for kind in ("law", "motion") for each in entries(kind).values()]
    pattern, titles = _titles(tuple(found))
    for said, meant in FOR_THE_TERMINAL.items():
        sentence = sentence.replace(said, meant)
    return pattern.sub(lambda match: f"“{titles[match[1]]}”", sentence)
