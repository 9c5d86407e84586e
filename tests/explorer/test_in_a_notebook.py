"""The page beside Python: what it shows of a run, what it refuses, and tokens that were dragged, read back."""

from __future__ import annotations

import json
import math
import os
import queue
import re
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest
from browser import launch
from refusals import refused
from served import alive, until, workers

import attnflow as af
from attnflow.catalogue import REGISTERED, entries
from attnflow.explorer import notebook
from attnflow.explorer.notebook import Explorer
from attnflow.explorer.state import FIRST, arguments, read
from attnflow.explorer.state_of_run import plain, state_of
from attnflow.laws import graphs

X0 = af.tokens.gaussian(12, 2, seed=4)
RUNS: dict[str, Any] = {
    "softmax": (X0, af.Softmax(beta=3.0), af.Layers(gamma=0.2), 20),
    "hardmax": (X0, af.Hardmax(B=[[1.0, 0.5], [0.0, 2.0]]), af.Layers(alpha=0.5), 20),
    "hardmax flow": (X0, af.Hardmax(), af.HardmaxFlow(), 3.0),
    "schedule": (X0, af.Softmax(beta=af.Schedule("1 + t")), af.Layers(gamma=0.1), 5),
    "masks": (X0, af.Masked(af.Softmax(beta=2.0), causal=True), af.Layers(gamma=0.1), 5),
    "graph": (X0, af.Masked(af.Softmax(beta=2.0), graph=next(iter(graphs.GRAPHS.values()))(12)), af.Flow(), 1.0),
    "noise": (X0, af.Softmax(beta=2.0), af.Noisy(af.Layers(gamma=0.1), sigma=0.1), 9),
    "chain": (X0, af.Softmax(beta=9.0), af.Jumps(gamma=0.1), 500),
    "sphere": (af.tokens.sphere(9, 3, seed=1), af.Softmax(beta=4.0), af.SphereFlow(), 2.0),
    "localmax": (X0, af.Localmax(delta=0.5), af.Layers(gamma=0.5), 9),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_page_shows_the_run(name: str) -> None:
    tokens, law, motion, end = RUNS[name]
    run = af.simulate(tokens, law, motion, until=end, seed=3)
    state = json.loads(json.dumps(state_of(run)))
    shown = af.simulate(**{**arguments(read(state)), "record": None})
    np.testing.assert_array_equal(shown.final, run.final)


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (lambda: af.simulate(np.eye(5), af.Softmax(), af.Layers(gamma=0.5), until=1), "dimension 5"),
        (lambda: af.simulate(X0, af.Softmax(beta=lambda t: 1 + t), af.Flow(), until=1), "af.Schedule"),
        (lambda: af.simulate(X0, af.Heads([af.Softmax(), af.Hardmax()]), af.Layers(gamma=0.5), until=1), "heads"),
        (lambda: af.simulate(X0, af.Softmax(), af.Layers(gamma=0.5), until=1, masses=np.arange(1.0, 13.0)), "masses"),
    ],
)  # fmt: skip
def test_what_the_page_cannot_show_is_refused_in_one_sentence(run: Any, sentence: str) -> None:
    with pytest.raises(af.InputError, match=re.escape(sentence)) as refusal:
        run().explore(browser=False)
    assert "\n" not in str(refusal.value)


def test_other_things_to_explore_and_other_refusals() -> None:
    for wrong in ({"tokens": 3}, "x", [[1.0, 2.0, 3.0, 4.0]], np.zeros((200_001, 2))):
        with pytest.raises(af.InputError):
            af.explore(wrong, browser=False)
    with pytest.raises(af.InputError, match="explore has no parameter 'heigth'"):
        af.explore(heigth=3)  # type: ignore[call-arg]


def test_what_is_no_law_or_motion_is_refused() -> None:
    with pytest.raises(af.InputError, match=r"law is 3, expected a law such as Softmax\(beta=1.0\)"):
        af.explore(X0, law=3, browser=False)  # type: ignore[arg-type]
    with pytest.raises(af.InputError, match="motion is 'flow', expected a motion"):
        af.explore(X0, motion="flow", browser=False)  # type: ignore[arg-type]


def test_tokens_that_have_no_room_in_a_message_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "Explorer", lambda state, height: len(json.dumps(state)))
    with pytest.raises(
        af.InputError, match=r"60000 tokens written out take 2\.\d MB, but a message of the page has at most 2 MB"
    ):
        af.explore(af.tokens.gaussian(60_000, 2, seed=1), browser=False)
    assert af.explore(af.tokens.gaussian(45_000, 2, seed=1), browser=False) > 1_800_000  # type: ignore[operator]
    # The page asks for a cloud by its name.
    cloud = {"cloud": "gaussian", "n": 60_000, "d": 2}
    assert af.explore({**FIRST, "tokens": cloud}, browser=False) < 1000  # type: ignore[operator]


def test_a_law_of_the_script_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "Explorer", lambda state, height: state)
    monkeypatch.setattr(af.Localmax, "__module__", "__main__")
    sentence = "the process of the page cannot import Localmax: define it in a module, and import that"
    for law in (af.Localmax(delta=0.5), af.Masked(af.Localmax(delta=0.5), causal=True)):
        with pytest.raises(af.InputError, match=sentence):
            af.explore(X0, law, browser=False)
    assert af.explore(X0, af.Softmax(beta=9.0), browser=False)["law"]["name"] == "softmax"  # type: ignore[index]


def test_what_a_module_of_the_user_prints_is_not_taken_for_an_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "talkative.py").write_text("import os\nprint('Hello!', flush=True)\nos.system('echo Hello!')\n")
    monkeypatch.syspath_prepend(tmp_path)
    entry = next(iter(entries("law").values()))

    class Made:
        __module__ = "talkative"

    monkeypatch.setitem(REGISTERED["law"], "talkative", replace(entry, name="talkative", make=Made))
    with Explorer(read({**FIRST, "tokens": [[1.0, 0.0]]}).data) as page:
        assert page.address.startswith("http://127.0.0.1:")
        assert page.tokens.tolist() == [[1.0, 0.0]]


@pytest.fixture(scope="module")
def widget() -> Iterator[Explorer]:
    with af.explore(X0, af.Softmax(beta=9.0), until=30, browser=False, height=500) as page:
        yield page


def test_only_the_page_of_the_notebook_may_be_framed_and_by_this_machine_alone(widget: Explorer) -> None:
    home = widget.address.partition("?")[0]
    with urlopen(widget.address) as answer:
        assert "frame-ancestors http://localhost:* http://127.0.0.1:*" in answer.headers["Content-Security-Policy"]
        assert answer.headers["X-Frame-Options"] is None
    for other in (home, f"{home}?key=x"):
        with urlopen(Request(other)) as answer:
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
            assert answer.headers["X-Frame-Options"] == "DENY"
    assert json.loads(urlopen(f"{home}audience.json").read()) == {"role": "alone", "screen": None}


def test_a_page_that_is_closed_leaves_no_process(widget: Explorer) -> None:
    np.testing.assert_array_equal(widget.tokens, X0)
    assert widget.state["law"] == {"name": "softmax", "beta": 9.0}
    assert widget.state["until"] == 30
    process = widget._process.pid
    assert alive(process)
    widget.close()
    assert not alive(process)
    np.testing.assert_array_equal(widget.tokens, X0)
    assert repr(widget) == "<Explorer: closed>"
    assert "is closed: explore again" in widget._repr_html_()


def test_a_page_opens_in_the_browser_and_says_when_its_process_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: queue.Queue[str] = queue.Queue()
    monkeypatch.setattr(webbrowser, "open", opened.put)
    with af.explore(motion=af.Layers(gamma=0.25), browser=True) as page:
        assert page.state["motion"] == {"name": "layers", "gamma": 0.25}
        assert opened.get(timeout=60) == page.address
        page._process.kill()
        page.wait()
        page._closed = False  # as if nobody had waited for it
        with pytest.raises(af.InputError, match="the process of the page has ended: explore again"):
            page.state  # noqa: B018


CELLS = [
    "import attnflow as af\n"
    "run = af.simulate(af.tokens.polygon(4), af.Softmax(beta=4.0), af.Layers(gamma=0.1), until=20)\n"
    "widget = run.explore()\nwidget",
    "print(widget.tokens.tolist(), widget._process.pid)",
]


@contextmanager
def showing(cell: str) -> Iterator[str]:
    """Serve the output of a cell from this machine, as Jupyter does: browsers ask where the page around a frame is."""

    class Jupyter(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(cell.encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Jupyter) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_a_notebook_shows_the_page_and_reads_back_what_was_dragged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nbclient, v4 = pytest.importorskip("nbclient"), pytest.importorskip("nbformat.v4")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    cells = v4.new_notebook(cells=[v4.new_code_cell(source) for source in CELLS])
    client = nbclient.NotebookClient(cells, timeout=300, kernel_name="python3")
    with client.setup_kernel():
        client.execute_cell(cells.cells[0], 0)
        (output,) = [one for one in cells.cells[0].outputs if one.output_type == "execute_result"]
        frame = output.data["text/html"]
        with showing(frame) as notebook_page, launch(viewport={"width": 1000, "height": 700}) as page:
            page.goto(notebook_page)
            inside = page.wait_for_selector("iframe").content_frame()
            inside.wait_for_function("() => window.attnflow?.requests.idle()")
            assert inside.evaluate("() => attnflow.store.state.tokens") == af.tokens.polygon(4).tolist()
            # Places are those in the frame.
            frame_box = page.locator("iframe").bounding_box()
            place = inside.evaluate("() => attnflow.stage.place(0)")
            x, y = frame_box["x"] + place["x"], frame_box["y"] + place["y"]
            page.mouse.move(x, y)
            page.mouse.down()
            page.mouse.move(x - 60, y + 40, steps=4)
            page.mouse.up()
            inside.wait_for_function("() => attnflow.store.canUndo && attnflow.classRoom.told")
            dragged = inside.evaluate("() => attnflow.store.state.tokens")
        assert dragged != af.tokens.polygon(4).tolist()
        client.execute_cell(cells.cells[1], 1)
        text, _, process = "".join(one.text for one in cells.cells[1].outputs).strip().rpartition(" ")
    assert json.loads(text) == dragged
    # The page ends with its kernel.
    until(lambda: not alive(int(process)))
    assert not workers(int(process))


def test_what_the_page_does_not_know_is_refused() -> None:
    @dataclass(frozen=True, eq=False)
    class Unknown(af.Softmax):
        pass

    x = af.tokens.polygon(4)
    with refused("the page does not know the law Unknown.*: register it in the catalogue"):
        state_of(af.simulate(x, Unknown(), af.Layers(gamma=0.5), until=1))
    graph = np.triu(np.ones((4, 4), dtype=bool), -1)
    with refused("graph is a graph that the page has no name for"):
        state_of(af.simulate(x, af.Masked(af.Softmax(), graph=graph), af.Layers(gamma=0.5), until=1))


def test_infinity_is_a_word_of_the_page() -> None:
    beta = entries("law")["softmax"].parameters["beta"]
    assert plain(beta, math.inf, 3) == "inf"
    assert plain(beta, 2.0, 3) == 2.0
