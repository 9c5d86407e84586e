"""What needs a library that is not installed says which, and how to install it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import attnflow as af
from attnflow.checkpoints import texts

RUN = af.simulate([[1.0], [0.0]], af.Softmax(), af.Layers(gamma=0.5), until=2)
CASES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "xarray": (lambda folder: RUN.to_xarray(), "this needs xarray: pip install 'attnflow[store]'"),
    "pandas": (lambda folder: RUN.to_pandas(), "to_pandas needs pandas: pip install 'attnflow[store]'"),
    "zarr": (lambda folder: RUN.save(folder / "run.zarr"), "storing runs needs Zarr: pip install 'attnflow[store]'"),
    "tokenizers": (
        lambda folder: texts._library(),
        "reading a text needs tokenizers: pip install 'attnflow[checkpoints]'",
    ),
}


@pytest.mark.parametrize("library", CASES)
def test_a_sentence_says_how_to_install_what_is_missing(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    call, sentence = CASES[library]
    with refused(sentence):
        call(tmp_path)
