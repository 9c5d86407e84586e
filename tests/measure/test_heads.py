"""Attention of heads and of layers, cosines and ranks: against loops over pairs, and closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from refusals import refused

import attnflow as af
from attnflow.core import blocks as block_module
from attnflow.measure.by_name import Measurement

Array = NDArray[np.float64]
m = af.measure


def heads(seed: int, count: int = 3, **options: Any) -> af.Attention:
    rng = np.random.default_rng(seed)
    Q, K, V = rng.standard_normal((3, count, 2, 4))
    return af.Attention(Q, K, V, rng.standard_normal((count, 4, 2)), **options)


X = np.random.default_rng(9).standard_normal((7, 4))
LAWS = [heads(0), heads(1, causal=True), af.Heads([af.Softmax(beta=2.0), af.Hardmax(), af.Softmax(beta=0.0)])]


@pytest.mark.parametrize("law", LAWS, ids=["heads", "causal heads", "laws"])
@pytest.mark.parametrize("block", [block_module.BLOCK, 30], ids=["one block", "many blocks"])
def test_heads_are_measured_one_by_one(law: af.Law, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_module, "BLOCK", block)
    masses = np.arange(1.0, 8.0)
    P = law.weights(X, masses=masses)
    led, entropy = m.leaders(law, X, masses=masses), m.entropy(law, X, masses=masses)
    assert led.index.shape == led.heard.shape == entropy.shape == (3, 7)
    assert np.array_equal(led.count, [len(set(p.argmax(axis=1))) for p in P])
    assert led.distinct.tolist() == sorted({int(j) for p in P for j in p.argmax(axis=1)})
    for h, i in np.ndindex(3, 7):
        column = sum(masses[k] * P[h, k, i] for k in range(7)) / masses.sum()
        assert math.isclose(led.heard[h, i], column, rel_tol=1e-12)
        assert led.index[h, i] == P[h, i].argmax()
        loop = -sum(p * math.log(p) for p in P[h, i] if p > 0)
        assert math.isclose(entropy[h, i], loop, rel_tol=1e-10, abs_tol=1e-14)


@pytest.fixture(scope="module")
def run() -> af.Trajectory:
    blocks = [af.Block(heads(k), norm="pre", norms=af.Norm("rms", gain=np.arange(1.0, 5.0))) for k in range(5)]
    return af.simulate(X, af.Transformer(blocks))


def test_attention_of_a_transformer_is_that_of_its_layers(run: af.Trajectory) -> None:
    """Of the states 0 to L - 1, each after the norm of its block; the state after the last layer is left out."""
    blocks = run.motion.blocks  # type: ignore[union-attr]
    P = np.stack([block.heads.weights(block.attended(x)) for block, x in zip(blocks, run.tokens[:-1], strict=True)])
    entropy, led, rank = m.entropy(run.law, run), m.leaders(run.law, run), m.rank(run, tol=0.1)
    np.testing.assert_allclose(entropy, -(P * np.log(P)).sum(axis=-1), rtol=1e-10, atol=1e-14)
    np.testing.assert_array_equal(led.index, P.argmax(axis=-1))
    np.testing.assert_allclose(led.heard, P.mean(axis=2), rtol=1e-12)
    assert led.count.shape == rank.value.shape == (5, 3)
    singular = np.linalg.svd(P, compute_uv=False)
    np.testing.assert_allclose(rank.singular_values, singular, atol=1e-13)
    np.testing.assert_array_equal(rank.value, (singular > 0.1 * singular[..., :1]).sum(axis=-1))
    stable = [[np.sum(p**2) / np.linalg.norm(p, 2) ** 2 for p in layer] for layer in P]
    np.testing.assert_allclose(m.stable_rank(run, of="attention"), stable, rtol=1e-12)
    assert m.effective_rank(run, of="attention").shape == (5, 3)
    assert m.effective_rank(run).shape == m.stable_rank(run).shape == m.mean_cosine(run).shape == (6,)
    by_name = {name: Measurement(name)(run) for name in ("entropy", "leaders", "rank", "mean_cosine", "stable_rank")}
    assert math.isclose(by_name["entropy"], entropy[-1].mean())
    assert by_name["leaders"] == led.count[-1].mean()
    assert by_name["rank"] == m.rank(run).value[-1].mean()
    assert by_name["mean_cosine"] == m.mean_cosine(run)[-1]
    assert by_name["stable_rank"] == m.stable_rank(run)[-1]
    last = Measurement("effective_rank", {"of": "attention"})(run)
    assert math.isclose(last, m.effective_rank(run, of="attention")[-1].mean())


def test_a_layer_that_is_iterated_or_stopped_early_is_measured_at_every_state(run: af.Trajectory) -> None:
    motion: Any = run.motion
    assert m.entropy(run.law, af.simulate(X, motion, until=3)).shape == (4, 3, 7)
    again = af.simulate(X, motion.iterate(1), until=8)
    assert m.leaders(again.law, again).heard.shape == (9, 3, 7)


def test_layers_with_different_numbers_of_heads() -> None:
    run = af.simulate(X, af.Transformer([af.Block(heads(0)), af.Block(heads(1, count=2))]))
    with refused("2, 3 heads, expected equally many"):
        m.entropy(run.law, run)
    assert m.leaders(run.law, run)[1].heard.shape == (2, 7)


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("masses", [None, np.arange(1.0, 8.0)], ids=["alike", "masses"])
def test_cosines_against_loops_over_pairs(diagonal: bool, masses: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_module, "BLOCK", 20)
    w = np.ones(7) if masses is None else masses
    pairs = [(i, j) for i in range(7) for j in range(7) if diagonal or i != j]
    cosines = np.array([X[i] @ X[j] / math.sqrt(X[i] @ X[i] * (X[j] @ X[j])) for i, j in pairs])
    weights = np.array([w[i] * w[j] for i, j in pairs]) / sum(w[i] * w[j] for i, j in pairs)
    found = m.cosine_histogram(X * 1e-140, bins=8, diagonal=diagonal, masses=masses)
    assert math.isclose(m.mean_cosine(X, diagonal=diagonal, masses=masses), cosines @ weights, rel_tol=1e-12)
    assert math.isclose(found.mean, cosines @ weights, rel_tol=1e-12)
    inside = [weights[(a <= cosines) & (cosines < a + 0.25 + (a == 0.75))].sum() for a in found.edges[:-1]]
    np.testing.assert_allclose(found.share, inside, atol=1e-14)


def equiangular(n: int, rho: float) -> Array:
    """Return n unit vectors whose cosines are rho."""
    found: Array = np.linalg.cholesky((1 - rho) * np.eye(n) + rho).astype(np.float64)
    return found


@pytest.mark.parametrize("rho", [-0.2, 0.0, 0.3, 0.999])
def test_equiangular_tokens(rho: float) -> None:
    """The Gram matrix has the eigenvalues 1 + (n - 1) rho, once, and 1 - rho, n - 1 times."""
    n = 5
    x = equiangular(n, rho) * np.arange(1.0, 6.0)[:, None]
    assert math.isclose(m.mean_cosine(x), rho, abs_tol=1e-14)
    assert math.isclose(m.mean_cosine(x, diagonal=True), (1 + (n - 1) * rho) / n, abs_tol=1e-14)
    histogram = m.cosine_histogram(x, bins=7)
    assert histogram.share[int((rho + 1) / 2 * 7)] == pytest.approx(1.0)
    unit = equiangular(n, rho)
    values = np.array([1 + (n - 1) * rho] + [1 - rho] * (n - 1))
    assert math.isclose(m.stable_rank(unit), n / values.max(), rel_tol=1e-12)
    p = np.sqrt(values) / np.sqrt(values).sum()
    assert math.isclose(m.effective_rank(unit), math.exp(-p @ np.log(p)), rel_tol=1e-12)
    assert math.isclose(m.stable_rank(unit, centred=True), n - 1, rel_tol=1e-10)


def test_ranks_of_known_matrices() -> None:
    uniform, one = np.full((6, 6), 1 / 6), np.outer(np.ones(6), [0.5, 0.5, 0, 0, 0, 0])
    stack = np.stack([np.eye(6), uniform, one, np.zeros((6, 6))])
    for rank in (m.stable_rank, m.effective_rank):
        np.testing.assert_allclose(rank(stack), [6, 1, 1, 0], atol=1e-9)
        assert math.isclose(rank(np.eye(4) * 1e-200), 4)
        assert rank(np.ones((3, 2)), centred=True) == 0
    assert math.isclose(m.stable_rank(np.diag([2.0, 1.0])), 1.25)
    assert math.isclose(m.effective_rank(np.diag([3.0, 1.0])), 4 / 27**0.25)


def test_an_ensemble_is_measured_system_by_system() -> None:
    found = af.ensemble(np.stack([X, -2 * X + 1]), af.Softmax(), af.Layers(gamma=0.5), until=2)
    assert m.mean_cosine(found).shape == m.stable_rank(found, of="attention").shape == (2, 2)
    assert m.mean_cosine(found)[1, 1] == m.mean_cosine(found[1])[1]


def test_refusals() -> None:
    with refused("token 1 is 0 at time 0 and has no direction"):
        m.mean_cosine([[1.0], [0.0]])
    with refused("one token, which makes no pair"):
        m.cosine_histogram([[1.0]])
    assert m.mean_cosine([[1.0]], diagonal=True) == 1.0
    with refused("bins is 0"):
        m.cosine_histogram(X, bins=0)
    with refused("of='attention' came with an array"):
        m.stable_rank(X, of="attention")
    with refused("expected one of"):
        m.effective_rank(X, of="P")
    for wrong in ([1.0, 2.0], [[np.nan, 1.0]]):
        with refused("expected finite numbers"):
            m.stable_rank(wrong)
    run = af.simulate([[1.0], [2.0]], af.Softmax(), af.Layers(gamma=0.5), until=2)
    run.law = None
    with refused("loaded without its law"):
        m.stable_rank(run, of="attention")


def test_heads_are_counted_without_making_their_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each law of a head of `Attention` has a matrix (d, d); no measurement of all heads needs it, and none is kept."""
    Q, K, V = np.random.default_rng(0).standard_normal((3, 2, 3, 4))
    law = af.Attention(Q, K, V, V.swapaxes(1, 2))
    assert [one.head_count for one in (law, af.Softmax(), af.Heads([af.Softmax()] * 3))] == [2, 0, 3]
    assert af.laws.ByLayer([af.Softmax(), law]).head_count == 2
    assert law.heads[0] is not law.heads[0]
    run = af.simulate(np.eye(4), af.Transformer([af.Block(law)] * 2))

    def none(self: object, h: int) -> None:
        raise AssertionError("the law of a head was made")

    monkeypatch.setattr(af.Attention, "head", none)
    assert af.measure.entropy(run.law, run).shape == (2, 2, 4)
    assert len(af.measure.leaders(run.law, run)) == 2
    assert af.measure.summary(run).leaders is None
