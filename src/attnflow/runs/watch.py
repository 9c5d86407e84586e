"""Watchers of the loop: stopping, progress, checkpoints.

Give them to `simulate` as ``watch=[...]``; recording has a keyword of its own, ``record=``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from attnflow.core.inputs import Array, InputError, number, whole
from attnflow.geometry.linkage import single_linkage
from attnflow.motions import Stretch


class Start(NamedTuple):
    """What a run tells its watchers at the beginning: where it is, where it goes, in which kind of time.

    After an interruption (t, x) is the last checkpoint; `origin` is the initial cloud in any case.
    """

    t: float
    x: Array
    until: float
    discrete: bool
    origin: Array


class Watcher:
    """What looks at a run, stretch by stretch.

    For developers. A run comes in stretches of consecutive states. Write any of

    - ``begin(start)``: the run begins, or goes on after an interruption;
    - ``stop(stretch) -> (count, why) | None``: the run ends after the first `count` states of this stretch;
    - ``see(stretch)``: this stretch happened; stops have cut it already;
    - ``end()``: no more stretches.
    """

    def begin(self, start: Start) -> None:
        """The run begins."""

    def stop(self, stretch: Stretch) -> tuple[int, str] | None:
        """Say after how many states of the stretch to stop, and why."""
        return None

    def see(self, stretch: Stretch) -> None:
        """Look at a stretch that happened."""

    def end(self) -> None:
        """The run is over."""


@dataclass
class Converged(Watcher):
    """Stop when no token moves faster than tol times the extent of the initial cloud, per step or unit of time.

    Tokens that rest have not converged: attention is metastable, and a schedule of vanishing step sizes slows every
    motion down. `run.next_change` says when they are expected to move again.

    >>> import attnflow as af
    >>> run = af.simulate([[2.0], [1.0]], af.Hardmax(), af.Layers(gamma=0.5), 100, watch=[Converged(1e-6)])
    >>> run.stopped
    "at rest within 1e-06 at step 20: no token moved by more than this part of the cloud's extent per step"
    """

    tol: float = 1e-10

    def __post_init__(self) -> None:
        number(self.tol, "tol", above=0.0)

    def begin(self, start: Start) -> None:
        """Measure the initial cloud."""
        self.extent = float(np.linalg.norm(np.ptp(start.origin, axis=0)))
        self.when, self.unit = when(start.discrete), "step" if start.discrete else "unit of time"

    def stop(self, stretch: Stretch) -> tuple[int, str] | None:
        """Stop at the first state that was reached slowly."""
        moves = np.diff(np.concatenate([stretch.before[1][None], stretch.tokens]), axis=0)
        spans = np.diff(np.concatenate([[stretch.before[0]], stretch.times]))
        slow = np.linalg.norm(moves, axis=2).max(axis=1) <= self.tol * self.extent * spans
        if not slow.any():
            return None
        k = int(slow.argmax())
        return k + 1, (
            f"at rest within {self.tol:g} at {self.when(stretch.times[k])}: no token moved by more than this part of "
            f"the cloud's extent per {self.unit}"
        )


@dataclass
class When(Watcher):
    """Stop at the first state for which predicate(t, x) is true.

    >>> import attnflow as af
    >>> low = When(lambda t, x: x.max() < 0.1, "all tokens are below 0.1")
    >>> af.simulate([[1.0], [0.0]], af.Softmax(beta=0.0), af.Layers(gamma=0.5), 100, watch=[low]).stopped
    'reached step 100, as asked'
    """

    predicate: Callable[[Any, Array], bool]
    why: str = "the predicate became true"

    def __post_init__(self) -> None:
        if not callable(self.predicate):
            raise InputError(f"predicate is {self.predicate!r}, expected a function of t and x that says when to stop")

    def begin(self, start: Start) -> None:
        """Learn how to speak of time."""
        self.when = when(start.discrete)

    def stop(self, stretch: Stretch) -> tuple[int, str] | None:
        """Stop at the first state that satisfies the predicate."""
        for k, (t, x) in enumerate(zip(stretch.times, stretch.tokens, strict=True)):
            if self.predicate(t, x):
                return k + 1, f"stopped at {self.when(t)}: {self.why}"
        return None


class Clustered(When):
    """Stop when the tokens form at most `at_most` clusters, chains of steps of length at most tol.

    >>> import attnflow as af
    >>> run = af.simulate([[1.0], [0.0]], af.Softmax(), af.Layers(gamma=0.5), 100, watch=[Clustered(tol=0.1)])
    >>> run.stopped
    'stopped at step 4: the number of clusters at tolerance 0.1 is at most 1'
    """

    def __init__(self, at_most: int = 1, tol: float = 1e-3) -> None:
        number(tol, "tol", above=0.0)
        at_most = whole(at_most, "at_most", least=1)
        super().__init__(
            lambda t, x: bool(single_linkage(x, tol).max() < at_most),
            f"the number of clusters at tolerance {tol:g} is at most {at_most}",
        )


@dataclass
class WallClock(Watcher):
    """Stop at the end of the stretch during which the given number of seconds has passed.

    >>> import attnflow as af
    >>> x0, slow = af.tokens.polygon(3), af.Layers(gamma=1e-9)
    >>> run = af.simulate(x0, af.Softmax(), slow, until=10**12, record=10**9, watch=[WallClock(0.05)])
    >>> run.stopped.endswith("0.05 s of wall clock passed")
    True
    """

    seconds: float

    def __post_init__(self) -> None:
        number(self.seconds, "seconds", above=0.0)

    def begin(self, start: Start) -> None:
        self.deadline = time.monotonic() + self.seconds
        self.when = when(start.discrete)

    def stop(self, stretch: Stretch) -> tuple[int, str] | None:
        """Stop if time is up."""
        if time.monotonic() < self.deadline:
            return None
        return len(stretch.times), f"stopped at {self.when(stretch.after[0])}: {self.seconds:g} s of wall clock passed"


class Progress(Watcher):
    """Show the progress of this run at once, not after two seconds, in a terminal or a notebook; silent elsewhere.

    `attnflow.progress` says how to silence or to show the progress of all long work.

    >>> import attnflow as af
    >>> run = af.simulate([[1.0], [0.0]], af.Softmax(), af.Layers(gamma=0.5), until=9, watch=[Progress()])
    """


@dataclass
class Checkpoint(Watcher):
    """Say how often a run with a store writes a checkpoint: at the first stretch after `seconds` have passed.

    Without one, a store has a checkpoint every two seconds.

    >>> import tempfile, attnflow as af
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store, watch = f"{folder}/run.zarr", [Checkpoint(60)]
    ...     run = af.simulate([[1.0], [0.0]], af.Softmax(), af.Layers(gamma=0.5), 9, store=store, watch=watch)
    """

    seconds: float = 2.0

    def __post_init__(self) -> None:
        number(self.seconds, "seconds", least=0.0)

    def begin(self, start: Start) -> None:
        self.last = time.monotonic()

    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        now = time.monotonic()
        if now - self.last < self.seconds:
            return False
        self.last = now
        return True


def when(discrete: bool) -> Callable[[Any], str]:
    """Return how to speak of a time in this run.

    >>> when(True)(12), when(False)(0.25)
    ('step 12', 't = 0.25')
    >>> when(True)(10**25)
    'step 1e+25'
    """
    return (lambda t: f"step {int(t) if t < 2**63 else f'{t:.9g}'}") if discrete else (lambda t: f"t = {float(t):g}")
