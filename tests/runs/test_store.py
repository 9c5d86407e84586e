"""Runs on disk: streaming, damage, and death at any moment."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.runs import store
from attnflow.runs.watch import Watcher

xr = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")

X = af.tokens.gaussian(n=12, d=2, seed=0)
SOFT = af.Softmax(beta=2.0, B=[[1.0, 0.2], [0.0, 1.0]])
LAYERS = af.Layers(gamma=0.2)
# Deaths at more moments, and of larger runs, are looked at where there is time for them.
MORE = "ATTNFLOW_EXAMPLES" in os.environ


def same(a: af.Trajectory, b: af.Trajectory) -> None:
    assert a.times.dtype == b.times.dtype
    assert a.times.tobytes() == b.times.tobytes()
    assert a.tokens.tobytes() == b.tokens.tobytes()
    assert a.stopped == b.stopped
    assert a.report == b.report


@pytest.mark.parametrize("motion", [LAYERS, af.RescaledFlow(V=[[1.0, 0.5], [0.0, 0.2]])])
def test_save_and_load(tmp_path: Path, motion: af.Motion) -> None:
    masses = np.arange(1.0, 13.0)
    run = af.simulate(X, SOFT, motion, until=5, masses=masses, seed=3)
    run.save(tmp_path / "run.zarr")
    back = af.load(tmp_path / "run.zarr")
    same(run, back)
    assert back.masses is not None
    np.testing.assert_array_equal(back.masses, masses)
    assert back.seed == 3
    np.testing.assert_array_equal(back.at(3), run.at(3))


def test_laws_and_motions_come_back(tmp_path: Path) -> None:
    law = af.Heads([af.Softmax(beta=af.Schedule("1 + t")), af.Softmax(beta=-1.0)], V=[[[1.0, 2.0], [0.0, 1.0]], None])
    motion = af.Flow(V=[[0.1, 0.0], [0.0, 0.2]], feed_forward=af.FeedForward(W=[[1.0, 0.0], [0.0, 2.0]]))
    af.simulate(X, law, motion, until=0.5).save(tmp_path / "run.zarr")
    back = af.load(tmp_path / "run.zarr")
    assert back.law is not None
    assert back.motion is not None
    np.testing.assert_array_equal(back.law.weights(X, t=2), law.weights(X, t=2))
    again = af.simulate(X, back.law, back.motion, until=0.5)
    same(again, back)


def test_functions_are_not_stored(tmp_path: Path) -> None:
    run = af.simulate(X, SOFT, af.Layers(gamma=lambda t: 1 / (t + 2)), until=5, record=[0, 5])
    run.save(tmp_path / "run.zarr")
    back = af.load(tmp_path / "run.zarr")
    assert back.motion is None
    np.testing.assert_array_equal(back.at(5), run.final)
    assert af.measure.summary(back)[1:3] == (None, None)
    with refused("without its law or motion"):
        back.at(3)


def test_xarray_names_its_dimensions(tmp_path: Path) -> None:
    run = af.simulate(X, SOFT, LAYERS, until=6, masses=np.ones(12))
    data = run.to_xarray()
    assert data.tokens.dims == ("time", "token", "coordinate")
    assert data.masses.dims == ("token",)
    np.testing.assert_array_equal(data.tokens.sel(time=4).values, run.tokens[4])
    run.save(tmp_path / "run.zarr")
    opened = xr.open_zarr(tmp_path / "run.zarr")
    assert opened.tokens.dims == data.tokens.dims
    np.testing.assert_array_equal(opened.tokens.sel(time=4).values, run.tokens[4])


def test_streaming_equals_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "CHUNK_RECORDS", 64)
    run = af.simulate(X, SOFT, LAYERS, until=1000)
    stored = af.simulate(X, SOFT, LAYERS, until=1000, store=tmp_path / "run.zarr")
    same(run, stored)
    same(run, af.load(tmp_path / "run.zarr"))
    assert [p.name for p in tmp_path.iterdir()] == ["run.zarr"]


def test_a_finished_run_is_read_back(tmp_path: Path) -> None:
    first = af.simulate(X, SOFT, LAYERS, until=10, store=tmp_path / "run.zarr")
    second = af.simulate(
        X, SOFT, LAYERS, until=10, store=tmp_path / "run.zarr", watch=[af.watch.When(lambda t, x: True)]
    )
    same(first, second)


RUNS: dict[str, tuple[af.Motion, float, af.watch.Record]] = {
    "layers": (LAYERS, 1500, None),
    "every 17th": (LAYERS, 1500, 17),
    "schedule": (af.Layers(gamma=lambda t: 1 / (t + 2) ** 0.6), 1500, af.watch.Geometric()),
    "sphere layers": (af.SphereLayers(dt=0.1), 1300, None),
    "rescaled": (af.RescaledFlow(V=[[1.0, 0.5], [0.0, 0.2]]), 8.0, None),
    "listed": (af.RescaledFlow(), 8.0, [0.5, 1.5, 3.3]),
    "every second": (af.SphereFlow(), 9.0, 2),
    "meeting": (af.SphereFlow(rtol=1e-5), 1e6, None),
    "flow": (af.Flow(V=lambda t: [[-1.0, t], [0.0, -1.0]]), 3.0, None),
}


@cache
def uninterrupted(name: str) -> af.Trajectory:
    motion, until, record = RUNS[name]
    return af.simulate(af.tokens.sphere(n=12, d=2, seed=0), SOFT, motion, until, record=record)


@pytest.mark.parametrize("after", [0, 1, 2, 5, 9] if MORE else [0, 1, 9])
@pytest.mark.parametrize("name", RUNS)
def test_an_interrupted_run_ends_bit_for_bit_the_same(
    tmp_path: Path, name: str, after: int, dies: Callable[[int], Watcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stretches and chunks are short, so that few steps make several of each."""
    whole = uninterrupted(name)
    monkeypatch.setattr("attnflow.motions.motion.STRETCH_STEPS", 100)
    monkeypatch.setattr(store, "CHUNK_RECORDS", 200)
    (motion, until, record), x = RUNS[name], af.tokens.sphere(n=12, d=2, seed=0)
    path, often = tmp_path / "run.zarr", af.watch.Checkpoint(seconds=0)
    with pytest.raises(KeyboardInterrupt):
        af.simulate(x, SOFT, motion, until, record=record, store=path, watch=[often, dies(after)])
    with pytest.raises(KeyboardInterrupt):
        af.simulate(x, SOFT, motion, until, record=record, store=path, watch=[often, dies(1)])
    resumed = af.simulate(x, SOFT, motion, until, record=record, store=path)
    same(whole, resumed)
    same(whole, af.load(path))


@pytest.mark.parametrize(("n", "engine"), [(600, "pruned"), *([(5000, "auto")] if MORE else [])])
def test_a_large_run_goes_on_in_the_order_in_which_it_would_have_summed(
    tmp_path: Path, n: int, engine: str, dies: Callable[[int], Watcher]
) -> None:
    """So many tokens are summed in an order that is kept during a step, and by two orders of the integrator."""
    x, motion, until = 3 * af.tokens.gaussian(n=n, d=2, seed=0), af.RescaledFlow(rtol=1e-8), 4.0
    whole = af.simulate(x, SOFT, motion, until, record=[until], engine=engine)
    assert whole.report["engine"] == "tree"
    for after in (2, 20, 21) if MORE else (2, 21):
        path, often = tmp_path / f"{after}.zarr", af.watch.Checkpoint(seconds=0)
        with pytest.raises(KeyboardInterrupt):
            af.simulate(x, SOFT, motion, until, record=[until], store=path, watch=[often, dies(after)], engine=engine)
        same(whole, af.simulate(x, SOFT, motion, until, record=[until], store=path, engine=engine))


SCRIPT = """
import os, signal, sys, threading, time
from pathlib import Path
import attnflow as af
from attnflow.runs.store import CHECKPOINT

path, kind, patience, delay = sys.argv[1:]

def kill_myself(checkpoint=Path(path) / CHECKPOINT):
    seen = set()
    while len(seen) <= int(patience):
        if checkpoint.exists():
            seen.add(checkpoint.stat().st_mtime_ns)
        time.sleep(0.001)
    time.sleep(float(delay))
    os.kill(os.getpid(), signal.SIGKILL)

threading.Thread(target=kill_myself, daemon=True).start()
x, often = af.tokens.gaussian(n=40, d=2, seed=1), af.watch.Checkpoint(seconds=0.01)
motion = af.RescaledFlow(rtol=1e-12) if kind == "flow" else af.Layers(gamma=0.01)
until = 40.0 if kind == "flow" else 60_000
af.simulate(x, af.Softmax(beta=3.0), motion, until, record=7, store=path, watch=[often])
"""


@pytest.mark.parametrize("kind", ["layers", *(["flow"] if MORE else [])])
def test_sigkill_at_any_moment(tmp_path: Path, kind: str) -> None:
    """Kill the process soon after its first, second... checkpoint, and take up the run: the result is that of peace.

    A thread of its own kills it, so that it happens in time however busy the machine is.
    """
    path, rng, kills = tmp_path / "run.zarr", np.random.default_rng(0), 0
    for patience in (0, 0, 1, 2) if MORE else (0, 1):
        command = [sys.executable, "-c", SCRIPT, str(path), kind, str(patience), str(rng.uniform(0, 0.03))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        kills += 1
    assert kills >= 1 + MORE
    x, motion = af.tokens.gaussian(n=40, d=2, seed=1), af.Layers(gamma=0.01)
    given: Any = (motion, 60_000) if kind == "layers" else (af.RescaledFlow(rtol=1e-12), 40.0)
    same(
        af.simulate(x, af.Softmax(beta=3.0), *given, record=7),
        af.simulate(x, af.Softmax(beta=3.0), *given, record=7, store=path),
    )
    leftovers = [p.name for p in tmp_path.iterdir() if p != path]
    assert all(name.startswith(".run.zarr-") for name in leftovers)


def test_an_interrupted_run_stops_where_it_would_have(tmp_path: Path, dies: Callable[[int], Watcher]) -> None:
    """Convergence is measured against the initial cloud, also after an interruption."""
    x, motion = af.tokens.gaussian(40, 2), af.Layers(gamma=0.002)
    converged, often = af.watch.Converged(1e-6), af.watch.Checkpoint(seconds=0)
    whole = af.simulate(x, af.Softmax(), motion, until=10**5, watch=[converged])
    with pytest.raises(KeyboardInterrupt):
        af.simulate(x, af.Softmax(), motion, 10**5, store=tmp_path / "run.zarr", watch=[often, converged, dies(1)])
    resumed = af.simulate(x, af.Softmax(), motion, 10**5, store=tmp_path / "run.zarr", watch=[converged])
    same(whole, resumed)


def test_an_interrupted_recording_that_thins_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: Callable[[int], Watcher]
) -> None:
    monkeypatch.setattr("attnflow.runs.recording.RECORD_BYTES", 700 * X.nbytes)
    whole = af.simulate(X, SOFT, LAYERS, until=30_000)
    with pytest.raises(KeyboardInterrupt):
        af.simulate(
            X, SOFT, LAYERS, 30_000, store=tmp_path / "run.zarr", watch=[af.watch.Checkpoint(seconds=0), dies(4)]
        )
    same(whole, af.simulate(X, SOFT, LAYERS, until=30_000, store=tmp_path / "run.zarr"))
    assert len(whole) < 10_000


def test_a_law_without_fields_cannot_be_stored(tmp_path: Path) -> None:
    class Plain(af.Law):
        def log_weights(self, x, t=0, *, sources=None, masses=None):  # type: ignore[no-untyped-def]
            return np.full((len(x), len(x)), -np.log(len(x)))

    assert af.simulate(X, Plain(), LAYERS, until=2).times[-1] == 2
    with refused("make your law and motion dataclasses"):
        af.simulate(X, Plain(), LAYERS, until=2, store=tmp_path / "run.zarr")


def test_an_unfinished_run_can_be_looked_at(tmp_path: Path, dies: Callable[[int], Watcher]) -> None:
    path = tmp_path / "run.zarr"
    with pytest.raises(KeyboardInterrupt):
        af.simulate(X, SOFT, LAYERS, until=30_000, store=path, watch=[af.watch.Checkpoint(seconds=0), dies(3)])
    run, whole = af.load(path), af.simulate(X, SOFT, LAYERS, until=30_000)
    assert run.stopped.startswith("not finished")
    with refused("this run is not finished"):
        run.save(tmp_path / "copy.zarr")
    assert 1 < len(run) < len(whole)
    np.testing.assert_array_equal(run.tokens, whole.tokens[: len(run)])


def test_another_run_is_refused(tmp_path: Path, dies: Callable[[int], Watcher]) -> None:
    path = tmp_path / "run.zarr"
    with pytest.raises(KeyboardInterrupt):
        af.simulate(X, SOFT, LAYERS, until=30_000, store=path, watch=[af.watch.Checkpoint(seconds=0), dies(1)])
    with refused("compare law"):
        af.simulate(X, af.Softmax(beta=3.0), LAYERS, until=30_000, store=path)
    with refused("holds this run until 30000, and until is 20000: give the same or a later one"):
        af.simulate(X, SOFT, LAYERS, until=20_000, store=path)
    with refused("compare tokens"):
        af.simulate(X + 1e-15, SOFT, LAYERS, until=30_000, store=path)
    with refused("compare masses"):
        af.simulate(X, SOFT, LAYERS, until=30_000, store=path, masses=np.ones(12))
    with refused("compare record"):
        af.simulate(X, SOFT, LAYERS, until=30_000, store=path, record=3)


def test_another_function_of_time_is_refused(tmp_path: Path, dies: Callable[[int], Watcher]) -> None:
    path = tmp_path / "run.zarr"
    with pytest.raises(KeyboardInterrupt):
        af.simulate(
            X, SOFT, af.Layers(gamma=lambda t: 1 / (t + 2)), 30_000, store=path,
            watch=[af.watch.Checkpoint(seconds=0), dies(2)],
        )  # fmt: skip
    with refused("a function of time differs"):
        af.simulate(X, SOFT, af.Layers(gamma=lambda t: 1 / (t + 2) ** (1 if t == 0 else 2)), 30_000, store=path)
    with refused("compare functions of time"):
        af.simulate(X, SOFT, af.Layers(gamma=lambda t: 0.1), 30_000, store=path)


def test_bad_places(tmp_path: Path) -> None:
    run = af.simulate(X, SOFT, LAYERS, until=5)
    with refused("does not exist: create it first"):
        run.save(tmp_path / "no" / "run.zarr")
    (tmp_path / "there.zarr").mkdir()
    with refused("exists already"):
        run.save(tmp_path / "there.zarr")
    with refused("not a whole Zarr store"):
        af.load(tmp_path / "there.zarr")
    with refused("does not exist"):
        af.load(tmp_path / "nowhere.zarr")
    zarr.create_group(tmp_path / "foreign.zarr")
    with refused("attnflow did not write"):
        af.load(tmp_path / "foreign.zarr")
    with refused("attnflow did not write"):
        af.simulate(X, SOFT, LAYERS, until=5, store=tmp_path / "foreign.zarr")


def test_damage_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "run.zarr"
    run = af.simulate(X, SOFT, LAYERS, until=5)
    run.save(path)
    chunk = next(p for p in (path / "tokens").rglob("0") if p.is_file())
    data = chunk.read_bytes()
    chunk.write_bytes(data[:-7])
    with refused("damaged: 'tokens' cannot be read"):
        af.load(path)
    flipped = bytearray(data)
    flipped[len(flipped) // 2] ^= 1
    chunk.write_bytes(flipped)
    with refused("damaged: 'tokens' cannot be read"):
        af.load(path)
    with refused("damaged: 'tokens' cannot be read"):
        _ = af.simulate(X, SOFT, LAYERS, until=5, store=path).tokens
    chunk.unlink()
    with refused("damaged: parts of 'tokens' are missing"):
        af.load(path)
    with refused("damaged: parts of 'tokens' are missing"):
        _ = af.simulate(X, SOFT, LAYERS, until=5, store=path).tokens
    (path / "zarr.json").write_text("{")
    with refused("not a whole Zarr store"):
        af.load(path)


def test_a_file_system_without_locks_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")

    def unknown(*given: Any) -> None:
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(fcntl, "flock", unknown)
    with pytest.warns(UserWarning, match="knows no locks: make sure that no other process writes there"):
        af.simulate([[1.0], [0.0]], af.Softmax(), af.Layers(gamma=0.5), until=2, store=tmp_path / "a.zarr")
    assert len(af.load(tmp_path / "a.zarr")) == 3


def test_a_finished_run_is_read_without_its_checkpoint(tmp_path: Path) -> None:
    given: dict[str, Any] = {"tokens": [[1.0], [0.0]], "law": af.Softmax(), "motion": af.Layers(gamma=0.5), "until": 4}
    usual = af.simulate(**given, store=tmp_path / "a.zarr")
    (tmp_path / "a.zarr" / store.CHECKPOINT).write_bytes(b"no checkpoint")
    np.testing.assert_array_equal(af.simulate(**given, store=tmp_path / "a.zarr").tokens, usual.tokens)
