"""Sums over lists of sources, against sums of all with the others' weights set to zero."""

from __future__ import annotations

import numpy as np
import pytest

from attnflow.core.inputs import Array
from attnflow.engines import Lists, Memory, listed

M, N = 53, 90


def lists(rng: np.random.Generator) -> tuple[Lists, Array]:
    """Five groups of the queries in any order, and which sources each query hears."""
    begins, order = np.array([0, 1, 9, 25, 33, M]), rng.permutation(M)
    hears = rng.random((5, N)) < 0.3
    hears[:, 7] = True
    first = np.append(0, np.cumsum(hears.sum(axis=1)))
    mask = np.zeros((M, N), dtype=bool)
    mask[order] = np.repeat(hears, np.diff(begins), axis=0)
    return Lists(order, begins, np.nonzero(hears)[1].astype(np.int32), first), mask


def expected(q: Array, k: Array, v: Array, logs: Array, gain: float, mask: Array) -> tuple[Array, Array]:
    s = q.astype(np.longdouble) @ k.astype(np.longdouble).T * np.longdouble(gain) + logs
    s = np.where(mask, s, -np.inf)
    top = s.max(axis=1, keepdims=True)
    w = np.exp(s - top)
    total = w.sum(axis=1)
    return (w @ v.astype(np.longdouble)) / total[:, None], np.log(total) + top[:, 0]


@pytest.mark.parametrize("d", [1, 2, 3, 6])
@pytest.mark.parametrize("gain", [0.0, 3.0, 1e5])
@pytest.mark.parametrize("spread", [0.0, 20.0, 800.0])
@pytest.mark.parametrize("far", [0.0, 1e5])
def test_sums_are_those_of_the_lists(d: int, gain: float, spread: float, far: float) -> None:
    rng = np.random.default_rng(d)
    whom, mask = lists(rng)
    k = rng.standard_normal((N, d)) + far
    q = rng.standard_normal((M, d))
    logs = rng.uniform(-spread, 0, N)
    for v in (k, rng.standard_normal((N, 2))):
        for masses in (logs, None) if spread == 0 else (logs,):
            mean, log_total = listed.softmax(q, k, v, masses, gain, Memory(lists=whom))
            exact, exact_total = expected(q, k, v, logs, gain, mask)
            # Scores of keys far away are known to rounding errors only, which the gain multiplies.
            noise = gain * far * 2e-15
            assert np.abs(mean - exact).max() < 1e-11 + 10 * noise + far * 2e-16
            np.testing.assert_allclose(log_total, exact_total.astype(float), rtol=1e-13, atol=1e-11 + noise)


def test_pairs_are_counted() -> None:
    whom, mask = lists(np.random.default_rng(0))
    assert whom.pairs == mask.sum()
