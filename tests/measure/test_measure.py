"""Measurements against brute force and closed forms."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from refusals import refused
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial import ConvexHull
from scipy.spatial.distance import pdist

import attnflow as af
from attnflow.geometry.linkage import single_linkage

Array = NDArray[np.float64]


def partition(labels: NDArray[np.int64]) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(labels == k).tolist()) for k in np.unique(labels)}


@given(st.integers(0, 10**6), st.integers(2, 60), st.integers(1, 4), st.floats(-3, 1))
def test_clusters_against_scipys_hierarchy(seed: int, n: int, d: int, log_tol: float) -> None:
    """Single linkage cut at tol, by an independent algorithm, on clumped clouds with copies."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((1 + n // 5, d))
    x = centres[rng.integers(len(centres), size=n)] + 10.0 ** rng.uniform(-4, 0) * rng.standard_normal((n, d))
    x[n // 2] = x[0]
    tol = 10.0**log_tol
    gaps = pdist(x)
    if np.abs(gaps - tol).min() < 1e-9:
        return
    expected = fcluster(linkage(x, "single"), tol, "distance")
    assert partition(single_linkage(x, tol)) == partition(expected)


def test_clusters_of_a_chain_and_of_a_merged_crowd() -> None:
    chain = np.arange(500.0)[:, None]
    assert af.measure.clusters(chain, 1.0).count == 1
    assert af.measure.clusters(chain, 0.999).count == 500
    crowd = np.concatenate([1e-9 * af.tokens.gaussian(30_000, 2), [[5.0, 0.0]]])
    found = af.measure.clusters(crowd, 1e-3)
    np.testing.assert_array_equal(found.sizes, [30_000, 1])
    np.testing.assert_allclose(found.centres[1], [5.0, 0.0])


def test_labels_count_in_order_of_appearance() -> None:
    found = af.measure.clusters([[3.0], [0.0], [3.0], [9.0], [0.0]], tol=0)
    np.testing.assert_array_equal(found.labels, [0, 1, 0, 2, 1])
    np.testing.assert_allclose(found.centres, [[3.0], [0.0], [9.0]])


@pytest.mark.parametrize("d", [1, 2, 5])
def test_diameter_against_all_pairs(d: int) -> None:
    x = af.tokens.gaussian(n=300, d=d, seed=0)
    assert af.measure.diameter(x) == pytest.approx(pdist(x).max(), rel=1e-14)
    assert af.measure.diameter([[1.0] * d]) == 0
    assert af.measure.diameter([[1.0] * d + [0.0], [1.0] * d + [1.5e-323]]) == 1.5e-323


def test_leaders_and_how_much_they_are_heard() -> None:
    x = af.tokens.gaussian(n=40, d=2, seed=0)
    for law in (af.Softmax(beta=3.0), af.Hardmax(), af.Localmax(delta=0.2)):
        P = law.weights(x)
        found = af.measure.leaders(law, x)
        np.testing.assert_array_equal(found.index, P.argmax(axis=1))
        np.testing.assert_array_equal(found.distinct, np.unique(P.argmax(axis=1)))
        np.testing.assert_allclose(found.heard, P.sum(axis=0) / 40)


def test_rank_quotes_its_evidence() -> None:
    P = np.diag([1.0, 1e-3, 1e-9])
    found = af.measure.rank(P, tol=1e-6)
    assert found.value == 2
    assert found.tol == 1e-6
    np.testing.assert_allclose(found.singular_values, [1.0, 1e-3, 1e-9])


def test_energy_against_the_double_sum() -> None:
    x, w = af.tokens.sphere(n=9, d=3, seed=0), np.arange(1.0, 10.0)
    B = np.diag([1.0, 2.0, 0.5])
    total = sum(w[i] * w[j] * np.exp(1.5 * (B @ x[i]) @ x[j]) for i in range(9) for j in range(9))
    assert af.measure.energy(x, beta=1.5, B=B, masses=w) == pytest.approx(total / (3 * w.sum() ** 2), rel=1e-12)
    with refused("beta is 0"):
        af.measure.energy(x, beta=0.0)
    with refused("leaves the range"):
        af.measure.energy(x, beta=1e4)


def test_summary_of_a_rescaled_flow_looks_at_the_tokens_of_the_flow() -> None:
    """At t = 12 attention is nearly hardmax of e^t z: two tokens listen each to themselves."""
    run = af.simulate([[-0.5], [0.5]], af.Softmax(), af.RescaledFlow(), until=12.0)
    end = af.measure.summary(run)
    assert (end.clusters, end.leaders, end.rank) == (2, 2, 2)
    assert af.measure.leaders(af.Softmax(), run.seen()).distinct.tolist() == [0, 1]


def test_summary_without_a_single_law() -> None:
    run = af.simulate([[1.0], [2.0]], af.Heads([af.Softmax()]), af.Layers(gamma=0.5), until=2)
    assert af.measure.summary(run)[1:3] == (None, None)


@given(st.integers(0, 10**6), st.integers(20, 120), st.floats(0.02, 0.5))
def test_clusters_of_uniform_clouds(seed: int, n: int, tol: float) -> None:
    """Clouds without clumps, where chains pass from blob to blob."""
    x = np.random.default_rng(seed).uniform(size=(n, 2))
    expected = fcluster(linkage(x, "single"), tol, "distance")
    assert partition(single_linkage(x, tol)) == partition(expected)


def test_leaders_with_masses_are_those_of_repeated_tokens() -> None:
    x, copies = np.array([[0.6], [0.5], [-0.2]]), np.array([1, 7, 2])
    law = af.Softmax(beta=2.0)
    by_mass = af.measure.leaders(law, x, masses=copies)
    repeated = af.measure.leaders(law, np.repeat(x, copies, axis=0))
    owner = np.repeat(np.arange(3), copies)
    np.testing.assert_allclose(by_mass.heard, np.bincount(owner, weights=repeated.heard), rtol=1e-12)
    np.testing.assert_array_equal(by_mass.index, [1, 1, 1])
    assert af.measure.leaders(law, x).index.tolist() == [0, 0, 2]


def test_summary_hears_the_masses() -> None:
    x = [[0.6], [0.5], [-0.2]]
    for masses, leading in ((None, 2), ([1, 7, 2], 1)):
        run = af.simulate(x, af.Softmax(beta=2.0), af.Layers(gamma=1e-9), until=1, masses=masses)
        assert af.measure.summary(run).leaders == leading


def test_a_cloud_that_qhull_gives_up_has_the_same_diameter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many tokens in a plane of space: flat, so that there are no facets."""
    flat = np.random.default_rng(0).standard_normal((5000, 2)) @ np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    far = np.linalg.norm(flat[:, None, :][:1] - flat, axis=2).max()
    found = af.measure.diameter(flat)
    assert far <= found <= 2 * far
    ends = flat[ConvexHull(flat[:, :2]).vertices]
    assert found == pytest.approx(np.linalg.norm(ends[:, None] - ends, axis=2).max(), rel=1e-12)


def test_a_cloud_without_facets_has_its_diameter_from_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    import scipy.spatial

    def failing(points: Any) -> Any:
        raise scipy.spatial.QhullError("flat")

    x = np.random.default_rng(0).standard_normal((200, 3))
    far = np.linalg.norm(x[:, None] - x, axis=2).max()
    module = importlib.import_module("attnflow.measure.diameter")
    monkeypatch.setattr(module, "MOST_COMPARED", 10)
    monkeypatch.setattr(scipy.spatial, "ConvexHull", failing)
    assert module._farthest(x) == pytest.approx(far, rel=1e-12)
