"""The server: a real one on a free port, with real workers, treated well and badly."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
import uvicorn
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

import attnflow as af
from attnflow.app.cli import main
from attnflow.explorer import supervisor
from attnflow.explorer.scratch import PREFIX
from attnflow.explorer.server import MOST_BYTES, MOST_CONNECTIONS, configured, listening, ours, same_site

CLOUD = {"cloud": "gaussian", "n": 20, "d": 2, "seed": 3}
SOFT = {"tokens": CLOUD, "law": {"name": "softmax", "beta": 4}, "motion": {"name": "layers", "gamma": 0.2}, "until": 50}
LONG = {**SOFT, "tokens": {**CLOUD, "n": 5000}, "until": 20000}
# Only what hangs takes so long.
PATIENCE = 300.0


class Served:
    """A server in a thread."""

    def __init__(self) -> None:
        self.listener = listening("127.0.0.1", 0)
        self.port = self.listener.getsockname()[1]
        self.server = uvicorn.Server(configured("127.0.0.1", self.port))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listener]}, daemon=True)
        self.thread.start()
        until(lambda: self.server.started)

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join(PATIENCE)
        self.listener.close()
        assert not self.thread.is_alive()

    def connect(self, **options: Any) -> ClientConnection:
        return connect(f"ws://127.0.0.1:{self.port}/ws", compression=None, max_size=None, **options)

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        line = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        line.putrequest("GET", path, skip_host="Host" in headers)
        for name, value in headers.items():
            line.putheader(name, value)
        line.endheaders()
        answer = line.getresponse()
        body = answer.read()
        line.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.03)


def workers(parent: int | None = None) -> set[int]:
    """Return the processes that the workers of a server are."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            line, status = (path / "cmdline").read_bytes(), (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if b"spawn_main" in line and int(status[1]) == (parent or os.getpid()) and status[0] != "Z":
            found.add(int(path.name))
    return found


def alive(process: int) -> bool:
    """Say whether a process has not ended; one that nobody has buried yet has."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    # On a busy machine anything may take long: only tests of the limits set some.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor, "LIMITS", dict.fromkeys(supervisor.LIMITS, PATIENCE))
        server = Served()
        yield server
        server.close()
    assert not workers()


@pytest.fixture
def line(served: Served) -> Iterator[Line]:
    with served.connect() as socket:
        yield Line(socket)


class Line:
    """One connection, and what was said on it."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def say(self, id: Any = None, do: Any = None, **message: Any) -> None:
        self.socket.send(json.dumps({"id": id, "do": do, **message}))

    def hear(self) -> tuple[dict[str, Any], bytes]:
        told = self.socket.recv(timeout=PATIENCE)
        if isinstance(told, str):
            return json.loads(told), b""
        length = int.from_bytes(told[:4], "little")
        return json.loads(told[4 : 4 + length]), told[4 + length :]

    def until(self, *kinds: str, id: int | None = None) -> list[tuple[dict[str, Any], bytes]]:
        told = [self.hear()]
        while told[-1][0]["kind"] not in kinds or (id is not None and told[-1][0]["id"] != id):
            told.append(self.hear())
        return told

    def refused(self) -> dict[str, Any]:
        answer, _ = self.hear()
        assert answer["kind"] == "refused"
        assert "\n" not in answer["sentence"]
        return answer


# What it serves


def test_a_run_through_the_socket_is_the_run(line: Line) -> None:
    line.say(7, "run", state=SOFT, want=["hull"])
    told = line.until("series", "refused")
    order = [about["kind"] for about, _ in told]
    assert order[:2] == ["start", "overlays"]
    assert order[-2:] == ["end", "series"]
    assert {about["id"] for about, _ in told} == {7}
    frames = np.concatenate(
        [np.frombuffer(body, "<f8").reshape(a["count"], a["n"], a["d"]) for a, body in told if a["kind"] == "frames"]
    )
    run = af.simulate(af.tokens.gaussian(20, 2, seed=3), af.Softmax(beta=4), af.Layers(gamma=0.2), until=50)
    np.testing.assert_array_equal(frames, run.tokens)
    line.say(8, "overlays", run=7, frame=50, want=["hull"])
    answer, _ = line.hear()
    assert (answer["kind"], answer["id"], answer["run"], answer["frame"]) == ("overlays", 8, 7, 50)
    line.say(9, "overlays", run=3, frame=0, want=[])
    assert line.refused()["id"] == 9
    line.say(10, "text", state=SOFT)
    assert line.hear()[0]["command"].startswith("attnflow simulate ")


def test_looks_are_answered_while_a_run_goes_on_and_a_newer_run_takes_its_place(line: Line) -> None:
    line.say(1, "run", state=LONG)
    line.until("frames")
    line.say(2, "overlays", run=1, frame=0, want=[])
    told = line.until("overlays", id=2)
    assert not any(about["kind"] == "end" for about, _ in told)
    line.say(3, "run", state=SOFT)
    told = line.until("end")
    assert told[-1][0]["id"] == 3
    started = next(k for k, (about, _) in enumerate(told) if about["id"] == 3)
    assert {about["id"] for about, _ in told[started:]} == {3}


def test_of_many_runs_the_newest_is_answered(line: Line) -> None:
    for id in range(1, 200):
        line.say(id, "run", state={**SOFT, "until": id})
    told = line.until("series", id=199)
    assert told[-2][0]["stopped"] == "reached step 199, as asked"


def test_claims_and_data_come_beside_a_run(line: Line) -> None:
    # Workers that have answered once are quick: the run would end by itself after SECONDS of run_stream.
    line.say(5, "claims", state=SOFT)
    line.until("done")
    line.say(6, "data", state=SOFT)
    line.until("file")
    line.say(1, "run", state=LONG)
    line.until("frames")
    line.say(2, "claims", state=SOFT)
    line.say(3, "data", state=SOFT)
    line.say(4, "data", state=SOFT)
    told, open_ = [], {2, 3, 4}
    while open_:
        about, body = line.hear()
        told.append((about, body))
        if about["kind"] in ("done", "file", "refused"):
            open_.discard(about["id"])
    of = {id: [about for about, _ in told if about["id"] == id] for id in (1, 2, 3, 4)}
    assert not any(about["kind"] in ("end", "refused") for about in of[1])
    listed = [claim["claim"] for claim in of[2][0]["claims"]]
    assert sorted(about["claim"] for about in of[2][1:-1]) == sorted(listed)
    assert [about["kind"] for about in of[3]] == ["file"]
    assert of[4][0]["sentence"].endswith("wait for it")


def test_the_page_and_its_files(served: Served) -> None:
    status, headers, body = served.get("/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"<canvas" in body
    assert headers["cache-control"] == "no-cache"
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    status, headers, body = served.get("/page/main.js")
    assert (status, headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert body == (Path(supervisor.__file__).parent / "page" / "main.js").read_bytes()
    status, headers, body = served.get("/presets.json")
    assert (status, headers["content-type"]) == (200, "application/json")
    presets = {preset["name"]: preset for preset in json.loads(body)}
    assert {"title", "paper", "note", "state", "view"} < set(presets["fw/run"])


@pytest.mark.parametrize(
    "path",
    ["/page/", "/page/../state.py", "/page/..%2fstate.py", "/page/%2e%2e/state.py", "/state.py", "/page//etc/passwd",
     "/page/%00", "/page/..\\state.py", "/page/%2fetc%2fpasswd", "/page/nothing.js"],
)  # fmt: skip
def test_nothing_else_is_served(served: Served, path: str) -> None:
    status, _, body = served.get(path)
    assert status == 404
    assert b"import" not in body


# Who may use it


def test_foreign_hosts_are_refused(served: Served) -> None:
    port = served.port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"):
        assert served.get("/", Host=host)[0] == 200
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1:{port + 1}", "127.0.0.1", "", f"10.0.0.1:{port}",
                 f"localhost.evil.example:{port}", f"evil.example#localhost:{port}"):  # fmt: skip
        assert served.get("/", Host=host)[0] in (400, 421), host


def test_sockets_of_foreign_pages_are_refused(served: Served) -> None:
    here = f"http://127.0.0.1:{served.port}"
    with served.connect(origin=here) as socket:
        socket.ping()
    for origin in ("http://evil.example", "null", f"http://localhost:{served.port}", f"{here}.evil.example", "file://",
                   f"http://127.0.0.1:{served.port + 1}", "http://[", f"ftp://127.0.0.1:{served.port}"):  # fmt: skip
        with pytest.raises(InvalidStatus) as refusal, served.connect(origin=origin):
            pass
        assert refusal.value.response.status_code == 403, origin


def test_sockets_that_name_another_host_are_refused(served: Served) -> None:
    rebound = socket.create_connection(("127.0.0.1", served.port))
    with pytest.raises(InvalidStatus), connect(f"ws://evil.example:{served.port}/ws", sock=rebound):
        pass
    rebound.close()


def test_a_server_for_everybody_takes_addresses_but_no_names() -> None:
    assert ours("192.168.1.7:80", "0.0.0.0", 80)
    assert ours("192.168.1.7", "0.0.0.0", 80)
    assert ours("[fe80::1]:9", "::", 9)
    assert not ours("evil.example:9", "0.0.0.0", 9)
    assert not ours("[::1%x; y]:9", "0.0.0.0", 9)
    assert not ours("192.168.1.7:9", "127.0.0.1", 9)
    assert ours("lab.example:9", "lab.example", 9)
    assert same_site(None, "localhost:9")


@contextmanager
def admitted(served: Served) -> Iterator[Line]:
    """Connect; the pages of before may have closed only just now, and the server must notice first."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with served.connect() as socket:
            line = Line(socket)
            with suppress(ConnectionClosed):
                line.say(1, "walk")
                # It refuses this message, with its number, or the whole page, with none.
                if line.hear()[0]["id"] == 1:
                    yield line
                    return
    raise AssertionError("waited in vain")


def test_only_so_many_pages(served: Served) -> None:
    with ExitStack() as lines:
        for _ in range(MOST_CONNECTIONS):
            lines.enter_context(admitted(served))
        one_more = lines.enter_context(served.connect())
        answer = json.loads(one_more.recv(timeout=PATIENCE))
        assert (answer["kind"], answer["id"]) == ("refused", None)
        with pytest.raises(ConnectionClosed):
            one_more.recv(timeout=PATIENCE)
    with admitted(served):
        pass


# What it survives


def test_messages_that_are_none_are_refused(line: Line) -> None:
    for text in ("", "{", "3", "null", "[]", '"run"', "[" * 100_000, '{"id":1,"do":"run","state":' + '{"a":' * 50_000,
                 '{"id": 1, "do": "text", "state": {"until": NaN}}', "9" * 5000, "\x00"):  # fmt: skip
        line.socket.send(text)
        assert line.refused()["id"] is None
    line.socket.send(b"\x00\x01")
    assert line.refused()["id"] is None
    numbers: list[Any] = [None, "1", 1.5, True, -1, 2**60, [], {}]
    for id in numbers:
        line.say(id, "run", state=SOFT)
        assert line.refused()["id"] is None
    wishes: list[Any] = [None, "", "walk", 3, [], {}, "__class__"]
    for do in wishes:
        line.say(5, do)
        assert line.refused()["id"] == 5
    states: list[Any] = [None, 3, [], {}, {**SOFT, "tokens": "/etc/passwd"}, {**SOFT, "x": 1}, {**SOFT, "until": 1e300}]
    for state in states:
        line.say(6, "run", state=state)
        assert line.refused()["id"] == 6
    line.say(6, "run", state=SOFT)
    assert line.until("end")[-1][0]["id"] == 6


def test_messages_that_are_too_large_close_the_socket(served: Served) -> None:
    with served.connect() as socket:
        socket.send(" " * (MOST_BYTES + 1))
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=PATIENCE)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009
    with served.connect() as socket:
        Line(socket).say(1, "run", state={**SOFT, "tokens": [[0.123456789012345, 1.5]] * 5001, "until": 2})
        assert "5000" in Line(socket).refused()["sentence"]


def test_a_flood_is_survived(line: Line) -> None:
    for id in range(3000):
        line.say(id, ("overlays", "text", "walk", "claims")[id % 4], run=1, frame=id, state=SOFT)
        if id % 4 == 2:
            assert line.until("refused", id=id)
    line.say(5000, "text", state=SOFT)
    line.until("text", id=5000)


def test_a_closed_tab_leaves_no_computation(served: Served) -> None:
    until(lambda: not workers())
    with served.connect() as socket:
        Line(socket).say(1, "run", state=LONG)
        Line(socket).say(2, "claims", state=SOFT)
        Line(socket).until("frames")
        until(lambda: len(workers()) == 2)
        # Not even a goodbye.
        socket.socket.shutdown(2)
        until(lambda: not workers())
    for _ in range(20):
        with served.connect() as quick:
            Line(quick).say(1, "run", state=LONG)
    until(lambda: not workers())


def test_a_movie_that_nobody_waits_for_leaves_no_file(served: Served) -> None:
    def files(pattern: str) -> list[Path]:
        return list(Path(tempfile.gettempdir()).glob(f"{PREFIX}{os.getpid()}-{pattern}"))

    with served.connect() as socket:
        Line(socket).say(1, "movie", state=SOFT, format="gif", dark=False)
        until(lambda: files("*/*"))
    until(lambda: not workers())
    until(lambda: not files("*"))


# What takes too long


@contextmanager
def limits(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(supervisor, "LIMITS", {**supervisor.LIMITS, **seconds})
        yield


def test_a_run_that_does_not_end_is_ended(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    with limits(monkeypatch, run=1.5):
        line.say(1, "run", state=LONG)
        answer, _ = line.until("refused")[-1]
        assert answer == {
            "kind": "refused",
            "id": 1,
            "sentence": "this took longer than 1.5 s and was ended: take fewer tokens, or a shorter run",
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


def dawdle(channel: socket.socket, role: str, folder: str) -> None:
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
    work(channel, role, folder)


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


def test_a_run_that_was_replaced_as_it_began_makes_way_too(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str | bytes] = []

    async def deliver(body: str | bytes) -> None:
        told.append(body)

    async def scene() -> None:
        one = supervisor.Supervisor("runs", deliver)
        orders = [json.dumps({"id": id, "do": "run", "state": SOFT}).encode() for id in (1, 2)]
        with monkeypatch.context() as patch:
            patch.setattr(supervisor, "work", dawdle)
            patch.setattr(
                supervisor.Supervisor,
                "_began",
                lambda self, *began: (self.submit(2, "run", orders[1]), old(self, *began)),
            )
            one.submit(1, "run", orders[0])
            async with asyncio.timeout(PATIENCE):
                while not one.active:
                    await asyncio.sleep(0.01)
        try:
            async with asyncio.timeout(PATIENCE):
                while not any(isinstance(body, str) and '"end"' in body for body in told):
                    await asyncio.sleep(0.01)
        finally:
            await one.close()

    old = supervisor.Supervisor._began
    monkeypatch.setattr(supervisor, "GRACE", 0.2)
    asyncio.run(scene())
    assert not any('"id":1' in body for body in told if isinstance(body, str))


def refuse_to_start(channel: socket.socket, role: str, folder: str) -> None:
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

        one = supervisor.Supervisor("runs", deliver)
        try:
            one.submit(1, "run", json.dumps({"id": 1, "do": "run", "state": LONG}).encode())
            await asyncio.wait_for(waits.wait(), PATIENCE)
            (job,) = one.active.values()
            one._late(job)
            assert not job.late
            one.submit(2, "run", json.dumps({"id": 2, "do": "run", "state": SOFT}).encode())
            goes_on.set()
            async with asyncio.timeout(PATIENCE):
                while ("end", 2) not in told:
                    await asyncio.sleep(0.01)
        finally:
            await one.close()

    asyncio.run(scene())
    assert told[0] == ("start", 1)
    assert {id for _, id in told[1:]} == {2}


# The command


@contextmanager
def explore(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "attnflow", "explore", "--no-browser", "--port", "0", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_the_command_serves_until_it_is_ended_and_leaves_nothing_behind(how: signal.Signals, early: bool) -> None:
    with explore() as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[4]
        assert address.startswith("http://127.0.0.1:")
        with connect(f"ws{address[4:]}ws", compression=None, max_size=None) as socket:
            Line(socket).say(1, "run", state=LONG)
            Line(socket).say(2, "movie", state=SOFT, format="gif", dark=False)
            if not early:
                Line(socket).until("frames")
                until(lambda: left_by(process.pid))
            until(lambda: len(workers(process.pid)) == 2)
            mine = workers(process.pid)
            if how == signal.SIGINT:
                os.killpg(process.pid, how)  # as a terminal does
            else:
                process.kill()
            _, errors = process.communicate(timeout=PATIENCE)
    assert errors == ""
    assert process.returncode == (0 if how == signal.SIGINT else -how)
    # Workers notice by themselves that the server was killed, and remove their folders before they end.
    until(lambda: not any(alive(pid) for pid in mine))
    assert not left_by(process.pid)


def left_by(server: int) -> list[Path]:
    """Return the folders with temporary files of the workers of a server."""
    return list(Path(tempfile.gettempdir()).glob(f"{PREFIX}{server}-*"))


def test_listening_to_everybody_is_said() -> None:
    with explore("--host", "0.0.0.0") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        assert lines[1].startswith("Anybody who can reach this machine can use it")
        # Once it serves it also hears signals, even where those who started it ignore them.
        with urlopen(lines[0].split()[4]) as page:
            assert page.status == 200
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=PATIENCE)


def test_a_port_in_use_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with listening("127.0.0.1", 0) as taken:
        assert taken.proto == socket.IPPROTO_TCP  # or else small messages wait for one another
        port = taken.getsockname()[1]
        assert main(["explore", "--no-browser", "--port", str(port)]) == 2
    expected = f"attnflow: port {port} is in use: give another one, or --port 0 for any that is free\n"
    assert capsys.readouterr().err == expected
    refused = [("--port", "70000"), ("--port", "-1")]
    refused += [("--host", name) for name in ("no.such.host.invalid", "é..", "", "0")]
    for arguments in refused:
        assert main(["explore", "--no-browser", *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_missing_library_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["explore", "--no-browser"]) == 2
    assert capsys.readouterr().err.endswith("pip install 'attnflow[web]'\n")


def test_every_text_that_is_asked_for_is_answered(line: Line) -> None:
    for id in range(100, 110):
        line.say(id, "text", state=SOFT)
    answered: dict[int, str] = {}
    while len(answered) < 10:
        answer = json.loads(line.socket.recv(timeout=PATIENCE))
        assert answer["id"] not in answered
        answered[answer["id"]] = answer["kind"]
    assert answered[109] == "text"
    assert set(answered.values()) <= {"text", "refused"}
