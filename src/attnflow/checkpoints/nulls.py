"""Null models: the same transformer with random weights, or without one of its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import InputError, one_of, whole
from attnflow.laws.attention import Attention, check_attention
from attnflow.motions.blocks import PLACES, Block, Perceptron
from attnflow.motions.transformer import Transformer

Weights = NDArray[Any]
Part = TypeVar("Part")

# Of each part, its matrices and its vectors; those of heads have the head as their first axis.
HEADS = ("Q", "K", "V", "O"), ("b_Q", "b_K", "b_V", "b_O")
FEED_FORWARD = ("up", "down", "gate"), ("b_up", "b_down", "b_gate")


def check_transformer(given: Any) -> Transformer:
    """Refuse what is no transformer."""
    if not hasattr(given, "blocks") or not hasattr(given, "own_law"):
        raise InputError(f"{given!r:.60} is no Transformer: give one, such as checkpoint.transformer")
    transformer: Transformer = given
    return transformer


def null(transformer: Transformer, kind: str, seed: int = 0) -> Transformer:
    """Return the same transformer with random weights.

    Each matrix of each head, each matrix of a feed-forward layer and each vector of biases is drawn anew by itself:

    - "gaussian": independent normal entries, scaled so that the matrix has the Frobenius norm that it had;
    - "shuffled": its own entries in random order, uniform among all orders.

    Norms keep their gains and biases, heads their scale, mask and positions. Heads that share keys and values go on
    sharing them, and a block that stands in several layers, as in ALBERT, stands in the same ones. Weights keep their
    precision. The same seed gives the same weights.

    Examples
    --------
    >>> import attnflow as af
    >>> rng = np.random.default_rng(0)
    >>> Q, K, V = rng.standard_normal((3, 2, 4, 8))
    >>> trained = af.Transformer([af.Block(af.Attention(Q, K, V, rng.standard_normal((2, 8, 4))))] * 3)
    >>> other = null(trained, "gaussian", seed=0)
    >>> bool(np.isclose(np.linalg.norm(other.blocks[0].heads.Q[1]), np.linalg.norm(Q[1])))
    True
    >>> other.blocks[0] is other.blocks[2]
    True
    """
    heads = null_heads(transformer, kind, seed)
    layers = _each([block.feed_forward for block in transformer.blocks], lambda part, k: _layer(part, kind, seed, k))
    made: dict[int, Block] = {}
    for block, law, layer in zip(transformer.blocks, heads, layers, strict=True):
        if id(block) not in made:
            made[id(block)] = replace(block, heads=law, feed_forward=layer)
    return replace(transformer, blocks=tuple(made[id(block)] for block in transformer.blocks))


def null_heads(transformer: Transformer, kind: str, seed: int = 0) -> list[Attention]:
    """Return the heads of each layer of `null`, without its feed-forward layers."""
    check_transformer(transformer)
    draw, number = DRAWS[one_of(kind, DRAWS, "a null model")], whole(seed, "seed", least=0)

    def drawn(law: Any, k: int) -> Attention:
        return _drawn(check_attention(law, "a null model"), HEADS, draw, _generator(number, 0, k))

    return _each([block.heads for block in transformer.blocks], drawn)


def _layer(part: Any, kind: str, seed: int, k: int) -> Perceptron | None:
    if part is None:
        return None
    if not isinstance(part, Perceptron):
        raise InputError(
            f"block {k} has the function {part!r:.60} as its feed-forward layer, whose weights are not known: give a "
            "Perceptron"
        )
    return _drawn(part, FEED_FORWARD, DRAWS[kind], _generator(seed, 1, k))


def _generator(seed: int, *part: int) -> np.random.Generator:
    """Return the generator of one part of a transformer, which no other part and no other use of the seed shares."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=part))


def _each(parts: Iterable[Any], drawn: Callable[[Any, int], Any]) -> list[Any]:
    """Return each part drawn anew, one that stands at several places once, by the first of them."""
    found: dict[int, Any] = {}
    held = list(parts)
    for k, part in enumerate(held):
        if id(part) not in found:
            found[id(part)] = drawn(part, k)
    return [found[id(part)] for part in held]


def _drawn(
    part: Part,
    names: tuple[tuple[str, ...], tuple[str, ...]],
    draw: Callable[[Weights, np.random.Generator], Weights],
    rng: np.random.Generator,
) -> Part:
    changes = {}
    for axes, group in zip((2, 1), names, strict=True):
        for name in group:
            if (given := getattr(part, name)) is not None:
                flat = np.asarray(given).reshape(*given.shape[: given.ndim - axes], -1)
                changes[name] = draw(flat, rng).reshape(given.shape)
    return replace(part, **changes)  # type: ignore[type-var]


def _gaussian(weights: Weights, rng: np.random.Generator) -> Weights:
    """Return normal numbers whose rows have the norms of the given ones."""
    single = weights.dtype == np.float32
    found: Weights = rng.standard_normal(weights.shape, dtype=np.float32 if single else np.float64)
    size, wanted = (np.linalg.norm(one, axis=-1, keepdims=True) for one in (found, weights))
    found *= wanted / np.where(size > 0, size, 1.0)
    return found


def _shuffled(weights: Weights, rng: np.random.Generator) -> Weights:
    """Return each row in random order."""
    return rng.permuted(weights, axis=-1)


DRAWS: dict[str, Callable[[Weights, np.random.Generator], Weights]] = {"gaussian": _gaussian, "shuffled": _shuffled}


def without(transformer: Transformer, what: str) -> Transformer:
    """Return the same transformer without its feed-forward layers ("mlp"), its attention or its skips.

    - "mlp": blocks end after attention, with the norms that belong to it;
    - "attention": O = 0 and b_O = 0, so that A(x) = 0. Attention can still be measured: it moves nothing;
    - "skips": x' = A(N x) in place of x + A(N x), and alike for the feed-forward layer.

    Examples
    --------
    >>> import attnflow as af
    >>> trained = af.Transformer([af.Block(af.Softmax(), feed_forward=np.tanh)] * 3)
    >>> without(trained, "mlp").blocks[0].feed_forward is None
    True

    References
    ----------
    Dong, Cordonnier, Loukas, *Attention is not all you need: pure attention loses rank doubly exponentially with depth*
    (arXiv 2103.03404), where tokens without skips or without feed-forward layers become alike.
    """
    check_transformer(transformer)
    change = CHANGES[one_of(what, CHANGES, "what is left out")]
    return replace(transformer, blocks=tuple(_each(transformer.blocks, lambda block, _: change(block))))


def _without_mlp(block: Block) -> Block:
    assert isinstance(block.norms, tuple)
    return replace(block, feed_forward=None, parallel=False, norms=block.norms[: PLACES[block.norm] // 2])


def _without_attention(block: Block) -> Block:
    law = check_attention(block.heads, "leaving attention out")
    nothing = np.broadcast_to(np.zeros((), law.O.dtype), law.O.shape)
    return replace(block, heads=replace(law, O=nothing, b_O=None))


def _without_skips(block: Block) -> Block:
    return replace(block, skips=False)


CHANGES: dict[str, Callable[[Block], Block]] = {
    "mlp": _without_mlp, "attention": _without_attention, "skips": _without_skips
}  # fmt: skip
