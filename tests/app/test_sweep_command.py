"""`attnflow sweep`: the same as `af.sweep`, from a file; its store, its picture, its refusals."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
import xarray

import attnflow as af
from attnflow.app.cli import main
from attnflow.app.parser import SWEEP_EXAMPLE
from attnflow.app.sweep_command import _range
from attnflow.sweeps.outcome import Batch
from attnflow.sweeps.places import Work

TOML = """
measure = ["diameter", {name = "clusters", tol = 0.1}]
until = 12

[tokens]
cloud = "sphere"
n = 6
d = 2

[law]
name = "softmax"

[motion]
name = "layers"
gamma = 0.3

[over]
law.beta = {from = 1, to = 9, count = 3}
seed = {count = 4}
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "study.toml"
    path.write_text(TOML)
    return path


def sweep(*arguments: str | Path) -> int:
    return main(["sweep", *map(str, arguments), "--on", "here"])


def test_it_is_the_sweep_of_the_library(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep(study) == 0
    said = capsys.readouterr().out
    data = tomllib.loads(TOML)
    run = {key: value for key, value in data.items() if key not in ("measure", "over")}
    over = {"law.beta": data["over"]["law"]["beta"], "seed": data["over"]["seed"]}
    found = af.sweep(run=run, over=over, measure=data["measure"], on="here")
    with xarray.open_zarr("study.zarr", consolidated=False) as stored:
        for name in ("diameter", "clusters"):
            assert stored[name].dims == ("law.beta", "seed")
            assert (stored[name].values == found[name].values).all()
    assert Path("study.png").read_bytes().startswith(b"\x89PNG")
    assert "cells     12 (3 law.beta x 4 seed)\n" in said
    assert f"mean {found.clusters.values.mean():.6g}\n" in said
    assert "store     study.zarr\nplot      study.png\n" in said
    # The library and the command share their stores.
    assert af.sweep(run=run, over=over, measure=data["measure"], on="here", store="study.zarr").identical(found)


def test_a_dry_run_writes_nothing(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep(study, "--dry-run", "-o", "other.zarr") == 0
    said = capsys.readouterr().out
    assert "cells     12 (3 law.beta x 4 seed), 12 to run\n" in said
    assert "store     other.zarr\n" in said
    assert sorted(path.name for path in study.parent.iterdir()) == ["study.toml"]
    assert sweep(study, "-o", "other.zarr", "--no-plot") == 0
    capsys.readouterr()
    assert sweep(study, "--dry-run", "-o", "other.zarr") == 0
    assert ", 0 to run\n" in capsys.readouterr().out


def test_cells_that_fail_are_counted_and_run_again(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study.write_text(TOML.replace('"diameter"', '"energy"').replace("{from = 1, to = 9, count = 3}", "[0.0, 1.0]"))
    assert sweep(study, "--plot", "study.svg") == 1
    said = capsys.readouterr().out
    assert "failed    4, the first at law.beta=0.0, seed=0: beta is 0, where the energy has no finite value" in said
    assert Path("study.svg").is_file()
    with xarray.open_zarr("study.zarr", consolidated=False) as stored:
        assert np.isnan(stored.energy.values[0]).all()
        assert np.isfinite(stored.energy.values[1]).all()
    assert sweep(study, "--retry-failed", "--dry-run") == 0
    said = capsys.readouterr().out
    assert ", 4 to run\n" in said
    assert "failed    law.beta=0.0, seed=0: beta is 0" in said


def test_a_picture_that_cannot_be_drawn_does_not_hide_the_results(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study.write_text(TOML.replace("count = 3", "count = 2") + "until = [1, 2]\nn = [4, 5]\ngamma = [0.3, 0.4]\n")
    assert sweep(study) == 0
    said = capsys.readouterr().out
    assert "clusters  " in said
    assert "plot      none: " in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("[over]", "[ower]"), "the file has no axes"),
        (("[over]", "[[over]]"), "write [over] in single brackets"),
        (("seed = {count = 4}", "seed = [3, 4, 3]"), "has the value 3 more than once"),
        (("seed = {count = 4}", "sead = {count = 4}"), "is 'seed' meant"),
        (('"diameter"', '"diametre"'), "is 'diameter' meant"),
        (('measure = ["diameter", {name = "clusters", tol = 0.1}]', ""), "what is measured"),
        (("until = 12", "until = 12\noutput = 3"), "expected a table [output]"),
        (("[over]", "[output]\nshop = 'a.zarr'\n[over]"), "unknown key 'shop'"),
        (("until = 12", "until = 12\nuntill = 3"), "unknown key 'untill'"),
    ],
)
def test_refusals(study: Path, change: tuple[str, str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    study.write_text(TOML.replace(*change))
    assert sweep(study) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.startswith("attnflow: ")
    assert said.count("\n") == 1


def test_refusals_before_anything_runs(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep("none.toml") == 2
    assert sweep(study, "--plot", "picture.txt") == 2
    said = capsys.readouterr().err.splitlines()
    assert "cannot be read" in said[0]
    assert "ends in .txt" in said[1]
    assert sorted(path.name for path in study.parent.iterdir()) == ["study.toml"]


def test_ctrl_c_says_how_to_go_on(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("attnflow.app.sweep_command.run_missing", interrupted)
    assert sweep(study) == 2
    assert "the same command goes on" in capsys.readouterr().err


def test_the_example_of_the_help_is_a_sweep(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = SWEEP_EXAMPLE.partition("\n\n")[2].replace("count = 16", "count = 2").replace("count = 20", "count = 2")
    study.write_text(lines)
    assert sweep(study, "--dry-run") == 0
    assert "4 (2 beta x 2 seed)" in capsys.readouterr().out


def test_a_dry_run_does_not_take_compiling_for_computing(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def timed(work: Work, cells: list[int]) -> Batch:
        batches.append(cells)
        return Batch(work(cells), 60.0 if len(batches) == 1 else 0.001 * len(cells), 0, "one")

    batches: list[list[int]] = []
    monkeypatch.setattr("attnflow.sweeps.study.timed", timed)
    assert sweep(study, "--dry-run") == 0
    assert batches[:2] == [[0], [0]]
    assert "time      less than a second\n" in capsys.readouterr().out


def test_cells_without_a_finite_number_are_counted(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study.write_text(TOML.replace('"diameter"', '{name = "merge_times", left = 2}'))
    assert sweep(study, "--no-plot") == 0
    with xarray.open_zarr("study.zarr", consolidated=False) as stored:
        times = stored.merge_times.values
    known = times[np.isfinite(times)]
    assert 0 < known.size < 12
    said = capsys.readouterr().out
    row = (
        f"{known.min():.6g} to {known.max():.6g}, mean {known.mean():.6g}; {12 - known.size} of 12 cells gave no finite"
    )
    assert row in said


def test_a_sweep_without_any_number_says_so() -> None:
    assert _range(np.full((3, 2), np.nan)) == "none of 3 cells gave a finite number"
