"""The part of all pairs that the tree looks at, as a sample predicts it, and the choice that follows from it."""

from __future__ import annotations

import numpy as np
import pytest
from larger import larger

from attnflow.core.inputs import Array
from attnflow.engines import Memory, blocked, dense, fast, tree_sample

N = 20_000


def clusters(d: int, count: int, width: float) -> Array:
    """Equal clusters around points of the unit sphere."""
    rng = np.random.default_rng(d)
    centres = rng.standard_normal((count, d))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    return np.repeat(centres, N // count, axis=0) + width * rng.standard_normal((N, d))


@pytest.mark.parametrize("d", [3, 6, 10])
def test_equal_clusters_far_apart_hear_themselves_alone(d: int) -> None:
    """With k clusters, one pair in k is heard."""
    x = clusters(d, 8, 1e-6)
    assert tree_sample.heard(x, x, 1e4) == pytest.approx(1 / 8, abs=0.03)


@pytest.mark.parametrize(("d", "beta"), [(3, 10.0), (3, 100.0), (4, 30.0), (8, 30.0)])
def test_hardly_fewer_than_are_heard_one_by_one(d: int, beta: float) -> None:
    """A box hears all that its queries hear: shares of at least 3e-11 / n, by all pairs of a sample.

    The sixteen boxes of the estimate are another sample, so it may be lower.
    """
    x = np.random.default_rng(d).standard_normal((N, d))
    scores = beta * x[::100] @ x.T
    shares = scores - scores.max(axis=1, keepdims=True)
    shares -= np.log(np.exp(shares).sum(axis=1, keepdims=True))
    alone = np.mean(shares > np.log(3e-11 / N))
    assert alone / 2 < tree_sample.heard(x, x, beta) <= 1.0


def test_everything_is_heard_for_small_beta() -> None:
    x = np.random.default_rng(0).standard_normal((N, 5))
    assert tree_sample.heard(x, x, 0.0) == tree_sample.heard(x[:7], x, 0.1) == 1.0


def test_tokens_at_one_place_and_tokens_that_overflow() -> None:
    assert tree_sample.heard(np.ones((50, 4)), np.ones((50, 4)), 1.0) == 1.0
    some = np.random.default_rng(0).standard_normal((50, 4))
    for huge in (1e200 * some, 1e307 * np.abs(some)):
        assert 0.0 <= tree_sample.heard(huge, huge, 1.0) <= 1.0


@pytest.mark.parametrize("d", [4, 7, 10])
def test_clusters_are_left_to_the_tree_and_clouds_without_structure_are_not(d: int) -> None:
    x, y = clusters(d, 20, 0.01), np.random.default_rng(d).standard_normal((N, d))
    assert fast.name(x, x, 300.0) == "tree"
    assert fast.name(x, x, 0.3) == fast.name(y, y, 1.0) == "blocked"


def test_the_tree_is_taken_in_space_where_few_are_heard() -> None:
    """30,000 tokens with heavy tails: all pairs would take ten times as long."""
    x = np.random.default_rng(0).standard_t(3, (30_000, 3))
    assert fast.name(x, x, 10.0) == "tree"


@larger
@pytest.mark.parametrize("d", [4, 6, 10])
@pytest.mark.parametrize("beta", [0.3, 30.0, 3000.0])
def test_sampled_rows_agree_with_dense_sums(d: int, beta: float) -> None:
    x = clusters(d, 20, 0.02)
    mean, log_total = fast.softmax(x, x, x, None, beta)
    rows = np.arange(0, N, 401)
    expected, total = dense.softmax(x[rows], x, x, None, beta)
    size = np.linalg.norm(np.ptp(x, axis=0)) / d**0.5  # no larger than the diameter
    np.testing.assert_allclose(mean[rows], expected, rtol=0, atol=1e-10 * size)
    np.testing.assert_allclose(log_total[rows], total, rtol=1e-13, atol=2e-10)


def test_an_engine_that_is_remembered_is_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow whose sums are all pairs does not look for a better engine at each of them."""
    x = np.random.default_rng(1).standard_normal((400, 4))
    memory = Memory(engine="blocked")
    monkeypatch.setattr(fast, "plan", None)
    mean, _ = fast.softmax(x, x, x, None, 1.0, memory)
    np.testing.assert_array_equal(mean, blocked.softmax(x, x, x, None, 1.0)[0])
