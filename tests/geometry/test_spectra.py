"""Which theorem applies: the matrices of the paper's figures, exact cases and near misses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from refusals import refused

import attnflow as af
from attnflow.geometry import classify
from attnflow.geometry.spectra import positive_share

Array = NDArray[np.float64]
TILTED = np.array([[1.0, 0.3, 0.1], [0.0, 1.0, 0.4], [0.2, 0.0, 1.0]])


@pytest.mark.parametrize(
    ("V", "theorem"),
    [
        (np.eye(3), "polytope"),
        (2.5 * np.eye(2), "polytope"),
        ([[0.64709742, 0.81911926], [0.61210449, 0.63263484]], "hyperplanes"),
        (
            [
                [0.2362413, 0.0599536, 0.40506019],
                [0.81321448, 0.49948705, 0.33754772],
                [0.2160645, 0.38505272, 0.14588075],
            ],
            "hyperplanes",
        ),
        (
            [
                [0.18608476, 0.34391026, 0.13905949],
                [0.35244288, 0.6694859, 0.39992145],
                [0.46685606, 0.17094454, 0.42092308],
            ],
            "hyperplanes",
        ),
        (np.diag([1.0, 1.0, -0.5]), "polytope times subspace"),
        (-np.eye(2), "negative identity"),
        (-3 * np.eye(2), "negative identity"),
        (np.diag([1.0, -1.0]), "none"),
        (np.diag([-2.0, 1.0]), "none"),
        ([[0.0, -1.0], [1.0, 0.0]], "none"),
        ([[1.0, 1.0], [0.0, 1.0]], "none"),
        (np.zeros((2, 2)), "none"),
        ([[0.0, 1.0], [0.0, 0.0]], "none"),
    ],
)
def test_the_theorem_of_known_matrices(V: Array, theorem: str) -> None:
    found = classify(V)
    assert found.theorem == theorem
    assert set(found.failed) | set(found.applies) == {
        "negative identity", "polytope", "hyperplanes", "polytope times subspace",
    }  # fmt: skip
    assert not set(found.failed) & set(found.applies)


@pytest.mark.parametrize("scale", [1e-10, 1e10])
def test_the_unit_of_the_scores_is_of_no_consequence(scale: float) -> None:
    V = np.array([[0.64709742, 0.81911926], [0.61210449, 0.63263484]])
    assert classify(V, scale * np.eye(2)).theorem == classify(V, np.eye(2)).theorem == "hyperplanes"


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 5))
def test_eigendata_of_a_tilted_splitting(seed: int, d: int, m: int) -> None:
    """V = S diag(2, ..., 2, smaller) S^{-1}: F, G and the coordinates along F come back."""
    m = min(m, d)
    rng = np.random.default_rng(seed)
    S = rng.standard_normal((d, d))
    if np.linalg.cond(S) > 50:
        return
    values = np.concatenate([np.full(m, 2.0), rng.uniform(-1.5, 1.5, d - m)])
    V = S @ np.diag(values) @ np.linalg.inv(S)
    found = classify(V).dominant
    assert found.multiplicity == m
    assert found.value == pytest.approx(2.0)
    assert found.second == pytest.approx(np.abs(values[m:]).max(initial=0.0))
    assert found.right is not None
    assert found.left is not None
    assert found.rest is not None
    np.testing.assert_allclose(V @ found.right, 2 * found.right, atol=1e-9)
    np.testing.assert_allclose(found.left @ V, 2 * found.left, atol=1e-9)
    np.testing.assert_allclose(found.left @ found.right, np.eye(m), atol=1e-10)
    np.testing.assert_allclose(found.left @ found.rest, 0, atol=1e-10)
    np.testing.assert_allclose(found.left @ (V @ found.rest), 0, atol=1e-8)


@pytest.mark.parametrize(
    ("V", "B", "theorem", "words"),
    [
        (np.eye(2), [[1.0, 1.0], [0.0, 1.0]], "polytope", "not symmetric"),
        (np.eye(2), np.diag([1.0, -1.0]), "polytope", "not positive definite"),
        (np.eye(2), np.diag([1.0, 0.0]), "polytope", "not positive definite"),
        (np.diag([2.0, 1.0]), None, "polytope", "not a positive multiple"),
        (np.diag([2.0, 1.0]), np.diag([-1.0, 1.0]), "hyperplanes", "<B phi, phi> = -1"),
        (np.diag([2.0, 2.0]), None, "hyperplanes", "not simple: 2 agree"),
        (np.diag([-2.0, 1.0]), None, "hyperplanes", "is -2, not positive"),
        (np.diag([2.0, -2.0]), None, "hyperplanes", "modulus 2 is shared, up to rounding,"),
        ([[0.0, -1.0], [1.0, 0.0]], None, "hyperplanes", "modulus 1 is shared"),
        ([[1.0, 1.0], [0.0, 1.0]], None, "polytope times subspace", "lack eigenvectors"),
        (np.diag([1.0, 1.0, 0.5]), np.diag([1.0, 1.0, -1.0]), "polytope times subspace", "not positive definite"),
        (np.eye(2), None, "polytope times subspace", "whole space"),
        (-np.eye(2), np.diag([1.0, 2.0]), "negative identity", "B is not a positive multiple"),
        (np.zeros((2, 2)), None, "hyperplanes", "eigenvalues of V are 0"),
    ],
)
def test_the_hypothesis_that_failed(V: Array, B: Array | None, theorem: str, words: str) -> None:
    assert words in classify(V, B).failed[theorem]


def test_eigenvalues_far_smaller_than_the_matrix_are_in_order() -> None:
    """They are s + r and s - r, r^2 = 1 - b^2: their moduli differ by 2e-7 of r, and entries are a thousand times r."""
    s, b = -1e-10, 1 - 5e-7
    r = (1 - b * b) ** 0.5
    found = classify(np.array([[s + 1, -b], [b, s - 1]]))
    np.testing.assert_allclose(found.eigenvalues, [s - r, s + r], rtol=1e-8)
    assert found.failed["hyperplanes"].endswith("is -0.001, not positive")


def test_close_is_not_equal() -> None:
    """A gap of 1e-9 between normal eigenvalues is one; the 1e-8 which rounding gives Jordan blocks is not."""
    near = classify(np.diag([1.0, 1.0 - 1e-9]))
    assert near.theorem == "hyperplanes"
    assert near.dominant.second == 1.0 - 1e-9
    S = TILTED
    block = S @ np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.2]]) @ np.linalg.inv(S)
    assert classify(block).theorem == "none"
    assert classify(block).dominant.multiplicity == 2
    twice = S @ np.diag([1.0, 1.0, 0.2]) @ np.linalg.inv(S)
    assert classify(twice).theorem == "polytope times subspace"
    assert classify(1e-100 * twice).theorem == "polytope times subspace"


def test_the_share_of_positive_eigenvalues_is_that_of_each_row() -> None:
    values = np.array([[3.0, -1.0, 0.0], [1.0, 1.0, 2.0]])
    assert positive_share(values).tolist() == [0.75, 1.0]
    assert positive_share(np.stack([values, -values, 2 * values])).tolist() == [[0.75, 1.0], [0.25, 0.0], [0.75, 1.0]]


def test_one_dimension_satisfies_several() -> None:
    assert classify([[0.7]]).applies == ("polytope", "hyperplanes")


def test_hyperplanes_appear_where_promised() -> None:
    """The coordinate along the left eigenvector takes at most three limits, a, 0 and b."""
    V = np.array([[0.64709742, 0.81911926], [0.61210449, 0.63263484]])
    found = classify(V)
    assert found.dominant.left is not None
    x0 = af.tokens.uniform(n=20, d=2, seed=1, low=-5, high=5)
    run = af.simulate(x0, af.Softmax(), af.RescaledFlow(V=V), until=12.0 / (1.364 - 0.085))
    height = (run.final @ found.dominant.left.T).ravel()
    ends = np.array([height.min(), 0.0, height.max()])
    assert np.abs(height[:, None] - ends).min(axis=1).max() < 1e-3 * np.ptp(x0 @ found.dominant.left.T)


@pytest.mark.parametrize(
    ("V", "B", "words"),
    [
        (lambda t: np.eye(2), None, "function of time"),
        (np.eye(2), lambda t: np.eye(2), "function of time"),
        ([[1.0, 2.0]], None, "square"),
        (np.eye(2), np.eye(3), "2 by 2"),
        ([[np.nan]], None, "not finite"),
    ],
)
def test_bad_input_is_refused(V: Array, B: Array, words: str) -> None:
    with refused(words):
        classify(V, B)


@pytest.mark.parametrize(
    ("V", "theorem"),
    [
        (np.diag([1.0, 1.0 + 1e-10]), "hyperplanes"),
        (np.diag([1.0, 1.0 - 1e-11]), "hyperplanes"),
        ([[1.0, 5e-11, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.5]], "none"),
        ([[1.0, 1e7], [0.0, 0.5]], "hyperplanes"),
        ([[1.0, 3e6], [0.0, 0.5]], "hyperplanes"),
        (1e155 * np.diag([2.0, 1.0]), "hyperplanes"),
        (1e-200 * np.diag([2.0, 1.0]), "hyperplanes"),
        (1e200 * np.eye(2), "polytope"),
        (-1e-300 * np.eye(2), "negative identity"),
        (1e160 * np.diag([1.0, 1.0, 0.5]), "polytope times subspace"),
    ],
)
def test_close_calls_and_scales(V: Array, theorem: str) -> None:
    found = classify(V)
    assert found.theorem == theorem
    if theorem == "hyperplanes":
        np.testing.assert_allclose(found.dominant.value, np.diag(np.asarray(V)).max(), rtol=1e-14)
