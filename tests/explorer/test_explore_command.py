"""The command that serves the page: it ends when it is told to, leaves nothing behind, and refuses in one sentence."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from larger import larger
from served import LONG, PATIENCE, Line, alive, until, workers
from websockets.sync.client import connect

from attnflow.app.cli import main
from attnflow.explorer.scratch import PREFIX
from attnflow.explorer.server import listening


@contextmanager
def explore(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "attnflow", "explore", "--no-browser", "--port", "0", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


# Both signals and both moments; all four pairs in make test-all.
@pytest.mark.parametrize(
    ("how", "early"),
    [
        (signal.SIGINT, False),
        (signal.SIGKILL, True),
        pytest.param(signal.SIGINT, True, marks=larger),
        pytest.param(signal.SIGKILL, False, marks=larger),
    ],
)
def test_the_command_serves_until_it_is_ended_and_leaves_nothing_behind(how: signal.Signals, early: bool) -> None:
    with explore() as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[4]
        assert address.startswith("http://127.0.0.1:")
        with connect(f"ws{address[4:]}ws", compression=None, max_size=None) as socket:
            Line(socket).say(1, "run", state=LONG)
            Line(socket).say(2, "movie", format="gif", width=64, height=48, rate=25)
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
