"""Llama: decoders with RMSNorm, rotary positions, a gated feed-forward layer, and keys that heads may share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from attnflow.checkpoints.architectures.architecture import (
    Architecture,
    Shape,
    by_heads,
    check_causal,
    linear,
    outputs_by_heads,
)
from attnflow.checkpoints.architectures.rotary import angles, consecutive, rope_settings
from attnflow.checkpoints.architectures.settings import ACTIVATIONS, Settings
from attnflow.checkpoints.files import Tensor
from attnflow.core.inputs import Array, InputError
from attnflow.laws import Attention
from attnflow.motions import Block, Norm, Perceptron


class Llama(Architecture):
    """Llama (Touvron et al., arXiv 2302.13971), and models built like it, as SmolLM2 (arXiv 2502.02737).

    Layers are causal blocks with RMSNorm before each part. In files of transformers, positions turn the pairs
    (i, i + k / 2) of the k coordinates of a query or key; rows are put in another order here, so that pairs are
    consecutive, as `Attention` has them. This changes no score.
    """

    family: ClassVar[str] = "llama"
    mark: ClassVar[str] = "layers.0.self_attn.q_proj.weight"
    prefix: ClassVar[str] = "model."
    extras: ClassVar[str] = r"(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq|(lm_head|score|classifier|qa_outputs)\..*"
    consecutive_pairs: ClassVar[bool] = False

    def configure(self) -> None:
        """Read sizes and angles."""
        settings = self.settings
        self.d, self.layers = settings.count("hidden_size"), settings.count("num_hidden_layers")
        self.heads = settings.count("num_attention_heads")
        self.groups = settings.count("num_key_value_heads", self.heads)
        if self.heads % self.groups:
            raise InputError(
                f"{settings.source} has {self.heads} heads and {self.groups} groups of keys, expected a number of "
                "groups that divides that of heads: correct num_key_value_heads"
            )
        self.size = _head_size(settings)
        if self.size % 2:
            raise InputError(f"{settings.source} has heads of size {self.size}, expected an even one: correct head_dim")
        self.width, self.vocabulary = settings.count("intermediate_size"), settings.count("vocab_size")
        self.eps = settings.number("rms_norm_eps", 1e-6, least=0.0)
        self.activation = settings.choice("hidden_act", ACTIVATIONS, "silu")
        self.biased, self.fed_biased = settings.switch("attention_bias"), settings.switch("mlp_bias")
        self.base = settings.number("rope_theta", 10_000.0, above=0.0)
        angles(settings, 2, self.base)
        for one in (settings, rope_settings(settings)):
            if one is not None:
                one.need("partial_rotary_factor", [1.0])
        check_causal(settings)
        settings.need("attention_multiplier", [self.size**-0.5])
        for name in ("embedding_multiplier", "residual_multiplier"):
            settings.need(name, [1.0])

    def shapes(self) -> dict[str, Shape]:
        """Return the shapes of the table and of all layers."""
        d, found = self.d, dict[str, Shape]({"embed_tokens.weight": (self.vocabulary, self.d)})
        for k in range(self.layers):
            name = f"layers.{k}"
            found |= {f"{name}.input_layernorm.weight": (d,), f"{name}.post_attention_layernorm.weight": (d,)}
            for part, heads in (("q", self.heads), ("k", self.groups), ("v", self.groups)):
                found |= linear(f"{name}.self_attn.{part}_proj", heads * self.size, d, self.biased)
            found |= linear(f"{name}.self_attn.o_proj", d, self.heads * self.size, self.biased)
            for part in ("gate", "up"):
                found |= linear(f"{name}.mlp.{part}_proj", self.width, d, self.fed_biased)
            found |= linear(f"{name}.mlp.down_proj", d, self.width, self.fed_biased)
        return found | {"norm.weight": (d,)}

    def embed(self, ids: NDArray[np.int64]) -> Array:
        """Return the words."""
        return self.rows("embed_tokens.weight", ids)

    def final(self) -> Norm:
        """Return the norm after the last layer."""
        return self._rms("norm")

    def block(self, k: int) -> Block:
        """Return layer k."""
        name, read = f"layers.{k}", self.read
        attention, fed = f"{name}.self_attn", f"{name}.mlp"
        law = Attention(
            self._turning(f"{attention}.q_proj.weight", self.heads),
            self._turning(f"{attention}.k_proj.weight", self.groups),
            by_heads(read(f"{attention}.v_proj.weight"), self.groups),
            outputs_by_heads(read(f"{attention}.o_proj.weight"), self.heads),
            self._turning(f"{attention}.q_proj.bias", self.heads) if self.biased else None,
            self._turning(f"{attention}.k_proj.bias", self.groups) if self.biased else None,
            by_heads(read(f"{attention}.v_proj.bias"), self.groups) if self.biased else None,
            read(f"{attention}.o_proj.bias") if self.biased else None,
            causal=True,
            rope=self.angles(),
        )
        biases = {f"b_{part}": read(f"{fed}.{part}_proj.bias") for part in ("up", "down", "gate") if self.fed_biased}
        perceptron = Perceptron(
            read(f"{fed}.up_proj.weight"), read(f"{fed}.down_proj.weight"), gate=read(f"{fed}.gate_proj.weight"),
            activation=self.activation, **biases,
        )  # fmt: skip
        norms = self._rms(f"{name}.input_layernorm"), self._rms(f"{name}.post_attention_layernorm")
        return Block(law, "pre", perceptron, norms)

    def angles(self) -> list[float]:
        """Return the angle by which a position turns each pair of coordinates."""
        return angles(self.settings, self.size, self.base)

    def _rms(self, name: str) -> Norm:
        return Norm("rms", self.read(f"{name}.weight"), eps=self.eps)

    def _turning(self, name: str, heads: int) -> NDArray[Any]:
        """Return weights or biases of queries or keys, with pairs that are turned together one after the other."""
        found = by_heads(self.read(name), heads)
        return found if self.consecutive_pairs else consecutive(found, self.size)


# Names of GGUF files, and ours.
PARTS = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}  # fmt: skip
DIVISORS = "rope_freqs.weight"
# Keys of the header that change what a model computes, and their values where they change nothing.
NEUTRAL: dict[str, list[Any]] = {
    "rope.scaling.type": ["none"], "rope.scaling.factor": [0.0, 1.0], "rope.scale_linear": [0.0, 1.0],
    "rope.scaling.attn_factor": [1.0], "rope.scaling.yarn_attn_factor": [1.0], "expert_count": [0],
    "use_parallel_residual": [False], "residual_scale": [0.0, 1.0], "embedding_scale": [0.0, 1.0],
    "attn_logit_softcapping": [0.0], "attention.causal": [True], "attention.sliding_window": [0],
    "attention.max_alibi_bias": [0.0], "attention.clamp_kqv": [0.0],
}  # fmt: skip
# All that scales angles begins so; two of these keys say what was done in training, for other scalings alone.
SCALING = "llama.rope.scaling."
NOT_USED = {f"{SCALING}original_context_length", f"{SCALING}finetuned"}
WHOLE = {"token_embd": "embed_tokens", "output_norm": "norm", "output": "lm_head"}


class LlamaGGUF(Llama):
    """Llama in a GGUF file, which has other names, its settings in the header, and consecutive pairs already."""

    prefix: ClassVar[str] = ""
    consecutive_pairs: ClassVar[bool] = True

    def __init__(self, tensors: Mapping[str, Tensor], settings: Settings) -> None:
        # Llama 3.1 and later: numbers by which angles are divided.
        self.divided = DIVISORS in tensors
        super().__init__(tensors, settings)

    def shapes(self) -> dict[str, Shape]:
        """Return the shapes of the table, of all layers, and of what angles are divided by."""
        return super().shapes() | ({DIVISORS: (self.size // 2,)} if self.divided else {})

    def angles(self) -> list[float]:
        """Return the angles of the settings, divided by the numbers of the file, if it has such."""
        found = np.array(super().angles())
        divisors = self.read(DIVISORS).astype(np.float64) if self.divided else np.ones(1)
        if not (divisors > 0).all():
            raise InputError(f"the tensor {DIVISORS!r} holds numbers that are not positive: get the weights again")
        return [float(one) for one in found / divisors]

    @classmethod
    def own_name(cls, name: str) -> str:
        """Return the name that files of transformers have."""
        part, _, last = name.rpartition(".")
        if found := re.fullmatch(r"blk\.(\d+)\.(\w+)", part):
            return f"layers.{found[1]}.{PARTS[found[2]]}.{last}" if found[2] in PARTS else name
        return f"{WHOLE[part]}.{last}" if part in WHOLE else name


def gguf_settings(metadata: Mapping[str, Any], source: str) -> Settings:
    """Return the settings in the header of a GGUF file, by the names of config.json."""
    given = Settings(metadata, f"the header of {source}")

    def of(key: str) -> Any:
        return metadata.get(f"llama.{key}")

    values = {
        "model_type": "llama",
        "hidden_size": of("embedding_length"),
        "num_hidden_layers": of("block_count"),
        "num_attention_heads": of("attention.head_count"),
        "num_key_value_heads": of("attention.head_count_kv"),
        "intermediate_size": of("feed_forward_length"),
        "vocab_size": _words(metadata),
        "rms_norm_eps": of("attention.layer_norm_rms_epsilon"),
        "rope_theta": of("rope.freq_base"),
        "head_dim": of("attention.key_length"),
        "max_position_embeddings": of("context_length"),
    }
    settings = Settings({name: value for name, value in values.items() if value is not None}, given.source)
    size = _head_size(settings)
    for key in ("rope.dimension_count", "attention.value_length"):
        given.need(f"llama.{key}", [size])
    # In float32, as files have it; llama.cpp takes 0 for the usual scale.
    given.need("llama.attention.scale", [0.0, float(np.float32(size**-0.5))])
    for key, expected in NEUTRAL.items():
        given.need(f"llama.{key}", expected)
    for key in metadata:
        if key.startswith(SCALING) and key.removeprefix("llama.") not in NEUTRAL and key not in NOT_USED:
            given.need(key, [0])
    return settings


def _head_size(settings: Settings) -> int:
    if settings.values.get("head_dim") is not None:
        return settings.count("head_dim")
    return settings.divided("hidden_size", "num_attention_heads")


def _words(metadata: Mapping[str, Any]) -> Any:
    """Return the number of words, which older files say by listing them alone."""
    words = metadata.get("tokenizer.ggml.tokens")
    return metadata.get("llama.vocab_size", len(words) if isinstance(words, list) else None)
