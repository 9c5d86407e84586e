"""BERT: encoders with LayerNorm after each part, and positions in a table."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from attnflow.checkpoints.architectures.architecture import (
    Architecture,
    Shape,
    by_heads,
    layer_norm,
    linear,
    outputs_by_heads,
)
from attnflow.checkpoints.architectures.settings import ACTIVATIONS
from attnflow.core.inputs import Array
from attnflow.laws import Attention
from attnflow.motions import Block, Norm, Perceptron

# LayerNorm in files of the first years.
OLDER = {"gamma": "weight", "beta": "bias"}


class Bert(Architecture):
    """BERT (Devlin, Chang, Lee, Toutanova, arXiv 1810.04805).

    Layers are blocks with norm "post"; their first tokens are N(word + position + type 0).
    """

    family: ClassVar[str] = "bert"
    mark: ClassVar[str] = "encoder.layer.0.attention.self.query.weight"
    prefix: ClassVar[str] = "bert."
    extras: ClassVar[str] = r"embeddings\.(position|token_type)_ids|(pooler|cls|classifier|qa_outputs)\..*"
    # That of a configuration which names none.
    usual_activation: ClassVar[str] = "gelu"

    def configure(self) -> None:
        """Read sizes, and refuse decoders and positions that enter the scores."""
        settings = self.settings
        self.d, self.layers = settings.count("hidden_size"), settings.count("num_hidden_layers")
        self.heads, self.width = settings.count("num_attention_heads"), settings.count("intermediate_size")
        settings.divided("hidden_size", "num_attention_heads")
        self.vocabulary, self.types = settings.count("vocab_size"), settings.count("type_vocab_size", 2)
        self.positions = settings.count("max_position_embeddings")
        self.eps = settings.number("layer_norm_eps", 1e-12, least=0.0)
        self.activation = settings.choice("hidden_act", ACTIVATIONS, self.usual_activation)
        settings.need("position_embedding_type", ["absolute"])
        settings.need("is_decoder", [False])
        settings.need("pruned_heads", [{}])

    @classmethod
    def own_name(cls, name: str) -> str:
        """Return the name without the prefix, and with that of today for the gain and the bias of a norm."""
        first, _, last = super().own_name(name).rpartition(".")
        return f"{first}.{OLDER.get(last, last)}" if first.endswith("LayerNorm") else super().own_name(name)

    def tables(self, width: int) -> dict[str, Shape]:
        """Return the shapes of the tables of words, positions and types, and of the norm after their sum."""
        sizes = {"word": self.vocabulary, "position": self.positions, "token_type": self.types}
        found = {f"embeddings.{name}_embeddings.weight": (int(size or 0), width) for name, size in sizes.items()}
        return found | layer_norm("embeddings.LayerNorm", width)

    def summed(self, ids: NDArray[np.int64]) -> Array:
        """Return N(word + position + type 0) for each id."""
        total = self.rows("embeddings.word_embeddings.weight", ids)
        total += self.rows("embeddings.token_type_embeddings.weight", np.zeros_like(ids))
        total += self.rows("embeddings.position_embeddings.weight", np.arange(len(ids)))
        return self.norm("embeddings.LayerNorm", self.eps)(total)

    def shapes(self) -> dict[str, Shape]:
        """Return the shapes of the tables and of all layers."""
        d, found = self.d, self.tables(self.d)
        for k in range(self.layers):
            name = f"encoder.layer.{k}"
            for part in ("self.query", "self.key", "self.value", "output.dense"):
                found |= linear(f"{name}.attention.{part}", d, d)
            found |= layer_norm(f"{name}.attention.output.LayerNorm", d)
            found |= linear(f"{name}.intermediate.dense", self.width, d) | linear(f"{name}.output.dense", d, self.width)
            found |= layer_norm(f"{name}.output.LayerNorm", d)
        return found

    def embed(self, ids: NDArray[np.int64]) -> Array:
        """Return N(word + position + type 0)."""
        return self.summed(ids)

    def entry(self) -> Norm | None:
        """Return the norm after the sum of the tables."""
        return self.norm("embeddings.LayerNorm", self.eps)

    def block(self, k: int) -> Block:
        """Return layer k."""
        name = f"encoder.layer.{k}"
        return self.post_block(
            tuple(f"{name}.attention.{part}" for part in ("self.query", "self.key", "self.value", "output.dense")),
            (f"{name}.intermediate.dense", f"{name}.output.dense"),
            (f"{name}.attention.output.LayerNorm", f"{name}.output.LayerNorm"),
        )

    def post_block(self, attention: tuple[str, ...], fed: tuple[str, str], norms: tuple[str, str]) -> Block:
        """Return the block whose queries, keys, values and outputs, feed-forward layer and norms have these names."""
        read, heads = self.read, self.heads
        query, key, value, output = attention
        law = Attention(
            by_heads(read(f"{query}.weight"), heads),
            by_heads(read(f"{key}.weight"), heads),
            by_heads(read(f"{value}.weight"), heads),
            outputs_by_heads(read(f"{output}.weight"), heads),
            by_heads(read(f"{query}.bias"), heads),
            by_heads(read(f"{key}.bias"), heads),
            by_heads(read(f"{value}.bias"), heads),
            read(f"{output}.bias"),
        )
        up, down = fed
        perceptron = Perceptron(
            read(f"{up}.weight"), read(f"{down}.weight"), read(f"{up}.bias"), read(f"{down}.bias"),
            activation=self.activation,
        )  # fmt: skip
        first, second = (self.norm(one, self.eps) for one in norms)
        return Block(law, "post", perceptron, (first, second))
