"""The loop, its watchers and what it leaves behind."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.core.inputs import InputError
from attnflow.motions import Stretch
from attnflow.runs.watch import Start, Watcher

X = af.tokens.gaussian(n=12, d=2, seed=0)
SOFT = af.Softmax(beta=2.0)
LAYERS = af.Layers(gamma=0.2)


@pytest.mark.parametrize("every", [2**63 - 1, 2**63, 10**22])
def test_recording_more_seldom_than_the_run_is_long(every: int) -> None:
    """The first and the last state are kept, whatever whole number is given."""
    assert af.simulate(X, SOFT, LAYERS, until=5, record=every).times.tolist() == [0, 5]


def test_default_records_every_step() -> None:
    run = af.simulate(X, SOFT, LAYERS, until=5000)
    np.testing.assert_array_equal(run.times, np.arange(5001))
    assert run.times.dtype == np.int64
    assert run.tokens.dtype == np.float64
    assert run.stopped == "reached step 5000, as asked"


@pytest.mark.parametrize(
    ("record", "times"),
    [
        (7, [0, 7, 14, 21, 28, 35, 42, 49, 50]),
        (20.0, [0, 20, 40, 50]),
        ([0, 50], [0, 50]),
        ([3, 10], [0, 3, 10, 50]),
        (af.watch.Geometric(first=1, per_decade=2), [0, 1, 3, 10, 32, 50]),
    ],
)
def test_recording_of_layers(record: af.watch.Record, times: list[int]) -> None:
    everything = af.simulate(X, SOFT, LAYERS, until=50)
    run = af.simulate(X, SOFT, LAYERS, until=50, record=record)
    np.testing.assert_array_equal(run.times, times)
    np.testing.assert_array_equal(run.tokens, everything.tokens[times])


def test_recording_of_flows_interpolates() -> None:
    times = [0.1, 0.25, 1.0, 1.7]
    run = af.simulate(X, SOFT, af.Flow(), until=2.0, record=times)
    np.testing.assert_array_equal(run.times, [0.0, *times, 2.0])
    exact = [af.simulate(X, SOFT, af.Flow(rtol=1e-12), until=t).final for t in times]
    np.testing.assert_allclose(run.tokens[1:-1], exact, rtol=1e-7)
    every = af.simulate(X, SOFT, af.Flow(), until=2.0)
    third = af.simulate(X, SOFT, af.Flow(), until=2.0, record=3)
    np.testing.assert_array_equal(third.times, np.unique([*every.times[::3], 2.0]))


def test_a_large_recording_thins_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each full budget the stride doubles; first and last stay."""
    monkeypatch.setattr("attnflow.runs.recording.RECORD_BYTES", 10 * X.nbytes)
    run = af.simulate(X, SOFT, LAYERS, until=100)
    expected = [*range(11), *range(12, 31, 2), *range(32, 69, 4), *range(72, 100, 8), 100]
    np.testing.assert_array_equal(run.times, expected)


def test_state_at_any_time_of_a_flow() -> None:
    run = af.simulate(X, SOFT, af.RescaledFlow(V=[[1.0, 0.3], [0.0, 0.4]]), until=3.0)
    sparse = af.simulate(X, SOFT, af.RescaledFlow(V=[[1.0, 0.3], [0.0, 0.4]]), until=3.0, record=[0, 3])
    for t in (0.0, 0.3, 1.111, 2.9, 3.0):
        exact = X if t == 0 else af.simulate(X, SOFT, af.RescaledFlow(V=[[1.0, 0.3], [0.0, 0.4]], rtol=1e-12), t).final
        np.testing.assert_allclose(run.at(t), exact, rtol=0, atol=1e-8)
        np.testing.assert_allclose(sparse.at(t), exact, rtol=0, atol=1e-8)
    assert run.at([0.3, 0.4]).shape == (2, 12, 2)


def test_state_at_any_layer() -> None:
    everything = af.simulate(X, SOFT, LAYERS, until=3000)
    run = af.simulate(X, SOFT, LAYERS, until=3000, record=[0, 100, 3000])
    for t in (0, 1, 99, 100, 101, 2500, 3000):
        np.testing.assert_array_equal(run.at(t), everything.tokens[t])


def test_converged_stops_at_the_first_slow_step() -> None:
    run = af.simulate(X, af.Hardmax(), LAYERS, until=10**6, watch=[af.watch.Converged(1e-8)])
    extent = np.linalg.norm(np.ptp(X, axis=0))
    moves = np.linalg.norm(np.diff(run.tokens, axis=0), axis=2).max(axis=1) / extent
    assert moves[-1] <= 1e-8 < moves[-2]
    assert run.stopped.startswith(f"at rest within 1e-08 at step {run.times[-1]}: ")
    flow = af.simulate(X, SOFT, af.RescaledFlow(rtol=1e-12), until=1e3, watch=[af.watch.Converged(1e-6)])
    assert flow.stopped.startswith("at rest within 1e-06 at t = ")
    speeds = np.linalg.norm(np.diff(flow.tokens, axis=0), axis=2).max(axis=1) / np.diff(flow.times) / extent
    assert speeds[-1] <= 1e-6 < speeds[-2]


def test_converged_measures_speed_not_distance() -> None:
    watcher = af.watch.Converged(1e-3)
    watcher.begin(Start(0.0, X, 1.0, False, X))
    nudge = 0.5e-3 * watcher.extent * np.array([1.0, 0.0])
    assert watcher.stop(Stretch((0.0, X), np.array([0.1]), X[None] + nudge)) is None
    assert watcher.stop(Stretch((0.0, X), np.array([1.0]), X[None] + nudge)) is not None


def test_clustered_and_predicate_stop_at_the_first_such_state() -> None:
    run = af.simulate(X, af.Softmax(beta=0.1), LAYERS, until=10**5, watch=[af.watch.Clustered(at_most=1, tol=1e-3)])
    counts = [af.measure.clusters(x, 1e-3).count for x in run.tokens]
    assert counts[-1] == 1
    assert 1 not in counts[:-1]
    run = af.simulate(X, SOFT, LAYERS, until=10**5, watch=[af.watch.When(lambda t, x: t == 4321, "enough")])
    assert run.stopped == "stopped at step 4321: enough"
    assert run.times[-1] == 4321


def test_wall_clock_stops_a_long_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that shows a second more whenever somebody looks."""
    seconds = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)))
    run = af.simulate(X, SOFT, LAYERS, until=10**6, record=10**9, watch=[af.watch.WallClock(3.0)])
    assert "3 s of wall clock passed" in run.stopped
    assert 0 < run.times[-1] < 10**6


def test_a_watcher_sees_each_state_once_and_in_order() -> None:
    class Notes(Watcher):
        def begin(self, start: Start) -> None:
            self.times = [start.t]

        def see(self, stretch: Stretch) -> None:
            assert stretch.before[0] == self.times[-1]
            self.times += stretch.times.tolist()

    notes = Notes()
    run = af.simulate(X, SOFT, LAYERS, until=5000, watch=[notes])
    assert notes.times == run.times.tolist()
    run = af.simulate(X, SOFT, af.Flow(), until=1.0, watch=[notes])
    assert notes.times == run.times.tolist()


def test_overflow_ends_the_run_with_a_sentence() -> None:
    run = af.simulate([[1.0], [2.0]], af.Softmax(), af.Residual(dt=10.0), until=10**4)
    assert "left the range of float64 at step" in run.stopped
    assert np.isfinite(run.tokens).all()
    assert len(run) > 100
    run = af.simulate(X, af.Hardmax(), af.Residual(), until=5000)
    assert "left the range of float64 at step" in run.stopped
    assert "use RescaledLayers" in run.stopped


def test_progress_is_silent_without_a_terminal() -> None:
    code = (
        "import attnflow as af; af.simulate([[1.0],[2.0]], af.Softmax(), af.Layers(gamma=.1), 5000, "
        "watch=[af.watch.Progress()])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert "step" not in done.stderr


def test_progress_draws_a_bar_in_a_terminal() -> None:
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")

    code = (
        "import attnflow as af; af.simulate([[1.0],[2.0]], af.Softmax(), af.Layers(gamma=.1), 400_000, "
        "watch=[af.watch.Progress()], record=10**6)"
    )
    main, side = pty.openpty()
    termios.tcsetwinsize(side, (24, 80))
    with subprocess.Popen([sys.executable, "-c", code], stderr=side, stdout=side) as process:
        assert process.wait() == 0
    os.set_blocking(main, False)
    shown = os.read(main, 10**6).decode()
    os.close(side)
    os.close(main)
    assert "%|" in shown
    assert "of 4e+05" in shown


def test_progress_shows_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel of a notebook is no terminal, but shows what tqdm draws."""
    import IPython
    import tqdm.auto

    drawn: list[str] = []
    lock = threading.Lock()

    class Shell:
        kernel = object()

    class Bar:
        def __init__(self, **options: object) -> None:
            assert options["total"] == 1.0

        def set_description_str(self, text: str, refresh: bool) -> None:
            drawn.append(text)

        def set_postfix_str(self, text: str, refresh: bool) -> None:
            assert "passed" in text

        @staticmethod
        def get_lock() -> threading.Lock:
            return lock

        def refresh(self, nolock: bool) -> None:
            assert nolock
            assert lock.locked()
            drawn.append("refreshed")

        def close(self) -> None:
            drawn.append("closed")

    monkeypatch.setattr(tqdm.auto, "tqdm", Bar)
    monkeypatch.setattr(IPython, "get_ipython", Shell)
    af.simulate(X, SOFT, LAYERS, until=9, watch=[af.watch.Progress()])
    assert drawn[:2] == ["simulate 0 of 9", "refreshed"]
    assert drawn[-1] == "closed"


def test_import_loads_numpy_only() -> None:
    code = (
        "import sys, attnflow; "
        "print([m for m in ('scipy', 'numba', 'matplotlib', 'zarr', 'xarray', 'tqdm', 'llvmlite') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_same_seed_same_cloud() -> None:
    for make in (af.tokens.gaussian, af.tokens.uniform, af.tokens.sphere):
        np.testing.assert_array_equal(make(5, 3, seed=7), make(5, 3, seed=7))
        assert not np.array_equal(make(5, 3, seed=7), make(5, 3, seed=8))


def test_engine_is_reported() -> None:
    assert af.simulate(X, SOFT, LAYERS, until=1).report["engine"] == "fused"
    assert af.simulate(X, SOFT, LAYERS, until=1, engine="dense").report["engine"] == "dense"
    assert af.simulate(X, af.Heads([SOFT, af.Hardmax()]), LAYERS, until=1).report["engine"] == "fused"


def test_the_earliest_stop_wins() -> None:
    late, early = (af.watch.When(lambda t, x, s=s: t >= s, f"after {s}") for s in (1000, 10))  # type: ignore[misc]
    for watch in ([late, early], [early, late]):
        assert af.simulate(X, SOFT, LAYERS, until=5000, watch=watch).stopped == "stopped at step 10: after 10"


def test_recording_at_the_ends_of_stretches() -> None:
    times = [0, 2047, 2048, 2049, 4096, 5000]
    run = af.simulate(X, SOFT, LAYERS, until=5000, record=times)
    np.testing.assert_array_equal(run.times, times)
    np.testing.assert_array_equal(run.tokens, af.simulate(X, SOFT, LAYERS, until=5000).tokens[times])


def test_results_do_not_depend_on_where_a_stretch_starts() -> None:
    """Exponents cross the bound of the unshifted kernel in the middle of a stretch."""
    x, law, motion = 8 * X, af.Softmax(beta=1.0, B=-np.eye(2)), af.Layers(gamma=0.002)
    everything = af.simulate(x, law, motion, until=2048)
    run = af.simulate(x, law, motion, until=2048, record=[0, 1500, 2048])
    for t in (1501, 1700, 2047):
        np.testing.assert_array_equal(run.at(t), everything.tokens[t])
    rising = af.Softmax(beta=lambda t: 1 + t)
    short, long = (af.simulate(x, rising, motion, until=until).tokens[50] for until in (50, 2000))
    np.testing.assert_array_equal(short, long)


def test_a_function_of_time_may_end_where_the_run_is_stopped() -> None:
    stop = af.watch.When(lambda t, x: t == 5, "enough")
    run = af.simulate(X, SOFT, af.Layers(gamma=lambda t: 1 / (12 - t)), until=100, watch=[stop])
    assert run.times[-1] == 5
    with refused("gamma, a function of time, failed at t = 12"):
        af.simulate(X, SOFT, af.Layers(gamma=lambda t: 1 / (12 - t)), until=100)


def test_a_watcher_cannot_move_the_tokens() -> None:
    with pytest.raises(ValueError, match="read-only"):
        af.simulate(X, SOFT, LAYERS, until=5, watch=[af.watch.When(lambda t, x: bool(x.fill(0)))])  # type: ignore[func-returns-value]


def test_a_stretch_that_is_over_does_not_interpolate() -> None:
    class Keeps(Watcher):
        kept: list[Stretch]

        def begin(self, start: Start) -> None:
            self.kept = []

        def see(self, stretch: Stretch) -> None:
            self.kept.append(stretch)

    keeps = Keeps()
    run = af.simulate(X, SOFT, af.Flow(), until=1.0, watch=[keeps])
    assert keeps.kept[0].between is not None
    with refused("this stretch is over"):
        keeps.kept[0].between(float(run.times[1]) / 2)


def test_seeds_of_numpy_are_numbers() -> None:
    run = af.simulate(X, SOFT, LAYERS, until=2, seed=np.int64(3))  # type: ignore[arg-type]
    assert run.seed == 3
    assert '"seed": 3' in run.to_xarray().attrs["run"]


def test_a_run_has_no_items_and_says_what_to_take() -> None:
    """An item could be a record or a time."""
    run: Any = af.simulate([[1.0], [0.0]], af.Softmax(), af.Layers(gamma=0.5), until=4, record=2)
    uses: list[Callable[[], Any]] = [lambda: run[1], lambda: run[1:], lambda: run["tokens"]]
    for use in uses:
        with refused(r"take run\.tokens\[k\] for the k-th recorded state, or run\.at\(t\)"):
            use()
    uses = [lambda: list(run), lambda: 3 in run, lambda: max(run)]
    for use in uses:
        with pytest.raises(InputError, match=r"take run\.tokens for the recorded states, or zip\(run\.times"):
            use()
    np.testing.assert_array_equal(np.array([run, run])[1], run.tokens)  # NumPy takes it as an array, not as a sequence
    np.testing.assert_array_equal(np.asarray(run), run.tokens)


def test_a_state_that_cannot_be_replayed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = af.simulate(af.tokens.polygon(3), af.Softmax(beta=1.0), af.Jumps(gamma=0.5), until=9, record=[0, 9], seed=0)
    chain.about["seed"] = None
    chain.report.pop("seed", None)
    with pytest.raises(InputError, match="this run is not finished and its seed not known"):
        chain.at(5)
    run = af.simulate([[1.0], [0.0]], af.Softmax(), af.Layers(gamma=0.5), until=9, record=[0, 9])

    class Ended:
        def __init__(self, self_: Any, hearing: Any, x: Any, t: Any, state: Any = None) -> None:
            self.t, self.x = t, x

        def advance(self, until: float) -> Stretch:
            return Stretch.none(self.t, self.x, "tokens met")

    monkeypatch.setattr(af.Layers, "start", lambda *given: Ended(*given))
    with pytest.raises(InputError, match="the state at t = 5 cannot be replayed: tokens met"):
        run.at(5)
