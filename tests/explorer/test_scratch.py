"""Folders of workers: nothing is left behind, whoever is killed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path

import pytest
from served import PATIENCE, until

from attnflow.explorer import scratch
from attnflow.explorer.worker import DO, ORDER, work


@pytest.mark.parametrize("speaks", [False, True])
def test_a_worker_without_a_server_removes_its_folder(tmp_path: Path, speaks: bool) -> None:
    """It notices when it listens, or, in another thread, when it speaks: whichever comes first."""
    here, there = socket.socketpair()
    folder = tmp_path / "scratch"
    with here, there:
        process = get_context("spawn").Process(target=work, args=(there, "exports", str(folder)))
        process.start()
        until(folder.exists)
        here.shutdown(socket.SHUT_RD if speaks else socket.SHUT_RDWR)
        if speaks:
            # The worker may have said that it is ready before nobody listened: this order makes it speak again.
            order = b'{"do": "data"}'
            here.sendall(ORDER.pack(DO, 1, 1, 0, len(order)) + order)
        process.join(PATIENCE)
    assert process.exitcode == 0
    assert not folder.exists()


def test_what_a_server_killed_with_its_workers_left_is_removed_by_the_next(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    dead, living = (tmp_path / f"attnflow-worker-{process}-{'0' * 16}" for process in (gone.pid, os.getpid()))
    # Folders that a user may have made, one of them with a number where that of a process would stand.
    names = ("attnflow-mine", f"attnflow-{gone.pid}-runs", f"attnflow-worker-{gone.pid}-runs", f"other-{gone.pid}-0")
    others = [tmp_path / name for name in names]
    for folder in (dead, living, *others):
        folder.mkdir()
        (folder / "movie.gif").touch()
    before, new = tempfile.tempdir, tmp_path / "new"
    try:
        scratch.make(str(new))
        assert tempfile.gettempdir() == str(new)
    finally:
        tempfile.tempdir = before
    assert not dead.exists()
    assert all(folder.exists() for folder in (new, living, *others))
    with pytest.raises(FileExistsError):
        scratch.make(str(new))
    assert tempfile.tempdir == before


def test_a_number_that_no_process_has_might_be_one() -> None:
    assert scratch._alive(os.getpid())
    assert scratch._alive(1 << 80)
