"""The small random models that the reference library saved (see make_fixtures.py), and copies with changes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

FIXTURES = Path(__file__).parent / "fixtures"


def reference(name: str) -> dict[str, Any]:
    with np.load(FIXTURES / name / "reference.npz") as found:
        return dict(found)


def apart(found: Any, expected: Any) -> float:
    """Return the largest error of a token, relative to its norm, over all states."""
    return float((np.linalg.norm(found - expected, axis=-1) / np.linalg.norm(expected, axis=-1)).max())


def changed(folder: Path, name: str, weights: Callable[[Any], Any] | None = None, **settings: Any) -> Path:
    """Copy a model with other weights or settings; None removes a setting."""
    shutil.copytree(FIXTURES / name, folder, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text()) | settings
    (folder / "config.json").write_text(json.dumps({key: one for key, one in config.items() if one is not None}))
    if weights is not None:
        save_file(weights(load_file(folder / "model.safetensors")), folder / "model.safetensors")
    return folder
