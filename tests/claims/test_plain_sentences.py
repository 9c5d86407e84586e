"""Every claim says in one plain sentence what it is about."""

from __future__ import annotations

import re

import pytest

import attnflow as af
from attnflow.claims.claim import Claim

CLAIMS = [claim for claim in af.claims.all() if not claim.id.startswith(("test/", "broken/"))]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_each_has_one_plain_sentence(claim: Claim) -> None:
    said = claim.plain
    assert 20 <= len(said) <= 160
    assert said[0].isupper()
    assert said.endswith(".")
    # One sentence, no formulas: words, commas and colons.
    assert re.fullmatch(r"[A-Za-z' ,:;-]+\.", said)
    assert said in claim._repr_html_().replace("&#x27;", "'")


def test_no_two_claims_say_the_same() -> None:
    said = [claim.plain for claim in CLAIMS]
    assert len(said) - len(set(said)) == 0
