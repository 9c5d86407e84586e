"""Stores that were changed by others: each is refused in one sentence that says what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import attnflow as af
from attnflow.runs.store import CHECKPOINT, FORMAT

zarr = pytest.importorskip("zarr")
START = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A run of three layers in a store."""
    af.simulate(START, af.Softmax(), af.Layers(gamma=0.5), until=3).save(tmp_path / "run.zarr")
    return tmp_path / "run.zarr"


def test_a_format_of_later_versions(stored: Path) -> None:
    group = zarr.open_group(stored, mode="r+")
    group.attrs["attnflow"] = {**group.attrs["attnflow"], "format": FORMAT + 1}
    with refused(f"has format {FORMAT + 1}, this version reads {FORMAT}: use the version that wrote it"):
        af.load(stored)


def test_times_that_are_fewer_than_tokens(stored: Path) -> None:
    zarr.open_group(stored, mode="r+")["time"].resize((2,))
    with refused("is damaged: its times and tokens have different lengths"):
        af.load(stored)


def test_a_checkpoint_that_cannot_be_read(tmp_path: Path, dies: Any) -> None:
    asked: Any = (START, af.Softmax(), af.Flow(), 3.0)
    path = tmp_path / "run.zarr"
    with pytest.raises(KeyboardInterrupt):
        af.simulate(*asked, store=path, watch=[af.watch.Checkpoint(seconds=0), dies(3)])
    (path / CHECKPOINT).write_bytes(b"no numbers")
    with refused(r"the checkpoint in .* cannot be read \(.*\): remove .* and start anew"):
        af.simulate(*asked, store=path)
