"""Names, settings and tensors of models: other names of the same are taken, what is not computed is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused
from safetensors.numpy import load_file, save_file
from small_models import FIXTURES, apart, changed, reference

import attnflow as af
from attnflow.checkpoints.loading import LARGEST_CONFIG


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
    (folder / "2.safetensors").unlink()
    with refused("names the file '2.safetensors', which is not beside it: put it there"):
        af.checkpoints.load(folder)


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
    (tmp_path / "config.json").write_text("[1]")
    with refused("config.json holds \\[1\\], expected names with values"):
        af.checkpoints.load(tmp_path)
    (tmp_path / "config.json").write_text(" " * (LARGEST_CONFIG + 1))
    with refused(f"has more than {LARGEST_CONFIG} bytes"):
        af.checkpoints.load(tmp_path)
    (tmp_path / "config.json").unlink()
    with refused("config.json does not exist"):
        af.checkpoints.load(tmp_path / "model.safetensors")


def test_more_layers_than_tensors_are_refused_before_they_are_named(tmp_path: Path) -> None:
    with refused("asks for 9999 layers, but there are .* tensors in all: give the configuration that belongs"):
        af.checkpoints.load(changed(tmp_path, "gpt2", n_layer=9999))


def test_a_checkpoint_is_its_layers_in_order() -> None:
    found = af.checkpoints.load(FIXTURES / "gpt2")
    assert len(list(found)) == len(found.layers) == len(found)
    assert all(one is other for one, other in zip(found, found.layers, strict=True))
