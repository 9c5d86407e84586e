"""The one loop: tokens listen, tokens move, watchers look."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attnflow import engines
from attnflow.core import progress
from attnflow.core.arrays import foreign, library
from attnflow.core.dask_arrays import chunked
from attnflow.core.inputs import CONVERT, Array, InputError, any_cloud, location, mass_vector, whole
from attnflow.laws import Hearing, Law, check_law
from attnflow.motions import Motion, Stretch, check_motion
from attnflow.motions.motion import check_stepper, end_of, given_or_own, lost
from attnflow.motions.normalisation import directions, no_direction, token_at_zero
from attnflow.motions.sphere import lengths
from attnflow.runs.dask_arrays import simulate_chunks
from attnflow.runs.foreign_arrays import run_layers
from attnflow.runs.recording import MemoryRecording, Record, Recorder, rule
from attnflow.runs.store import Store
from attnflow.runs.trajectory import Trajectory
from attnflow.runs.watch import Checkpoint, Progress, Start, Watcher, when
from attnflow.serialise import check_layers, describe, varying


def simulate(
    tokens: ArrayLike | Any,
    law: Law | Motion | None = None,
    motion: Motion | None = None,
    until: float | None = None,
    *,
    masses: ArrayLike | Any = None,
    seed: int | None = None,
    record: Record = None,
    watch: Sequence[Watcher] = (),
    store: str | Path | None = None,
    engine: str = "auto",
    precision: str = "double",
) -> Trajectory:
    """Let tokens move under a law of attention until a time, or until a watcher stops them.

    Parameters
    ----------
    tokens : (n, d)
        Where the tokens start. Arrays of torch, JAX or CuPy move in `Layers`, `Residual` and `SphereLayers` as such: on
        their device, in their precision, open to derivatives; such runs take no watchers, store, engine or precision. A
        Dask array (see ``chunks`` of `tokens.gaussian`) moves in these motions too, in chunks of rows, under `Softmax`
        and `Hardmax` in up to 3 dimensions: on the scheduler that Dask has, in this process or on a cluster. A worker
        holds a few chunks for each of its threads. With `store` each step is on disk, and nothing else is in memory;
        without, all recorded states stay in the memory of the workers. Such runs take no masses, watchers, seed or
        engine.
    law
        Who listens to whom, such as `Softmax`: ``attnflow.catalogue.entries("law")`` and the page of models have all.
    motion
        How tokens move, in steps such as `Layers` or in continuous time such as `Flow`: likewise "motion". A
        `Transformer` brings its own law: ``simulate(tokens, transformer)``.
    until
        A whole number of steps, or a time. A transformer has its own, the number of its layers.
    masses : (n,), optional
        Positive masses: a token of mass m is heard like m tokens at its place.
    seed
        For motions that draw random numbers. Without one they draw a seed too: it is `run.seed`.
    record
        k for every k-th step (flows: accepted step; chains: move; leaps: leap or step), a list of times, or
        `watch.Geometric`. By default every one; each time the recording has grown by 1 GiB the stride doubles. First
        and last state are always kept.
    watch
        Watchers: `watch.Converged`, `watch.Clustered`, `watch.When`, `watch.WallClock`...
    store
        A path: the recording streams to a Zarr store there, with checkpoints. If that holds the same run, it goes on
        where that one was interrupted or, with a later `until`, where it ended, and ends bit for bit as if it had done
        all at once; if there is nothing left to do, it is read back. One run at a time writes to a store.
    engine
        "auto"; "precise" for sums exact to rounding; or the name of one: "dense", which holds arrays (n, n), "fused";
        for softmax "blocked", "fast", "separable", "tree"; in up to three dimensions "vertices" for hardmax and
        "neighbours" for localmax and Hegselmann-Krause.
    precision
        "double", or "single" for softmax sums from 4 dimensions on that are computed in float32, about twice as fast,
        to about 1e-6 of the diameter (`attnflow.engines.single` has the bound). Tokens stay float64. Flows need a
        tolerance `rtol` of at least 1e-4 with it.

    Examples
    --------
    >>> import attnflow as af
    >>> x0 = af.tokens.gaussian(n=200, d=2, seed=0)
    >>> run = af.simulate(x0, af.Softmax(beta=9.0), af.Layers(gamma=0.1), until=500)
    >>> run.tokens.shape, run.stopped
    ((501, 200, 2), 'reached step 500, as asked')
    """
    law, motion, until = given_or_own(law, motion, until)
    engine = engines.in_precision(engine, precision)
    if chunked(tokens):
        others = {"masses": masses, "seed": seed, "engine": None if engine == "auto" else engine}
        return simulate_chunks(tokens, law, motion, until, record, watch, store, others)
    x, until, hearing = checked(tokens, law, motion, until, masses, engine, watch)
    seed = None if seed is None else whole(seed, "seed", least=0)
    hearing = replace(hearing, seed=seed)
    about: dict[str, Any]
    radial: dict[str, Any] = {"radii": True} if motion.keeps_radii else {}
    if foreign(x):
        if watch or store is not None or engine not in ("auto", "dense"):
            raise InputError(
                f"tokens of {library(x)} take no watchers, store, engine or precision: leave these out, or {CONVERT}"
            )
        about = {"until": until, "seed": seed, "engine": engine, "record": repr(rule(record)), **radial}
        with progress.task("simulate: step", until) as work:
            ran = run_layers(x, hearing, motion, int(until), record, work)
        return Trajectory(**ran, law=law, motion=motion, masses=hearing.masses, about=about)
    if store is not None and not all(map(is_dataclass, (law, motion))):
        raise InputError("a store must be able to tell runs apart: make your law and motion dataclasses")
    if store is not None and motion.discrete and until >= 2**63:
        raise InputError(f"until is {until:.3g}, but a store counts steps in int64: give less than 2**63, or no store")
    about = {
        "law": describe(law), "motion": describe(motion), "until": until, "seed": seed, "engine": engine,
        "record": repr(rule(record)), "tokens": _digest(x), "masses": _digest(hearing.masses),
        "functions of time": _varying(hearing, motion, 0), **radial,
    }  # fmt: skip
    recording = (
        MemoryRecording() if store is None else Store.open_or_create(location(store, "store"), about, x, hearing.masses)
    )
    try:
        results = recording.finished
        if results is None:
            at_once = any(isinstance(watcher, Progress) for watcher in watch)
            with progress.task("simulate", until, at_once=at_once) as work:
                results = _run(x, hearing, motion, until, Recorder(record, recording), watch, work)
            recording.finish(**results)
        times, states = recording.arrays()
    finally:
        recording.close()
    return Trajectory(times, states, law=law, motion=motion, masses=hearing.masses, about=about, **results)


def _run(
    x: Array,
    hearing: Hearing,
    motion: Motion,
    until: float,
    recorder: Recorder,
    watch: Sequence[Watcher],
    work: progress.Task,
) -> dict[str, Any]:
    """The loop, from the start or from the last checkpoint; return how it ended."""
    t, state, origin, recording = (0 if motion.discrete else 0.0), None, x, recorder.recording
    if (saved := recording.resume()) is not None:
        t, x, state, notes = saved
        recorder.resume(notes["recorder"])
        if notes["varying"] != _varying(hearing, motion, t):
            raise InputError("a function of time differs from that of the stored run: give the same, or a new store")
    checkpoint = next((watcher for watcher in watch if isinstance(watcher, Checkpoint)), Checkpoint())
    watchers = [*watch, recorder, *([] if checkpoint in watch else [checkpoint])]
    shown = directions if motion.keeps_radii else _as_they_are
    for watcher in watchers:
        look = _as_they_are if watcher is recorder else shown
        watcher.begin(Start(t, look(x), until, motion.discrete, look(origin)))

    work.reach(t, part=0.0)
    stepper, stopped = motion.start(hearing, x, t, state), None
    check_stepper(stepper, motion)

    def where() -> str:
        return f"{'step' if motion.discrete else 't ='} {float(t):.4g} of {float(until):.4g}"

    while stopped is None:
        if not stepper.shortened:
            recording.remember(t, x, stepper.state, partial(_notes, hearing, motion, t, recorder.state()))
            if checkpoint.due():
                recording.checkpoint()
        stretch = _sound(stepper.advance(until), motion, hearing.law)
        stretch = _cut(stretch, _shown(stretch, shown), watchers)
        for watcher in watchers:
            watcher.see(stretch if watcher is recorder else _shown(stretch, shown))
        t, x = stretch.after
        work.reach(t, where, part=0.0, notes=stepper.slow)
        stopped = stretch.ended or (f"reached {when(motion.discrete)(t)}, as asked" if t >= until else None)
    for watcher in watchers:
        watcher.end()
    report = {"engine": hearing.served_by(motion.seen(x, t), t), **stepper.report()}
    return {"stopped": stopped, "report": report}


def checked(
    tokens: Any, law: Law, motion: Motion, until: float, masses: Any, engine: str, watch: Sequence[Watcher]
) -> tuple[Array, float, Hearing]:
    """Return the tokens at the start, the end, and who hears whom, refusing a run that cannot begin."""
    check_law(law)
    check_motion(motion)
    if not isinstance(watch, list | tuple) or not all(isinstance(watcher, Watcher) for watcher in watch):
        raise InputError(f"watch is {watch!r}, expected a list of watchers such as [Converged(1e-9)]")
    x = any_cloud(tokens, motion, law)
    hearing = Hearing(law, mass_vector(masses, len(x), like=x), engine)
    law.uses(engine, *x.shape)
    end = end_of(until, motion)
    check_layers(law, motion, end)
    x = motion.prepare(x, hearing)
    law.check_order(x, masses=hearing.masses)
    # A float would round whole numbers beyond 2**53.
    return x, int(until) if motion.discrete else end, hearing


def _notes(hearing: Hearing, motion: Motion, t: float, recorded: dict[str, Any]) -> dict[str, Any]:
    """Return what a checkpoint at time t must hold beside the numbers of the stepper."""
    return {"recorder": recorded, "varying": _varying(hearing, motion, t)}


def _varying(hearing: Hearing, motion: Motion, t: float) -> list[Any]:
    """Return the values at time t of all functions of time, which a store cannot hold."""
    # As a checkpoint gives it back: powers of NumPy's numbers may differ from Python's in the last bit.
    t = np.asarray(t).item()
    return varying(hearing.law, t) + varying(motion, t)


def _digest(array: Array | None) -> str | None:
    """Fingerprint of an array, to tell runs apart."""
    return None if array is None else hashlib.sha256(repr(array.shape).encode() + array.tobytes()).hexdigest()


def _as_they_are(x: Array) -> Array:
    return x


def _shown(stretch: Stretch, shown: Callable[[Array], Array]) -> Stretch:
    """Return the stretch as watchers see it: the tokens of its states."""
    if shown is _as_they_are:
        return stretch
    between = stretch.between
    inside = None if between is None else lambda t: shown(between(t))
    (t, x), tokens = stretch.before, stretch.tokens
    return replace(stretch, before=(t, shown(x)), tokens=shown(tokens), between=inside)


def _sound(stretch: Stretch, motion: Motion, law: Law) -> Stretch:
    """End the stretch where tokens leave the range of float64, or where one that has a direction is 0."""
    states = stretch.tokens
    with np.errstate(over="ignore", invalid="ignore"):
        sizes = lengths(states)[..., None] if motion.keeps_radii else states
    sound = np.isfinite(sizes) & (sizes != 0) if motion.keeps_radii else np.isfinite(sizes)
    if sound.all():
        return stretch
    k = int(sound.all(axis=(1, 2)).argmin())
    at = when(motion.discrete)(stretch.times[k])
    i = int((~np.isfinite(sizes[k]).all(axis=1)).argmax())
    zero = token_at_zero(states[k]) if np.isfinite(sizes[k]).all() else None
    if zero is not None:
        return stretch.cut(k, no_direction(motion, zero, at))
    return stretch.cut(k, lost(f"token {i}", motion, law, states[k], at))


def _cut(stretch: Stretch, seen: Stretch, watchers: Sequence[Watcher]) -> Stretch:
    """End the stretch where the first watcher, who sees its tokens, says stop."""
    if stretch.ended is not None:
        return stretch
    stops = [stop for watcher in watchers if (stop := watcher.stop(seen)) is not None]
    return stretch.cut(*min(stops, key=lambda stop: stop[0])) if stops else stretch
