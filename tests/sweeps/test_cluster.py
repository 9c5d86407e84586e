"""Sweeps on a real cluster, of processes that are killed."""

from __future__ import annotations

import functools
import importlib
import logging
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import survivor
import xarray
import zarr
from cluster import DEADLINE, SETTINGS, Cluster, cluster, wait_for
from distributed import Client, default_client
from refusals import refused
from survivor import CELLS, POISONED

import attnflow as af


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler and three workers."""
    with cluster(tmp_path_factory.mktemp("cluster"), 3) as started:
        yield started


def runs(folder: Path) -> dict[int, list[int]]:
    """The processes that ran each cell."""
    found = {int(file.name): [int(line) for line in file.read_text().split()] for file in (folder / "ran").iterdir()}
    return {k: pids for k, pids in found.items() if pids}  # a file may be there before its first line is


def finished(folder: Path) -> set[int]:
    """Cells that are in the store."""
    with suppress(Exception):  # it is not there yet
        group: Any = zarr.open_group(folder / "s.zarr", mode="r")
        return set(np.flatnonzero(group["finished"][...]).tolist())
    return set()


def client(folder: Path, on: str) -> subprocess.Popen[bytes]:
    with (folder / "client.txt").open("ab") as log:
        words = [sys.executable, str(Path(survivor.__file__)), str(folder), on]
        return subprocess.Popen(words, env={**os.environ, **SETTINGS}, stdout=log, stderr=log)


def killed(three: Cluster, folder: Path, done: int, gate: int, chance: random.Random) -> dict[int, int]:
    """Start a client, kill a worker somewhere on the way, and the client when some cells are done.

    It is killed too when all workers are busy with cells that wait: then those that the dead worker had must wait.
    Return how often each cell in the store has run.
    """
    process, at = client(folder, three.address), chance.randrange(len(finished(folder)) + 1, done)

    def waiting() -> bool:
        return len({pids[-1] for k, pids in runs(folder).items() if k >= gate} - {victim.pid}) == 3

    wait_for("results in the store", lambda: len(finished(folder)) >= at or process.poll() is not None)
    victim = chance.choice(three.workers)
    victim.kill()
    wait_for("more results", lambda: len(finished(folder)) >= done or waiting() or process.poll() is not None)
    assert process.poll() is None, (folder / "client.txt").read_text()
    process.kill()
    process.wait()
    return {k: len(runs(folder)[k]) for k in finished(folder)}


# More moments for make test-all.
@pytest.mark.parametrize("seed", range(4 if "ATTNFLOW_EXAMPLES" in os.environ else 1))
def test_nothing_is_lost_and_nothing_runs_twice(three: Cluster, tmp_path: Path, seed: int) -> None:
    (tmp_path / "ran").mkdir()
    chance = random.Random(seed)
    first = killed(three, tmp_path, 10, 20, chance)
    (tmp_path / "first").touch()
    second = killed(three, tmp_path, 28, 40, chance)
    (tmp_path / "second").touch()
    # A function of a script is the same as that of a module.
    found = af.sweep(
        functools.partial(survivor.cell, folder=str(tmp_path)),
        {"k": range(CELLS)},
        store=tmp_path / "s.zarr",
        on=three.address,
    )
    assert set() < set(first) < set(second)
    counted = runs(tmp_path)
    assert {k: len(counted[k]) for k in first} == first
    assert {k: len(counted[k]) for k in second} == second
    assert len(counted) == CELLS

    serial = af.sweep(functools.partial(survivor.cell, poison=False), {"k": range(CELLS)}, on="here")
    assert np.flatnonzero(found.failed.values != "").tolist() == [POISONED]
    assert "died each time that it ran" in str(found.failed.values[POISONED])
    for name in ("drawn", "phase", "twice"):
        ours, theirs = serial[name].values, found[name].values
        assert ours.dtype == theirs.dtype
        assert np.isnan(theirs[POISONED]).all()
        assert np.delete(ours, POISONED, 0).tobytes() == np.delete(theirs, POISONED, 0).tobytes()
    with xarray.open_zarr(tmp_path / "s.zarr", consolidated=False) as stored:
        assert stored.finished.values.all()
        assert stored.drop_vars("finished").equals(found)


def loud(a: int) -> int:
    print("printed", a)
    print("warned", a, file=sys.stderr)
    logging.getLogger("study").info("logged %d%%", a)
    thread = threading.Thread(target=print, args=("threaded", a))
    thread.start()
    thread.join()
    return a


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
def test_cells_are_heard(
    three: Cluster, level: int, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(level):
        af.sweep(loud, {"a": [3, 4]}, on=three.address)
    heard = capsys.readouterr()
    ours = [record.getMessage() for record in caplog.records if record.name == "study"]
    assert sorted(heard.out.splitlines()) == [f"[a={a}] {word} {a}" for a in (3, 4) for word in ("printed", "threaded")]
    # As long as no worker is there, that is told too.
    told = [line for line in heard.err.splitlines() if not line.endswith("waiting for them")]
    assert sorted(told) == [f"[a={a}] warned {a}" for a in (3, 4)]
    assert sorted(ours) == ([f"[a={a}] logged {a}%" for a in (3, 4)] if level == logging.INFO else [])


def test_a_client_of_the_users_own_stays_as_it_is(three: Cluster) -> None:
    with Client(three.address, set_as_default=False) as own:
        kept = own.submit(sum, [1, 2])
        assert af.sweep(lambda a: -a, {"a": [1, 2]}, on=own).value.values.tolist() == [-1, -2]
        assert own.status == "running"
        assert kept.result() == 3
        with pytest.raises(ValueError, match="No client"):
            default_client()
    with refused("a client that is closed"):
        af.sweep(lambda a: a, {"a": [1]}, on=own)


def test_large_payloads_travel_once_to_each_worker(three: Cluster) -> None:
    numbers = np.random.default_rng(0).random(100_000)
    found = af.sweep(lambda k: numbers[k], {"k": range(50)}, on=three.address)
    assert found.value.values.tobytes() == numbers[:50].tobytes()


def test_workers_that_lack_a_module_say_so(three: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_here.py").write_text("import also_here\n\ndef twice(a):\n    return 2 * a\n")
    (tmp_path / "also_here.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("only_here")
    # What the cell uses travels with it; what its module imports for other reasons does not.
    assert af.sweep(module.twice, {"a": [4]}, on=three.address).twice.values.tolist() == [8]
    with refused("No module named 'also_here'.*upload_file"):
        af.sweep(lambda a: module.twice(a), {"a": [4]}, on=three.address)


USES = """
import edited.later

def outside(a):
    return edited.later.times(a)

def inside(a):
    from edited.later import times
    return times(a)
"""


def test_workers_run_modules_as_they_are_now(three: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, names = three.folder / "edited", dict[str, Any](__name__="__main__")
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(three.folder)  # workers find it too
    for k in (2, 1000):
        (folder / "later.py").write_text(f"def times(a):\n    return {k} * a\n")
        importlib.reload(importlib.import_module("edited.later"))
        exec(USES, names)
        for name in ("outside", "inside"):
            assert af.sweep(names[name], {"a": [5]}, on=three.address)[name].values.tolist() == [5 * k]


def test_a_lost_scheduler_is_told_and_the_same_call_goes_on(three: Cluster, tmp_path: Path) -> None:
    def cell(k: int) -> float:
        (tmp_path / f"{k}").touch()
        end = time.monotonic() + DEADLINE
        while k >= 4 and not (tmp_path / "gate").exists() and time.monotonic() < end:
            time.sleep(0.01)
        return k / 7

    def loses() -> None:
        wait_for("a cell that waits", lambda: (tmp_path / "4").exists())
        three.ended.set()
        three.processes[0].kill()

    thread = threading.Thread(target=loses)
    thread.start()
    with refused("the scheduler at tcp://127.0.0.1:[0-9]+ is gone: .* only what is missing runs"):
        af.sweep(cell, {"k": range(8)}, on=three.address, store=tmp_path / "s.zarr")
    thread.join()
    (tmp_path / "gate").touch()
    found = af.sweep(cell, {"k": range(8)}, on="here", store=tmp_path / "s.zarr")
    assert found.cell.values.tolist() == [k / 7 for k in range(8)]
