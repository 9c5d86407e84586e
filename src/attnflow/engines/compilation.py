"""Compiled code: kept on disk as long as no kernel changes, and announced when it is made, which takes seconds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core import event

from attnflow.core.progress import note

Given = ParamSpec("Given")
Result = TypeVar("Result")

PACKAGE = __name__.partition(".")[0] + "."
# Where the kernels are.
FOLDERS = ("engines", "motions/solvers")


def kept_on_disk(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function, and keeps the code on disk until any kernel changes.

    Numba looks only at the file of the function, but the code holds that of the functions it calls, in other files too.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher: Any = numba.njit(cache=True, **options)(function)
        # No public name of Numba leads there; another Numba may have none, and then looks at one file as it always did.
        kept: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
        if hasattr(kept, "_version"):
            kept._version = version_of_kernels(Path(__file__).parents[1])
        return dispatcher

    return compiled


@cache
def version_of_kernels(package: Path) -> str:
    """Return the version of Numba with a digest of all files that may hold kernels."""
    digest = hashlib.sha256()
    for file in sorted(file for folder in FOLDERS for file in (package / folder).glob("*.py")):
        digest.update(file.name.encode() + file.read_bytes())
    return f"{numba.__version__} {digest.hexdigest()}"


class _Announcement(event.Listener):  # type: ignore[misc]
    """Say on standard error, once in a process, that kernels are being compiled; and count those that are."""

    said = False
    running = 0

    def on_start(self, event: Any) -> None:
        if not _ours(event):
            return
        self.running += 1
        if not self.said:
            note("compiling kernels, once per installation for each kind of sum (up to half a minute each)")
            self.said = True

    def on_end(self, event: Any) -> None:
        self.running -= _ours(event)


def _ours(event: Any) -> bool:
    """Say whether an event is about a kernel of this package."""
    return bool(event.data["dispatcher"].py_func.__module__.startswith(PACKAGE))


_announcement = _Announcement()
_registered = False


def announce() -> None:
    """Announce compilations from now on."""
    global _registered
    if not _registered:
        event.register("numba:compile", _announcement)
        _registered = True


def compiling() -> bool:
    """Say whether a kernel is being compiled at this moment, in any thread of this process.

    >>> compiling()
    False
    """
    return _announcement.running > 0


def on_one_thread(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Let a function run its kernels on one thread: for one of many tasks, of which each has a core of its own."""

    @wraps(function)
    def alone(*given: Given.args, **named: Given.kwargs) -> Result:
        threads = numba.get_num_threads()
        numba.set_num_threads(1)
        try:
            return function(*given, **named)
        finally:
            numba.set_num_threads(threads)

    return alone
