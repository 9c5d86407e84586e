"""The first compilation of a kernel takes seconds: it says so."""

from __future__ import annotations

from typing import Any

from numba.core import event

from attnflow.core.progress import note

PACKAGE = __name__.partition(".")[0] + "."


class _Announcement(event.Listener):
    """Say on standard error, once in a process, that kernels are being compiled."""

    said = False

    def on_start(self, event: Any) -> None:
        if not self.said and event.data["dispatcher"].py_func.__module__.startswith(PACKAGE):
            note("compiling kernels, once per installation for each kind of sum (some seconds each)")
            self.said = True

    def on_end(self, event: Any) -> None:
        """Do nothing."""


_announcement = _Announcement()
_registered = False


def announce() -> None:
    """Announce compilations from now on."""
    global _registered
    if not _registered:
        event.register("numba:compile", _announcement)  # type: ignore[no-untyped-call]
        _registered = True
