"""What a check says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attnflow.claims.margins import Undecided
from attnflow.core.cards import card

HOLDS, VIOLATED, NOT_MET, UNDECIDED = ("holds", "violated", "hypotheses not met", "undecided")


@dataclass(frozen=True)
class Verdict:
    """What a check says of a claim on an instance.

    `outcome` is one of "holds", "violated", "hypotheses not met", "undecided"; `margin` is dimensionless, positive is
    slack; `where` is the (step or time, token or None) of the first failure or doubt, or None; `certified` is how:
    "exact" in rational arithmetic, "ball" in rigorous interval arithmetic, "statistical" with its level in `because`,
    "float" with the error from a rerun at a tighter tolerance; `because` is one sentence. `instance` replays it with
    `check(claim, **instance)`, and `tried` counts the instances behind the verdict. `undecided` holds the cause and the
    remedy that `because` of an undecided verdict ends with. `decided_to` is None, or the step or time up to which the
    verdict is known where the later ones are undecided; `decided_for` says it in words, "the first 54 of 60 steps".

    Section 4 of arXiv 2508.09628: both ends v = 1 and v = -1 of a segment own their cells, as <v, -v - v> = -2 < 0.

    >>> from attnflow.claims.check import check
    >>> verdict = check("fw/own-cell/repaired", tokens=[[1.0], [-1.0]])
    >>> verdict.outcome, verdict.margin, verdict.certified
    ('holds', 2.0, 'exact')
    """

    outcome: str
    margin: float
    where: tuple[Any, int | None] | None
    certified: str
    because: str
    claim: str = ""
    instance: Mapping[str, Any] = field(default_factory=dict, repr=False)
    tried: int = 1
    level: float | None = None
    undecided: Undecided | None = field(default=None, repr=False)
    decided_to: float | None = None
    decided_for: str | None = None

    @property
    def limitation(self) -> str:
        """The words that stand beside the outcome on one instance where it is decided for a part of the run only."""
        return f"decided for {self.decided_for}" if self.decided_for and self.tried == 1 else ""

    def _repr_html_(self) -> str:
        step, token = self.where or (None, None)
        head = ", ".join(filter(None, (self.outcome, self.limitation)))
        rows = {
            "margin": f"{self.margin:.3g}", "step or time": step, "token": token, "certified": self.certified,
            "level": self.level, "instances": self.tried, "because": self.because,
        }  # fmt: skip
        return card(f"{self.claim}: {head}" if self.claim else head, rows)
