"""Flows of few tokens with rigorous error bounds: balls that hold the tokens, at every step and in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from attnflow.core import progress
from attnflow.core.cards import card
from attnflow.core.inputs import Array, InputError, cloud, number, quoted, varies_in_time, whole
from attnflow.enclosures.fields import RESCALED, SPACE, SPHERE, Field
from attnflow.enclosures.mirrors import Mirrors
from attnflow.enclosures.numbers import Numbers, arithmetic, ball, balls, digits, floats, largest_radius
from attnflow.enclosures.steps import Framed, NoStep, Step, step
from attnflow.laws import Law, check_law
from attnflow.motions import Motion, check_motion

# Taylor polynomials of this order; more bits than the tolerance asks for by SPARE.
ORDER, SPARE = 38, 64
# At most this many coordinates: the work of a step grows like their cube.
MOST = 36


@dataclass(frozen=True)
class Enclosure:
    """Balls around the tokens of a flow: proved, for every start in the balls of the first.

    `times` are those of the steps, exact fractions; `states[k]` holds the tokens (n, d) at times[k], and `between[k]`
    all the time from times[k] to times[k + 1]. `steps[k]` has what proves that step. `stopped` says in one sentence why
    it ended; `reached` is false if that was before the time that was asked for.
    """

    times: Sequence[Fraction]
    states: Sequence[Numbers]
    between: Sequence[Numbers]
    steps: Sequence[Step]
    stopped: str
    reached: bool
    certified: ClassVar[str] = "ball"

    @property
    def final(self) -> Numbers:
        """The balls of the tokens at the end."""
        return self.states[-1]

    @property
    def radius(self) -> float:
        """The largest radius of a ball at the end."""
        return largest_radius(self.final)

    @property
    def middle(self) -> Array:
        """The middles of the balls at the end, as floats."""
        return floats(self.final)

    def _repr_html_(self) -> str:
        n, d = self.final.shape
        rows = {
            "tokens": f"{n} in dimension {d}", "time": f"{float(self.times[-1]):g}", "steps": len(self.steps),
            "largest radius": digits(self.radius, up=True), "stopped": self.stopped, "certified": self.certified,
        }  # fmt: skip
        return card("Enclosure", rows)


def field_of(law: Law, motion: Motion, d: int) -> Field:
    """Return the vector field of a law and a motion in dimension d; refuse what has no enclosure.

    >>> import attnflow as af
    >>> field_of(af.Softmax(), af.SphereFlow(), 2).kind
    'sphere'
    """
    check_law(law)
    check_motion(motion)
    found, form = law.exponents, motion.matrix_form(d)
    if law.replays != "balls" or found is None or found.b is not None or varies_in_time(found.beta):
        raise InputError(f"{law.short_name} has no enclosure of its flows: use Softmax with a constant beta, without b")
    if varies_in_time(found.B) or motion.discrete or (form is None and not motion.moving_frame):
        raise InputError(
            f"{type(motion).__name__} has no enclosure: use Flow, RescaledFlow or SphereFlow with constant matrices, "
            "the norm 'post' and no feed-forward layer"
        )
    if form is None:
        if getattr(motion, "feed_forward", None) is not None:
            raise InputError("a feed-forward layer has no enclosure: leave it out")
        kind, V, sums = RESCALED, getattr(motion, "V", None), False
    else:
        # Differences M (m - x) and M m have the same tangent part on the sphere where M is a multiple of I.
        kind, V, sums = SPHERE if form.sphere else SPACE, form.matrix, form.unnormalized
    return Field(kind, ball(found.beta), _matrix(found.B, d), _matrix(V, d), sums)


def _matrix(given: Any, d: int) -> Numbers | None:
    return None if given is None or np.array_equal(given, np.eye(d)) else balls(np.asarray(given))


def enclose(
    tokens: ArrayLike,
    law: Law,
    motion: Motion,
    until: float,
    *,
    tolerance: float = 1e-20,
    order: int = ORDER,
    enough: Callable[[Numbers], bool] = lambda balls: False,
    mirrors: Mirrors | None = None,
) -> Enclosure:
    """Return balls that provably hold the tokens of a flow at its steps, at time `until`, and in between.

    Each step is a Taylor polynomial whose defect is bounded on a circle of complex times, carried in a frame that turns
    with the flow: `attnflow.enclosures.steps` has the theorem. The tokens are taken exactly as the numbers that are
    given: floats, or fractions and balls in an array of objects. On the sphere they are divided by their lengths
    first.

    Parameters
    ----------
    tokens, law, motion, until
        As in `simulate`, for `Softmax` under `Flow`, `RescaledFlow` or `SphereFlow`, and few tokens.
    tolerance
        The remainder of each step has at most about this radius.
    order
        The order of the Taylor polynomials.
    enough
        A function of the balls at a step: it ends the enclosure where it returns true.
    mirrors
        Exact symmetries of the tokens, B and V, which hold for ever and keep errors from growing that break them.

    Examples
    --------
    >>> import attnflow as af
    >>> found = enclose([[1.0], [-1.0]], af.Softmax(), af.Flow(), until=0.5)
    >>> found.radius < 1e-17, found.middle.round(6).ravel().tolist()
    (True, [1.56551, -1.56551])

    References
    ----------
    R. Lohner, *Enclosing the solutions of ordinary initial and boundary value problems* (1987).
    """
    exact = isinstance(tokens, np.ndarray) and tokens.dtype == object and tokens.ndim == 2
    start = np.asarray(tokens) if exact else cloud(tokens, "tokens")
    if start.size > MOST:
        raise InputError(
            f"there are {start.size} coordinates, expected at most {MOST}: take fewer tokens or dimensions"
        )
    if not callable(enough):
        raise InputError(f"enough is {quoted(enough)}, expected a function of the balls at a step")
    if not isinstance(mirrors, Mirrors | None):
        raise InputError(f"mirrors is {quoted(mirrors)}, expected Mirrors(turn, order), or none")
    number(tolerance, "tolerance", above=0.0)
    whole(order, "order", least=2)
    field = field_of(law, motion, start.shape[1])
    end = Fraction(number(until, "until", least=0.0))
    with arithmetic(max(64, round(-np.log2(tolerance))) + SPARE):
        x = balls(start)
        if field.kind == SPHERE:
            lengths = [sum((one * one for one in row), ball(0)).sqrt() for row in x]
            x = np.array([row / length for row, length in zip(x, lengths, strict=True)], dtype=object)
        if mirrors is not None and not mirrors.keep(x, [field.B, field.V]):
            raise InputError("the mirrors do not map tokens, B and V to themselves exactly: give others, or none")
        states = Framed.around(x, mirrors)
        return _walk(field, states, end, (tolerance, order), enough)


def _walk(
    field: Field, states: Framed, end: Fraction, method: tuple[float, int], enough: Callable[[Numbers], bool]
) -> Enclosure:
    t = Fraction(0)
    times, held, between, steps = [t], [states.hull], [], []
    stopped = f"time {float(end):g} was reached"
    with progress.task("enclosure", float(end) or 1.0) as work:
        while t < end:
            if enough(held[-1]):
                stopped = f"what was asked for was found at time {float(t):g}"
                break
            try:
                taken, states, during = step(field, states, t, end - t, *method)
            except NoStep:
                wide = largest_radius(states.hull)
                stopped = f"no step from time {float(t):g} on can be enclosed: balls have radii up to {wide:.1e}"
                break
            t += taken.h
            times.append(t)
            held.append(states.hull)
            between.append(during)
            steps.append(taken)
            work.reach(float(t), f"t = {float(t):g} of {float(end):g}")
    return Enclosure(times, held, between, steps, stopped, t == end)
