"""Make a certificate of a refutation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnflow.claims.certificates.certificate import Certificate
from attnflow.claims.certificates.exact import EXACT, NoProof
from attnflow.claims.certificates.flows import FLOWS, plain
from attnflow.claims.claim import get
from attnflow.claims.instances import read
from attnflow.core.inputs import quoted


def make(claim: str, instance: Mapping[str, Any]) -> Certificate:
    """Return the certificate that an instance refutes a claim; refuse where no argument is known.

    >>> found = make("neuralode/controllability", {"tokens": [[-1.0], [1.0]], "targets": [[3.0], [2.0]]})
    >>> found.shown
    [['the points', '-1', '<', '1'], ['their targets', '3', '>=', '2']]
    """
    whole = read(get(claim), dict(instance))
    if claim in EXACT:
        given, proof, shown = EXACT[claim](whole)
        rows = [[what, str(left), relation, str(right)] for what, left, relation, right in shown]
        return Certificate(claim, "exact", plain(given), plain(proof), rows)
    if claim in FLOWS:
        given, proof, words = FLOWS[claim](whole)
        return Certificate(claim, "ball", plain(given), plain(proof), words)
    raise NoProof(f"no certificates of {claim!r} are made, expected one of {quoted([*EXACT, *FLOWS])}")
