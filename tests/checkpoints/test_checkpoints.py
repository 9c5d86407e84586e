"""Trained models against the reference library, on small random models that it saved (see make_fixtures.py)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_fixtures import MODELS
from refusals import refused
from safetensors.numpy import load_file, save_file

import attnflow as af
from attnflow.checkpoints.architectures.llama import NEUTRAL

FIXTURES = Path(__file__).parent / "fixtures"


def reference(name: str) -> dict[str, Any]:
    with np.load(FIXTURES / name / "reference.npz") as found:
        return dict(found)


def apart(found: Any, expected: Any) -> float:
    """Return the largest error of a token, relative to its norm, over all states."""
    return float((np.linalg.norm(found - expected, axis=-1) / np.linalg.norm(expected, axis=-1)).max())


@pytest.mark.parametrize("name", MODELS)
def test_runs_are_those_of_the_reference_library(name: str) -> None:
    model, expected = af.checkpoints.load(FIXTURES / name), reference(name)
    run = model.run(expected["ids"])
    assert apart(run.tokens, expected["states"]) < 1e-13
    assert apart(model.transformer.output(run.final), expected["output"]) < 1e-13
    single = model.run(list(expected["ids"]), precision="single")
    assert 1e-9 < apart(single.tokens, expected["states"]) < 1e-5
    assert model.architecture == json.loads((FIXTURES / name / "config.json").read_text())["model_type"]


@pytest.mark.parametrize("name", MODELS)
def test_heads_are_laws(name: str) -> None:
    """Both the law of a head and its matrices give the attention of the reference library."""
    model, expected = af.checkpoints.load(FIXTURES / name), reference(name)
    run = model.run(expected["ids"])
    for layer in model.layers:
        seen = run.seen(layer.index)
        heads: Any = layer.block.heads
        lifted = np.column_stack([seen, np.ones(len(seen))]) if heads.lifts else seen
        assert run.law is not None
        assert np.abs(run.law.weights(seen, layer.index) - expected["attention"][layer.index]).max() < 1e-13
        assert len(layer.heads) == len(expected["attention"][layer.index])
        for head in layer.heads:
            P = head.law().weights(lifted)
            assert np.abs(P - expected["attention"][layer.index, head.index]).max() < 1e-13


@pytest.mark.parametrize("name", ["bert", "albert", "gpt2"])
def test_matrices_of_heads_act_on_tokens_before_gain_and_bias(name: str) -> None:
    """s_ij = <B z_i + w, z_j>, and V z_j is what is added, up to a constant; z is normalised, or the token itself."""
    model, expected = af.checkpoints.load(FIXTURES / name), reference(name)
    for layer in model.layers:
        z = expected["states"][layer.index]
        if name == "gpt2":
            z = (z - z.mean(axis=1, keepdims=True)) / np.sqrt(z.var(axis=1, keepdims=True) + 1e-5)
        total = np.zeros_like(z)
        for head in layer.heads:
            scores = (z @ head.B.T + head.w) @ z.T
            if name == "gpt2":
                scores[np.triu_indices(len(z), 1)] = -np.inf
            P = np.exp(scores - scores.max(axis=1, keepdims=True))
            P /= P.sum(axis=1, keepdims=True)
            assert np.abs(P - expected["attention"][layer.index, head.index]).max() < 1e-12
            total += P @ z @ head.V.T
        rest = layer.block.heads.attend(layer.block.attended(expected["states"][layer.index])) - total
        assert np.abs(rest - rest[0]).max() < 1e-12


def test_scores_of_normalised_tokens_have_the_gain_of_the_norm_below() -> None:
    """And no part along 1, which LayerNorm takes from all tokens."""

    def normed(B: Any, gain: Any) -> Any:
        P = np.eye(len(gain)) - 1 / len(gain)
        return P @ np.diag(gain) @ B @ np.diag(gain) @ P

    for name in ("bert", "albert"):
        model = af.checkpoints.load(FIXTURES / name)
        tensors = load_file(FIXTURES / name / "model.safetensors")
        first, second = model.layers[:2]
        if name == "bert":
            gain = tensors["embeddings.LayerNorm.weight"].astype(float)
            assert np.allclose(first.heads[1].B_normed, normed(first.heads[1].B, gain))
        else:
            assert (first.heads[1].B_normed == first.heads[1].B).all()
        ends = [one for one in tensors if one.endswith(("layer.0.output.LayerNorm.weight", "layer_layer_norm.weight"))]
        gain = tensors[ends[0]].astype(float)
        assert np.allclose(second.heads[0].B_normed, normed(second.heads[0].B, gain))
    pre = af.checkpoints.load(FIXTURES / "gpt2").layers[1].heads[2]
    assert (pre.B_normed == pre.B).all()


def test_models_that_were_changed_say_so() -> None:
    model = af.checkpoints.load(FIXTURES / "bert")
    null = model.null("gaussian", seed=3)
    assert repr(null).startswith("Checkpoint('bert, gaussian null, seed 3', bert, ")
    assert null.without("mlp").name == "bert, gaussian null, seed 3 without mlp"
    assert model.without("attention").hypotheses(nulls=()).name == "bert without attention"
    assert model.name == "bert"


@pytest.mark.parametrize("path", [None, "", 3])
def test_what_is_no_path_is_not_loaded(path: Any) -> None:
    with refused(f"path is {path!r}, expected the folder of a model"):
        af.checkpoints.load(path)


def test_theorems_are_known_by_name_and_printed_shortly() -> None:
    table = af.checkpoints.load(FIXTURES / "bert").hypotheses(nulls=())
    both = table.applies("hyperplanes") + table.applies("none")
    assert sorted(both) == [(k, h) for k in range(table.layers) for h in range(table.heads)]
    assert table.applies("polytope") == []
    with refused("a theorem is 'foo', expected one of negative identity, polytope"):
        table.applies("foo")
    assert "array" not in repr(table.classification(0, 0))


def test_one_layer_of_albert_is_one_block() -> None:
    model = af.checkpoints.load(FIXTURES / "albert")
    assert len({id(block) for block in model.transformer.blocks}) == 1
    again = af.simulate(model.tokens([1, 2, 3]), model.transformer.iterate(), until=5)
    assert np.allclose(again.tokens[:4], model.run([1, 2, 3]).tokens, atol=1e-13)


def test_weights_stay_in_their_file() -> None:
    model = af.checkpoints.load(FIXTURES / "bert")
    block: Any = model.layers[1].block
    for weights in (block.heads.Q, block.heads.O, block.feed_forward.up):
        assert weights.dtype == np.float32
        assert not weights.flags.owndata
        assert not weights.flags.writeable
    assert model.blocks[1] is block
    assert model.blocks[:2] == [model.blocks[0], block]


def changed(folder: Path, name: str, weights: Callable[[Any], Any] | None = None, **settings: Any) -> Path:
    """Copy a model with other weights or settings; None removes a setting."""
    shutil.copytree(FIXTURES / name, folder, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text()) | settings
    (folder / "config.json").write_text(json.dumps({key: one for key, one in config.items() if one is not None}))
    if weights is not None:
        save_file(weights(load_file(folder / "model.safetensors")), folder / "model.safetensors")
    return folder


def test_other_names_of_the_same_tensors(tmp_path: Path) -> None:
    def older(tensors: dict[str, Any]) -> dict[str, Any]:
        ends = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        renamed = {}
        for name, tensor in tensors.items():
            for now, before in ends.items():
                name = name.replace(now, before)
            renamed[f"bert.{name}"] = tensor
        return renamed | {
            "cls.predictions.bias": np.zeros(3, np.float32),
            "bert.embeddings.position_ids": np.arange(12),
        }

    expected = reference("bert")
    found = af.checkpoints.load(changed(tmp_path / "a", "bert", older, model_type=None))
    assert apart(found.run(expected["ids"]).tokens, expected["states"]) < 1e-13
    assert found.architecture == "bert"
    bare = changed(tmp_path / "b", "gpt2", lambda all: {k.removeprefix("transformer."): v for k, v in all.items()})
    expected = reference("gpt2")
    assert apart(af.checkpoints.load(bare).run(expected["ids"]).tokens, expected["states"]) < 1e-13


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("bert", ("hidden_act", "layer_norm_eps", "type_vocab_size", "is_decoder")),
        ("albert", ("hidden_act", "layer_norm_eps", "num_hidden_groups", "inner_group_num")),
        ("gpt2", ("activation_function", "layer_norm_epsilon", "scale_attn_weights", "add_cross_attention")),
        ("neox", ("hidden_act", "layer_norm_eps", "use_parallel_residual", "attention_bias")),
        ("llama", ("hidden_act", "attention_bias", "mlp_bias", "head_dim")),
    ],
)
def test_settings_that_are_not_said_are_those_of_the_reference_library(
    tmp_path: Path, name: str, settings: tuple[str, ...]
) -> None:
    found = af.checkpoints.load(changed(tmp_path, name, **dict.fromkeys(settings))).run([1, 2, 3])
    assert (found.tokens == af.checkpoints.load(FIXTURES / name).run([1, 2, 3]).tokens).all()


def test_older_names_of_angles(tmp_path: Path) -> None:
    older: dict[str, Any] = {
        "rotary_emb_base": 100.0,
        "rotary_pct": 1.0,
        "rope_scaling": {"type": "linear", "factor": 2.0},
    }
    found = af.checkpoints.load(changed(tmp_path, "neox-sequential", rope_parameters=None, **older)).run([1, 2, 3])
    assert (found.tokens == af.checkpoints.load(FIXTURES / "neox-sequential").run([1, 2, 3]).tokens).all()
    llama = json.loads((FIXTURES / "llama-biased" / "config.json").read_text())["rope_parameters"]
    before = {"rope_scaling": {k: v for k, v in llama.items() if k != "rope_theta"}, "rope_theta": llama["rope_theta"]}
    found = af.checkpoints.load(changed(tmp_path, "llama-biased", rope_parameters=None, **before)).run([1, 2, 3])
    assert (found.tokens == af.checkpoints.load(FIXTURES / "llama-biased").run([1, 2, 3]).tokens).all()


def test_metadata_of_other_formats_do_not_make_a_gguf_file(tmp_path: Path) -> None:
    folder = changed(tmp_path, "bert")
    weights = load_file(folder / "model.safetensors")
    save_file(weights, folder / "model.safetensors", metadata={"general.architecture": "llama"})
    assert af.checkpoints.load(folder).architecture == "bert"


def test_scales_and_angles_are_those_of_the_formulas(tmp_path: Path) -> None:
    """Both scales of GPT-2 at once, 1 / (sqrt(4) (k + 1)) in layer k, and angles 100^(-i / 2) / 8 of Llama."""
    both = af.checkpoints.load(changed(tmp_path / "a", "gpt2", scale_attn_by_inverse_layer_idx=True))
    laws: list[Any] = [block.heads for block in both.blocks]
    assert [law.scale for law in laws] == [0.5, 0.25]
    rope = {"rope_type": "linear", "rope_theta": 100.0, "factor": 8.0}
    turned: Any = af.checkpoints.load(changed(tmp_path / "b", "llama", rope_parameters=rope)).blocks[1].heads
    assert np.allclose(turned.rope, [1 / 8, 0.1 / 8], rtol=1e-15)


def test_half_precision_and_parts(tmp_path: Path) -> None:
    """Numbers of float16 are exactly those of float32, and two files are one model."""
    rounded = changed(tmp_path / "a", "llama", lambda all: {k: v.astype(np.float16) for k, v in all.items()})
    folder = changed(tmp_path / "b", "llama")
    tensors = {name: one.astype(np.float32) for name, one in load_file(rounded / "model.safetensors").items()}
    (folder / "model.safetensors").unlink()
    parts = {"1.safetensors": list(tensors)[::2], "2.safetensors": list(tensors)[1::2]}
    for part, names in parts.items():
        save_file({name: tensors[name] for name in names}, folder / part)
    index = {"weight_map": {name: part for part, names in parts.items() for name in names}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    one, other = af.checkpoints.load(rounded).run([1, 2, 3]), af.checkpoints.load(folder).run([1, 2, 3])
    assert (one.tokens == other.tokens).all()


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


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("bert", {"model_type": "roberta"}, "family 'roberta', expected one of bert, albert"),
        ("bert", {"model_type": ["bert"]}, "family .*expected one of"),
        ("bert", {"position_embedding_type": "relative_key"}, "'relative_key', which attnflow"),
        ("bert", {"hidden_act": "mish"}, "hidden_act .*'mish', which attnflow does not compute: it knows gelu"),
        ("bert", {"is_decoder": True}, "is_decoder"),
        ("bert", {"pruned_heads": {"0": [1]}}, "pruned_heads"),
        ("llama", {"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
        ("bert", {"num_hidden_layers": 1}, "hold 'encoder.layer.1.* which a bert model of 1 layers"),
        ("bert", {"num_hidden_layers": 3}, "lack 'encoder.layer.2.attention.self.query.weight'"),
        ("bert", {"num_hidden_layers": 10**9}, "asks for 1000000000 layers"),
        ("albert", {"num_hidden_layers": 10**9}, "asks for 1000000000 layers"),
        ("bert", {"hidden_size": 32}, "has shape \\(20, 16\\), but config.json asks for \\(20, 32\\)"),
        ("bert", {"num_attention_heads": 3}, "expected a number of parts that divides"),
        ("bert", {"hidden_size": "wide"}, "hidden_size of config.json is 'wide'"),
        ("bert", {"hidden_size": -4}, "hidden_size of config.json is -4"),
        ("bert", {"hidden_size": None}, "does not say hidden_size"),
        ("bert", {"layer_norm_eps": float("nan")}, "layer_norm_eps"),
        ("albert", {"num_hidden_groups": 2}, "num_hidden_groups .* is 2"),
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention"),
        ("gpt2", {"scale_attn_weights": 1}, "expected true or false"),
        ("neox", {"rope_parameters": {"rope_type": "yarn"}}, "rope_type .*'yarn', which attnflow does not compute"),
        ("neox", {"rope_parameters": {"partial_rotary_factor": 0.4}}, "turns 3 coordinates"),
        ("llama", {"rope_parameters": [1]}, "expected names with values"),
        ("llama", {"rope_scaling": {"type": "dynamic"}, "rope_parameters": None}, "type .*'dynamic', which attnflow"),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "and rope_scaling, which differ"),
        ("neox", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "and rope_scaling, which differ"),
        ("llama", {"rope_parameters": {"full_attention": {"rope_theta": 5.0}}}, "their own for 'full_attention'"),
        ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor of config.json is 0.5"),
        ("llama", {"rope_parameters": None, "rope_scaling": {"partial_rotary_factor": 0.5}}, "is 0.5, which attnflow"),
        ("llama", {"sliding_window": 4}, "sliding_window of config.json is 4, which attnflow"),
        ("llama", {"is_causal": False}, "is_causal of config.json is False"),
        ("gpt2", {"is_causal": False}, "is_causal of config.json is False"),
        ("neox", {"use_bidirectional_attention": True}, "use_bidirectional_attention of config.json is True"),
        ("llama", {"use_bidirectional_attention": True}, "use_bidirectional_attention of config.json is True"),
        ("llama", {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types .* is 'sliding_attention'"),
        ("llama", {"layer_types": {"0": 1}}, "layer_types of config.json is {'0': 1}"),
        ("llama", {"attention_multiplier": 0.25}, "attention_multiplier of config.json is 0.25"),
        ("llama", {"embedding_multiplier": 12.0}, "embedding_multiplier of config.json is 12.0"),
        ("llama", {"residual_multiplier": 0.2}, "residual_multiplier of config.json is 0.2"),
        ("llama", {"num_key_value_heads": 3}, "4 heads and 3 groups"),
        ("llama", {"head_dim": 3}, "expected an even one"),
        ("llama", {"mlp_bias": True}, "lack 'layers.0.mlp.gate_proj.bias'"),
    ],
)  # fmt: skip
def test_other_settings_are_refused(tmp_path: Path, name: str, settings: dict[str, Any], sentence: str) -> None:
    with refused(sentence):
        af.checkpoints.load(changed(tmp_path, name, **settings))


def test_settings_that_change_nothing_are_taken(tmp_path: Path) -> None:
    rope = json.loads((FIXTURES / "llama" / "config.json").read_text())["rope_parameters"]
    same: dict[str, Any] = {
        "rope_scaling": rope, "sliding_window": 4, "use_sliding_window": False, "is_causal": True,
        "use_bidirectional_attention": False, "layer_types": ["full_attention"] * 2, "attention_multiplier": 0.5,
        "partial_rotary_factor": 1, "embedding_multiplier": 1.0, "residual_multiplier": 1,
    }  # fmt: skip
    found = af.checkpoints.load(changed(tmp_path, "llama", **same)).run([1, 2, 3])
    assert (found.tokens == af.checkpoints.load(FIXTURES / "llama").run([1, 2, 3]).tokens).all()


def test_share_of_coordinates_by_its_older_name(tmp_path: Path) -> None:
    """The part that turns is said with the scaling of angles, also where this is called rope_scaling."""
    rope = json.loads((FIXTURES / "neox" / "config.json").read_text())["rope_parameters"]
    assert rope["partial_rotary_factor"] == 0.75
    found = af.checkpoints.load(changed(tmp_path, "neox", rope_parameters=None, rope_scaling=rope)).run([1, 2, 3])
    assert (found.tokens == af.checkpoints.load(FIXTURES / "neox").run([1, 2, 3]).tokens).all()


def test_other_tensors_are_refused(tmp_path: Path) -> None:
    def with_one(**more: Any) -> Callable[[Any], Any]:
        return lambda tensors: tensors | more

    with refused("hold 'adapter.weight'"):
        af.checkpoints.load(changed(tmp_path, "bert", with_one(**{"adapter.weight": np.zeros(2, np.float32)})))
    with refused("hold 'embeddings.LayerNorm.weight' twice"):
        twice = with_one(**{"bert.embeddings.LayerNorm.gamma": np.zeros(16, np.float32)})
        af.checkpoints.load(changed(tmp_path, "bert", twice))
    with refused("holds int64, expected real numbers"):
        af.checkpoints.load(
            changed(tmp_path, "bert", with_one(**{"embeddings.LayerNorm.bias": np.zeros(16, np.int64)}))
        )
    words = np.frombuffer(b"\x01\x00\x80\x7f" * 320, np.float32).reshape(20, 16)  # NaN that signals
    with refused("'embeddings.word_embeddings.weight' holds numbers that are not finite"):
        lost = with_one(**{"embeddings.word_embeddings.weight": words})
        af.checkpoints.load(changed(tmp_path, "bert", lost)).run([1])
    for number in (np.nan, np.inf, -np.inf):
        for tensor in ("encoder.layer.1.attention.self.key.weight", "encoder.layer.1.output.LayerNorm.bias"):
            spoilt = load_file(FIXTURES / "bert" / "model.safetensors")[tensor]
            spoilt.flat[-1] = number
            model = af.checkpoints.load(changed(tmp_path, "bert", with_one(**{tensor: spoilt})))
            assert np.isfinite(model.layers[0].heads[0].B).all()  # of another layer
            for use in (model.hypotheses, partial(model.run, [1]), partial(getattr, model.layers[1], "heads")):
                with refused(f"the tensor '{tensor}' holds numbers that are not finite"):
                    use()
    unnamed = changed(tmp_path, "bert", lambda tensors: {"V": np.eye(2)}, model_type=None)
    with refused("does not say model_type"):
        af.checkpoints.load(unnamed)
    (tmp_path / "config.json").write_text("{")
    with refused("is not JSON"):
        af.checkpoints.load(tmp_path)
    (tmp_path / "config.json").write_text("[" * 100_000)
    with refused("is not JSON"):
        af.checkpoints.load(tmp_path)
    (tmp_path / "config.json").unlink()
    with refused("config.json does not exist"):
        af.checkpoints.load(tmp_path / "model.safetensors")


def test_what_is_run() -> None:
    model = af.checkpoints.load(FIXTURES / "bert")
    tokens = model.tokens([4, 5, 6])
    assert (model.run(tokens).tokens == model.run(np.array([4, 5, 6], np.uint8)).tokens).all()
    assert len(model.run([1, 2], until=1)) == 2
    with refused("no token 20, expected ids from 0 to 19"):
        model.run([3, 20])
    with refused("no token -1"):
        model.run([3, -1])
    with refused("13 tokens were given, but bert has 12 positions"):
        model.run([1] * 13)
    with refused("expected a text, a list of ids, or tokens \\(n, 16\\)"):
        model.run(np.zeros((3, 4)))
    for other in ([[1, 2], [3]], None, 3.5, ["a"], [True], [10**30], [], {"a": 1}):
        with refused("expected a text, a list of ids, or tokens \\(n, 16\\)"):
            model.run(other)
    with refused("NaN|finite"):
        model.run(np.full((2, 16), np.nan))
    with refused("there is no token"):
        model.run(np.array([], dtype=int))
    with refused("has no tokenizer.json"):
        model.run("a text")
    with refused("precision is 'half'"):
        model.run([1], precision="half")
    assert repr(model) == "Checkpoint('bert', bert, 2 layers of dimension 16)"
    assert repr(model.layers[1].heads[0]) == "Head(0 of layer 1)"


def test_null_models_and_parts_left_out() -> None:
    model = af.checkpoints.load(FIXTURES / "gpt2")
    other = model.null("gaussian", seed=3)
    first, drawn = model.layers[1].heads[0], other.layers[1].heads[0]
    laws: list[Any] = [one.layers[1].block.heads for one in (model, other)]
    trained, random = (float(np.linalg.norm(law.Q[0])) for law in laws)
    assert abs(random / trained - 1) < 1e-6
    assert not np.allclose(drawn.B, first.B)
    assert (other.run([1, 2]).tokens[0] == model.run([1, 2]).tokens[0]).all()
    assert other.final is model.final
    bare = model.without("mlp").without("attention")
    assert np.allclose(bare.run([1, 2, 3]).final, model.tokens([1, 2, 3]), atol=1e-14)


def test_the_table_of_hypotheses_is_that_of_the_heads() -> None:
    for name in ("bert", "llama"):
        model = af.checkpoints.load(FIXTURES / name)
        table = model.hypotheses([1, 2, 3], nulls=["shuffled"], seeds=[0])
        for layer in model.layers:
            for head in layer.heads:
                eigenvalues = np.linalg.eigvalsh((head.B_normed + head.B_normed.T) / 2)
                plus = eigenvalues[eigenvalues > 0].sum() / np.abs(eigenvalues).sum()
                assert np.isclose(table["plus"][layer.index, head.index], plus)
                dominant = np.abs(np.linalg.eigvals(head.V)).max()
                assert np.isclose(abs(table["dominant"][layer.index, head.index]), dominant)
        assert table["entropy"].shape == (2, len(model.layers[0].heads))


def test_texts(tmp_path: Path) -> None:
    """By tokenizer.json, whose padding and length are not for us, or by vocab.txt where BERT's rules are named."""
    tokenizers = pytest.importorskip("tokenizers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "tokens", "move", "##d", "."]
    folder = changed(tmp_path, "bert")
    (folder / "vocab.txt").write_text("\n".join(words))
    with refused("has no tokenizer.json"):
        af.checkpoints.load(folder).run("Tokens moved.")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    expected = [2, 5, 6, 7, 8, 3]
    assert af.checkpoints.load(folder).ids("Tokens moved.").tolist() == expected
    kept = tokenizers.BertWordPieceTokenizer(str(folder / "vocab.txt"))
    kept.enable_padding(length=9)
    kept.enable_truncation(3)
    kept.save(str(folder / "tokenizer.json"))
    model = af.checkpoints.load(folder)
    assert model.ids("Tokens moved.").tolist() == expected
    assert (model.run("Tokens moved.").tokens == model.run(expected).tokens).all()
    assert model.words("Tokens moved.") == ["[CLS]", "tokens", "move", "##d", ".", "[SEP]"]
    assert model.words([5, 14]) == ["tokens", "14"]
    for empty in ("", " \n"):
        with refused("has no words: give some"):
            model.run(empty)
    with refused("\\[1, 2\\] is no text"):
        model.ids([1, 2])  # type: ignore[arg-type]
    with refused("expected a text or a list of ids"):
        model.words([[1.5], [2]])
    with refused("20 tokens were given, but .* positions"):
        model.run("move " * 18)
    (folder / "tokenizer.json").write_text("{}")
    with refused("is no tokenizer"):
        af.checkpoints.load(folder).run("Tokens moved.")
