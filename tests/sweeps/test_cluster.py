"""Sweeps on a real cluster, of processes that are killed."""

from __future__ import annotations

import functools
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import survivor
import xarray
import zarr
from cluster import SETTINGS, Cluster, cluster, wait_for
from survivor import CELLS, POISONED

import attnflow as af


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler and three workers."""
    with cluster(tmp_path_factory.mktemp("cluster"), 3) as started:
        yield started


def runs(folder: Path) -> dict[int, list[int]]:
    """The processes that ran each cell."""
    return {int(file.name): [int(line) for line in file.read_text().split()] for file in (folder / "ran").iterdir()}


def finished(folder: Path) -> set[int]:
    """Cells that are in the store."""
    with suppress(Exception):  # it is not there yet
        return set(np.flatnonzero(zarr.open_group(folder / "s.zarr", mode="r")["finished"][...]).tolist())
    return set()


def client(folder: Path, on: str) -> subprocess.Popen[bytes]:
    with (folder / "client.txt").open("ab") as log:
        words = [sys.executable, str(Path(survivor.__file__)), str(folder), on]
        return subprocess.Popen(words, env={**os.environ, **SETTINGS}, stdout=log, stderr=log)


def killed(folder: Path, on: str, done: int, chance: random.Random) -> dict[int, int]:
    """Start a client, kill a worker somewhere on the way and the client when some cells are done.

    Return how often each cell in the store has run.
    """
    process, at = client(folder, on), chance.randrange(len(finished(folder)), done)
    wait_for("cells that have run", lambda: len(runs(folder)) > at)
    victim = chance.choice([pids[-1] for pids in runs(folder).values()])
    with suppress(ProcessLookupError):  # it was killed before
        os.kill(victim, signal.SIGKILL)
    wait_for("results in the store", lambda: len(finished(folder)) >= done or process.poll() is not None)
    assert process.poll() is None, (folder / "client.txt").read_text()
    process.kill()
    process.wait()
    return {k: len(runs(folder)[k]) for k in finished(folder)}


def test_nothing_is_lost_and_nothing_runs_twice(three: Cluster, tmp_path: Path) -> None:
    (tmp_path / "ran").mkdir()
    chance = random.Random(19)
    first = killed(tmp_path, three.address, 10, chance)
    (tmp_path / "first").touch()
    second = killed(tmp_path, three.address, 28, chance)
    (tmp_path / "second").touch()
    # A function of a script is the same as that of a module.
    found = af.sweep(
        functools.partial(survivor.cell, folder=str(tmp_path)),
        {"k": range(CELLS)},
        store=tmp_path / "s.zarr",
        on=three.address,
    )
    assert len(first) >= 10
    assert set(first) < set(second)
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
