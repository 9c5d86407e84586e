"""The contract of a motion: how tokens move once they have listened."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

import numpy as np

from attnflow.core.calls import check_method
from attnflow.core.inputs import Array, InputError, Matrix, number, quoted, square, varies_in_time
from attnflow.core.parameters import check_fields
from attnflow.engines import AUTOMATIC, LARGEST_GAIN
from attnflow.geometry.copies import copies
from attnflow.laws import Heads, Hearing, Law
from attnflow.motions.stepper import NoDirection, Stepper, Stretch

if TYPE_CHECKING:
    from attnflow.motions.layers import Layers

# A stretch of discrete steps covers about this many pairs of tokens, and at most this many steps: a few
# milliseconds of work between two looks of the watchers.
STRETCH_PAIRS = 1 << 22
STRETCH_STEPS = 2048
# The absolute tolerance of an integrator is this fraction of the relative one, times the size of the cloud.
ABSOLUTE = 1e-3
# A flow with more steps to come than this is slow.
SLOW_STEPS = 1e4
# A flow with more steps to come than this will not end: the user is warned.
ENDLESS = 1e7


class MatrixForm(NamedTuple):
    """How tokens move where one constant matrix M says it: x_i' (in layers, what is added to x_i) is M m_i.

    With ``differences`` it is M (m_i - x_i); on the sphere its tangent part (in layers, x_i is then divided by its
    length). ``unnormalized`` means that what is heard is multiplied by Z_i / n, as in USA.
    """

    matrix: Array
    differences: bool = False
    sphere: bool = False
    unnormalized: bool = False


class Motion:
    """How tokens move.

    For developers. A motion is a frozen dataclass that writes

    ``start(hearing, x, t, state=None) -> Stepper``
        the motion under way from (t, x); `hearing(x, t, sources=, values=, gain=)` is what tokens hear. Two short
        cuts exist: a subclass of `DiscreteMotion` writes only ``step(hearing, x, t)``, a subclass of
        `ContinuousMotion` only ``velocity(hearing, x, t)`` and perhaps ``retract(x)``.
    ``prepare(x, hearing)``, if it matters
        refuses tokens that are not where the motion lives, and laws it cannot move under.
    ``check_end(end)``, if it matters
        refuses an end that a run cannot reach.
    ``seen(x, t)`` and ``into_frame(y, t)``, in a moving frame
        the tokens as the law sees them, and what is added to these as the frame shows it.

    `discrete` motions count steps: t is the index s of the step from x^s to x^{s+1}, and `until` is whole. `hint` says
    what to do when tokens leave the range of float64, `hint_of_sums` what to do instead under laws whose weights do not
    add up to one, where they may do so in finite time. `random` motions draw from `hearing.seed`, report the `seed`
    that they used, and keep their generator in the `state` of their stepper. Discrete motions with ``array_api = True``
    move the arrays of any library: their `prepare` and `step` are written for those (see `attnflow.core.arrays`). Those
    with ``by_rows = True`` move each token by itself and what it hears alone, so that `prepare` and `step` may be given
    some of the rows: then tokens may be Dask arrays (a class with a `step` of its own says it anew).

    What a motion takes: `takes_jumping_laws` is False if the law must be continuous, `only_law` is the name of the one
    law that it moves tokens under, if there is only one. Under that law it is the exact solution of the motion named
    `exact_for`, without parameters. `stores_all_pairs` motions need memory for all pairs of tokens.

    Figures, measurements, claims and the explorer read from these attributes what a motion is, and from nothing else;
    each is optional:

    ``surface = "sphere"``
        if tokens stay on the unit sphere;
    ``moving_frame = True``
        if tokens are z = e^{-tV} x or (I + dt V)^{-k} x, with V an attribute, while the law sees x;
    ``same_system = "Flow"``
        the class of the motion that moves the same tokens in another frame: claims about one are about the other
        (subclasses say it anew);
    ``grows = True``
        if tokens usually grow without end;
    ``averages = True``
        if each token moves towards what it hears, so that groups which no longer hear each other rest for ever;
    ``chain = True``
        if x_i <- x_i + gamma (x_j - x_i) with probability P_ij, with gamma an attribute;
    ``keeps_radii = True``
        if states are x = r theta: the tokens of a run are then the directions theta, which the law hears, and
        `run.radii` are the r; watchers see the directions;
    ``own_law`` and ``own_end``
        the law that a motion brings with it, as `Transformer` brings its heads, and the number of its layers: a run
        then needs neither;
    ``memoryless = False``
        if more than the tokens decides how they go on: their radii, or the time;
    ``scales_speed = True``
        if tokens on the sphere turn at another speed than that of what they hear, such as that divided by a radius;
    ``skips_steps = True``
        if steps in which little happens are passed over, so that 10^25 of them are possible;
    ``rtol``
        the relative tolerance of a computation that has one: measurements repeat the run at others;
    ``as_layers``
        the `Layers` whose states these tokens go through, if there are such: what claims prove of them holds here;
    ``matrix_form(d)``
        the `MatrixForm` of tokens in dimension d, if there is one and no parameter is a function of time: ensembles
        then move in one compiled loop (subclasses say it anew, since they may move otherwise);
    ``changes_at = 1.0``
        the time from which on tokens move in another way, if there is such a time: integrators stop there;
    ``long_run(rtol)``
        a motion that drifts in the same way and is cheap for very long times, and how many steps a unit of its time is.

    A motion around another one, as `Noisy`, says in a word what it `adds`, and in `parameters_around` which of its
    parameters it takes around motions of a class; all of these are `given_together`, or each by itself.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    formula: ClassVar[str | Mapping[str, str]] = ""
    surface: ClassVar[str] = "space"
    alternatives: ClassVar[tuple[str, ...]] = ()
    usual_time: ClassVar[float] = 60.0
    discrete: ClassVar[bool]
    random: ClassVar[bool] = False
    array_api: ClassVar[bool] = False
    by_rows: ClassVar[bool] = False
    takes_jumping_laws: ClassVar[bool] = True
    only_law: ClassVar[str] = ""
    exact_for: ClassVar[str] = ""
    stores_all_pairs: ClassVar[bool] = False
    moving_frame: ClassVar[bool] = False
    same_system: ClassVar[str] = ""
    grows: ClassVar[bool] = False
    averages: ClassVar[bool] = False
    chain: ClassVar[bool] = False
    keeps_radii: ClassVar[bool] = False
    memoryless: ClassVar[bool] = True
    scales_speed: ClassVar[bool] = False
    skips_steps: ClassVar[bool] = False
    hint: ClassVar[str] = "shorten the run"
    hint_of_sums: ClassVar[str] = ""
    changes_at: ClassVar[float | None] = None
    rtol: float | None = None
    adds: ClassVar[str] = ""
    given_together: ClassVar[bool] = False
    own_law: Law | None = None
    own_end: float | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A subclass may move tokens in another way.
        cls.same_system = vars(cls).get("same_system", "")
        cls.matrix_form = vars(cls).get("matrix_form", Motion.matrix_form)  # type: ignore[method-assign]
        if "step" in vars(cls):
            cls.by_rows = vars(cls).get("by_rows", False)

    def __post_init__(self, *given: Any) -> None:
        """Check the parameters by what they say of themselves."""
        check_fields(self)

    @property
    def short_name(self) -> str:
        """What a motion is called before its parameters."""
        return type(self).__name__

    def start(self, hearing: Hearing, x: Array, t: float, state: dict[str, Any] | None = None) -> Stepper:
        """Return the motion under way from (t, x)."""
        raise InputError(_nothing_said(self))

    def prepare(self, x: Array, hearing: Hearing) -> Array:
        """Return the tokens a run starts from, or refuse."""
        return x

    def seen(self, x: Array, t: float) -> Array:
        """Return the tokens as the law sees them at time t; motions in a moving frame differ from x."""
        return x

    def check_end(self, end: float) -> None:
        """Refuse an end that a run cannot reach."""

    def warn_if_endless(self, t: Any, until: float) -> None:
        """Warn of a run from t to the end that takes too many steps, if that is known before."""

    def into_frame(self, y: Array, t: float) -> Array:
        """Return the vectors y of the tokens that the law sees as the motion's frame shows them at time t."""
        return y

    def advice(self, law: Law) -> str:
        """Return what to do when tokens leave the range of float64 under this law."""
        return self.hint if law.stochastic or not self.hint_of_sums else self.hint_of_sums

    def with_rtol(self, rtol: float) -> Self:
        """Return this motion at another relative tolerance, or as it is if it has none."""
        if self.rtol is None:
            return self
        other: Any = copy.copy(self)
        # A value that is given but not held cannot be given again: such a motion is copied as it is.
        given, held = signature(type(self)).parameters, fields(other) if is_dataclass(other) else ()
        if "rtol" in given and {one.name for one in held}.issuperset(given):
            return cast(Self, replace(other, rtol=rtol))
        try:
            object.__setattr__(other, "rtol", rtol)
        except AttributeError:
            raise InputError(
                f"rtol of {type(self).__name__} cannot be set, expected a field, for runs at other tolerances: write "
                "rtol: float = 1e-9 in the class"
            ) from None
        return cast(Self, other)

    @property
    def as_layers(self) -> Layers | None:
        """The averaging layers that these tokens go through, or None."""
        return None

    def matrix_form(self, d: int) -> MatrixForm | None:
        """Return the one constant matrix by which tokens in dimension d move; None if there is none."""
        return None

    def long_run(self, rtol: float) -> tuple[Motion, float]:
        """Return a motion that drifts like this one over very long times, and how many steps a unit of its time is."""
        return self, 1.0


def _nothing_said(motion: Motion) -> str:
    return (
        f"{type(motion).__name__} does not say how tokens move: let it be a subclass of "
        "attnflow.motions.ContinuousMotion that writes velocity, or of attnflow.motions.DiscreteMotion that writes step"
    )


def check_motion(motion: object) -> None:
    """Refuse what is no motion, and one that does not say how tokens move, or in a way that cannot be called."""
    if not isinstance(motion, Motion):
        raise InputError(f"motion is {quoted(motion)}, expected a motion such as Layers(gamma=0.1)")
    if not hasattr(motion, "discrete"):
        raise InputError(_nothing_said(motion))
    for name in ("step", "velocity", "start"):
        check_method(type(motion), name, ("hearing", "x", "t", *(("state",) if name == "start" else ())))


def given_or_own(law: Any, motion: Any, until: Any) -> tuple[Law, Motion, float]:
    """Return what a run needs, from what is given and what its motion brings; refuse what is lacking."""
    if isinstance(law, Motion) and motion is None:
        law, motion = None, law
    if motion is None:
        raise InputError("simulate needs a motion: give one such as Layers(gamma=0.1) after the law")
    check_motion(motion)
    own = motion.own_law
    if law is None and own is None:
        raise InputError(f"{type(motion).__name__} brings no law of its own: give one such as Softmax(beta=1.0)")
    if law is not None and own is not None and law is not own:
        raise InputError(f"{type(motion).__name__} brings its own law: leave out {quoted(law)}")
    until = motion.own_end if until is None else until
    if until is None:
        raise InputError("simulate needs an end: give until, a whole number of steps or a time")
    return (own if law is None else law), motion, until


def end_of(until: Any, motion: Motion) -> float:
    """Check when a run is to end: a whole number of steps, or a time."""
    end = number(until, "until", above=0.0)
    if motion.discrete and not end.is_integer():
        raise InputError(f"until is {end:g}, but {type(motion).__name__} moves in steps: give a whole number")
    motion.check_end(end)
    return end


def lost(who: str, motion: Motion, law: Law, x: Array, at: str) -> str:
    """Say why tokens x are not finite after a step, and what to do."""
    left = f"{who} left the range of float64 at {at}; {motion.advice(law)}"
    return returned_nan(motion, "step", x, f" at {at}") or left


def returned_nan(motion: Motion, method: str, returned: Array, at: str = "") -> str | None:
    """Say that a method which a user wrote returned NaN; that from our own is what overflow leaves behind."""
    written_by = getattr(getattr(type(motion), method, None), "__module__", "attnflow")
    if not np.isnan(returned).any() or written_by.partition(".")[0] == "attnflow":
        return None
    return f"{method} of {type(motion).__name__} returned NaN{at}; let it return numbers there, or end earlier"


def check_stepper(stepper: object, motion: Motion) -> None:
    """Refuse what the `start` of a motion of one's own returned if it is no stepper."""
    if not isinstance(stepper, Stepper):
        raise InputError(
            f"start of {type(motion).__name__} returned {quoted(stepper)}, expected a stepper: return an object of a "
            "subclass of attnflow.motions.Stepper"
        )


class DiscreteMotion(Motion):
    """Motions in layers: subclasses write `step`, and `steps` if they know a compiled loop.

    Those that set ``pointwise = True`` say that tokens at one place move alike: they may be given one token with the
    mass of all that are there.
    """

    discrete = True
    pointwise: ClassVar[bool] = False

    def step(self, hearing: Hearing, x: Array, t: int) -> Array:
        """Return x^{t+1} from x^t."""
        raise InputError(f"{type(self).__name__} does not say its step: a discrete motion must write step")

    def steps(self, hearing: Hearing, x: Array, times: range) -> Array:
        """Return the states after the steps that start at the first k >= 1 of the times, shape (k, n, d)."""
        states = np.empty((len(times), *x.shape))
        for k, t in enumerate(times):
            try:
                states[k] = x = moved(self, "step", self.step(hearing, x, t), x)
            except NoDirection:
                if k == 0:
                    raise
                return states[:k]
        return states

    def start(self, hearing: Hearing, x: Array, t: float, state: dict[str, Any] | None = None) -> Stepper:
        return _Layerwise(self, hearing, x, int(t))


class _Layerwise(Stepper):
    def __init__(self, motion: DiscreteMotion, hearing: Hearing, x: Array, t: int) -> None:
        self.motion, self.hearing, self.x, self.t = motion, hearing, x, t
        self.most = steps_per_stretch(len(x))

    def advance(self, until: float) -> Stretch:
        times = range(self.t, min(int(until), self.t + self.most))
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                states = self._steps(times)
        except NoDirection as error:
            if self.t == 0:
                raise
            return Stretch.none(self.t, self.x, str(error))
        stretch = Stretch((self.t, self.x), np.arange(self.t + 1, self.t + 1 + len(states)), states)
        self.t, self.x = self.t + len(states), states[-1]
        return stretch

    def _steps(self, times: range) -> Array:
        """Return the states after some steps, of one body for all tokens at one place if the law hears it as such."""
        hearing = self.hearing
        law, alike = hearing.law, self.motion.pointwise
        asked = self.most > 1 and hearing.engine in AUTOMATIC and law.merges_copies and not law.positional and alike
        bodies = copies(self.x) if asked else None
        if bodies is None:
            return self.motion.steps(self.hearing, self.x, times)
        added = replace(hearing, masses=bodies.added(hearing.masses))
        return self.motion.steps(added, self.x[bodies.first], times)[:, bodies.label]


def moved(motion: Motion, what: str, returned: Any, x: Array) -> Array:
    """Return what a motion of one's own returned, refusing another shape than that of the tokens."""
    if np.shape(returned) != x.shape:
        raise InputError(
            f"{what} of {type(motion).__name__} returned an array of shape {np.shape(returned)}, expected that of the "
            f"tokens, {x.shape}"
        )
    same: Array = returned
    return same


def steps_per_stretch(n: int) -> int:
    """Return how many discrete steps of n tokens make a stretch.

    >>> steps_per_stretch(10), steps_per_stretch(10**5)
    (2048, 1)
    """
    return int(np.clip(STRETCH_PAIRS // n**2, 1, STRETCH_STEPS))


def whole_type(until: int) -> type[Any]:
    """Return the type of whole times up to `until`: Python's integers where int64 ends too early.

    >>> whole_type(10**9), whole_type(10**25)
    (<class 'numpy.int64'>, <class 'object'>)
    """
    return np.int64 if until < 2**63 else object


def towards(x: Array, y: Array, gamma: float) -> Array:
    """Return x + gamma (y - x), and y itself when gamma = 1."""
    return y if isinstance(gamma, float) and gamma == 1 else x + gamma * (y - x)


def apply(matrix: Array | None, vectors: Array) -> Array:
    """Return the matrix applied to each row; None is the identity."""
    return vectors if matrix is None else vectors @ matrix.T


def gain_of(exponent: float) -> float:
    """Return e^exponent, kept clear of overflow and underflow.

    >>> gain_of(0.0), gain_of(1e4), gain_of(-1e4)
    (1.0, 1e+300, 1e-300)
    """
    return min(max(math.exp(min(max(exponent, -700.0), 700.0)), 1 / LARGEST_GAIN), LARGEST_GAIN)


def grown(y: Array, gain: float) -> Array:
    """Return sqrt(gain) y; beyond 1e140 only the direction is kept, where every law hears its top scores alone.

    >>> grown(np.array([[3.0]]), 4.0)
    array([[6.]])
    """
    return y * min(math.sqrt(gain), 1e140 / max(1.0, float(np.abs(y).max())))


def constant(V: Matrix, who: str) -> Array | None:
    """Check the matrix of a moving frame, which cannot vary in time."""
    if varies_in_time(V):
        raise InputError(f"{who} take a constant V: the frame they move with is its power")
    return None if V is None else square(V, "V")


def one_value_matrix(hearing: Hearing, who_moves: str) -> None:
    """Refuse heads where a motion's own V defines the frame; a sentence begins with who moves."""
    if isinstance(hearing.law, Heads):
        raise InputError(f"{who_moves} with one matrix V, but heads bring several: use Residual or Flow with heads")
