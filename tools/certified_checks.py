"""Try to contradict the claims whose status is proved, by checks that are rigorous: in fractions, or in balls.

python -m tools.certified_checks --count 10000 --seed 0 --store src/attnflow/claims/certificates/certified_checks.json

Claims about layers that fractions hold are checked as `attnflow check` does, in fractions; the others, flows above
all, as `tools.checks_in_balls` does. Checks go on until `count` of them are certified. For one seed and one count the
draws are always the same. A contradiction would be a mistake in the code, or a discovery.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from attnflow.claims.check import EXACT_AT_MOST, decide, sampled
from attnflow.claims.claim import PROVED, Claim
from attnflow.claims.claim import all as every_claim
from attnflow.claims.experiment import products
from attnflow.claims.verdict import HOLDS, UNDECIDED, VIOLATED
from attnflow.core.inputs import InputError
from attnflow.enclosures.numbers import arithmetic
from tools.certified_draws import NotDecided
from tools.checks_in_balls import CHECKS

STORED = Path(__file__).parents[1] / "src/attnflow/claims/certificates/certified_checks.json"
BITS = 128
# These take a second or more: one check of such a claim for this many of the others.
SLOW, RARER = ("sphere", "emergence", "norm"), 8
# After this many draws for each check that is asked for, a claim is left.
PATIENCE = 3
WHOLE = "as `attnflow check` does"

# What became of an instance, and why if nothing is certified.
Found = tuple[str, str]


@dataclass
class Tally:
    """The certified checks of a claim: how often it holds, why others are undecided, and what contradicts it."""

    claim: str
    how: str
    part: str
    holds: int = 0
    undecided: Counter[str] = field(default_factory=Counter)
    contradictions: list[int] = field(default_factory=list)
    drawn: int = 0

    @property
    def certified(self) -> int:
        """How many checks are rigorous."""
        return self.holds + len(self.contradictions)

    def add(self, found: Found) -> None:
        """Count what became of the next instance."""
        outcome, why = found
        if outcome == VIOLATED:
            self.contradictions.append(self.drawn)
        self.holds += outcome == HOLDS
        if outcome == UNDECIDED:
            self.undecided[why] += 1
        self.drawn += 1

    @property
    def data(self) -> dict[str, Any]:
        """The tally as plain data, without the words for what is checked."""
        found = {**vars(self), "undecided": dict(sorted(self.undecided.items()))}
        del found["part"]
        return found


def seed_of(claim: Claim, seed: int) -> int:
    """Return a seed of the claim's own: claims that share a sampler are checked on different instances."""
    return int(np.random.SeedSequence([seed, *claim.id.encode()]).generate_state(1)[0])


def in_fractions(claim: Claim, seed: int, k: int) -> Found:
    """Return what the check of a claim says of its k-th sample in fractions."""
    try:
        instance = sampled(claim, seed_of(claim, seed), k)
        if products(np.shape(instance["tokens"]), instance.get("steps", 1)) > EXACT_AT_MOST:
            return UNDECIDED, "the run is too long for fractions"
        verdict = decide(claim, instance, most=inf)
    except InputError as error:
        return UNDECIDED, str(error)
    if verdict.outcome in (HOLDS, VIOLATED) and verdict.certified == "exact":
        return verdict.outcome, ""
    if verdict.outcome in (HOLDS, VIOLATED):
        return UNDECIDED, "a parameter is no fraction"
    return UNDECIDED, verdict.outcome if verdict.undecided is None else verdict.undecided.cause


def in_balls(claim: Claim, seed: int, k: int) -> Found:
    """Return what the signs of balls, or of fractions, say of the k-th instance of a claim."""
    check = CHECKS[claim.id][1]
    try:
        with arithmetic(BITS):
            values = list(check(np.random.default_rng([seed, *claim.id.encode(), k]), k))
    except NotDecided as error:
        return UNDECIDED, str(error)
    if any(one < 0 for one in values):
        return VIOLATED, ""
    return (HOLDS, "") if values and all(one >= 0 for one in values) else (UNDECIDED, "a ball holds 0")


def checked() -> dict[str, tuple[Tally, Callable[[Claim, int, int], Found]]]:
    """Return an empty tally for each proved claim that has a rigorous check, and the check.

    >>> tally, check = checked()["hardmax/norms"]
    >>> tally.how, check.__name__
    ('fractions', 'in_fractions')
    """
    found: dict[str, tuple[Tally, Callable[[Claim, int, int], Found]]] = {}
    for claim in every_claim():
        if claim.status == PROVED and "exact" in claim.setting.arithmetics:
            found[claim.id] = Tally(claim.id, "fractions", WHOLE), in_fractions
        elif claim.status == PROVED and claim.id in CHECKS:
            how = "fractions" if claim.id in ("fw/ode", "fw/voronoi") else "balls"
            found[claim.id] = Tally(claim.id, how, CHECKS[claim.id][0]), in_balls
    return found


def unchecked() -> list[str]:
    """Return the proved claims that have no rigorous check."""
    known = checked()
    return [claim.id for claim in every_claim() if claim.status == PROVED and claim.id not in known]


def shares(claims: list[str], count: int) -> dict[str, int]:
    """Return how many certified checks each claim is to have: fewer for those that take long, and at least one.

    >>> shares(["fw/cells", "emergence/growth"], 90)
    {'fw/cells': 80, 'emergence/growth': 10}
    """
    slow = [one.split("/")[0] in SLOW for one in claims]
    whole = sum(1 if one else RARER for one in slow)
    found = {name: max(1, count * (1 if one else RARER) // whole) for name, one in zip(claims, slow, strict=True)}
    found[min(claims, key=lambda one: one.split("/")[0] in SLOW)] += max(0, count - sum(found.values()))
    return found


def run(count: int, seed: int, claims: list[str] | None = None) -> Iterator[Tally]:
    """Yield the tally of each claim once it is complete; what one claim leaves undecided goes to the next ones."""
    known = {one.id: one for one in every_claim()}
    ready = {name: one for name, one in checked().items() if claims is None or name in claims}
    # Slow ones first, so that the cheap ones make up for what these leave undecided.
    order = sorted(shares([*ready], count).items(), key=lambda one: one[0].split("/")[0] not in SLOW)
    owed = 0
    for name, share in order:
        tally, check = ready[name]
        wanted = share + owed
        while tally.certified < wanted and tally.drawn < PATIENCE * wanted + PATIENCE:
            tally.add(check(known[name], seed, tally.drawn))
        owed = wanted - tally.certified
        yield tally


def main(count: int, seed: int, store: Path | None, claims: list[str] | None) -> int:
    """Print the tallies as they come; return 1 if a claim is contradicted."""
    tallies = []
    for one in run(count, seed, claims):
        tallies.append(one)
        why = "; ".join(f"{number} {words}" for words, number in sorted(one.undecided.items()))
        told = f", {one.undecided.total()} undecided ({why})" if why else ""
        bad = f", CONTRADICTED by the draws {one.contradictions}" if one.contradictions else ""
        print(f"{one.claim}: {one.holds} hold, in {one.how}{told}{bad}", flush=True)
    wrong = sum(len(one.contradictions) for one in tallies)
    print(f"{sum(one.certified for one in tallies)} certified checks of {len(tallies)} claims, {wrong} contradictions")
    if store is not None:
        data = {"count": count, "seed": seed, "tallies": [one.data for one in tallies]}
        store.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return int(wrong > 0)


if __name__ == "__main__":
    parser = ArgumentParser(description="try to contradict proved claims by certified checks")
    parser.add_argument("--count", type=int, default=10_000, help="how many certified checks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", type=Path, help="a file of JSON for the tallies")
    parser.add_argument("--claims", nargs="+", help="these claims alone")
    given = parser.parse_args()
    raise SystemExit(main(given.count, given.seed, given.store, given.claims))
