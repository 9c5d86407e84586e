"""ALBERT: one layer, applied again and again."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from attnflow.checkpoints.architectures.architecture import Shape, layer_norm, linear
from attnflow.checkpoints.architectures.bert import Bert
from attnflow.core.inputs import Array
from attnflow.motions import Block, Norm

LAYER = "encoder.albert_layer_groups.0.albert_layers.0"
INTO = "encoder.embedding_hidden_mapping_in"


class Albert(Bert):
    """ALBERT (Lan et al., arXiv 1909.11942): a layer of BERT, the same in each of the L layers.

    Tables are smaller than the layer: the first tokens are E N(word + position + type 0) + b, and no norm comes after.
    """

    family: ClassVar[str] = "albert"
    mark: ClassVar[str] = f"{LAYER}.attention.query.weight"
    prefix: ClassVar[str] = "albert."
    extras: ClassVar[str] = r"embeddings\.(position|token_type)_ids|(pooler|predictions|\w*classifier|qa_outputs)\..*"
    usual_activation: ClassVar[str] = "gelu_new"
    shapes_grow: ClassVar[bool] = False

    def configure(self) -> None:
        """Read sizes, and refuse several groups of layers."""
        super().configure()
        self.narrow = self.settings.count("embedding_size", 128)
        self.settings.need("num_hidden_groups", [1])
        self.settings.need("inner_group_num", [1])

    def shapes(self) -> dict[str, Shape]:
        """Return the shapes of the tables and of the one layer."""
        d, found = self.d, self.tables(self.narrow) | linear(INTO, self.d, self.narrow)
        for part in ("query", "key", "value", "dense"):
            found |= linear(f"{LAYER}.attention.{part}", d, d)
        found |= linear(f"{LAYER}.ffn", self.width, d) | linear(f"{LAYER}.ffn_output", d, self.width)
        return found | layer_norm(f"{LAYER}.attention.LayerNorm", d) | layer_norm(f"{LAYER}.full_layer_layer_norm", d)

    def embed(self, ids: NDArray[np.int64]) -> Array:
        """Return E N(word + position + type 0) + b."""
        E, b = self.read(f"{INTO}.weight"), self.read(f"{INTO}.bias")
        tokens: Array = self.summed(ids) @ E.T.astype(np.float64) + b
        return tokens

    def entry(self) -> Norm | None:
        """Return None: the first tokens come out of a matrix."""
        return None

    def block(self, k: int) -> Block:
        """Return the layer, one object for all k."""
        return self._layer

    @cached_property
    def _layer(self) -> Block:
        return self.post_block(
            tuple(f"{LAYER}.attention.{part}" for part in ("query", "key", "value", "dense")),
            (f"{LAYER}.ffn", f"{LAYER}.ffn_output"),
            (f"{LAYER}.attention.LayerNorm", f"{LAYER}.full_layer_layer_norm"),
        )
