"""Runs as one file: .npz, .csv and .nc are what their endings say, and come back with the same bits."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.runs import files

xr = pytest.importorskip("xarray")
pd = pytest.importorskip("pandas")

X = af.tokens.gaussian(n=5, d=3, seed=0)
MASSES = np.arange(1.0, 6.0)


def layers() -> af.Trajectory:
    return af.simulate(X, af.Softmax(beta=2.0), af.Layers(gamma=0.2), until=7, masses=MASSES, seed=4)


def flow() -> af.Trajectory:
    return af.simulate(X, af.Softmax(beta=2.0), af.RescaledFlow(), until=1.5)


def long_chain() -> af.Trajectory:
    return af.simulate(af.tokens.polygon(3), af.Softmax(beta=40.0), af.Jumps(gamma=0.1), until=10**25, seed=2)


def same(a: af.Trajectory, b: af.Trajectory) -> None:
    assert a.times.dtype == b.times.dtype
    assert a.times.tolist() == b.times.tolist()
    assert a.tokens.dtype == b.tokens.dtype == np.float64
    assert a.tokens.tobytes() == b.tokens.tobytes()
    assert (a.stopped, a.report, a.seed, a.about) == (b.stopped, b.report, b.seed, b.about)
    assert (a.masses is None) == (b.masses is None)
    assert a.masses is None or a.masses.tobytes() == b.masses.tobytes()  # type: ignore[union-attr]


@pytest.mark.parametrize("ending", [".npz", ".nc"])
@pytest.mark.parametrize("made", [layers, flow])
def test_a_run_comes_back_bit_for_bit(tmp_path: Path, made: Any, ending: str) -> None:
    run, path = made(), tmp_path / f"r{ending}"
    run.save(path)
    assert path.is_file()
    assert [place.name for place in tmp_path.iterdir()] == [path.name]
    back = af.load(path)
    same(run, back)
    not_a_path: Path = back  # type: ignore[assignment]  # type checkers know that it is a run
    assert repr(not_a_path) == repr(run)
    assert repr(back.law) == repr(run.law)
    np.testing.assert_array_equal(back.at(1), run.at(1))


def test_npz_is_read_by_numpy_without_pickle(tmp_path: Path) -> None:
    run = layers()
    run.save(tmp_path / "r.npz")
    with np.load(tmp_path / "r.npz", allow_pickle=False) as saved:
        np.testing.assert_array_equal(saved["times"], run.times)
        np.testing.assert_array_equal(saved["tokens"], run.tokens)
        np.testing.assert_array_equal(saved["masses"], MASSES)
        said = json.loads(str(saved["attnflow"]))
    assert (said["run"]["law"]["name"], said["run"]["law"]["beta"]) == ("Softmax", 2.0)
    assert said["results"]["stopped"] == run.stopped


def test_csv_is_a_tidy_table_with_every_bit(tmp_path: Path) -> None:
    run = layers()
    run.save(tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["time", "token", "x0", "x1", "x2", "masses"]
    expected = [(t, i, *run.tokens[k, i], MASSES[i]) for k, t in enumerate(run.times) for i in range(5)]
    assert [tuple(map(float, row)) for row in rows] == expected
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "r.csv"), run.to_pandas())
    with refused("is a table, which does not say what was run"):
        af.load(tmp_path / "r.csv")


def test_netcdf_is_read_by_xarray(tmp_path: Path) -> None:
    run = layers()
    run.save(tmp_path / "r.nc")
    with xr.open_dataset(tmp_path / "r.nc", engine="scipy") as data:
        assert data.tokens.dims == ("time", "token", "coordinate")
        np.testing.assert_array_equal(data.tokens.sel(time=4).values, run.tokens[4])
        np.testing.assert_array_equal(data.masses.values, MASSES)


def test_times_of_netcdf_up_to_2_to_the_53(tmp_path: Path) -> None:
    """Its whole numbers have 32 bits; later times are float64, exact up to 2^53, and refused beyond."""
    triangle, law, motion = af.tokens.polygon(3), af.Softmax(beta=40.0), af.Jumps(gamma=0.1)
    for until in (2**31, 2**53):
        run = af.simulate(triangle, law, motion, until=until, seed=2)
        run.save(tmp_path / f"{until}.nc")
        same(run, af.load(tmp_path / f"{until}.nc"))
    with refused("holds whole times up to 2\\*\\*53"):
        af.simulate(triangle, law, motion, until=2**53 + 1, seed=2).save(tmp_path / "r.nc")
    with refused("holds whole times up to 2\\*\\*53"):
        long_chain().save(tmp_path / "r.nc")
    assert not (tmp_path / "r.nc").exists()


def test_times_beyond_int64(tmp_path: Path) -> None:
    run = long_chain()
    assert run.times.dtype == object
    run.save(tmp_path / "r.npz")
    same(run, af.load(tmp_path / "r.npz"))
    run.save(tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(newline="") as file:
        assert [int(row["time"]) for row in csv.DictReader(file)][::3] == run.times.tolist()
    with refused("save it as .npz"):
        run.save(tmp_path / "r.zarr")


def test_every_other_name_is_refused(tmp_path: Path) -> None:
    run = layers()
    for name in ("r.h5", "r", "r.npy", ".npz"):
        with refused("expected .zarr, .npz, .csv or .nc"):
            run.save(tmp_path / name)
    with refused("a store is a folder: give a name such as run.zarr"):
        af.simulate(X, af.Softmax(), af.Layers(gamma=0.2), until=7, store=tmp_path / "r.npz")
    with refused("does not exist: create it first"):
        run.save(tmp_path / "no" / "r.npz")
    run.save(tmp_path / "r.npz")
    with refused("exists already"):
        run.save(tmp_path / "r.npz")
    assert [place.name for place in tmp_path.iterdir()] == ["r.npz"]


def test_other_files_are_refused(tmp_path: Path) -> None:
    for name in ("r.npz", "r.nc"):
        (tmp_path / name).write_bytes(b"PK nothing of ours")
        with refused("is not a whole"):
            af.load(tmp_path / name)
    np.savez(tmp_path / "theirs.npz", x=X)
    with refused("is not a whole .npz file of attnflow"):
        af.load(tmp_path / "theirs.npz")
    files.write(tmp_path / "other.npz", {"value": (("time",), np.zeros(2))}, {"format": 1})
    with refused("expected times and tokens"):
        af.load(tmp_path / "other.npz")
    (tmp_path / "r.txt").write_text("")
    with refused("no store and no .npz or .nc file"):
        af.load(tmp_path / "r.txt")


def test_a_run_is_an_array() -> None:
    run = layers()
    assert np.asarray(run) is run.tokens
    assert np.asarray(run, dtype=np.float32).dtype == np.float32
    copied = np.array(run)
    assert copied is not run.tokens
    np.testing.assert_array_equal(copied, run.tokens)
    np.testing.assert_array_equal(np.linalg.norm(run, axis=2), np.linalg.norm(run.tokens, axis=2))
    with pytest.raises(ValueError, match="copy"):
        np.asarray(run, dtype=np.float32, copy=False)


def test_pandas_has_a_row_for_each_token_at_each_time() -> None:
    table = layers().to_pandas()
    assert list(table.columns) == ["time", "token", "x0", "x1", "x2", "masses"]
    assert len(table) == 8 * 5
    np.testing.assert_array_equal(table[table.token == 2][["x0", "x1", "x2"]].to_numpy(), layers().tokens[:, 2])
    assert long_chain().to_pandas().time.iloc[-1] == 10**25


@pytest.mark.parametrize("ending", [".zarr", ".npz"])
@pytest.mark.parametrize("length", [245, 300])
def test_a_name_that_is_too_long_for_the_disk_is_refused(tmp_path: Path, ending: str, length: int) -> None:
    with refused("cannot be .* .File name too long.: choose another place"):
        layers().save(tmp_path / ("x" * length + ending))
    with refused("cannot be made .File name too long.: choose another place"):
        af.simulate(X, af.Softmax(), af.Layers(gamma=0.2), 3, store=tmp_path / ("x" * length + ".zarr"))
    assert not list(tmp_path.iterdir())
