"""Where cells run: threads of a process, a cluster of this machine's own; and what no place is."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import threadpoolctl
from cluster import wait_for
from distributed import Client, LocalCluster
from refusals import refused

import attnflow as af
from attnflow.app.sweep import cells_of
from attnflow.sweeps import on_dask, running, where
from attnflow.sweeps.cells import KEY
from attnflow.sweeps.grid import Grid
from attnflow.sweeps.listening import MOST
from attnflow.sweeps.results import Results
from attnflow.sweeps.study import plan

LARGE = "ATTNFLOW_EXAMPLES" in os.environ


@pytest.fixture(scope="module")
def threads() -> Iterator[Any]:
    """A cluster of one worker with four threads, in this process."""
    with LocalCluster(n_workers=1, threads_per_worker=4, processes=False, dashboard_address=":0") as cluster:
        yield cluster


def test_threads_have_the_numbers_of_their_cells_and_the_process_keeps_its_own(
    threads: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def cell(k: int, rng: np.random.Generator) -> Any:
        print("one of", k)
        time.sleep(0.005)  # other threads would run, and draw from the same generator
        sys.stdout.writelines([f"two of {k}\n"])
        return [*rng.random(3), np.random.random()]  # noqa: NPY002

    np.random.seed(7)  # noqa: NPY002
    level, out = logging.getLogger().level, sys.stdout
    mine = np.random.random()  # noqa: NPY002
    np.random.seed(7)  # noqa: NPY002
    with Client(threads, set_as_default=False) as client:
        found = af.sweep(cell, {"k": range(9)}, on=client)
        assert on_dask.OnDask(client, lambda cells: []).workers == 1
    drawn = [np.random.default_rng(np.random.SeedSequence(0, spawn_key=(KEY, k))).random(3) for k in range(9)]
    assert found.cell.values[:, :3].tobytes() == np.array(drawn).tobytes()
    heard = capsys.readouterr().out.splitlines()
    assert sorted(heard) == [f"[k={k}] {word} of {k}" for k in range(9) for word in ("one", "two")]
    assert found.identical(af.sweep(cell, {"k": range(9)}, on="here"))
    assert np.random.random() == mine  # noqa: NPY002
    assert (logging.getLogger().level, sys.stdout) == (level, out)


def test_here_the_process_keeps_its_generators_and_cells_print_as_they_do(capsys: pytest.CaptureFixture[str]) -> None:
    np.random.seed(7)  # noqa: NPY002
    random.seed(7)
    mine = np.random.random(), random.random()  # noqa: NPY002
    np.random.seed(7)  # noqa: NPY002
    random.seed(7)
    found = af.sweep(lambda k: print("cell", k) or np.random.random(), {"k": range(3)}, on="here")  # noqa: NPY002
    assert (np.random.random(), random.random()) == mine  # noqa: NPY002
    assert len(set(found.value.values)) == 3
    assert capsys.readouterr().out.splitlines() == ["cell 0", "cell 1", "cell 2"]


def test_blas_has_one_thread_so_that_its_sums_have_the_same_bits_everywhere(threads: Any) -> None:
    def used(k: int) -> int:
        return max(pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas")

    import scipy.linalg  # noqa: F401

    before = threadpoolctl.threadpool_info()
    for on in ("here", threads):
        assert af.sweep(used, {"k": [0]}, on=on).used.values.tolist() == [1]
    with threadpoolctl.threadpool_limits(limits=2, user_api="blas"):
        assert af.sweep(used, {"k": [0]}, on="here").used.values.tolist() == [1]
        assert used(0) == 2
    assert threadpoolctl.threadpool_info() == before


def test_odd_cells(threads: Any, capsys: pytest.CaptureFixture[str]) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def cell(k: int) -> float:
        if k == 0:
            raise Mute
        if k == 1:
            sys.exit("the end")
        if k == 2:
            raise KeyboardInterrupt
        if k == 3:
            raise ValueError("two\nlines")
        if k == 4:
            sys.stdout.write(b"bytes")  # type: ignore[arg-type]
        print(2 * MOST * "x")
        print("never heard")
        return k

    found = af.sweep(cell, {"k": range(6)}, on=threads)
    first, second, third, fourth, fifth, last = found.failed.values.tolist()
    assert "Mute" in first
    assert "SystemExit (the end)" in second
    assert "KeyboardInterrupt" in third
    assert "ValueError (two lines)" in fourth
    assert "must be str, not bytes" in fifth
    assert last == ""
    assert capsys.readouterr().err == f"[k=5] (it says more than {MOST} characters: the rest is left out)\n"


def test_what_is_no_place(threads: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(where, "ANSWER", 0.2)
    for on, words in [
        ("tcp://127.0.0.1:1", "no Dask scheduler answers at 'tcp://127.0.0.1:1': start one with `dask scheduler`"),
        ("hre", "on is 'hre' .is 'here' meant..,"),
        ("nonsense://here", "no Dask scheduler answers at 'nonsense://here'"),
        (3, "on is 3, expected None, 'here', the address of a scheduler, or a Dask client"),
    ]:
        with refused(words):
            af.sweep(lambda a: a, {"a": [1]}, on=on, store=tmp_path / "s.zarr")
        assert not list(tmp_path.iterdir())

    async def gives() -> None:
        async with Client(threads.scheduler_address, asynchronous=True, set_as_default=False) as client:
            with refused("on is an asynchronous client: give one made with asynchronous=False"):
                af.sweep(lambda a: a, {"a": [1]}, on=client)

    # In a thread of its own: other tests may have left a loop in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, gives()).result()
    lock = threading.Lock()
    with refused("the cell cannot be sent to workers"):
        af.sweep(lambda a: lock.locked(), {"a": [1]}, on=threads)


class Screen:
    """Keeps what progress shows."""

    again = 0.0

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.notes: list[str] = []

    def line(self, what: str, fraction: float | None, time: str) -> None:
        self.lines.append(f"{what}: {time}")

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def clear(self) -> None:
        self.lines.append("")


def test_a_table_before_and_a_line_after_two_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running, "SLOW", 0.0)  # each cell is reported
    screen, now = Screen(), [0.0]

    def cell(k: int) -> float:
        now[0] += 0.5
        return k

    af.progress.show(True)
    try:
        with af.progress.shown(screen, lambda: now[0]):
            af.sweep(cell, {"k": range(20)}, on="here")
    finally:
        af.progress.show(None)
    table = capsys.readouterr().err
    assert "cells     20 (20 k), 19 to run\n" in table
    assert "batches   19, 1 at once\n" in table
    assert "time      less than a second\n" in table
    assert "MiB in each process so far\n" in table
    assert screen.lines[0] == "sweep 4 of 20 cells: 0:02 passed"
    assert screen.lines[10] == "sweep 14 of 20 cells: 0:07 passed, 0:03 left"
    assert screen.lines[-1] == ""
    af.sweep(cell, {"k": range(20)}, on="here")
    assert capsys.readouterr() == ("", "")


def half(x: int) -> float:
    return x / 2


def test_the_dashboard_is_linked_where_bokeh_is(threads: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(threads, set_as_default=False) as client:
        place, results = on_dask.OnDask(client, lambda cells: []), Results(Grid({"x": range(9)}), {}, None)
        sweep = running.Sweep(results.grid, results, place)
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        assert place.link is None
        assert "dashboard" not in sweep.table(9, 3)
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
        assert str(place.link).startswith("http://")
        assert sweep.table(9, 3)["dashboard"] == str(place.link)


def test_a_plan_counts_the_workers_of_its_place(threads: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    cells = cells_of(half, {"x": range(9)}, None, None, 0)
    with Client(threads, set_as_default=False) as client:
        tables = [plan(cells, Results(cells.grid, {}, None), on) for on in (client, "here", None)]
    assert [table["batches"].split(", ")[1] for table in tables] == ["1 at once", "1 at once", "64 at once"]
    assert {table["cells"] for table in tables} == {"9 (9 x), 9 to run"}


# A script as users write them, without `if __name__ == "__main__"`.
SCRIPT = """
import functools
import os
import sys
import time
import attnflow as af

HALF = 0.5
print("begun", file=sys.stderr)

@functools.cache
def scale(n):
    return scale(n - 1) if n else HALF

def cell(a):
    print("cell", a)
    open(f"{os.environ['FOLDER']}/{a}-{os.getpid()}", "w").close()
    while HOLDS and not os.path.exists(f"{os.environ['FOLDER']}/gate"):
        time.sleep(0.02)
    return scale(2) * a

HOLDS = False
"""
CALL = "found = af.sweep(cell, {'a': [3]})\nprint(found.cell.values.tolist(), __name__, '__file__' in globals())\n"


def group(folder: Path, words: list[str]) -> subprocess.Popen[str]:
    """Start a process that leads a session of its own."""
    return subprocess.Popen(
        words,
        env={**os.environ, "FOLDER": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ended(leader: int) -> bool:
    """Say whether all processes of a session have ended."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            state, _, _, session = file.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z":
                return False
    return True


def test_a_script_starts_processes_of_its_own_and_leaves_none(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + CALL)
    process = group(tmp_path, [sys.executable, "-W", "error", str(script)])
    out, err = process.communicate(timeout=240)
    assert out.splitlines() == ["[a=3] cell 3", "[1.5] __main__ True"]
    # It ran once, and was not run again in the worker.
    assert err == "begun\n"
    (ran,) = (file.name for file in tmp_path.glob("3-*"))
    assert ran != f"3-{process.pid}"
    wait_for("the end of all processes", functools.partial(ended, process.pid))


large = pytest.mark.skipif(not LARGE, reason="starts many processes: make test-all")


@large
def test_at_a_prompt_in_a_thread_and_after_an_error(tmp_path: Path) -> None:
    call = "thread = threading.Thread(target=lambda: exec(CALL, globals()))\nthread.start()\nthread.join()\n"
    thread = f"import threading\nCALL = {CALL!r}\n{call}"
    tries = "try:\n    af.sweep(cell, {'a': [3]}, store='/proc/no/store')\n"
    raises = tries + "except af.InputError as error:\n    print(error)\n"
    for words, said in [
        ([sys.executable, "-c", SCRIPT + CALL], "[1.5] __main__ False"),
        ([sys.executable, "-c", SCRIPT + thread], "[1.5] __main__ False"),
        ([sys.executable, "-c", SCRIPT + raises], "the folder /proc/no does not exist: create it first"),
        ([sys.executable, "-c", SCRIPT + "import threading\nHALF = threading.Lock()\n" + CALL], ""),
    ]:
        process = group(tmp_path, words)
        out, err = process.communicate(timeout=240)
        assert (out.splitlines() or [""])[-1] == said, err
        assert ("cannot be sent to workers" in err) == (said == "")
        wait_for("the end of all processes", functools.partial(ended, process.pid))


@large
@pytest.mark.parametrize("who", ["process", "group"])
def test_ctrl_c_leaves_no_process_and_what_was_stored(tmp_path: Path, who: str) -> None:
    script = tmp_path / "script.py"
    call = "af.sweep(cell, {'a': range(9)})\n"
    script.write_text(SCRIPT.replace("HOLDS = False", "HOLDS = True") + call)
    process = group(tmp_path, [sys.executable, str(script)])
    wait_for("a cell", lambda: list(tmp_path.glob("0-*")))
    (os.killpg if who == "group" else os.kill)(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=240)
    assert err.splitlines()[-1] == "KeyboardInterrupt"
    wait_for("the end of all processes", functools.partial(ended, process.pid))


@large
def test_in_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient, v4 = pytest.importorskip("nbclient"), pytest.importorskip("nbformat.v4")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("FOLDER", str(tmp_path))
    again = "again = af.sweep(cell, {'a': [3]}, store='s.zarr', on='here')\nagain.cell.values.tolist()"
    sources = [SCRIPT, "found = af.sweep(cell, {'a': [3]}, store='s.zarr')", SCRIPT + "# said again", again]
    notebook = v4.new_notebook(cells=[v4.new_code_cell(source) for source in sources])
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3", resources=resources).execute()
    texts = ["".join(output.get("text", "") for output in cell.outputs) for cell in notebook.cells]
    assert "[a=3] cell 3\n" in texts[1]
    assert "cell 3" not in texts[3]
    assert notebook.cells[-1].outputs[-1].data["text/plain"] == "[1.5]"
