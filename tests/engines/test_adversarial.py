"""Every engine on clouds and parameters that break careless sums, against long doubles.

Tokens, forms and masses are such that all scores are exact in float64: what is left is the error of the engine alone.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from larger import larger, leave_tree_to_larger

from attnflow.core.inputs import Array
from attnflow.engines import ENGINES, SEPARABLE_DIMENSION, SOFTMAX

BETAS = (1e-6, 1e-2, 1.0, 30.0, 1e3, 1e6)
# What engines promise, of the diameter of the cloud; in logarithms, of their size.
TOLERANCE = 1e-10
N = 230
# The queries that are compared, the outlier among them.
SOME = slice(0, N, 17)
FORMS = ("identity", "minus identity", "not symmetric")
# Separable sums of these take seconds: other clouds have the same form and beta. `make test-all` has them.
SLOW = {(3, "line", "not symmetric", 30.0), (2, "normal", "not symmetric", 1e3), (2, "normal", "identity", 1e3)}
CLOUDS = ("normal", "far outlier", "all equal", "line", "heavy tails", "far away", "two tight clusters", "copies")


def trials(name: str) -> Iterator[tuple[str, bool, float]]:
    """Yield forms, whether there are masses, and betas, for a cloud.

    Each cloud has every form, every beta and masses or none, half of the pairs of a form and a beta, and the next cloud
    the other half; in `make test-all` all of them together.
    """
    for form, beta, weighted in product(range(len(FORMS)), range(len(BETAS)), (False, True)):
        turn = (CLOUDS.index(name) + form + beta) % 2 == 0 and weighted == bool((form + beta // 2) % 2)
        if turn or "ATTNFLOW_EXAMPLES" in os.environ:
            yield FORMS[form], weighted, BETAS[beta]


def on_grid(x: Array, step: float = 2.0**-10) -> Array:
    return np.round(x / step) * step


@cache
def cloud(name: str, d: int) -> Array:
    rng = np.random.default_rng(d)
    x = rng.standard_normal((N, d))
    if name == "far outlier":
        x[17] = 2.0**20
    if name == "all equal":
        x[:] = x[0]
    if name == "line":
        x = np.outer(x[:, 0], np.arange(1, d + 1))
    if name == "heavy tails":
        x = rng.standard_t(3, (N, d))
    if name == "far away":
        x += 2.0**10
    if name == "two tight clusters":
        x = np.where(rng.random((N, 1)) < 0.3, 3.0, -3.0) + 2.0**-8 * x
    if name == "copies":
        x = x[rng.integers(5, size=N)]
    return on_grid(x)


def form(name: str, d: int) -> Array:
    if name == "identity":
        return np.eye(d)
    if name == "minus identity":
        return -np.eye(d)
    return on_grid(np.random.default_rng(0).standard_normal((d, d)), 0.25)


@cache
def expected(name: str, d: int, which: str, weighted: bool, beta: float) -> tuple[Any, Any]:
    """Return means and logarithms of totals in long doubles."""
    x = cloud(name, d)
    s = (x[SOME] @ form(which, d).T) @ x.T
    top = s.max(axis=1, keepdims=True)
    exponents = np.longdouble(beta) * (s - top).astype(np.longdouble) + log_masses(weighted)
    highest = exponents.max(axis=1, keepdims=True)
    e = np.exp(exponents - highest)
    total = e.sum(axis=1)
    centre = x.mean(axis=0)
    mean = centre + (e @ (x - centre)) / total[:, None]
    return mean.astype(np.float64), (np.longdouble(beta) * top[:, 0] + highest[:, 0] + np.log(total)).astype(np.float64)


def log_masses(weighted: bool) -> Array:
    return np.log(10.0 ** np.random.default_rng(5).uniform(-6, 6, N)) if weighted else np.zeros(N)


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("engine", [*ENGINES, *SOFTMAX])
@pytest.mark.parametrize("d", [1, 2, 3, 40])
def test_every_engine_is_within_its_tolerance(engine: str, name: str, d: int) -> None:
    if engine == "separable" and d > SEPARABLE_DIMENSION:
        pytest.skip("separable sums are for space")
    softmax = importlib.import_module(f"attnflow.engines.{engine}").softmax
    x = cloud(name, d)
    # Adding up N tokens far from the origin rounds too.
    bound = TOLERANCE * np.linalg.norm(np.ptp(x, axis=0)) + N * 2.0**-52 * np.abs(x).max()
    for which, weighted, beta in trials(name):
        if engine == "separable" and (d, name, which, beta) in SLOW and "ATTNFLOW_EXAMPLES" not in os.environ:
            continue
        q = x if which == "identity" else x @ form(which, d).T
        mean, log_total = softmax(q, x, x, log_masses(weighted) if weighted else None, beta)
        exact, exact_total = expected(name, d, which, weighted, beta)
        told = f"{which}, masses {weighted}, beta {beta:g}"
        assert np.abs(mean[SOME] - exact).max() <= bound, told
        np.testing.assert_allclose(log_total[SOME], exact_total, rtol=1e-13, atol=2e-10, err_msg=told)


@cache
def sums_in_the_unit(engine: str, d: int, exponent: float) -> tuple[Array, float, tuple[Array, Array]]:
    """Return tokens of size one, beta, and what the engine finds."""
    x = np.random.default_rng(0).uniform(-1, 1, (300, d))
    x[0] = 2.0**-10
    beta = exponent / (x * x).sum(axis=1).max()
    return x, beta, importlib.import_module(f"attnflow.engines.{engine}").softmax(x, x, x, None, beta)


# Squares of lengths are within float64 at all of these scales, cubes only at those in the middle.
@pytest.mark.parametrize(
    "scale", [2.0**-450, *(pytest.param(s, marks=larger) for s in (2.0**-330, 2.0**300)), 2.0**480]
)
@pytest.mark.parametrize("engine", [*ENGINES, *SOFTMAX])
@pytest.mark.parametrize("d", [2, 8])
def test_no_engine_depends_on_the_unit_of_length(engine: str, d: int, scale: float) -> None:
    """A power of two changes no digit; large exponents leave little room beside it."""
    leave_tree_to_larger(engine, d)
    if engine == "separable" and d > SEPARABLE_DIMENSION:
        pytest.skip("separable sums are for space")
    softmax = importlib.import_module(f"attnflow.engines.{engine}").softmax
    # Separable sums with such exponents take seconds each: one of the two, and of queries that are the keys, is enough.
    few = engine == "separable" and "ATTNFLOW_EXAMPLES" not in os.environ
    for exponent in (10.0, 1100.0) if few else (10.0, 600.0, 1100.0):
        x, beta, expected = sums_in_the_unit(engine, d, exponent)
        y = scale * x
        for queries in (y,) if few and exponent > 10.0 else (y.copy(), y):
            mean, log_total = softmax(queries, y, y, None, beta / scale**2)
            np.testing.assert_allclose(mean / scale, expected[0], rtol=0, atol=1e-10)
            np.testing.assert_allclose(log_total, expected[1], rtol=1e-12, atol=1e-9)
