"""Hypotheses of refuted claims that are proved: in fractions, or in balls where there are eigenvalues.

A refutation is certified only if its hypotheses are proved as well as its conclusion. Most hypotheses compare numbers
that are given: their margins have the tolerance 0. For the others `proved_by` names the proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from math import inf, nextafter
from typing import Any

import numpy as np

from attnflow.claims import exact
from attnflow.claims.claim import Claim, S, Statement
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins
from attnflow.claims.verdict import VIOLATED, Verdict
from attnflow.enclosures.numbers import arithmetic

Proof = Callable[[Experiment], bool]
PROOFS: dict[Statement, Proof] = {}
BITS = 256


def proved_by(proof: Proof) -> Callable[[S], S]:
    """Mark a hypothesis whose margins come from floats with what proves it."""

    def mark(hypothesis: S) -> S:
        PROOFS[hypothesis] = proof
        return hypothesis

    return mark


def not_proved(claim: Claim, e: Experiment, until: float = inf) -> list[str]:
    """Return the hypotheses of a claim that are not proved on an experiment, up to some step or time.

    >>> from attnflow.claims.claim import get
    >>> claim = get("emergence/polytope/rank")
    >>> instance = {"tokens": [[0.0], [1.0]], "B": [[2.0]], "until": 12.0, "symmetry": None}
    >>> not_proved(claim, Experiment(instance, *claim.setting.model(instance)))
    []
    """
    return [name for name, hypothesis in claim.given.items() if not _proved(hypothesis, e, until)]


def _proved(hypothesis: Statement, e: Experiment, until: float) -> bool:
    if (proof := PROOFS.get(hypothesis)) is not None:
        return proof(e)
    found = hypothesis(e)
    margins = [one.before(nextafter(until, inf)) for one in ([found] if isinstance(found, Margins) else found)]
    return all(not np.any(one.tol) and bool(one.held.all()) for one in margins)


def as_proved(claim: Claim, e: Experiment, verdict: Verdict) -> Verdict:
    """Return a verdict, certified "float" if it is a violation with a hypothesis that is not proved up to it."""
    if verdict.outcome != VIOLATED or verdict.certified not in ("exact", "ball") or verdict.where is None:
        return verdict
    if not (names := not_proved(claim, e, float(verdict.where[0]))):
        return verdict
    because = f"{verdict.because}; the hypothesis {names[0]!r} was looked at in floats alone"
    return replace(verdict, certified="float", because=because)


# Spectra


def eigenvalues(V: Any) -> list[Any] | None:
    """Return complex balls of the eigenvalues of a matrix: exact if it is diagonal, apart if not, None if that fails.

    >>> [one.real.is_exact() for one in eigenvalues(np.diag([2.0, 2.0]))], eigenvalues([[1.0, 1.0], [0.0, 1.0]]) is None
    ([True, True], True)
    """
    from flint import acb, acb_mat, arb_mat

    given = np.asarray(V, dtype=np.float64)
    if (given == np.diag(np.diag(given))).all():
        return [acb(float(one)) for one in np.diag(given)]
    with arithmetic(BITS):
        try:
            values: list[Any] = acb_mat(arb_mat(given.tolist())).eig()
        except ValueError:
            return None
    return values


def grows(V: Any, neutral: bool = False) -> bool:
    """Say whether it is proved that some eigenvalue has a real part above 0, or if `neutral` at least 0."""
    values = eigenvalues(V) or []
    return any(bool(one.real > 0) or (neutral and bool(one.real >= 0)) for one in values)


def all_simple(V: Any) -> bool:
    """Say whether it is proved that all eigenvalues differ."""
    values = eigenvalues(V)
    return values is not None and not any(a.overlaps(b) for a, b in combinations(values, 2))


def dominates(V: Any, alone: bool = False) -> bool:
    """Say whether it is proved that the largest modulus is a positive eigenvalue's, with all its eigenvectors.

    If `alone`, this eigenvalue is simple. The eigenvalues in question are exact, or balls that are apart: a ball whose
    modulus is the largest holds a real number, because the conjugate of its eigenvalue has the same modulus.

    >>> dominates(np.diag([2.0, 2.0, 1.0])), dominates(np.diag([2.0, 2.0]), alone=True), dominates(np.diag([1.0, -1.0]))
    (True, False, False)
    """
    values = eigenvalues(V)
    if not values:
        return False
    top = max(values, key=lambda one: float(one.real.mid()))
    rest = [one for one in values if one is not top]
    equal = [one for one in rest if bool(one == top)]  # of exact ones alone
    below = all(bool(abs(one) < abs(top)) for one in rest if one not in equal)
    return below and not (alone and equal) and bool(top.real > 0) and bool(top.imag.contains(0))


def leads(V: Any) -> bool:
    """Say whether it is proved that the eigenvalue of largest real part is real, simple and positive.

    >>> leads([[2.0, -0.5], [10.0, -3.5]]), leads([[1.0, -1.0], [1.0, 1.0]])
    (True, False)
    """
    values = eigenvalues(V)
    if not values:
        return False
    top = max(values, key=lambda one: float(one.real.mid()))
    return bool(top.real > 0) and all(bool(one.real < top.real) for one in values if one is not top)


# Forms and hulls


def definite(e: Experiment) -> bool:
    """Say whether B > 0, in fractions."""
    return exact.positive_semidefinite(exact.rational(_form(e)), strictly=True)


def semidefinite(e: Experiment) -> bool:
    """Say whether B >= 0, in fractions."""
    return exact.positive_semidefinite(exact.rational(_form(e)))


def equals_transpose(e: Experiment) -> bool:
    """Say whether B = B^T, without rounding."""
    B = _form(e)
    return bool((B == B.T).all())


def _form(e: Experiment) -> Any:
    return e.using("float").form()


def origin_inside(e: Experiment) -> bool:
    """Say whether 0 is an interior point of the hull of the tokens, in fractions.

    It is if for some s > 0 all -s x_j are in the hull and the tokens span the space: then positive weights have the
    mean 0, and points near 0 are in the hull as well.
    """
    x = exact.rational(e.instance["tokens"])
    spans = exact.invertible(x.T @ x)
    sizes = (exact.rational([2.0**k])[0] for k in (0, 2, 6, 12))
    return spans and any(all(exact.separated(x, -one / size) is None for one in x) for size in sizes)
