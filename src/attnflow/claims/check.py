"""Check a claim: hypotheses first, step by step, then the conclusion, then a proof where rounding could decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from attnflow import progress
from attnflow.claims import balls, exact
from attnflow.claims.claim import Claim, Statement, get
from attnflow.claims.experiment import RTOL, Experiment
from attnflow.claims.hypotheses import OF_SYMMETRIC_FORMS
from attnflow.claims.instances import read
from attnflow.claims.margins import Margins, unknown
from attnflow.claims.verdict import HOLDS, NOT_MET, UNDECIDED, VIOLATED, Verdict
from attnflow.inputs import InputError, whole
from attnflow.laws import Law
from attnflow.motions import Motion

# An exact replay is taken at once up to so many products, and up to the second number where floats leave doubt.
EXACT_AT_ONCE, EXACT_AT_MOST = 4e4, 2e6
BALL_AT_MOST = 2e5

# What becomes of a hypothesis that does not hold; the words for the others are those of verdicts.
FAILS = "fails"

Changed = Law | Motion | Callable[[Any], Any] | None


def check(id: str, *, law: Changed = None, motion: Changed = None, seed: int = 0, **instance: Any) -> Verdict:
    """Check a claim on an instance, or on its own samples if none is given.

    Parameters
    ----------
    id
        The claim: see `claims.all()`.
    law, motion
        Another model to put in the place of the claim's own: a law or a motion, or a function that turns the claim's
        own into another. A claim that holds for the model of its paper is expected to fail for a wrong one.
    seed
        Of the samples, and of the draws of a probabilistic claim.
    **instance
        The parameters of the claim, named as in its paper: tokens, B, V, beta, gamma, alpha, delta, steps, until...
        Numbers may be functions of time, or formulas in t such as "2 / (t + 2)".

    Examples
    --------
    >>> import attnflow as af
    >>> verdict = af.check("fw/cluster-rate", tokens=[[3.0], [-1.0]], steps=700)
    >>> verdict.outcome, verdict.certified
    ('violated', 'exact')
    """
    claim = get(id)
    if not instance:
        return on_samples(claim, law=law, motion=motion, seed=whole(seed, "seed", least=0))
    with progress.task(f"check {claim.id}"):
        return decide(claim, read(claim, instance, seed), law=law, motion=motion)


def on_samples(claim: Claim, *, law: Changed = None, motion: Changed = None, seed: int = 0) -> Verdict:
    """Check a claim on its own samples and return the worst verdict: any violation, or how many hold."""
    verdicts = []
    with progress.task(f"check {claim.id}", claim.setting.samples) as work:
        for k in range(claim.setting.samples):
            work.reach(k)
            instance = read(claim, claim.setting.sample(np.random.default_rng([seed, k]), k), seed)
            verdicts.append(decide(claim, instance, law=law, motion=motion))
    return gathered(verdicts)


COUNTED = {VIOLATED: "violate it", HOLDS: "hold", UNDECIDED: "undecided", NOT_MET: "do not meet the hypotheses"}


def gathered(verdicts: list[Verdict]) -> Verdict:
    """Return one verdict for several instances: violated if one is, else that of the majority of those that tell."""
    by = {outcome: [v for v in verdicts if v.outcome == outcome] for outcome in COUNTED}
    counts = ", ".join(f"{len(by[outcome])} {words}" for outcome, words in COUNTED.items() if by[outcome])
    chosen = by[VIOLATED] or (by[HOLDS] if len(by[HOLDS]) >= len(by[UNDECIDED]) else []) or by[UNDECIDED] or by[NOT_MET]
    # One proof refutes a claim; that a claim holds on all samples is no better certified than on the worst of them.
    proofs = [v for v in by[VIOLATED] if v.certified in ("exact", "ball")]
    worst = min(proofs or chosen, key=lambda v: v.margin)
    certified = worst.certified if by[VIOLATED] or len({v.certified for v in chosen}) == 1 else "float"
    because = f"of {len(verdicts)} samples {counts}; the closest: {worst.because}"
    return replace(worst, tried=len(verdicts), certified=certified, because=because)


def decide(
    claim: Claim, instance: dict[str, Any], *, law: Changed = None, motion: Changed = None, rtol: float = RTOL
) -> Verdict:
    """Return the verdict on an instance that has been read: in fractions or balls where floats leave doubt."""
    with _in_range(claim):
        own_law, own_motion = claim.setting.model(instance)
        model = _model(own_law, law, Law, "law"), _model(own_motion, motion, Motion, "motion")
        return _decided(claim, Experiment(instance, *model, rtol=rtol))[0]


def examine(claim: Claim, e: Experiment, most: float = EXACT_AT_MOST) -> tuple[Verdict, dict[str, str]]:
    """Return the verdict on an experiment, and what becomes of each hypothesis by itself.

    A check that cannot be carried out is undecided, for the reason that it gives. Claims about one model may look at
    one experiment, whose runs are then computed once. An exact replay of more than `most` products is not taken.

    >>> from attnflow.claims.claim import get
    >>> claim = get("hardmax/first-leaders")
    >>> instance = {"tokens": [[1.0], [1.0]], "B": None, "alpha": 1.0, "steps": 2}
    >>> verdict, given = examine(claim, Experiment(instance, *claim.setting.model(instance)))
    >>> verdict.outcome, given
    ('hypotheses not met', {'A > 0': 'holds', 'tokens distinct and not 0': 'fails'})
    """
    try:
        with _in_range(claim):
            verdict, e = _decided(claim, e, most)
    except InputError as error:
        verdict = Verdict(UNDECIDED, 0.0, None, "float", str(error), claim.id, e.instance)
    return verdict, hypotheses(claim, e)


@contextmanager
def _in_range(claim: Claim) -> Iterator[None]:
    """Refuse numbers that float64 does not hold; what is no number decides nothing."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        because = f"{claim.id} leaves the range of float64 on this instance ({error})"
        raise InputError(f"{because}: rescale the tokens or the parameters") from error


def _decided(claim: Claim, e: Experiment, most: float = EXACT_AT_MOST) -> tuple[Verdict, Experiment]:
    """Return the verdict with the experiment, in floats or in fractions, that its hypotheses are looked at in."""
    looked = _symmetrised(e) if OF_SYMMETRIC_FORMS.intersection(claim.given.values()) else e
    verdict, used = _in_some_arithmetic(claim, looked, most)
    if looked is not e:
        because = (
            f"{verdict.because}; B differs from its transpose by {looked.asymmetry:.1g} of its size, as rounding does "
            "in a product such as K.T @ Q, and (B + B^T)/2 was judged in its place"
        )
        verdict = replace(verdict, because=because, instance=e.instance)
    return verdict, used


def _symmetrised(e: Experiment) -> Experiment:
    if "_symmetrised" not in vars(e):
        vars(e)["_symmetrised"] = e.symmetrised()
    return vars(e)["_symmetrised"]


def _in_some_arithmetic(claim: Claim, e: Experiment, most: float) -> tuple[Verdict, Experiment]:
    """Return the verdict in fractions where that is cheap, in floats, and where these leave doubt in a rigorous one."""
    ways = claim.setting.arithmetics
    rational = "exact" in ways and exact.replayable(e.law, e.motion)
    if rational and e.work <= EXACT_AT_ONCE:
        return judge(claim, _exactly(e)), _exactly(e)
    verdict = judge(claim, e)
    if verdict.outcome in (VIOLATED, UNDECIDED):
        if rational and e.work <= most:
            return judge(claim, _exactly(e)), _exactly(e)
        if "ball" in ways and balls.replayable(e.law, e.motion) and e.work <= BALL_AT_MOST:
            with balls.precision():
                rigorous = judge(claim, e.using("ball"))
            return verdict if rigorous.outcome == UNDECIDED else rigorous, e
    return verdict, e


def _model(own: Any, given: Any, kind: type[Any], name: str) -> Any:
    """Return the claim's own law or motion, or what was put in its place."""
    if given is None:
        return own
    chosen = given(own) if callable(given) and not isinstance(given, kind) else given
    if not isinstance(chosen, kind):
        raise InputError(f"{name} is {chosen!r}, expected a {name} or a function that returns one")
    return chosen


def judge(claim: Claim, e: Experiment) -> Verdict:
    """Return the verdict in the arithmetic of an experiment."""
    end, broken, doubtful = inf, None, None
    for name, hypothesis in claim.given.items():
        for margins in _margins(hypothesis, e):
            for mask, sure in ((margins.failed, True), (~margins.failed & ~margins.held, False)):
                if not mask.any():
                    continue
                time, token = margins.first(mask)
                if time < end or (time == end and sure and doubtful):
                    end, doubtful = time, not sure
                    detail = "" if margins.what == name else f" ({margins.what})"
                    broken = (name + detail, time, token, margins.at(mask))
    doubt = e.doubt()
    if doubt is not None and doubt[0] < end:
        end, doubtful, broken = doubt[0], True, ("the choice of leaders is beyond rounding", *doubt, 0.0)
    # Where the start itself is out of the question the conclusion may have no meaning.
    conclusions = [margins.before(end) for margins in _margins(claim.conclusion, e)] if end > 0 else []
    fail = [m for m in conclusions if m.failed.any()]
    if fail:
        first = min(fail, key=lambda m: m.first(m.failed)[0])
        return _verdict(claim, e, VIOLATED, min(m.worst for m in fail), first.first(first.failed), first)
    if broken is not None:
        name, time, token, margin = broken
        words = "is within rounding of failing" if doubtful else "fails"
        because = f"{name} {words} at {_moment(e, time, token)}"
        outcome = UNDECIDED if doubtful else NOT_MET
        return Verdict(outcome, margin, (time, token), _certified(e, None), because, claim.id, e.instance)
    unsure = [m for m in conclusions if not m.held.all()]
    if unsure or not any(m.values.size for m in conclusions):
        first = unsure[0] if unsure else conclusions[0]
        where = first.first(~first.held) if unsure else None
        return _verdict(claim, e, UNDECIDED, first.worst, where, first)
    closest = min(conclusions, key=lambda m: m.worst)
    level = min((m.level for m in conclusions if m.level is not None), default=None)
    return _verdict(claim, e, HOLDS, closest.worst, None, replace(closest, level=level))


def hypotheses(claim: Claim, e: Experiment) -> dict[str, str]:
    """Return for each hypothesis by itself whether it holds all along, fails at some time, or is undecided.

    >>> from attnflow.claims.claim import get
    >>> claim = get("hardmax/first-leaders")
    >>> instance = {"tokens": [[1.0], [1.0]], "B": None, "alpha": 1.0, "steps": 2}
    >>> hypotheses(claim, Experiment(instance, *claim.setting.model(instance)))
    {'A > 0': 'holds', 'tokens distinct and not 0': 'fails'}
    """
    return {name: _standing(claim, hypothesis, e) for name, hypothesis in claim.given.items()}


def _standing(claim: Claim, hypothesis: Statement, e: Experiment) -> str:
    try:
        with _in_range(claim):
            found = _margins(hypothesis, e)
    except InputError:  # a hypothesis that cannot be looked at decides nothing
        return UNDECIDED
    if any(margins.failed.any() for margins in found):
        return FAILS
    return HOLDS if all(margins.held.all() for margins in found) else UNDECIDED


def _margins(statement: Statement, e: Experiment) -> list[Margins]:
    """Return the margins of a statement; those of a flow with the error from a rerun at a tighter tolerance."""
    found = _listed(statement(e))
    if e.motion.discrete or e.arithmetic != "float":
        return found
    again = _listed(statement(_tighter(e)))
    if [m.values.shape for m in found] != [m.values.shape for m in again]:  # nothing to take an error from
        return [unknown(m.what, m.times[-1] if len(m.times) else 0) for m in found]
    return [one.blurred(other) for one, other in zip(found, again, strict=True)]


def _tighter(e: Experiment) -> Experiment:
    if "_again" not in vars(e):
        vars(e)["_again"] = e.tighter()
    return vars(e)["_again"]


def _exactly(e: Experiment) -> Experiment:
    if "_exactly" not in vars(e):
        vars(e)["_exactly"] = e.using("exact")
    return vars(e)["_exactly"]


def _listed(found: Any) -> list[Margins]:
    margins = [found] if isinstance(found, Margins) else list(found) if isinstance(found, Iterable) else [found]
    for item in margins:
        if not isinstance(item, Margins):
            raise InputError(f"a hypothesis or a conclusion returned {item!r}, expected Margins or a list of them")
    return margins


def _verdict(
    claim: Claim, e: Experiment, outcome: str, margin: float, where: tuple[Any, int | None] | None, m: Margins
) -> Verdict:
    words = {HOLDS: "holds", VIOLATED: "fails", UNDECIDED: "is undecided"}[outcome]
    because = f"{m.what} {words}"
    if where is not None:
        because += f" at {_moment(e, *where)}"
    because += f" with margin {margin:.3g}"
    if 0 < m.rounding < 1:
        because += f", known up to {m.rounding:.1g}"
    if m.level is not None:
        because += f" at confidence level {m.level:g}"
    if outcome == VIOLATED and claim.repair is not None and (reason := _what_broke(claim, e)):
        because += f"; {reason}"
    return Verdict(outcome, margin, where, _certified(e, m), because, claim.id, e.instance, level=m.level)


def _what_broke(claim: Claim, e: Experiment) -> str:
    """Name the first hypothesis of the repaired claim, absent from the printed one, that fails on this instance."""
    assert claim.repair is not None
    repaired = get(claim.repair)
    defaults = repaired.setting.parameters
    if any(value is ... and name not in e.instance for name, value in defaults.items()):
        return ""
    e = e.given(**{**defaults, **e.instance})
    for name, hypothesis in repaired.given.items():
        if name in claim.given:
            continue
        for margins in _margins(hypothesis, e):
            if margins.failed.any():
                moment = _moment(e, *margins.first(margins.failed))
                return f"{name}, a hypothesis of {repaired.id}, fails first at {moment}"
    return ""


def _moment(e: Experiment, time: Any, token: int | None) -> str:
    moment = f"step {time}" if e.motion.discrete else f"time {time:.6g}"
    return moment if token is None else f"{moment}, token {token}"


def _certified(e: Experiment, m: Margins | None) -> str:
    if m is not None and m.level is not None:
        return "statistical"
    return "exact" if m is not None and m.exact else e.arithmetic
