"""One writer at a time: a lock that the operating system takes back when its holder ends, in whatever way."""

from __future__ import annotations

import errno
import os
import sys
import threading
import warnings
from pathlib import Path

from attnflow.core.inputs import InputError

LOCK = "lock"
# What a file system answers that knows no locks.
UNKNOWN = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}

# Files that this process holds, by device and number: on some network file systems locks are those of the process, and
# would not keep its own threads apart.
_held: dict[tuple[int, int], int] = {}
_guard = threading.Lock()


class Lock:
    """The right to write to a folder, held until `release` or the end of the process.

    The file that is locked is in the folder itself, or in another that is inside it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = Lock(Path(folder))
    ...     first.release()
    ...     Lock(Path(folder)).release()
    """

    def __init__(self, folder: Path, inside: str = ".") -> None:
        try:
            file = os.open(folder / inside / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise InputError(f"{folder} cannot be written to ({error.strerror}): choose another place") from None
        status = os.fstat(file)
        self.key = (status.st_dev, status.st_ino)
        with _guard:
            if self.key in _held or not _locked(file, folder):
                os.close(file)
                raise InputError(
                    f"another run is writing to {folder}: wait until it ends, or choose another store for this one"
                )
            _held[self.key] = file

    def release(self) -> None:
        """Let others write."""
        with _guard:
            file = _held.pop(self.key, None)
            if file is not None:
                os.close(file)


def _locked(file: int, folder: Path) -> bool:
    """Lock an open file without waiting, and say whether that was possible."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in UNKNOWN:
            return False
        warnings.warn(
            f"the file system of {folder} knows no locks: make sure that no other process writes there", stacklevel=2
        )
    return True


def _forget() -> None:
    """Give up, in a forked child, what the parent holds: else the lock would live as long as the child."""
    global _guard
    for file in _held.values():
        os.close(file)
    _held.clear()
    _guard = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
