"""Many pages and few processes: turns in a circle, memory that is counted, nobody who waits for another page."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import swift_worker
from larger import larger
from served import CLOUD, LONG, PATIENCE, SOFT, Line, Served, serving, until, workers
from websockets.exceptions import ConnectionClosed

from attnflow.explorer import pool, server, supervisor, timed_http
from attnflow.explorer.protocol import COUNTED, FrameMemory, RunFrames, Session
from attnflow.explorer.run_stream import FULL, run, simulate_into
from attnflow.explorer.state import read
from attnflow.explorer.turns import Task, Turns
from attnflow.explorer.worker import WINDOW, work

ONE_OF_EACH = {"runs": 1, "claims": 1, "exports": 1}


# Turns


def computing(turns: Turns, page: int, step: Callable[[], bool]) -> threading.Thread:
    """Compute for a page in a thread: steps until one says that it was the last."""

    def compute() -> None:
        task = Task(turns, page, lambda: False)
        with task.taking():
            while not step():
                task()

    thread = threading.Thread(target=compute, daemon=True)
    thread.start()
    return thread


def noted(log: list[int], page: int, steps: int = 1) -> bool:
    """Note a step of a page, and say whether it is the last."""
    log.append(page)
    return log.count(page) == steps


def test_pages_take_turns_in_a_circle() -> None:
    turns, log = Turns(overstay=np.inf, slice=0.0), list[int]()
    holder = Task(turns, 0, lambda: False)

    with holder.taking():
        threads = [computing(turns, page, lambda page=page: noted(log, page, 20)) for page in (1, 2, 3, 4)]  # type: ignore[misc]
        until(lambda: len(turns.waiting) == 4)
        order = list(turns.waiting)
    for thread in threads:
        thread.join(PATIENCE)
    assert log == order * 20


def test_what_is_left_of_a_turn_is_for_the_same_page() -> None:
    turns, log = Turns(overstay=np.inf, slice=np.inf), list[int]()
    holder = Task(turns, 1, lambda: False)
    with holder.taking():
        threads = [computing(turns, 2, lambda: noted(log, 2))]
        until(lambda: len(turns.waiting) == 1)
        threads.append(computing(turns, 1, lambda: noted(log, 1)))
        until(lambda: len(turns.waiting) == 2)
    for thread in threads:
        thread.join(PATIENCE)
    assert log == [1, 2]


def test_a_step_that_hangs_keeps_nobody_waiting() -> None:
    turns, goes_on = Turns(overstay=0.01), threading.Event()
    hanging = computing(turns, 1, lambda: goes_on.wait(PATIENCE))
    until(lambda: turns.holding)
    log = list[int]()

    threads = [computing(turns, page, lambda page=page: noted(log, page, 5)) for page in (2, 3)]  # type: ignore[misc]
    for thread in threads:
        thread.join(PATIENCE)
    assert Counter(log) == {2: 5, 3: 5}
    assert hanging.is_alive()
    goes_on.set()
    hanging.join(PATIENCE)
    assert not turns.holding
    assert not turns.waiting


def test_a_task_that_nobody_wants_waits_no_longer() -> None:
    turns, unwanted, waited = Turns(overstay=np.inf), threading.Event(), list[float]()
    with Task(turns, 1, lambda: False).taking():
        task = Task(turns, 2, unwanted.is_set, waited.append)
        ended = threading.Thread(target=lambda: task.taking().__enter__(), daemon=True)
        ended.start()
        # It says that it waits, so that nobody takes it for one that hangs.
        until(lambda: waited)
        assert ended.is_alive()
        unwanted.set()
        ended.join(PATIENCE)
        assert not ended.is_alive()
    assert task.waited == sum(waited)


# Memory


def frames(run: int, count: int, n: int = 1000) -> RunFrames:
    kept = RunFrames(run, None)  # type: ignore[arg-type]
    kept.append(np.arange(count), np.zeros((count, n, 2)))
    return kept


def test_frames_of_all_pages_together_are_bounded_and_the_oldest_are_dropped() -> None:
    memory = FrameMemory(most=5_000_000)
    sessions = [Session(memory=memory) for _ in range(40)]
    for k, session in enumerate(sessions):
        session.begin(frames(k, 100))
        assert session.bytes == 1_600_000
        assert not session.full()
        assert session.last is not None
        session.last.close()
        assert memory.bytes <= memory.most
    kept = [k for k, session in enumerate(sessions) if session.last]
    assert kept == [37, 38, 39]
    # One that is looked at stays longer than one that is not.
    sessions[37].of(37)
    sessions[0].begin(frames(0, 100))
    assert not sessions[0].full()
    assert [k for k, session in enumerate(sessions) if session.last] == [0, 37, 39]
    with pytest.raises(Exception, match="run 38 was asked for, but no run is here: start it again"):
        sessions[38].of(38)
    memory.forget(sessions[0])
    assert memory.bytes == 3_200_000


def test_only_a_run_with_more_than_its_share_is_ended() -> None:
    memory = FrameMemory(most=5_000_000)
    small, large = Session(memory=memory), Session(memory=memory)
    small.begin(frames(1, 100))
    large.begin(frames(2, 300))
    assert not small.full()
    assert large.full()


def test_a_run_that_fills_the_memory_ends_with_what_it_has() -> None:
    session = Session(memory=FrameMemory(most=3 * COUNTED))
    many = {**SOFT, "tokens": {**CLOUD, "n": 1000}, "until": 300}
    told = list(run({"id": 1, "state": many}, session, lambda: False))
    end = next(answer for answer in told if isinstance(answer, dict) and answer["kind"] == "end")
    assert end["stopped"] == FULL
    assert 2 <= end["frames"] < 301
    assert session.bytes < 5 * COUNTED
    assert session.last is not None
    assert session.last.whole
    whole = RunFrames(1, read(SOFT))
    assert simulate_into(whole, lambda: False).stopped == "reached step 50, as asked"


# Pages that share a process


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """One process for the runs of all pages, however many cores there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "sizes", lambda: ONE_OF_EACH)
        patch.setattr(supervisor, "work", swift_worker.work)
        with serving() as one:
            yield one


def state(until: int) -> dict[str, Any]:
    return {**SOFT, "until": until}


class Class:
    """Pages that drag all at once: each asks for its next run when the one before is answered."""

    def __init__(self, lines: list[Line], state: dict[str, Any]) -> None:
        self.lines, self.state = lines, state
        self.asked = Counter[int]()

    def until_all_have(self, count: int) -> None:
        """Drag until every page has so many answers."""
        with ThreadPoolExecutor(len(self.lines)) as threads:
            for one in [threads.submit(self._drag, page, count) for page in range(len(self.lines))]:
                one.result(PATIENCE)

    def _drag(self, page: int, count: int) -> None:
        while min(self.asked[k] for k in range(len(self.lines))) <= count:
            self.asked[page] += 1
            tokens = np.random.default_rng([page, self.asked[page]]).normal(size=(24, 2)).tolist()
            self.lines[page].say(self.asked[page], "run", state={**self.state, "tokens": tokens}, want=["hull"])
            self.lines[page].until("overlays", id=self.asked[page])


def drag_beside_a_long_run(served: Served, pages: int, long_one: dict[str, Any], short: dict[str, Any]) -> None:
    """Let pages drag while another has a long run, which keeps nobody waiting; nobody gets much more than others."""
    with ExitStack() as lines:
        long, *others = (Line(lines.enter_context(served.connect())) for _ in range(pages + 1))
        long.say(1, "run", state=long_one)
        long.until("start")
        dragging = Class(others, short)
        dragging.until_all_have(6)
        assert len(workers()) == 1
        counts = dragging.asked.values()
        assert len(counts) == pages
        assert max(counts) <= 3 * min(counts)
        # The long run still goes on.
        long.say(2, "overlays", run=1, frame=0, want=[])
        told = [about for about, _ in long.until("overlays", id=2)]
        assert not [about for about in told if about["kind"] in ("end", "refused") and about["id"] == 1]


def test_a_long_run_keeps_no_page_waiting_and_no_page_gets_more_than_others(served: Served) -> None:
    drag_beside_a_long_run(served, 20, state(swift_worker.ENDLESS), SOFT)


@larger
def test_forty_pages_drag_tokens_beside_a_run_of_many() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "sizes", lambda: ONE_OF_EACH)
        # Other tests of this file have put another one in its place.
        patch.setattr(supervisor, "work", work)
        with serving() as real:
            drag_beside_a_long_run(real, 40, LONG, SOFT)


def test_a_page_whose_run_hangs_is_ended_and_the_others_are_served_again(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    until(lambda: not workers())
    monkeypatch.setenv("REACHED", str(tmp_path / "reached"))
    with ExitStack() as lines:
        hanging, going = (Line(lines.enter_context(served.connect())) for _ in range(2))
        going.say(1, "run", state=state(swift_worker.ENDLESS))
        going.until("start")
        (process,) = workers()
        with monkeypatch.context() as patch:
            patch.setattr(supervisor, "LIMITS", {**supervisor.LIMITS, "run": 0.5})
            hanging.say(2, "run", state=state(swift_worker.HANGS))
            until((tmp_path / "reached").exists)
            answer = hanging.until("refused")[-1][0]
        assert answer["sentence"] == "this took longer than 0.5 s and was ended: take fewer tokens, or a shorter run"
        told = [about for about, _ in going.until("start")]
        assert [about["kind"] for about in told] == ["start"]
        assert process not in workers()
        hanging.say(3, "run", state=SOFT)
        assert hanging.until("end", "refused")[-1][0]["kind"] == "end"


def test_a_movie_whose_process_is_ended_for_another_page_is_not_begun_again(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The page has sent its first frames to the process that is no more."""
    monkeypatch.setenv("REACHED", str(tmp_path / "reached"))
    monkeypatch.setattr(supervisor, "GRACE", 0.2)
    with ExitStack() as lines:
        filming, cancelling = (Line(lines.enter_context(served.connect())) for _ in range(2))
        filming.say(1, "movie")
        filming.until("start")
        cancelling.say(2, "data", state=state(swift_worker.HANGS))
        until((tmp_path / "reached").exists)
        cancelling.say(3, "cancel")
        told = filming.hear()[0]
        assert (told["kind"], told["id"]) == ("refused", 1)
        assert told["sentence"] == "the process that computed this ended unexpectedly: make the movie again"
        filming.say(4, "movie")
        assert filming.until("start")[-1][0]["id"] == 4


def test_a_process_that_ends_twice_under_the_same_runs_is_not_started_a_third_time(served: Served) -> None:
    with ExitStack() as lines:
        both = [Line(lines.enter_context(served.connect())) for _ in range(2)]
        for line in both:
            line.say(1, "run", state=state(swift_worker.ENDLESS))
        for _ in range(2):
            for line in both:
                line.until("start")
            for process in workers():
                os.kill(process, signal.SIGKILL)
        for line in both:
            assert "ended unexpectedly" in line.until("refused")[-1][0]["sentence"]


def test_a_browser_that_does_not_read_keeps_only_its_own_page_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, told = list[int](), {name: list[str]() for name in ("deaf", "other")}

    async def scene() -> None:
        hears = asyncio.Event()

        async def deaf(body: str | bytes) -> None:
            await hears.wait()
            waiting.append(sum(len(one[1]) for one in first.outbox))
            told["deaf"].append(kind(body))

        async def other(body: str | bytes) -> None:
            told["other"].append(kind(body))

        async def ended(name: str) -> None:
            async with asyncio.timeout(PATIENCE):
                while "end" not in told[name]:
                    await asyncio.sleep(0.01)

        both = supervisor.Supervisor("runs")
        first, second = both.attach(deaf), both.attach(other)
        try:
            for page, steps in ((first, swift_worker.MANY_BYTES), (second, 9)):
                both.submit(page, 1, "run", json.dumps({"id": 1, "do": "run", "state": state(steps)}).encode())
            await ended("other")
            assert not told["deaf"]
            hears.set()
            await ended("deaf")
        finally:
            await both.detach(first)
            await both.detach(second)

    monkeypatch.setattr(supervisor, "LIMITS", dict.fromkeys(supervisor.LIMITS, PATIENCE))
    monkeypatch.setattr(supervisor, "work", swift_worker.work)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(scene())).result()
    assert told["deaf"].count("frames") == swift_worker.MEGABYTES
    assert max(waiting) <= WINDOW + 2 * swift_worker.MEGABYTE


def kind(body: str | bytes) -> str:
    text = body if isinstance(body, str) else body[4 : 4 + int.from_bytes(body[:4], "little")]
    return str(json.loads(text)["kind"])


# Pages that rest


def test_a_silent_page_gives_its_place_back(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE", 0.5)
    with served.connect() as silent:
        Line(silent).say(1, "run", state=SOFT)
        Line(silent).until("end")
        with pytest.raises(ConnectionClosed) as closed:
            silent.recv(timeout=PATIENCE)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == server.RESTED
    until(lambda: not workers())


def test_when_all_places_are_taken_the_page_that_was_silent_longest_gives_its_own(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 2)
    with ExitStack() as lines:
        first, second = (Line(lines.enter_context(served.connect())) for _ in range(2))
        for line in (first, second):
            line.say(1, "walk")
            line.refused()
        third = Line(lines.enter_context(served.connect()))
        assert "serves 2 pages at once" in third.refused()["sentence"]
        monkeypatch.setattr(server, "IDLE_WHEN_FULL", 0.0)
        fourth = Line(lines.enter_context(served.connect()))
        fourth.say(1, "walk")
        assert fourth.refused()["id"] == 1
        with pytest.raises(ConnectionClosed) as closed:
            first.hear()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == server.RESTED
        second.say(2, "walk")
        assert second.refused()["id"] == 2


@pytest.mark.parametrize("half", [b"", b"GET / HTTP/1.1\r\nHost: "])
def test_half_a_request_does_not_keep_its_connection(
    served: Served, monkeypatch: pytest.MonkeyPatch, half: bytes
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(timed_http, "WHOLE_REQUEST", 0.2)
        with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE) as slow, suppress(ConnectionError):
            slow.sendall(half)
            assert slow.recv(1) == b""
    assert served.get("/")[0] == 200
