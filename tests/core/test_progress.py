"""Progress of long work: shown in time, gone at the end, and without a trace in the results."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_runs import asked
from tqdm.auto import tqdm as auto

import attnflow as af
from attnflow.core import progress
from attnflow.engines import fused
from attnflow.laws import Hearing
from attnflow.motions.solvers import ensemble_flow

CIRCLE = af.tokens.sphere(n=5, d=2, seed=1)
SQUARE = partial(af.tokens.uniform, d=2)
SOFT = af.Softmax(beta=4.0)
LAYERS = af.simulate(CIRCLE, SOFT, af.Layers(gamma=0.1), until=30)


class Seen:
    """A screen that remembers."""

    again = 1.0

    def __init__(self) -> None:
        self.lines: list[tuple[str, float | None, str]] = []
        self.notes: list[str] = []
        self.cleared = 0

    def line(self, what: str, fraction: float | None, time: str) -> None:
        """Remember a line."""
        self.lines.append((what, fraction, time))

    def note(self, sentence: str) -> None:
        """Remember a sentence."""
        self.notes.append(sentence)

    def clear(self) -> None:
        """Count."""
        self.cleared += 1


class Ticking:
    """A clock on which a second passes between two readings."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        self.now += 1.0
        return self.now


def movie(folder: Path) -> None:
    af.simulate(af.tokens.polygon(3), SOFT, af.Layers(gamma=0.1), until=9).animate(folder / "run.gif", seconds=0.2)


LONG: dict[str, Callable[[Path], Any]] = {
    "simulate: layers": lambda _: af.simulate(CIRCLE, SOFT, af.Layers(gamma=0.1), until=30_000, record=[30_000]).tokens,
    "simulate: steps": lambda _: af.simulate(CIRCLE, SOFT, af.RescaledLayers(), until=20).tokens,
    "simulate: flow": lambda _: af.simulate(CIRCLE, SOFT, af.SphereFlow(), until=5.0).tokens,
    "simulate: chain": lambda _: af.simulate(CIRCLE, SOFT, af.Jumps(gamma=0.1), until=9000, seed=0).tokens,
    "simulate: leaps": lambda _: af.simulate(CIRCLE, SOFT, af.Leaps(gamma=0.1), until=10**6).tokens,
    "simulate: hardmax": lambda _: af.simulate(CIRCLE, af.Hardmax(), af.HardmaxFlow(), until=5.0).tokens,
    "phases": lambda _: af.measure.phases(af.tokens.polygon(3), [2.0, 3.0], 0.1, runs=6).chain.collapse,
    "exit_times": lambda _: af.measure.exit_times(af.tokens.polygon(3), SOFT, 0.1, 0.5, runs=50).times,
    "exit_probability": lambda _: af.measure.exit_probability(af.tokens.polygon(3), SOFT, 0.1, 0.5, 20, runs=50).stages,
    "mean_field": lambda _: (
        af.measure.mean_field(SQUARE, SOFT, af.Layers(gamma=0.1), [1, 2], sizes=[4, 8], reference=64, runs=2).low
    ),
    "merge_times": lambda _: af.measure.merge_times(af.simulate(CIRCLE, SOFT, af.SphereFlow(), until=5.0)).error,
    "measure": lambda _: af.measure.clusters(LAYERS, tol=0.01).count,
    "merge_times: layers": lambda _: af.measure.merge_times(LAYERS).time,
    "staircase": lambda _: af.measure.staircase(LAYERS).energy,
    "check": lambda _: af.check("hardmax/first-leaders").margin,
    "search": lambda _: af.search("fw/voronoi", evaluations=40),
    "movie": movie,
}


@pytest.mark.parametrize("name", LONG)
def test_long_work_says_how_far_it_is_and_changes_nothing(name: str, tmp_path: Path) -> None:
    expected, seen, clock = LONG[name](tmp_path), Seen(), Ticking()
    with progress.shown(seen, clock):
        found = LONG[name](tmp_path)
    np.testing.assert_array_equal(found, expected)
    assert len(seen.lines) > 1
    assert any(what.startswith(name.partition(":")[0]) for what, *_ in seen.lines)
    fractions = [part for _, part, _ in seen.lines if part is not None]
    assert fractions == sorted(fractions) or "simulate" not in name
    assert all(0 <= part <= 1 for part in fractions)
    assert (len(fractions) > 0) == (name != "exit_probability")
    assert seen.cleared > 0


def ensembles() -> Iterator[tuple[str, af.Motion, float]]:
    yield "compiled flow", af.SphereFlow(), 5.0
    yield "compiled layers", af.SphereLayers(dt=0.1), 50
    yield "shared steps", af.RescaledFlow(), 1.0
    yield "layers", af.RescaledLayers(dt=0.1), 20


@pytest.mark.parametrize(("name", "motion", "until"), list(ensembles()))
def test_ensembles_are_cut_into_pieces_without_changing_a_bit(
    name: str, motion: af.Motion, until: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.stack([af.tokens.sphere(n=4, d=2, seed=s) for s in range(19)])
    law = af.Softmax(beta=np.linspace(0.1, 9.0, 19))
    asked_for: dict[str, Any] = {"record": [1, 2, 17] if motion.discrete else [0.25, 0.5]}
    whole = af.ensemble(x, law, motion, until, **asked_for)
    parts: list[float] = []
    own: Any = ensemble_flow.paths

    def watched(*given: Any) -> Any:
        *others, going = given

        def counted(part: float, slow: bool) -> None:
            parts.append(part)
            going(part, slow)

        return own(*others, counted)

    monkeypatch.setattr(ensemble_flow, "paths", watched)
    monkeypatch.setattr(ensemble_flow, "PIECE", 1)
    monkeypatch.setattr(progress, "AGAIN", 0.01)
    seen = Seen()
    with progress.shown(seen, Ticking()):
        cut = af.ensemble(x, law, motion, until, **asked_for)
    np.testing.assert_array_equal(cut.values, whole.values)
    np.testing.assert_array_equal(cut.final, whole.final)
    assert cut.steps == whole.steps
    if name.startswith("compiled"):
        assert len(parts) > 50
        assert parts == sorted(parts)


def test_an_ensemble_that_is_interrupted_gives_up_at_the_next_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    class Impatient(Seen):
        def line(self, what: str, fraction: float | None, time: str) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(ensemble_flow, "PIECE", 1 << 12)
    x = np.stack([af.tokens.sphere(n=8, d=3, seed=s) for s in range(8)])
    # To the end it would take years: a value matrix holds the tokens, and steps have length one.
    with progress.shown(Impatient(), Ticking()), pytest.raises(KeyboardInterrupt):
        af.ensemble(x, SOFT, af.SphereFlow(V=np.diag([1.0, 0.5, 0.2])), until=1e15)


def test_the_time_left_is_that_of_the_pace_of_late() -> None:
    seen, now = Seen(), [0.0]
    with progress.shown(seen, lambda: now[0]), progress.task("work", 100) as work:
        for second in range(40):
            now[0] = float(second)
            # After half a minute the pace doubles.
            work.reach(second if second < 20 else 2 * second - 20)
    assert seen.lines[0] == ("work 2 of 100", 0.02, "0:02 passed")
    assert seen.lines[1] == ("work 3 of 100", 0.03, "0:03 passed, 1:37 left")
    assert seen.lines[-1][0] == "work 58 of 100"
    assert seen.lines[-1][2] in ("0:39 passed, 0:21 left", "0:39 passed, 0:22 left")
    assert (len(seen.lines), seen.cleared) == (38, 1)


def test_what_comes_before_the_first_progress_is_no_pace() -> None:
    seen, now = Seen(), [0.0]
    with progress.shown(seen, lambda: now[0]), progress.task("work", 100) as work:
        work.reach(0)
        for second, done in ((3, 0), (60, 1), (61, 2), (62, 3)):
            now[0] = float(second)
            work.reach(done)
    passed = ["0:03 passed", "1:00 passed", "1:01 passed, 1:38 left", "1:02 passed, 1:37 left"]
    assert [time for *_, time in seen.lines] == passed


def test_tasks_inside_tasks_are_parts_of_them() -> None:
    seen, now = Seen(), [0.0]
    with progress.shown(seen, lambda: now[0]), progress.task("outer", 4) as outer:
        outer.reach(1)
        with progress.task("inner", 10) as inner:
            now[0] = 3.0
            inner.reach(5)
    assert seen.lines == [("outer 1 of 4, inner 5 of 10", 0.375, "0:03 passed")]


def test_a_task_that_is_left_by_an_error_is_over() -> None:
    seen = Seen()
    run = partial(af.simulate, CIRCLE, SOFT, af.Layers(gamma=0.1), 99, watch=[af.watch.When(lambda t, x: t < 1 / 0)])
    with progress.shown(seen, Ticking()) as reporter:
        with pytest.raises(ZeroDivisionError):
            run()
        assert reporter.tasks == []


def stiff(law: af.Law, motion: af.Motion, until: float, d: int = 2) -> list[str]:
    """Return what a run says of itself that is given up after some steps."""
    seen, x = Seen(), af.tokens.sphere(n=12, d=d, seed=0)
    stop = af.watch.When(lambda t, x: len(seen.lines) > 3000)
    with progress.shown(seen, Ticking()):
        af.simulate(x, law, motion, until, record=[until], watch=[stop])
    return seen.notes


def test_a_stiff_flow_says_so_and_what_helps() -> None:
    (said,) = stiff(SOFT, af.SphereFlow(V=np.diag([1.0, 0.5])), until=1e9)
    assert said.startswith("this flow is stiff")
    assert "SphereLayers" in said
    (turning,) = stiff(af.Softmax(beta=1e2), af.RescaledFlow(V=[[0.0, 1.0], [-1.0, 0.0]]), until=1e4)
    assert "loosen rtol" in turning
    assert "HardmaxFlow" in turning
    assert max(map(len, (said, turning))) <= 120
    # It ends after a dozen steps, of which the first are short.
    assert stiff(af.Softmax(beta=1e5), af.RescaledFlow(), until=1e6) == []
    assert stiff(SOFT, af.SphereFlow(), until=20.0) == []


COUNT, TOGETHER = 2000 if "ATTNFLOW_EXAMPLES" in os.environ else 10, 10
# Pairs of tokens, times the dimension, that are heard between two looks at the clock: less than a second of work; and
# how much of a run is looked at.
QUIET, ENOUGH = 1 << 22, 1 << 21


@pytest.mark.parametrize("first", range(0, COUNT, TOGETHER))
def test_no_random_run_is_silent_for_long(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that counts work, the longest time without a look at the clock is short, however stiff the run."""
    work = [0.0]

    def counted(own: Callable[..., Any]) -> Callable[..., Any]:
        def hear(self: Hearing, x: Any, t: float, **given: Any) -> Any:
            found = own(self, x, t, **given)
            work[0] += x.size * len(x)
            return found

        return hear

    monkeypatch.setattr(Hearing, "__call__", counted(Hearing.__call__))
    monkeypatch.setattr(Hearing, "pull", counted(Hearing.pull))
    for number in range(first, first + TOGETHER):
        question, looks, seen = asked(number), [0.0], Seen()
        if question.tokens.ndim == 3:
            continue  # ensembles have a test of their own: their pieces are short
        work[0] = 0.0

        def clock(looks: list[float] = looks) -> float:
            looks.append(work[0])
            return work[0]

        moves = [0]

        def enough(t: float, x: Any, moves: list[int] = moves) -> bool:
            moves[0] += 1
            return work[0] > ENOUGH or moves[0] > 300

        with progress.shown(seen, clock, after=0.0), suppress(af.InputError):
            question.run(watch=[af.watch.When(enough)])
        assert np.diff([*looks, work[0]]).max() <= QUIET, str(question)
        assert len(looks) > 2


def test_a_sum_of_very_many_pairs_is_cut_without_changing_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    x = af.tokens.gaussian(n=300, d=3, seed=0)
    whole = fused.softmax(x, x, x, None, 2.0)
    weights = np.ones(300)
    top = fused.top(x, x, x, weights, np.zeros(300), 0.0)
    ball = fused.ball(x, x, x, weights, 1.0)
    ticks = [0]
    monkeypatch.setattr(fused, "CALL", 1 << 12)
    monkeypatch.setattr("attnflow.core.blocks.tick", lambda: ticks.__setitem__(0, ticks[0] + 1))
    for one, other in zip(fused.softmax(x, x, x, None, 2.0), whole, strict=True):
        np.testing.assert_array_equal(one, other)
    for k, again in enumerate(fused.top(x, x, x, weights, np.zeros(300), 0.0)):
        np.testing.assert_array_equal(again, top[k])
    np.testing.assert_array_equal(fused.ball(x, x, x, weights, 1.0), ball)
    assert ticks[0] > 300


@pytest.mark.parametrize(("asked_for", "shown"), [("", False), ("on", True), ("off", False)])
def test_the_environment_decides_where_there_is_no_terminal(
    asked_for: str, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTNFLOW_PROGRESS", asked_for)
    assert progress.visible() is shown


def test_without_tqdm_there_is_a_plain_line(capsys: pytest.CaptureFixture[str]) -> None:
    screen = progress.Plain()
    screen.over = True
    screen.line("simulate step 3 of 9", 1 / 3, "0:02 passed, 0:04 left")
    screen.note("this flow is stiff")
    screen.line("simulate", None, "0:03 passed")
    screen.clear()
    first, _, rest = capsys.readouterr().err.partition("\r            ")
    assert first == "\rattnflow: simulate step 3 of 9:  33%, 0:02 passed, 0:04 left"
    assert "attnflow: this flow is stiff\n\rattnflow: simulate: 0:03 passed\r" in rest
    screen.over = False
    screen.line("simulate", 0.5, "0:03 passed")
    assert capsys.readouterr().err == "attnflow: simulate:  50%, 0:03 passed\n"


def test_the_switch_is_stronger_than_all_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNFLOW_PROGRESS", "on")
    assert progress.visible()
    try:
        progress.show(False)
        assert not progress.visible()
        progress.show(True)
        monkeypatch.setenv("ATTNFLOW_PROGRESS", "off")
        assert progress.visible()
    finally:
        progress.show(None)


class Lost:
    """A standard error that fails from some call on, as a terminal does that is closed."""

    def __init__(self, error: Exception, after: int, terminal: bool) -> None:
        self.error, self.after, self.terminal = error, after, terminal
        self.calls = 0

    def write(self, text: str) -> int:
        """Fail, or forget the text."""
        self.calls += 1
        if self.calls > self.after:
            raise self.error
        return len(text)

    def flush(self) -> None:
        """Do nothing."""

    def isatty(self) -> bool:
        """Say whether it claims to be a terminal."""
        return self.terminal


def closed_file(folder: Path) -> Any:
    file = (folder / "closed").open("w")
    file.close()
    return file


def free(locks: list[Any]) -> bool:
    """Say whether all these locks can be had at once."""
    held = [lock for lock in locks if lock.acquire(False)]
    for lock in held:
        lock.release()
    return len(held) == len(locks)


@pytest.mark.parametrize("tqdm", [True, False])
@pytest.mark.parametrize("after", [0, 3])
@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), BrokenPipeError(32, "Broken pipe"), ValueError()])
def test_no_result_depends_on_a_screen_that_is_lost(
    error: Exception, after: int, tqdm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "AGAIN", 0.0)
    monkeypatch.setattr(progress.Bar, "again", 0.0)
    lost = Lost(error, after, terminal=True)
    if not tqdm:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with monkeypatch.context() as here:
        here.setattr("sys.stderr", lost)
        with progress.shown(progress._screen(), Ticking(), after=0.0) as reporter, progress.task("work", 9) as work:
            for k in range(9):
                work.reach(k, notes=partial("sentence {}".format, k))
                progress.note("said by hand")
            assert reporter.lost
            calls = lost.calls
            work.reach(9, notes=lambda: "one more")
            assert lost.calls == calls  # it is not tried again
    assert lost.calls > after
    if tqdm:
        # The lock of all bars is free: threads that show bars of their own, or that take old ones away, would wait.
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(free, auto.get_lock().locks).result()


@pytest.mark.parametrize("terminal", [True, False])
def test_a_run_ends_well_where_standard_error_is_closed(
    terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = LONG["simulate: layers"](tmp_path)
    progress.show(True)
    try:
        for lost in (closed_file(tmp_path), Lost(BrokenPipeError(32, "Broken pipe"), 1, terminal), None):
            with monkeypatch.context() as here:
                here.setattr("sys.stderr", lost)
                progress.note("a sentence")
                moving = af.Layers(gamma=0.1)
                found = af.simulate(CIRCLE, SOFT, moving, until=30_000, record=[30_000], watch=[af.watch.Progress()])
            assert np.array_equal(found.tokens, expected)
    finally:
        progress.show(None)


def test_a_task_that_does_not_know_how_far_it_is_adds_nothing_to_the_part_of_all() -> None:
    class Quiet:
        def line(self, *given: Any) -> None:
            pass

    reporter = progress.Reporter(Quiet())  # type: ignore[arg-type]
    outer, inner = (progress.Task(name, total, reporter) for name, total in (("outer", 4.0), ("inner", 2.0)))
    reporter.tasks = [outer, inner]
    outer.done, outer.part, inner.done, inner.part = 0.5, 0.25, None, 0.5
    assert reporter._fraction() == 0.5
    inner.done = 0.5
    assert reporter._fraction() == 0.625
    outer.done = None
    assert reporter._fraction() is None
