"""Trained models against the reference library, on small random models that it saved (see make_fixtures.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_fixtures import MODELS
from refusals import refused
from safetensors.numpy import load_file
from small_models import FIXTURES, apart, changed, reference

import attnflow as af


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
