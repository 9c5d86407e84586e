"""Turn a violation that was found in floats into one that is proved."""

from __future__ import annotations

from dataclasses import replace

from attnflow.claims.certificates.make import make
from attnflow.claims.verdict import VIOLATED, Verdict
from attnflow.core.inputs import InputError


def certify(verdict: Verdict) -> Verdict:
    """Return the verdict with `certified` "exact" or "ball" if a certificate is made of it, else with the reason.

    A flow is enclosed in balls until all tokens provably keep their leaders; where that fails, `because` ends with how
    far it came and why it stopped. Verdicts that are proved already, and those that are no violations, stay as they
    are. `check(..., certify=True)` does the same.

    Eleven tokens on a circle stay apart, which refutes the codimension conjecture of arXiv 2305.05465 for V = I, where
    the claim is that e^{-t} x tends to at most three points:

    >>> import numpy as np
    >>> import attnflow as af
    >>> angles = 2 * np.pi * np.arange(11) / 11
    >>> x = 10 * np.column_stack([np.cos(angles), np.sin(angles)])
    >>> verdict = af.check("emergence/codimension-k/b", tokens=x, V=np.eye(2), until=13.0)
    >>> verdict.certified, certify(verdict).certified
    ('float', 'ball')
    """
    if not isinstance(verdict, Verdict):
        raise InputError(f"verdict is {verdict!r}, expected what check returns: give af.check(claim, **instance)")
    if verdict.outcome != VIOLATED or verdict.certified in ("exact", "ball"):
        return verdict
    try:
        found = make(verdict.claim, verdict.instance)
    except InputError as error:
        return replace(verdict, because=f"{verdict.because}; it is not proved: {error}")
    words = found.shown if found.kind == "ball" else "by comparisons of rational numbers"
    return replace(verdict, certified=found.kind, because=f"{verdict.because}; proved: {words}")
