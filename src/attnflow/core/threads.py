"""How many threads compiled code may use."""

from __future__ import annotations

import os
import sys


def threads() -> int:
    """Return Numba's number of threads, as the environment or ``numba.set_num_threads`` has it, without loading Numba.

    Workers of a sweep have one each: the others have theirs.
    """
    numba = sys.modules.get("numba")
    if numba is not None:
        return int(numba.get_num_threads())
    asked = os.environ.get("NUMBA_NUM_THREADS", "")
    return int(asked) if asked.isdigit() and int(asked) > 0 else os.cpu_count() or 1
