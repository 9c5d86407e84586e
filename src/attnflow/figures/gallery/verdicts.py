"""The figure of all claims, from the report that `make claims` stores beside this file."""

from __future__ import annotations

import json
from collections import Counter
from importlib.resources import files
from typing import Any

from attnflow.claims.claim import OPEN, STATUSES
from attnflow.claims.verdict import HOLDS, VIOLATED
from attnflow.claims.witness import REFUTED
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.verdicts import alarming, verdicts


def stored() -> dict[str, Any]:
    """Return the stored report."""
    report: dict[str, Any] = json.loads(files("attnflow.figures.gallery").joinpath("verdicts.json").read_text("utf-8"))
    return report


@entry("claims/verdicts", "The claims of the literature as a matrix of verdicts", "the papers of all claims")
def matrix() -> Drawing:
    """Every claim: its status, the verdict on its samples, what a search found, how that is certified."""
    report = stored()
    rows = report["claims"]
    statuses, outcomes = (Counter(row[key] for row in rows) for key in ("status", "outcome"))
    refuted = sum(row["search"] == REFUTED for row in rows)
    alarms = sum(map(alarming, rows))
    tried = sorted({row["evaluations"] for row in rows})
    attacked = sum(row["search"] is not None for row in rows)
    surprises = [row["claim"] for row in rows if row["status"] == OPEN and row["search"] == REFUTED]
    caption = (
        f"{len(rows)} claims: {', '.join(f'{statuses[status]} {status}' for status in STATUSES)}. Each was checked "
        f"on its own samples: {outcomes[HOLDS]} hold on them and {outcomes[VIOLATED]} are violated. {attacked} were "
        f"attacked by a search among {tried[0]} instances, those known to be false among {tried[-1]}; it refuted "
        f"{refuted}, among them these open ones: {', '.join(surprises) or 'none'}. Claims that are proved or derived "
        f"and fell: {alarms}. The last column says how: in exact fractions, in balls that enclose the true values, "
        "by confidence bounds for random claims, or in floats with an error bound."
    )
    shows = {
        "claims": len(rows),
        **{status: statuses[status] for status in STATUSES},
        **{f"samples: {outcome}": count for outcome, count in sorted(outcomes.items())},
        "searched": attacked,
        "refuted by search": refuted,
        "alarms": alarms,
    }
    return Drawing(verdicts(report), caption, shows)
