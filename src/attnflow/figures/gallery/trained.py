"""Figures of a small trained transformer beside null models: the ALBERT of the package rxnmapper, if it is installed.

It is one layer applied twelve times, trained on chemical reactions. Without that package the figures show a model of
the same shape with random weights, and say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.figures.gallery import Drawing, entry
from attnflow.figures.papers import EMERGENCE, SPHERE
from attnflow.figures.style import DASHED, sheet, tone

WEIGHTS = "weights: Schwaller et al., Science Advances 7 (2021), package rxnmapper 0.4.3"
FOLDER = "models/transformers/albert_heads_8_uspto_all_1310k"
# A reaction of the documentation of rxnmapper, token by token.
LEFT = "C C ( C ) S . C N ( C ) C = O . F c 1 c c c n c 1 F . O = C ( [O-] ) [O-] . [K+] . [K+]"
RIGHT = "C C ( C ) S c 1 n c c c c 1 F"
REACTION = f"[CLS] {LEFT} >> {RIGHT} [SEP]".split()
# The shape of that model: layers, heads, their size, dimensions of tokens and of the feed-forward layer.
LAYERS, HEADS, SIZE, DIMENSION, WIDE = 12, 8, 32, 256, 512
# Directions that are closer than this are one cluster. Starts are moved by NUDGE to see what late counts are worth.
CLOSE, NUDGE = 0.1, 1e-9


@dataclass(frozen=True)
class Model:
    """A model, the ids of a reaction, what the key calls it, and what captions say of it."""

    checkpoint: Any
    ids: NDArray[np.int64]
    name: str
    said: str

    def run(self) -> af.Trajectory:
        """Return the run of the reaction."""
        found: af.Trajectory = self.checkpoint.run(self.ids)
        return found

    def nulls(self, kind: str, seeds: Sequence[int]) -> list[af.Trajectory]:
        """Return the runs of the reaction through null models."""
        x0 = self.checkpoint.tokens(self.ids)
        return [self.checkpoint.null(kind, seed=seed).run(x0) for seed in seeds]


def model(seed: int) -> Model:
    """Return the trained model, or without its package one of the same shape with random weights."""
    found = find_spec("rxnmapper")
    if found is None or found.origin is None:
        said = (
            "The package rxnmapper is not installed here: this is NO trained model, but one of its shape with random "
            f"weights, normal with variance 1 over the dimension of what they multiply, seed {seed}"
        )
        return Model(_random(seed), _numbered(sorted(set(REACTION))), "random weights, no trained model", said)
    folder = Path(found.origin).parent / FOLDER
    vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    said = (
        "The model is the ALBERT of rxnmapper, one layer applied 12 times, with 8 heads in dimension 256, trained on "
        "chemical reactions"
    )
    return Model(af.checkpoints.load(folder), _numbered(vocabulary), "trained", said)


def _numbered(vocabulary: list[str]) -> NDArray[np.int64]:
    return np.array([vocabulary.index(word) for word in REACTION])


def _random(seed: int) -> Any:
    """Return a model of the shape of the ALBERT with random weights."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> Array:
        drawn: Array = rng.standard_normal(shape) / np.sqrt(shape[-1])
        return drawn

    Q, K, V = (normal(HEADS, SIZE, DIMENSION) for _ in range(3))
    law = af.Attention(Q, K, V, normal(HEADS, DIMENSION, HEADS * SIZE)[..., :SIZE])
    block = af.Block(law, "post", af.Perceptron(normal(WIDE, DIMENSION), normal(DIMENSION, WIDE)))
    words, places = (rng.standard_normal((k, DIMENSION)) for k in (len(set(REACTION)), len(REACTION)))
    return af.checkpoints.Checkpoint(
        "random", "albert", {}, [block] * LAYERS, lambda ids: words[ids] + 0.5 * places[: len(ids)],
        dimension=DIMENSION, vocabulary=len(words),
    )  # fmt: skip


@entry("trained/spectra", "Spectra of every head of an ALBERT", f"{EMERGENCE}; {WEIGHTS}")
def spectra(seed: int = 0, nulls: int = 4) -> Drawing:
    """Eigenvalues of V_h in the complex plane, and of (B_h + B_h^T) / 2, beside Gaussian matrices of the same norms."""
    shown = model(seed)
    others = [shown.checkpoint.null("gaussian", seed=seed + k) for k in range(nulls)]
    # All layers are one, but the first hears tokens that come from no norm.
    heads = shown.checkpoint.layers[1].heads
    figure = af.figures.head_spectra(heads, [one.layers[1].heads for one in others])
    figure.suptitle(f"{shown.name}; null: Gaussian weights of the same norms", fontsize=11)
    tops = [_dominant(head.V) for head in heads]
    positive = sum(abs(top.imag) < 1e-9 and top.real > 0 for top in tops)
    caption = (
        f"{shown.said}. Above: the eigenvalues of V_h in the complex plane, with a ring at the one of largest modulus. "
        f"It is real and positive, as theorems on leaders ask, in {positive} of {len(heads)} heads. Below: positive "
        "eigenvalues of the symmetric part of B_h on normalised tokens, and moduli of negative ones. Their number is "
        "the same, that of the size of a head, so that no B_h is positive semidefinite; `plus` is the share of the "
        f"positive ones in the sum of all moduli. Grey: {nulls} models with Gaussian weights of the same norms, seeds "
        f"{seed} to {seed + nulls - 1}."
    )
    return Drawing(figure, caption, {"heads with a real positive dominant eigenvalue": positive})


def _dominant(V: Array) -> complex:
    values = np.linalg.eigvals(V)
    return complex(values[np.abs(values).argmax()])


@entry("trained/cosines", "Cosines of all pairs of tokens, layer by layer", f"{SPHERE}; {WEIGHTS}")
@entry(
    "trained/cosines-as-published", "Cosines with pairs i = j, and beyond the depth of the model",
    f"{SPHERE}; {WEIGHTS}", heads=16, diagonal=True, layers=(0, 6, 12, 24, 36, 48),
)  # fmt: skip
def cosines(
    seed: int = 0, heads: int = HEADS, diagonal: bool = False, layers: tuple[int, ...] = (0, 1, 2, 4, 8, 12)
) -> Drawing:
    """Histograms of <x_i, x_j> / (|x_i| |x_j|) after some layers, beside Gaussian weights of the same norms."""
    shown = model(seed)
    x0, until = shown.checkpoint.tokens(shown.ids), max(layers)
    null = shown.checkpoint.null("gaussian", seed=seed)
    motions = {f"{shown.name}, {HEADS} heads": shown.checkpoint.transformer.iterate(0)}
    motions[f"null: Gaussian weights, seed {seed}"] = null.transformer.iterate(0)
    if heads != HEADS:
        block = shown.checkpoint.transformer.blocks[0]
        other = af.Transformer([replace(block, heads=_regrouped(block.heads, heads))])
        motions[f"cut into {heads} heads, as it was NOT trained"] = other.iterate(0)
    runs = {name: af.simulate(x0, motion, until=until) for name, motion in motions.items()}
    figure = af.figures.cosine_histograms(runs, layers, diagonal=diagonal)
    counted = "all pairs, i = j included, whose cosine is 1" if diagonal else "all pairs i != j"
    beyond = f"The model has {LAYERS} layers; those beyond are the same layer again, which no training has seen. "
    cut = (
        f"The same weights cut into {heads} heads are another function than the one that was trained, as in published "
        "histograms beyond the depth of a model. "
    )
    caption = (
        f"{shown.said}. Shares of the cosines of {counted}, of the {len(shown.ids)} tokens of a reaction, on a "
        f"logarithmic scale; the short line is their mean. {beyond if until > LAYERS else ''}"
        f"{cut if heads != HEADS else ''}The null has Gaussian weights of the same norms, seed {seed}."
    )
    ends = {name: af.measure.mean_cosine(run.final, diagonal=diagonal) for name, run in runs.items()}
    return Drawing(figure, caption, {f"mean cosine at the end, {name}": value for name, value in ends.items()})


def _regrouped(law: Any, heads: int) -> af.Attention:
    """Return the same weights cut into another number of heads, with scores divided by the root of their new size."""

    def cut(weights: Any) -> Any:
        return None if weights is None else weights.reshape(heads, -1, *weights.shape[2:])

    O = np.swapaxes(cut(np.swapaxes(law.O, 1, 2)), 1, 2)  # noqa: E741
    biases = {name: cut(getattr(law, name)) for name in ("b_Q", "b_K", "b_V")}
    return af.Attention(cut(law.Q), cut(law.K), cut(law.V), O, **biases, b_O=law.b_O)


@entry("trained/by-layer", "Cosines, ranks, entropies and leaders, layer by layer", f"{SPHERE}; {WEIGHTS}")
def by_layer(seed: int = 0, nulls: int = 5) -> Drawing:
    """The mean of cos(x_i, x_j), effective and stable rank, entropy, leaders argmax_j P_ij and sum_i P_ij / n."""
    shown, seeds = model(seed), range(seed, seed + nulls)
    runs = {
        "null: Gaussian weights": shown.nulls("gaussian", seeds),
        "null: shuffled weights": shown.nulls("shuffled", seeds),
    }
    run = shown.run()
    figure = af.figures.by_layer(run, runs, name=shown.name)
    caption = (
        f"{shown.said}. Six measurements of a reaction of {len(shown.ids)} tokens, layer by layer, and of null models "
        f"with Gaussian weights of the same norms and with shuffled weights: bands hold seeds {seed} to "
        f"{seed + nulls - 1}, lines are medians. Cosines that rise say nothing by themselves: here those of random "
        "weights rise to 1."
    )
    shows: dict[str, Any] = {f"mean cosine, {shown.name}": af.measure.mean_cosine(run).tolist()}
    for name, group in runs.items():
        shows[f"mean cosine, {name}"] = np.median([af.measure.mean_cosine(one) for one in group], axis=0).tolist()
    return Drawing(figure, caption, shows)


@entry("trained/attention", "The head whose leader is heard most", f"{EMERGENCE}; {WEIGHTS}")
def attention(seed: int = 0) -> Drawing:
    """The weights P_ij of one head in one layer, its leaders and column masses, beside Gaussian weights."""
    shown = model(seed)
    run, (null,) = shown.run(), shown.nulls("gaussian", [seed])
    heard = np.array([one.heard for one in af.measure.leaders(run.law, run)])
    layer, head, leader = (int(k) for k in np.unravel_index(heard.argmax(), heard.shape))
    figure = af.figures.attention_map(run, layer, head, REACTION, {f"null: Gaussian weights, seed {seed}": null})
    figure.axes[0].set_title(f"{shown.name}: layer {layer}, head {head}", fontsize=11)
    caption = (
        f"{shown.said}. Of all heads and layers, head {head} in layer {layer} has the token that is heard most: "
        f"{REACTION[leader]}, number {leader} of {len(REACTION)}, with a column mass of "
        f"{heard[layer, head, leader]:.2f}; if all were heard alike it would be {1 / len(REACTION):.3f}. Dots are "
        f"leaders. Right: the same head of a model with Gaussian weights of the same norms, seed {seed}."
    )
    shows = {"layer": layer, "head": head, "leader": REACTION[leader], "column mass": heard[layer, head, leader]}
    return Drawing(figure, caption, shows)


@entry("trained/stream", "The residual stream in its two leading directions", f"{SPHERE}; {WEIGHTS}")
def stream(seed: int = 0) -> Drawing:
    """Directions x / |x| of all tokens from layer to layer, in two principal components of all states."""
    shown = model(seed)
    film, other = (af.figures.stream(run) for run in (shown.run(), *shown.nulls("gaussian", [seed])))
    figure = af.figures.compare({shown.name: film, f"null: Gaussian weights, seed {seed}": other})
    figure.set_size_inches(7.4, 4.4)  # room for the names of principal components
    caption = (
        f"{shown.said}. Left: the {len(shown.ids)} tokens of a reaction as directions, from layer to layer. Right: "
        f"those of a model with Gaussian weights of the same norms, seed {seed}, in the same two principal components. "
        "The movie is that of the left."
    )
    return Drawing(figure, caption, {"clusters at the end": af.measure.clusters(film.final, CLOSE).count}, film=film)


@entry("trained/iterated", "One trained layer applied again and again", f"{SPHERE}; {WEIGHTS}")
def iterated(seed: int = 0, nulls: int = 3, moved: int = 3, until: int = 400, every: int = 5) -> Drawing:
    """Numbers of clusters of x / |x| over iterations: as trained, from starts moved by 1e-9, and of null models."""
    shown = model(seed)
    x0, layer = shown.checkpoint.tokens(shown.ids), shown.checkpoint.transformer.iterate(0)
    rng = np.random.default_rng(seed)
    starts = [x0, *(x0 + NUDGE * rng.standard_normal(x0.shape) for _ in range(moved))]
    counts = [_clusters(layer, x, until, every) for x in starts]
    motions = [shown.checkpoint.null("gaussian", seed=seed + k).transformer.iterate(0) for k in range(nulls)]
    others = [_clusters(motion, x0, until, every) for motion in motions]
    figure = sheet(5.6, 3.6)
    ax = figure.add_subplot()
    steps = np.arange(0, until + 1, every)
    for k, count in enumerate(counts[1:]):
        ax.plot(steps, count, color=tone().palette[5], lw=0.9, zorder=2, gid=f"moved {k}",
                label=None if k else f"the same, start moved by {NUDGE:.0e}".replace("e-09", "e-9"))  # fmt: skip
    ax.plot(steps, counts[0], color=tone().palette[0], lw=1.9, zorder=3, gid="run", label=shown.name)
    for k, count in enumerate(others):
        ax.plot(steps, count, color=tone().palette[1], lw=1.3, ls=DASHED, zorder=4, gid=f"null {k}",
                label=None if k else "null: Gaussian weights")  # fmt: skip
    ax.axvline(LAYERS, color=tone().wire, lw=0.8, zorder=0)
    ax.text(LAYERS + 4, 1.1, f"depth of the model: {LAYERS}", color=tone().quiet, fontsize=9)
    ax.set(yscale="log", xlabel="iteration", ylabel="clusters", xlim=(0, until), ylim=(0.9, 1.15 * len(x0)))
    ax.set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    ax.minorticks_off()
    figure.legend(loc="outside lower center", ncols=2, fontsize=9.5)
    ends = [count[-1] for count in counts]
    caption = (
        f"{shown.said}. The layer is applied {until} times, the setting of the theory: clusters are directions x / |x| "
        f"joined by steps shorter than {CLOSE:g}. Pale lines start elsewhere by {NUDGE:g}: after {until} iterations "
        f"their counts and that of the run lie between {min(ends)} and {max(ends)}, so that none of them is the number "
        f"of clusters. Dashed: {nulls} null models with Gaussian weights of the same norms, seeds {seed} to "
        f"{seed + nulls - 1}; from iteration {every * _settled(others)} on each of them has as many clusters as at the "
        f"end, at most {max(other[-1] for other in others)}. Clusters are counted every {every} iterations."
    )
    return Drawing(figure, caption, {"clusters at the end": ends, "clusters of nulls": [one[-1] for one in others]})


def _clusters(motion: Any, x0: Array, until: int, every: int) -> list[int]:
    """Return the numbers of clusters of directions over time."""
    run = af.figures.stream(af.simulate(x0, motion, until=until, record=every))
    return [af.measure.clusters(x, CLOSE).count for x in run.tokens]


def _settled(counts: list[list[int]]) -> int:
    """Return the record from which on all of them have as many clusters as at their ends."""
    other = [max((k for k, count in enumerate(each) if count != each[-1]), default=-1) for each in counts]
    return max(other) + 1
