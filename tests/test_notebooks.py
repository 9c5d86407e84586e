"""The notebooks of the documentation run from top to bottom, and show what is stored in them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

from larger import larger

from tools import notebooks

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
# Bytes of a stored notebook, at most.
MOST_BYTES = 300_000


def test_the_five_are_there() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["emergence", "first_steps", "frank_wolfe", "sweep", "transformer"]


# One is enough to see that notebooks run and are compared; the others are run by `make test-all`.
SHORT = ("first_steps",)
RUN = [pytest.param(path, id=path.stem, marks=() if path.stem in SHORT else larger) for path in NOTEBOOKS]


@pytest.mark.parametrize("path", RUN)
def test_a_notebook_shows_what_is_stored(path: Path) -> None:
    again = notebooks.executed(path)
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert notebooks.texts(again) == notebooks.texts(stored)
    assert any("picture" in shown for shown in notebooks.texts(stored))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_notebook_is_small_and_says_nothing_of_a_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    stored = json.loads(text)
    assert len(text.encode()) < MOST_BYTES
    assert stored == notebooks.cleaned(stored)
    code = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    words = re.sub(r'"image/png": "[^"]*"', "", text)
    assert re.findall(r"/(?:home|tmp|usr|Users)/\S*|\b\d+\.\d+\.\d+\.\d+\b|Traceback|Warning", words) == []


def test_what_a_notebook_shows_is_compared(tmp_path: Path) -> None:
    """A notebook whose stored output is wrong would be seen."""
    cell = {"cell_type": "code", "execution_count": 1, "id": "a", "metadata": {}, "source": "print(1 + 1)"}
    stored = {"output_type": "stream", "name": "stdout", "text": "3\n"}
    wrong = {"cells": [cell | {"outputs": [stored]}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path = tmp_path / "wrong.ipynb"
    path.write_text(json.dumps(wrong))
    assert notebooks.texts(wrong) == [["3\n"]]
    assert notebooks.texts(notebooks.executed(path)) == [["2\n"]]
