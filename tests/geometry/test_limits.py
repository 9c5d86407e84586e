"""Where runs end, against the sets that the papers promise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

import attnflow as af
from attnflow.geometry import classify, genericity, hull, stationary_points

Array = NDArray[np.float64]


def representatives(x: Array) -> Array:
    return af.measure.clusters(x, 1e-3 * af.measure.diameter(x)).centres


@pytest.mark.parametrize(("seed", "d"), [(0, 2), (1, 2), (2, 2), (0, 3), (1, 3)])
def test_rescaled_tokens_end_in_the_set_of_their_limit_polytope(seed: int, d: int) -> None:
    """Theorem 2 of the emergence paper on its figure, V = I and tokens uniform in [-5, 5]^d, also with other forms."""
    x0 = af.tokens.uniform(n=20, d=d, seed=seed, low=-5, high=5)
    M = np.random.default_rng(seed).uniform(-1, 1, size=(d, d))
    B = np.eye(d) if seed == 0 else M @ M.T + 0.3 * np.eye(d)
    end = af.simulate(x0, af.Softmax(B=B), af.RescaledFlow(), until=12.0).final
    corners = hull(representatives(end)).vertices
    s = stationary_points(corners, B)
    size = np.einsum("ia,ab,ib->i", corners, B, corners).max()
    excess = (corners @ B @ corners.T).max(axis=1) - np.einsum("ia,ab,ib->i", corners, B, corners)
    assert excess.max() <= 1e-3 * size
    away = np.linalg.norm(end[:, None] - s.points, axis=2).min(axis=1)
    assert away.max() <= 3e-3 * af.measure.diameter(end)
    assert s.attracts.sum() == len(corners)
    k = hull(corners)
    for x in s.points:  # on the boundary, which is all of a flat polytope, or 0
        assert k.dimension < d or np.linalg.norm(x) < 1e-9 or np.abs(k.normals @ x - k.offsets).min() < 1e-9


def test_polytope_times_subspace_in_oblique_coordinates() -> None:
    """Theorem 4: along F tokens end in the set of B restricted to F, seen through the left eigenvectors."""
    S = np.array([[1.0, 0.0, 0.4], [0.0, 1.0, -0.3], [0.2, 0.1, 1.0]])
    V = S @ np.diag([1.0, 1.0, -0.5]) @ np.linalg.inv(S)
    B = np.array([[1.0, 0.2, 0.3], [0.2, 0.8, 0.0], [0.3, 0.0, 1.2]])
    found = classify(V, B)
    assert found.theorem == "polytope times subspace"
    F, along = found.dominant.right, found.dominant.left
    assert F is not None
    assert along is not None
    x0 = af.tokens.uniform(n=15, d=3, seed=4, low=-3, high=3)
    end = af.simulate(x0, af.Softmax(B=B), af.RescaledFlow(V=V), until=12.0 / 1.5).final @ along.T
    form = F.T @ B @ F
    s = stationary_points(hull(representatives(end)).vertices, form)
    away = np.linalg.norm(end[:, None] - s.points, axis=2).min(axis=1)
    assert away.max() <= 3e-3 * af.measure.diameter(end)


def test_the_emerging_leader_joins_the_polytope() -> None:
    """Leaders {0, 2} at layer 0, {0, 1, 2} from layer 1 on; token 1 rests at (-1/18, 5/36), exactly a vertex of S."""
    x0 = np.array(
        [[1, 1 / 3], [-1 / 12, 1 / 12], [-1, -1], [0, 1 / 4], [-0.3, -0.7], [-0.6, -0.9], [0.8, 0.1], [0.6, 0.15]]
    )
    run = af.simulate(x0, af.Hardmax(), af.Layers(alpha=0.5), until=400)
    alone = [np.flatnonzero(af.Hardmax().weights(x).diagonal() == 1).tolist() for x in run.tokens[:2]]
    assert alone == [[0, 2], [0, 1, 2]]
    np.testing.assert_allclose(run.final[1], [float(Fraction(-1, 18)), float(Fraction(5, 36))], atol=1e-15)
    s = stationary_points(hull(run.final).vertices)
    assert np.linalg.norm(s.points[s.attracts] - run.final[1], axis=1).min() < 1e-15
    assert np.linalg.norm(run.final[:, None] - s.points, axis=2).min(axis=1).max() < 1e-14


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_generic_polytopes_follow_their_assignment(d: int) -> None:
    """Straight lines to v_sigma(i), with sigma from the genericity report."""
    rng = np.random.default_rng(d)
    v = np.concatenate([np.eye(d), -np.eye(d)]) * rng.uniform(0.9, 1.1, size=(2 * d, 1))
    x0 = np.concatenate([v, rng.dirichlet(np.ones(2 * d), size=30) @ v])
    report = genericity(x0)
    assert report.generic
    run = af.simulate(x0, af.Hardmax(), af.Layers(gamma=0.25), until=8)
    target = x0[np.sort(hull(x0).indices)][report.assignment]
    np.testing.assert_allclose(run.final, target + 0.75**8 * (x0 - target), atol=1e-15)


def test_constant_localmax_ends_outside_the_set() -> None:
    """{1, -1, .1, -.1}, gamma .5, delta .05: limits +-.9859375, not points of the set of the first hull."""
    run = af.simulate([[1.0], [-1.0], [0.1], [-0.1]], af.Localmax(delta=0.05), af.Layers(gamma=0.5), until=2000)
    np.testing.assert_allclose(np.sort(run.final[:, 0]), [-0.9859375] * 2 + [0.9859375] * 2, atol=1e-15)
    s = stationary_points([[1.0], [-1.0]])
    assert np.abs(run.final - s.points.T).min(axis=1).max() > 0.01
