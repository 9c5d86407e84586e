"""Margins: by how much statements hold, at which times and for which tokens, in any arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core.inputs import InputError

Numbers = NDArray[Any]  # float64, or objects: Fraction (exact) or flint.arb (balls)

# Where the rounding bound of a margin is larger than this, a margin of 0 up to rounding decides nothing.
LOOSEST = 2e-2


class BrokenClaim(InputError):
    """A claim is not written as claims are: no instance of it says anything, and a search must not pass over it."""


@dataclass(frozen=True)
class Undecided:
    """Why a statement is undecided, and what to change so that it may be decided: two parts of one sentence.

    `shorter` is a horizon, steps or time, at which it may be decided, where the run is too long rather than too short.

    >>> str(Undecided("the run is too short", "give more steps"))
    'the run is too short; to decide it, give more steps'
    """

    cause: str
    remedy: str
    shorter: float | None = None

    def __str__(self) -> str:
        return f"{self.cause}; to decide it, {self.remedy}"


@dataclass(frozen=True)
class Margins:
    """Dimensionless margins of one statement: positive is slack, negative is failure.

    `values` has shape (T,) or (T, n): one row for each of the `times`, one column per token. `tol` is the rounding
    bound of these values, 0 where they are exact. An inequality that is not strict holds from -tol on, as long as tol
    is at most LOOSEST; a `strict` one holds beyond tol only, and what lies within tol is undecided. `what` is the
    statement in words, for sentences; `level` is the confidence of margins that come from random draws; `certified` is
    how their signs were proved, "exact" or "ball", where that is not by the arithmetic of the experiment. `undecided`
    is why entries are undecided; None where it is because of rounding, whose bounds are those of Higham, *Accuracy and
    stability of numerical algorithms* (2002).

    >>> margins = Margins("x >= 0", np.array([0.5, -1e-17, -0.1]), np.arange(3), tol=1e-16)
    >>> margins.held, margins.failed
    (array([ True,  True, False]), array([False, False,  True]))
    """

    what: str
    values: Numbers
    times: NDArray[Any]
    tol: Any = 0.0
    strict: bool = False
    level: float | None = None
    certified: str = ""
    undecided: Undecided | None = None

    def __post_init__(self) -> None:
        if np.ndim(self.values) not in (1, 2) or len(self.values) != len(self.times):
            shapes = f"values of shape {np.shape(self.values)} at times of shape {np.shape(self.times)}"
            raise BrokenClaim(f"margins have {shapes}, expected one row for each time: use margins.once for one value")
        if _truth(np.asarray(self.tol) < 0).any():
            raise BrokenClaim(f"tol is {self.tol!r}, expected the rounding bound of the margins, which is not negative")
        if np.ndim(self.tol) == 1 and self.values.ndim == 2:  # one bound for each time
            object.__setattr__(self, "tol", np.reshape(self.tol, (-1, 1)))

    @property
    def failed(self) -> NDArray[np.bool_]:
        """Where the statement certainly fails."""
        below = _truth(self.values < -self.tol)
        if self.strict:
            below |= _truth(self.tol == np.zeros(self.values.shape)) & _truth(self.values <= 0)
        return below

    @property
    def held(self) -> NDArray[np.bool_]:
        """Where the statement certainly holds."""
        if self.strict:
            return _truth(self.values > self.tol)
        known = _truth(np.asarray(self.tol) <= LOOSEST)
        return (_truth(self.values >= -self.tol) & known) | _truth(self.values >= self.tol)

    @property
    def nan(self) -> NDArray[np.bool_]:
        """Where the margin is NaN; balls that are not bounded are no such margins."""
        return _truth(np.frompyfunc(lambda value: isinstance(value, float) and np.isnan(value), 1, 1)(self.values))

    def before(self, time: float) -> Margins:
        """Return the margins at earlier times."""
        kept = np.asarray(self.times) < time
        tol = self.tol[kept] if np.ndim(self.tol) and len(self.tol) == len(kept) else self.tol
        return replace(self, values=self.values[kept], times=self.times[kept], tol=tol)

    def first(self, mask: NDArray[np.bool_]) -> tuple[Any, int | None]:
        """Return the time and the token of the first entry of a mask."""
        place = tuple(int(k) for k in np.argwhere(mask)[0])
        time = self.times[place[0]]
        return (time.item() if isinstance(time, np.generic) else time), (place[1] if len(place) > 1 else None)

    def at(self, mask: NDArray[np.bool_]) -> float:
        """Return the value at the first entry of a mask."""
        return float(self.values[tuple(np.argwhere(mask)[0])])

    @property
    def worst(self) -> float:
        """The smallest margin; infinite if there is none, 0 where none is a number."""
        values = [float(value) for value in self.values.ravel()]
        numbers = [value for value in values if not np.isnan(value)]
        return min(numbers, default=0.0 if values else np.inf)

    @property
    def rounding(self) -> float:
        """The largest rounding bound."""
        return float(np.max(self.tol, initial=0.0)) if np.size(self.tol) else 0.0

    def blurred(self, other: Margins) -> Margins:
        """Return these margins with twice the difference from another computation of them added to their tol."""
        difference = np.abs(np.asarray(self.values, dtype=float) - np.asarray(other.values, dtype=float))
        return replace(self, tol=self.tol + 2 * difference)


def _truth(mask: Any) -> NDArray[np.bool_]:
    return np.asarray(mask, dtype=bool)


def once(what: str, value: Any, tol: Any = 0.0, *, time: float = 0, strict: bool = False) -> Margins:
    """Return one margin, by default at the start.

    >>> once("1 < 2", 1.0, strict=True).held
    array([ True])
    """
    return Margins(what, stacked([value]), np.array([time]), tol, strict)


def unknown(what: str, why: Undecided, time: float = 0) -> Margins:
    """Return the margin of a statement that the run does not decide, for a reason that is not rounding.

    >>> margins = unknown("every token converges", Undecided("the run is too short", "give more steps"))
    >>> margins.held, margins.failed
    (array([False]), array([False]))
    """
    return replace(once(what, 0.0, 1.0, time=time), undecided=why)


def per_token(what: str, values: ArrayLike, tol: Any = 0.0, *, time: float = 0, strict: bool = False) -> Margins:
    """Return one margin per token, all at one time; tol may be one for each."""
    room = np.asarray(tol)[None] if np.ndim(tol) else tol
    return Margins(what, np.asarray(values)[None], np.array([time]), room, strict)


def objects(items: Iterable[Any], shape: tuple[int, ...]) -> Numbers:
    """Return an array of such items as they are: fractions or balls.

    >>> from fractions import Fraction
    >>> objects([Fraction(1, 2)], (1,)).tolist()
    [Fraction(1, 2)]
    """
    boxed = np.empty(shape, dtype=object)
    for place, item in zip(np.ndindex(shape), items, strict=True):
        boxed[place] = item
    return boxed


def stacked(values: Sequence[Any]) -> Numbers:
    """Return a vector of numbers: float64, or objects if they are fractions or balls."""
    if all(isinstance(value, float | int | np.generic) for value in values):
        return np.array(values, dtype=np.float64)
    return objects(values, (len(values),))


def largest(values: Numbers, axis: int) -> Numbers:
    """Return the maximum along an axis: rigorous for balls, whose comparisons may be undecided."""
    return _extremum(values, axis, np.max, "max")


def smallest(values: Numbers, axis: int) -> Numbers:
    """Return the minimum along an axis: rigorous for balls, whose comparisons may be undecided."""
    return _extremum(values, axis, np.min, "min")


def _extremum(values: Numbers, axis: int, plain: Callable[..., Any], ball: str) -> Numbers:
    first = values.flat[0] if values.size else 0.0
    if not hasattr(first, "mid"):
        return np.asarray(plain(values, axis=axis))
    pick = np.frompyfunc(lambda a, b: getattr(a, ball)(b), 2, 1)
    return np.asarray(pick.reduce(values, axis=axis))
