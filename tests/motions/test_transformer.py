"""Transformers: blocks against the other motions of the library, heads against laws, norms against formulas."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from refusals import refused

import attnflow as af
from attnflow.core.identity import digest
from attnflow.motions.blocks import ACTIVATIONS

Array = NDArray[np.float64]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 8))


def attention(seed: int = 1, groups: int = 2, **options: Any) -> Any:
    """Attention of four heads of size 4 in dimension 8, with all biases."""
    rng = np.random.default_rng(seed)
    shapes = {"Q": (4, 4, 8), "K": (groups, 4, 8), "V": (groups, 4, 8), "O": (4, 8, 4)}
    biases = {"b_Q": (4, 4), "b_K": (groups, 4), "b_V": (groups, 4), "b_O": (8,)}
    weights: dict[str, Any] = {name: rng.standard_normal(shape) for name, shape in (shapes | biases).items()}
    return af.Attention(**weights, **options)


def by_hand(law: Any, x: Array) -> Array:
    """Attention as loops over heads, tokens and sources say it."""
    out = np.zeros(x.shape)
    for h in range(len(law.Q)):
        g = h * len(law.K) // len(law.Q)
        for i in range(len(x)):
            heard = range(i + 1) if law.causal else range(len(x))
            weights = []
            for j in heard:
                q, k = law.Q[h] @ x[i] + law.b_Q[h], law.K[g] @ x[j] + law.b_K[g]
                if law.rope is not None:
                    q, k = turned(q, i, law.rope), turned(k, j, law.rope)
                weights.append(np.exp(q @ k * law.scale))
            values = [law.V[g] @ x[j] + law.b_V[g] for j in heard]
            out[i] += law.O[h] @ (np.array(weights) @ values / sum(weights))
    return out + law.b_O


def turned(point: Array, position: int, rope: tuple[float, ...]) -> Array:
    """Turn pairs of coordinates by complex numbers."""
    z = point[0 : 2 * len(rope) : 2] + 1j * point[1 : 2 * len(rope) : 2]
    z = z * np.exp(1j * position * np.array(rope))
    rest = point[2 * len(rope) :]
    return np.concatenate([np.column_stack([z.real, z.imag]).ravel(), rest])


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"rope": [0.3, 0.01], "causal": True}, {"rope": [0.7]}])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_attention_is_that_of_loops_and_of_the_laws_of_its_heads(options: Any, groups: int) -> None:
    law = attention(groups=groups, scale=0.2, **options)
    assert np.allclose(law.attend(X), by_hand(law, X), atol=1e-12)
    tokens = np.column_stack([X, np.ones(len(X))]) if law.lifts else X
    each = np.stack([head.weights(tokens) for head in law.heads])
    assert np.abs(law.weights(X) - each).max() < 1e-13
    heard = sum(law.value(h) @ (P @ X).T for h, P in enumerate(each)).T
    bias = sum(law.O[h] @ law.b_V[h * groups // 4] for h in range(4)) + law.b_O
    assert np.allclose(heard + bias, law.attend(X), atol=1e-12)


def test_a_token_with_a_mass_is_heard_like_copies() -> None:
    law = attention()
    masses = np.array([1.0, 2.0, 1.0, 1.0, 1.0, 3.0])
    copies = np.repeat(np.arange(6), masses.astype(int))
    assert np.allclose(law.attend(X, masses=masses)[[0, 5]], law.attend(X[copies])[[0, 6]], atol=1e-12)


def test_weights_stay_in_single_precision_until_they_are_used() -> None:
    law = attention()
    single = af.Attention(**{k: getattr(law, k).astype(np.float32) for k in ("Q", "K", "V", "O")})
    assert single.Q.dtype == np.float32
    assert single.attend(X).dtype == np.float64
    assert np.abs(single.hear(X.astype(np.float32)).mean - single.attend(X)).max() < 1e-4


def test_residual_layers_are_blocks_without_norms() -> None:
    law = af.Heads([af.Softmax(beta=2.0), af.Hardmax()], V=[np.eye(8), -np.eye(8)])
    run = af.simulate(X, af.Transformer([af.Block(law, norm="none")] * 3))
    other = af.simulate(X, law, af.Residual(), until=3)
    assert np.allclose(run.tokens, other.tokens, atol=1e-12)


def test_post_norm_is_the_sphere() -> None:
    start = X / np.linalg.norm(X, axis=1, keepdims=True)
    block = af.Block(af.Softmax(beta=3.0 / 8), norm="post", norms=af.Norm("rms", eps=0.0))
    run = af.simulate(np.sqrt(8) * start, af.Transformer([block] * 4))
    other = af.simulate(start, af.Softmax(beta=3.0), af.SphereLayers(), until=4)
    assert np.allclose(run.tokens / np.sqrt(8), other.tokens, atol=1e-12)


def test_pre_norm_is_the_sphere_with_radii() -> None:
    start = X / np.linalg.norm(X, axis=1, keepdims=True)
    block = af.Block(af.Softmax(beta=3.0 / 8), norm="pre", norms=af.Norm("rms", eps=0.0))
    run = af.simulate(start, af.Transformer([block] * 4))
    other = af.simulate(start, af.Softmax(beta=3.0), af.SphereLayers(norm="pre", dt=np.sqrt(8)), until=4)
    assert np.allclose(run.radii, other.radii, atol=1e-12)
    assert np.allclose(run.tokens / run.radii[..., None], other.tokens, atol=1e-12)


NORMS = [af.Norm(kind, gain=RNG.standard_normal(8), bias=RNG.standard_normal(8)) for kind in ("layer", "rms", "layer")]


def normed(k: int, x: Array) -> Array:
    """Norm number k as its formula says, one token after the other."""
    out = []
    for row in x:
        moved = row - row.mean() if NORMS[k].kind == "layer" else row
        out.append(moved / np.sqrt((moved**2).sum() / 8 + 1e-5) * NORMS[k].gain + NORMS[k].bias)
    return np.array(out)


def test_blocks_are_their_formulas() -> None:
    A, up, down = attention(), RNG.standard_normal((16, 8)), RNG.standard_normal((8, 16))
    F = af.Perceptron(up, down, b_up=np.ones(16), b_down=np.ones(8), activation="tanh")

    def fed(y: Array) -> Array:
        return np.tanh(y @ up.T + 1) @ down.T + 1

    a, b, c = NORMS
    y = X + A.attend(normed(0, X))
    assert np.allclose(af.Block(A, "pre", F, (a, b)).step(X), y + fed(normed(1, y)))
    assert np.allclose(
        af.Block(A, "pre", F, (a, b), parallel=True).step(X), X + A.attend(normed(0, X)) + fed(normed(1, X))
    )
    y = normed(0, X + A.attend(X))
    assert np.allclose(af.Block(A, "post", F, (a, b)).step(X), normed(1, y + fed(y)))
    y = X + normed(1, A.attend(normed(0, X)))
    assert np.allclose(af.Block(A, "both", F, (a, b, c, a)).step(X), y + normed(0, fed(normed(2, y))))
    y = A.attend(normed(0, X))
    assert np.allclose(af.Block(A, "pre", F, (a, b), skips=False).step(X), fed(normed(1, y)))


def test_activations() -> None:
    from scipy.stats import norm

    y = np.linspace(-6, 6, 41)
    expected = {
        "gelu": y * norm.cdf(y),
        "gelu-tanh": y / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (y + 0.044715 * y**3))),
        "relu": np.where(y > 0, y, 0),
        "silu": y / (1 + np.exp(-y)),
        "tanh": np.tanh(y),
    }
    assert expected.keys() == ACTIVATIONS.keys()
    for name, values in expected.items():
        before = y.copy()
        assert np.allclose(ACTIVATIONS[name](y), values, atol=1e-14), name
        assert (y == before).all()
        assert ACTIVATIONS[name](y.astype(np.float32)).dtype == np.float32
    gated = af.Perceptron(np.eye(2), np.eye(2), gate=2 * np.eye(2), activation="silu")
    assert np.allclose(gated(np.array([[1.0, -2.0]])), [[2 / (1 + np.exp(-2)), 8 / (1 + np.exp(4))]])


def test_a_run_has_the_attention_of_each_layer() -> None:
    first, second = attention(1), attention(2, causal=True)
    run = af.simulate(X, af.Transformer([af.Block(first), af.Block(second, norm="post")]))
    assert len(run) == 3
    assert run.law is not None
    assert np.allclose(run.law.weights(run.seen(0), 0), first.weights(normed_plain(X)))
    assert np.allclose(run.law.weights(run.seen(1), 1), second.weights(run.tokens[1]))
    assert af.measure.diameter(run).shape == (3,)


def normed_plain(x: Array) -> Array:
    """Return LayerNorm without gain and bias."""
    return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)


def test_the_future_is_not_heard() -> None:
    motion = af.Transformer([af.Block(attention(k, rope=[0.1, 0.2], causal=True), "both") for k in range(3)])
    whole, part = af.simulate(X, motion), af.simulate(X[:4], motion)
    assert np.allclose(whole.tokens[:, :4], part.tokens, atol=1e-12)


def test_one_layer_again_and_again() -> None:
    blocks = [af.Block(attention(k)) for k in range(2)]
    motion = af.Transformer(blocks)
    run = af.simulate(X, motion.iterate(layer=1), until=3)
    x = X
    for _ in range(3):
        x = blocks[1].step(x)
    assert np.allclose(run.final, x)
    with refused("simulate needs an end"):
        af.simulate(X, motion.iterate())
    with refused("has 2 layers: give at most 2"):
        af.simulate(X, motion, until=3)
    with refused("layer is 2"):
        motion.iterate(2)


def test_single_precision() -> None:
    blocks = [af.Block(attention(k)) for k in range(3)]
    double, single = (af.simulate(X, af.Transformer(blocks, precision=one)) for one in ("double", "single"))
    assert single.tokens.dtype == np.float64
    assert (single.tokens[1:] == single.tokens[1:].astype(np.float32)).all()
    apart = np.abs(single.final - double.final).max() / np.abs(double.final).max()
    assert 1e-9 < apart < 1e-4


def test_a_stored_run_is_told_from_those_with_other_weights(tmp_path: Path) -> None:
    one, other = (af.Transformer([af.Block(attention(k))] * 2) for k in (1, 2))
    af.simulate(X, one, store=tmp_path / "a.zarr")
    again = af.simulate(X, one, store=tmp_path / "a.zarr")
    assert again.tokens.shape == (3, 6, 8)
    with refused("another run"):
        af.simulate(X, other, store=tmp_path / "a.zarr")


def test_what_is_refused() -> None:
    A = attention()
    with refused("brings its own law: leave out"):
        af.simulate(X, af.Softmax(), af.Transformer([af.Block(A)]))
    with refused("Layers brings no law of its own"):
        af.simulate(X, motion=af.Layers(gamma=0.5), until=2)
    with refused("simulate needs a motion"):
        af.simulate(X, af.Softmax())
    with refused("3 groups of keys came with 4 heads"):
        af.Attention(A.Q, np.zeros((3, 4, 8)), A.V, A.O)
    with refused("O has shape .*expected"):
        af.Attention(A.Q, A.K, A.V, A.O.swapaxes(1, 2))
    with refused("was given 1 norms, expected 2"):
        af.Block(A, "pre", af.Perceptron(np.eye(8), np.eye(8)), (af.Norm(),))
    with refused("parallel=True needs"):
        af.Block(A, "post", af.Perceptron(np.eye(8), np.eye(8)), parallel=True)
    with refused("expected a list of blocks"):
        af.Transformer([])
    with refused("token 0 is constant"):
        af.Norm(eps=0.0)(np.ones((1, 3)))
    with refused("head 4 does not exist"):
        A.head(4)


def test_a_function_after_attention_counts_in_what_is_stored(tmp_path: Path) -> None:
    """Two functions of one name, closures of one factory, and another precision are other runs."""

    def scaled(c: float) -> Any:
        return lambda y: c * y

    one = af.Transformer([af.Block(attention(), feed_forward=scaled(0.1))])
    af.simulate(X, one, store=tmp_path / "a.zarr")
    af.simulate(X, af.Transformer([af.Block(attention(), feed_forward=scaled(0.1))]), store=tmp_path / "a.zarr")
    others = [af.Transformer([af.Block(attention(), feed_forward=scaled(0.2))]), replace(one, precision="single")]
    for other in others:
        with refused("another run"):
            af.simulate(X, other, store=tmp_path / "a.zarr")


def test_digests_tell_shapes_and_layers_apart() -> None:
    assert digest(np.zeros((2, 3))) != digest(np.zeros((3, 2))) != digest(np.zeros((3, 2), dtype=np.float32))
    assert attention(1).digest == attention(1).digest != attention(2).digest


def test_a_loaded_run_takes_its_transformer_back(tmp_path: Path) -> None:
    one, other = (af.Transformer([af.Block(attention(k))] * 2) for k in (1, 2))
    run = af.simulate(X, one)
    for name in ("run.npz", "run.zarr"):
        run.save(tmp_path / name)
        bare = af.load(tmp_path / name)
        assert bare.law is None
        with refused("load.path, motion="):
            bare.seen(0)
        again = af.load(tmp_path / name, motion=one)
        assert np.array_equal(again.seen(1), run.seen(1))
        assert np.array_equal(af.measure.entropy(again.law, again), af.measure.entropy(run.law, run))
        with refused("is not the (law|motion) of the run"):
            af.load(tmp_path / name, motion=other)


def test_noise_keeps_the_law_and_the_end_of_a_transformer() -> None:
    motion = af.Transformer([af.Block(attention(k)) for k in range(3)])
    run = af.simulate(X, af.Noisy(motion, sigma=1e-13), seed=0)
    assert np.allclose(run.tokens, af.simulate(X, motion).tokens, atol=1e-9)
    with refused("brings its own law"):
        af.simulate(X, af.Softmax(), af.Noisy(motion, sigma=0.1))
    with refused("has 3 layers"):
        af.simulate(X, af.Noisy(motion, sigma=0.1), until=4)


def test_wrong_shapes_are_refused() -> None:
    A = attention()
    with refused("tokens have dimension 3, but the heads take 8"):
        af.simulate(X[:, :3], af.Transformer([af.Block(A)]))
    with refused("returned an array of shape .6, 3."):
        af.Block(A, feed_forward=lambda y: y[:, :3]).step(X)
    with refused("take tokens of dimension 4 and 8"):
        af.Block(A, feed_forward=af.Perceptron(np.eye(4), np.eye(4)))
    with refused("rows of different lengths"):
        af.Attention([[[1, 2], [3]]], A.K, A.V, A.O)  # type: ignore[arg-type]
    with refused("causal is 'no'"):
        af.Attention(A.Q, A.K, A.V, A.O, causal="no")  # type: ignore[arg-type]
    with refused("head 9 does not exist"):
        A.value(9)
    assert np.array_equal(A.value(np.int64(1)), A.value(1))
