"""Turn what was found in floats into what is proved: a violation, or a run."""

from __future__ import annotations

from dataclasses import replace
from typing import overload

from attnflow.claims.certificates.exact import NoProof
from attnflow.claims.certificates.make import make
from attnflow.claims.certificates.runs import CertifiedRun, certified_run
from attnflow.claims.claim import get
from attnflow.claims.experiment import Experiment
from attnflow.claims.proved_hypotheses import not_proved
from attnflow.claims.verdict import VIOLATED, Verdict
from attnflow.core.inputs import InputError, quoted
from attnflow.runs.trajectory import Trajectory


@overload
def certify(found: Verdict) -> Verdict: ...
@overload
def certify(found: Trajectory) -> CertifiedRun: ...
def certify(found: Verdict | Trajectory) -> Verdict | CertifiedRun:
    """Return what is proved of a verdict or of a run, or how far the proof came and why it stopped.

    - A verdict has `certified` "exact" or "ball" if a certificate is made of it. A flow is enclosed in balls until all
      tokens provably keep their leaders; where that fails, `because` ends with how far it came and why it stopped.
      Verdicts that are proved already, and those that are no violations, stay as they are. `check(..., certify=True)`
      does the same.
    - A run of few tokens, x^0 to x^T or x(0) to x(T), has balls that hold the true tokens at its end, and a bound of
      the error of each coordinate that was recorded there. Softmax under `Flow`, `RescaledFlow` and `SphereFlow` is
      enclosed; softmax layers are replayed in balls, those of hardmax and localmax in fractions.

    Eleven tokens on a circle stay apart, which refutes the codimension conjecture of arXiv 2305.05465 for V = I, where
    the claim is that e^{-t} x tends to at most three points:

    >>> import numpy as np
    >>> import attnflow as af
    >>> angles = 2 * np.pi * np.arange(11) / 11
    >>> x = 10 * np.column_stack([np.cos(angles), np.sin(angles)])
    >>> verdict = af.check("emergence/codimension-k/b", tokens=x, V=np.eye(2), until=13.0)
    >>> verdict.certified, certify(verdict).certified
    ('float', 'ball')

    A run to time 1, whose integrator has a relative tolerance of 1e-9:

    >>> run = af.simulate([[1.0], [-1.0]], af.Softmax(), af.Flow(), until=1.0)
    >>> proved = certify(run)
    >>> proved.reached, proved.radius < 1e-15, proved.error < 1e-8
    (True, True, True)

    References
    ----------
    R. Lohner, *Enclosing the solutions of ordinary initial and boundary value problems* (1987).
    """
    if isinstance(found, Trajectory):
        return certified_run(found)
    if not isinstance(found, Verdict):
        raise InputError(f"found is {quoted(found)}, expected what check or simulate returns: give a run or a verdict")
    return _certified(found)


def _certified(verdict: Verdict) -> Verdict:
    if verdict.outcome != VIOLATED or verdict.certified in ("exact", "ball"):
        return verdict
    try:
        found = make(verdict.claim, verdict.instance)
        claim = get(verdict.claim)
        e = Experiment(verdict.instance, *claim.setting.modelled(dict(verdict.instance)))
        # The comparisons of exact certificates have the hypotheses among them.
        if found.kind == "ball" and (names := not_proved(claim, e.symmetrised())):
            raise NoProof(f"the hypothesis {names[0]!r} is known in floats alone")
    except InputError as error:
        return replace(verdict, because=f"{verdict.because}; it is not proved: {error}")
    words = found.shown if found.kind == "ball" else "by comparisons of rational numbers"
    return replace(verdict, certified=found.kind, because=f"{verdict.because}; proved: {words}")
