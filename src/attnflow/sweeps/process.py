"""The process in which cells run: what it shares with them is put back when they are done.

NumPy's and Python's own generators are seeded for each cell. BLAS has one thread, for its sums have other bits with
another number of threads. Threads of one process share all of these, so only one of them runs cells at a time.
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

# Held by the thread that runs cells, one of which may be a sweep itself.
ONE_AT_A_TIME = threading.RLock()


@contextmanager
def shared_process() -> Iterator[None]:
    """Lend the process to cells of this thread."""
    with ONE_AT_A_TIME:
        before = np.random.get_state(), random.getstate()  # noqa: NPY002
        try:
            with _blas().limit(limits=1, user_api="blas"):
                yield
        finally:
            np.random.set_state(before[0])  # noqa: NPY002
            random.setstate(before[1])


@functools.cache
def _blas() -> Any:
    """Return what limits the threads of BLAS."""
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        # SciPy has one of its own, which can be limited only when it is loaded.
        import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
