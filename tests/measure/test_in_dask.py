"""Measurements of tokens in Dask arrays, against the same tokens in one process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.geometry import chunk_linkage

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _in_this_thread() -> Iterator[None]:
    with dask.config.set(scheduler="synchronous"):
        yield


def chunked(x: Any, pieces: int = 3) -> Any:
    """Return an array in chunks of different sizes."""
    sizes = np.full(pieces, len(x) // pieces)
    sizes[0] += len(x) - sizes.sum()
    return da.from_array(x, chunks=(tuple(sizes.tolist()), x.shape[1]))


def computed(x: Any) -> Any:
    assert isinstance(x, da.Array)
    return x.compute()


def clouds(d: int) -> dict[str, Any]:
    """Clouds that are sparse, dense, on a grid with copies, in tight groups, and far from the origin."""
    x = RNG.standard_normal((300, d))
    return {
        "sparse": x,
        "copies": RNG.integers(0, 5, (300, d)).astype(float),
        "groups": x[RNG.integers(0, 6, 300)] + 1e-3 * x,
        "far": 1e-3 * x + 1e5,
        "one point": np.full((20, d), 0.25),
    }


@pytest.mark.parametrize("d", [1, 2, 5])
def test_clusters_are_those_of_one_process(d: int) -> None:
    for name, x in clouds(d).items():
        size = np.ptp(x) or 1.0
        for tol in (0.0, 0.01 * size, 0.7 * size * len(x) ** (-1 / d)):
            alone, found = af.measure.clusters(x, tol), af.measure.clusters(chunked(x), tol)
            np.testing.assert_array_equal(computed(found.labels), alone.labels, err_msg=f"{name} {tol}")
            np.testing.assert_array_equal(found.sizes, alone.sizes)
            np.testing.assert_allclose(found.centres, alone.centres, rtol=1e-12, atol=1e-12 * size)


@pytest.mark.parametrize(("inner", "count"), [(0.6, 1), (0.45, 2)])
def test_a_point_that_its_cell_does_not_show_can_join_clusters(inner: float, count: int) -> None:
    """Cells show four points each, the ends along the axes; the point (inner, 0.1) is none of these."""
    left = [[0.0, 0.0], [0.65, 0.7], [inner, 0.1], [0.3, 0.3], [0.2, 0.2]]
    right = [[1.5, 0.05], [2.0, 0.6], [1.8, 0.3], [1.7, 0.2], [1.9, 0.4]]
    x = np.array([*left, *right])
    grid = chunk_linkage.Grid.of(x.min(axis=0), x.max(axis=0), 1.0)
    cells = chunk_linkage.merged([chunk_linkage.cells_of(x[:3], 0, grid), chunk_linkage.cells_of(x[3:], 3, grid)])
    shown, doubt = chunk_linkage.classes(cells, grid, 1.0)
    assert len(np.unique(shown)) == 2
    assert doubt is not None
    assert af.measure.clusters(chunked(x, 3), 1.0).count == af.measure.clusters(x, 1.0).count == count


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_diameter_is_that_of_one_process(d: int) -> None:
    for x in clouds(d).values():
        assert af.measure.diameter(chunked(x)) == pytest.approx(af.measure.diameter(x), rel=1e-14)


@pytest.mark.parametrize("ties", ["tokens", "points", "first"])
def test_leaders_are_those_of_one_process(ties: str) -> None:
    for d in (2, 3):
        for name, x in clouds(d).items():
            if ties != "points":
                x = np.concatenate([np.zeros((1, d)), x, np.zeros((3, d))])
            law = af.Hardmax(B=[np.eye(d), np.eye(d) + 0.3 * np.eye(d)[::-1]], ties=ties)
            if name == "copies" and ties == "points":
                x = x[np.any(x != 0, axis=1)]
            alone, found = (af.measure.leaders(law, y, 1) for y in (x, chunked(x)))
            np.testing.assert_array_equal(computed(found.index), alone.index, err_msg=name)
            np.testing.assert_array_equal(found.distinct, alone.distinct)
            assert found.index.dtype == alone.index.dtype
            np.testing.assert_allclose(computed(found.heard), alone.heard, rtol=1e-12, atol=1e-15)


def test_leaders_where_all_tokens_of_a_chunk_are_at_zero() -> None:
    x = RNG.standard_normal((300, 2))
    x[100:200] = 0.0
    for law in (af.Hardmax(), af.Hardmax(B=np.zeros((2, 2)))):
        alone, found = (af.measure.leaders(law, y) for y in (x, chunked(x)))
        np.testing.assert_array_equal(computed(found.index), alone.index)
        np.testing.assert_allclose(computed(found.heard), alone.heard, rtol=1e-12)


def test_measurements_of_a_run() -> None:
    x, law, motion = RNG.standard_normal((300, 2)), af.Hardmax(), af.Layers(alpha=0.5)
    alone, run = af.simulate(x, law, motion, until=3), af.simulate(chunked(x), law, motion, until=3)
    np.testing.assert_allclose(af.measure.diameter(run), af.measure.diameter(alone), rtol=1e-12)
    np.testing.assert_array_equal(af.measure.clusters(run, 0.1).count, af.measure.clusters(alone, 0.1).count)
    np.testing.assert_array_equal(
        computed(af.measure.clusters(run, 0.1).labels), af.measure.clusters(alone, 0.1).labels
    )
    leaders = af.measure.leaders(law, run)
    np.testing.assert_array_equal(computed(leaders.index), af.measure.leaders(law, alone).index)
    assert af.measure.summary(run) == af.measure.summary(alone)


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x = chunked(RNG.standard_normal((200, 2)))
    with refused("leaders of tokens in Dask are found under Hardmax, not Softmax: ask for those of Hardmax"):
        af.measure.leaders(af.Softmax(), x)
    with refused("masses came with tokens in Dask"):
        af.measure.leaders(af.Hardmax(), x, masses=np.ones(200))
    with refused("have dimension 4, expected at most 3 for the diameter"):
        af.measure.diameter(da.ones((10, 4)))
    with refused("token 3 ties between token 0 and another point at time 0"):
        corners = np.array([[1.0, 1.0], [1.0, -1.0], [0.9, 0.8], [0.5, 0.0]])
        af.measure.leaders(af.Hardmax(ties="error"), chunked(corners, 2))
    with refused("token 203 of a Dask array has scores that leave float64"):
        faint = np.concatenate([RNG.standard_normal((203, 2)), [[1e-305, 0.0]]])
        af.measure.leaders(af.Hardmax(), chunked(faint))
    with refused("tokens hold a value that is not finite in row 7"):
        af.measure.clusters(da.where(da.arange(200, chunks=50)[:, None] == 7, np.inf, x), 0.1)
    monkeypatch.setattr(chunk_linkage, "MOST_CELLS", 50)
    with refused("tokens fill more than 50 cells of diameter tol, too many to be compared: give a larger tol, or take"):
        af.measure.clusters(x, 0.01)


def test_clouds_beyond_float64_and_masses_are_refused() -> None:
    from types import SimpleNamespace

    import dask.array

    from attnflow.measure import in_chunks
    from attnflow.measure.attention import _in_chunks

    huge = dask.array.from_array(np.full((4, 2), 1e200), chunks=(2, 2))
    with refused("size 1e.200"):
        in_chunks.box(huge)
    state: Any = SimpleNamespace(x=huge, t=0, masses=np.ones(4))
    with refused("masses count in who leads, but the tokens of this run are in Dask"):
        _in_chunks(af.Softmax(), state)
