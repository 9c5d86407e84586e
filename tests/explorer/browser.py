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
raise SystemExit(main())
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
    """End Chromium and Playwright, if they were started."""
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
    explore = ("-c", PATIENT, "explore", "--port", "0", "--no-browser", *options)
    words = [sys.executable, *([script] if script else explore)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            said = server.stdout.readline()
            yield next(word for word in said.split() if word.startswith("http://"))
        finally:
            server.terminate()
