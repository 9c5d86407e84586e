"""Stores of sweeps that were torn, are full, belong to others, or are no stores; and what cells may return."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
import zarr
from refusals import refused

import attnflow as af
from attnflow.runs.lock import Lock
from attnflow.sweeps import running
from attnflow.sweeps.grid import Grid
from attnflow.sweeps.outcome import Outcome
from attnflow.sweeps.results import Results

OVER = {"a": [1, 2, 3, 4]}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a store can be; each cell is a box of its own."""
    monkeypatch.setattr(running, "SLOW", 0.0)
    return tmp_path / "s.zarr"


def third(a: int) -> float:
    return a / 3


def ran(store: Path, **options: Any) -> list[int]:
    """Sweep, and return which cells ran."""
    log = store.with_name("log")
    log.write_text("")

    def cell(a: int) -> float:
        with log.open("a") as file:
            file.write(f"{a}\n")
        if a == 2 and log.with_name("fails").exists():
            raise ValueError("not now")
        return third(a)

    found = af.sweep(cell, OVER, store=store, on="here", **options)
    good = found.failed.values == ""
    assert np.where(good, found.cell.values, 0).tolist() == [
        third(a) if fine else 0 for a, fine in zip(OVER["a"], good, strict=True)
    ]
    assert np.isnan(found.cell.values[~good]).all()
    return [int(a) for a in log.read_text().split()]


def interrupted(monkeypatch: pytest.MonkeyPatch, name: str, number: int, error: BaseException) -> None:
    """Let the write of an array fail at some time."""
    writes, write = [0], zarr.Array.__setitem__

    def fails(self: Any, where: Any, what: Any) -> None:
        writes[0] += self.basename == name
        if self.basename == name and writes[0] == number:
            raise error
        write(self, where, what)

    monkeypatch.setattr(zarr.Array, "__setitem__", fails)


@pytest.mark.parametrize("name", ["cell", "failed", "finished"])
@pytest.mark.parametrize("retry", [False, True])
def test_a_client_killed_between_two_writes(
    store: Path, monkeypatch: pytest.MonkeyPatch, name: str, retry: bool
) -> None:
    fails = store.with_name("fails")
    if retry:
        fails.touch()
        assert ran(store) == [1, 2, 3, 4]
        fails.unlink()
    with monkeypatch.context() as patch:
        interrupted(patch, name, 1 if retry else 3, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            ran(store, retry_failed=retry)
    assert ran(store) == ([] if retry else [3, 4])
    assert ran(store, retry_failed=True) == ([] if retry and name == "finished" else [2] if retry else [])


def test_a_full_disk_is_told_and_the_same_call_goes_on(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    with monkeypatch.context() as patch, refused("(No space left on device): mend that, and repeat the call"):
        interrupted(patch, "cell", 2, full)
        ran(store)
    assert ran(store) == [2, 3, 4]


def test_one_writer_at_a_time_and_any_number_of_readers(store: Path) -> None:
    store.with_name("fails").touch()
    assert ran(store) == [1, 2, 3, 4]
    lock = Lock(store, "a")
    assert ran(store) == []
    with refused("another run is writing to"):
        ran(store, retry_failed=True)
    lock.release()


def test_torn_stores(store: Path) -> None:
    assert ran(store) == [1, 2, 3, 4]
    (store / "cell" / "c" / "1").write_bytes(b"torn")
    with refused("is damaged"):
        ran(store)
    attributes = json.loads((store / "zarr.json").read_text())
    attributes["attributes"]["attnflow"]["format"] = 2
    (store / "zarr.json").write_text(json.dumps(attributes))
    with refused("has format 2, this version reads 1"):
        ran(store)
    (store / "zarr.json").write_text("{")
    with refused("is no store of a sweep"):
        ran(store)


def test_places_that_cannot_be_a_store(tmp_path: Path) -> None:
    af.simulate([[1.0], [0.0]], af.Hardmax(), af.Layers(gamma=0.5), until=2, store=tmp_path / "run.zarr")
    (tmp_path / "file").write_text("text")
    af.sweep(third, OVER, on="here", store=tmp_path / "s.zarr")
    for name, words in {
        "run.zarr": "is no store of a sweep",
        "file": "is no store of a sweep",
        "s.npz": "a store is a folder",
        "nowhere/s.zarr": "does not exist: create it first",
        300 * "x": "File name too long",
    }.items():
        with refused(words):
            af.sweep(third, OVER, on="here", store=tmp_path / name)
    with refused("run saved by attnflow"):
        af.load(tmp_path / "s.zarr")
    with refused("run saved by attnflow"):
        af.simulate([[1.0], [0.0]], af.Hardmax(), af.Layers(gamma=0.5), until=2, store=tmp_path / "s.zarr")


@pytest.mark.parametrize(
    ("returned", "values"),
    [
        (3, {"value": 3.0}),
        (True, {"value": 1.0}),
        (np.float32(0.5), {"value": 0.5}),
        (1 - 2j, {"value": 1 - 2j}),
        (float("nan"), {"value": np.nan}),
        ([[1, 2], [3, 4]], {"value": [[1.0, 2.0], [3.0, 4.0]]}),
        (np.empty((0, 2)), {"value": np.empty((0, 2))}),
        ({"b": 1, "a": [1j]}, {"b": 1.0, "a": [1j]}),
        (2**60, "beyond 2**53, where float64 has gaps"),
        ("text", "it returned 'text', expected a number"),
        (None, "it returned None, expected a number"),
        ([[1], [2, 3]], "expected a number, an array"),
        ({}, "empty dictionary"),
        ({"a": "text"}, "'a' is 'text', expected a number or an array"),
        ({1: 2.0}, "it names a value 1, expected a word"),
        ({"a/b": 2.0}, "it names a value 'a/b', expected a word"),
        ({"": 2.0}, "it names a value '', expected a word"),
        ({"zarr.json": 2.0}, "it names a value 'zarr.json', expected a word"),
        ({"a\\b": 2.0}, "it names a value 'a"),
        ({"failed": 2.0}, "it names a value 'failed', as an axis or a part of the Dataset"),
        ({"k": 2.0}, "it names a value 'k', as an axis"),
        ({"x": [1.0], "x_0": 2.0}, "it names a value 'x_0', as an axis"),
        (af.simulate([[1.0]], af.Hardmax(), af.Layers(gamma=0.5), until=1), "say what is measured of it"),
    ],
)
@pytest.mark.filterwarnings("ignore:all .* cells failed")
def test_what_cells_may_return(returned: Any, values: Any, tmp_path: Path) -> None:
    found = af.sweep(lambda k: returned, {"k": [0, 1]}, on="here", store=tmp_path / "s.zarr")
    with xarray.open_zarr(tmp_path / "s.zarr", consolidated=False) as stored:
        assert stored.drop_vars("finished").equals(found)
    if isinstance(values, str):
        assert list(found.data_vars) == ["failed"]
        assert all(values in str(sentence) for sentence in found.failed.values)
        return
    assert list(found.data_vars) == [*values, "failed"]
    assert set(found.failed.values) == {""}
    for name, value in values.items():
        expected = np.array([value, value])
        assert found[name].dtype == expected.dtype
        assert found[name].values.tobytes() == expected.tobytes()


@pytest.mark.filterwarnings("ignore:all .* cells failed")
def test_measurements_of_what_is_no_run() -> None:
    found = af.sweep(third, OVER, measure=["clusters"], on="here")
    assert set(found.failed.values[2:3]) == {"it returned 1.0, and measure is for runs: return one, or drop measure"}


def test_results_beyond_memory_are_refused() -> None:
    results = Results(Grid({"k": range(100)}), {}, None)
    large = Outcome({"value": np.broadcast_to(np.float64(1.0), (10**6, 10**6))})
    with refused("do not fit into memory: return less from each cell"):
        results.take([0], [large])


def test_the_first_cell_that_works_decides_what_is_stored(tmp_path: Path) -> None:
    """Batches come back in any order: names, shapes and their order are those of the earliest cell so far."""
    grid, pair, one = Grid({"a": range(4)}), np.array([1.0, 2.0]), np.array(3.0)
    results = Results(grid, {}, tmp_path / "s.zarr")
    assert results.claim(False).tolist() == [0, 1, 2, 3]
    results.divide(1)
    results.take([3, 0], [Outcome({"b": one}), Outcome(failed="not now")])
    for cell, values in (2, {"b": one, "c": pair}), (1, {"c": 2 * pair, "b": 2 * one}):
        results.take([cell], [Outcome(values)])
    results.close()
    again = Results(grid, {}, tmp_path / "s.zarr")
    assert again.missing(False).tolist() == [3]
    assert again.failed.tolist() == ["not now", "", "", ""]
    assert list(again.values) == ["c", "b"]
    np.testing.assert_array_equal(again.values["c"][1:3], [2 * pair, pair])
    np.testing.assert_array_equal(again.values["b"][1:3], [6.0, 3.0])
