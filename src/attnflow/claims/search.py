"""Attack a claim: sample, descend on the margin, extend the horizon, confirm, shrink, prove."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import takewhile
from typing import Any

import numpy as np

from attnflow.claims.check import decide, sampled
from attnflow.claims.claim import Claim, Instance, get
from attnflow.claims.errors import BrokenInstance
from attnflow.claims.experiment import RTOL, products
from attnflow.claims.instances import read
from attnflow.claims.margins import BrokenClaim
from attnflow.claims.shrink import HORIZONS, shrink
from attnflow.claims.verdict import HOLDS, UNDECIDED, VIOLATED, Verdict
from attnflow.claims.witness import Witness
from attnflow.core import progress
from attnflow.core.inputs import Array, InputError, number, whole

EVALUATIONS = 1000
ROUND = 16  # samples between two local searches
DESCENT = 40  # evaluations of one local search
DOUBLINGS = 6
SHRINKING = 150  # evaluations to make a witness small
LONGEST = 100_000  # products of a longer horizon: a second or so, even in fractions
GROWTH = (2, 4)  # multiples of a "universal" constant that must fail too
PROOFS = ("exact", "ball")
SCALARS = ("beta", "delta", "eps")


class _Spent(Exception):
    """The evaluations or the seconds are used up."""


def search(id: str, seconds: float | None = None, evaluations: int | None = None, seed: int = 0) -> Witness | None:
    """Look for a counterexample to a claim; return it, small and confirmed, or None.

    Rounds of samples of every kind; from those closest to failing the margin is lowered by the method of Nelder and
    Mead, and horizons are multiplied by 2, 4 .. 64. A violation, margin < -tol, counts if it is proved in fractions or
    balls, or if it survives twice the horizon and a tenth of the tolerance (for random claims: fresh seeds). The
    witness is then made small: few tokens, small rationals.

    Parameters
    ----------
    seconds
        A cap on the time, for reports; without it the result depends on nothing but the seed and `evaluations`.
    evaluations
        How many instances to check at most, 1000 by default.

    Examples
    --------
    >>> import attnflow as af
    >>> witness = af.search("fw/own-cell", evaluations=200, seed=0)
    >>> witness.verdict.outcome, witness.exact
    ('violated', True)

    References
    ----------
    Nelder, Mead, *A simplex method for function minimization* (1965).
    """
    claim = get(id)
    limit = EVALUATIONS if evaluations is None else whole(evaluations, "evaluations", least=1)
    until = None if seconds is None else time.monotonic() + number(seconds, "seconds", above=0.0)
    with progress.task(f"search {claim.id}", limit) as work:
        return Attack(claim, limit, until, whole(seed, "seed", least=0), work).run()


class Attack:
    """One search: the claim, what is left of its budget, and where its random numbers come from."""

    def __init__(self, claim: Claim, limit: int, until: float | None, seed: int, work: progress.Task) -> None:
        self.claim, self.limit, self.until, self.seed, self.work = claim, limit, until, seed, work
        self.used = 0
        # Whether the claim could be looked at on some instance, and the first error that an instance raised.
        self.looked = False
        self.broken: BrokenInstance | None = None

    def run(self) -> Witness | None:
        try:
            for start in range(0, self.limit, ROUND):
                if (witness := self._round(start)) is not None:
                    return witness
        except _Spent:
            pass
        if self.broken is not None and not self.looked:
            raise self.broken
        return None

    def _round(self, start: int) -> Witness | None:
        """Check samples, then try to make violations of those closest to failing."""
        found: list[tuple[float, int, Instance]] = []
        for k in range(start, start + ROUND):
            instance = self._sample(k)
            verdict = self._verdict(instance)
            if (witness := self._settle(instance, verdict)) is not None:
                return witness
            if verdict is not None and verdict.outcome in (HOLDS, UNDECIDED):
                found.append((verdict.margin, k, instance))
        for _, _, instance in sorted(found, key=lambda entry: entry[:2])[:2]:
            if (witness := self._further(instance) or self._descended(instance)) is not None:
                return witness
        return None

    def _sample(self, k: int) -> Instance:
        return sampled(self.claim, self.seed, k)

    def _verdict(self, instance: Instance) -> Verdict | None:
        """Return the verdict on an instance, at the cost of one evaluation; None if it is refused."""
        if self.used >= self.limit or self._late():
            raise _Spent
        self.work.reach(self.used, f"{self.used} of {self.limit} evaluations")
        self.used += 1
        return self._decided(instance)

    def _decided(self, instance: Instance, rtol: float = RTOL) -> Verdict | None:
        """Return the verdict; None where a model refuses: tokens that meet their antipodes, too long a run."""
        verdict = None
        try:
            verdict = decide(self.claim, instance, rtol=rtol)
        except BrokenInstance as error:
            self.broken = self.broken or error
            return None
        except BrokenClaim:
            raise
        except InputError:
            pass
        self.looked = True
        return verdict

    def _violated(self, instance: Instance, rtol: float = RTOL) -> bool:
        verdict = self._decided(instance, rtol)
        return verdict is not None and verdict.outcome == VIOLATED

    def _further(self, instance: Instance) -> Witness | None:
        for doublings in range(1, DOUBLINGS + 1):
            longer, x = self._longer(instance, 2**doublings), instance.get("tokens")
            if longer is None or (x is not None and products(x.shape, longer.get("steps", 0)) > LONGEST):
                return None
            if (witness := self._settle(longer, self._verdict(longer))) is not None:
                return witness
        return None

    def _descended(self, instance: Instance) -> Witness | None:
        """Minimise the margin over tokens and scalars by the simplex method of Nelder and Mead."""
        from scipy.optimize import minimize

        numbers = _numbers(instance)
        if numbers is None:
            return None
        best: list[tuple[Instance, Verdict]] = []

        def margin(theta: Array) -> float:
            moved = _moved(instance, theta)
            verdict = self._verdict(moved)
            if verdict is None:
                return 1e6
            if verdict.outcome == VIOLATED:
                best.append((moved, verdict))
                raise StopIteration
            return verdict.margin if verdict.outcome in (HOLDS, UNDECIDED) else 1e3 - verdict.margin

        try:
            simplex = np.vstack([numbers, numbers + 0.2 * np.eye(len(numbers))])
            minimize(margin, numbers, method="Nelder-Mead", options={"maxfev": DESCENT, "initial_simplex": simplex})
        except StopIteration:
            return self._settle(*best[-1])
        return None

    def _settle(self, instance: Instance, verdict: Verdict | None) -> Witness | None:
        """Return a confirmed and shrunk witness if the verdict is a violation."""
        if verdict is None or verdict.outcome != VIOLATED or not self.survives(instance, verdict):
            return None
        small, smaller = shrink(instance, verdict, self._still(verdict))
        if small is not instance and not self.survives(small, smaller):
            small, smaller = instance, verdict
        if "C" in small:
            others = " and ".join(f"{factor * small['C']:g}" for factor in GROWTH)
            smaller = replace(smaller, because=f"{smaller.because}; samples with C = {others} violate it too")
        return Witness(self.claim.id, small, smaller, self.used)

    def _still(self, first: Verdict) -> Any:
        """Return the test that shrinking asks: a violation at least as well certified as those before it."""
        end, best = self.used + SHRINKING, [first.certified]

        def violates(instance: Instance) -> Verdict | None:
            if self.used >= end or self._late():
                return None
            self.used += 1
            verdict = decide(self.claim, read(self.claim, instance))
            as_well = verdict.certified == best[0] or (verdict.certified in PROOFS and best[0] not in PROOFS)
            if verdict.outcome != VIOLATED or not as_well:
                return None
            best[0] = verdict.certified
            return verdict

        return violates

    def survives(self, instance: Instance, verdict: Verdict) -> bool:
        """Say whether a violation is proved, or survives fresh seeds, twice the horizon, a tenth of the tolerance."""
        # Samples must violate the claim with twice and four times the constant too: no constant serves.
        if "C" in instance and not all(self.fails_with(factor * instance["C"]) for factor in GROWTH):
            return False
        if verdict.certified in PROOFS:
            return True
        if verdict.certified == "statistical":
            again = [{**instance, "seed": instance["seed"] + shift} for shift in (1, 2)]
            return all(map(self._violated, again))
        longer = self._longer(instance, 2) or instance
        return self._violated(longer) and self._violated(instance, RTOL / 10)

    def fails_with(self, C: float) -> bool:
        """Say whether some sample violates the claim with this constant."""
        samples = takewhile(lambda k: not self._late(), range(10 * ROUND))
        return any(self._violated({**self._sample(k), "C": C}) for k in samples)

    def _longer(self, instance: Instance, factor: int) -> Instance | None:
        """Return the instance with more steps, or more time if its motion is a flow; None if it has no horizon."""
        name = HORIZONS[not self.claim.setting.modelled(instance)[1].discrete]
        return {**instance, name: factor * instance[name]} if name in instance else None

    def _late(self) -> bool:
        return self.until is not None and time.monotonic() > self.until


def _numbers(instance: Instance) -> Array | None:
    """Return the numbers that the optimiser varies: the tokens over their size, and logarithms of positive scalars."""
    if instance.get("tokens") is None or instance.get("symmetry") is not None:
        return None
    x = instance["tokens"]
    scalars = np.log([instance[name] for name in _scalars(instance)])
    return np.concatenate([(x / (np.abs(x).max() or 1.0)).ravel(), scalars])


def _scalars(instance: Instance) -> list[str]:
    """Return the names of the positive numbers that may be varied."""
    return [name for name in SCALARS if isinstance(instance.get(name), float) and instance[name] > 0]


def _moved(instance: Instance, theta: Array) -> Instance:
    x = instance["tokens"]
    moved = {**instance, "tokens": (np.abs(x).max() or 1.0) * theta[: x.size].reshape(x.shape)}
    return moved | {name: float(np.exp(v)) for name, v in zip(_scalars(instance), theta[x.size :], strict=True)}
