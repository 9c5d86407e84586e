"""Pictures of heads show their spectra and their attention."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib
import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow import figures

matplotlib.use("Agg")
pytestmark = pytest.mark.usefixtures("figures_closed")
FIXTURES = Path(__file__).parents[1] / "checkpoints" / "fixtures"
RNG = np.random.default_rng(0)


def heads(*matrices: Any) -> list[Any]:
    """Heads by their matrices B and V."""
    return [SimpleNamespace(B=np.array(B), V=np.array(V)) for B, V in matrices]


def marks(ax: Any, gid: str) -> list[Any]:
    """The marks of a panel by their name."""
    return [mark for mark in (*ax.lines, *ax.collections, *ax.images, *ax.patches) if mark.get_gid() == gid]


def test_spectra_are_those_of_v_and_of_the_symmetric_part_of_b() -> None:
    turn = [[0.0, -2.0, 0], [2.0, 0.0, 0], [0, 0, 1.0]]
    given = heads(([[3.0, 4, 0], [-4.0, -1, 0], [0, 0, 1]], np.diag([2.0, 1.0, 0.0])), (-np.eye(3), turn))
    nulls = [heads((np.diag([c, -c, 0]), c * np.eye(3)), (np.eye(3), np.eye(3))) for c in (1.0, 2.0)]
    upper, lower, other, below = figures.head_spectra(given, nulls).axes
    # Two eigenvalues: that of the kernel is left out.
    assert sorted(marks(upper, "values")[0].get_offsets()[:, 0]) == pytest.approx([1.0, 2.0])
    (dominant,) = marks(upper, "dominant")
    assert dominant.get_offsets().tolist() == [[2.0, 0.0]]
    assert len(dominant.get_facecolors()) == 1
    # A complex pair is marked by two rings, none of them filled.
    (pair,) = marks(other, "dominant")
    assert sorted(pair.get_offsets()[:, 1].tolist()) == pytest.approx([-2.0, 2.0])
    assert len(pair.get_facecolors()) == 0
    # The antisymmetric part of B is not seen: eigenvalues 3, 1 and -1.
    assert marks(lower, "plus")[0].get_ydata() == pytest.approx([3.0, 1.0])
    assert marks(lower, "minus")[0].get_ydata() == pytest.approx([1.0])
    assert [text.get_text() for text in lower.texts] == ["plus 0.80\nnull 0.50"]
    assert [text.get_text() for text in below.texts] == ["plus 0.00\nnull 1.00"]
    band = marks(lower, "null")[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (1.0, 2.0)
    with refused("2 heads came with null models of"):
        figures.head_spectra(given, [given[:1]])


def test_heads_of_a_checkpoint_have_the_numbers_of_the_table() -> None:
    """Of BERT, whose norms come after: the gain of the layer below is folded in, and means are left out."""
    model = af.checkpoints.load(FIXTURES / "bert")
    table = model.hypotheses(nulls="gaussian", seeds=[3])
    axes: Any = figures.head_spectra(model.layers[1].heads, [model.null("gaussian", seed=3).layers[1].heads]).axes
    for h, lower in enumerate(axes[1::2]):
        numbers = table["plus"][1, h], table.nulls["gaussian"]["plus"][0, 1, h]
        assert lower.texts[0].get_text() == "plus {:.2f}\nnull {:.2f}".format(*numbers)
        values = table["eigenvalues_B"][1, h]
        assert marks(lower, "plus")[0].get_ydata() == pytest.approx(values[values > 1e-9])


def test_a_head_that_scores_nothing_has_no_share() -> None:
    silent = heads((np.zeros((2, 2)), np.zeros((2, 2))))
    assert figures.head_spectra(silent, [silent]).axes[1].texts[0].get_text() == "plus -"
    other = heads((np.eye(2), np.eye(2)))
    assert figures.head_spectra(silent, [silent, other]).axes[1].texts[0].get_text() == "plus -\nnull 1.00"
    with refused("there is no head"):
        figures.head_spectra([])


def test_the_map_of_a_head_is_the_attention_that_its_layer_computes() -> None:
    Q, K, V = RNG.standard_normal((3, 2, 4, 8))
    law = af.Attention(Q, K, V, RNG.standard_normal((2, 8, 4)), causal=True)
    run = af.simulate(RNG.standard_normal((5, 8)), af.Transformer([af.Block(law)] * 3))
    figure: Any = figures.attention_map(run, 2, 1, ["a", "b", "c", "d", "e"], {"again": run})
    above, _, ax, beside, *_ = figure.axes
    y = run.tokens[2] - run.tokens[2].mean(axis=1, keepdims=True)
    P = law.weights(y / np.sqrt(y.var(axis=1, keepdims=True) + 1e-5))[1]
    for panel in (ax, beside):
        np.testing.assert_allclose(marks(panel, "weights")[0].get_array(), P, atol=1e-12)
    leaders = marks(ax, "leaders")[0].get_offsets()
    assert leaders[:, 0].tolist() == P.argmax(axis=1).tolist()
    assert [bar.get_height() for bar in above.patches] == pytest.approx(P.sum(axis=0) / 5)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b", "c", "d", "e"]
    with refused("4 words came with 5 tokens"):
        figures.attention_map(run, words=["a"] * 4)
    with refused("layer is 3"):
        figures.attention_map(run, layer=3)
    with refused("head is 2"):
        figures.attention_map(run, head=2)
