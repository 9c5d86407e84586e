"""GPT-2: decoders with LayerNorm before each part, and positions in a table."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from attnflow.checkpoints.architectures.architecture import (
    Architecture,
    Shape,
    by_heads,
    check_causal,
    layer_norm,
    outputs_by_heads,
)
from attnflow.checkpoints.architectures.settings import ACTIVATIONS
from attnflow.core.inputs import Array
from attnflow.laws import Attention
from attnflow.motions import Block, Norm, Perceptron


class GPT2(Architecture):
    """GPT-2 (Radford et al., *Language models are unsupervised multitask learners*, 2019).

    Layers are causal blocks with norm "pre"; their first tokens are word + position. Matrices are stored transposed,
    and those of queries, keys and values side by side.
    """

    family: ClassVar[str] = "gpt2"
    mark: ClassVar[str] = "h.0.attn.c_attn.weight"
    prefix: ClassVar[str] = "transformer."
    extras: ClassVar[str] = r"h\.\d+\.attn\.(masked_)?bias|(lm_head|score|multiple_choice_head|classifier)\..*"

    def configure(self) -> None:
        """Read sizes, and refuse attention to other texts."""
        settings = self.settings
        self.d, self.layers, self.heads = (settings.count(name) for name in ("n_embd", "n_layer", "n_head"))
        self.size = settings.divided("n_embd", "n_head")
        self.width = settings.count("n_inner", 4 * self.d)
        self.vocabulary, self.positions = settings.count("vocab_size"), settings.count("n_positions")
        self.eps = settings.number("layer_norm_epsilon", 1e-5, least=0.0)
        self.activation = settings.choice("activation_function", ACTIVATIONS, "gelu_new")
        self.scaled = settings.switch("scale_attn_weights", True)
        self.scaled_by_layer = settings.switch("scale_attn_by_inverse_layer_idx")
        settings.need("add_cross_attention", [False])
        check_causal(settings)

    def shapes(self) -> dict[str, Shape]:
        """Return the shapes of the tables and of all layers."""
        d, m = self.d, self.width
        found: dict[str, Shape] = {"wte.weight": (self.vocabulary, d), "wpe.weight": (int(self.positions or 0), d)}
        for k in range(self.layers):
            found |= layer_norm(f"h.{k}.ln_1", d) | layer_norm(f"h.{k}.ln_2", d)
            sizes = {"attn.c_attn": (d, 3 * d), "attn.c_proj": (d, d), "mlp.c_fc": (d, m), "mlp.c_proj": (m, d)}
            for name, (given, out) in sizes.items():
                found |= {f"h.{k}.{name}.weight": (given, out), f"h.{k}.{name}.bias": (out,)}
        return found | layer_norm("ln_f", d)

    def embed(self, ids: NDArray[np.int64]) -> Array:
        """Return word + position."""
        return self.rows("wte.weight", ids) + self.rows("wpe.weight", np.arange(len(ids)))

    def final(self) -> Norm:
        """Return the norm after the last layer."""
        return self.norm("ln_f", self.eps)

    def block(self, k: int) -> Block:
        """Return layer k."""
        name, read, heads = f"h.{k}", self.read, self.heads
        fused, biases = read(f"{name}.attn.c_attn.weight").T, read(f"{name}.attn.c_attn.bias")
        Q, K, V = (by_heads(part, heads) for part in np.split(fused, 3))
        b_Q, b_K, b_V = (by_heads(part, heads) for part in np.split(biases, 3))
        scale = 1 / math.sqrt(self.size) if self.scaled else 1.0
        law = Attention(
            Q, K, V, outputs_by_heads(read(f"{name}.attn.c_proj.weight").T, heads),
            b_Q, b_K, b_V, read(f"{name}.attn.c_proj.bias"),
            scale=scale / (k + 1) if self.scaled_by_layer else scale, causal=True,
        )  # fmt: skip
        perceptron = Perceptron(
            read(f"{name}.mlp.c_fc.weight").T, read(f"{name}.mlp.c_proj.weight").T,
            read(f"{name}.mlp.c_fc.bias"), read(f"{name}.mlp.c_proj.bias"), activation=self.activation,
        )  # fmt: skip
        return Block(law, "pre", perceptron, (self.norm(f"{name}.ln_1", self.eps), self.norm(f"{name}.ln_2", self.eps)))
