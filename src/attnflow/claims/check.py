"""Check a claim: hypotheses first, step by step, then the conclusion, then a proof where rounding could decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any

from attnflow.claims import balls, exact, reasons
from attnflow.claims.claim import Claim, Statement, get
from attnflow.claims.errors import in_range
from attnflow.claims.experiment import RECORDS, RTOL, Experiment
from attnflow.claims.hypotheses import OF_SYMMETRIC_FORMS, trouble_of_form
from attnflow.claims.instances import read
from attnflow.claims.margins import BrokenClaim, Margins, Undecided, unknown
from attnflow.claims.proved_hypotheses import as_proved
from attnflow.claims.verdict import HOLDS, NOT_MET, UNDECIDED, VIOLATED, Verdict
from attnflow.core import progress
from attnflow.core.inputs import InputError, quoted, whole
from attnflow.laws import Law, check_law
from attnflow.motions import Motion, check_motion

# A run of at most EXACT_AT_ONCE products is replayed in fractions at once; one of at most EXACT_AT_MOST only where
# floats leave doubt.
EXACT_AT_ONCE, EXACT_AT_MOST = 4e4, 2e6
BALL_AT_MOST = 2e5
# How often an undecided run is shortened to see what can be decided.
SHORTENED = 6
# Of a run that takes too long this part of the time that it reached is looked at: the rerun at a tighter tolerance, and
# the statements, take time too.
PART = 0.25

# What becomes of a hypothesis that does not hold; the words for the others are those of verdicts.
FAILS = "fails"

Changed = Law | Motion | Callable[[Any], Any] | None


def check(
    id: str,
    *,
    law: Changed = None,
    motion: Changed = None,
    seed: int = 0,
    exact: bool = False,
    certify: bool = False,
    **instance: Any,
) -> Verdict:
    """Check a claim on an instance, or on its own samples if none is given.

    It holds if every margin m of the conclusion, with its rounding bound tol, is m >= -tol up to the first time at
    which a hypothesis fails; it is violated if m < -tol before that time.

    Parameters
    ----------
    id
        The claim: see `claims.all()`.
    law, motion
        Another model to put in the place of the claim's own: a law or a motion, or a function that turns the claim's
        own into another. A claim that holds for the model of its paper is expected to fail for a wrong one.
    seed
        Of the samples, and of the draws of a probabilistic claim.
    exact
        Replay the whole run in fractions, however long that takes; otherwise only runs that take seconds are.
    certify
        Try to prove a violation that was found in floats, by a certificate; where that fails, `because` says why.
    **instance
        The parameters of the claim, named as in its paper: tokens, B, V, beta, gamma, alpha, delta, steps, until...
        Numbers may be functions of time, or formulas in t such as "2 / (t + 2)".

    Examples
    --------
    >>> import attnflow as af
    >>> verdict = af.check("fw/cluster-rate", tokens=[[3.0], [-1.0]], steps=700)
    >>> verdict.outcome, verdict.certified
    ('violated', 'exact')

    References
    ----------
    The example is Theorem 3.1 of Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv
    2508.09628); `claims.get(id).paper.citation` is the paper of any other claim.
    """
    claim = get(id)
    most = allowed(claim, exact)
    if certify and (law is not None or motion is not None):
        raise InputError("certificates are about the model of the claim: leave certify, or law and motion, out")
    if not instance:
        verdict = on_samples(claim, law=law, motion=motion, seed=whole(seed, "seed", least=0), most=most)
    else:
        with progress.task(f"check {claim.id}"):
            verdict = decide(claim, read(claim, instance, seed), law=law, motion=motion, most=most)
    return _proved(verdict) if certify else verdict


def _proved(verdict: Verdict) -> Verdict:
    from attnflow.claims.certificates.certify import certify

    return certify(verdict)


def allowed(claim: Claim, exact: bool) -> float:
    """Return how many products an exact replay may take: no bound where it was asked for."""
    if exact and "exact" not in claim.setting.arithmetics:
        raise InputError(f"{claim.id} cannot be computed in fractions: leave {reasons.ASK_FOR_EXACT} out")
    return inf if exact else EXACT_AT_MOST


def on_samples(
    claim: Claim, *, law: Changed = None, motion: Changed = None, seed: int = 0, most: float = EXACT_AT_MOST
) -> Verdict:
    """Check a claim on its own samples and return the worst verdict: any violation, or how many hold."""
    verdicts = []
    with progress.task(f"check {claim.id}", claim.setting.samples) as work:
        for k in range(claim.setting.samples):
            work.reach(k)
            verdicts.append(decide(claim, sampled(claim, seed, k), law=law, motion=motion, most=most))
    return gathered(verdicts)


def sampled(claim: Claim, seed: int, k: int) -> dict[str, Any]:
    """Return the k-th sample of a seed, read."""
    with in_range(claim):
        return read(claim, claim.setting.drawn(seed, k), seed)


COUNTED = {VIOLATED: "violate it", HOLDS: "hold", UNDECIDED: "undecided", NOT_MET: "do not meet the hypotheses"}


def gathered(verdicts: list[Verdict]) -> Verdict:
    """Return one verdict for several instances: violated if one is, else that of the majority of those that tell."""
    by = {outcome: [v for v in verdicts if v.outcome == outcome] for outcome in COUNTED}
    counts = ", ".join(f"{len(by[outcome])} {words}" for outcome, words in COUNTED.items() if by[outcome])
    chosen = by[VIOLATED] or (by[HOLDS] if len(by[HOLDS]) >= len(by[UNDECIDED]) else []) or by[UNDECIDED] or by[NOT_MET]
    # One proof refutes a claim; that it holds on all samples is certified only as well as on the worst of them.
    proofs = [v for v in by[VIOLATED] if v.certified in ("exact", "ball")]
    worst = min(proofs or chosen, key=lambda v: v.margin)
    certified = worst.certified if by[VIOLATED] or len({v.certified for v in chosen}) == 1 else "float"
    because = f"of {len(verdicts)} samples {counts}; the closest: {worst.because}"
    return replace(worst, tried=len(verdicts), certified=certified, because=because)


def decide(
    claim: Claim,
    instance: dict[str, Any],
    *,
    law: Changed = None,
    motion: Changed = None,
    rtol: float = RTOL,
    most: float = EXACT_AT_MOST,
) -> Verdict:
    """Return the verdict on an instance that has been read: in fractions or balls where floats leave doubt."""
    with in_range(claim):
        own_law, own_motion = claim.setting.modelled(instance)
        used = _used(own_law, law, check_law)
        if law is not None and any(getattr(one, "b", None) is not None for one in (used, *used.heads)):
            raise InputError("claims are about scores <B x_i, x_j>, but the law has a bias b: leave b out")
        return _decided(claim, Experiment(instance, used, _used(own_motion, motion, check_motion), rtol=rtol), most)[0]


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
        with in_range(claim):
            verdict, e = _decided(claim, e, most)
    except InputError as error:
        verdict = Verdict(UNDECIDED, 0.0, None, "float", str(error), claim.id, e.instance)
    return verdict, hypotheses(claim, e)


def _decided(claim: Claim, e: Experiment, most: float = EXACT_AT_MOST) -> tuple[Verdict, Experiment]:
    """Return the verdict, and the experiment in the arithmetic in which its hypotheses are looked at."""
    looked = e
    if OF_SYMMETRIC_FORMS.intersection(claim.given.values()):
        looked = vars(e).setdefault("_symmetrised", e.symmetrised())
    verdict, used = _in_some_arithmetic(claim, looked, most)
    if looked is not e:
        because = (
            f"{verdict.because}; B differs from its transpose by {looked.asymmetry:.1g} of its size, as rounding does "
            "in a product such as K.T @ Q, and (B + B^T)/2 was judged in its place"
        )
        verdict = replace(verdict, because=because, instance=e.instance)
    return verdict, used


def _in_some_arithmetic(claim: Claim, e: Experiment, most: float) -> tuple[Verdict, Experiment]:
    """Return the verdict in fractions where that is cheap, in floats, and where these leave doubt in a rigorous one.

    A longer run never loses what a shorter one decides: where the whole run cannot be decided, its first steps are.
    """
    ways = claim.setting.arithmetics
    rational = "exact" in ways and exact.replayable(e.law, e.motion)
    exactly: Experiment = vars(e).setdefault("_exactly", e.using("exact"))
    if rational and (e.work <= EXACT_AT_ONCE or most == inf):
        return judge(claim, exactly, most), exactly
    if rational:
        early, first = _first_steps(claim, e, min(EXACT_AT_ONCE, most))
        if early is not None and early.outcome in (VIOLATED, NOT_MET):
            return replace(early, instance=e.instance), first
    verdict = judge(claim, e, most)
    if verdict.outcome in (VIOLATED, UNDECIDED):
        if rational and e.work <= most:
            return judge(claim, exactly, most), exactly
        if rational:
            return _with_first_steps(claim, e, verdict, most)
        if "ball" in ways and balls.replayable(e.law, e.motion) and e.work <= BALL_AT_MOST:
            with balls.precision():
                rigorous = judge(claim, e.using("ball"), most)
            verdict = verdict if rigorous.outcome == UNDECIDED else rigorous
    return _shorter(claim, e, verdict, most), e


def _first_steps(claim: Claim, e: Experiment, most: float) -> tuple[Verdict | None, Experiment]:
    """Return the verdict, in fractions, on the first steps that take at most `most` products; None if none does."""
    steps = reasons.affordable_steps(e.shape, most)
    if steps < 1 or "steps" not in e.instance:
        return None, e
    first = e.shortened(min(steps, int(e.horizon))).using("exact")
    return judge(claim, first, most), first


def _with_first_steps(claim: Claim, e: Experiment, verdict: Verdict, most: float) -> tuple[Verdict, Experiment]:
    """Return what floats say of the whole run, or fractions of its first steps: whichever decides."""
    proved, first = _first_steps(claim, e, most)
    if proved is None:
        return _shorter(claim, e, verdict, most), e
    if proved.outcome in (VIOLATED, NOT_MET):
        return replace(proved, instance=e.instance), first
    beyond = replace(reasons.capped(e, most), remedy=f"give {reasons.ASK_FOR_EXACT}, or fewer tokens")
    if verdict.outcome == VIOLATED:
        assert verdict.where is not None
        if proved.outcome == UNDECIDED or verdict.where[0] >= first.horizon:
            return verdict, e
        return _known_to(proved, e, first.horizon, beyond), first  # rounding made the failure
    further = _shorter(claim, e, verdict, most)
    if proved.outcome == HOLDS and (further.decided_to or 0) <= first.horizon:
        return _known_to(proved, e, first.horizon, beyond), first
    if proved.undecided is not None and further.outcome == UNDECIDED:
        why = replace(beyond, cause=f"{proved.undecided.cause}, and {beyond.cause}")
        because = proved.because.replace(str(proved.undecided), str(why))
        return replace(proved, because=because, undecided=why, instance=e.instance), e
    return further, e


def _shorter(claim: Claim, e: Experiment, verdict: Verdict, most: float) -> Verdict:
    """Return the verdict on a shorter run where the whole one is undecided for being too long, else the one given."""
    found = verdict
    for _ in range(SHORTENED):
        if found.outcome != UNDECIDED or found.undecided is None or found.undecided.shorter is None:
            break
        horizon = found.undecided.shorter
        found = judge(claim, e.shortened(horizon), most)
        if found.outcome != UNDECIDED:
            assert verdict.undecided is not None
            return _known_to(found, e, horizon, verdict.undecided)
    return verdict


def _known_to(verdict: Verdict, e: Experiment, horizon: float, why: Undecided) -> Verdict:
    """Return the verdict on a shorter run as one on the whole run, with how far it is known and why no further."""
    if e.motion.discrete:
        part = f"the first {int(horizon)} of {int(e.horizon)} steps"
    else:
        part = f"times up to {horizon:.6g} of {e.horizon:.6g}"
    rest = f"{why.cause}; to look at the rest, {why.remedy}"
    if why.shorter is not None:
        rest = f"the rest is undecided: {why.cause}"
    because = f"decided for {part}: {verdict.because}; {rest}"
    return replace(verdict, because=because, instance=e.instance, decided_to=horizon, decided_for=part)


def _used(own: Any, given: Any, check: Callable[[Any], object]) -> Any:
    """Return the claim's own law or motion, or what was put in its place."""
    # Laws and motions have a short name; one that can be called is still no function that returns another.
    function = callable(given) and not hasattr(type(given), "short_name")
    chosen = own if given is None else given(own) if function else given
    try:
        check(chosen)
    except InputError as error:
        raise InputError(f"{error}, or a function that returns one") from None
    return chosen


def judge(claim: Claim, e: Experiment, most: float = EXACT_AT_MOST) -> Verdict:
    """Return the verdict in the arithmetic of an experiment; undecided where a run takes too long."""
    try:
        return _judged(claim, e, most)
    except reasons.TooLong as error:
        why = _with_shorter(e, error.why, PART * error.reached)
        return _undecided(claim, e, "the conclusion is undecided", 0.0, None, why)


def _judged(claim: Claim, e: Experiment, most: float) -> Verdict:
    end, broken, doubtful, trouble, source = inf, None, None, None, None
    for name, hypothesis in claim.given.items():
        for margins in _margins(claim, e, name):
            for mask, sure in ((margins.failed, True), (~margins.failed & ~margins.held, False)):
                if not mask.any():
                    continue
                time, token = margins.first(mask)
                if time < end or (time == end and sure and doubtful):
                    end, doubtful = time, not sure
                    detail = "" if margins.what == name else f" ({margins.what})"
                    broken = (name + detail, time, token, margins.at(mask), margins.undecided)
                    trouble = trouble_of_form(hypothesis, e, time, margins.at(mask))
                    source = margins, name
    if doubtful and source is not None:
        _refuse_nan(claim, e, *source)
    doubt = e.doubt()
    if doubt is not None and doubt[0] < end:
        end, doubtful, broken = doubt[0], True, ("the choice of leaders is beyond rounding", *doubt, 0.0, None)
    # Where a hypothesis fails at the start the conclusion may have no meaning.
    conclusions = [margins.before(end) for margins in _margins(claim, e)] if end > 0 else []
    for m in conclusions:
        _refuse_nan(claim, e, m)
    fail = [m for m in conclusions if m.failed.any()]
    if fail:
        first = min(fail, key=lambda m: m.first(m.failed)[0])
        return _verdict(claim, e, VIOLATED, min(m.worst for m in fail), first.first(first.failed), first)
    if broken is not None:
        name, time, token, margin, why = broken
        moment = _moment(e, time, token)
        if not doubtful:
            because = f"{name} fails at {moment}" + (f"; {trouble}" if trouble else "")
            return Verdict(NOT_MET, margin, (time, token), _certified(e, None), because, claim.id, e.instance)
        why = why or _rounding(claim, e, time, most)
        return _undecided(claim, e, f"{name} is undecided at {moment}", margin, (time, token), why)
    unsure = [m for m in conclusions if not m.held.all()]
    if unsure:
        # At one time, a reason that a claim gives itself says more than rounding does.
        first = min(unsure, key=lambda m: (m.first(~m.held)[0], m.undecided is None))
        where = first.first(~first.held)
        because = f"{first.what} is undecided at {_moment(e, *where)} with margin {first.worst:.3g}{_known(first)}"
        why = first.undecided or _rounding(claim, e, where[0], most)
        return _undecided(claim, e, because, first.worst, where, why)
    if not any(m.values.size for m in conclusions):
        what = conclusions[0].what if conclusions else "the conclusion"
        return _undecided(claim, e, f"{what} is undecided", 0.0, None, reasons.NOTHING_SEEN)
    closest = min(conclusions, key=lambda m: m.worst)
    level = min((m.level for m in conclusions if m.level is not None), default=None)
    return _verdict(claim, e, HOLDS, closest.worst, None, replace(closest, level=level))


def _rounding(claim: Claim, e: Experiment, time: float, most: float) -> Undecided:
    """Return that rounding leaves a time undecided, with the longest run that ends before that time."""
    rational = "exact" in claim.setting.arithmetics and exact.replayable(e.law, e.motion)
    why = reasons.within_rounding(e, rational, most)
    if e.motion.discrete:
        return _with_shorter(e, why, time if time < e.horizon else time - 1)
    if "until" not in e.instance:  # the claim itself says how long its runs are
        return why
    return _with_shorter(e, why, time - e.horizon / RECORDS)


def _with_shorter(e: Experiment, why: Undecided, horizon: float) -> Undecided:
    """Return the reason with a shorter horizon at which the claim may be decided, if its runs have one."""
    name, shorter = ("steps", int(horizon)) if e.motion.discrete else ("until", horizon)
    return replace(why, shorter=shorter) if name in e.instance and 0 < shorter < e.horizon else why


def _undecided(
    claim: Claim, e: Experiment, because: str, margin: float, where: tuple[Any, int | None] | None, why: Undecided
) -> Verdict:
    """Return an undecided verdict, always with its cause and its remedy."""
    certified = _certified(e, None)
    return Verdict(UNDECIDED, margin, where, certified, f"{because}: {why}", claim.id, e.instance, undecided=why)


def hypotheses(claim: Claim, e: Experiment) -> dict[str, str]:
    """Return for each hypothesis by itself whether it holds all along, fails at some time, or is undecided.

    >>> from attnflow.claims.claim import get
    >>> claim = get("hardmax/first-leaders")
    >>> instance = {"tokens": [[1.0], [1.0]], "B": None, "alpha": 1.0, "steps": 2}
    >>> hypotheses(claim, Experiment(instance, *claim.setting.model(instance)))
    {'A > 0': 'holds', 'tokens distinct and not 0': 'fails'}
    """
    return {name: _standing(claim, e, name) for name in claim.given}


def _standing(claim: Claim, e: Experiment, name: str) -> str:
    try:
        with in_range(claim):
            found = _margins(claim, e, name)
    except InputError:  # a hypothesis that cannot be looked at decides nothing
        return UNDECIDED
    if any(margins.failed.any() for margins in found):
        return FAILS
    return HOLDS if all(margins.held.all() for margins in found) else UNDECIDED


def _margins(claim: Claim, e: Experiment, name: str | None = None) -> list[Margins]:
    """Return the margins of the conclusion, or of the hypothesis of this name.

    Those of a flow have the error from a rerun at a tighter tolerance.
    """
    found = _listed(claim, e, name)
    if e.motion.discrete or e.arithmetic != "float":
        return found
    again = _listed(claim, vars(e).setdefault("_again", e.tighter()), name)
    if [m.values.shape for m in found] != [m.values.shape for m in again]:  # nothing to take an error from
        return [unknown(m.what, reasons.DIFFERENT_RUNS, m.times[-1] if len(m.times) else 0) for m in found]
    return [one.blurred(other) for one, other in zip(found, again, strict=True)]


def _listed(claim: Claim, e: Experiment, name: str | None) -> list[Margins]:
    statement, words = _part(claim, name)
    try:
        found: Any = statement(e)
        margins = list(found) if isinstance(found, Iterable) else [found]
    except BrokenClaim as error:
        raise BrokenClaim(f"in {words} {error}") from None
    for item in margins:
        if not isinstance(item, Margins):
            expected = "expected Margins or a list of them: return Margins(what, values, times, tol)"
            raise BrokenClaim(f"{words} returned {quoted(item)}, {expected}")
    return margins


def _part(claim: Claim, name: str | None) -> tuple[Statement, str]:
    """Return the conclusion, or the hypothesis of this name, and what an error calls it."""
    statement = claim.conclusion if name is None else claim.given[name]
    part = "conclusion" if name is None else f"hypothesis {name!r}"
    return statement, f"its {part}, the function {getattr(statement, '__name__', statement)},"


def _refuse_nan(claim: Claim, e: Experiment, m: Margins, name: str | None = None) -> None:
    """Refuse margins that are NaN in a claim from outside this package.

    In its own claims NaN comes from numbers that leave their range: such a margin decides nothing.
    """
    statement, words = _part(claim, name)
    if str(statement.__module__).partition(".")[0] != "attnflow" and m.nan.any():
        found = f"the margin of {quoted(m.what)} is NaN at {_moment(e, *m.first(m.nan))}, expected a number"
        raise BrokenClaim(f"in {words} {found}: leave out the times that it says nothing of, or use margins.unknown")


def _verdict(
    claim: Claim, e: Experiment, outcome: str, margin: float, where: tuple[Any, int | None] | None, m: Margins
) -> Verdict:
    because = f"{m.what} {'holds' if outcome == HOLDS else 'fails'}"
    if where is not None:
        because += f" at {_moment(e, *where)}"
    because += f" with margin {margin:.3g}"
    if outcome == HOLDS and 0 < abs(margin) <= m.rounding:
        because += f", which is zero up to its error of at most {m.rounding:.1g}"
    else:
        because += _known(m)
    if m.level is not None:
        because += f" at confidence level {m.level:g}"
    if outcome == VIOLATED and claim.repair is not None:
        with suppress(reasons.TooLong):  # the violation stands without a reason
            because += _what_broke(claim, e)
    verdict = Verdict(outcome, margin, where, _certified(e, m), because, claim.id, e.instance, level=m.level)
    return as_proved(claim, e, verdict)


def _known(m: Margins) -> str:
    return f", known up to {m.rounding:.1g}" if 1e-30 < m.rounding < 1 else ""


def _what_broke(claim: Claim, e: Experiment) -> str:
    """Return, for a sentence, the first hypothesis of the repaired claim, not of the printed one, that fails here."""
    assert claim.repair is not None
    repaired = get(claim.repair)
    defaults = repaired.setting.parameters
    if any(value is ... and name not in e.instance for name, value in defaults.items()):
        return ""
    e = e.given(**{**defaults, **e.instance})
    for name in repaired.given:
        if name in claim.given:
            continue
        for margins in _margins(repaired, e, name):
            if margins.failed.any():
                moment = _moment(e, *margins.first(margins.failed))
                return f"; {name}, a hypothesis of {repaired.id}, fails first at {moment}"
    return ""


def _moment(e: Experiment, time: Any, token: int | None) -> str:
    moment = f"step {time}" if e.motion.discrete else f"time {time:.6g}"
    return moment if token is None else f"{moment}, token {token}"


def _certified(e: Experiment, m: Margins | None) -> str:
    if m is not None and m.level is not None:
        return "statistical"
    return (m.certified if m is not None else "") or e.arithmetic
