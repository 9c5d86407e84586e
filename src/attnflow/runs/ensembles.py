"""Many small systems at once: one law, one motion, different starts and parameters."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core import progress
from attnflow.core.arrays import foreign, library
from attnflow.core.inputs import CONVERT, Array, InputError, cloud, mass_vector, reals, whole
from attnflow.core.threads import threads
from attnflow.laws import Heard, Hearing, Law, Sources, check_law
from attnflow.motions import Motion, check_motion
from attnflow.motions.motion import ABSOLUTE, SLOW_STEPS, end_of, lost
from attnflow.motions.normalisation import directions, no_direction, token_at_zero, token_through_zero
from attnflow.motions.random_steps import SAME, noise_of
from attnflow.motions.solvers import ensemble_flow
from attnflow.motions.sphere import lengths
from attnflow.runs.ensemble_results import Ensemble, changed, each_its_own
from attnflow.runs.recording import At, Geometric, Record, moments, rule
from attnflow.runs.watch import when
from attnflow.serialise import check_layers

# TOGETHER coordinates move together: their stages fit in the cache.
TOGETHER = 1 << 15
# RECORDED coordinates are recorded at once.
RECORDED = 1 << 21

Observe = Callable[[Array], ArrayLike]


def ensemble(
    tokens: ArrayLike,
    law: Law,
    motion: Motion,
    until: float,
    *,
    masses: ArrayLike | None = None,
    record: Record = None,
    observe: Observe | None = None,
    seed: int | Sequence[int] | None = None,
) -> Ensemble:
    """Let many small systems, tokens (b, n, d), move independently, block by block, on all cores.

    Parameters of the law and of the motion may be NumPy arrays (b,), one number for each system:
    ``Softmax(beta=betas)``; a list has one number for each layer instead, the same in all systems.
    Masses (n,) are the same in all. Under softmax whose parameters do not depend on time, all happens in one compiled
    loop, and flows take steps of their own in each system; otherwise some systems, about 2^15 coordinates, share their
    steps, which keep the error of every single one within the tolerance, not only their mean.

    `record` is a list of times or `watch.Geometric`, by default the first and the last. `observe(x)` maps states
    (k, n, d) to k rows, recorded instead of the tokens.

    In motions that draw random numbers, such as `Noisy`, each system draws from a seed of its own, whatever is beside
    it: ``found.seeds[k]``, with which `simulate` repeats system k up to rounding. A `seed` is one number, from which
    these are made, or a list of them, one for each system.

    Examples
    --------
    >>> import attnflow as af
    >>> x0 = np.stack([af.tokens.sphere(n=8, d=2, seed=s) for s in range(6)])
    >>> betas = np.array([1.0, 1.0, 4.0, 4.0, 9.0, 9.0])
    >>> found = ensemble(x0, af.Softmax(beta=betas), af.SphereFlow(), until=20.0, record=[10.0])
    >>> found.values.shape
    (3, 6, 8, 2)
    >>> one = af.simulate(x0[2], af.Softmax(beta=4.0), af.SphereFlow(), until=20.0)
    >>> bool(abs(found.final[2] - one.final).max() < 1e-7)
    True

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794), the
    phase diagram.
    """
    return _ensemble(tokens, law, motion, until, (masses, record, observe), Block.path, seed)


def independent(
    tokens: ArrayLike,
    law: Law,
    motion: Motion,
    until: float,
    *,
    masses: ArrayLike | None = None,
    record: Record = None,
    observe: Observe | None = None,
) -> Ensemble | None:
    """Return the ensemble if it moves in the compiled loop, where no system depends on those beside it; else None.

    Each system then has the same bits alone and in any ensemble. None may be due to a single system, as one whose
    tokens leave the range of float64.
    """
    try:
        return _ensemble(tokens, law, motion, until, (masses, record, observe), Block.compiled_path)
    except _NotCompiled:
        return None


class _NotCompiled(Exception):
    """A block has no compiled loop."""


def _ensemble(
    tokens: ArrayLike,
    law: Law,
    motion: Motion,
    until: float,
    options: tuple[ArrayLike | None, Record, Observe | None],
    path: Callable[..., Iterator[tuple[Array, int]]],
    seed: int | Sequence[int] | None = None,
) -> Ensemble:
    check_law(law)
    x, (masses, record, observe) = _systems(tokens), options
    weights, times = mass_vector(masses, x.shape[1]), _times(record, until, motion)
    check_layers(law, motion, float(times[-1]))
    seeds = _seeds(seed, len(x)) if motion.random else None
    motion.warn_if_endless(0, float(times[-1]))
    blocks = list(_blocks(law, motion, x, len(times), seeds))
    _part(blocks[0].law, np.zeros(1, dtype=np.int64)).check_order(blocks[0].start[0], masses=weights)

    def moved(block: Block, going: ensemble_flow.Going) -> tuple[Array, Array, Array | None, int]:
        rows, sizes, x, steps = [], [], block.start, 0
        for state, steps in path(block, times, weights, going):  # noqa: B007
            x = directions(state) if motion.keeps_radii else state
            rows.append(x if observe is None else _rows(observe, x))
            if motion.keeps_radii:
                sizes.append(lengths(state))
        return np.stack(rows), x.copy(), np.stack(sizes) if sizes else None, steps

    found = _on_all_cores(moved, blocks, motion)
    order = np.argsort(np.concatenate([block.members for block in blocks]))
    values = np.concatenate([rows for rows, *_ in found], axis=1)[:, order]
    final = np.concatenate([x for _, x, *_ in found])[order]
    sizes = [size for *_, size, _ in found if size is not None]
    most = max(steps for *_, steps in found)
    own: dict[str, Any] = {"seeds": seeds, "kept_radii": np.concatenate(sizes, axis=1)[:, order] if sizes else None}
    return Ensemble(times, values, final, most, law, motion, weights, observed=observe is not None, **own)


class _Abandoned(Exception):
    """The caller does not wait any more."""


def _on_all_cores(moved: Callable[..., Any], blocks: list[Block], motion: Motion) -> list[Any]:
    """Return moved(block, going) of every block; show how far they are, and give up within a moment if interrupted."""
    done, abandoned, slow = [0.0] * len(blocks), threading.Event(), threading.Event()
    sizes = [len(block.members) for block in blocks]

    def one(k: int) -> Any:
        def going(part: float, many_steps: bool) -> None:
            if abandoned.is_set():
                raise _Abandoned
            done[k] = part * sizes[k]
            if many_steps:
                slow.set()

        found = moved(blocks[k], going)
        done[k] = float(sizes[k])
        return found

    def noted() -> str | None:
        helps = getattr(motion, "helps", None)
        return f"some systems take very many short steps; {helps}, or give a looser rtol" if slow.is_set() else None

    pool = ThreadPoolExecutor(threads())
    try:
        tasks = [pool.submit(one, k) for k in range(len(blocks))]
        with progress.task("ensemble", sum(sizes)) as work:
            while (state := wait(tasks, progress.AGAIN, FIRST_EXCEPTION)).not_done:
                # An error is told at once: nobody needs the other blocks then.
                for task in tasks:
                    if task in state.done:
                        task.result()
                work.reach(sum(done), lambda: f"{sum(done):.0f} of {sum(sizes)} systems", notes=noted)
        return [task.result() for task in tasks]
    finally:
        abandoned.set()
        pool.shutdown(cancel_futures=True)


def _systems(tokens: ArrayLike) -> Array:
    if foreign(tokens):
        raise InputError(f"ensemble takes NumPy arrays alone, not those of {library(tokens)}: {CONVERT}")
    x = reals(tokens, "tokens are", "b systems of n rows of d numbers")
    if x.ndim != 3 or x.size == 0:
        raise InputError(f"tokens have shape {x.shape}, expected (b, n, d): stack the clouds of b systems")
    cloud(x.reshape(-1, x.shape[2]))
    return x


def _times(record: Record, until: float, motion: Motion) -> NDArray[Any]:
    """Return the times to record: the first, those asked for, and the last."""
    check_motion(motion)
    if not hasattr(motion, "step" if motion.discrete else "velocity") and not hasattr(motion, "random_step"):
        raise InputError(f"the motion is {motion!r}, expected one in layers or an integrated flow: use simulate")
    end, chosen = end_of(until, motion), rule(record)
    if chosen is not None and not isinstance(chosen, At | Geometric):
        raise InputError(f"record is {record!r}, expected a list of times, or Geometric(first, per_decade)")
    return moments(chosen, end, motion.discrete)


def _seeds(seed: Any, b: int) -> tuple[int, ...]:
    """Return a seed for each of b systems; those of the first ones are the same for every b."""
    if seed is None or isinstance(seed, int | float | np.number | str):
        first = secrets.randbits(128) if seed is None else whole(seed, "seed", least=0)
        return tuple(np.random.SeedSequence(first).generate_state(b, np.uint64).tolist())
    found = tuple(whole(one, "an entry of seed", least=0) for one in seed)
    if len(found) != b:
        raise InputError(f"seed holds {len(found)} numbers for {b} systems: give one number, or one for each")
    return found


def _rows(observe: Observe, state: Array) -> Array:
    try:
        seen = observe(state)
    except Exception as error:
        raise InputError(
            f"observe failed on systems of shape {state.shape} ({error}): it must return one row for each system"
        ) from error
    found = reals(seen, "what observe returns is", "one row for each system")
    if found.ndim == 0 or len(found) != len(state):
        raise InputError(f"observe returned shape {found.shape} for {len(state)} systems: return one row for each")
    return found


# Parameters


def _alike(law: Law, motion: Motion, b: int) -> Iterator[tuple[NDArray[np.int64], Law, Motion]]:
    """Return groups of systems that differ in what their law takes one by one alone, with their law and motion."""
    arrays = [(part, name, value) for part in (law, motion) for name, value in each_its_own(part).items()]
    for _, name, value in arrays:
        if len(value) != b:
            raise InputError(f"{name} holds {len(value)} numbers for {b} systems: give one for each")
    arrays = [(part, name, value) for part, name, value in arrays if part is motion or name not in law.each_system]
    if not arrays:
        yield np.arange(b), law, motion
        return
    kinds, group = np.unique(np.column_stack([value for *_, value in arrays]), axis=0, return_inverse=True)
    for k, kind in enumerate(kinds.tolist()):
        own = [(part, name, value) for (part, name, _), value in zip(arrays, kind, strict=True)]
        one_law, one_motion = (
            changed(part, {name: value for of, name, value in own if of is part}) for part in (law, motion)
        )
        yield np.flatnonzero(group.ravel() == k), one_law, one_motion


def _part(law: Law, members: NDArray[np.int64]) -> Law:
    """Return the law of some of the systems; that of one has one number for each parameter."""
    own = {name: value[members] for name, value in each_its_own(law).items() if name in law.each_system}
    some: Law = changed(law, {name: float(part[0]) if len(part) == 1 else part for name, part in own.items()})
    return some


@dataclass(frozen=True)
class Block:
    """Systems that move together: which they are, where they start, and how they move."""

    members: NDArray[np.int64]
    start: Array
    law: Law
    motion: Motion
    seeds: tuple[int, ...] = ()

    def path(
        self, times: NDArray[Any], masses: Array | None, going: ensemble_flow.Going
    ) -> Iterator[tuple[Array, int]]:
        """Yield the states at these times, and how many steps it took; `going` hears how far it is, and may stop it."""
        try:
            return self.compiled_path(times, masses, going)
        except _NotCompiled:
            hearing = ManyHearing(self.law, masses)
            if self.motion.random:
                return _random(self.start, hearing, self.motion, times, going, self.seeds)
            moved = _layers if self.motion.discrete else _flow
            return moved(self.start, hearing, self.motion, times, going)

    def compiled_path(
        self, times: NDArray[Any], masses: Array | None, going: ensemble_flow.Going
    ) -> Iterator[tuple[Array, int]]:
        """Do the same in the compiled loop alone."""
        compiled = ensemble_flow.paths(self.start, self.law, self.motion, masses, times, going)
        if compiled is None:
            raise _NotCompiled
        states, steps = compiled
        return ((state, steps) for state in states)


def _blocks(law: Law, motion: Motion, x: Array, times: int, seeds: tuple[int, ...] | None = None) -> Iterator[Block]:
    b, n, d = x.shape
    size = max(1, min(TOGETHER, RECORDED // times) // (n * d))
    for members, one_law, one_motion in _alike(law, motion, b):
        start = one_motion.prepare(x[members].reshape(-1, d), Hearing(_part(one_law, members[:1]))).reshape(-1, n, d)
        for first in range(0, len(members), size):
            part = slice(first, first + size)
            own = () if seeds is None else tuple(seeds[k] for k in members[part].tolist())
            yield Block(members[part], start[part], _part(one_law, members[part]), one_motion, own)


class ManyHearing(Hearing):
    """What many systems (b, n, d) hear at once: each token hears those of its own system."""

    def __call__(
        self, x: Array, t: float, *, sources: Array | None = None, values: Array | None = None, gain: float = 1.0
    ) -> Heard:
        y = x if sources is None else sources
        return self.law.listen_many(x, t, Sources(y, y if values is None else values, self.masses, gain, self.engine))

    def pull(self, x: Array, t: float) -> Heard:
        heard = self(x, t)
        return Heard(heard.mean - x, heard.log_total)


# Motions


def _layers(
    x: Array, hearing: Hearing, motion: Any, times: NDArray[Any], going: ensemble_flow.Going
) -> Iterator[tuple[Array, int]]:
    """Yield the states at these steps, and how many steps it took."""
    t = 0
    for end in times.tolist():
        while t < end:
            x, t = motion.step(hearing, x, t), t + 1
            _check(x, motion, hearing.law, when(True)(t))
            going(t / times[-1], False)
        yield x, t


def _check(x: Array, motion: Motion, law: Law, at: str) -> None:
    """Refuse tokens beyond the range of float64, and those at 0 that should have a direction."""
    if not np.isfinite(x).all():
        raise InputError(lost("a token", motion, law, x, at))
    if motion.keeps_radii and (i := token_at_zero(x)) is not None:
        raise InputError(no_direction(motion, i, at))


def _random(
    x: Array,
    hearing: Hearing,
    motion: Any,
    times: NDArray[Any],
    going: ensemble_flow.Going,
    seeds: tuple[int, ...],
) -> Iterator[tuple[Array, int]]:
    """Yield the states at these times, those of the last step before, and how many steps it took."""
    generators = [noise_of(seed) for seed in seeds]

    def draw(*shape: int) -> Array:
        return np.stack([rng.standard_normal(shape) for rng in generators])

    room, k, steps = SAME * motion.interval, 0, 0
    with np.errstate(over="ignore", invalid="ignore"):
        for steps, (t, after) in enumerate(motion.path(hearing, x, 0, float(times[-1]), draw), 1):
            _check(after, motion, hearing.law, when(motion.discrete)(t))
            while times[k] < t - room:
                yield x, steps - 1
                k += 1
            x = after
            going(t / times[-1], False)
    for _ in times[k:]:
        yield x, steps


def _flow(
    x: Array, hearing: Hearing, motion: Any, times: NDArray[Any], going: ensemble_flow.Going
) -> Iterator[tuple[Array, int]]:
    """Yield the states at these times, and how many steps it took."""
    from attnflow.motions.solvers.scipy_solver import Together

    change = float("inf") if motion.changes_at is None else float(motion.changes_at)

    def velocity(t: float, flat: Array) -> Array:
        return motion.velocity(hearing, flat.reshape(x.shape), min(t, latest)).ravel()

    def started(t: float, y: Array) -> Any:
        # Until the motion changes, and from then on: no step goes beyond.
        solver = Together(velocity, t, y.ravel(), min(end, change) if t < change else end, rtol=motion.rtol, atol=atol)
        solver.systems = len(x)
        return solver

    end, latest = float(times[-1]), float(np.nextafter(change, 0.0)) if change > 0 else np.inf
    sizes = np.maximum(np.abs(x).max(axis=(1, 2)), 1e-300)
    atol = motion.rtol * ABSOLUTE * np.repeat(sizes, x[0].size)
    solver, steps, k = started(0.0, x), 0, 1
    yield x, 0
    while k < len(times):
        # With a velocity that is not finite, a step of SciPy's solver would never end.
        finite, before = np.isfinite(solver.velocity).all(), (solver.t, solver.y.reshape(x.shape))
        with np.errstate(over="ignore", invalid="ignore"):
            if finite:
                solver.step()
        going(solver.t / times[-1], solver.t_bound - solver.t > SLOW_STEPS * solver.next_step)
        if not finite or solver.status == "failed":
            raise InputError(f"the integrator stopped at t = {solver.t:.6g}: {solver.trouble(motion, hearing.law)}")
        reached = motion.retract(solver.y.reshape(x.shape))
        if motion.keeps_radii:
            met = token_through_zero(before[1], reached, motion.rtol * sizes[:, None])
            if met is not None:
                t = before[0] + met[1] * (solver.t - before[0])
                raise InputError(no_direction(motion, met[0], f"t = {t:.6g}"))
        inside = None
        steps += 1
        while k < len(times) and times[k] <= solver.t:
            if times[k] < solver.t and inside is None:
                inside = solver.dense_output()
            there = times[k] == solver.t
            yield reached if there else motion.retract(inside(times[k]).reshape(x.shape)), steps  # type: ignore[misc]
            k += 1
        if motion.retracts:
            solver.y = reached.ravel().copy()
        if solver.t == change < end:
            latest = end
            solver = started(change, reached)
