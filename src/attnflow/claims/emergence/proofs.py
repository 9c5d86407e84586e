"""Limits of the rescaled flow that are proved in balls, where V is diagonal and few tokens lock to their leaders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from attnflow.claims.emergence.settling import Discounted, Rescaled
from attnflow.claims.emergence.symmetry import Group, Symmetric
from attnflow.claims.experiment import Experiment
from attnflow.core.inputs import Array, varies_in_time
from attnflow.enclosures import Mirrors, enclose, locked
from attnflow.enclosures.numbers import Numbers, arithmetic, array, ball, balls, largest
from attnflow.laws import Softmax
from attnflow.motions import Flow

# Flows of at most this many coordinates are enclosed, for at most this time in units of the fastest rate, and in at
# most this many steps.
MOST, LONGEST, STEPS = 20, 5.0, 60
TOLERANCE, ORDER, BITS = 1e-15, 24, 128


@dataclass(frozen=True)
class Proved:
    """Limits of z = e^{-tV} x in balls (n, d), the leaders of each token (None: it is at 0), the rates of V, a time.

    From `time` on all tokens are locked to their leaders: `attnflow.enclosures.limits` has the theorem.
    """

    limits: Numbers
    leaders: Sequence[frozenset[int] | None]
    rates: Sequence[Fraction]
    time: float

    def distinct(self, coordinates: Sequence[int]) -> int:
        """Return how many limits a greedy choice finds that differ, each from each, in some of these coordinates."""
        chosen: list[Any] = []
        for row in self.limits:
            if all(any(not row[k].overlaps(other[k]) for k in coordinates) for other in chosen):
                chosen.append(row)
        return len(chosen)

    @property
    def how(self) -> str:
        """The proof in words."""
        return f"proved in balls, in which each token keeps its leader from time {self.time:.3g} on"

    @property
    def fastest(self) -> list[int]:
        """The coordinates of the largest rate."""
        return [k for k, rate in enumerate(self.rates) if rate == max(self.rates)]

    def rises(self, B: Array) -> Array:
        """Return lower bounds, per token, of max_j <pi A w, pi A v_j> - |pi A w|^2 over its largest |pi A v_j|^2.

        Here w are limits along the fastest coordinates, v_j all of these, pi drops the other coordinates, and
        A = B^{1/2}. A linear function is largest on the hull of the limits at one of its vertices.
        """
        F = self.fastest
        with arithmetic(BITS):
            A = square_root(B)
            if A is None:
                return np.full(len(self.limits), -np.inf)
            places = [[sum((A[a, b] * row[b] for b in F), ball(0)) for a in F] for row in self.limits]
            products = [[sum((p * q for p, q in zip(u, v, strict=True)), ball(0)) for v in places] for u in places]
            size = largest(row[i].abs_upper() for i, row in enumerate(products))
            return np.array([max(float(((v - row[i]) / size).lower()) for v in row) for i, row in enumerate(products)])


def square_root(B: Array) -> Numbers | None:
    """Return balls of the positive square root of a symmetric matrix; None if it is not proved to be positive definite.

    If S is positive definite with eigenvalues above m, and A the root, then X = S - A has S X + X A = S^2 - B, so that
    the norm of X is at most that of S^2 - B over m (Frobenius norms).

    >>> [float(one) for one in square_root(np.diag([4.0, 9.0])).ravel()]
    [2.0, 0.0, 0.0, 3.0]
    """
    from flint import arb, arb_mat

    values, vectors = np.linalg.eigh(B)
    if values.min() <= 0 or (B != B.T).any():
        return None
    near = (vectors * np.sqrt(values)) @ vectors.T
    S, least = arb_mat(((near + near.T) / 2).tolist()), arb(float(np.sqrt(values.min())) / 2)
    d = len(B)
    above = [[S[i, j] - (least if i == j else 0) for j in range(d)] for i in range(d)]
    if not all(arb_mat([row[:k] for row in above[:k]]).det() > 0 for k in range(1, d + 1)):
        return None
    wrong = (S * S - arb_mat(B.tolist())).entries()
    error = (sum((one * one for one in wrong), arb(0)).sqrt() / least).upper()
    # Where the error is 0 the root is exact.
    return array((one + arb(0, error) for one in S.entries()), (d, d))


def proved_limits(e: Experiment) -> Proved | None:
    """Return the limits of the tokens of an experiment, proved in balls; None where that fails."""
    motion = e.motion.motion if isinstance(e.motion, Symmetric) else e.motion
    n, d = e.shape
    found = e.law.exponents
    if e.law.replays != "balls" or found is None or not isinstance(motion, Rescaled | Discounted):
        return None
    V = np.eye(d) if motion.V is None else np.asarray(motion.V, dtype=np.float64)
    rates = np.diag(V)
    diagonal = (np.diag(rates) == V).all() and rates.min() >= 0 and rates.max() > 0
    beta: Any = found.beta
    constant = not (varies_in_time(beta) or varies_in_time(found.B)) and found.b is None and e.arithmetic == "float"
    if n * d > MOST or not diagonal or not constant:
        return None
    form = np.eye(d) if found.B is None else np.asarray(found.B, dtype=np.float64)
    mirrors = exact_mirrors(e, form)
    given = [one.tobytes() for one in (e.tokens, form, rates, mirrors.signs, mirrors.places)]
    return _proof((n, d), float(beta), min(float(e.horizon), LONGEST / float(rates.max())), *given)


@lru_cache(maxsize=8)
def _proof(shape: tuple[int, int], beta: float, end: float, *given: bytes) -> Proved | None:
    """Return the proof for arrays given by their bytes: a rerun at another tolerance of floats asks for it again."""
    n, d = shape
    x, B, rates, signs = (np.frombuffer(one).reshape(-1, d) for one in given[:4])
    mirrors = Mirrors(signs, np.frombuffer(given[4], dtype=np.int64).reshape(-1, n))
    exact = [Fraction(float(rate)) for rate in rates[0]]
    with arithmetic(BITS):
        G, left = balls(B) * ball(beta), iter(range(STEPS))
        found = enclose(
            x, Softmax(beta=beta, B=B), Flow(V=np.diag(rates[0])), end, tolerance=TOLERANCE, order=ORDER,
            enough=lambda x: next(left, None) is None or locked(x, G, exact, mirrors) is not None, mirrors=mirrors,
        )  # fmt: skip
        limit = locked(found.final, G, exact, mirrors)
        if limit is None:
            return None
        time = ball(found.times[-1])
        shrunk = [(-ball(rate) * time).exp() for rate in exact]
        z = array((one * by for row in limit.limits for one, by in zip(row, shrunk, strict=True)), (n, d))
        return Proved(z, limit.leaders, exact, float(found.times[-1]))


def exact_mirrors(e: Experiment, form: Array) -> Mirrors:
    """Return those symmetries of an experiment that hold without any rounding error: mirrors in coordinate planes."""
    exact = []
    for given in e.instance.get("symmetry") or ():
        M, places = np.asarray(given["matrix"], dtype=np.float64), np.asarray(given["permutation"])
        signs = np.diag(M)
        diagonal = (np.abs(signs) == 1).all() and (np.diag(signs) == M).all()
        if diagonal and (e.tokens * signs == e.tokens[places]).all() and (signs[:, None] * form * signs == form).all():
            exact.append(given)
    group = Group.generated(exact, *e.shape)
    return Mirrors(np.array([np.diag(M) for M in group.matrices]), group.places)
