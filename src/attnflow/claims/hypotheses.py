"""Hypotheses and quantities that claims of several papers share, each in every arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from attnflow.claims import exact
from attnflow.claims.claim import S, Statement
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, Numbers, Undecided, once, stacked
from attnflow.claims.proved_hypotheses import definite, equals_transpose, proved_by, semidefinite
from attnflow.core.inputs import Array, InputError, varies_in_time
from attnflow.geometry.forms import EPS, PRODUCT_ROUNDING, asymmetry, not_symmetric, symmetric_part
from attnflow.geometry.hull import Hull


def quadratic(form: Numbers, x: Numbers) -> Numbers:
    """Return <B x, x> along the last axis."""
    return ((x @ form.T) * x).sum(axis=-1)


def score_unit(e: Experiment) -> Any:
    """Return a bound of all scores <B x_i, x_j> at the start, 1 if it is 0: their unit."""
    return np.abs(e.form()).max() * e.scale**2 * e.shape[1] or 1


def squared_diameter(x: Numbers) -> Any:
    """Return the largest squared distance between two tokens."""
    apart = x[:, None, :] - x[None, :, :]
    return (apart * apart).sum(axis=-1).max()


# Hypotheses that ask for a symmetric form.
OF_SYMMETRIC_FORMS: set[Statement] = set()


def of_symmetric_forms(hypothesis: S) -> S:
    """Mark a hypothesis that asks for a symmetric B: one that is so up to rounding is judged by its symmetric part."""
    OF_SYMMETRIC_FORMS.add(hypothesis)
    return hypothesis


def nearly_singular(B: Array) -> Undecided:
    """Return that B is singular up to rounding, and a remedy that keeps its sign."""
    return Undecided(
        "B is singular up to rounding, as where B = K.T @ K and K has fewer rows than columns",
        f"give a B of full rank, such as B {'-' if np.trace(B) < 0 else '+'} 1e-6 I",
    )


def trouble_of_form(hypothesis: Statement, e: Experiment, t: float, margin: float) -> str | None:
    """Return why B at time t fails a hypothesis on symmetric forms, if it is not its sign alone."""
    if hypothesis not in OF_SYMMETRIC_FORMS:
        return None
    B = e.form(int(t)).astype(float)
    if (lost := not_symmetric(B)) is not None:
        return lost
    rounding = 8 * len(B) * EPS
    if abs(margin) > rounding or np.abs(np.linalg.eigvalsh(B)).min() > rounding * np.abs(B).max():
        return None
    why = nearly_singular(B)
    return f"{why.cause}: {why.remedy}"


def semidefinite_margin(e: Experiment, matrix: Numbers) -> tuple[Any, float]:
    """Return (margin, tol) of M >= 0: the least eigenvalue over the largest modulus; the sign is exact in fractions.

    A matrix that is symmetric up to rounding is judged by its symmetric part, with what the rest can do to the
    eigenvalues in tol.
    """
    given = matrix.astype(float)
    size, off = float(np.abs(given).max()) or 1.0, asymmetry(given)
    if off > PRODUCT_ROUNDING:
        return -off, 0.0
    matrix = symmetric_part(matrix)
    plain, tol = matrix.astype(float), len(matrix) * max(off, e.asymmetry)
    least = float(np.linalg.eigvalsh(plain).min()) / size
    if e.exact:
        holds = exact.positive_semidefinite(matrix)
        return Fraction(max(least, 0.0) if holds else min(least, -EPS)), tol
    return least, 8 * len(plain) * EPS + tol


@proved_by(semidefinite)
@of_symmetric_forms
def positive_semidefinite(e: Experiment) -> Margins:
    """B is symmetric and positive semidefinite at the start."""
    return once("B >= 0", *semidefinite_margin(e, e.form()))


@proved_by(definite)
@of_symmetric_forms
def positive_definite(e: Experiment) -> Margins:
    """B is symmetric and positive definite at the start."""
    value, tol = semidefinite_margin(e, e.form())
    if e.exact:
        definite = exact.positive_semidefinite(symmetric_part(e.form()), strictly=True) and value >= 0
        value = Fraction(max(float(value), EPS) if definite else min(float(value), 0.0))
    return replace(once("B > 0", value, tol, strict=True), undecided=nearly_singular(e.form().astype(float)))


@proved_by(equals_transpose)
@of_symmetric_forms
def symmetric(e: Experiment) -> Margins:
    """B is symmetric."""
    return once("B = B^T", -asymmetry(e.form().astype(float)), PRODUCT_ROUNDING)


def origin_depth(e: Experiment, x: Numbers) -> tuple[Any, float]:
    """Return (margin, tol) of 0 in conv x: depth, or minus distance, over the size; its sign is exact in fractions."""
    plain = x.astype(float)
    size = float(np.abs(plain).max()) or 1.0
    margin = float(depths(plain, np.zeros((1, plain.shape[1])))[0]) / size
    if e.exact:
        outside = exact.separated(x, exact.rational(np.zeros(x.shape[1]))) is not None
        return Fraction(min(margin, -EPS) if outside else max(margin, 0.0)), 0.0
    return margin, Hull(plain).tol / size


def depths(x: Array, points: Array) -> Array:
    """Return how deep points lie in conv x, or minus their distances from it; 0 within a flat hull.

    >>> depths(np.array([[0.0], [4.0]]), np.array([[1.0], [6.0]]))
    array([ 1., -2.])
    """
    body = Hull(x)
    away = np.asarray(body.distance(points))
    inside = np.zeros(len(points))
    if body.dimension == x.shape[1]:
        with suppress(InputError):  # a hull so thin that it has no facets in floats counts as flat
            inside = np.maximum((body.offsets - points @ body.normals.T).min(axis=1), 0)
    return np.where(away > body.tol, -away, inside)


def inclusion(e: Experiment, old: Numbers, new: Numbers) -> Numbers:
    """Return the depth of each new token in conv(old), over its size; in fractions the sign is exact."""
    plain = old.astype(float)
    size = float(np.abs(plain - plain.mean(axis=0)).max()) or 1.0
    found = depths(plain, new.astype(float)) / size
    if not e.exact:
        return found
    known = {tuple(x) for x in old}
    return stacked(
        [Fraction(m) if m > 1e-9 else _sign(old, x, m, known) for x, m in zip(new, found.tolist(), strict=True)]
    )


def _sign(old: Numbers, x: Numbers, margin: float, known: set[tuple[Any, ...]]) -> Fraction:
    """Give a depth the sign that a linear program in fractions proves."""
    if tuple(x) in known or exact.separated(old, x) is None:
        return Fraction(max(margin, 0.0))
    return Fraction(min(margin, -EPS))


def shrinking_hull(e: Experiment) -> Margins:
    """Every token after every layer against the hull before it, by linear programs in fractions."""
    found = np.array([inclusion(e, old, new) for old, new in pairwise(e.states)])
    return Margins("x_i^{t+1} in K^t", found, np.arange(len(found)), hull_rounding(e)[:-1])


def hull_rounding(e: Experiment) -> Array:
    """Return the rounding bound of depths in the hull of each state, over its size, as a column."""
    states = e.states.astype(float)
    spread = np.abs(states - states.mean(axis=1, keepdims=True)).max(axis=(1, 2))
    tol: Array = 1024 * e.shape[1] * e.rounding * float(e.scale) / np.where(spread > 0, spread, 1.0)[:, None]
    return tol


def origin_at_start(e: Experiment) -> Margins:
    """0 lies in the hull of the tokens at the start."""
    return once("0 in K^0", *origin_depth(e, e.tokens))


def origin_always(e: Experiment) -> Margins:
    """0 lies in the hull of the tokens at every step."""
    found = [origin_depth(e, x) for x in e.states[:-1]]
    return Margins("0 in K^s", stacked([v for v, _ in found]), e.times[:-1], np.array([tol for _, tol in found]))


def constant(name: str, what: str, room: Callable[[float], float] = lambda value: 1.0) -> Statement:
    """Return the hypothesis that a parameter does not vary in time, and that its value leaves some room."""

    def hypothesis(e: Experiment) -> Margins:
        value = e.instance[name]
        return once(what, -1.0 if varies_in_time(value) else room(value), strict=True)

    return hypothesis


def step_in_unit_interval(e: Experiment) -> Margins:
    """gamma^t lies strictly between 0 and 1."""
    gammas = e.gammas
    return Margins("0 < gamma^t < 1", np.minimum(gammas, 1 - gammas), np.arange(len(gammas)), 0.0, strict=True)


def step_up_to_one(e: Experiment) -> Margins:
    """gamma^t lies in (0, 1]."""
    gammas = e.gammas
    values = np.where(gammas <= 1, gammas, 1 - gammas)
    return Margins("0 < gamma^t <= 1", values, np.arange(len(values)), 0.0, strict=True)
