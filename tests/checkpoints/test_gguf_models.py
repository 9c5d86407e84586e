"""Models in GGUF files: their numbers, settings and texts, beside those of the same model in other files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused
from safetensors.numpy import load_file
from small_models import FIXTURES, apart, changed, reference

import attnflow as af
from attnflow.checkpoints.architectures.llama import NEUTRAL


def write_gguf(
    gguf: Any,
    path: Path,
    source: Path,
    family: str = "llama",
    keys: Mapping[str, Any] = {},
    words: tuple[str, list[str], list[str]] | None = None,
    first: int | None = None,
    divisors: Any = None,
) -> None:
    """Write a Llama as llama.cpp does."""
    config = json.loads((source / "config.json").read_text())
    writer = gguf.GGUFWriter(path, family)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
    writer.add_vocab_size(config["vocab_size"])
    if words is not None:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(words[0])
        writer.add_token_list(words[1])
        writer.add_token_types([3] + [1] * (len(words[1]) - 1))
        writer.add_token_merges(words[2])
    if divisors is not None:
        writer.add_tensor("rope_freqs.weight", divisors.astype(np.float32))
    if first is not None:
        writer.add_bos_token_id(first)
        writer.add_add_bos_token(True)
    for key, given in keys.items():
        writer.kv_data[0].pop(key, None)
        kind = gguf.GGUFValueType.get_type(given)
        writer.add_key_value(key, given, kind)
    names = {
        "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
        "model.layers": "blk",
    }  # fmt: skip
    for name, tensor in load_file(source / "model.safetensors").items():
        for part, heads in (("q_proj", "num_attention_heads"), ("k_proj", "num_key_value_heads")):
            if part in name:  # `permute` of llama.cpp's convert_hf_to_gguf.py
                n, d = config[heads], tensor.shape[1]
                tensor = tensor.reshape(n, 2, -1, d).swapaxes(1, 2).reshape(-1, d)
        for before, now in names.items():
            name = name.replace(before, now)
        writer.add_tensor(name, np.ascontiguousarray(tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_gguf(tmp_path: Path) -> None:
    """A GGUF file has other names, its settings inside, and rows of queries and keys in another order."""
    gguf = pytest.importorskip("gguf")
    write_gguf(gguf, tmp_path / "llama.gguf", FIXTURES / "llama")
    model, expected = af.checkpoints.load(tmp_path / "llama.gguf"), reference("llama")
    assert apart(model.run(expected["ids"]).tokens, expected["states"]) < 1e-13
    assert apart(model.transformer.output(model.run(expected["ids"]).final), expected["output"]) < 1e-13
    assert af.checkpoints.load(tmp_path).config == model.config
    with refused("has no tokenizer.json, nor another"):
        model.run("a text")
    write_gguf(gguf, tmp_path / "other.gguf", FIXTURES / "llama", family="qwen2")
    with refused("family 'qwen2', expected llama"):
        af.checkpoints.load(tmp_path / "other.gguf")


@pytest.mark.parametrize(
    ("key", "value", "neutral"),
    [
        ("rope.scaling.type", "yarn", "none"),
        ("rope.scaling.factor", 4.0, 1.0),
        ("rope.scaling.attn_factor", 0.5, 1.0),
        ("rope.scaling.alpha", 2.0, 0.0),
        ("rope.scaling.original_context_length", None, 8),
        ("rope.scale_linear", 4.0, 1.0),
        ("attention.causal", False, True),
        ("attention.scale", 0.25, 0.5),
        ("attention.sliding_window", 4, 0),
        ("embedding_scale", 12.0, 1.0),
    ],
)
def test_keys_of_gguf_files_that_change_the_model(tmp_path: Path, key: str, value: Any, neutral: Any) -> None:
    gguf = pytest.importorskip("gguf")
    write_gguf(gguf, tmp_path / "same.gguf", FIXTURES / "llama", keys={f"llama.{key}": neutral})
    expected = reference("llama")
    found = af.checkpoints.load(tmp_path / "same.gguf").run(expected["ids"])
    assert apart(found.tokens, expected["states"]) < 1e-13
    if value is not None:
        write_gguf(gguf, tmp_path / "other.gguf", FIXTURES / "llama", keys={f"llama.{key}": value})
        with refused(f"llama.{key} .* is {value!r}, which attnflow does not compute"):
            af.checkpoints.load(tmp_path / "other.gguf")


def test_angles_that_a_gguf_file_divides(tmp_path: Path) -> None:
    """llama.cpp stores the quotients of plain angles and those of Llama 3.1; the library says the latter otherwise."""
    gguf = pytest.importorskip("gguf")
    rope = json.loads((FIXTURES / "llama-biased" / "config.json").read_text())["rope_parameters"]
    other: Any = af.checkpoints.load(changed(tmp_path / "a", "llama", rope_parameters=rope))
    plain = rope["rope_theta"] ** -np.array([0, 0.5])
    divisors = plain / other.blocks[0].heads.rope
    assert (divisors > 1.5).any()
    write_gguf(gguf, tmp_path / "b.gguf", tmp_path / "a", divisors=divisors)
    found = af.checkpoints.load(tmp_path / "b.gguf").run([1, 2, 3])
    assert apart(found.tokens, other.run([1, 2, 3]).tokens) < 1e-6  # divisors are stored in float32
    write_gguf(gguf, tmp_path / "c.gguf", tmp_path / "a", divisors=np.array([1.0, -1.0]))
    with refused("'rope_freqs.weight' holds numbers that are not positive"):
        af.checkpoints.load(tmp_path / "c.gguf").run([1])
    write_gguf(gguf, tmp_path / "d.gguf", tmp_path / "a", divisors=np.ones(3))
    with refused("'rope_freqs.weight' has shape \\(3,\\)"):
        af.checkpoints.load(tmp_path / "d.gguf")


READ = [f"llama.{key}" for key in (
    "embedding_length", "block_count", "attention.head_count", "attention.head_count_kv", "feed_forward_length",
    "vocab_size", "attention.layer_norm_rms_epsilon", "rope.freq_base", "attention.key_length",
    "attention.value_length", "rope.dimension_count", "attention.scale", "rope.scaling.alpha", *NEUTRAL,
)]  # fmt: skip

READ += ["general.architecture", "general.alignment", "split.count"]

OF_TEXTS = [f"tokenizer.ggml.{key}" for key in (
    "model", "pre", "tokens", "token_type", "merges", "add_bos_token", "bos_token_id",
)]  # fmt: skip


@pytest.mark.parametrize("array", [[1], [1, 2], [0.5, 0.5], ["llama", "gpt2"]], ids=str)
def test_arrays_in_place_of_values_in_gguf_files(tmp_path: Path, array: list[Any]) -> None:
    gguf = pytest.importorskip("gguf")
    pytest.importorskip("tokenizers")
    path, words = tmp_path / "m.gguf", ("gpt-2", ["<end>", "a", "b", "ab"], ["a b"])
    for key in READ + OF_TEXTS:
        write_gguf(gguf, path, FIXTURES / "llama", words=words, first=1, keys={key: array})
        with refused("expected|attnflow does not compute|tokenizer|one of .* parts"):
            af.checkpoints.load(path).run("ab")


def test_texts_of_gguf_files(tmp_path: Path) -> None:
    """Pairs of bytes that are merged are in the header; digits are taken one by one where the file says SmolLM."""
    gguf = pytest.importorskip("gguf")
    pytest.importorskip("tokenizers")
    words = ["<end>", "a", "b", "1", "ab", "\u0120", "\u0120ab", "11"]
    merges = ["a b", "\u0120 ab", "1 1"]
    for pre, expected in (("smollm", [4, 6, 5, 3, 3, 0]), ("gpt-2", [4, 6, 5, 7, 0])):
        write_gguf(gguf, tmp_path / f"{pre}.gguf", FIXTURES / "llama", words=(pre, words, merges))
        assert af.checkpoints.load(tmp_path / f"{pre}.gguf").ids("ab ab 11<end>").tolist() == expected
    write_gguf(gguf, tmp_path / "first.gguf", FIXTURES / "llama", words=("gpt-2", words, merges), first=2)
    model = af.checkpoints.load(tmp_path / "first.gguf")
    assert model.ids("ab").tolist() == [2, 4]
    assert model.words("ab ab") == ["b", "ab", "\u0120ab"]
    write_gguf(gguf, tmp_path / "broken.gguf", FIXTURES / "llama", words=("gpt-2", words, ["a c"]))
    with refused("is no tokenizer"):
        af.checkpoints.load(tmp_path / "broken.gguf").run("ab")
    write_gguf(gguf, tmp_path / "other.gguf", FIXTURES / "llama", words=("qwen2", words, merges))
    with refused("has no tokenizer.json, nor another"):
        af.checkpoints.load(tmp_path / "other.gguf").run("ab")
