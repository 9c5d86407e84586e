"""Figures of trained weights: of the packaged ALBERT where it is, and else of a model that is said to be random."""

from __future__ import annotations

from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnflow.figures.gallery import chosen, named, trained

pytestmark = pytest.mark.usefixtures("figures_closed")
# Fewer null models and iterations than in the gallery.
FEWER: dict[str, dict[str, Any]] = {
    "trained/by-layer": {"nulls": 2},
    "trained/cosines": {"layers": (0, 3), "heads": 2},
    "trained/cosines-as-published": {"layers": (0, 5), "heads": 4},
    "trained/iterated": {"nulls": 2, "moved": 1, "until": 20, "every": 10},
    "trained/spectra": {"nulls": 1},
}


def drawn(name: str) -> Any:
    """Draw a figure from fewer null models, with all that is written in it."""
    entry = named(name)
    drawing = replace(entry, parameters={**entry.parameters, **FEWER.get(name, {})}).draw()
    figure: Any = drawing.figure
    titles = [ax.get_title() for ax in figure.axes] + [figure.get_suptitle()]
    return drawing, " ".join([*titles, *(text.get_text() for key in figure.legends for text in key.get_texts())])


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of three layers with two heads in dimension 8, and no package with weights."""
    for name, size in {"LAYERS": 3, "HEADS": 2, "SIZE": 4, "DIMENSION": 8, "WIDE": 16}.items():
        monkeypatch.setattr(trained, name, size)
    monkeypatch.setattr(trained, "find_spec", lambda name: None)


@pytest.mark.parametrize("name", chosen(["trained"]))
def test_a_model_that_is_not_trained_is_said_to_be_random_beside_its_null(name: str) -> None:
    drawing, written = drawn(name)
    assert "NO trained model" in drawing.caption
    assert "random weights, no trained model" in written
    assert "null" in written
    assert "seed" in drawing.caption
    if name == "trained/by-layer":
        own, *nulls = (values for what, values in drawing.shows.items() if what.startswith("mean cosine"))
        assert [len(each) for each in (own, *nulls)] == [4, 4, 4]
        assert own[0] == nulls[0][0] != nulls[0][-1] != nulls[1][-1]


def test_the_weights_are_those_of_the_package_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read = []

    def load(folder: Path) -> Any:
        read.append(folder)
        return trained._random(0)

    folder = tmp_path / trained.FOLDER
    folder.mkdir(parents=True)
    words = sorted(set(trained.REACTION))
    (folder / "vocab.txt").write_text("\n".join(words))
    spec = ModuleSpec("rxnmapper", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(trained, "find_spec", lambda name: spec)
    monkeypatch.setattr("attnflow.checkpoints.load", load)
    shown = trained.model(0)
    assert read == [folder]
    assert [words[k] for k in shown.ids] == trained.REACTION
    assert shown.name == "trained"
    assert "NO trained model" not in shown.said


def test_weights_cut_into_as_many_heads_are_the_same_and_into_others_are_not() -> None:
    law = trained._random(0).blocks[0].heads
    x = np.random.default_rng(0).standard_normal((5, 8))
    assert np.allclose(trained._regrouped(law, 2).attend(x), law.attend(x), atol=1e-12)
    four = trained._regrouped(law, 4)
    # Without scores every head hears the mean, however many heads there are.
    flat = [replace(one, Q=0 * one.Q) for one in (law, four)]
    assert np.allclose(flat[0].attend(x), flat[1].attend(x), atol=1e-12)
    assert four.Q.shape == (4, 2, 8)
    assert not np.allclose(four.attend(x), law.attend(x), atol=1e-3)
