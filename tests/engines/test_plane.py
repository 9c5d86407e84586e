"""The fused softmax in the plane, where one exponential serves two rows, against the dense reference."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attnflow.engines import dense, fused, plane_kernels


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 128, 129, 200, 361, 363, 513, 1025, 1799, 2100])
def test_sizes_around_strips_chunks_panels_and_tasks(n: int) -> None:
    rng = np.random.default_rng(n)
    x, v, log_masses = rng.standard_normal((n, 2)), rng.standard_normal((n, 2)), rng.uniform(-14.0, 14.0, n)
    for masses in (None, log_masses):
        mean, log_total = fused.softmax(x, x, v, masses, 3.0)
        expected = dense.softmax(x, x, v, masses, 3.0)
        np.testing.assert_allclose(mean, expected[0], rtol=0, atol=3e-14)
        np.testing.assert_allclose(log_total, expected[1], rtol=1e-14, atol=1e-14)


def test_every_second_row_of_transposed_tokens() -> None:
    """Any layout in memory will do."""
    x = np.random.default_rng(0).standard_normal((2, 400)).T[::2]
    np.testing.assert_allclose(fused.softmax(x, x, x, None, 1.0)[0], dense.softmax(x, x, x, None, 1.0)[0], atol=1e-14)


@pytest.mark.parametrize("n", [300, 600])
@pytest.mark.parametrize("square", [620.0, 630.0, 1e5])
def test_both_sides_of_the_largest_exponent(n: int, square: float) -> None:
    """Whole scores are computed without rounding by both; opposite tokens have the smallest weights there are."""
    x = np.random.default_rng(3).integers(-9, 10, (n, 2)).astype(float)
    x[0], x[n - 1] = (9.0, 9.0), (-9.0, -9.0)
    gain = square / 162
    taken = fused._plane(x, x, None, gain)
    assert (taken is not None) == (square * math.log2(math.e) <= plane_kernels.UNSHIFTED)
    mean, log_total = fused.softmax(x, x, x, None, gain)
    expected = dense.softmax(x, x, x, None, gain)
    np.testing.assert_allclose(mean, expected[0], rtol=0, atol=2e-12)
    np.testing.assert_allclose(log_total, expected[1], rtol=1e-14)


@pytest.mark.parametrize("lightest", [-60.0, -80.0, -500.0, -math.inf])
@pytest.mark.parametrize("same", [True, False])
def test_light_and_absent_sources(lightest: float, same: bool) -> None:
    x = np.random.default_rng(4).standard_normal((200, 2))
    masses = np.zeros(200)
    masses[::3] = lightest
    mean, log_total = fused.softmax(x if same else x.copy(), x, x, masses, 9.0)
    expected = dense.softmax(x, x, x, masses, 9.0)
    np.testing.assert_allclose(mean, expected[0], rtol=0, atol=1e-13)
    np.testing.assert_allclose(log_total, expected[1], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("lightest", [-300.0, -345.0, -1400.0])
def test_the_lightest_source_may_decide_a_row(lightest: float) -> None:
    """The second token is so far from the first that it hears itself alone, however light it is."""
    x, v = np.array([[20.0, 0.0], [-20.0, 0.0]]), np.random.default_rng(5).standard_normal((2, 2))
    for queries in (x, x.copy()):
        for gain in (1.5, 1e9):
            mean, _ = fused.softmax(queries, x, v, np.array([0.0, lightest]), gain * 2)
            np.testing.assert_allclose(mean[1], v[1], rtol=1e-14)


def test_absent_sources_at_huge_gains() -> None:
    """The top score of an absent source must not hide all others."""
    x = np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    mean, _ = fused.softmax(x, x, x, np.array([-math.inf, 0.0, 0.0]), 1e200)
    np.testing.assert_array_equal(mean, [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize("n", [500, 2000])
def test_results_do_not_depend_on_the_number_of_threads(n: int) -> None:
    import numba

    x = np.random.default_rng(0).standard_normal((n, 2))
    most = numba.get_num_threads()
    results = []
    for threads in (1, most):
        numba.set_num_threads(threads)
        results.append(b"".join(a.tobytes() for a in fused.softmax(x, x, x, None, 3.0)))
    numba.set_num_threads(most)
    assert results[0] == results[1]
