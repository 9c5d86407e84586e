"""Chromium for the tests of the explorer's page, and a server for it to visit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest

# Only what hangs takes so long, in milliseconds.
PATIENCE = 300_000
# The command line with a server that lets its workers take as long, here in seconds, on a busy machine.
PATIENT = f"""
from attnflow.app.cli import main
from attnflow.explorer import supervisor

supervisor.LIMITS = dict.fromkeys(supervisor.LIMITS, {PATIENCE / 1000})
{{more}}
raise SystemExit(main())
"""
# Workers of a server that several files of tests share do not end with the last page of one of them.
LASTING = """
from attnflow.explorer import pool

def lasting(self, *given, made=pool.Pool.__init__):
    made(self, *given)
    for role in ("runs", "claims"):
        for one in self.supervisors[role]:
            one.attach(supervisor.NOBODY.deliver)

pool.Pool.__init__ = lasting
"""
NAMES = ("chromium", "chromium-browser", "google-chrome")


@cache
def _chromium() -> tuple[Any, Any]:
    """Start Playwright and Chromium, once in a process; skip where there is none, but never in CI."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        missing = "no Chromium to open the explorer's page in: install chromium"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    api = pytest.importorskip("playwright.sync_api", reason="Playwright, which drives Chromium, is not installed")
    playwright = api.sync_playwright().start()
    # Root has no sandbox for Chromium to run in.
    arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return playwright, playwright.chromium.launch(executable_path=path, args=arguments)


def end() -> None:
    """End the shared explorer, Chromium and Playwright, if they were started."""
    if _shared.cache_info().currsize:
        with _shared() as server:
            server.terminate()
    if _chromium.cache_info().currsize:
        playwright, chromium = _chromium()
        chromium.close()
        playwright.stop()


# A browser that has seen the story is shown the first screen.
SEEN = "try { localStorage.setItem('attnflow story', 'seen'); } catch {}"


@contextmanager
def launch(first_visit: bool = False, **options: Any) -> Iterator[Any]:
    """Open a page, with these options of a browser context; on a first visit it opens the story."""
    # The policy of the server forbids evaluating strings, which is how tests ask the page.
    context = _chromium()[1].new_context(bypass_csp=True, **options)
    try:
        if not first_visit:
            context.add_init_script(SEEN)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        yield page
    finally:
        context.close()


@contextmanager
def serving(script: str | None = None, *options: str) -> Iterator[str]:
    """Start the explorer on a free port, with more options or by a script, and give its address."""
    with _started([script] if script else _explore(*options)) as server:
        try:
            yield _address(server)
        finally:
            server.terminate()


def shared_address() -> str:
    """Return the address of an explorer that all files of tests of this process share."""
    return _address(_shared())


@cache
def _shared() -> subprocess.Popen[str]:
    return _started(_explore(more=LASTING))


def _explore(*options: str, more: str = "") -> list[str]:
    return ["-c", PATIENT.format(more=more), "explore", "--port", "0", "--no-browser", *options]


def _started(words: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)


@cache
def _address(server: subprocess.Popen[str]) -> str:
    """Return the address that a server has said."""
    assert server.stdout is not None
    said = server.stdout.readline()
    return next(word for word in said.split() if word.startswith("http://"))
