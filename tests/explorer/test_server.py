"""What the server answers and serves, and to whom: a real one on a free port, with real workers."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from served import LONG, PATIENCE, SOFT, Line, Served, came_to_its_end, serving
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

import attnflow as af
from attnflow.explorer import supervisor
from attnflow.explorer.hosts import ours, same_site
from attnflow.explorer.server import Refusal, read_event, read_message


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving() as server:
        yield server


# No test gives a run this number.
LAST = 1_000_000


@pytest.fixture(scope="module")
def connection(served: Served) -> Iterator[Line]:
    with served.connect() as socket:
        yield Line(socket)


@pytest.fixture
def line(connection: Line) -> Iterator[Line]:
    """The same connection for all tests: after each, a short run takes the place of what still goes on."""
    yield connection
    connection.say(LAST, "run", state=SOFT)
    connection.until("series", id=LAST)


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
    assert not came_to_its_end([about for about, _ in told])
    line.say(3, "run", state=SOFT)
    told = line.until("end", id=3)
    started = next(k for k, (about, _) in enumerate(told) if about["id"] == 3)
    assert {about["id"] for about, _ in told[started:]} == {3}


def test_of_many_runs_the_newest_is_answered(line: Line) -> None:
    for id in range(1, 200):
        line.say(id, "run", state={**SOFT, "until": id})
    told = line.until("series", id=199)
    assert told[-2][0]["stopped"] == "reached step 199, as asked"


def test_claims_and_data_come_beside_a_run(line: Line) -> None:
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
    assert not came_to_its_end(of[1])
    assert not any(about["kind"] == "refused" for about in of[1])
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


def test_a_message_without_text_is_refused() -> None:
    with pytest.raises(Refusal, match="a binary message was given, expected JSON text such as"):
        read_message(None)


def test_binary_messages_are_pictures_of_a_movie() -> None:
    def message(header: bytes, image: bytes = b"picture") -> dict[str, bytes]:
        return {"bytes": len(header).to_bytes(4, "little") + header + image}

    id, do, order = read_event(message(b'{"id": 3, "do": "frame"}'))
    assert (id, do, json.loads(order)) == (3, "frame", {"id": 3, "do": "frame", "image": "cGljdHVyZQ=="})
    with pytest.raises(Refusal, match="a binary message asks for 'run', expected 'frame'") as told:
        read_event(message(b'{"id": 4, "do": "run"}'))
    assert told.value.id == 4
    with pytest.raises(Refusal, match="the header of a binary message is not UTF-8"):
        read_event(message(b"\xff\xfe"))
