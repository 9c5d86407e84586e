"""A proof as data: numbers as strings, and what has to be recomputed to believe it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from attnflow.claims.certificates.lean import theorem
from attnflow.core.inputs import InputError

FOLDER = Path(__file__).parent / "stored"
KEYS = ("version", "claim", "kind", "given", "proof", "shown")


@dataclass(frozen=True)
class Certificate:
    """A refutation of a claim, or a proof of it, that a program without attnflow can verify.

    `given` is the instance, numbers as strings of fractions; `proof` has what makes the proof short: directions,
    weights, steps, balls (middle, radius). `kind` is "exact" or "ball". `shown` are comparisons of rational numbers for
    exact ones, [what, left, relation, right], and a sentence for those in balls. `docs/certificates.md` has the format.

    Theorem 3.1 of arXiv 2508.09628 claims J^t(x_i^{t+1}) <= 2/(t+1) lambda_max(B_*) diam(K)^2:

    >>> found = stored("fw/cluster-rate")
    >>> found.kind, found.given["tokens"], found.shown[-1][0]
    ('exact', [['1'], ['-2']], 'the energy is above the bound')
    """

    claim: str
    kind: str
    given: Mapping[str, Any]
    proof: Mapping[str, Any]
    shown: Any
    version: ClassVar[int] = 1

    @property
    def data(self) -> dict[str, Any]:
        """The certificate as plain data."""
        return {name: getattr(self, name) for name in KEYS}

    def save(self, path: str | Path) -> None:
        """Write the certificate to a file of JSON."""
        try:
            Path(path).write_text(json.dumps(self.data, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"{str(path)!r} cannot be written ({error.strerror}): give another path") from None

    @classmethod
    def load(cls, path: str | Path) -> Certificate:
        """Read a certificate from a file; nothing is verified by that."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"there is no certificate {str(path)!r}: give the path of a file that was saved") from None
        except (OSError, UnicodeDecodeError, json.JSONDecodeError):
            raise InputError(f"{str(path)!r} is no certificate: it is not a file of JSON") from None
        if not isinstance(data, dict) or {*data} != {*KEYS} or data["version"] != cls.version:
            raise InputError(
                f"{str(path)!r} is no certificate: expected the keys {', '.join(KEYS)} and version {cls.version}"
            )
        return cls(**{name: data[name] for name in KEYS[1:]})

    def lean(self) -> str:
        """Return the comparisons of an exact certificate as a theorem of Lean 4 with Mathlib, proved by `norm_num`.

        >>> print(stored("neuralode/controllability").lean())
        import Mathlib.Tactic.NormNum
        <BLANKLINE>
        /-- neuralode/controllability is refuted by these comparisons: the points; their targets. -/
        theorem neuralode_controllability_refuted :
            (-1 : ℚ) < 1 ∧
            (3 : ℚ) ≥ 2 := by
          norm_num
        """
        if self.kind != "exact":
            raise InputError(
                f"the certificate of {self.claim} is in balls: Lean statements are made of exact ones alone"
            )
        return theorem(self.claim, self.shown)


@cache
def names() -> dict[str, Path]:
    """Return the files of the stored certificates by claim."""
    return {path.stem.replace(".", "/"): path for path in sorted(FOLDER.glob("*.json"))}


def stored(claim: str) -> Certificate:
    """Return the certificate that attnflow keeps of a claim that is refuted, or of sphere/collapse/gap.

    >>> stored("emergence/polytope/pair").kind
    'ball'
    """
    if claim not in names():
        raise InputError(f"no certificate of {claim!r} is kept, expected one of {', '.join(sorted(names()))}")
    return Certificate.load(names()[claim])
