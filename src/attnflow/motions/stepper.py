"""A motion under way: what it returns for a piece of a run, and how it says that it cannot go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array, InputError


class NoDirection(InputError):
    """Tokens cannot go on because one has no direction: a run that is under way ends there, and keeps what it has."""


@dataclass(frozen=True)
class Stretch:
    """A piece of a run: consecutive states after `before`, the state (t, x) where it starts.

    `between(t)` gives the state inside a stretch of a flow, or of a chain that rests between its moves.
    `ended` is a sentence when the motion cannot go on.
    """

    before: tuple[float, Array]
    times: NDArray[Any]
    tokens: Array
    between: Callable[[float], Array] | None = None
    ended: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", _read_only(self.tokens))
        object.__setattr__(self, "before", (self.before[0], _read_only(self.before[1])))

    def cut(self, count: int, why: str) -> Stretch:
        """Return the first `count` states, with the reason why the run ends there."""
        return replace(self, times=self.times[:count], tokens=self.tokens[:count], ended=why)

    @classmethod
    def none(cls, t: Any, x: Array, why: str) -> Stretch:
        """Return no more states after (t, x), and why there are none."""
        return cls((t, x), np.empty(0), np.empty((0, *x.shape)), ended=why)

    @property
    def after(self) -> tuple[Any, Array]:
        """The last state of the stretch."""
        return (self.times[-1], self.tokens[-1]) if len(self.times) else self.before


def _read_only(array: Array) -> Array:
    view = array.view()
    view.setflags(write=False)
    return view


class Stepper:
    """A motion under way.

    For developers. A stepper is a subclass that writes `advance`, and `state`, `report` and `slow` where it has
    something to say.

    Attributes
    ----------
    shortened : bool
        Whether the end of the run has shaped a step that does not reach the end; False unless the stepper sets it. Its
        state is then that of this run alone: it is not kept, and a run that is to end later goes on from before.
    """

    shortened: bool = False

    def advance(self, until: float) -> Stretch:
        """Move on, at most to the given time, and return what happened."""
        raise InputError(f"{type(self).__name__} does not say how tokens move on: a stepper must write advance")

    def state(self) -> dict[str, Any]:
        """Return the numbers beyond (t, x) from which `Motion.start` continues bit for bit."""
        return {}

    def report(self) -> dict[str, Any]:
        """Return what a user may want to know of the computation."""
        return {}

    def slow(self) -> str | None:
        """Return a sentence that says why many short steps are to come and what helps, or None."""
        return None
