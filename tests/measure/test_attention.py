"""Leaders, influence, entropy and rank against the attention matrix itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refused
from scipy.stats import entropy as scipy_entropy

import attnflow as af
from attnflow.core import blocks as block_module

m = af.measure
LAWS = [af.Softmax(beta=3.0), af.Hardmax(), af.Hardmax(ties="points"), af.Localmax(delta=0.2), af.HegselmannKrause(0.9)]


@pytest.fixture(params=[block_module.BLOCK, 100], ids=["one block", "many blocks"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_module, "BLOCK", request.param)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("masses", [None, np.arange(1.0, 41.0)], ids=["alike", "masses"])
@pytest.mark.usefixtures("blocks")
def test_influence_and_entropy_are_read_off_the_matrix(law: af.Law, masses: Any) -> None:
    x = af.tokens.gaussian(n=40, d=2, seed=0)
    x[7] = x[3]
    P = law.weights(x, masses=masses)
    for threshold in (0.0, 1e-4, 0.05):
        edges = {(i, j) for i in range(40) for j in range(40) if i != j and P[i, j] > threshold}
        found = m.influence(law, x, threshold=threshold, masses=masses)
        assert found.tolist() == [list(edge) for edge in sorted(edges)]
    np.testing.assert_allclose(m.entropy(law, x, masses=masses), scipy_entropy(P, axis=1), rtol=1e-12, atol=1e-15)


def test_influence_of_one_token_is_an_empty_graph() -> None:
    assert m.influence(af.Softmax(), [[1.0]]).shape == (0, 2)
    assert m.entropy(af.Softmax(), [[1.0]]).tolist() == [0.0]


def test_entropy_counts_tokens() -> None:
    """A crowd at one point is heard as n tokens; one token with the mass of the crowd as one."""
    assert m.entropy(af.Hardmax(), [[1.0]] * 5) == pytest.approx(np.log(5))
    assert m.entropy(af.Hardmax(ties="points"), [[1.0]] * 5).tolist() == [0.0] * 5
    x, copies = np.array([[0.6], [0.5], [-0.2]]), np.array([1, 7, 2])
    law = af.Softmax(beta=2.0)
    split = m.entropy(law, np.repeat(x, copies, axis=0))[[0, 1, 8]]
    by_mass = m.entropy(law, x, masses=copies)
    np.testing.assert_allclose(split, by_mass + law.weights(x, masses=copies) @ np.log(copies), rtol=1e-12)


@pytest.mark.parametrize("gap", [1.0, 30.0, 50.0, 300.0, 800.0, 1e6])
def test_entropy_is_accurate_where_weights_underflow(gap: float) -> None:
    """Two scores that differ by g: H = log(1 + e^{-g}) + g / (1 + e^g), to relative accuracy."""
    found = m.entropy(af.Softmax(beta=gap), [[1.0], [0.0]])
    exact = np.log1p(np.exp(-gap)) + gap * np.exp(-gap) / (1 + np.exp(-gap))
    assert found[0] == pytest.approx(exact, rel=1e-12, abs=0)
    assert found[1] == pytest.approx(np.log(2), rel=1e-15)


def test_leaders_at_ties_are_the_first() -> None:
    x = [[1.0, 1.0], [1.0, -1.0], [0.5, 0.0], [1.0, 1.0]]
    found = m.leaders(af.Hardmax(), x)
    assert found.index.tolist() == [0, 1, 0, 0]
    np.testing.assert_allclose(found.heard, np.array([1 + 1 / 3, 1 + 1 / 3, 0, 1 + 1 / 3]) / 4, rtol=1e-12)


def test_rank_over_time_falls_as_tokens_merge() -> None:
    run = af.simulate([[0.2], [0.1], [-0.3]], af.Softmax(), af.Layers(gamma=1.0), until=4)
    values = m.rank(run, tol=1e-6).value
    assert values[0] == np.linalg.matrix_rank(af.Softmax().weights(run.tokens[0])) == 3
    assert values[-1] == 1
    assert m.rank(np.zeros((2, 2))).value == 0


MEASURES: list[Callable[..., Any]] = [m.leaders, m.influence, m.entropy]


@pytest.mark.parametrize("measure", MEASURES)
def test_laws_and_tokens_are_checked(measure: Callable[..., Any]) -> None:
    for law, sentence in (
        (None, "the law is None"),
        ("softmax", "law is 'softmax', expected a law such as"),
    ):
        with refused(sentence):
            measure(law, [[1.0]])
    with refused("leave the range of float64"):
        measure(af.Softmax(B=[[1e20]]), [[1e150], [-1e150]])
    with refused("expected \\(2,\\)"):
        measure(af.Softmax(), [[1.0], [2.0]], masses=[1.0])


def test_thresholds_and_influence_graphs_of_heads_are_refused() -> None:
    with refused("threshold is -1"):
        m.influence(af.Softmax(), [[1.0]], threshold=-1)
    with refused("one by one: ask for the influence graphs of each law of the heads"):
        m.influence(af.Heads([af.Softmax(), af.Hardmax()]), [[1.0]])


def test_rank_at_the_largest_tolerance() -> None:
    """Products beyond float64 are infinite, not a warning."""
    assert m.rank(5 * np.eye(2), tol=1e308).value == 0
    assert m.rank([[1e-200, 0.0], [0.0, 1e-220]], tol=1e-10).value == 1
