"""Watchers of the loop: recording, stopping, progress, checkpoints.

Give them to `simulate` as ``watch=[...]``; recording has a keyword of its own, ``record=``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array, InputError, number, quoted, reals, whole
from attnflow.geometry.linkage import single_linkage
from attnflow.motions import Stretch

# A recording of every step goes over to every second step, then every fourth, each time it has grown by this.
RECORD_BYTES = 1 << 30


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
    """Someone who looks at a run.

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
        number(at_most, "at_most", least=1)
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
        """Look at the clock."""
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
        """Look at the clock."""
        self.last = time.monotonic()

    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        now = time.monotonic()
        if now - self.last < self.seconds:
            return False
        self.last = now
        return True


# What is recorded


@dataclass(frozen=True)
class Every:
    """Record every k-th step (layers), accepted step (flows) or move (chains).

    >>> import attnflow as af
    >>> af.simulate([[1.0], [0.0]], af.Softmax(), af.Layers(gamma=0.5), until=7, record=Every(3)).times
    array([0, 3, 6, 7])
    """

    k: int = 1

    def __post_init__(self) -> None:
        whole(self.k, "record", least=1)


@dataclass(frozen=True)
class At:
    """Record at the given times: whole numbers for layers and chains, any times for flows, which interpolate.

    Times are float64: of whole numbers beyond 2**53 the nearest float64 is recorded.

    >>> import attnflow as af
    >>> af.simulate([[1.0], [0.0]], af.Softmax(), af.Flow(), until=1.0, record=At((0.25, 0.5))).times
    array([0.  , 0.25, 0.5 , 1.  ])
    """

    times: tuple[float, ...]

    def chosen(self, until: float, discrete: bool) -> NDArray[Any]:
        """Return the times, sorted and checked."""
        times = np.unique(np.asarray(self.times, dtype=np.float64))
        if not np.isfinite(times).all() or times.size == 0 or times[0] < 0 or times[-1] > until:
            raise InputError(f"record holds a time outside [0, {until:g}]: give times of the run")
        if discrete and not (times == np.floor(times)).all():
            raise InputError("record holds a time that is not whole: layers are counted, give whole numbers")
        return counted(times, until) if discrete else times


@dataclass(frozen=True)
class Geometric:
    """Record at times growing geometrically from `first`, `per_decade` of them per decade; whole numbers for layers.

    >>> import attnflow as af
    >>> geometric = Geometric(first=1, per_decade=2)
    >>> af.simulate([[1.0], [0.0]], af.Softmax(), af.Layers(gamma=0.5), until=50, record=geometric).times
    array([ 0,  1,  3, 10, 32, 50])
    """

    first: float = 1.0
    per_decade: int = 20

    def __post_init__(self) -> None:
        number(self.first, "first", above=0.0)
        number(self.per_decade, "per_decade", least=1)

    def chosen(self, until: float, discrete: bool) -> NDArray[Any]:
        """Return the times up to `until`."""
        decades = math.log10(until / self.first)
        times = self.first * 10 ** (np.arange(max(0, math.floor(decades * self.per_decade) + 1)) / self.per_decade)
        times = np.unique(np.clip(np.round(times) if discrete else times, 0, until))
        return counted(times, until) if discrete else times


def counted(times: Array, until: float) -> NDArray[Any]:
    """Return whole times up to `until` as int64, or as Python integers if some need it.

    >>> counted(np.array([1.0, 1e25]), 10**25)
    array([1, 10000000000000000000000000], dtype=object)
    """
    return np.array([min(int(t), int(until)) for t in times.tolist()], np.int64 if until < 2**63 else object)


Rule = Every | At | Geometric
Record = int | float | Sequence[float] | NDArray[Any] | Rule | None


def rule(record: Record) -> Rule | None:
    """Return the rule that the keyword `record` of `simulate` stands for; None for every step within a budget."""
    if record is None or isinstance(record, Every | At | Geometric):
        return record
    if isinstance(record, int | float | np.number):
        return Every(whole(record, "record", least=1))
    try:
        times = reals(record, "record is", "a list of times")
        if times.ndim != 1:
            raise ValueError
        return At(tuple(times.tolist()))
    except (TypeError, ValueError):
        raise InputError(
            f"record is {quoted(record)}, expected a whole number of steps, a list of times, or "
            "Geometric(first, per_decade)"
        ) from None


class Recording(Protocol):
    """Where records go, and where an interrupted run goes on from: memory or a store."""

    def reserve(self, count: int) -> None:
        """Expect `count` records."""

    def append(self, times: NDArray[Any], tokens: Array) -> None:
        """Add records."""

    def remember(
        self, t: float, x: Array, state: Callable[[], dict[str, Any]], notes: Callable[[], dict[str, Any]]
    ) -> None:
        """Keep in mind all that is needed to go on from here, whenever the run is to end."""

    def checkpoint(self) -> None:
        """Write down what was last kept in mind."""

    def resume(self) -> tuple[Any, Array, dict[str, Any], dict[str, Any]] | None:
        """Return (t, x, state, notes) of the last checkpoint, None to start anew."""


class Recorder(Watcher):
    """Choose what is recorded and pass it on; the first and the last state always are."""

    def __init__(self, record: Record, recording: Recording) -> None:
        self.rule, self.recording = rule(record), recording
        self.stride = self.rule.k if isinstance(self.rule, Every) else 1
        self.seen, self.room = 0, 0
        self.last: float | None = None

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from the state of a checkpoint."""
        self.stride, self.seen, self.room, self.last = (state[k] for k in ("stride", "seen", "room", "last"))

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint must hold to go on recording."""
        return {"stride": self.stride, "seen": self.seen, "room": self.room, "last": self.last}

    def begin(self, start: Start) -> None:
        """Record the first state, unless the run goes on after an interruption."""
        self.budget = max(2, RECORD_BYTES // start.x.nbytes)
        if self.room == 0:
            self.room = self.budget
        self.times = self.rule.chosen(start.until, start.discrete) if isinstance(self.rule, At | Geometric) else None
        if self.times is not None or start.discrete:
            expected = int(start.until) // self.stride if self.times is None else len(self.times)
            self.recording.reserve(2 + min(expected, self.budget))
        if self.last is None:
            self._add(np.array([start.t]), start.x[None])
        self.newest = (start.t, start.x)

    def see(self, stretch: Stretch) -> None:
        """Record what the rule picks from this stretch."""
        self.newest = stretch.after
        if len(stretch.times) == 0:
            return
        if self.times is None:
            self._strided(stretch)
        else:
            t0, t1 = stretch.before[0], stretch.times[-1]
            inside = self.times[(self.times > t0) & (self.times <= t1)]
            if stretch.between is None:
                at = np.searchsorted(stretch.times, inside)
                self._add(stretch.times[at], stretch.tokens[at])
            elif len(inside):
                self._add(inside, np.stack([stretch.between(t) for t in inside.tolist()]))

    def end(self) -> None:
        """Record the last state."""
        t, x = self.newest
        if self.last != t:
            self._add(np.array([t]), x[None])

    def _strided(self, stretch: Stretch) -> None:
        position, count = 0, len(stretch.times)
        while position < count:
            ahead = self.seen + 1 + np.arange(count - position)
            picks = np.flatnonzero(ahead % self.stride == 0)
            if self.rule is None:
                picks = picks[: self.room]
            used = count - position if self.rule is not None or len(picks) < self.room else int(picks[-1]) + 1
            kept = slice(position, position + used) if self.stride == 1 else position + picks
            self._add(stretch.times[kept], stretch.tokens[kept])
            position += used
            self.seen += used
            if self.rule is None:
                self.room -= len(picks)
                if self.room == 0:
                    self.stride, self.room = 2 * self.stride, self.budget

    def _add(self, times: NDArray[Any], tokens: Array) -> None:
        if len(times):
            self.recording.append(times, tokens)
            self.last = times.item(-1)


def when(discrete: bool) -> Callable[[Any], str]:
    """Return how to speak of a time in this run.

    >>> when(True)(12), when(False)(0.25)
    ('step 12', 't = 0.25')
    >>> when(True)(10**25)
    'step 1e+25'
    """
    return (lambda t: f"step {int(t) if t < 2**63 else f'{t:.9g}'}") if discrete else (lambda t: f"t = {float(t):g}")
