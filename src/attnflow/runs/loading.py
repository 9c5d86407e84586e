"""Runs and ensembles, read back from where they were written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnflow.core.inputs import InputError, location
from attnflow.laws import Law
from attnflow.motions import Motion
from attnflow.runs import chunk_store, files, store
from attnflow.runs.ensemble_results import Ensemble
from attnflow.runs.store import same_run
from attnflow.runs.trajectory import UNFINISHED, Trajectory
from attnflow.serialise import brief, describe, rebuild


def load(path: str | Path, *, law: Law | None = None, motion: Motion | None = None) -> Trajectory | Any:
    """Read a run that `Trajectory.save`, as .zarr, .npz or .nc, or ``simulate(store=...)`` wrote, or an `Ensemble`.

    A run that did not finish is read up to its last checkpoint. Laws and motions come back unless a parameter was a
    function of time, or weights of a trained model, which are not stored: give those of the run as `law` or `motion`
    then. They are refused if the store tells them from those of the run. Type checkers take the result for a run;
    `Ensemble.load` reads an ensemble. Of a run that started from a Dask array, and of one that fills more than half of
    this machine's memory, the tokens are a Dask array, which is read where and when it is used.

    >>> import tempfile, attnflow as af
    >>> run = af.simulate([[1.0], [0.0]], af.Softmax(), af.Layers(gamma=0.5), until=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run.save(f"{folder}/run.zarr")
    ...     load(f"{folder}/run.zarr").law
    Softmax(beta=1.0, B=None, b=None)
    """
    place = location(path, "path")
    if place.is_dir() or not place.exists():
        arrays, about = (chunk_store.read_chunks if chunk_store.too_large(place) else store.read)(place)
    else:
        arrays, about = files.arrays_of(place)
    if "ensemble" in about:
        if law is not None or motion is not None:
            raise InputError(f"{path} holds an ensemble, which takes no law or motion here: leave them out")
        return Ensemble.of(arrays, about)
    if not {"time", "tokens"} <= set(arrays):
        raise InputError(f"{path} holds {', '.join(arrays)}, expected times and tokens: give a file of a run")
    times, tokens, masses = arrays["time"], arrays["tokens"], arrays.get("masses")
    if len(times) == 0:
        raise InputError(f"{path} holds no state yet: call simulate again with store={str(path)!r}")
    results = about.get("results", {"stopped": UNFINISHED, "report": {}})
    if motion is not None and law is None:
        law = motion.own_law
    law, motion = (_told(path, about["run"], kind, one) for kind, one in (("law", law), ("motion", motion)))
    how: dict[str, Any] = {"about": about["run"], "radii": arrays.get("radii"), **results}
    return Trajectory(times, tokens, law=law, motion=motion, masses=masses, **how)


def _told(path: str | Path, about: dict[str, Any], kind: str, given: Any) -> Any:
    """Return the law or the motion of a stored run: the one given, unless the store tells it from that, or its own."""
    if given is None:
        return rebuild(about[kind])
    if not same_run(about[kind], describe(given)):
        raise InputError(f"{brief(given)} is not the {kind} of the run in {path}: give that one, or leave it out")
    return given
