"""Counterexamples that were found, as data and as a snippet of Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow.claims.certificates.certificate import Certificate
from attnflow.claims.verdict import Verdict
from attnflow.core.inputs import varies_in_time
from attnflow.core.schedules import Schedule

# What a search found, in words: a counterexample, or none.
REFUTED, SURVIVES = "refuted", "nothing found"


@dataclass(frozen=True)
class Witness:
    """A counterexample: `check(claim, **instance)` returns `verdict`, and `exact` says if it is proved in fractions.

    That of Theorem 3.1 of arXiv 2508.09628, which claims J^t(x_i^{t+1}) <= 2/(t+1) lambda_max(B_*) diam(K)^2:

    >>> from attnflow.claims.check import check
    >>> given = {"tokens": [[3.0], [-1.0]], "steps": 700}
    >>> print(Witness("fw/cluster-rate", given, check("fw/cluster-rate", **given), evaluations=1).snippet)
    import attnflow as af
    <BLANKLINE>
    verdict = af.check("fw/cluster-rate", tokens=[[3.0], [-1.0]], steps=700)
    """

    claim: str
    instance: Mapping[str, Any]
    verdict: Verdict
    evaluations: int

    @property
    def exact(self) -> bool:
        """Whether the violation is a proof in rational arithmetic."""
        return self.verdict.certified == "exact"

    @property
    def certificate(self) -> Certificate:
        """What proves it to a program without attnflow; refused where no argument is known.

        >>> from attnflow.claims.search import search
        >>> search("neuralode/controllability", evaluations=40).certificate.kind
        'exact'
        """
        from attnflow.claims.certificates.make import make

        return make(self.claim, self.instance)

    @property
    def snippet(self) -> str:
        """Python that replays it."""
        given = [f"{name}={value!r}" for name, value in plain(self.instance).items() if value is not None]
        call = ", ".join([f'"{self.claim}"', *given])
        if len(call) > 100:
            call = "".join(f"\n    {part}," for part in (f'"{self.claim}"', *given)) + "\n"
        return f"import attnflow as af\n\nverdict = af.check({call})"


def plain(instance: Mapping[str, Any]) -> dict[str, Any]:
    """Return an instance as plain data: numbers, strings, lists and dictionaries.

    >>> plain({"tokens": np.eye(2), "gamma": Schedule("1 / (t + 2)")})
    {'tokens': [[1.0, 0.0], [0.0, 1.0]], 'gamma': '1 / (t + 2)'}
    """
    return {name: _plain(value) for name, value in instance.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Schedule):
        return value.text
    if isinstance(value, Mapping):
        return plain(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return repr(value) if varies_in_time(value) else value
