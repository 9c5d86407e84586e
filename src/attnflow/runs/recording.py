"""What a run keeps: the rule that picks states, thinning, the first and the last state; and where records go.

All run loops record by this file. `simulate` gives its stretches to a `Recorder`, those of layers, flows, leaps and
chains alike; so does the loop for arrays of other libraries. Ensembles, compiled or not, stop at `moments`. The
explorer records with a `Recorder` too, and thins its film with `Thinning`. Claims that replay a run in exact arithmetic
look at every step, so that they pick nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array, InputError, number, quoted, reals, whole
from attnflow.motions import Stretch
from attnflow.runs.watch import Start, Watcher

# A recording of every step goes over to every second step, then every fourth, each time it has grown by this.
RECORD_BYTES = 1 << 30


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


def moments(chosen: At | Geometric | None, until: float, discrete: bool) -> NDArray[Any]:
    """Return the times of a rule between the first and the last, which are always recorded.

    >>> moments(At((2.0,)), 5.0, discrete=True)
    array([0, 2, 5])
    """
    if discrete and until >= 2**63:
        raise InputError(f"until is {until:.3g}, but these steps are counted in int64: give less than 2**63")
    inside = np.empty(0) if chosen is None else chosen.chosen(until, discrete)
    times = np.unique(np.concatenate([[0.0], inside, [until]]))
    return times.astype(np.int64) if discrete else times


class Thinning:
    """Which of the states that come are kept: every stride-th.

    If it `doubles`, the stride does so each time `budget` states have been kept. `seen` states have come already.

    >>> thinning, letters = Thinning(budget=3, doubles=True), "abcdefgh"
    >>> [letters[part] for part in thinning.picks(8)]
    ['abc', 'dfh']
    """

    def __init__(self, stride: int = 1, budget: int = 0, *, doubles: bool = False, seen: int = 0) -> None:
        self.stride, self.budget, self.doubles, self.seen = stride, budget, doubles, seen
        self.room = budget

    def picks(self, count: int) -> list[slice]:
        """Return which of the next `count` states are kept."""
        found, position = [], 0
        while position < count:
            kept = range(position + -(self.seen + 1) % self.stride, count, self.stride)
            full = self.doubles and len(kept) >= self.room
            if full:
                kept = kept[: self.room]
            end = kept[-1] + 1 if full else count
            self.seen += end - position
            position = end
            found.append(slice(kept.start, kept.stop, kept.step))
            if full:
                self.stride, self.room = 2 * self.stride, self.budget
            elif self.doubles:
                self.room -= len(kept)
        return found

    def halve(self, *kept: list[Any]) -> None:
        """Keep every second of what was kept, and from now on every second of what comes.

        >>> thinning, letters = Thinning(), list("abcde")
        >>> thinning.halve(letters)
        >>> letters, thinning.stride
        (['a', 'c', 'e'], 2)
        """
        self.stride *= 2
        for one in kept:
            del one[1::2]


class Recording(ABC):
    """Where records go, and where an interrupted run goes on from: memory or a store.

    One that ends with the process has nothing to go on from, and writes `append` alone.
    """

    def reserve(self, count: int) -> None:
        """Expect `count` records."""

    @abstractmethod
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
        return None

    def finish(self, **results: Any) -> None:
        """Write how the run ended."""

    def close(self) -> None:
        """Let others write."""


class MemoryRecording(Recording):
    """Records kept in memory."""

    finished: dict[str, Any] | None = None

    def __init__(self) -> None:
        self.count, self.room = 0, 1
        self.times: NDArray[Any] | None = None
        self.tokens: Array | None = None

    def reserve(self, count: int) -> None:
        """Expect `count` records; memory is taken only as they come."""
        self.room = max(self.room, count)

    def append(self, times: NDArray[Any], tokens: Array) -> None:
        end = self.count + len(times)
        if self.times is None or self.tokens is None or end > len(self.times):
            self._grow(max(end, self.room), times, tokens)
            self.room = 2 * max(end, self.room)
        elif times.dtype == object and self.times.dtype != object:
            # Times beyond int64 are Python integers; such runs move seldom, whatever was reserved.
            self._grow(end, times, tokens)
            self.room = 2 * end
        assert self.times is not None
        assert self.tokens is not None
        self.times[self.count : end], self.tokens[self.count : end] = times, tokens
        self.count = end

    def _grow(self, capacity: int, times: NDArray[Any], tokens: Array) -> None:
        old = self.arrays() if self.count else None
        kind = times.dtype if old is None else np.result_type(old[0], times)
        self.times, self.tokens = np.empty(capacity, kind), np.empty((capacity, *tokens.shape[1:]))
        if old is not None:
            self.times[: self.count], self.tokens[: self.count] = old

    def arrays(self) -> tuple[NDArray[Any], Array]:
        """Return all times and tokens."""
        assert self.times is not None
        assert self.tokens is not None
        return self.times[: self.count], self.tokens[: self.count]


class Recorder(Watcher):
    """Choose what is recorded and pass it on; the first and the last state always are."""

    def __init__(self, record: Record, recording: Recording) -> None:
        self.rule, self.recording = rule(record), recording
        self.thinning = Thinning(self.rule.k if isinstance(self.rule, Every) else 1, doubles=self.rule is None)
        self.last: float | None = None

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from the state of a checkpoint."""
        thinning = self.thinning
        thinning.stride, thinning.seen, thinning.room, self.last = (
            state[k] for k in ("stride", "seen", "room", "last")
        )

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint must hold to go on recording."""
        thinning = self.thinning
        return {"stride": thinning.stride, "seen": thinning.seen, "room": thinning.room, "last": self.last}

    def begin(self, start: Start) -> None:
        """Record the first state, unless the run goes on after an interruption."""
        thinning = self.thinning
        thinning.budget = max(2, RECORD_BYTES // (math.prod(start.x.shape) * start.x.dtype.itemsize))
        thinning.room = thinning.room or thinning.budget
        self.times = self.rule.chosen(start.until, start.discrete) if isinstance(self.rule, At | Geometric) else None
        if self.times is not None or start.discrete:
            expected = int(start.until) // thinning.stride if self.times is None else len(self.times)
            self.recording.reserve(2 + min(expected, thinning.budget))
        if self.last is None:
            self._add_one(start.t, start.x)
        self.newest = (start.t, start.x)

    def see(self, stretch: Stretch) -> None:
        """Record what the rule picks from this stretch."""
        if len(stretch.times):
            self.take(stretch.before[0], stretch.times, stretch.tokens, stretch.between)

    def take(
        self, before: float, times: NDArray[Any], tokens: Any, between: Callable[[float], Array] | None = None
    ) -> None:
        """Record what the rule picks from these states, at least one, after the time `before`."""
        self.newest = (times[-1], tokens[-1])
        if self.times is None:
            for kept in self.thinning.picks(len(times)):
                self._add(times[kept], tokens[kept])
            return
        inside = self.times[(self.times > before) & (self.times <= times[-1])]
        if between is None:
            at = np.searchsorted(times, inside)
            # The loop for arrays of other libraries gives a list of one state.
            kept = slice(len(at)) if len(times) == 1 else at
            self._add(times[kept], tokens[kept])
        elif len(inside):
            self._add(inside, np.stack([between(t) for t in inside.tolist()]))

    def end(self) -> None:
        """Record the last state."""
        if self.last != self.newest[0]:
            self._add_one(*self.newest)

    def _add_one(self, t: float, x: Any) -> None:
        # A state of another library stays the array it is, so that derivatives do not pass through one more operation.
        self._add(np.array([t]), x[None] if isinstance(x, np.ndarray) else [x])

    def _add(self, times: NDArray[Any], tokens: Any) -> None:
        if len(times):
            self.recording.append(times, tokens)
            self.last = times.item(-1)
