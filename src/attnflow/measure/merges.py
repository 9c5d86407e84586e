"""When clusters merge, with error bars from the solver, and the staircase that the energy climbs."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np

from attnflow.core import progress
from attnflow.core.blocks import row_blocks
from attnflow.core.inputs import Array, InputError, each_mass, number, number_at, shares, varies_in_time, whole
from attnflow.engines.dense import squared_distances
from attnflow.geometry.linkage import Labels, single_linkage
from attnflow.laws import Law
from attnflow.measure.by_name import number_of
from attnflow.measure.clusters import CLOSE, extent
from attnflow.measure.over_time import OverTime
from attnflow.motions import Motion, Stretch
from attnflow.motions.flows import TIGHTEST
from attnflow.runs.simulate import simulate
from attnflow.runs.trajectory import Trajectory
from attnflow.runs.watch import Start, Watcher

EPS = float(np.finfo(np.float64).eps)
# The error of a time is this many times what it changes when the run is repeated at tighter tolerances.
SAFETY = 2.0
# A start is known up to ROUNDINGS roundings.
ROUNDINGS = 64
# Runs are repeated with the tolerance divided, or multiplied, by FACTOR, and by its square.
FACTOR = 10.0


@dataclass(frozen=True)
class Merge:
    """Two clusters of these masses became one at a time, known up to an error; `left` clusters remain.

    Of layers and leaps the time is a step, a whole number.
    """

    time: float
    error: float
    sizes: tuple[float, float]
    left: int


class Change(NamedTuple):
    """From this time on clusters are others, with another height sum_q (n_q/n)^2; `parted` if a part left a cluster."""

    time: float
    height: float
    parted: bool


class Merges(OverTime[Merge]):
    """All merges of a run, in the order of time; an attribute is that of all merges, stacked.

    `splits` is how often a part has left a cluster in the whole run, which is not listed. `heights` are
    sum_q (n_q/n)^2, n_q the masses of the clusters and n that of all, before the first merge and after each. `changes`
    are all changes of the clusters in the whole run, the first of them its start.
    """

    def __init__(
        self, results: Iterable[Merge], heights: Sequence[float] = (), splits: int = 0, changes: Sequence[Change] = ()
    ) -> None:
        super().__init__(results)
        self.heights, self.splits, self.changes = np.asarray(heights, np.float64), splits, list(changes)

    def __getitem__(self, k: Any) -> Any:
        if not isinstance(k, slice):
            return self._results[k]
        chosen = range(len(self))[k]
        heights = self.heights[[chosen.start, *(1 + j for j in chosen)]] if self.heights.size else self.heights
        return Merges(self._results[k], heights.tolist(), self.splits, self.changes)

    def __repr__(self) -> str:
        lines = [f"t = {m.time:.10g} +- {m.error:.2g}: {m.sizes[0]:g} + {m.sizes[1]:g}, {m.left} left" for m in self]
        parted = [f"clusters parted {self.splits} times, which is not listed"] if self.splits > 1 else []
        parted = ["a cluster parted once, which is not listed"] if self.splits == 1 else parted
        return "\n".join((lines or ["<no merges>"]) + parted)


def merge_times(run: Trajectory, threshold: float | None = None) -> Merges:
    """Return when clusters of a run merge: one entry per merge, with `time` and `error`.

    On the sphere clusters are tokens joined by chains of inner products <x_i, x_j> > threshold (single linkage), .999
    by default; elsewhere by chains of distances of at most the threshold, by default a hundredth of the extent of the
    first state. `sizes` are the masses of the two that merge, and `left` the number of clusters afterwards. What is
    joined at the start has not merged. Clusters that part are not listed, but counted, by `merges.splits`; they may
    merge again.

    A flow, or a run of `Leaps`, is computed three times anew, and each merge located on the solver's dense output: at t
    with the tolerance it had, at t' with a tenth of it, from a start moved by 64 roundings, and at t'' with a hundredth
    of it. The distance at which tokens that have met become one mass changes likewise. As |t - t''| is the error of t
    but for that of t'', which is about a tenth of |t' - t''| or less,

        error = 2 (|t - t''| + |t' - t''|),

    at least the spacing of float64 at t; it is about twice the true error. Where the solver can do no better than the
    tolerance of the run, t' and t'' are those of ten and a hundred times it, and the error is the larger of |t - t'|
    and |t - t''| / 10. It is infinite if the merge does not happen in all three. An error as large as a tenth of its
    time says that rounding decides: a symmetric configuration would not merge at all.

    Of motions in layers the times are steps, as recorded, and the error is how much earlier it may have been: 0 where
    every step was recorded. Errors of leaps below half a step are 0.

    >>> import attnflow as af
    >>> x0 = af.tokens.sphere(n=4, d=2, seed=1)
    >>> run = af.simulate(x0, af.Softmax(beta=6.0), af.SphereFlow(), until=1e6)
    >>> merges = merge_times(run)
    >>> merges.time.round(3).tolist(), bool(merges.error.max() < 1e-4)
    ([3.536, 20.396, 5249.317], True)
    >>> merge_times(af.simulate([[1.0], [0.4], [-1.0]], af.Softmax(beta=5.0), af.Layers(gamma=0.1), until=2000))
    t = 35 +- 0: 1 + 1, 2 left
    t = 1948 +- 0: 2 + 1, 1 left

    References
    ----------
    Geshkovski, Koubbi, Polyanskiy, Rigollet, *Dynamic metastability in the self-attention model* (arXiv 2410.06833).
    """
    _repeatable(run)
    return _with_errors(run, [changes for (changes,) in _repeated(run, [_clusters(run, threshold)])])


@number_of(merge_times)
def _time_of(run: Trajectory, threshold: float | None = None, left: int = 1) -> float:
    """Return when the number of clusters first is at most `left`, NaN if that does not happen in the run."""
    most = whole(left, "left", least=1)
    _repeatable(run)
    (changes,) = _repeated(run, [_clusters(run, threshold)], most=1)[0]
    return next((float(time) for time, labels in changes if max(cast("tuple[int, ...]", labels)) < most), math.nan)


def _clusters(run: Trajectory, threshold: float | None) -> Reading:
    """Return what tells the clusters of a state, as the labels of tokens."""
    reach = _reach(run, threshold)
    return lambda x: tuple(single_linkage(x, reach).tolist())


def _with_errors(run: Trajectory, repeated: list[Changes]) -> Merges:
    """Return the merges of a run with their errors, given when its clusters changed in each repetition."""
    m = each_mass(run.masses, run.tokens.shape[1])
    first, *others = (_merged(changes, m) for changes in repeated)
    errors = _errors(run, [[merge.time for merge in merges] for merges in (first, *others)])
    found = [replace(merge, error=error) for merge, error in zip(first, errors, strict=True)]
    return Merges(found, first.heights.tolist(), first.splits, first.changes)


@dataclass(frozen=True)
class Plateau:
    """A time in which no clusters merge or part: from `start` to `end` the energy should rest at `predicted`.

    Half way it is `height`. `predicted` is sum_q (n_q / n)^2, n_q the masses of the clusters. Half way is meant in log
    time, which begins at 1, or at e^{-beta} in the clock of USA.
    """

    start: float
    end: float
    height: float
    predicted: float


@dataclass(frozen=True)
class Staircase:
    """The energy of a run in log time: `times` and `energy` (T,), `merges`, `plateaux`, `half_heights`.

    `heights` are those predicted, before the first merge and after each. Entry k of `half_heights` is when the energy
    climbs half way between the predicted heights before and after merge k, as (time, error): the last time before the
    merge, else the first after it, infinite if it never does. If clusters part and the energy does not fall that far
    before merge k, it is when they part.
    """

    times: Array
    energy: Array
    merges: Merges
    plateaux: list[Plateau]
    half_heights: list[tuple[float, float]]
    heights: Array


def staircase(run: Trajectory, threshold: float | None = None) -> Staircase:
    """Return how the energy F = n^{-2} sum_ij e^{-beta |x_i - x_j|^2 / 2} of a run climbs.

    On the sphere the exponent is beta (<x_i, x_j> - 1), and F grows in time. At large beta it rests at
    sum_q (n_q/n)^2 while clusters of masses n_q rest, for times exponential in beta, and a merge of masses a and b adds
    2 a b / n^2. Errors, and the threshold, are those of `merge_times`. The first plateau begins when the run does.
    Where clusters part F falls, and a lower plateau begins.

    >>> import attnflow as af
    >>> x0 = af.tokens.sphere(n=4, d=2, seed=3)
    >>> stairs = staircase(af.simulate(x0, af.Softmax(beta=12.0), af.SphereFlow(), until=1e12))
    >>> [(round(p.height, 3), p.predicted) for p in stairs.plateaux]
    [(0.494, 0.375), (0.5, 0.5), (1.0, 1.0)]

    References
    ----------
    Geshkovski, Koubbi, Polyanskiy, Rigollet, *Dynamic metastability in the self-attention model* (arXiv 2410.06833).
    """
    if getattr(getattr(run, "motion", None), "V", None) is not None:
        raise InputError("this run has a value matrix V, but the staircase is that of V = I: leave V out")
    _repeatable(run)
    clusters, F, m = _clusters(run, threshold), _energy(run), each_mass(run.masses, run.tokens.shape[1])
    energies = np.empty(len(run))
    # The heights that are looked for follow from the merges; the repetitions then look for both at once.
    ((changes,),) = _repeated(run, [clusters], most=1)
    expected = _merged(changes, m)
    levels = expected.heights[1:] - [a * b / m.sum() ** 2 for a, b in (merge.sizes for merge in expected)]
    both = _repeated(run, [clusters, lambda x: tuple((levels <= F(x)).tolist())])
    merges = _with_errors(run, [joined for joined, _ in both])
    repeated = [_climbed(passing, _merged(joined, m), len(levels)) for joined, passing in both]
    with progress.task("staircase: state", len(run)) as work:
        for k, x in enumerate(run.tokens):
            work.reach(k)
            energies[k] = F(x)
    halves = list(zip(repeated[0], _errors(run, repeated), strict=True))
    times = np.asarray(run.times, np.float64)
    return Staircase(times, energies, merges, plateaux(run, merges), halves, merges.heights)


def plateaux(run: Trajectory, merges: Merges) -> list[Plateau]:
    """Return the times between changes of clusters, with the energy half way and what is predicted."""
    F = _energy(run)
    when = [float(run.times[0]), *(change.time for change in merges.changes[1:]), float(run.times[-1])]
    unit = 1.0 if getattr(run.motion, "normalized", True) else float(np.exp(-_softmax(run)[1]))
    whole = run.motion is not None and run.motion.discrete
    found = list[Plateau]()
    for (a, b), (_, height, _) in zip(pairwise(when), merges.changes, strict=True):
        middle = math.sqrt(max(a, min(unit, b))) * math.sqrt(b)
        if b > a:
            found.append(Plateau(a, b, F(run.at(int(middle) if whole else middle)), height))
    return found


def _energy(run: Trajectory) -> Callable[[Array], float]:
    """Return F of a state."""
    (law, beta), share = _softmax(run), shares(run.masses, run.tokens.shape[1])

    def pairs(x: Array) -> float:
        blocks = row_blocks(len(x), len(x))
        return float(sum(share[rows] @ np.exp(-beta / 2 * squared_distances(x[rows], x)) @ share for rows in blocks))

    def F(x: Array) -> float:
        log_total = law.hear(x, masses=share).log_total
        assert log_total is not None
        return float(share @ np.exp(log_total - beta))

    return F if _on_sphere(run) else pairs


def _softmax(run: Trajectory) -> tuple[Law, float]:
    found = None if run.law is None else run.law.exponents
    if found is None or not found.B is found.b is None or varies_in_time(found.beta):
        raise InputError("this run has no staircase, which needs Softmax with a constant beta and without B: use that")
    assert run.law is not None
    return run.law, number_at(found.beta, 0, "beta")


def _on_sphere(run: Trajectory) -> bool:
    """Say whether tokens stay on the unit sphere."""
    return run.motion is not None and run.motion.surface == "sphere"


def _repeatable(run: Any) -> None:
    if not isinstance(run, Trajectory):
        raise InputError(f"run is of type {type(run).__name__}, expected what simulate returned")
    run.to_numpy()  # refuses tokens in Dask
    if len(run) < 2:
        raise InputError(f"this run has but its first state ({run.stopped}): give one that moves")
    if run.law is None or run.motion is None:
        raise InputError("this run was loaded without its law or motion, so it cannot be repeated: run it again")
    if run.motion.rtol is None and not (run.motion.discrete and not run.motion.random):
        raise InputError(
            f"the motion is {run.motion!r}, expected layers, leaps or an integrated flow: use Layers or SphereFlow"
        )


def _reach(run: Trajectory, threshold: float | None) -> float:
    """Return the distance at which tokens are joined: on the sphere, that of vectors with this inner product."""
    if not _on_sphere(run):
        start = run.tokens[0]
        return CLOSE * extent(start, start) if threshold is None else number(threshold, "threshold", above=0.0)
    least = number(0.999 if threshold is None else threshold, "threshold", above=-1.0)
    if least > 1 - 1e-12:
        raise InputError(f"threshold is {least:g}, expected an inner product below 1: give one such as 0.999")
    return float(np.sqrt(2 * (1 - least)))


# A reading of a state: what clusters there are, how many heights the energy has passed.
Reading = Callable[[Array], Hashable]
Changes = list[tuple[float, Hashable]]


def _repeated(run: Trajectory, readings: Sequence[Reading], most: int | None = None) -> list[list[Changes]]:
    """Return when each reading changes in the run, and in runs at other tolerances; of these runs the first `most`."""
    assert run.law is not None
    assert run.motion is not None
    if run.motion.rtol is None:
        watchers = [_Changing(reading) for reading in readings]
        for watcher in watchers:
            watcher.begin(Start(run.times[0], run.tokens[0], run.times[-1], True, run.tokens[0]))
        with progress.task("merge_times: state", len(run)) as work:
            for k in range(1, len(run)):
                work.reach(k)
                one = slice(k, k + 1)
                for watcher in watchers:
                    watcher.see(Stretch((run.times[k - 1], run.tokens[k - 1]), run.times[one], run.tokens[one]))
        return [[watcher.found for watcher in watchers]]
    found, variants = list[list[Changes]](), _variants(run.tokens[0], run.motion)[:most]
    with progress.task("merge_times: run", len(variants)) as work:
        for start, motion in variants:
            work.reach(len(found), f"{1 + len(found)} of {len(variants)}")
            watchers, until = [_Changing(reading) for reading in readings], run.times.tolist()[-1]
            options: dict[str, Any] = {"masses": run.masses, "engine": run.about["engine"]}
            simulate(start, run.law, motion, until, record=[until], watch=watchers, **options)
            found.append([watcher.found for watcher in watchers])
    return found


def _variants(x: Array, motion: Any) -> list[tuple[Array, Motion]]:
    """Return start and motion as they are, and twice at other tolerances: tighter ones if the solver knows any."""
    factor = 1 / FACTOR if _improves(motion) else FACTOR
    others = [motion.with_rtol(motion.rtol * factor**k) for k in (1, 2)]
    aside = np.random.default_rng(0).standard_normal(x.shape)
    aside *= ROUNDINGS * EPS * np.abs(x).max() / np.linalg.norm(aside, axis=1, keepdims=True)
    moved = motion.retract(x + aside) if getattr(motion, "retracts", False) else x + aside
    return [(x, motion), (moved, others[0]), (x, others[1])]


def _improves(motion: Any) -> bool:
    """Say whether the solver can repeat a run at a hundredth of its tolerance."""
    return bool(motion.rtol / FACTOR**2 >= TIGHTEST)


class _Changing(Watcher):
    """Find when a reading of the state changes, on the dense output of the solver."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    def begin(self, start: Start) -> None:
        self.found: Changes = [(start.t, self.reading(start.x))]

    def see(self, stretch: Stretch) -> None:
        low = stretch.before[0]
        for t, x in zip(stretch.times.tolist(), stretch.tokens, strict=True):
            last = self.reading(x)
            while last != self.found[-1][1]:
                low, reading = self._first_change(low, t, last, stretch)
                self.found.append((low, reading))
            low = t

    def _first_change(self, low: float, high: float, last: Hashable, stretch: Stretch) -> tuple[float, Hashable]:
        """Bisect for the first time after `low` with another reading than the newest, given that at `high`."""
        while stretch.between is not None and low < (middle := _middle(low, high)) < high:
            reading = self.reading(stretch.between(middle))
            if reading == self.found[-1][1]:
                low = middle
            else:
                high, last = middle, reading
        return high, last


def _middle(low: float, high: float) -> float:
    """Return the middle of two times, or of two steps: of whole numbers beyond 2**53 too."""
    return (low + high) // 2 if isinstance(low, int) else low + (high - low) / 2


def _merged(changes: Changes, m: Array) -> Merges:
    """Return the merges among changes of clusters, their errors not yet known."""
    merges, splits = list[Merge](), 0
    heights = [_height(np.array(changes[0][1]), m)]
    seen = [Change(changes[0][0], heights[0], False)]
    for (_, before), (t, after) in pairwise(changes):
        together = list[tuple[float, float]]()
        old: Labels = np.array(before)
        new: Labels = np.array(after)
        # What was together before, and is so after: clusters part first, and then merge.
        pieces = np.unique(old * len(m) + new, return_inverse=True)[1].ravel()
        parted = int(pieces.max() - old.max())
        splits, height = splits + parted, _height(pieces, m)
        for cluster in range(int(new.max()) + 1):
            parts = sorted(float(m[(new == cluster) & (old == k)].sum()) for k in np.unique(old[new == cluster]))
            whole = parts.pop()
            while parts:
                part = parts.pop()
                together.append((whole, part))
                whole += part
        for k, (a, b) in enumerate(together):
            height += 2 * a * b / m.sum() ** 2
            merges.append(Merge(t, np.nan, (a, b), int(new.max()) + len(together) - k))
            heights.append(height)
        seen.append(Change(t, float(height), parted > 0))
    return Merges(merges, heights, splits, seen)


def _height(labels: Labels, m: Array) -> float:
    """Return sum_q (n_q/n)^2 of clusters."""
    return float((np.bincount(labels, weights=m) ** 2).sum() / m.sum() ** 2)


def _climbed(passing: Changes, merges: Merges, count: int) -> list[float]:
    """Return when the energy climbs to each level, given when it is above which.

    A level may be passed long before clusters part and merge again, so that the last time before the merge is meant.
    """
    when = list[float]()
    for k in range(count):
        merge = merges[k].time if k < len(merges) else np.inf
        above = [(t, isinstance(passed, tuple) and passed[k]) for t, passed in passing]
        rises = [t for (_, before), (t, after) in pairwise([(0, False), *above]) if after and not before]
        if [after for t, after in above if t <= merge][-1]:
            parted = [change.time for change in merges.changes if change.parted and change.time < merge]
            when.append(max([t for t in rises if t <= merge][-1:] + parted[-1:]))
        else:
            when.append(min((t for t in rises if t > merge), default=np.inf))
    return when


def _errors(run: Trajectory, repeated: list[list[float]]) -> list[float]:
    """Return the error of each time of the run, from those of the runs at other tolerances."""
    times, others = repeated[0], repeated[1:]
    if not others:
        gaps = np.diff(run.times, prepend=run.times[0])
        return [float(max(gaps[np.searchsorted(run.times, t)] - 1, 0)) if t < np.inf else np.inf for t in times]
    one, two = ([*other, *[np.inf] * (len(times) - len(other))] for other in others)
    errors = [max(_error(t, one[k], two[k], _improves(run.motion)), 4 * EPS * t) for k, t in enumerate(times)]
    whole = run.motion is not None and run.motion.discrete
    return [0.0 if whole and error < 0.5 else float(error) for error in errors]


def _error(t: float, one: float, two: float, improves: bool) -> float:
    """Return the error of a time t, given those at a tenth and a hundredth of its tolerance, or at ten and a hundred.

    >>> round(_error(1.0, 1.001, 1.0012, True), 9), round(_error(1.0, 1.001, 1.02, False), 9)
    (0.0028, 0.002)
    >>> _error(1.0, np.inf, 1.0, True)
    inf
    """
    if not (math.isfinite(one) and math.isfinite(two)):
        return float(np.inf)
    return SAFETY * (abs(t - two) + abs(one - two)) if improves else max(abs(t - one), abs(t - two) / FACTOR)
