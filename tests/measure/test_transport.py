"""Wasserstein distances against closed forms and other algorithms, and brackets around exact values."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm, wasserstein_distance

import attnflow as af
from attnflow.measure import quantise, transport, wasserstein


def test_a_translation_costs_its_length() -> None:
    x = af.tokens.gaussian(n=40, d=3, seed=0)
    shift = np.array([3.0, -4.0, 12.0])
    for power in (1.0, 2.0, 3.5):
        assert wasserstein(x, x + shift, power=power) == pytest.approx(13.0, rel=1e-12)
        assert wasserstein(x[:, :1], x[:, :1] - 7, power=power) == pytest.approx(7.0, rel=1e-12)
    assert wasserstein(x, x[::-1]) == 0.0


@given(st.integers(1, 12), st.integers(1, 4), st.sampled_from([1.0, 2.0, 3.0]), st.integers(0, 10**6))
def test_equal_masses_are_matched_by_the_best_permutation(n: int, d: int, power: float, seed: int) -> None:
    x, y = af.tokens.gaussian(n, d, seed), af.tokens.uniform(n, d, seed + 1)
    cost = np.linalg.norm(x[:, None] - y[None], axis=2) ** power
    best = cost[linear_sum_assignment(cost)].mean() ** (1 / power)
    assert wasserstein(x, y, power=power) == pytest.approx(best, rel=1e-10)
    assert wasserstein(y, x, power=power) == pytest.approx(best, rel=1e-10)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 10**6))
def test_sorting_agrees_with_the_plan_in_the_plane_and_with_scipy(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((n, 1)), rng.standard_normal((m, 1))
    a, b = rng.exponential(size=n) + 1e-3, rng.exponential(size=m) + 1e-3
    flat = [np.column_stack([z, 0 * z]) for z in (x, y)]
    for power in (1.0, 2.0):
        by_sorting = wasserstein(x, y, power=power, masses=a, other_masses=b)
        by_plan = wasserstein(*flat, power=power, masses=a, other_masses=b)
        assert by_sorting == pytest.approx(by_plan, rel=1e-7, abs=1e-9)
    assert wasserstein(x, y, power=1, masses=a, other_masses=b) == pytest.approx(
        wasserstein_distance(x[:, 0], y[:, 0], a, b), rel=1e-9
    )


@pytest.mark.parametrize("d", [1, 2])
def test_a_mass_is_as_many_tokens(d: int) -> None:
    x, y = af.tokens.gaussian(n=4, d=d, seed=3), af.tokens.gaussian(n=5, d=d, seed=4)
    a, b = np.array([1, 2, 3, 4]), np.array([5, 1, 1, 1, 2])
    repeated = wasserstein(np.repeat(x, a, axis=0), np.repeat(y, b, axis=0))
    assert wasserstein(x, y, masses=a, other_masses=b) == pytest.approx(repeated, rel=1e-12)
    assert wasserstein(x, np.repeat(x, a, axis=0), masses=a) < 1e-7  # masses are rounded
    assert wasserstein(x, y, masses=0.7 * a, other_masses=1e9 * b) == pytest.approx(repeated, rel=1e-12)


def test_normal_quantiles_have_the_distance_of_normal_laws() -> None:
    """W_2^2 = (m_1 - m_2)^2 + (s_1 - s_2)^2, approached by quantiles."""
    z = norm.ppf((np.arange(4000) + 0.5) / 4000)[:, None]
    assert wasserstein(1 + 2 * z, -2 + 0.5 * z) == pytest.approx(np.hypot(3.0, 1.5), rel=1e-3)
    assert wasserstein(1 + 2 * z[1::3], -2 + 0.5 * z) == pytest.approx(np.hypot(3.0, 1.5), rel=1e-2)


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_distances_scale(scale: float) -> None:
    for d in (1, 2):
        x, y = af.tokens.gaussian(n=6, d=d, seed=0), af.tokens.gaussian(n=8, d=d, seed=1)
        assert wasserstein(scale * x, scale * y) == pytest.approx(scale * wasserstein(x, y), rel=1e-9)
        low, high = quantise(scale * y, 4).bracket(scale * x)
        assert [low, high] == pytest.approx([scale * end for end in quantise(y, 4).bracket(x)], rel=1e-9)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("atoms", [1, 7, 60, 400, 10**6])
def test_brackets_hold_the_exact_distance(d: int, atoms: int) -> None:
    y = af.tokens.gaussian(n=400, d=d, seed=1)
    few = quantise(y, atoms)
    assert len(few.centres) == min(atoms, 400)
    for seed, n in ((2, 5), (3, 40)):
        x = 0.2 + af.tokens.uniform(n=n, d=d, seed=seed)
        masses = np.random.default_rng(seed).exponential(size=n) + 0.1
        for given_masses in (None, masses):
            exact = wasserstein(x, y, masses=given_masses)
            low, high = few.bracket(x, masses=given_masses)
            assert low <= exact * (1 + 1e-9)
            assert exact <= high * (1 + 1e-9)
            to_centres = wasserstein(x, few.centres, masses=given_masses, other_masses=few.shares)
            assert high == pytest.approx(np.hypot(to_centres, few.error), rel=1e-9)
            assert low >= (to_centres - few.error) * (1 - 1e-9)
            if atoms == 60 and n == 5:
                assert high - low < 0.2 * few.error  # the triangle inequality alone leaves more open
            if atoms >= 400:
                assert high - low < 1e-6 * exact
                assert few.error == 0.0


def test_cells_are_a_partition_with_their_centres() -> None:
    y = af.tokens.gaussian(n=3000, d=2, seed=0)
    few = quantise(y, 64)
    assert few.shares.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(few.shares @ few.centres, y.mean(axis=0), atol=1e-12)
    # The variance splits into that of the centres and that within cells.
    total, between = y.var(axis=0).sum(), few.shares @ ((few.centres - y.mean(axis=0)) ** 2).sum(axis=1)
    assert total == pytest.approx(between + few.error**2, rel=1e-12)
    assert few.error >= wasserstein(y[:500], quantise(y[:500], 500).centres)
    # Square cells of the unit square have q^2 = 1/(6 Q).
    square = quantise(af.tokens.uniform(n=50_000, d=2, seed=0, low=0, high=1), 1024)
    assert square.error == pytest.approx(np.sqrt(1 / (6 * 1024)), rel=0.05)


def test_places_are_not_cut() -> None:
    few = quantise(np.repeat([[0.0, 1.0], [2.0, 3.0], [1e-300, 1.0]], [3, 2, 1], axis=0), 50)
    assert few.error == 0.0
    assert sorted(np.round(few.shares * 6).tolist()) in ([2, 4], [1, 2, 3])
    assert few.bracket([[0.0, 1.0]])[0] == pytest.approx(np.sqrt(8 / 3), rel=1e-9)
    # The mean of these is not between them.
    close = np.array([[1.0, 0.0], [1.0 + 2**-52, 0.0]])
    assert quantise(np.repeat(close, [1, 4], axis=0), 5).error < 1e-15


def test_on_the_line_the_bracket_is_a_point() -> None:
    x, y = af.tokens.gaussian(n=10, d=1, seed=0), af.tokens.gaussian(n=1000, d=1, seed=1)
    assert quantise(y, 1).bracket(x) == (wasserstein(x, y), wasserstein(x, y))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: wasserstein([[1.0, 2.0]], [[1.0]]), "dimension 1, but the tokens have dimension 2"),
        (lambda: wasserstein([[1.0]], [[1.0]], power=0.5), "power is 0.5"),
        (lambda: wasserstein([[1.0]], [[1.0]], masses=[0.0]), "mass 0 is 0.0"),
        (lambda: wasserstein([[1.0]], [[1.0]], other_masses=[1.0, 2.0]), r"shape \(2,\), expected \(1,\)"),
        (lambda: wasserstein(np.zeros((10**5, 2)) + np.eye(2)[0], np.ones((10**4, 2))), r"quantise\(y, atoms\)"),
        (lambda: quantise([[1.0]], 0), "atoms is 0"),
        (lambda: quantise([[1.0]], 2).bracket([[1.0, 2.0]]), "dimension"),
    ],
)
def test_refusals(call: Any, said: str) -> None:
    with refused(said):
        call()


def test_a_plan_that_pot_does_not_find_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MOST_PIVOTS", 2)
    with refused("POT found no plan between 30 and 30 tokens"):
        wasserstein(af.tokens.gaussian(30, 2, 0), af.tokens.gaussian(30, 2, 1))


def test_without_pot_the_line_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ot", None)
    assert wasserstein([[0.0]], [[2.0]]) == 2.0
    with refused(r"needs POT: pip install 'attnflow\[transport\]'"):
        wasserstein([[0.0, 1.0]], [[2.0, 1.0]])


def test_many_light_atoms_on_the_line_count() -> None:
    n = 100_000
    x, masses = np.r_[0.0, np.ones(n)][:, None], np.r_[1.0, np.full(n, 9e-11)]
    away = 9e-11 * n / (1 + 9e-11 * n)
    assert af.measure.wasserstein(x, [[0.0]], masses=masses) == pytest.approx(np.sqrt(away), rel=1e-6)
    with refused("power is 5000"):
        af.measure.wasserstein([[0.0]], [[1.0]], power=5000)


def test_tokens_that_only_rounding_tells_apart_stay_in_one_atom() -> None:
    """The mean of two numbers that follow each other is one of them, or rounds to the larger."""
    one = np.nextafter(1.0, 0.0)
    few = quantise(np.array([[one], [1.0], [5.0]]), 3)
    assert few.error <= 1e-15
    assert sorted(few.centres.ravel().round(9)) in ([1.0, 5.0], [1.0, 1.0, 5.0])
