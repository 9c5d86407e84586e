"""Runs of Dask arrays: against those of NumPy arrays, on disk, after death at any chunk, and what they refuse."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.runs import chunk_store
from attnflow.runs.dask_arrays import _fingerprint

dask = pytest.importorskip("dask")
da, zarr, xr = (pytest.importorskip(name) for name in ("dask.array", "zarr", "xarray"))

CHUNKS = (60, 7, 60, 1, 12, 30, 30)
X = af.tokens.gaussian(n=200, d=2, seed=0)
SPHERE = af.tokens.sphere(n=200, d=3, seed=0)
SOFT = af.Softmax(beta=lambda t: 1 / (t + 1), B=[[1.0, 0.2], [0.0, 1.0]])
LAYERS = af.Layers(gamma=0.2)


@pytest.fixture(autouse=True)
def _in_this_thread() -> Iterator[None]:
    with dask.config.set(scheduler="synchronous"):
        yield


def chunked(x: Any = X, chunks: Any = CHUNKS) -> Any:
    return da.from_array(x, chunks=(chunks, x.shape[1]))


def computed(x: Any) -> Any:
    assert isinstance(x, da.Array)
    return x.compute()


def same(a: af.Trajectory, b: af.Trajectory) -> None:
    assert (a.times.tolist(), a.stopped) == (b.times.tolist(), b.stopped)
    np.testing.assert_array_equal(computed(a.tokens), computed(b.tokens))


@pytest.mark.parametrize(
    ("x", "law", "motion"),
    [
        (X, SOFT, af.Layers(gamma=lambda t: 1 / (t + 2))),
        (X, af.Softmax(beta=0.5), af.Layers(alpha=[0.5, 1.0, 2.0])),
        (X, af.Hardmax(B=lambda t: [[1.0, t], [0.0, 1.0]]), af.Layers(gamma=0.5)),
        (X, SOFT, af.Layers(V=[[0.5, 0.1], [0.0, 1.0]])),
        (X, SOFT, af.Residual(V=[[0.1, 0.2], [0.0, -0.1]], b=[0.1, 0.2], feed_forward=af.FeedForward(W=np.eye(2)))),
        (SPHERE, af.Softmax(beta=0.5), af.SphereLayers(dt=lambda t: 1 / (t + 1))),
    ],
    ids=lambda part: type(part).__name__,
)
def test_chunks_move_as_one_cloud(x: Any, law: af.Law, motion: af.Motion) -> None:
    alone, run = af.simulate(x, law, motion, until=3), af.simulate(chunked(x), law, motion, until=3)
    assert isinstance(run.tokens, da.Array)
    assert (run.times.tolist(), run.stopped) == ([0, 1, 2, 3], alone.stopped)
    assert run.tokens.chunks[1:] == (CHUNKS, (x.shape[1],))
    assert np.abs(computed(run.tokens) - alone.tokens).max() < 1e-10 * np.ptp(x)


def test_a_store_is_a_run_for_all_who_read_it(tmp_path: Path) -> None:
    run = af.simulate(chunked(), af.Softmax(), LAYERS, until=3, record=[2], store=tmp_path / "run.zarr")
    in_memory = af.simulate(chunked(), af.Softmax(), LAYERS, until=3, record=[2])
    np.testing.assert_allclose(computed(run.tokens), computed(in_memory.tokens), rtol=0, atol=1e-12)
    back = af.load(tmp_path / "run.zarr")
    same(run, back)
    assert isinstance(back.tokens, da.Array)
    assert back.tokens.chunksize == (1, 60, 2)
    assert repr(back.law) == "Softmax(beta=1.0, B=None, b=None)"
    assert run.to_xarray().tokens.sel(time=2).chunks == ((60, 60, 60, 20), (2,))
    opened = xr.open_zarr(tmp_path / "run.zarr")
    np.testing.assert_array_equal(opened.tokens.sel(time=2).values, computed(run.at(2)))
    in_memory.save(tmp_path / "saved.zarr")
    same(in_memory, af.load(tmp_path / "saved.zarr"))
    shutil.rmtree(next((tmp_path / "run.zarr" / "tokens" / "c").iterdir()))
    with refused("run.zarr is damaged: tokens .* cannot be read; use another copy, or run again"):
        computed(af.load(tmp_path / "run.zarr").tokens)


def test_a_run_larger_than_the_memory_is_read_lazily(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = af.simulate(X, af.Softmax(), LAYERS, until=4, masses=np.arange(1.0, 201.0))
    run.save(tmp_path / "run.zarr")
    assert isinstance(af.load(tmp_path / "run.zarr").tokens, np.ndarray)
    monkeypatch.setattr(chunk_store, "physical_memory", lambda: run.tokens.nbytes)
    back = af.load(tmp_path / "run.zarr")
    np.testing.assert_array_equal(computed(back.tokens), run.tokens)
    np.testing.assert_array_equal(back.masses, run.masses)


class DiesError(Exception):
    """The process is killed."""


def dying(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let the process die before it has written one chunk more than these."""
    written, write = iter(range(after)), chunk_store._write

    def last(*given: Any) -> Any:
        if next(written, None) is None:
            raise DiesError
        return write(*given)

    monkeypatch.setattr(chunk_store, "_write", last)


# Two chunks in each state.
HALVES = chunked(chunks=100)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, Any], af.Trajectory]:
    """Runs that nothing has interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    return cache(
        lambda until, record: af.simulate(
            HALVES, SOFT, LAYERS, until, record=record, store=folder / f"{until} {record}.zarr"
        )
    )


@pytest.mark.parametrize("after", [1, 3, 7, 9])
def test_a_run_that_died_goes_on_at_the_last_whole_step(
    tmp_path: Path, after: int, whole: Callable[[int, Any], af.Trajectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two chunks in each of the states 0 to 3, of which 2 is recorded, and 3 is copied from between the records.

    Those of 0 and 1 are written together.
    """
    path, uninterrupted = tmp_path / "run.zarr", whole(3, 2)
    with monkeypatch.context() as patch:
        dying(patch, after)
        with pytest.raises(DiesError):
            af.simulate(HALVES, SOFT, LAYERS, 3, record=2, store=path)
    if after < 4:
        with refused("holds no state yet"):
            af.load(path)
    else:
        left = af.load(path)
        assert left.times.tolist() == ([0] if after < 6 else [0, 2])
        np.testing.assert_array_equal(computed(left.tokens), computed(uninterrupted.tokens[: len(left)]))
    attend, steps = af.Softmax.attend, list[float]()

    def counted(law: af.Softmax, x: Any, t: float) -> Any:
        steps.append(t)
        return attend(law, x, t)

    monkeypatch.setattr(af.Softmax, "attend", counted)
    # Other chunks are no other run: those of the store stay.
    same(uninterrupted, af.simulate(chunked(chunks=(200,)), SOFT, LAYERS, 3, record=2, store=path))
    assert steps == list(range(max(after // 2 - 1, 0), 3))


@pytest.mark.parametrize(("record", "after"), [(3, None), (3, 3), (None, 1)])
def test_a_finished_run_is_extended(
    tmp_path: Path,
    record: Any,
    after: int | None,
    whole: Callable[[int, Any], af.Trajectory],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the last state of the finished run was not picked by its rule, it is copied first."""
    path, given = tmp_path / "run.zarr", (HALVES, SOFT, LAYERS)
    run = af.simulate(*given, 2, record=record, store=path)
    assert not (path / "tokens" / "steps").exists()
    if after is not None:
        with monkeypatch.context() as patch:
            dying(patch, after)
            with pytest.raises(DiesError):
                af.simulate(*given, 4, record=record, store=path)
    extended = af.simulate(*given, 4, record=record, store=path)
    same(whole(4, record), extended)
    if record is None:
        np.testing.assert_array_equal(computed(run.final), computed(extended.tokens[2]))
        return
    with refused("has gone on since it was read"):
        computed(run.final)
    if after is None:
        with refused("holds this run until 4, and until is 3"):
            af.simulate(*given, 3, record=record, store=path)
        with refused("holds another run (compare law)"):
            af.simulate(HALVES, af.Softmax(), LAYERS, 4, record=record, store=path)
        with refused("holds another run (compare tokens)"):
            af.simulate(HALVES[::-1], SOFT, LAYERS, 4, record=record, store=path)


def test_tokens_that_leave_float64_stop_the_run(tmp_path: Path) -> None:
    x, still = np.array([[1e140], [2e140], [1.5e140], [-1e140]]), af.Softmax(beta=0.0)
    alone = af.simulate(x, still, af.Residual(V=[[1e200]]), 9)
    assert alone.stopped.startswith("token 0 left the range of float64 at step 1; use RescaledLayers")
    for store in (None, tmp_path / "run.zarr"):
        run = af.simulate(chunked(x, (1, 3)), still, af.Residual(V=[[1e200]]), 9, store=store)
        assert (run.stopped, run.times.tolist()) == (alone.stopped, [0])
        np.testing.assert_array_equal(computed(run.final), x)
    assert af.load(tmp_path / "run.zarr").stopped == alone.stopped
    # Scores of such tokens are beyond float64 before they are.
    assert af.simulate(chunked(x, (1, 3)), still, af.Residual(V=[[1e20]]), 9).stopped == alone.stopped


def test_recording_thins_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnflow.runs.recording.RECORD_BYTES", X.nbytes)
    alone, run = (af.simulate(x, af.Softmax(), LAYERS, until=6) for x in (X, HALVES))
    assert run.times.tolist() == alone.times.tolist() == [0, 1, 2, 4, 6]


def test_what_runs_in_dask_refuse(tmp_path: Path) -> None:
    x, soft = chunked(), af.Softmax()
    for motion in (af.Flow(), af.RescaledLayers(), af.Jumps(gamma=0.1), af.HardmaxFlow(), af.Leaps(gamma=0.1)):
        with refused(
            "moves tokens in memory, not those in Dask: use Layers, Residual or SphereLayers, or take a sample"
        ):
            af.simulate(x, soft, motion, until=1)
    with refused('use Layers, Residual or SphereLayers(norm="post"), or take a sample'):
        af.simulate(x, soft, af.SphereLayers(norm="pre"), until=1)
    for name, value in {"seed": 1, "masses": np.ones(200), "engine": "dense"}.items():
        with refused(f"tokens in Dask take no {name}: leave it out"):
            af.simulate(x, soft, LAYERS, 1, **{name: value})  # type: ignore[arg-type]
    with refused("watchers look at tokens in memory"):
        af.simulate(x, soft, LAYERS, 1, watch=[af.watch.Converged()])
    with refused("Localmax takes no tokens in"):
        af.simulate(x, af.Localmax(delta=0.1), LAYERS, 1, store=tmp_path / "run.zarr")
    with refused("too large for tokens"):
        af.simulate(x, af.Softmax(beta=1e9), LAYERS, 1, store=tmp_path / "run.zarr")
    assert not list(tmp_path.iterdir())
    with refused("token 3 has norm 2, expected 1.* counted from 67"):
        far = np.where(np.arange(200)[:, None] == 70, 2 * SPHERE, SPHERE)
        af.simulate(chunked(far), soft, af.SphereLayers(dt=0.1), 1)
    with refused("tokens hold a value that is not finite in row 43"):
        af.simulate(chunked(np.where(np.arange(200)[:, None] == 43, np.nan, X)), soft, LAYERS, 1)
    with refused("tokens are of size .*: multiply them by a constant"):
        af.simulate(chunked(1e155 * X), soft, LAYERS, 1)

    class Together(af.Layers):
        def step(self, hearing: Any, x: Any, t: int) -> Any:
            return x - x.mean(axis=0)

    class Plain(af.Law):
        name, title, formula = "plain", "plain", "P_ij = 1 / n"

    with refused("a store must be able to tell runs apart: make your law and motion dataclasses"):
        af.simulate(x, Plain(), LAYERS, 1, store=tmp_path / "run.zarr")
    with refused(r"Together\(gamma=0.5\) moves tokens in memory"):
        af.simulate(x, soft, Together(gamma=0.5), 1)


def test_what_is_asked_of_such_a_run(tmp_path: Path) -> None:
    run = af.simulate(chunked(), af.Softmax(), LAYERS, until=4, record=[2])
    np.testing.assert_array_equal(computed(run.at(2)), computed(run.tokens[1]))
    with refused(r"t is 3, which this run in Dask has not recorded: give simulate record=\[3\]"):
        run.at(3)
    for use in (
        lambda: run.to_numpy(), lambda: np.asarray(run), lambda: run.next_change, lambda: run.dashboard(),
        lambda: run.save(tmp_path / "run.npz"), lambda: run.to_pandas(), lambda: run.animate(tmp_path / "run.gif"),
        lambda: af.figures.compare([run, run]), lambda: af.measure.contraction_rate(run, to=[[0.0, 0.0]]),
        lambda: af.measure.energy(run, beta=1.0), lambda: af.measure.merge_times(run), lambda: af.measure.rank(run),
        lambda: af.measure.staircase(run), lambda: af.geometry.hull(run.final), lambda: af.measure.rank(run),
        lambda: af.measure.wasserstein(run.final, run.final), lambda: af.check("fw/own-cell", tokens=run.final),
    ):  # fmt: skip
        with refused(r"take a sample that fits in one process, such as x\[:100_000\].compute()"):
            use()
    assert "not predicted: the tokens of this run are in Dask" in run._repr_html_()


def test_fingerprints_tell_clouds_apart() -> None:
    """The sum over chunks is that of the whole, and changes with any bit and with the order."""
    whole = _fingerprint(X, 0)
    assert sum(_fingerprint(X[k : k + 30], 2 * k) for k in range(0, 200, 30)) % 2**64 == whole
    nearby = X.copy()
    nearby[17, 1] = np.nextafter(nearby[17, 1], 9)
    assert len({whole, _fingerprint(nearby, 0), _fingerprint(X[::-1], 0), _fingerprint(X[:, ::-1], 0)}) == 4
    # Round numbers differ in their highest bits alone. Chunks may end anywhere in long clouds.
    whole_numbers = np.arange(60_000.0).reshape(-1, 2) % 7
    orders = np.random.default_rng(0).permuted(np.tile(np.arange(30_000), (50, 1)), axis=1)
    assert len({_fingerprint(whole_numbers[order], 0) for order in orders}) == 50
    parts = [_fingerprint(whole_numbers[a:b], 2 * a) for a, b in ((0, 9000), (9000, 9001), (9001, 30_000))]
    assert sum(parts) % 2**64 == _fingerprint(whole_numbers, 0)


def test_a_first_step_reads_chunks_twice(tmp_path: Path) -> None:
    """Once for the check, the fingerprint and the points near the hull; once to write the start and the next state."""
    read = []

    def chunk(block_info: Any = None) -> Any:
        read.append(block_info[None]["chunk-location"][0])
        return np.random.default_rng(read[-1]).standard_normal((100, 2))

    x = da.map_blocks(chunk, chunks=((100,) * 3, (2,)), dtype=float, meta=np.empty((0, 0)))
    run = af.simulate(x, af.Hardmax(), LAYERS, until=1, store=tmp_path / "run.zarr")
    assert sorted(read) == [0, 0, 1, 1, 2, 2]
    np.testing.assert_array_equal(computed(run.tokens[0]), computed(x))


def test_each_chunk_on_disk_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that write parts of the same chunk would lose some of them."""
    written, write = [], chunk_store._write

    def noted(path: Path, k: int, chunk: Any, first: int) -> Any:
        written.append((k, first, len(chunk)))
        return write(path, k, chunk, first)

    monkeypatch.setattr(chunk_store, "_write", noted)
    af.simulate(chunked(), af.Hardmax(), LAYERS, until=1, store=tmp_path / "run.zarr")
    assert sorted(written) == [(k, first, min(60, 200 - first)) for k in (0, 1) for first in range(0, 200, 60)]


def test_the_first_bad_row_of_all_is_named() -> None:
    """Whatever chunk is looked at first."""
    bad = X.copy()
    bad[[43, 150, 190]] = np.nan
    late = {0: 0.05, 67: 0.05}

    def slowly(chunk: Any, block_info: Any = None) -> Any:
        time.sleep(late.get(block_info[0]["array-location"][0][0], 0.0))
        return chunk

    x = chunked(bad).map_blocks(slowly, dtype=float, meta=np.empty((0, 0)))
    with dask.config.set(scheduler="threads", num_workers=4):
        for use in (
            lambda: af.simulate(x, af.Softmax(), LAYERS, 1), lambda: af.Softmax().attend(x),
            lambda: af.Hardmax().attend(x), lambda: af.measure.diameter(x),
        ):  # fmt: skip
            with refused("tokens hold a value that is not finite in row 43:"):
                use()


def test_chunks_that_are_gone_are_named(tmp_path: Path) -> None:
    x = dask.array.from_array(np.random.default_rng(0).standard_normal((8, 2)), chunks=(4, 2))
    af.simulate(x, af.Hardmax(), af.Layers(gamma=0.5), until=1, store=tmp_path / "a")
    tokens: Any = af.load(tmp_path / "a").tokens
    shutil.rmtree(tmp_path / "a" / "tokens")
    with refused("is damaged: tokens 0 to 3 cannot be read; use another copy, or run again"):
        tokens[0, :4].compute()
