"""The demo: its table and its files."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import attnflow as af


def test_three_laws(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # The demo needs nothing of a cluster: to import one of these is an error now.
    for name in ("dask", "distributed", "cloudpickle", "xarray"):
        monkeypatch.setitem(sys.modules, name, None)
    example = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "three_laws.py"))
    example["main"](tmp_path / "out")
    shown = capsys.readouterr().out
    for name in ("softmax", "localmax", "hardmax"):
        assert name in shown
        assert (tmp_path / "out" / f"{name}.png").stat().st_size > 10_000
    assert shown.count("at rest within 1e-12 at step") == 3
    assert "converged" not in shown
    # The clusters of softmax are metastable, those of the other two rest for ever; and it is said how they are counted.
    assert "metastable: expected to move again near step 2.6 * 10^26" in shown
    assert shown.count("metastable") == 1
    assert shown.count("at rest for ever: no cluster hears another") == 2
    assert "1% of the cloud's extent" in shown
    run = af.load(tmp_path / "out" / "softmax.zarr")
    np.testing.assert_array_equal(run.tokens[0], af.tokens.gaussian(n=200, d=2, seed=0))


def test_parameter_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "parameter_study.py"))["main"]
    main.__globals__["OVER"] = {"beta": [1.0, 256.0], "n": [6, 8], "seed": [0, 1]}
    main(tmp_path, "here")
    warm, cold = (line.split() for line in capsys.readouterr().out.splitlines()[-2:])
    assert warm == ["1.0", "1.0", "1.0"]
    assert cold[0] == "256.0"
    assert min(map(float, cold[1:])) > 2
    assert {path.name for path in tmp_path.iterdir()} == {"clusters.zarr", "clusters.png", "clusters_lines.png"}
