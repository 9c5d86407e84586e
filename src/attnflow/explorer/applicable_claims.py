"""Which claims of the papers are about what is on the screen, and how each of them stands there."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attnflow.catalogue import class_name
from attnflow.claims.check import EXACT_AT_ONCE, examine
from attnflow.claims.claim import Claim
from attnflow.claims.claim import all as all_claims
from attnflow.claims.experiment import Experiment
from attnflow.claims.frank_wolfe.cone import Cone
from attnflow.claims.instances import read
from attnflow.claims.sphere.runs import normalised
from attnflow.claims.verdict import HOLDS, UNDECIDED
from attnflow.core.inputs import Array, InputError, matrix_at, number_at, varies_in_time
from attnflow.core.parameters import parameters_of
from attnflow.core.schedules import Schedule
from attnflow.explorer.protocol import Answer, Session
from attnflow.explorer.state import MANY, State
from attnflow.explorer.state import read as read_state
from attnflow.explorer.verdict_words import in_short
from attnflow.geometry import hull
from attnflow.laws import Law
from attnflow.laws.around import core_of
from attnflow.measure import clusters
from attnflow.motions import Motion
from attnflow.serialise import describe, parameters

Offer = dict[str, Any]

# A check takes about a second for thirty tokens. Of a run the claims look at MOST_WORK products of coordinates or less,
# but at least FEWEST_STEPS and at most MOST_STEPS steps; of a flow up to time LONGEST.
MOST_WORK, FEWEST_STEPS, MOST_STEPS, LONGEST = 1e7, 10, 600, 100.0
# Of more tokens only claims about the tokens as they are can be checked while somebody waits, up to the second number.
MOST_TOKENS, MOST_AT_REST = 200, 1000
# Some take longer: merges on the circle are located one by one, an energy is integrated, a limit is found exactly.
DEAR = {"sphere/staircase": 8, "sphere/energy": 50, "hardmax/leaders-are-vertices": 100}
# Chains drawn for a claim about probabilities.
DRAWS = 100

# Functions of time are compared at all steps, or at MOMENTS times of a flow.
MOMENTS = 65


def check_applicable(state: State, done: int = 0, only: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the claims about what is on the screen, or one of them, then the verdict on each, the cheapest first.

    After `done` verdicts, the last of which took too long, say so of it and go on with the next.

    >>> from attnflow.explorer.state import read as shown
    >>> square = [[1, 1], [-1, 1], [-1, -1], [1, -1], [0.5, 0.2]]
    >>> state = shown({"tokens": square, "law": {"name": "softmax", "beta": "inf"},
    ...                "motion": {"name": "layers", "gamma": 0.5}, "until": 30})
    >>> answers = {answer.get("claim"): answer for answer in check_applicable(state)}
    >>> answers["fw/straight-lines"]["outcome"], answers["fw/straight-lines"]["given"][1]
    ('holds', {'name': 'generic polytope', 'outcome': 'holds'})
    """
    # Which claims apply is seen of some tokens already, and what is checked of too many is said of all.
    some = replace(state, tokens=state.tokens[:MANY])
    found = [pair for pair in applicable(some) if only in (None, pair[0].id)]
    ordered = sorted(found, key=lambda pair: _cost(pair[0], pair[1], state))
    if done == 0:
        claims = [{"claim": claim.id, "paper": claim.paper.heading, **_statement(claim)} for claim, _ in found]
        yield {"kind": "claims", "claims": claims, "others": len(all_claims()) - len(found)}
    for claim, _ in ordered[max(0, done - 1) : done]:
        said = "It takes too long to check here: `attnflow check` in a terminal has more time."
        yield _undecided(claim, f"{claim.id} takes too long to check here: attnflow check has more time", said)
    experiments: dict[Any, Experiment] = {}
    for claim, instance in ordered[done:]:
        # Claims about one model look at one run.
        key = (claim.setting.model, json.dumps(describe(list(instance.items()))))
        if key not in experiments:
            experiments[key] = Experiment(instance, *claim.setting.model(instance))
        yield _verdict(claim, experiments[key], state)
    yield {"kind": "done"}


def _statement(claim: Claim) -> dict[str, Any]:
    names = ("where", "status", "statement", "plain")
    return {**{name: getattr(claim, name) for name in names}, "given": list(claim.given)}


def applicable(state: State) -> list[tuple[Claim, dict[str, Any]]]:
    """Return the claims whose model is the one on the screen, each with its instance, in the order of the papers."""
    found = ((claim, _instance(claim, state)) for claim in all_claims())
    return [(claim, instance) for claim, instance in found if instance is not None]


def _verdict(claim: Claim, e: Experiment, state: State) -> dict[str, Any]:
    n = len(state.tokens)
    most = DEAR.get(claim.id, MOST_AT_REST if _at_rest(claim) else MOST_TOKENS)
    if n > most:
        many = f"there are {n} tokens, but {claim.id} is checked here for at most {most}: take some away"
        return _undecided(claim, many, f"It is checked here for at most {most} tokens: take some away.")
    if getattr(e.law, "ties", None) != getattr(state.law, "ties", None) and len(np.unique(state.tokens, axis=0)) < n:
        copies = f"tokens coincide: {claim.id} counts each point once, the screen every token; take copies away"
        said = "It counts each point once, the screen every token, and some coincide: take copies away."
        return _undecided(claim, copies, said)
    try:
        verdict, given = examine(claim, e, EXACT_AT_ONCE)
    except Exception as error:  # one claim that cannot be checked must not silence the others
        said = " ".join(str(error).split())[:120]
        failed = f"{claim.id} cannot be checked here ({type(error).__name__}: {said})"
        return _undecided(claim, failed, "Its check failed here: change something.")
    outcome, because = verdict.outcome, verdict.because
    short = in_short(claim, outcome, because, given)
    key, kind = ("steps", "step") if state.motion.discrete else ("until", "time")
    looked = e.instance.get(key, state.until) if verdict.decided_to is None else verdict.decided_to
    if outcome == HOLDS and looked < state.until:
        # What is on the screen goes on, and may end otherwise.
        outcome = UNDECIDED
        because += f"; this is known up to {kind} {looked:g} only, the screen goes on to {state.until:g}"
        short = f"It holds up to {kind} {looked:g}, as far as it was checked; the screen goes on to {state.until:g}."
    margin = float(verdict.margin) if math.isfinite(verdict.margin) else None
    return _message(claim, outcome, because, given, short) | {"margin": margin, "certified": verdict.certified}


def _undecided(claim: Claim, because: str, short: str) -> dict[str, Any]:
    """Return the verdict on a claim that was not checked, or not to the end."""
    return _message(claim, UNDECIDED, because, dict.fromkeys(claim.given, UNDECIDED), short)


def _message(claim: Claim, outcome: str, because: str, given: Mapping[str, str], short: str) -> dict[str, Any]:
    """Return a verdict as data; `short` says it in a plain sentence, `because` in all detail."""
    hypotheses = [{"name": name, "outcome": what} for name, what in given.items()]
    said = {"kind": "verdict", "claim": claim.id, "outcome": outcome, "short": short, "because": because}
    return {**said, "given": hypotheses, "margin": None, "certified": None}


def _at_rest(claim: Claim) -> bool:
    """Say whether a claim is about tokens as they are: it has no steps, no time and no step size."""
    return not {"steps", "until", "gamma", "alpha", "beta"} & set(claim.setting.parameters)


def _cost(claim: Claim, instance: dict[str, Any], state: State) -> int:
    """Return a number that grows with how long a check takes: of tokens at rest, of layers, of flows, of many draws."""
    if claim.id in DEAR:
        return 4
    if _at_rest(claim):
        return 0
    return 3 if "runs" in instance else 1 if state.motion.discrete else 2


# Instances: the parameters of a claim, taken from the screen


def _instance(claim: Claim, state: State) -> dict[str, Any] | None:
    """Return the instance of a claim that is on the screen, None if there is none."""
    for offer in _offers(claim, state):
        try:
            instance = read(claim, offer, state.seed)
            law, motion = claim.setting.model(instance)
            if _same_law(law, state) and (_indifferent(claim, motion) or _same_motion(motion, state)):
                return instance
        except Exception:  # another model, whose parameters refuse what is on the screen; or a claim of others fails
            continue
    return None


def _indifferent(claim: Claim, motion: Motion) -> bool:
    """Say whether a claim is about the law alone: layers that it takes no steps of."""
    return _at_rest(claim) and motion.as_layers is not None


def _offers(claim: Claim, state: State) -> Iterator[Offer]:
    """Yield what the screen gives for the parameters of a claim."""
    parameters = claim.setting.parameters
    offer = {**_of_law(state, parameters), **_of_motion(state, parameters), **_free(state)}
    subject = SUBJECTS.get(claim.id)
    if subject is not None:
        about = subject(state)
        if about is None:
            return
        offer |= about
    # Of gamma and alpha a claim may have the other.
    known = {*parameters, *(("gamma", "alpha") if {"gamma", "alpha"} & set(parameters) else ())}
    offer = {name: value for name, value in offer.items() if name in known}
    if "tokens" in parameters or "vertices" in parameters:
        offer = {"tokens": state.tokens, **offer}
    elif subject is None:
        return
    yield offer


def _of_law(state: State, parameters: Any) -> Offer:
    law = state.law
    inside = core_of(law)
    offer = {} if law.head_count else _given(inside) | _given(law)
    delta = offer.get("delta")
    if isinstance(delta, int | float):
        offer["deltas"] = (delta,)
    found = inside.exponents
    if found is not None and not varies_in_time(found.beta) and {"beta", "B"} - set(parameters):
        # One of the two carries both: e^{beta <Bx, y>} is e^{<(beta B)x, y>}.
        B = np.eye(state.tokens.shape[1]) if found.B is None else np.asarray(found.B)
        beta = number_at(found.beta, 0, "beta")
        if "beta" not in parameters:
            offer["B"] = found.B if beta == 1 else beta * B
        elif (B[0, 0] * np.eye(len(B)) == B).all():
            offer["beta"] = beta * float(B[0, 0])
    return offer


def _given(part: Law | Motion) -> Offer:
    """Return what a law or a motion was given, as instances have it: formulas as text."""
    found = {name: value for name, value in _of_model(part).items() if name not in ("V", "b")}
    return {name: value.text if isinstance(value, Schedule) else value for name, value in found.items()}


def _of_model(part: Any) -> Offer:
    """Return the parameters of a law or a motion that say what is run, not how it is computed."""
    known = parameters_of(part.__class__)
    return {name: value for name, value in parameters(part).items() if known[name].of_model}


def _of_motion(state: State, parameters: Any) -> Offer:
    motion, d = state.motion, state.tokens.shape[1]
    offer: Offer = {"steps" if motion.discrete else "until": _horizon(state)}
    V = getattr(motion, "V", None)
    if V is not None or parameters.get("V") is ...:
        offer["V"] = np.eye(d) if V is None else V
    offer |= {name: value for name, value in _given(motion).items() if value is not None}
    gamma = None if motion.as_layers is None else motion.as_layers.constant_step
    if gamma is not None and gamma < 1:
        offer["V"] = gamma / (1 - gamma) * np.eye(d)
    return offer


def _free(state: State) -> Offer:
    """Return constants that a claim lets us choose, so that its hypotheses on them hold where they can."""
    layers = state.motion.as_layers
    offer: Offer = {"runs": DRAWS}
    if layers is not None and layers.V is None:
        step = layers.gamma if layers.gamma is not None else layers.alpha
        # The weights of the duality gap are proportional to the steps.
        if "beta" not in parameters(state.law) and isinstance(step, Schedule):
            text = step.text
            offer["beta"] = text if layers.gamma is not None else f"({text}) / (1 + ({text}))"
        if not isinstance(step, Schedule):  # the least of steps that vary is not known from some of them
            offer["c"] = float(layers.step_sizes(range(1))[0])
    return offer


def _horizon(state: State) -> float:
    if not state.motion.discrete:
        return min(state.until, LONGEST)
    n, d = state.tokens.shape
    most = MOST_WORK / (n * n * d)
    return int(min(state.until, max(FEWEST_STEPS, min(MOST_STEPS, most))))


# Claims about special clouds


def _polygon(state: State) -> Offer | None:
    """Return k if the tokens are the corners of a regular k-gon in the unit circle."""
    x = state.tokens
    if x.shape[1] != 2 or len(x) < 2:
        return None
    angles = np.sort(np.arctan2(x[:, 1], x[:, 0]))
    turns = np.diff(angles, append=angles[0] + 2 * np.pi)
    regular = np.abs(np.linalg.norm(x, axis=1) - 1).max() < 1e-9 and np.abs(turns * len(x) - 2 * np.pi).max() < 1e-6
    return {"k": len(x)} if regular else None


def _gaussian(state: State) -> Offer | None:
    """Return n and d of a Gaussian cloud as it was drawn."""
    tokens = state.data["tokens"]
    drawn = isinstance(tokens, dict) and tokens.get("cloud") == "gaussian" and len(state.tokens) > 1
    return {"k": len(state.tokens), "d": state.tokens.shape[1]} if drawn else None


def _cone(state: State) -> tuple[Array, Array] | None:
    """Return the vertices of the hull, and the tokens that are no vertices."""
    outer = hull(state.tokens)
    if len(outer.vertices) < 2 or not state.motion.chain or varies_in_time(getattr(state.motion, "gamma", None)):
        return None
    return outer.vertices, np.delete(state.tokens, outer.indices, axis=0)


def _wide(state: State) -> Offer | None:
    """Return the vertices and the least eps that the printed theorem asks for."""
    found = _cone(state)
    if found is None:
        return None
    v, gamma = found[0], float(getattr(state.motion, "gamma", 1.0))
    return {"vertices": v, "eps": 2.01 * gamma * Cone(v).D}


def _close(state: State) -> Offer | None:
    """Return the vertices and an eps with 4 R (rho + eps) <= c0/2, if there is one."""
    found = _cone(state)
    if found is None:
        return None
    cone, x = Cone(found[0]), state.tokens
    rho = float(np.linalg.norm(x - cone.v[cone.assigned(x)], axis=1).max())
    room = cone.c0 / (8 * cone.R) - rho if cone.R else 0.0
    return {"vertices": cone.v, "eps": 0.75 * room if room > 0 else 0.15}


def _inner(state: State) -> Offer | None:
    """Return the vertices and the other tokens."""
    found = _cone(state)
    return None if found is None or not len(found[1]) else {"vertices": found[0], "tokens": found[1]}


def _caps(state: State) -> Offer | None:
    """Return the centres of two or more clusters, each within a cap, on the sphere."""
    if state.motion.surface != "sphere" or state.motion.discrete:
        return None
    centres = clusters(state.tokens, math.sqrt(2 * CAP)).centres
    lengths = np.linalg.norm(centres, axis=1)
    return {"centres": normalised(centres), "eps": CAP} if len(centres) > 1 and lengths.min() > 0.5 else None


# The depth of a cap, as in the claim.
CAP = 0.01

SUBJECTS: dict[str, Callable[[State], Offer | None]] = {
    "fw/exit-time": _polygon,
    "fw/gaussian-own-cell": _gaussian,
    "fw/gaussian-own-cell/explicit": _gaussian,
    "fw/metastable": _wide,
    "fw/metastable/repaired": _close,
    "fw/metastable/staged": _close,
    "fw/first-phase": _inner,
    "fw/first-phase/repaired": _inner,
    "sphere/metastability": _caps,
    "sphere/staircase": lambda state: {"until": state.until},  # which is nothing in a short time
}


# Models: the same law and the same motion, as data


def _same_law(law: Law, state: State) -> bool:
    moments = _moments(state, law, state.law)
    return _same(lambda t: _law(law, t, state), lambda t: _law(state.law, t, state), moments)


def _moments(state: State, *things: Any) -> list[Any]:
    """Return when functions of time are compared; constants are so at the start alone."""
    if not any(_varies(thing) for thing in things):
        return [0]
    if state.motion.discrete:
        # Of very long runs, the first steps and some later ones, the last among them.
        # They are Python integers: int64 ends at 9e18, and chains go on beyond it.
        last = int(state.until)
        later = np.geomspace(1, float(last), MOST_STEPS).tolist() if last > MOST_STEPS else []
        return sorted({*range(min(last, MOST_STEPS) + 1), *(min(int(t), last) for t in later)})
    return np.linspace(0, state.until, MOMENTS).tolist()


def _varies(thing: Any) -> bool:
    """Say whether a parameter of a law or a motion, or of one that it stands around, is a function of time."""
    return any(
        _varies(value) if hasattr(value, "short_name") else varies_in_time(value) for value in _of_model(thing).values()
    )


def _same_motion(motion: Motion, state: State) -> bool:
    moments = _moments(state, motion, state.motion)
    return _same(lambda t: _motion(motion, t, state), lambda t: _motion(state.motion, t, state), moments)


def _same(one: Callable[[Any], Offer], other: Callable[[Any], Offer], moments: list[Any]) -> bool:
    """Compare as long as the run lasts, or until a formula on the screen has no value any more."""
    for t in moments:
        try:
            shown = other(t)
        except InputError:
            break
        if not _alike(one(t), shown):
            return False
    return True


def _law(law: Law, t: Any, state: State) -> Offer:
    """Return what a law is at step t; softmax by the matrix beta B of its scores."""
    found = _parts(law, t, state)
    if law.exponents is not None and {"beta", "B"} <= found.keys():
        found["B"] = found.pop("beta") * found["B"]
    return found


def _motion(motion: Motion, t: Any, state: State) -> Offer:
    """Return what a motion is at step t; averaging layers by the matrix of their step."""
    layers = motion.as_layers
    if layers is None:
        return _parts(motion, t, state)
    return {"name": "Layers", "step": layers.step_matrix(int(t), state.tokens.shape[1])}


def _parts(thing: Any, t: Any, state: State) -> Offer:
    """Return the name and the parameters at step t, with the identity where a matrix was left out."""
    d = state.tokens.shape[1]
    found: Offer = {"name": getattr(thing, "same_system", "") or class_name(type(thing))}
    for name, value in _of_model(thing).items():
        if name in ("B", "V"):
            matrix = matrix_at(value, t, d, name)
            found[name] = np.eye(d) if matrix is None else matrix
        elif varies_in_time(value):
            found[name] = number_at(value, t, name)
        elif hasattr(value, "short_name"):
            inner = _motion(value, t, state) if hasattr(value, "as_layers") else _law(value, t, state)
            found |= {f"{key} of {name}": one for key, one in inner.items()}
        elif value is not None:
            found[name] = describe(value)
    return found


def _alike(one: Offer, other: Offer) -> bool:
    return one.keys() == other.keys() and all(_equal(value, other[name]) for name, value in one.items())


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, str | bool | dict) or isinstance(other, str | bool | dict):
        return bool(one == other)
    one, other = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=1e-12, atol=0.0))


def _answer(message: dict[str, Any], done: int, session: Session, stop: Callable[[], bool]) -> Iterator[Answer]:
    for answer in check_applicable(read_state(message.get("state")), done):
        if stop():
            return
        yield {**answer, "id": message["id"]}


ANSWERS = {"claims": _answer}
