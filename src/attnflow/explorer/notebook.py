"""The page of the explorer from Python: inline in a notebook, in the browser from a script."""

from __future__ import annotations

import contextlib
import html
import json
import os
import subprocess
import sys
import threading
import webbrowser
from functools import partial
from typing import Any

from numpy.typing import ArrayLike

from attnflow.catalogue import REGISTERED, entries
from attnflow.core.calls import fitting
from attnflow.core.inputs import Array, InputError, cloud, whole
from attnflow.core.progress import in_notebook
from attnflow.explorer.audience import LONGEST_VIEW
from attnflow.explorer.server import MOST_BYTES, check_installed
from attnflow.explorer.state import FIRST, State, read
from attnflow.explorer.state_of_run import rows_of, state_of, table_of
from attnflow.explorer.state_text import parts_of
from attnflow.laws import Law
from attnflow.laws.law import check_law
from attnflow.motions import Motion
from attnflow.motions.motion import check_motion
from attnflow.runs.trajectory import Trajectory

# What can be explored in place of a run: the state of the page as plain data, or tokens (n, d).
Explored = Trajectory | dict[str, Any] | ArrayLike


class Explorer:
    """An open page of the explorer, whose tokens can be read back.

    At the end of a cell of a notebook it appears there. It ends with the Python that opened it, or by `close`.

    Attributes
    ----------
    address : str
        The address of the page, which this machine alone can open. Another person on it who knows the address can
        change `tokens`.
    state : dict
        What is on the page now, as plain data: tokens, law, motion and until.
    tokens : (n, d)
        Where the tokens of the page start now: what was dragged.
    """

    def __init__(self, state: dict[str, Any], height: int = 640) -> None:
        self.height = whole(height, "height", least=100)
        modules = {found.make.__module__ for known in REGISTERED.values() for found in known.values()} - {"__main__"}
        # Ctrl-C is for the notebook or the script; this process ends with them.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "attnflow.explorer.beside_notebook"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            start_new_session=True,
            # The same on Windows, which knows no sessions.
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        self._turn, self._closed = threading.Lock(), False
        self._state = state
        self.address: str = self._asked({"state": state, "modules": sorted(modules)})["address"]

    def _asked(self, line: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._turn, contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(json.dumps(line) + "\n")
            self._process.stdin.flush()
            if answer := self._process.stdout.readline():
                found: dict[str, Any] = json.loads(answer)
                return found
        self.close()
        raise InputError("the process of the page has ended: explore again, or see what 'attnflow explore' says")

    @property
    def state(self) -> dict[str, Any]:
        """What is on the page now, as plain data; after `close`, what was on it when it was last asked for."""
        if not self._closed:
            self._state = self._asked({})["state"]
        return self._state

    @property
    def tokens(self) -> Array:
        """The tokens (n, d) of the page at the start of its run."""
        return read(self.state).tokens.copy()

    def close(self) -> None:
        """Close the page and end all computations."""
        if self._closed:
            return
        self._closed = True
        for end in (self._process.stdin, self._process.stdout):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wait(self) -> None:
        """Keep a script from ending, and its page with it, until Ctrl-C."""
        with contextlib.suppress(KeyboardInterrupt):
            self._process.wait()
        self.close()

    def __enter__(self) -> Explorer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Explorer: {'closed' if self._closed else self.address}>"

    def _repr_html_(self) -> str:
        if self._closed:
            return "<p>This page of the explorer is closed: explore again.</p>"
        place = html.escape(self.address)
        return (
            f'<iframe src="{place}" title="attnflow explorer" width="100%" height="{self.height}" '
            'style="border: 0" allow="clipboard-write; fullscreen"></iframe>'
        )


@partial(fitting, name="explore")
def explore(
    run: Explored | None = None,
    law: Law | None = None,
    motion: Motion | None = None,
    until: float | None = None,
    *,
    browser: bool | None = None,
    height: int = 640,
) -> Explorer:
    """Open the explorer on a run, and return the open page.

    In a notebook the page appears below the cell whose last value it is; from a script it opens in the browser. There
    `explore(run).wait()` keeps it open. What is dragged on the page can be read back.

    Parameters
    ----------
    run
        A `Trajectory`, or tokens (n, d), or the state of a page as plain data, as `Explorer.state` is. By default the
        first screen of the explorer. Tokens have at most three dimensions, and have room in a message of 2 MB when
        they are written out, as about 45,000 in the plane have; the state of a page may name a cloud of 200,000.
    law, motion, until
        In place of those of the run or of the first screen.
    browser
        Whether to open a browser; by default, if this is no notebook.
    height
        The height in a notebook, in pixels.

    Examples
    --------
    >>> import attnflow as af
    >>> run = af.simulate([[1.0, 0.0], [0.0, 1.0], [0.3, 0.2]], af.Softmax(beta=4.0), af.Layers(gamma=0.5), until=10)
    >>> page = af.explore(run, browser=False)
    >>> page.tokens.tolist()
    [[1.0, 0.0], [0.0, 1.0], [0.3, 0.2]]
    >>> page.state["law"]
    {'name': 'softmax', 'beta': 4.0}
    >>> page.close()
    """
    check_installed()
    if isinstance(run, Trajectory):
        _check_importable(*(one for one in (run.law, run.motion) if one is not None))
    state = _state(run)
    n = len(read(state).tokens)
    if law is not None:
        _check_importable(check_law(law))
        state["law"] = table_of("law", law, n)
    if motion is not None:
        check_motion(motion)
        _check_importable(motion)
        state["motion"] = table_of("motion", motion, n)
    if until is not None:
        state["until"] = until
    made = read(state)
    _check_page_can_run(made)
    page = Explorer(made.data, height)
    if not in_notebook() if browser is None else browser:
        threading.Thread(target=webbrowser.open, args=(page.address,), daemon=True).start()
    return page


def _check_page_can_run(state: State) -> None:
    """Refuse what the page could show but not run: too much for a message, or what no other process can import."""
    size = len(json.dumps(state.data, separators=(",", ":"))) + LONGEST_VIEW
    if size > MOST_BYTES:
        raise InputError(
            f"{len(state.tokens)} tokens written out take {size / 1e6:.1f} MB, but a message of the page has at most "
            f"{MOST_BYTES / 1e6:g} MB: explore some of them"
        )
    _check_importable(state.law, state.motion)
    tokens = state.data["tokens"]
    if isinstance(tokens, dict) and entries("cloud")[tokens["cloud"]].make.__module__ == "__main__":
        raise _not_importable(tokens["cloud"])


def _check_importable(*things: Law | Motion) -> None:
    """Refuse laws and motions, and what stands around them, that are defined in the script or notebook itself."""
    for part in (part for one in things for part in parts_of(one)):
        if type(part).__module__ == "__main__":
            raise _not_importable(type(part).__name__)


def _not_importable(name: str) -> InputError:
    return InputError(f"the process of the page cannot import {name}: define it in a module, and import that")


def _state(run: Explored | None) -> dict[str, Any]:
    if run is None:
        return dict(FIRST)
    if isinstance(run, Trajectory):
        return state_of(run)
    if isinstance(run, dict):
        return dict(read(run).data)
    return {**FIRST, "tokens": rows_of(cloud(run))}
