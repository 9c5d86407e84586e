"""Cells as bytes that travel to workers, and what is done with them there."""

from __future__ import annotations

import functools
import pickle
import sys
from contextlib import ExitStack
from typing import Any

from attnflow.core.inputs import InputError
from attnflow.sweeps.listening import listening
from attnflow.sweeps.outcome import Batch
from attnflow.sweeps.own_code import is_own
from attnflow.sweeps.places import Work, timed
from attnflow.sweeps.process import ONE_AT_A_TIME


def packed(work: Work) -> bytes:
    """Return the work as bytes; functions of the user's own modules travel by value."""
    import cloudpickle

    parts = [getattr(work, "function", work), *getattr(work, "measures", {}).values()]
    names = set(map(_home, parts))
    with ExitStack() as stack:
        for name in sorted(names - {"__main__"} - set(cloudpickle.list_registry_pickle_by_value())):
            module = sys.modules.get(name)
            if module is not None and is_own(module):
                cloudpickle.register_pickle_by_value(module)
                stack.callback(cloudpickle.unregister_pickle_by_value, module)
        try:
            shipped: bytes = cloudpickle.dumps(work)
        except Exception as error:
            raise InputError(
                f"the cell cannot be sent to workers ({error}): make open files and locks inside it, or use on='here'"
            ) from None
    return shipped


def _home(part: Any) -> str:
    """Return the module of a function, of which some parameters may be fixed, or of the class of an object."""
    while isinstance(part, functools.partial):
        part = part.func
    part = getattr(part, "__func__", part)
    named = part if hasattr(part, "__qualname__") else type(part)
    return getattr(named, "__module__", None) or "__main__"


def same(payload: bytes) -> bytes:
    """Run on a worker: keep a large payload there, which other workers take from it."""
    return payload


def computed(payload: bytes, cells: list[int], level: int) -> Batch:
    """Run on a worker: compute some cells with one compiled thread; messages count from this level."""
    work = _unpacked(payload)
    if "numba" in sys.modules:
        sys.modules["numba"].set_num_threads(1)
    # What a thread waits for others is no time of its cells.
    with ONE_AT_A_TIME, listening(level):
        return timed(work, cells)


@functools.lru_cache(maxsize=4)
def _unpacked(payload: bytes) -> Any:
    return pickle.loads(payload)
