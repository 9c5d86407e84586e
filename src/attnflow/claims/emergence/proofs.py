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
from attnflow.enclosures.numbers import Numbers, arithmetic, array, ball, balls
from attnflow.laws import Softmax
from attnflow.motions import Flow

# Flows of at most this many coordinates are enclosed, for at most this time in units of the fastest rate.
MOST, LONGEST = 20, 5.0
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


def proved_limits(e: Experiment) -> Proved | None:
    """Return the limits of the tokens of an experiment, proved in balls; None where that fails."""
    motion = e.motion.motion if isinstance(e.motion, Symmetric) else e.motion
    n, d = e.shape
    if not isinstance(e.law, Softmax) or not isinstance(motion, Rescaled | Discounted) or e.arithmetic != "float":
        return None
    beta: Any = e.law.beta
    V = np.eye(d) if motion.V is None else np.asarray(motion.V, dtype=np.float64)
    rates = np.diag(V)
    diagonal = (np.diag(rates) == V).all() and rates.min() >= 0 and rates.max() > 0
    if n * d > MOST or not diagonal or varies_in_time(beta) or varies_in_time(e.law.B) or e.law.b is not None:
        return None
    form = np.eye(d) if e.law.B is None else np.asarray(e.law.B, dtype=np.float64)
    mirrors = _mirrors(e, form)
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
        G = balls(B) * ball(beta)
        found = enclose(
            x, Softmax(beta=beta, B=B), Flow(V=np.diag(rates[0])), end, tolerance=TOLERANCE, order=ORDER,
            enough=lambda state: locked(state, G, exact, mirrors) is not None, mirrors=mirrors,
        )  # fmt: skip
        limit = locked(found.final, G, exact, mirrors)
        if limit is None:
            return None
        time = ball(found.times[-1])
        shrunk = [(-ball(rate) * time).exp() for rate in exact]
        z = array((one * by for row in limit.limits for one, by in zip(row, shrunk, strict=True)), (n, d))
        return Proved(z, limit.leaders, exact, float(found.times[-1]))


def _mirrors(e: Experiment, form: Array) -> Mirrors:
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
