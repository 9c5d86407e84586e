"""A trained model: its layers and heads, and its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from attnflow.checkpoints.hypotheses import Hypotheses, hypotheses
from attnflow.checkpoints.nulls import null, without
from attnflow.checkpoints.spectra import on_normed, on_states
from attnflow.checkpoints.texts import Reader, reader
from attnflow.core.inputs import Array, InputError, cloud, quoted
from attnflow.laws import Law
from attnflow.motions import Block, Norm, Transformer
from attnflow.runs.simulate import simulate
from attnflow.runs.trajectory import Trajectory


class Blocks(Sequence[Block]):
    """The blocks of a model, each made when it is first asked for and kept."""

    def __init__(self, make: Callable[[int], Block], count: int) -> None:
        self._make = make
        self._made: list[Block | None] = [None] * count

    def __len__(self) -> int:
        return len(self._made)

    @overload
    def __getitem__(self, k: int) -> Block: ...
    @overload
    def __getitem__(self, k: slice) -> list[Block]: ...
    def __getitem__(self, k: int | slice) -> Block | list[Block]:
        if isinstance(k, slice):
            return [self[one] for one in range(*k.indices(len(self)))]
        block = self._made[k]
        if block is None:
            block = self._made[k] = self._make(k % len(self))
        return block


@dataclass(frozen=True, eq=False, repr=False)
class Head:
    """One head of a layer, in the convention s_ij = <B x_i + w, x_j> of attnflow, with the matrix V of its values.

    Let x be the tokens that attention hears, and s the scale of the scores. Then, up to terms that do not depend on j
    and that softmax does not see, s <q_i, k_j> = <B x_i + w, x_j>. Where a norm with gain g and bias b comes before
    attention, x = g z + b, and B, w and V act on the normalised tokens z: they are g B g, g (w + B b) and V g. If it is
    LayerNorm, <z, 1> = 0, and they are P g B g P, P g (w + B b) and V g P, with the projection P on this hyperplane.
    Positions that turn queries and keys are left out: B is that of two tokens at one place.

    Examples
    --------
    >>> import attnflow as af
    >>> Q, K, V = np.random.default_rng(0).standard_normal((3, 1, 2, 4))
    >>> head = Layer(0, [af.Block(af.Attention(Q, K, V, V.swapaxes(1, 2)), "none")]).heads[0]
    >>> bool(np.allclose(head.B, K[0].T @ Q[0] / np.sqrt(2))), bool(np.allclose(head.V, V[0].T @ V[0]))
    (True, True)
    >>> head.law().weights(np.eye(4)).shape
    (4, 4)
    """

    index: int
    layer: Layer

    @property
    def B(self) -> Array:
        """The matrix (d, d) of scores, s K^T Q."""
        return self._product(self.layer.before)

    @property
    def B_normed(self) -> Array:
        """The matrix of scores of normalised tokens, before gain and bias, also where the layer below ends in a norm.

        In layers with norm "pre" it is B. In those with norm "post" it is g B g, with the gain g of the last norm of
        the layer below, and P g B g P for LayerNorm; tokens of all models are then compared on one sphere.
        """
        return self._product(self.layer.heard)

    @property
    def w(self) -> Array:
        """The vector (d,) that is added to B x_i: s K^T b_Q."""
        law, norm = self._law, self.layer.before
        Q, K = _double(law.Q[self.index]), _double(law.K[law.group[self.index]])
        bias = np.zeros(len(Q)) if law.b_Q is None else _double(law.b_Q[self.index])
        if norm is not None and norm.bias is not None:
            bias = bias + Q @ _double(norm.bias)
        found: Array = law.scale * (on_normed(K, norm).T @ bias)
        return found

    @property
    def V(self) -> Array:
        """The matrix (d, d) by which the head multiplies what it hears: O W_V, up to what is the same for all tokens.

        Where attention hears g z + b, made by the LayerNorm of the layer below, it is V on <x, 1 / g> = 0, and 0 on
        the normal of this hyperplane.
        """
        law = self._law
        W = on_states(_double(law.V[law.group[self.index]]), self.layer.before, self.layer.heard)
        found: Array = _double(law.O[self.index]) @ W
        return found

    @property
    def _law(self) -> Any:
        return self.layer.block.heads

    def _product(self, norm: Norm | None) -> Array:
        """Return s K^T Q on the tokens that come out of a norm, before its gain."""
        law = self._law
        Q, K = (_double(one) for one in (law.Q[self.index], law.K[law.group[self.index]]))
        found: Array = law.scale * (on_normed(K, norm).T @ on_normed(Q, norm))
        return found

    def law(self) -> Law:
        """Return the law of this head: its weights are the attention of the model on the tokens that attention hears.

        These are ``run.seen(k)`` for layer k of a run. Where ``layer.block.heads.lifts`` is True, the law takes (x, 1).
        """
        law: Law = self._law.head(self.index)
        return law

    def __repr__(self) -> str:
        return f"Head({self.index} of layer {self.layer.index})"


@dataclass(frozen=True, eq=False, repr=False)
class Layer:
    """One layer of a model: its `block`, and its `heads`.

    Examples
    --------
    >>> import attnflow as af
    >>> heads = af.Attention(*np.ones((3, 2, 2, 4)), np.ones((2, 4, 2)))
    >>> Layer(0, [af.Block(heads, norm="none")]).heads
    (Head(0 of layer 0), Head(1 of layer 0))
    """

    index: int
    blocks: Sequence[Block]
    entry: Norm | None = None

    @property
    def block(self) -> Block:
        """The block, with its weights."""
        return self.blocks[self.index]

    @property
    def before(self) -> Norm | None:
        """The norm between the state of a run and attention, where there is one."""
        return _norm(self.block, 0) if self.block.norm in ("pre", "both") else None

    @property
    def heard(self) -> Norm | None:
        """The norm that the tokens come out of which attention hears: `before`, or the last norm of the layer below."""
        if self.before is not None:
            return self.before
        below = self.blocks[self.index - 1] if self.index else None
        if below is None:
            return self.entry
        return _norm(below, -1) if below.norm == "post" else None

    @cached_property
    def heads(self) -> tuple[Head, ...]:
        """The heads of the layer."""
        law: Any = self.block.heads
        return tuple(Head(h, self) for h in range(len(law.Q)))

    def __repr__(self) -> str:
        return f"Layer({self.index}, {len(self.heads)} heads)"


@dataclass(frozen=True, eq=False, repr=False)
class Checkpoint:
    """A trained model: layers and heads that are laws of attnflow, and runs of texts through them.

    `load` makes it from files. Layers are read when they are first asked for.

    Attributes
    ----------
    name, architecture, config
        Its folder or file, with what `null` and `without` did to it, its family, such as "bert", and its settings.
    blocks, final
        The layers, each a `Block`, and the norm after the last one.
    dimension, vocabulary, positions
        The dimension of tokens, the number of ids, and how many tokens a text may have, or None for any number.
    entry
        The norm that the tokens of the first layer come out of, or None.
    embedding
        The function from ids to the tokens (n, d) that the first layer is given: positions, types and norms included.
    tokenizer
        The file that says how texts become ids, or None.
    """

    name: str
    architecture: str
    config: dict[str, Any]
    blocks: Sequence[Block]
    embedding: Callable[[NDArray[np.int64]], Array]
    dimension: int
    vocabulary: int
    positions: int | None = None
    entry: Norm | None = None
    final: Norm | None = None
    tokenizer: Path | None = None

    @cached_property
    def transformer(self) -> Transformer:
        """The model as a motion."""
        return Transformer(tuple(self.blocks), self.final)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, with their heads."""
        return tuple(Layer(k, self.blocks, self.entry) for k in range(len(self.blocks)))

    def ids(self, text: str) -> NDArray[np.int64]:
        """Return the ids of a text."""
        if not isinstance(text, str):
            raise InputError(f"{quoted(text)} is no text: give one, or give ids to run() as they are")
        found = self._reader.ids(text)
        if found == self._reader.ids(""):
            raise InputError(f"the text {quoted(text)} has no words: give some")
        return self._checked(np.array(found, dtype=np.int64))

    def words(self, what: Any) -> list[str]:
        """Return the piece of text that each token of a text, or of a list of ids, stands for.

        They are as the tokenizer spells them, with those that it adds: "##ing" goes on with a word, and in models of
        pairs of bytes a space is written as a letter. ``figures.attention_map(run, words=...)`` takes them.
        """
        ids = self.ids(what) if isinstance(what, str) else self._listed(what)
        if ids is None:
            raise InputError(f"{quoted(what)} was given, expected a text or a list of ids")
        return [self._reader.word(int(one)) for one in ids]

    @cached_property
    def _reader(self) -> Reader:
        if self.tokenizer is None:
            raise InputError(
                f"{self.name} has no tokenizer.json, nor another tokenizer that is read here: give ids, as [1, 2, 3]"
            )
        return reader(self.tokenizer)

    def _listed(self, what: Any) -> NDArray[np.int64] | None:
        """Return ids that were given as a list, or None where something else was given."""
        given = _array(what)
        return self._checked(given.astype(np.int64)) if given.ndim == 1 and given.dtype.kind in "iu" else None

    def tokens(self, what: Any) -> Array:
        """Return the tokens (n, d) that the first layer is given, of a text, of ids, or of tokens as they are."""
        if isinstance(what, str):
            return self.embedding(self.ids(what))
        ids = self._listed(what)
        if ids is not None:
            return self.embedding(ids)
        given = _array(what)
        if given.ndim != 2 or given.shape[1] != self.dimension:
            raise InputError(
                f"{quoted(what)} was given to a model of dimension {self.dimension}, expected a text, a list of ids, "
                f"or tokens (n, {self.dimension})"
            )
        return cloud(given)

    def _checked(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        if not len(ids):
            raise InputError("there is no token: give a text or a list of ids that is not empty")
        if ids.min() < 0 or ids.max() >= self.vocabulary:
            wrong = int(ids.min()) if ids.min() < 0 else int(ids.max())
            raise InputError(f"there is no token {wrong}, expected ids from 0 to {self.vocabulary - 1}")
        if self.positions is not None and len(ids) > self.positions:
            raise InputError(
                f"{len(ids)} tokens were given, but {self.name} has {self.positions} positions: give a shorter text"
            )
        return ids

    def run(
        self, what: Any, *, precision: str = "double", until: int | None = None, store: str | Path | None = None
    ) -> Trajectory:
        """Return the residual stream of a text, of ids or of tokens (n, d): one state for each layer.

        ``transformer.output(run.final)`` is what comes after the last norm. With ``precision="single"`` blocks are
        computed in float32; states are kept in float64 in both.
        """
        motion = replace(self.transformer, precision=precision)
        return simulate(self.tokens(what), motion, until=until, store=store)

    def null(self, kind: str, seed: int = 0) -> Checkpoint:
        """Return the same model with random weights: "gaussian" ones of the same norms, or "shuffled" ones.

        Words, positions and norms stay as they are; see `attnflow.checkpoints.nulls.null`.
        """
        return self._with(null(self.transformer, kind, seed), f"{self.name}, {kind} null, seed {seed}")

    def without(self, what: str) -> Checkpoint:
        """Return the same model without its "mlp", its "attention" or its "skips"; its weights are not changed."""
        return self._with(without(self.transformer, what), f"{self.name} without {what}")

    def hypotheses(
        self,
        what: Any = None,
        *,
        nulls: str | Sequence[str] = ("gaussian", "shuffled"),
        seeds: Sequence[int] = (0, 1, 2),
    ) -> Hypotheses:
        """Return the table of all heads: how far each is from the hypotheses of theorems, beside null models.

        With a text, ids or tokens (n, d) it also has the entropy of attention of their run. See
        `attnflow.checkpoints.hypotheses` for what the columns are.
        """
        tokens = None if what is None else self.tokens(what)
        return hypotheses(self.transformer, tokens, nulls=nulls, seeds=seeds, entry=self.entry, name=self.name)

    def _with(self, other: Transformer, name: str) -> Checkpoint:
        return replace(self, name=name, blocks=tuple(other.blocks), final=other.final)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.blocks)

    def __repr__(self) -> str:
        return f"Checkpoint({self.name!r}, {self.architecture}, {len(self)} layers of dimension {self.dimension})"


def _array(what: Any) -> NDArray[Any]:
    try:
        return np.asarray(what)
    except (ValueError, TypeError):  # lists of different lengths
        return np.empty(0, dtype=object)


def _double(weights: NDArray[Any]) -> Array:
    return np.asarray(weights, dtype=np.float64)


def _norm(block: Block, k: int) -> Norm:
    assert isinstance(block.norms, tuple)
    return block.norms[k]
