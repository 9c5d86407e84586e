"""Tokens in Dask arrays: what laws say of them, against the same tokens in one process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from larger import larger
from numpy.typing import NDArray
from refusals import refused

import attnflow as af

dask = pytest.importorskip("dask")
da, cloudpickle = pytest.importorskip("dask.array"), pytest.importorskip("cloudpickle")

Array = NDArray[np.float64]
FORM = np.array([[0.9, -0.7, 0.2], [0.3, 0.5, -0.4], [0.1, 0.6, 0.8]])


@pytest.fixture(autouse=True)
def _in_this_thread() -> Iterator[None]:
    with dask.config.set(scheduler="synchronous"):
        yield


def chunked(x: Array, sizes: Any = (1, 500, 0, 700, 299)) -> Any:
    return da.from_array(x, chunks=(sizes, 1))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_softmax_of_chunks(d: int) -> None:
    x = np.random.default_rng(d).standard_normal((1500, d))
    for law in (
        af.Softmax(beta=0.5),
        af.Softmax(beta=-0.3, B=FORM[:d, :d], b=np.arange(d)),
        af.Softmax(beta=lambda t: t / 10, Q=FORM[:1, :d], K=FORM[1:2, :d]),
    ):
        heard = law.attend(chunked(x), 3)
        assert isinstance(heard, da.Array)
        assert heard.chunks == ((1, 500, 700, 299), (d,))
        assert np.abs(heard.compute() - law.attend(x, 3)).max() < 1e-10 * np.ptp(x)


@pytest.mark.parametrize("far", [1e3, 1e5, 1e7])
def test_softmax_of_chunks_far_from_the_origin(far: float) -> None:
    """Across the direction of their centre, many tokens are heard; otherwise only those farthest in it."""
    ahead = np.array([1.0, 0.37])
    x = np.random.default_rng(0).standard_normal((300, 2))
    across = x - np.outer(x @ ahead, ahead) / (ahead @ ahead)
    for y in (x + far * ahead, across + far * ahead, across - far):
        for law in (af.Softmax(), af.Softmax(B=0.5 * np.eye(2), b=-0.5 * far * ahead)):
            heard = law.attend(chunked(y, (100, 1, 199))).compute()
            alone = law.attend(y)
            assert np.abs(heard - alone).max() < 1e-10 * np.ptp(x) + 2 * np.spacing(far)


def test_heads_of_chunks() -> None:
    x = np.random.default_rng(0).standard_normal((300, 2))
    law = af.Heads([af.Softmax(beta=2.0), af.Hardmax(B=FORM[:2, :2])], V=[FORM[1:, 1:], None])
    assert np.abs(law.attend(chunked(x, (100, 200))).compute() - law.attend(x)).max() < 1e-10


@larger
def test_a_million_tokens_in_seven_chunks() -> None:
    for x in (af.tokens.gaussian(n=10**6, d=2, seed=0), 40 + af.tokens.gaussian(n=10**6, d=1, seed=0)):
        for law in (af.Softmax(), af.Hardmax()):
            heard = law.attend(da.from_array(x, chunks=(10**6 // 7 + 1, -1))).compute()
            assert np.abs(heard - law.attend(x)).max() < 1e-12


def test_results_and_refusals_come_from_workers() -> None:
    distributed = pytest.importorskip("distributed")
    x = np.random.default_rng(0).standard_normal((1500, 2))
    laws = (af.Softmax(), af.Hardmax())
    alone = [law.attend(chunked(x)).compute() for law in laws]
    bad = np.where(np.arange(1500)[:, None] == 1300, np.nan, x)
    with (
        distributed.Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client,
        dask.config.set(scheduler=client),
    ):
        for law, expected in zip(laws, alone, strict=True):
            heard = law.attend(chunked(x))
            assert distributed.futures_of(heard)  # the sums stay with a worker
            np.testing.assert_array_equal(heard.compute(), expected)
            with refused("not finite in row 1300"):
                law.attend(chunked(bad))


def test_results_do_not_depend_on_threads() -> None:
    x = chunked(np.random.default_rng(0).standard_normal((1500, 2)))
    alone = af.Softmax().attend(x).compute()
    with dask.config.set(scheduler="threads", num_workers=3):
        np.testing.assert_array_equal(af.Softmax().attend(x).compute(), alone)


def test_chunks_are_read_three_times_and_sums_are_sent_once() -> None:
    """For the box, for the moments and for the means; only the last is left to the result."""
    read = []

    def chunk(block_info: Any = None) -> Array:
        read.append(block_info[None]["chunk-location"][0])
        return np.random.default_rng(read[-1]).standard_normal((100, 2))

    x = da.map_blocks(chunk, chunks=((100,) * 5, (2,)), dtype=float, meta=np.empty((0, 0)))
    heard = af.Softmax().attend(x)
    assert sorted(read) == sorted(2 * list(range(5)))
    with_sums = [task for task in dict(heard.dask).values() if len(cloudpickle.dumps(task)) > 10_000]
    assert len(with_sums) == 1
    heard.compute()
    assert sorted(read) == sorted(3 * list(range(5)))


def test_what_is_refused() -> None:
    x = np.random.default_rng(0).standard_normal((40, 2))
    tokens = da.from_array(x, chunks=(10, 2))
    softmax = af.Softmax()
    for law in (af.Localmax(delta=0.1), af.HegselmannKrause(eps=1.0), af.Heads([af.Softmax(), af.Localmax()])):
        with refused(r"takes no tokens in a Dask array.*take a sample"):
            law.attend(tokens)
    with refused("masses came with tokens in a Dask array"):
        softmax.attend(tokens, masses=np.ones(40))
    for large in (af.Softmax(beta=300.0), af.Softmax(B=1e305 * np.eye(2))):
        with refused("is too large for tokens in a Dask array"):
            large.attend(tokens)
    with refused("x.compute_chunk_sizes()"):
        softmax.attend(tokens[tokens[:, 0] > 0])
    with refused("expected (n, d)"):
        softmax.attend(tokens[:, 0])
    for either in (softmax, af.Hardmax()):
        for bad in (np.nan, np.inf):
            with refused("not finite in row 23"):
                either.attend(da.from_array(np.where(np.arange(40)[:, None] == 23, bad, x), chunks=(10, 2)))
        with refused("multiply them by a constant"):
            either.attend(1e200 * tokens)
        with refused("dimension 4, expected at most 3"):
            either.attend(da.ones((10, 4)))
    with refused("tokens are in Dask, which is not taken here as a whole"):
        softmax.weights(tokens)


def test_a_law_with_weights_of_its_own_takes_no_chunks() -> None:
    class Other(af.Softmax):
        def log_weights(self, x: Array, t: float = 0, *, sources: Any = None, masses: Any = None) -> Array:
            return np.zeros((len(x), len(x)))

    with refused("Other takes no tokens in a Dask array"):
        Other().attend(da.ones((10, 2)))


def lattice(d: int, n: int = 900) -> Array:
    """Tokens on a few points, so that ties and copies abound, and some at 0."""
    return np.random.default_rng(d).integers(-2, 3, (n, d)).astype(float)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("ties", ["tokens", "points", "first"])
@pytest.mark.parametrize("B", [None, FORM, np.diag([1.0, 0.0, 0.0]), -np.eye(3)])
def test_hardmax_of_chunks(d: int, ties: str, B: Array | None) -> None:
    law = af.Hardmax(B=None if B is None else B[:d, :d], ties=ties)
    for x in (np.random.default_rng(d).standard_normal((900, d)), 0.5 + lattice(d)):
        if (law.queries(x, 0) == 0).all(axis=1).any():
            continue
        heard = law.attend(chunked(x, (300, 1, 599))).compute()
        alone = law.attend(x)
        if ties == "first":
            np.testing.assert_array_equal(heard, alone)
        assert np.abs(heard - alone).max() < 1e-14


def test_hardmax_of_tokens_at_zero() -> None:
    """They hear all tokens alike; most of these are not near the hull."""
    x = np.random.default_rng(0).standard_normal((900, 2))
    x[[0, 400, 899]] = 0.0
    tokens = chunked(x, (300, 1, 599))
    for ties in ("tokens", "first"):
        heard = af.Hardmax(ties=ties).attend(tokens).compute()
        assert np.abs(heard - af.Hardmax(ties=ties).attend(x)).max() < 1e-14
    with refused("of a Dask array ties between all tokens"):
        af.Hardmax(ties="points").attend(tokens).compute()
    # Where no token is left out, nothing is doubtful, and distinct points are known.
    few = lattice(2, n=150)
    for ties in ("tokens", "points"):
        heard = af.Hardmax(ties=ties).attend(chunked(few, (50, 50, 50))).compute()
        assert np.abs(heard - af.Hardmax(ties=ties).attend(few)).max() < 1e-14


def test_queries_too_faint_for_a_small_chunk_are_refused() -> None:
    """Their scores vanish in the chunk that they hear, whose points inside the hull were left out."""
    x = np.abs(np.random.default_rng(0).standard_normal((600, 2)))
    x[:300] *= 1e-150
    x[300:] *= -1
    x[5] = 1e-180
    np.testing.assert_allclose(af.Hardmax().attend(x)[5], x[:300].mean(axis=0), rtol=1e-12)
    for law in (af.Hardmax(), af.Hardmax(ties="error")):
        with refused("token 5 of a Dask array has scores that leave float64"):
            law.attend(chunked(x, (300, 300))).compute()


def test_ties_of_chunks_are_refused_with_their_place_among_all_tokens() -> None:
    x = np.random.default_rng(0).uniform(-0.5, 0.5, (900, 2))
    x[[310, 850]] = [[1.0, 1.0], [1.0, -1.0]]
    x[800] = [0.3, 0.0]
    law = af.Hardmax(ties="error")
    with pytest.raises(af.InputError) as alone:
        law.attend(x)
    assert "token 800 ties between token 310 and another point" in str(alone.value)
    with refused(str(alone.value)):
        law.attend(chunked(x, (300, 1, 599))).compute()
    x[800, 1] = 0.1
    np.testing.assert_array_equal(law.attend(chunked(x, (300, 1, 599))).compute(), law.attend(x))


@pytest.mark.parametrize("places", [[10, 700], [700, 1], [1, 299]])
def test_the_first_of_all_tokens_that_ties_is_named(places: list[int]) -> None:
    """Whichever chunk is computed first: also if one of them is at 0 and ties between all."""
    x = np.random.default_rng(0).uniform(-0.5, 0.5, (900, 2))
    x[[600, 650]] = [[1.0, 1.0], [1.0, -1.0]]
    x[places] = [[0.3, 0.0], [0.0, 0.0]]
    law = af.Hardmax(ties="error")
    with pytest.raises(af.InputError) as alone:
        law.attend(x)
    assert f"token {min(places)} ties between token" in str(alone.value)
    for found in (law.attend, lambda tokens: af.measure.leaders(law, tokens)):
        with refused(str(alone.value)):
            found(chunked(x, (300, 1, 599)))


def test_hardmax_of_a_sphere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x = af.tokens.sphere(900, 2, seed=0)
    tokens = chunked(x, (300, 1, 599))
    np.testing.assert_array_equal(af.Hardmax().attend(tokens).compute(), af.Hardmax().attend(x))
    monkeypatch.setattr("attnflow.engines.chunks_top.MOST_CANDIDATES", 800)
    with refused("900 points among 900 tokens of a Dask array are near their hull, expected at most 800"):
        af.Hardmax().attend(tokens)
    # Copies count once.
    x[300:] = x[0]
    np.testing.assert_array_equal(af.Hardmax().attend(chunked(x, (300, 1, 599))).compute(), af.Hardmax().attend(x))
