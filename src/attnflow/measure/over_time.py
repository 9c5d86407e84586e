"""One measurement at one time, the same measurement at all recorded times of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, Generic, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.catalogue import has_parameters
from attnflow.core import progress
from attnflow.core.dask_arrays import chunked, chunked_cloud
from attnflow.core.inputs import LARGEST_CLOUD, Array, InputError, cloud, mass_vector, number
from attnflow.runs.ensemble_results import Ensemble
from attnflow.runs.trajectory import Trajectory

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class State(NamedTuple):
    """Tokens x (n, d) at a time t, with their masses (n,) if they differ."""

    x: Array
    t: float = 0
    masses: Array | None = None


class OverTime(Generic[R]):
    """A measurement at the T recorded times of a run.

    Item k is what was found at time k; an attribute is that attribute at all times, stacked with a leading axis T.

    >>> import attnflow as af
    >>> run = af.simulate([[0.0], [1.0]], af.Softmax(), af.Layers(gamma=0.5), until=3)
    >>> found = af.measure.clusters(run, tol=0.3)
    >>> found.count, found[0].sizes
    (array([2, 2, 2, 1]), array([1, 1]))
    """

    def __init__(self, results: Iterable[R]) -> None:
        self._results = list(results)

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[R]:
        return iter(self._results)

    @overload
    def __getitem__(self, k: int) -> R: ...
    @overload
    def __getitem__(self, k: slice) -> OverTime[R]: ...
    def __getitem__(self, k: int | slice) -> R | OverTime[R]:
        return OverTime(self._results[k]) if isinstance(k, slice) else self._results[k]

    def __getattr__(self, name: str) -> NDArray[Any]:
        # Copying and pickling ask for special names before there are results.
        if name.startswith("_") or not self._results or not hasattr(self._results[0], name):
            raise AttributeError(f"a measurement over time has no {name!r}")
        values = [getattr(result, name) for result in self._results]
        if len({np.shape(value) for value in values}) > 1:
            raise AttributeError(f"{name} differs in length from time to time: take that of one time, as in [0].{name}")
        return np.stack(values)

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._results[0]) if not name.startswith("_")] if self._results else []

    def __repr__(self) -> str:
        return f"<{len(self)} times: from {self[0]!r} to {self[-1]!r}>" if self._results else "<no times>"


class OverSystems(OverTime[R]):
    """A measurement of the b systems of an ensemble at one time; attributes are stacked with a leading axis b."""

    def __repr__(self) -> str:
        return f"<{len(self)} systems: from {self[0]!r} to {self[-1]!r}>"


def each_system(measurement: F) -> F:
    """Let a measurement that takes a run take an ensemble too: of all its systems, with leading axes (T, b).

    A law among the arguments may have parameters (b,), of which each system has its own.

    >>> import attnflow as af
    >>> x0 = np.array([[[0.0], [1.0]], [[0.0], [4.0]]])
    >>> found = af.ensemble(x0, af.Softmax(), af.Layers(gamma=0.5), until=3, record=[1])
    >>> af.measure.diameter(found).round(3)
    array([[1.   , 4.   ],
           [0.616, 3.   ],
           [0.173, 0.801]])
    >>> af.measure.clusters(found, tol=0.5)[-1].count
    array([1, 2])
    """

    @wraps(measurement)
    def of(*args: Any, **options: Any) -> Any:
        given = next((value for value in (*args, *options.values()) if isinstance(value, Ensemble)), None)
        if given is None:
            return measurement(*args, **options)

        def own(value: Any, k: int) -> Any:
            return given[k] if value is given else given.part(value, k) if has_parameters(value) else value

        found = [
            measurement(*(own(value, k) for value in args), **{name: own(value, k) for name, value in options.items()})
            for k in range(len(given))
        ]
        if isinstance(found[0], np.ndarray):
            return np.stack(found, axis=1)
        return OverTime([OverSystems(system[k] for system in found) for k in range(len(given.times))])

    return of  # type: ignore[return-value]


def measured(
    of: Callable[[State], R],
    x: ArrayLike | Trajectory,
    t: float = 0,
    masses: ArrayLike | None = None,
    *,
    seen: bool = False,
    attention: bool = False,
    in_chunks: Callable[[State], R] | None = None,
) -> R | OverTime[R]:
    """Return `of` the configuration x at time t, or of all states of a run, at its times and with its masses.

    With `seen` the states are those that the law of the run sees, otherwise those recorded. With `attention` they are
    those that some layer of the run hears: seen by the law, and without the state after the last layer of a motion
    that has one, as a `Transformer` does. Of a Dask array, or of a run in Dask, it is `in_chunks`, if there is such a
    function.
    """
    # Functions of the number of a layer may want it as it was given.
    number(t, "t")
    if not isinstance(x, Trajectory):
        if in_chunks is not None and chunked(x):
            if masses is not None:
                raise InputError("masses came with tokens in Dask, which all have mass one: leave them out")
            with progress.task("measure tokens in Dask", 1) as work:
                work.reach(None)
                return in_chunks(State(chunked_cloud(x), t))
        tokens = cloud(x)
        return of(State(tokens, t, mass_vector(masses, len(tokens))))
    if masses is not None or t != 0:
        given = "t" if masses is None else "masses"
        raise InputError(f"{given} came with a run, which has its own: leave it out, or measure one state of the run")
    lazily = in_chunks if chunked(x.tokens) else None
    run = x if lazily is not None else x.to_numpy()
    found = list[R]()
    times = run.times.tolist()[: heard_states(run) if attention else None]
    with progress.task("measure: state", len(times)) as work:
        for k, when in enumerate(times):
            work.reach(k)
            tokens = run.seen(k) if seen or attention else run.tokens[k]
            if lazily is not None:
                found.append(lazily(State(tokens, when, run.masses)))
                continue
            # Recorded tokens may be as small as they like, unlike those a user brings.
            if not np.abs(tokens).max() <= LARGEST_CLOUD:
                cloud(tokens, f"the tokens at time {when:g}")
            found.append(of(State(tokens, when, run.masses)))
    return OverTime(found)


def heard_states(run: Trajectory) -> int:
    """Return how many recorded states of a run some layer hears: all but those after the last layer, if there is one.

    >>> import attnflow as af
    >>> heard_states(af.simulate([[1.0], [2.0]], af.Transformer([af.Block(af.Softmax(), norm="none")] * 3)))
    3
    """
    end = None if run.motion is None else run.motion.own_end
    return len(run) if end is None else int(np.searchsorted(run.times, end))


def first_true(true: Callable[[Any], bool], low: Any, high: Any, part: float = 0.0) -> Any:
    """Bisect for the first step after `low`, or the time to this part of it, at which a statement true at `high` is so.

    >>> first_true(lambda t: t * t > 50, 0, 100), round(first_true(lambda t: t * t > 50, 0.0, 100.0, 1e-9), 6)
    (8, 7.071068)
    """
    whole = isinstance(low, int)
    while high - low > (1 if whole else part * high):
        middle = (low + high) // 2 if whole else low + (high - low) / 2
        low, high = (low, middle) if true(middle) else (middle, high)
    return high


def stacked(found: R | OverTime[R]) -> R | NDArray[Any]:
    """Return numbers or arrays over time as one array (T, ...), those of one configuration as they are."""
    return np.stack([np.asarray(value) for value in found]) if isinstance(found, OverTime) else found
