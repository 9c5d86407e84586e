"""What is too large is refused in one sentence before it is made; here each limit is lowered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.checkpoints.files import open_tensors
from attnflow.explorer.stories import read_file
from attnflow.runs.lock import Lock

X = np.array([[1.0, 0.0], [-1.0, 0.5], [0.3, -1.2], [0.1, 0.1]])
RUN = af.simulate(X, af.Hardmax(), af.Layers(gamma=0.5), until=2)


def story(folder: Path) -> Any:
    (folder / "lesson.toml").write_text("name = 'long'")
    return read_file(folder / "lesson.toml")


def index(folder: Path) -> Any:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "1.safetensors"}}))
    return open_tensors(folder)


CASES: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "arcs": (
        "attnflow.geometry.quiescent.MOST_ARCS",
        lambda folder: af.geometry.quiescent_sets(af.Softmax(), X),
        "the influence graph of 4 tokens has more than 1 arcs: give fewer tokens",
    ),
    "cells": (
        "attnflow.figures.leading.MOST_CELLS",
        lambda folder: RUN.plot(cells=True),
        "cells are drawn for at most 1 vertices",
    ),
    "a file of netCDF": (
        "attnflow.runs.files.NETCDF_BYTES",
        lambda folder: RUN.save(folder / "run.nc"),
        "an array of a .nc file is smaller than 2 GiB, and this run is larger: save it as .zarr",
    ),
    "a story": ("attnflow.explorer.stories.LARGEST_FILE", story, "which no story is: give another file"),
    "an index": ("attnflow.checkpoints.files.shards.LARGEST_INDEX", index, "bytes is larger than 1"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_too_large_is_refused(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit, call, sentence = CASES[case]
    monkeypatch.setattr(limit, 1)
    with refused(sentence):
        call(tmp_path)


def test_a_folder_that_may_not_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *given: False)
    with refused("may not be written to: give another path"):
        af.figures.destination(tmp_path / "run.png")
    with refused("cannot be written to (No such file or directory): choose another place"):
        Lock(tmp_path / "nowhere")
