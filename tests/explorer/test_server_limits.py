"""What takes too long, does not listen or ends unexpectedly: workers are ended and replaced."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from served import CLOUD, LONG, PATIENCE, SOFT, Line, Served, serving, until, workers

from attnflow.explorer import supervisor


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving() as server:
        yield server


@pytest.fixture
def line(served: Served) -> Iterator[Line]:
    """A connection, with workers of its own."""
    with served.connect() as socket:
        yield Line(socket)


@contextmanager
def limits(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(supervisor, "LIMITS", {**supervisor.LIMITS, **seconds})
        yield


def test_a_run_that_does_not_end_is_ended(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    with limits(monkeypatch, run=0.5):
        line.say(1, "run", state=LONG)
        answer, _ = line.until("refused")[-1]
        assert answer == {
            "kind": "refused",
            "id": 1,
            "sentence": "this took longer than 0.5 s and was ended: take fewer tokens, or a shorter run",
        }
    line.say(2, "run", state=SOFT)
    assert line.until("end", "refused")[-1][0]["kind"] == "end"


def test_a_worker_that_is_killed_is_replaced(line: Line) -> None:
    line.say(1, "run", state=LONG)
    line.until("frames")
    (process,) = workers()
    os.kill(process, signal.SIGKILL)
    assert "ended unexpectedly" in line.until("refused")[-1][0]["sentence"]
    line.say(2, "run", state=SOFT)
    assert line.until("end", "refused")[-1][0]["id"] == 2


SLOW_CLAIM = "fw/voronoi"


def dawdle(channel: socket.socket, role: str, folder: str, modules: list[str]) -> None:
    """Work, except that one claim is never decided, and runs never take a step."""
    from attnflow.explorer import applicable_claims, run_stream
    from attnflow.explorer.worker import work

    swift = applicable_claims._verdict

    def slow(claim: Any, *rest: Any) -> Any:
        if claim.id == SLOW_CLAIM:
            Path(os.environ["REACHED"]).touch()
            time.sleep(3600)
        return swift(claim, *rest)

    vars(applicable_claims)["_verdict"] = slow
    vars(run_stream)["simulate"] = lambda *_, **__: time.sleep(3600)
    work(channel, role, folder, modules)


def test_a_claim_that_takes_too_long_is_undecided_and_the_next_is_checked(
    line: Line, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hard = {**SOFT, "law": {"name": "softmax", "beta": "inf"}, "tokens": {**CLOUD, "n": 4}, "until": 5}
    reached, limit = tmp_path / "reached", supervisor.Supervisor._limit
    timed: list[tuple[supervisor.Supervisor, supervisor.Job, asyncio.AbstractEventLoop]] = []

    def watched(self: supervisor.Supervisor, job: supervisor.Job, seconds: float) -> None:
        timed.append((self, job, asyncio.get_running_loop()))
        limit(self, job, seconds)

    monkeypatch.setenv("REACHED", str(reached))
    monkeypatch.setattr(supervisor, "work", dawdle)
    monkeypatch.setattr(supervisor.Supervisor, "_limit", watched)
    with limits(monkeypatch, claims=PATIENCE):
        line.say(2, "claims", state=hard)
        # The time is up for this claim and no other, however busy the machine is.
        until(reached.exists)
        patient, job, loop = timed[-1]
        loop.call_soon_threadsafe(patient._late, job)
        told = [about for about, _ in line.until("done", "refused")]
    listed = [claim["claim"] for claim in told[0]["claims"]]
    assert [about["kind"] for about in told] == ["claims", *["verdict"] * len(listed), "done"]
    assert sorted(about["claim"] for about in told[1:-1]) == sorted(listed)
    late = {about["claim"]: about["outcome"] for about in told[1:-1] if "too long" in about["because"]}
    assert late == {SLOW_CLAIM: "undecided"}


def test_a_run_that_does_not_listen_makes_way_for_a_newer_one(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(supervisor, "work", dawdle)
        patch.setattr(supervisor, "GRACE", 0.2)
        line.say(1, "run", state=SOFT)
        line.until("overlays")
    monkeypatch.setattr(supervisor, "GRACE", 0.2)
    line.say(2, "run", state=SOFT)
    told = line.until("end", "refused")
    assert (told[-1][0]["kind"], told[-1][0]["id"]) == ("end", 2)
    assert {about["id"] for about, _ in told} == {2}


def played(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Let a scene run in a thread: in this one a loop may be running already, that of Chromium."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(scene())).result()


def test_a_run_that_was_replaced_as_it_began_makes_way_too(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str | bytes] = []

    async def deliver(body: str | bytes) -> None:
        told.append(body)

    async def scene() -> None:
        one = supervisor.Supervisor("runs")
        page = one.attach(deliver)
        orders = [json.dumps({"id": id, "do": "run", "state": SOFT}).encode() for id in (1, 2)]
        with monkeypatch.context() as patch:
            patch.setattr(supervisor, "work", dawdle)
            patch.setattr(
                supervisor.Supervisor,
                "_began",
                lambda self, *began: (self.submit(page, 2, "run", orders[1]), old(self, *began)),
            )
            one.submit(page, 1, "run", orders[0])
            async with asyncio.timeout(PATIENCE):
                while not one.active:
                    await asyncio.sleep(0.01)
        try:
            async with asyncio.timeout(PATIENCE):
                while not any(isinstance(body, str) and '"end"' in body for body in told):
                    await asyncio.sleep(0.01)
        finally:
            await one.detach(page)

    old = supervisor.Supervisor._began
    monkeypatch.setattr(supervisor, "GRACE", 0.2)
    played(scene)
    assert not any('"id":1' in body for body in told if isinstance(body, str))


def refuse_to_start(channel: socket.socket, role: str, folder: str, modules: list[str]) -> None:
    """End as a worker would that lacks memory."""
    os._exit(1)


def test_a_worker_that_cannot_start_is_not_started_over_and_over(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(supervisor, "work", refuse_to_start)
        line.say(1, "run", state=SOFT)
        assert "ended unexpectedly" in line.refused()["sentence"]
    line.say(2, "run", state=SOFT)
    assert line.until("end", "refused")[-1][0]["id"] == 2


def test_a_slow_browser_is_waited_for_and_spared_what_is_old() -> None:
    told: list[tuple[str, int]] = []

    async def scene() -> None:
        waits, goes_on = asyncio.Event(), asyncio.Event()

        async def deliver(body: str | bytes) -> None:
            waits.set()
            await goes_on.wait()
            about = json.loads(body if isinstance(body, str) else body[4 : 4 + int.from_bytes(body[:4], "little")])
            told.append((about["kind"], about["id"]))

        one = supervisor.Supervisor("runs")
        page = one.attach(deliver)
        try:
            one.submit(page, 1, "run", json.dumps({"id": 1, "do": "run", "state": LONG}).encode())
            await asyncio.wait_for(waits.wait(), PATIENCE)
            (job,) = one.active.values()
            one._late(job)
            assert not job.late
            one.submit(page, 2, "run", json.dumps({"id": 2, "do": "run", "state": SOFT}).encode())
            goes_on.set()
            async with asyncio.timeout(PATIENCE):
                while ("end", 2) not in told:
                    await asyncio.sleep(0.01)
        finally:
            await one.detach(page)

    played(scene)
    assert told[0] == ("start", 1)
    assert {id for _, id in told[1:]} == {2}
