"""Null models: norms and entries as promised, seeds, shared blocks, parts left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.checkpoints.nulls import null, without

MATRICES = ("Q", "K", "V", "O")
BIASES = ("b_Q", "b_K", "b_V", "b_O")


def block(seed: int, norm: str = "pre", dtype: Any = np.float64, **options: Any) -> af.Block:
    """A block of four heads with two groups of keys, all biases, and a gated feed-forward layer."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> Any:
        return (rng.standard_normal(shape) * rng.uniform(0.2, 2, shape[:1] + (1,) * (len(shape) - 1))).astype(dtype)

    heads = af.Attention(
        draw(4, 3, 8), draw(2, 3, 8), draw(2, 3, 8), draw(4, 8, 3), draw(4, 3), draw(2, 3), draw(2, 3), draw(8),
        causal=True,
    )  # fmt: skip
    layer = af.Perceptron(draw(12, 8), draw(8, 12), draw(12), draw(8), draw(12, 8), draw(12), activation="silu")
    norms = af.Norm("rms", gain=draw(8))
    return af.Block(heads, norm, layer, norms, **options)


X = np.random.default_rng(5).standard_normal((6, 8))


@pytest.mark.parametrize("kind", ["gaussian", "shuffled"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_matrix_keeps_what_it_should(kind: str, dtype: Any) -> None:
    first, second = block(0, dtype=dtype), block(1, dtype=dtype)
    trained = af.Transformer([first, second, first])
    found = null(trained, kind, seed=3)
    assert found.blocks[0] is found.blocks[2]
    for old, new in zip(trained.blocks[:2], found.blocks[:2], strict=True):
        assert new.norms is old.norms
        a: Any = old.heads
        b: Any = new.heads
        pairs = [
            (getattr(a, n)[h], getattr(b, n)[h]) for n in (*MATRICES, *BIASES[:3]) for h in range(len(getattr(a, n)))
        ]
        pairs += [(a.b_O, b.b_O)]
        pairs += [
            (getattr(old.feed_forward, n), getattr(new.feed_forward, n))
            for n in ("up", "down", "gate", "b_up", "b_down", "b_gate")
        ]
        for was, now in pairs:
            assert now.dtype == dtype
            assert now.size < 8 or not np.array_equal(was, now)
            if kind == "shuffled":
                assert np.array_equal(np.sort(now.ravel()), np.sort(was.ravel()))
            else:
                assert np.linalg.norm(now) == pytest.approx(np.linalg.norm(was), rel=1e-6)
        assert (b.scale, b.causal) == (a.scale, True)
    again, other = null(trained, kind, seed=3), null(trained, kind, seed=4)
    assert np.array_equal(af.simulate(X, found).final, af.simulate(X, again).final)
    assert not np.allclose(af.simulate(X, found).final, af.simulate(X, other).final)


def test_gaussian_entries_are_normal() -> None:
    heads: Any = block(0).heads
    weights: dict[str, Any] = {name: np.repeat(getattr(heads, name), 200, axis=0) for name in MATRICES}
    wide = af.Attention(**weights)
    Q: Any = null(af.Transformer([af.Block(wide)]), "gaussian").blocks[0].heads
    scaled = (Q.Q / np.linalg.norm(wide.Q, axis=(1, 2), keepdims=True)).ravel() * np.sqrt(24)
    # A coordinate of a uniform direction in R^24, times sqrt(24), has kurtosis 3 * 24 / 26.
    assert abs(scaled.mean()) < 0.03
    assert abs((scaled**2).mean() - 1) < 1e-9
    assert abs((scaled**4).mean() - 72 / 26) < 0.15


@pytest.mark.parametrize("norm", ["pre", "post", "both", "none"])
def test_parts_are_left_out(norm: str) -> None:
    one = block(2, norm) if norm != "none" else af.Block(block(2).heads, "none", block(2).feed_forward)
    trained = af.Transformer([one])
    A: Any = one.heads.attend
    F: Any = one.feed_forward
    N: Any = one.norms if one.norms else (None,) * 4

    def after(what: str) -> Any:
        return af.simulate(X, without(trained, what)).final

    if norm in ("pre", "none"):
        N = N if norm == "pre" else (lambda x: x,) * 2
        assert np.allclose(after("mlp"), X + A(N[0](X)))
        assert np.allclose(after("attention"), X + F(N[1](X)))
        assert np.allclose(after("skips"), F(N[1](A(N[0](X)))))
    elif norm == "post":
        assert np.allclose(after("mlp"), N[0](X + A(X)))
        assert np.allclose(after("attention"), N[1](N[0](X) + F(N[0](X))))
        assert np.allclose(after("skips"), N[1](F(N[0](A(X)))))
    else:
        assert np.allclose(after("mlp"), X + N[1](A(N[0](X))))
        assert np.allclose(after("attention"), X + N[3](F(N[2](X))))


def test_parallel_blocks_and_shared_blocks() -> None:
    one = block(3, parallel=True)
    trained = af.Transformer([one, one])
    A: Any = one.heads.attend
    N: Any = one.norms
    assert np.allclose(af.simulate(X, without(trained, "mlp"), until=1).final, X + A(N[0](X)))
    for what in ("mlp", "attention", "skips"):
        found = without(trained, what)
        assert found.blocks[0] is found.blocks[1]
    assert np.array_equal(null(without(trained, "attention"), "gaussian").blocks[0].heads.O, np.zeros((4, 8, 3)))  # type: ignore[attr-defined]


def test_refusals() -> None:
    law = af.Transformer([af.Block(af.Softmax())])
    with refused("a null model needs heads with weights"):
        null(law, "gaussian")
    with refused("needs heads with weights"):
        without(law, "attention")
    trained = af.Transformer([block(0)])
    with refused("expected one of"):
        null(trained, "normal")
    with refused("expected one of"):
        without(trained, "heads")
    with refused("seed is -1"):
        null(trained, "gaussian", seed=-1)
    with refused("whose weights are not known"):
        null(af.Transformer([af.Block(block(0).heads, feed_forward=np.tanh)]), "shuffled")
