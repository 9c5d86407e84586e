"""Stores that are extended to a later end, and stores that somebody else is writing to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from larger import larger
from refusals import refused

import attnflow as af
from attnflow.runs import store
from attnflow.runs.lock import Lock
from attnflow.runs.watch import Watcher

zarr = pytest.importorskip("zarr")
xr = pytest.importorskip("xarray")

SPHERE = af.tokens.sphere(n=12, d=2, seed=0)
CLOUD = af.tokens.gaussian(n=12, d=2, seed=0)
SOFT = af.Softmax(beta=2.0, B=[[1.0, 0.2], [0.0, 1.0]])
FEW = af.tokens.sphere(n=5, d=2, seed=3)
# Deaths at more moments are looked at where there is time for them.
MORE = "ATTNFLOW_EXAMPLES" in os.environ


@pytest.fixture
def _short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several stretches of steps in short runs, and several chunks of a store."""
    monkeypatch.setattr("attnflow.motions.motion.STRETCH_STEPS", 100)
    monkeypatch.setattr(store, "CHUNK_RECORDS", 150)


def same(a: af.Trajectory, b: af.Trajectory) -> None:
    assert a.times.dtype == b.times.dtype
    assert a.times.tolist() == b.times.tolist()
    assert a.tokens.tobytes() == b.tokens.tobytes()
    assert (a.stopped, a.report, a.about) == (b.stopped, b.report, b.about)


Model = tuple[Any, af.Law, af.Motion]
MODELS: dict[str, tuple[Model, list[float]]] = {
    "layers": ((CLOUD, SOFT, af.Layers(gamma=0.2)), [1, 101, 450]),
    "schedule": ((CLOUD, SOFT, af.Layers(gamma=lambda t: 1 / (t + 2) ** 0.6)), [5, 150, 300]),
    "flow": ((CLOUD, SOFT, af.Flow(V=lambda t: [[-1.0, t], [0.0, -1.0]])), [1e-4, 0.3, 1.0, 3.0]),
    "rescaled": ((CLOUD, SOFT, af.RescaledFlow(V=[[1.0, 0.5], [0.0, 0.2]])), [1e-9, 0.01, 1.0, 8.0]),
    "sphere": ((SPHERE, SOFT, af.SphereFlow(rtol=1e-5)), [1e-3, 2.0, 30.0, 1e4]),
    "merging": ((FEW, af.Softmax(beta=9.0), af.SphereFlow()), [5.0, 25.0, 1e9]),
    "jumps": ((FEW, af.Softmax(beta=4.0), af.Jumps(gamma=0.1)), [3, 40, 5000, 10**5]),
    "literal": ((FEW, af.Softmax(beta=4.0), af.Jumps(gamma=0.1, literal=True)), [3, 250]),
    # The first ends are no multiples of dt, and more than one stretch of steps follows.
    "noisy flow": ((SPHERE, SOFT, af.Noisy(af.SphereFlow(), kappa=2.0, dt=0.01)), [0.004, 0.137, 0.7, 4.5 + 1e-3]),
    "noisy layers": ((CLOUD, SOFT, af.Noisy(af.Layers(gamma=0.2), sigma=lambda t: 1 / (t + 1))), [3, 101]),
    "random heads": ((SPHERE, SOFT, af.RandomHeads(dt=0.1, scores=True)), [3, 101]),
    "leaps": ((FEW, af.Softmax(beta=9.0), af.Leaps(gamma=0.1)), [70, 10**6 + 1]),
    "hardmax": ((CLOUD, af.Hardmax(), af.HardmaxFlow()), [1e-5, 0.25, 2.0, 9.0]),
    # Ends that shorten a step which then does not reach them: the trial of the first one, one after tokens have met,
    # and a leap.
    "short trial": (
        ([[1.0], [1 + 1e-6], [-1.0]], af.Softmax(), af.Flow(V=lambda t: [[np.sin(1e4 * t)]])),
        [0.0027684306759742034, 0.0527684306759742],
    ),
    "short meeting": ((FEW, af.Softmax(beta=4.0), af.SphereFlow(rtol=1e-6)), [22.11964047247303, 1e4]),
    "short leap": ((af.tokens.polygon(4), af.Softmax(beta=12.0), af.Leaps(gamma=0.1)), [26009, 10**9]),
    "sliding": ((CLOUD, af.Hardmax(B=[[-1.0, 2.0], [-2.0, -1.0]]), af.HardmaxFlow()), [1e-5, 0.05, 9.0]),
}


GEOMETRIC = af.watch.Geometric(first=1.0, per_decade=5)
RECORDS = [("layers", 3), ("layers", GEOMETRIC), ("rescaled", 3), ("rescaled", GEOMETRIC)]


@pytest.mark.usefixtures("_short_stretches")
@pytest.mark.parametrize(
    ("name", "record"), [*((name, None) for name in MODELS), *RECORDS, pytest.param("leaps", GEOMETRIC, marks=larger)]
)
def test_an_extended_run_has_the_bits_of_one_long_run(tmp_path: Path, name: str, record: af.watch.Record) -> None:
    (x, law, motion), ends = MODELS[name]
    path = tmp_path / "run.zarr"
    for until in ends:
        extended = af.simulate(x, law, motion, until, record=record, store=path, seed=5)
        same(af.simulate(x, law, motion, until, record=record, seed=5), extended)
    same(extended, af.load(path))


def test_a_chain_without_a_seed_keeps_the_one_it_drew(tmp_path: Path) -> None:
    x, law, motion = MODELS["jumps"][0]
    first = af.simulate(x, law, motion, 5, store=tmp_path / "run.zarr")
    second = af.simulate(x, law, motion, 3000, store=tmp_path / "run.zarr")
    assert second.seed == first.seed
    np.testing.assert_array_equal(second.tokens, af.simulate(x, law, motion, 3000, seed=first.seed).tokens)


DYING = ["layers", "merging", "jumps", "noisy flow", "leaps", "hardmax"]


@pytest.mark.usefixtures("_short_stretches")
@pytest.mark.parametrize(
    ("name", "after"),
    [*((name, 2) for name in DYING), *((name, 0) for name in (DYING if MORE else ["layers", "jumps"]))],
)
def test_extending_a_run_that_dies_on_the_way(
    tmp_path: Path, name: str, after: int, dies: Callable[[int], Watcher]
) -> None:
    """Killed in the first run, then extended, killed while it is extended, then extended further."""
    (x, law, motion), ends = MODELS[name]
    path, often = tmp_path / "run.zarr", af.watch.Checkpoint(seconds=0)
    for until in ends:
        try:
            af.simulate(x, law, motion, until, store=path, seed=5, watch=[often, dies(after)])
        except KeyboardInterrupt:
            # What was finished stays so until the extended run has passed its end.
            assert af.load(path).stopped.startswith("not finished") or af.load(path).about["until"] < until
    extended = af.simulate(x, law, motion, ends[-1], store=path, seed=5)
    same(af.simulate(x, law, motion, ends[-1], seed=5), extended)


def test_what_watchers_stopped_goes_on_when_they_are_gone(tmp_path: Path) -> None:
    x, law, motion = MODELS["layers"][0]
    stop = af.watch.When(lambda t, x: t == 30)
    path = tmp_path / "run.zarr"
    assert "step 30" in af.simulate(x, law, motion, 100, store=path, watch=[stop]).stopped
    assert "step 30" in af.simulate(x, law, motion, 100, store=path).stopped
    assert "step 30" in af.simulate(x, law, motion, 200, store=path, watch=[stop]).stopped
    same(af.simulate(x, law, motion, 300), af.simulate(x, law, motion, 300, store=path))


def test_xarray_reads_an_extended_store(tmp_path: Path) -> None:
    x, law, motion = MODELS["layers"][0]
    for until in (10, 5000):
        run = af.simulate(x, law, motion, until, store=tmp_path / "run.zarr")
        with xr.open_zarr(tmp_path / "run.zarr") as data:
            np.testing.assert_array_equal(data.tokens.values, run.tokens)
            np.testing.assert_array_equal(data.time.values, run.times)


def test_what_cannot_be_extended_is_told(tmp_path: Path) -> None:
    x, law, motion = MODELS["layers"][0]
    path = tmp_path / "run.zarr"
    af.simulate(x, law, motion, 50, store=path)
    with refused(
        "holds this run until 50, and until is 40: give the same or a later one, or another store; attnflow.load"
    ):
        af.simulate(x, law, motion, 40, store=path)
    for other in ((x + 1, law, motion), (x, af.Softmax(beta=3.0), motion), (x, law, af.Layers(gamma=0.3))):
        with refused("holds another run"):
            af.simulate(*other, 60, store=path)
    with refused("compare record"):
        af.simulate(x, law, motion, 60, store=path, record=2)
    af.simulate(x, law, motion, 50).save(tmp_path / "saved.zarr")
    with refused("has no checkpoint to go on from .it was written by save, or by an earlier version.: give another"):
        af.simulate(x, law, motion, 60, store=tmp_path / "saved.zarr")
    af.simulate(x, law, af.Layers(gamma=lambda t: 0.5), 2500, store=tmp_path / "f.zarr")
    with refused("a function of time differs"):
        af.simulate(x, law, af.Layers(gamma=lambda t: 0.5 if t == 0 else 0.4), 2600, store=tmp_path / "f.zarr")


@pytest.mark.parametrize("read_back", [False, True])
def test_a_run_keeps_its_tokens_when_its_store_is_extended(
    tmp_path: Path, read_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens are read at first use, from a store whose last records may have been replaced by then."""
    monkeypatch.setattr(store, "CHUNK_RECORDS", 8)
    cases: list[tuple[af.Motion, list[float], Any]] = [
        (af.Flow(), [1.0, 3.0], None), (af.Layers(gamma=0.2), [10, 40], 4), (af.Layers(gamma=0.2), [75, 80, 200], 1)
    ]  # fmt: skip
    for k, (motion, ends, record) in enumerate(cases):
        path, runs = tmp_path / f"{k}.zarr", []
        for until in ends:
            for _ in range(1 + read_back):
                run = af.simulate(CLOUD, SOFT, motion, until, record=record, store=path)
            runs.append(run)
        for until, run in zip(ends, runs, strict=True):
            same(af.simulate(CLOUD, SOFT, motion, until, record=record), run)


class Interrupting(Watcher):
    """Interrupts a run before its first step, or after its first stretch."""

    def __init__(self, at_once: bool) -> None:
        self.at_once = at_once

    def begin(self, start: af.watch.Start) -> None:
        if self.at_once:
            raise KeyboardInterrupt

    def see(self, stretch: Any) -> None:
        raise KeyboardInterrupt


@pytest.mark.usefixtures("_short_stretches")
@pytest.mark.parametrize("name", ["schedule", "rescaled", "jumps"])
def test_a_finished_run_survives_an_extension_that_fails(tmp_path: Path, name: str) -> None:
    """Whether it is refused, or interrupted at once, or before anything that it recorded could be kept."""
    (x, law, motion), ends = MODELS[name]
    path = tmp_path / "run.zarr"
    finished = af.simulate(x, law, motion, ends[-2], store=path, seed=5)
    for at_once in (True, False):
        with pytest.raises(KeyboardInterrupt):
            af.simulate(x, law, motion, ends[-1], store=path, seed=5, watch=[Interrupting(at_once)])
        same(finished, af.load(path))
        same(finished, af.simulate(x, law, motion, ends[-2], store=path, seed=5))
    if name == "schedule":
        with refused("a function of time differs"):
            other = af.Layers(gamma=lambda t: 1 / (t + 2) ** 0.6 if t == 0 else 0.4)
            af.simulate(x, law, other, ends[-1], store=path, seed=5)
        same(finished, af.load(path))
    same(af.simulate(x, law, motion, ends[-1], seed=5), af.simulate(x, law, motion, ends[-1], store=path, seed=5))
    same(af.simulate(x, law, motion, ends[-1], seed=5), af.load(path))


def as_in_the_first_version(path: Path) -> None:
    """Let a store be as those of the first version: it knew no `b`, and had two files beside the arrays."""
    for name in ("checkpoint.npz", "lock"):
        (path / "tokens" / name).rename(path / name)
    group = zarr.open_group(path, mode="r+", use_consolidated=False)
    about = group.attrs["attnflow"]
    run = about["run"]
    for part in (run["law"], *run["law"].get("laws", []), run["motion"]):
        assert part.pop("b", None) is None
    group.attrs["attnflow"] = about


@pytest.mark.parametrize("law", [SOFT, af.Heads([af.Softmax(), SOFT], V=[None, np.eye(2)])])
def test_stores_of_earlier_versions_are_read_resumed_and_extended(
    tmp_path: Path, law: af.Law, dies: Callable[[int], Watcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnflow.motions.motion.STRETCH_STEPS", 100)
    path, motion, often = tmp_path / "run.zarr", af.Residual(dt=0.01), af.watch.Checkpoint(seconds=0)
    with pytest.raises(KeyboardInterrupt):
        af.simulate(CLOUD, law, motion, 300, store=path, watch=[often, dies(1)])
    as_in_the_first_version(path)
    assert len(af.load(path)) == 101
    whole = af.simulate(CLOUD, law, motion, 300)
    run = af.simulate(CLOUD, law, motion, 300, store=path)
    assert run.tokens.tobytes() == whole.tokens.tobytes()
    assert sorted(p.name for p in path.iterdir()) == ["time", "tokens", "zarr.json"]
    as_in_the_first_version(path)
    assert af.simulate(CLOUD, law, motion, 300, store=path).tokens.tobytes() == whole.tokens.tobytes()
    run = af.simulate(CLOUD, law, motion, 350, store=path)
    assert run.tokens.tobytes() == af.simulate(CLOUD, law, motion, 350).tokens.tobytes()
    with refused("compare law"):
        af.simulate(CLOUD, af.Softmax(beta=2.0, B=SOFT.B, b=[1.0, 0.0]), motion, 400, store=path)


class Mine(af.Softmax):
    """A law of one's own."""


@pytest.mark.parametrize("written", ["Mine", "__main__:Mine"])
@pytest.mark.parametrize("law", [Mine(beta=2.0), af.Heads([af.Softmax(), Mine()], V=[None, np.eye(2)])])
def test_runs_with_a_law_of_ones_own_go_on_in_other_versions_and_from_other_modules(
    tmp_path: Path, law: af.Law, written: str, dies: Callable[[int], Watcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions wrote the name of the class alone; a script is `__main__` until it is imported."""
    monkeypatch.setattr("attnflow.motions.motion.STRETCH_STEPS", 100)
    path, motion, often = tmp_path / "run.zarr", af.Residual(dt=0.01), af.watch.Checkpoint(seconds=0)
    with pytest.raises(KeyboardInterrupt):
        af.simulate(CLOUD, law, motion, 300, store=path, watch=[often, dies(1)])
    rename(path, written)
    run = af.simulate(CLOUD, law, motion, 300, store=path)
    assert run.tokens.tobytes() == af.simulate(CLOUD, law, motion, 300).tokens.tobytes()
    for other in ("Softmax", "elsewhere:Mine", "__main__:Other"):
        rename(path, other)
        with refused("holds another run .compare law."):
            af.simulate(CLOUD, law, motion, 300, store=path)


def rename(path: Path, name: str) -> None:
    """Let a store have another name for the class of its law, or of its last head."""
    group = zarr.open_group(path, mode="r+", use_consolidated=False)
    about = group.attrs["attnflow"]
    law = about["run"]["law"]
    law.get("laws", [law])[-1]["name"] = name
    group.attrs["attnflow"] = about


def test_two_versions_do_not_write_to_one_store(tmp_path: Path) -> None:
    path = tmp_path / "run.zarr"
    af.simulate(CLOUD, SOFT, af.Layers(gamma=0.2), 5, store=path)
    earlier = Lock(path)  # as the first version took it
    with refused("another run is writing to .*run.zarr: wait"):
        af.simulate(CLOUD, SOFT, af.Layers(gamma=0.2), 9, store=path)
    earlier.release()
    assert len(af.simulate(CLOUD, SOFT, af.Layers(gamma=0.2), 9, store=path)) == 10


def test_other_programs_see_the_arrays_alone(
    tmp_path: Path, dies: Callable[[int], Watcher], recwarn: pytest.WarningsRecorder
) -> None:
    """Zarr warns of every file in a group that is no part of it; of an interrupted run as of a finished one."""
    path, given = tmp_path / "run.zarr", (CLOUD, SOFT, af.Layers(gamma=0.2), 5000)
    with pytest.raises(KeyboardInterrupt):
        af.simulate(*given, store=path, watch=[af.watch.Checkpoint(seconds=0), dies(1)])
    for _ in ("interrupted", "finished"):
        members = zarr.open_group(path, mode="r", use_consolidated=False).members(max_depth=None)
        assert sorted(name for name, _ in members) == ["time", "tokens"]
        with xr.open_zarr(path, consolidated=False) as data:
            assert set(data.variables) == {"time", "tokens"}
        af.simulate(*given, store=path)
    assert [str(warning.message) for warning in recwarn] == []


WRITER = """
import sys, attnflow as af
def hold(t, x):
    if t == 50:
        print("writing", flush=True)
        sys.stdin.readline()
    return False
x = af.tokens.gaussian(n=12, d=2, seed=0)
watch = [af.watch.When(hold), af.watch.Checkpoint(seconds=0)]
af.simulate(x, af.Softmax(), af.Layers(gamma=0.2), 3000, store=sys.argv[1], watch=watch)
"""


@contextmanager
def writer(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that is writing to the store, and waits."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        yield process
        if process.poll() is None:
            process.communicate("\n")


def second(path: Path) -> af.Trajectory:
    return af.simulate(CLOUD, af.Softmax(), af.Layers(gamma=0.2), 3000, store=path)


def test_two_processes_do_not_write_to_one_store(tmp_path: Path) -> None:
    path = tmp_path / "run.zarr"
    with writer(path) as process:
        with refused("another run is writing to .*run.zarr: wait until it ends, or choose another store"):
            second(path)
        assert af.load(path).stopped.startswith("not finished") or len(af.load(path)) == 1
        process.communicate("\n")
        assert process.returncode == 0
    same(af.simulate(CLOUD, af.Softmax(), af.Layers(gamma=0.2), 3000), second(path))


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "run.zarr"
    with writer(path) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        same(af.simulate(CLOUD, af.Softmax(), af.Layers(gamma=0.2), 3000), second(path))


def test_two_threads_do_not_write_to_one_store(tmp_path: Path) -> None:
    path, inside, leave = tmp_path / "run.zarr", threading.Event(), threading.Event()

    def hold(t: float, x: Any) -> bool:
        if t == 50:
            inside.set()
            leave.wait()
        return False

    def run() -> None:
        watch = [af.watch.When(hold)]
        af.simulate(CLOUD, af.Softmax(), af.Layers(gamma=0.2), 3000, store=path, watch=watch)

    thread = threading.Thread(target=run)
    thread.start()
    inside.wait()
    try:
        with refused("another run is writing"):
            second(path)
    finally:
        leave.set()
        thread.join()
    same(af.simulate(CLOUD, af.Softmax(), af.Layers(gamma=0.2), 3000), second(path))


@pytest.mark.parametrize("late", [False, True])
def test_two_runs_that_make_one_store_at_the_same_moment(
    tmp_path: Path, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other makes it before this one looks for the place, or while this one builds its own."""
    path, create, array = tmp_path / "run.zarr", store.Store.create, store.new_array
    first: list[store.Store] = []
    about = {"law": None, "motion": None, "until": 3000}
    given: dict[str, Any] = {"about": about, "x": CLOUD, "masses": None}

    def meanwhile() -> Any:
        monkeypatch.setattr(store.Store, "create", create)
        monkeypatch.setattr(store, "new_array", array)
        first.append(store.Store.open_or_create(path, **given))

    if late:
        monkeypatch.setattr(store, "new_array", lambda *args: meanwhile() or array(*args))
    else:
        monkeypatch.setattr(store.Store, "create", lambda *args: meanwhile() or create(*args))
    with refused("another run is writing to .*run.zarr: wait until it ends, or choose another store"):
        store.Store.open_or_create(path, **given)
    first[0].close()
    store.Store.open_or_create(path, **given).close()
    assert [p.name for p in tmp_path.iterdir()] == ["run.zarr"]


def test_a_run_that_fails_lets_go(tmp_path: Path, dies: Callable[[int], Watcher]) -> None:
    path = tmp_path / "run.zarr"
    with pytest.raises(KeyboardInterrupt):
        af.simulate(CLOUD, af.Softmax(), af.Layers(gamma=0.2), 3000, store=path, watch=[dies(0)])
    assert len(second(path)) == 3001


FORKING = """
import os, sys
from pathlib import Path
from attnflow.runs.lock import Lock
folder = Path(sys.argv[1])
lock, (reading, writing), (hearing, saying) = Lock(folder), os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(writing)
    os.write(saying, b".")
    os.read(reading, 1)  # until the parent ends
    os._exit(0)
# The child has its copy of the file until it runs for the first time, which it says.
os.read(hearing, 1)
lock.release()
Lock(folder).release()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    """The parent lets go while its child lives on: in a process of its own, since some libraries forbid to fork."""
    done = subprocess.run([sys.executable, "-c", FORKING, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
