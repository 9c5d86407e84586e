"""GPT-NeoX and Pythia: decoders whose attention and feed-forward layer work side by side, with rotary positions."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from attnflow.checkpoints.architectures.architecture import (
    Architecture,
    Shape,
    check_causal,
    layer_norm,
    linear,
    outputs_by_heads,
)
from attnflow.checkpoints.architectures.rotary import angles, consecutive, rope_settings
from attnflow.checkpoints.architectures.settings import ACTIVATIONS
from attnflow.core.inputs import Array, InputError
from attnflow.laws import Attention
from attnflow.motions import Block, Norm, Perceptron


class NeoX(Architecture):
    """GPT-NeoX (Black et al., arXiv 2204.06745) and Pythia (Biderman et al., arXiv 2304.01373).

    Layers are causal blocks with norm "pre", most with ``parallel=True``. Positions turn the first part of the
    coordinates of queries and keys. Queries, keys and values are stored in one matrix, head by head.
    """

    family: ClassVar[str] = "gpt_neox"
    mark: ClassVar[str] = "layers.0.attention.query_key_value.weight"
    prefix: ClassVar[str] = "gpt_neox."
    extras: ClassVar[str] = (
        r"layers\.\d+\.attention\.((masked_)?bias|rotary_emb\.inv_freq)|rotary_emb\.inv_freq"
        r"|(embed_out|lm_head|score|classifier|qa_outputs)\..*"
    )

    def configure(self) -> None:
        """Read sizes and angles."""
        settings = self.settings
        self.d, self.layers = settings.count("hidden_size"), settings.count("num_hidden_layers")
        self.heads, self.size = (
            settings.count("num_attention_heads"),
            settings.divided("hidden_size", "num_attention_heads"),
        )
        self.width, self.vocabulary = settings.count("intermediate_size"), settings.count("vocab_size")
        self.eps = settings.number("layer_norm_eps", 1e-5, least=0.0)
        self.activation = settings.choice("hidden_act", ACTIVATIONS, "gelu")
        self.parallel, self.biased = (
            settings.switch("use_parallel_residual", True),
            settings.switch("attention_bias", True),
        )
        check_causal(settings)
        share = settings.number("rotary_pct", 0.25, above=0.0, most=1.0)
        rope = rope_settings(settings)
        if rope is not None:
            share = rope.number("partial_rotary_factor", share, above=0.0, most=1.0)
        self.turned = int(self.size * share)
        if self.turned % 2:
            raise InputError(
                f"{settings.source} turns {self.turned} coordinates of queries by their positions, expected an even "
                "number: correct rotary_pct"
            )
        self.base = settings.number("rotary_emb_base", 10_000.0, above=0.0)
        if self.turned:
            angles(settings, 2, self.base)

    def shapes(self) -> dict[str, Shape]:
        """Return the shapes of the table and of all layers."""
        d, found = self.d, dict[str, Shape]({"embed_in.weight": (self.vocabulary, self.d)})
        for k in range(self.layers):
            name = f"layers.{k}"
            found |= layer_norm(f"{name}.input_layernorm", d) | layer_norm(f"{name}.post_attention_layernorm", d)
            found |= linear(f"{name}.attention.query_key_value", 3 * d, d, self.biased)
            found |= linear(f"{name}.attention.dense", d, d, self.biased)
            found |= linear(f"{name}.mlp.dense_h_to_4h", self.width, d)
            found |= linear(f"{name}.mlp.dense_4h_to_h", d, self.width)
        return found | layer_norm("final_layer_norm", d)

    def embed(self, ids: NDArray[np.int64]) -> Array:
        """Return the words."""
        return self.rows("embed_in.weight", ids)

    def final(self) -> Norm:
        """Return the norm after the last layer."""
        return self.norm("final_layer_norm", self.eps)

    def block(self, k: int) -> Block:
        """Return layer k."""
        name, read, heads = f"layers.{k}", self.read, self.heads
        fused = read(f"{name}.attention.query_key_value.weight").reshape(heads, 3, self.size, self.d)
        Q, K, V = (fused[:, part] for part in range(3))
        biases: dict[str, Any] = {}
        if self.biased:
            split = read(f"{name}.attention.query_key_value.bias").reshape(heads, 3, self.size)
            biases = {
                "b_Q": consecutive(split[:, 0], self.turned), "b_K": consecutive(split[:, 1], self.turned),
                "b_V": split[:, 2], "b_O": read(f"{name}.attention.dense.bias"),
            }  # fmt: skip
        law = Attention(
            consecutive(Q, self.turned), consecutive(K, self.turned), V,
            outputs_by_heads(read(f"{name}.attention.dense.weight"), heads), **biases,
            causal=True, rope=angles(self.settings, self.turned, self.base) if self.turned else None,
        )  # fmt: skip
        up, down = f"{name}.mlp.dense_h_to_4h", f"{name}.mlp.dense_4h_to_h"
        perceptron = Perceptron(
            read(f"{up}.weight"), read(f"{down}.weight"), read(f"{up}.bias"), read(f"{down}.bias"),
            activation=self.activation,
        )  # fmt: skip
        norms = tuple(self.norm(f"{name}.{one}_layernorm", self.eps) for one in ("input", "post_attention"))
        return Block(law, "pre", perceptron, norms, parallel=self.parallel)
