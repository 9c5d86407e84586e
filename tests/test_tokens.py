"""Clouds that are drawn in chunks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af

dask = pytest.importorskip("dask")


@pytest.mark.parametrize("make", [af.tokens.gaussian, af.tokens.uniform, af.tokens.sphere])
def test_a_cloud_has_the_same_bits_for_every_chunking(make: Callable[..., Any]) -> None:
    n = 66_000
    with dask.config.set(scheduler="synchronous"):
        whole, parts = (make(n=n, d=2, seed=3, chunks=chunks) for chunks in (n, (1, 65_536, 463)))
        assert parts.chunks == ((1, 65_536, 463), (2,))
        x = parts.compute()
        np.testing.assert_array_equal(whole.compute(), x)
        np.testing.assert_array_equal(make(n=65_600, d=2, seed=3, chunks=60_000).compute(), x[:65_600])
        # No block repeats another, nor is it that of another seed.
        assert len(np.unique(np.concatenate([x, make(n=n, d=2, seed=4, chunks=n).compute()]), axis=0)) == 2 * n


def test_chunks_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for chunks, words in ((0, "chunks is 0, expected a number of rows"), ("auto", "a tuple with the rows of each")):
        with refused(words):
            af.tokens.gaussian(n=5, d=2, chunks=chunks)  # type: ignore[arg-type]
    with refused("chunks have 6 rows in all, but n is 5"):
        af.tokens.sphere(n=5, d=2, chunks=(3, 3))
    monkeypatch.setitem(sys.modules, "dask.array", None)
    with refused(r"this needs Dask: pip install 'attnflow\[cluster\]'"):
        af.tokens.gaussian(n=5, d=2, chunks=2)


def test_a_dask_array_is_not_computed_unasked() -> None:
    x = af.tokens.gaussian(n=5, d=2, chunks=2)
    for use in (af.measure.rank, af.geometry.hull, af.Softmax().weights):
        with refused("take a sample"):
            use(x)
