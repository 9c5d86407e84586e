"""Comparisons of rational numbers as a theorem of Lean 4."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

RELATIONS = {"<": "<", "<=": "≤", "=": "=", ">": ">", ">=": "≥", "!=": "≠"}


def theorem(claim: str, shown: Sequence[Sequence[str]]) -> str:
    """Return a theorem that all comparisons [what, left, relation, right] are true.

    >>> print(theorem("a/b", [["it is less", "1/2", "<", "1"]]))
    import Mathlib.Tactic.NormNum
    <BLANKLINE>
    /-- a/b is refuted by these comparisons: it is less. -/
    theorem a_b_refuted :
        (1 / 2 : ℚ) < 1 := by
      norm_num
    """
    lines = [f"    ({_number(left)} : ℚ) {RELATIONS[relation]} {_number(right)}" for _, left, relation, right in shown]
    name = re.sub(r"\W", "_", claim)
    return "\n".join([
        "import Mathlib.Tactic.NormNum", "",
        f"/-- {claim} is refuted by these comparisons: {'; '.join(one[0] for one in shown)}. -/",
        f"theorem {name}_refuted :", " ∧\n".join(lines) + " := by", "  norm_num",
    ])  # fmt: skip


def _number(text: str) -> str:
    value = Fraction(text)
    return str(value.numerator) if value.denominator == 1 else f"{value.numerator} / {value.denominator}"
