"""When tokens that rest move again: attention is metastable, and a slow step is no limit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from attnflow.core.inputs import Array, InputError, each_mass, number
from attnflow.geometry.linkage import single_linkage
from attnflow.laws import Law, varies
from attnflow.measure.by_name import number_of
from attnflow.measure.clusters import CLOSE, clusters, extent
from attnflow.measure.over_time import first_true
from attnflow.motions import Motion, Stretch
from attnflow.motions.solvers.clumps import added, centres
from attnflow.runs.simulate import simulate
from attnflow.runs.trajectory import Trajectory
from attnflow.runs.watch import Start, Watcher, when
from attnflow.serialise import brief

# Nothing is waited for beyond this step, or this time.
HORIZON = 10**300
# Tokens nearer to each other than this part of the extent, at the default tol, are followed as one mass.
MET = 1e-6
# More tokens are not looked at to see whether clusters hear each other.
MOST_TOKENS = 2000
# An order of magnitude needs no more.
RTOL = 1e-6
# Laws without leaps are followed over this many steps or units of time.
AHEAD = 1000
# What moves within SOON steps or units of time has not come to rest.
SOON = 100


class Effort(NamedTuple):
    """Tokens at more than `places`, or more tokens than that under other laws, are not followed; others for `states`.

    States are leaps, literal steps, steps of an integrator.
    """

    places: int
    states: int


MOST = Effort(places=400, states=2000)
# A table in a notebook must appear at once: in some tenths of a second at most. MOST under a law that is written in
# Python would take ten seconds.
QUICK = Effort(places=100, states=200)

TOGETHER = "at rest for ever: all tokens are at one place"
GATHERING = "no token moves farther than the radius again: all of them come to one place"
APART = "at rest for ever: no cluster hears another"


@dataclass(frozen=True)
class NextChange:
    """When tokens move again after the end of a run; print it for a sentence.

    Attributes
    ----------
    time
        The step, or time, at which some token is expected to be farther than `radius` from where the run left it;
        infinity if that never happens, None if it is not predicted.
    radius
        tol times the extent of the first and the last state taken together.
    because
        The sentence.
    """

    time: float | None
    radius: float
    because: str

    def __str__(self) -> str:
        return self.because


def next_change(run: Trajectory, tol: float = CLOSE) -> NextChange:
    """Predict when a token is next farther than tol times the extent of the cloud from where the run left it.

    Softmax tokens that rest drift on, by steps of the order of e^{-beta g}, g a gap between scores; they move
    again after a time of the order of e^{beta g}, which no run sees unless it looks for it. Under softmax with constant
    parameters,

    - layers go on by `Leaps`, and flows on the sphere by themselves (layers there by the flow, which is as slow):
      the prediction is theirs, tokens nearer to each other than 1e-4 of the radius taken for one mass;
    - the chain waits for a pick that takes a token out of the radius (or, where no single pick does, to a place beyond
      it): its time is the median of that wait.

    Under hardmax, localmax and bounded confidence tokens rest for ever once no cluster hears another: each then stays
    in its own hull. Where some does, the next 1000 steps or units of time are computed. In all other cases nothing is
    predicted, and the sentence says so. The sentence has two digits of the time. Near a configuration that only
    rounding holds, rounding decides.

    Examples
    --------
    >>> import attnflow as af
    >>> run = af.simulate(af.tokens.polygon(4), af.Softmax(beta=30.0), af.Layers(gamma=0.1), until=500)
    >>> print(next_change(run))
    expected to move again near step 7.4 * 10^11
    >>> hard = af.simulate(af.tokens.polygon(4), af.Hardmax(), af.Layers(gamma=0.1), until=500)
    >>> print(next_change(hard))
    at rest for ever: no cluster hears another

    References
    ----------
    Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628), on metastability.
    """
    if not isinstance(run, Trajectory):
        raise InputError(
            f"what to predict is {type(run).__name__!r}, expected a run: give what simulate or load returned"
        )
    return _next_change(run, number(tol, "tol", above=0.0, most=1.0), MOST)


@number_of(next_change)
def _time(run: Trajectory, tol: float = CLOSE) -> float:
    """Return the predicted time, infinity for never, NaN where nothing is predicted."""
    time = next_change(run, tol).time
    return math.nan if time is None else float(time)


def at_a_glance(run: Trajectory) -> NextChange:
    """Predict as `next_change` does where that is quick, and say who does it elsewhere: for tables in notebooks."""
    return _next_change(run, CLOSE, QUICK)


def _next_change(run: Trajectory, tol: float, most: Effort) -> NextChange:
    """Predict the next change if that takes no more than `most`."""
    one = run.to_numpy()
    radius = tol * extent(one.tokens[0], one.final)
    try:
        time, reason = _predicted(one, radius, most)
    except InputError as refusal:
        time, reason = None, str(refusal)
    return NextChange(time, radius, _sentence(one, time, reason))


def _sentence(run: Trajectory, time: float | None, reason: str) -> str:
    if time is None:
        return f"next change not predicted: {reason}"
    if time == math.inf:
        return reason
    at, last = when(run.motion is None or run.motion.discrete), run.times.item(-1)
    if time - last <= SOON:
        return f"still moving at {at(last)}"
    # The step itself is the attribute `time`.
    return f"expected to move again near {at(1).removesuffix('1')}{_two_digits(time)}"


def _two_digits(time: float) -> str:
    """Return a step or a time of 10 or more in two digits, from a million on with a power of ten.

    >>> _two_digits(134.2), _two_digits(22038), _two_digits(996_000), _two_digits(35638581), _two_digits(10**25)
    ('130', '22,000', '1.0 * 10^6', '3.6 * 10^7', '1.0 * 10^25')
    """
    digits, power = f"{time:.1e}".split("e")
    return f"{float(digits) * 10 ** int(power):,.0f}" if int(power) < 6 else f"{digits} * 10^{int(power)}"


def _predicted(run: Trajectory, radius: float, most: Effort) -> tuple[float | None, str]:
    """Return the time of the next change, None if it is not known, and the reason of a rest or of not knowing."""
    law, motion, x = run.law, run.motion, run.final
    if law is None or motion is None:
        return None, "this run was loaded without its law or motion"
    if not law.stochastic:
        return None, f"the weights of {type(law).__name__} are no probabilities, so tokens do not average"
    sphere = motion.surface == "sphere"
    if motion.random and not motion.chain:
        return None, f"tokens in {type(motion).__name__} never rest"
    if not motion.averages and not sphere:
        matrix = "" if motion.as_layers is None else " with a matrix V"
        return None, f"this is not known for {type(motion).__name__}{matrix}"
    if getattr(motion, "b", None) is not None:
        return None, f"this is not known for {type(motion).__name__} with a bias b"
    if not motion.memoryless:
        return None, f"this is not known for {brief(motion)}, whose speed depends on radii or on the time"
    if not np.ptp(x, axis=0).any() and not sphere:
        return math.inf, TOGETHER
    if varies(law):
        return None, f"a parameter of {type(law).__name__} is a function of time"
    if motion.averages and _separated(law, x, run.times.item(-1), radius):
        return math.inf, APART
    if varies(motion):
        return None, f"a parameter of {type(motion).__name__} is a function of time"
    if motion.chain:
        return _chain(law, motion, run, radius)
    return _followed(law, motion, run, radius, most)


def _separated(law: Law, x: Array, t: float, radius: float) -> bool:
    """Say whether clusters, each no wider than the radius, never hear each other."""
    if len(x) > MOST_TOKENS:
        return False
    found = clusters(x, radius)
    widths = [float(np.linalg.norm(np.ptp(x[found.labels == k], axis=0))) for k in range(found.count)]
    return max(widths) <= radius and law.separates(x, found.labels, t)


def _followed(law: Law, motion: Motion, run: Trajectory, radius: float, most: Effort) -> tuple[float | None, str]:
    """Go on from the end of the run, in leaps where they can be taken."""
    x, masses, start, pace = run.final, run.masses, run.times.item(-1), 1.0
    leaping = law.accurate_pull
    if leaping and most == QUICK and len(x) > MOST_TOKENS:
        seconds = f"to find the places of {len(x)} tokens may take seconds"
        return None, f"{seconds}; run.next_change does that, and follows at most {MOST.places} places"
    if leaping:
        x, masses = _places(x, masses, MET * radius / CLOSE)
    what = "places of tokens" if leaping else "tokens"
    if len(x) > MOST.places:
        return None, f"these are {len(x)} {what}, and at most {MOST.places} are followed"
    if len(x) > most.places:
        return None, f"to follow {len(x)} {what} may take seconds, which run.next_change does"
    if leaping and motion.discrete:
        motion, pace = motion.long_run(RTOL)
        if motion.surface == "sphere":
            x = x / np.linalg.norm(x, axis=1, keepdims=True)
    # A step of an integrator costs many times a layer or a leap.
    watcher = _Leaving(radius, MOST.states if motion.discrete else most.states)
    until: float = HORIZON if leaping else AHEAD
    simulate(x, law, motion, until if motion.discrete else float(until), masses=masses, record=[0], watch=[watcher])
    if watcher.time is not None:
        moved = pace * watcher.time
        return start + (math.ceil(moved) if isinstance(start, int) else moved), ""
    if watcher.given_up:
        far = f"none within {watcher.last:.3g} steps or units of time"
        if most == QUICK:
            return None, f"{far}; to follow them further may take seconds, which run.next_change does"
        return None, f"{far}, where following them took too long"
    if not np.ptp(watcher.x, axis=0).any() and getattr(motion, "V", None) is None:
        return math.inf, GATHERING
    if leaping:
        return math.inf, "at rest: no change within 10^300 steps or units of time"
    if _separated(law, watcher.x, 0, radius):
        return math.inf, APART
    return None, f"none within {AHEAD} steps or units of time, but some clusters hear others"


def _places(x: Array, masses: Array | None, reach: float) -> tuple[Array, Array | None]:
    """Return the centres of tokens that are at one place, and their masses."""
    labels = single_linkage(x, reach)
    if labels.max() + 1 == len(x):
        return x, masses
    m = each_mass(masses, len(x))
    return centres(x, m, labels), added(m, labels)


def _chain(law: Law, motion: Any, run: Trajectory, radius: float) -> tuple[float | None, str]:
    """Return the median of the wait for a pick that takes a token beyond the radius, or to a place beyond it."""
    x, gamma = run.final, float(motion.gamma)
    if len(x) > MOST_TOKENS:
        return None, f"these are {len(x)} tokens, and at most {MOST_TOKENS} are looked at"
    P = law.weights(x, 0, run.masses)
    far = np.linalg.norm(x[:, None] - x[None], axis=2)
    out = gamma * far > radius
    chances = np.where(out if out.any() else far > radius, P, 0.0).sum(axis=1)
    if not chances.any():
        return math.inf, "at rest for ever: no token picks another place with a chance that float64 holds"
    hazard = -np.log1p(-np.minimum(chances, 1 - 1e-16)).sum()
    return run.times.item(-1) + math.ceil(math.log(2) / hazard), ""


class _Leaving(Watcher):
    """Stop at the first state with a token farther than the radius from its start, and find the time between states."""

    def __init__(self, radius: float, most: int) -> None:
        self.radius, self.most, self.states = radius, most, 0
        self.time: float | None = None
        self.given_up = False

    def begin(self, start: Start) -> None:
        self.start, self.x, self.last = start.x, start.x, float(start.t)

    def _left(self, x: Array) -> bool:
        return bool((np.linalg.norm(x - self.start, axis=1) > self.radius).any())

    def stop(self, stretch: Stretch) -> tuple[int, str] | None:
        times, before, between = stretch.times.tolist(), stretch.before[0], cast(Any, stretch.between)
        for k, t in enumerate(times):
            if self._left(stretch.tokens[k]):
                inside = between is not None
                self.time = first_true(lambda s: self._left(between(s)), before, t, 1e-6) if inside else t
                return k + 1, "a token has left"
            before = t
        self.states += len(times)
        self.last, self.x = float(before), stretch.after[1]
        if self.states > self.most:
            self.given_up = True
            return len(times), "too many states"
        return None
