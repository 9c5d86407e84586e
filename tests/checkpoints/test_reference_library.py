"""Models that the reference library makes anew, where it is: `make test-reference` sets it up.

The variable ATTNFLOW_REFERENCE names a Python with torch and transformers. Without it, the tests of test_checkpoints.py
hold against what the same script stored.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from make_fixtures import MODELS
from small_models import FIXTURES, apart

import attnflow as af

PYTHON = os.environ.get("ATTNFLOW_REFERENCE")
pytestmark = pytest.mark.skipif(PYTHON is None, reason="no reference library: make test-reference")
SCRIPT = Path(__file__).with_name("make_fixtures.py")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of dimension 256 and 128 tokens in the folder "wide", and the small ones of the fixtures."""
    folder = tmp_path_factory.mktemp("reference")
    for place, factor in ((folder / "wide", "16"), (folder / "small", "1")):
        place.mkdir()
        subprocess.run([str(PYTHON), SCRIPT, place, factor], check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_wide_models(made: Path, name: str) -> None:
    model = af.checkpoints.load(made / "wide" / name)
    with np.load(made / "wide" / name / "reference.npz") as expected:
        ids, states, attention = expected["ids"], expected["states"], expected["attention"]
    run = model.run(ids)
    assert len(ids) == 128
    assert apart(run.tokens, states) < 1e-12
    assert apart(model.run(ids, precision="single").tokens, states) < 1e-5
    for layer in model.layers:
        seen = run.seen(layer.index)
        tokens = np.column_stack([seen, np.ones(len(seen))]) if getattr(layer.block.heads, "lifts", False) else seen
        for head in layer.heads:
            assert np.abs(head.law().weights(tokens) - attention[layer.index, head.index]).max() < 1e-12


@pytest.mark.parametrize("name", MODELS)
def test_stored_fixtures_are_what_the_script_makes(made: Path, name: str) -> None:
    with np.load(made / "small" / name / "reference.npz") as new, np.load(FIXTURES / name / "reference.npz") as stored:
        assert all(np.allclose(new[key], stored[key], rtol=1e-12, atol=1e-12) for key in stored)
