"""Folders for the temporary files of workers, which nobody leaves behind.

A folder is named after the server and made by the worker. The server removes it when it ends the worker, the worker
when the server is gone. If both are killed at once neither can: then the next worker that needs a folder removes it.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
from pathlib import Path

PREFIX = "attnflow-worker-"
# Only folders of exactly this form are ever removed: the number of the server's process and 16 random digits.
NAME = re.compile(PREFIX + r"(\d+)-[0-9a-f]{16}")


def new_name() -> str:
    """Return the name of a folder that does not exist yet, for a worker of this process."""
    return str(Path(tempfile.gettempdir()) / f"{PREFIX}{os.getpid()}-{secrets.token_hex(8)}")


def make(folder: str) -> None:
    """Make a new folder, in which temporary files are put from now on.

    Folders of servers that are no more are removed.
    """
    for left in Path(folder).parent.glob(f"{PREFIX}*"):
        if (name := NAME.fullmatch(left.name)) and not _alive(int(name[1])):
            remove(str(left))
    Path(folder).mkdir(mode=0o700)
    tempfile.tempdir = folder


def remove(folder: str) -> None:
    """Remove a folder, if it is there, even while something is being written to it."""
    for _ in range(100):
        shutil.rmtree(folder, ignore_errors=True)
        if not Path(folder).exists():
            return


def _alive(number: int) -> bool:
    """Say whether there is a process of this number, or might be."""
    # On Windows, asking in this way would end it.
    if os.name == "nt":
        return True
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
