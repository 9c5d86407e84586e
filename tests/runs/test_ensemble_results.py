"""Ensembles as many runs: measured together, saved, read back, with named dimensions."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.core.inputs import Array

m = af.measure
X = np.stack([af.tokens.gaussian(n=6, d=2, seed=s) for s in range(5)])
BETAS, GAMMAS = np.array([0.5, 1.0, 2.0, 4.0, 8.0]), np.array([0.1, 0.1, 0.5, 0.5, 1.0])


def found() -> af.Ensemble:
    return af.ensemble(X, af.Softmax(beta=BETAS), af.Layers(gamma=GAMMAS), until=20, record=[1, 5])


def single(k: int, masses: Any = None) -> af.Trajectory:
    law, motion = af.Softmax(beta=float(BETAS[k])), af.Layers(gamma=float(GAMMAS[k]))
    return af.simulate(X[k], law, motion, until=20, record=[1, 5], masses=masses)


MEASURED: dict[str, Callable[[Any, Any], Any]] = {
    "diameter": lambda x, law: m.diameter(x),
    "clusters": lambda x, law: m.clusters(x, tol=0.2).labels,
    "count": lambda x, law: m.clusters(x, 0.2).count,
    "rank": lambda x, law: m.rank(x).singular_values,
    "leaders": lambda x, law: m.leaders(law, x).heard,
    "entropy": lambda x, law: m.entropy(law, x=x),
    "energy": lambda x, law: m.energy(x, beta=0.5),
    "pair energy": lambda x, law: m.pair_energy(x, eps=0.5),
    "limits": lambda x, law: m.distance_to_limits(x, [[0.0, 0.0], [1.0, 1.0]]),
}


@pytest.mark.parametrize("name", MEASURED)
def test_all_systems_are_measured_as_single_runs_are(name: str) -> None:
    """Time first, then systems; each under the law with its own beta."""
    measure, ensemble = MEASURED[name], found()
    together = measure(ensemble, ensemble.law)
    for k in range(len(X)):
        run = single(k)
        np.testing.assert_allclose(together[:, k], measure(run, run.law), rtol=1e-9, atol=1e-9)


def test_a_system_is_a_run() -> None:
    ensemble, masses = found(), np.arange(1.0, 7.0)
    assert len(ensemble) == len(list(ensemble)) == 5
    run = ensemble[-1]
    assert isinstance(run.law, af.Softmax)
    assert isinstance(run.motion, af.Layers)
    assert (run.law.beta, run.motion.gamma) == (8.0, 1.0)
    assert run.stopped == "reached step 20, as asked"
    np.testing.assert_allclose(ensemble[3].at(13), single(3).at(13), atol=1e-12)
    np.testing.assert_array_equal(np.asarray(ensemble), ensemble.values)
    assert m.summary(ensemble[1])[:3] == m.summary(single(1))[:3]
    heavy = af.ensemble(X, af.Softmax(), af.Layers(gamma=0.5), until=20, masses=masses)
    np.testing.assert_array_equal(heavy[2].masses, masses)
    with pytest.raises(IndexError, match="system 5 of 5: count from 0 to 4"):
        ensemble[5]


@pytest.mark.parametrize("ending", ["npz", "nc"])
def test_what_is_saved_comes_back_bit_for_bit(ending: str, tmp_path: Path) -> None:
    ensemble, path = found(), tmp_path / f"found.{ending}"
    ensemble.save(path)
    again = af.load(path)
    assert isinstance(again, af.Ensemble)
    for name in ("times", "values", "final"):
        old, new = getattr(ensemble, name), getattr(again, name)
        assert old.dtype == new.dtype
        np.testing.assert_array_equal(old, new)
    assert isinstance(again.law, af.Softmax)
    assert isinstance(again.motion, af.Layers)
    np.testing.assert_array_equal(again.law.beta, BETAS)
    np.testing.assert_array_equal(again.motion.gamma, GAMMAS)
    assert again.steps == ensemble.steps
    np.testing.assert_array_equal(m.entropy(again.law, again), m.entropy(ensemble.law, ensemble))


def test_what_was_observed_is_kept(tmp_path: Path) -> None:
    kept = af.ensemble(
        X, af.Softmax(beta=BETAS), af.Layers(gamma=0.5), until=9, observe=lambda x: x.mean(axis=1), masses=np.ones(6)
    )
    kept.save(tmp_path / "kept.npz")
    again = af.Ensemble.load(tmp_path / "kept.npz")
    np.testing.assert_array_equal(again.values, kept.values)
    np.testing.assert_array_equal(again.final, kept.final)
    assert again.observed
    assert kept.to_xarray()["values"].dims == ("time", "system", "axis0")
    for asked in (lambda: again[0], lambda: m.diameter(again), lambda: again.tokens):
        with refused("recorded what observe returned"):
            asked()


def test_dimensions_have_names() -> None:
    ensemble = found()
    data = ensemble.to_xarray()
    assert data.tokens.dims == ("time", "system", "token", "coordinate")
    np.testing.assert_allclose(data.tokens.sel(time=5, system=3), single(3).at(5), atol=1e-12)
    np.testing.assert_array_equal(data.beta, BETAS)
    np.testing.assert_array_equal(data.gamma, GAMMAS)


def test_a_table_has_a_row_for_each_token(tmp_path: Path) -> None:
    ensemble = found()
    ensemble.save(tmp_path / "found.csv")
    with (tmp_path / "found.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["time", "system", "token", "x0", "x1", "beta", "gamma"]
    (row,) = (row for row in rows if (row["time"], row["system"], row["token"]) == ("5", "2", "4"))
    assert [float(row["x0"]), float(row["x1"])] == ensemble.values[2, 2, 4].tolist()
    assert (row["beta"], row["gamma"]) == ("2.0", "0.5")


def test_a_data_frame_holds_what_the_table_does(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    ensemble = found()
    frame = ensemble.to_pandas()
    rows = frame[(frame.time == 5) & (frame.system == 2)]
    np.testing.assert_array_equal(rows[["x0", "x1"]], ensemble.values[2, 2])
    assert set(rows.beta) == {2.0}
    seen = af.ensemble(X, af.Softmax(), af.Layers(gamma=0.5), until=3, observe=lambda x: x.mean(axis=(1, 2)))
    for k, one in enumerate((ensemble, seen)):
        one.save(tmp_path / f"{k}.csv")
        pandas.testing.assert_frame_equal(one.to_pandas(), pandas.read_csv(tmp_path / f"{k}.csv"))
    assert seen.to_pandas().columns.tolist() == ["time", "system", "values"]


def test_bad_places_get_a_sentence(tmp_path: Path) -> None:
    ensemble = found()
    with refused(r"saved as .npz, .nc or .csv"):
        ensemble.save(tmp_path / "found.zarr")
    ensemble.save(tmp_path / "found.npz")
    assert repr(af.load(tmp_path / "found.npz")) == repr(af.Ensemble.load(tmp_path / "found.npz")) == repr(ensemble)
    single(0).save(tmp_path / "run.npz")
    with refused(r"holds no ensemble: read a run by attnflow.load"):
        af.Ensemble.load(tmp_path / "run.npz")


def test_a_function_of_time_is_not_stored(tmp_path: Path) -> None:
    varying = af.ensemble(X, af.Softmax(beta=lambda t: 1 + t), af.Layers(gamma=GAMMAS), until=5)
    varying.save(tmp_path / "varying.npz")
    again = af.Ensemble.load(tmp_path / "varying.npz")
    assert again.law is None
    np.testing.assert_array_equal(again.motion.gamma, GAMMAS)  # type: ignore[union-attr]
    np.testing.assert_array_equal(m.diameter(again), m.diameter(varying))


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_a_table_of_what_was_observed_holds_it(shape: tuple[int, ...], tmp_path: Path) -> None:
    factors = 1.0 + np.arange(np.prod(shape, dtype=int)).reshape(shape)

    def observe(x: Array) -> Array:
        return np.asarray(np.multiply.outer(x.mean(axis=(1, 2)), factors))

    x0 = np.stack([af.tokens.gaussian(n=4, d=2, seed=s) for s in range(3)])
    betas = np.array([1.0, 2.0, 3.0])
    found = af.ensemble(x0, af.Softmax(beta=betas), af.Layers(gamma=0.5), until=5, record=[2], observe=observe)
    found.save(tmp_path / "found.csv")
    with (tmp_path / "found.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    axes = [f"axis{k}" for k in range(len(shape))]
    assert list(rows[0]) == ["time", "system", *axes, "values", "beta"]
    assert len(rows) == found.values.size
    for row in rows:
        place = (found.times.tolist().index(int(row["time"])), *(int(row[name]) for name in ("system", *axes)))
        assert float(row["values"]) == found.values[place]
        assert float(row["beta"]) == betas[place[1]]


def test_a_slice_of_systems_is_refused_in_a_sentence() -> None:
    with refused(r"asked for by slice\(0, 2, None\), expected one number"):
        found()[0:2]  # type: ignore[index]


def test_an_ensemble_is_loaded_without_a_law(tmp_path: Path) -> None:
    found = af.ensemble(np.zeros((2, 3, 1)), af.Softmax(), af.Layers(gamma=0.5), until=1)
    found.save(tmp_path / "a.npz")
    with refused("holds an ensemble, which takes no law or motion here: leave them out"):
        af.load(tmp_path / "a.npz", law=af.Softmax())
