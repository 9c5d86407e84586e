"""Verdicts for people and for machines: one line per claim, and a report that replays."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from textwrap import shorten
from typing import Any, NamedTuple

from attnflow.claims.check import on_samples
from attnflow.claims.claim import DERIVED, PROVED, STATUSES, Claim, all, get
from attnflow.claims.verdict import VIOLATED, Verdict
from attnflow.claims.witness import Witness, plain
from attnflow.core.inputs import InputError
from attnflow.serialise import versions

# How long a line of the list of claims is at most, and the column of their status.
LINE, STATUS = 120, max(map(len, STATUSES))


class Checked(NamedTuple):
    """A claim with its verdict and the seconds that took."""

    claim: Claim
    verdict: Verdict
    seconds: float

    @property
    def alarming(self) -> bool:
        """Whether a claim that should hold is violated."""
        return self.verdict.outcome == VIOLATED and self.claim.status in (PROVED, DERIVED)

    @property
    def line(self) -> str:
        """The claim, its status, verdict, margin, certificate, number of instances and time in one line."""
        v = self.verdict
        tried = f"{v.tried} instance{'s' if v.tried > 1 else ''}"
        return (
            f"{self.claim.id:<42} {self.claim.status:<17} {v.outcome:<19} {v.margin:>9.2g}  {v.certified:<12}"
            f"{tried:<14}{self.seconds:6.1f} s" + (f"  {v.limitation}" if v.limitation else "")
        )

    @property
    def told(self) -> str:
        """The line, why the verdict is so, and what is noted beside the claim."""
        return "\n".join(filter(None, (self.line, self.verdict.because, self.claim.note)))

    @property
    def data(self) -> dict[str, Any]:
        """Plain data from which the verdict can be replayed."""
        v = self.verdict
        return {
            "claim": self.claim.id,
            "status": self.claim.status,
            "outcome": v.outcome,
            "margin": v.margin if math.isfinite(v.margin) else None,
            "where": v.where,
            "certified": v.certified,
            "level": v.level,
            "because": v.because,
            "decided_to": v.decided_to,
            "instances": v.tried,
            "seconds": round(self.seconds, 3),
            "instance": plain(v.instance),
        }


def selected(name: str) -> list[Claim]:
    """Return the claims that a name stands for: "all", a paper such as "fw", or one id.

    >>> [claim.id for claim in selected("fw/cluster-rate")]
    ['fw/cluster-rate']
    """
    if name == "all":
        return all()
    return [claim for claim in all() if claim.paper.short == name] or [get(name)]


def listed(claims: list[Claim]) -> str:
    """Return a list of claims by paper: the id, the status and the beginning of the statement of each.

    >>> print(listed(selected("fw/voronoi")).splitlines()[1][:49])
      fw/voronoi  proved            If B is symmetric
    """
    papers: dict[str, list[Claim]] = {}
    for claim in claims:
        papers.setdefault(f"{claim.paper.short}: {claim.paper.title} (arXiv {claim.paper.arxiv})", []).append(claim)
    parts = []
    for head, own in papers.items():
        wide, lines = max(len(claim.id) for claim in own), [head]
        for claim in own:
            begin = f"  {claim.id:<{wide}}  {claim.status:<{STATUS}}  "
            lines.append(begin + shorten(claim.statement, LINE - len(begin), placeholder=" ..."))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def checked(claims: list[Claim], seed: int = 0) -> Iterator[Checked]:
    """Check claims on their own samples, one after the other."""
    for claim in claims:
        begin = time.perf_counter()
        verdict = on_samples(claim, seed=seed)
        yield Checked(claim, verdict, time.perf_counter() - begin)


def report(rows: list[Checked], seed: int) -> dict[str, Any]:
    """Return a report of verdicts: versions, the seed of the samples, and each claim with its closest instance."""
    return {"versions": versions(), "seed": seed, "claims": [row.data for row in rows]}


def told(claim: Claim, witness: Witness | None) -> str:
    """Return what a search found, in words, with the Python that replays it."""
    if witness is None:
        return f"{claim.id} ({claim.status}): no counterexample found; more --seconds and --evaluations look further"
    v = witness.verdict
    numbers = "\n".join(f"  {name} = {value}" for name, value in plain(witness.instance).items() if value is not None)
    return (
        f"{claim.id} ({claim.status}) is refuted, certified {v.certified}, after {witness.evaluations} evaluations\n"
        f"{numbers}\n  because {v.because}\n\nreplay:\n\n{witness.snippet}\nprint(verdict)"
    )


def parameters(claims: list[Claim], given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of an instance for one claim; several claims have no instance in common."""
    if given and len(claims) != 1:
        raise InputError(
            f"an instance belongs to one claim, but {len(claims)} were asked for: name one, such as {claims[0].id}"
        )
    return given
