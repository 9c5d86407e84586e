"""The demo: its table and its files."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

import attnflow as af


def test_three_laws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "three_laws.py"))
    example["main"](tmp_path / "out")
    shown = capsys.readouterr().out
    for name in ("softmax", "localmax", "hardmax"):
        assert name in shown
        assert (tmp_path / "out" / f"{name}.png").stat().st_size > 10_000
    assert shown.count("converged at step") == 3
    run = af.load(tmp_path / "out" / "softmax.zarr")
    np.testing.assert_array_equal(run.tokens[0], af.tokens.gaussian(n=200, d=2, seed=0))
