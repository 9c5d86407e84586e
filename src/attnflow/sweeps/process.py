"""The process in which cells run: what it shares with them is put back when the last of them is done.

NumPy's and Python's own generators are seeded for each cell. BLAS has one thread, for its sums have other bits with
another number of threads. Cells that run at the same time, in threads of one process, share both: there they must draw
from `rng`, and BLAS keeps to one thread if the worker was started by a nanny, as Dask does by itself.
"""

from __future__ import annotations

import functools
import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

_guard = threading.Lock()
_users = 0
_before: tuple[Any, Any] = (None, None)


@contextmanager
def shared_process() -> Iterator[None]:
    """Lend the process to cells of this thread."""
    global _users, _before
    with _guard:
        if not _users:
            _before = np.random.get_state(), random.getstate()  # noqa: NPY002
        _users += 1
    try:
        with _blas().limit(limits=1, user_api="blas"):
            yield
    finally:
        with _guard:
            _users -= 1
            if not _users:
                np.random.set_state(_before[0])  # noqa: NPY002
                random.setstate(_before[1])


@functools.cache
def _blas() -> Any:
    """Return what limits the threads of BLAS."""
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        # SciPy has one of its own, which can be limited only when it is loaded.
        import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
