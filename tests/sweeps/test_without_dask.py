"""Where Dask is not installed: sweeps in this process work, the others say what to install."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest
from refusals import refused

import attnflow as af


def double(a: float) -> float:
    return 2 * a


def test_a_sweep_in_this_process_needs_no_dask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dask", "distributed", "cloudpickle"):
        monkeypatch.setitem(sys.modules, name, None)
    found = af.sweep(double, {"a": [1.0, 2.0]}, on="here", store=tmp_path / "s.zarr")
    assert found.double.values.tolist() == [2.0, 4.0]
    for on in (None, "tcp://127.0.0.1:1"):
        with refused(r"a sweep runs on Dask: pip install 'attnflow\[cluster\]', or use on='here'"):
            af.sweep(double, {"a": [1.0, 2.0]}, on=on)


def test_the_extra_all_has_what_a_cluster_needs() -> None:
    with (Path(__file__).parents[2] / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert "cluster" in extras["all"][0].partition("[")[2].rstrip("]").split(",")
    names = [part.partition(">")[0] for part in extras["cluster"]]
    assert names == ["dask[array]", "distributed", "attnflow[store,progress]"]
