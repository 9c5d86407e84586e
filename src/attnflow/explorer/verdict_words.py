"""A verdict in one plain sentence, as the panel of claims says it first."""

from __future__ import annotations

from collections.abc import Mapping

from attnflow.claims.claim import FALSE, Claim
from attnflow.claims.verdict import HOLDS, UNDECIDED, VIOLATED
from attnflow.explorer.menu_words import in_menu_words

# What stands between the reason and the advice in a verdict that is undecided.
ADVICE = "; to decide it, "


def in_short(claim: Claim, outcome: str, because: str, given: Mapping[str, str]) -> str:
    """Return what a verdict says, in the words of the page.

    >>> from attnflow.claims import get
    >>> in_short(get("fw/own-cell"), "holds", "", {})
    'It is false in general, but true here.'
    >>> in_short(get("fw/cells"), "undecided", "the run is too short; to decide it, give a longer until", {})
    'It could not be decided here: give a longer until.'
    """
    if outcome == HOLDS:
        return "It is false in general, but true here." if claim.status == FALSE else "It holds here."
    if outcome == VIOLATED:
        return "This is a counterexample." if claim.status == FALSE else "It fails here."
    if outcome == UNDECIDED:
        advice = because.partition(ADVICE)[2]
        return in_menu_words(f"It could not be decided here: {advice}.") if advice else ""
    failing = [name for name, one in given.items() if one not in (HOLDS, UNDECIDED)]
    return f"It says nothing here, since this fails: {failing[0]}." if failing else "It says nothing here."
