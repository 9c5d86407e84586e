"""The example of a sentiment classifier, on made-up reviews."""

from __future__ import annotations

import csv
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")
EXAMPLE = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "sentiment.py"))
PLAIN = ("the", "film", "has", "a", "plot", "and", "actors", "who", "speak", "while", "music", "plays")


def made_up(path: Path, count: int = 80) -> Path:
    """Write reviews of plain words, with one word that says whether the review is positive."""
    rng = np.random.default_rng(0)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "label", "source"])
        for k in range(count):
            words = [*rng.choice(PLAIN, size=8), ("bad", "good")[k % 2]]
            rows.writerow([" ".join(rng.permutation(words)), k % 2, "imdb"])
        rows.writerow(["good", 0, "elsewhere"])
    return path


def test_words_with_meaning_lead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main = EXAMPLE["main"]
    main.__globals__.update(RATE=0.1, PENALTY=0.02)  # fewer steps are enough for a few words
    found = main(made_up(tmp_path / "reviews.csv"), [2], 30, 0, tmp_path)[2]
    shown = capsys.readouterr().out
    assert found.accuracy == 1
    assert found.leaders < found.words / 2
    assert "64 reviews to train, 16 to test, 14 words; seed 0\nnaive Bayes: 1.000" in shown
    # All words follow the one that says what the review is, in those reviews at least that have one of the two.
    assert "positive: good" in shown or "negative: bad" in shown
    assert (tmp_path / "sentiment.png").stat().st_size > 10_000


def test_padded_batches_in_jax_are_the_exact_layers_of_each_review() -> None:
    import jax
    from jax import numpy as jnp

    rng = np.random.default_rng(1)
    review, model = EXAMPLE["Review"], EXAMPLE["Model"]
    exact = model(rng.normal(size=(30, 4)), np.log(0.7), rng.normal(size=4), 0.3)
    reviews = [review(rng.permutation(30)[:n], rng.integers(1, 4, size=n).astype(float), True) for n in (1, 5, 30)]

    def odds(given: Any, words: Any, masses: Any) -> Any:
        return EXAMPLE["decoded"](given, EXAMPLE["moved"](given, words, masses).final, masses)

    words, masses, _ = zip(*(EXAMPLE["padded"](one, 32) for one in reviews), strict=True)
    traced = model(*(jnp.asarray(value, dtype=jnp.float32) for value in exact))
    side_by_side = jax.jit(jax.vmap(odds, in_axes=(None, 0, 0)))(traced, np.array(words), np.array(masses, np.float32))
    for one, found in zip(reviews, side_by_side, strict=True):
        # The definition, with each word as often as it occurs.
        x = exact.places[np.repeat(one.words, one.masses.astype(int))]
        for _ in range(8):
            scores = x @ x.T
            top = scores >= scores.max(axis=1, keepdims=True) - 1e-12
            x = (x + 0.7 * (top / top.sum(axis=1, keepdims=True)) @ x) / 1.7
        wanted = x.mean(axis=0) @ exact.v + exact.b
        np.testing.assert_allclose(odds(exact, one.words, one.masses), wanted, atol=1e-12)
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_every_review_is_in_a_batch() -> None:
    rng, review = np.random.default_rng(2), EXAMPLE["Review"]
    reviews = [review(np.full(1 + k, k), np.ones(1 + k), k % 2 == 0) for k in range(150)]
    seen = list(EXAMPLE["batches"](reviews, rng))
    assert {words.shape for words, _, _ in seen} == {(32, 64), (32, 128), (32, 192)}
    assert {int(row[0]) for words, _, _ in seen for row in words} == set(range(150))
    for words, masses, positive in seen:
        np.testing.assert_allclose(masses.sum(axis=1), words[:, 0] + 1, rtol=1e-5)
        np.testing.assert_array_equal(positive, words[:, 0] % 2 == 0)


def test_naive_bayes_against_counting() -> None:
    review, nothing = EXAMPLE["Review"], np.ones(1)
    train = [review(np.array([0]), 3 * nothing, True), review(np.array([1]), nothing, False)]
    test = [review(np.array([0, 1]), np.array([1.0, k]), k < 1.5) for k in (1.0, 2.0)]
    # P(0 | positive) = 4/5, P(1 | positive) = 1/5, P(0 | negative) = 1/3, P(1 | negative) = 2/3: of the words 0 1 with
    # odds 12/5 * 3/10 < 1 and 0 1 1 with smaller ones, the second alone is called as it should be.
    assert EXAMPLE["naive_bayes"](EXAMPLE["Data"](["a", "b"], train, test)) == 0.5


def test_reviews_that_cannot_be_read(tmp_path: Path) -> None:
    for lines, because in (
        ("review,label\n", "expected text and label"),
        ("text,label\nfine,2\n", "line 2 .* has the label '2': give 0 or 1"),
        ("text,label\nfine,1\nfine,1\n", "holds 1 different reviews, expected 10 or more"),
    ):
        path = tmp_path / "reviews.csv"
        path.write_text(lines, encoding="utf-8")
        with pytest.raises(SystemExit, match=because):
            EXAMPLE["read"](path)
    assert len(EXAMPLE["read"](made_up(path))) == 80


def test_words() -> None:
    assert EXAMPLE["words_of"]("'It's' GREAT!<br />Really, 10/10.") == ["it's", "great", "really"]


def test_a_word_that_is_not_known() -> None:
    reviews = [(f"{('bad', 'good')[k % 2]} {'film ' * k}", k % 2 == 1) for k in range(20)]
    data = EXAMPLE["prepared"]([*reviews, *((f"unheard{chr(97 + k)}", False) for k in range(20))], seed=3)
    assert all(len(one.words) == len(one.masses) > 0 for one in data.test)
