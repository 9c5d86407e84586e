"""Cells as bytes that travel to workers, and what is done with them there."""

from __future__ import annotations

import functools
import io
import pickle
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from attnflow.core.identity import own_modules
from attnflow.core.inputs import InputError
from attnflow.core.own_code import is_own
from attnflow.sweeps.listening import listening
from attnflow.sweeps.outcome import Batch
from attnflow.sweeps.places import Work, timed
from attnflow.sweeps.process import ONE_AT_A_TIME


def packed(work: Work) -> bytes:
    """Return the work as bytes; the user's own modules travel by value, as they are now."""
    import cloudpickle

    modules = own_modules(work)
    with ExitStack() as stack:
        for name in sorted(set(modules.all) - set(cloudpickle.list_registry_pickle_by_value())):
            cloudpickle.register_pickle_by_value(modules.all[name])
            stack.callback(cloudpickle.unregister_pickle_by_value, modules.all[name])
        try:
            return _pickled((work, modules.imported))
        except Exception as error:
            raise InputError(
                f"the cell cannot be sent to workers ({error}): make open files and locks inside it, or use on='here'"
            ) from None


def _pickled(value: Any) -> bytes:
    """Return a value as bytes, with functions of the user's own that functools.cache keeps the results of.

    Pickle would name those only, and workers would look for their module.
    """
    import cloudpickle

    class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, functools._lru_cache_wrapper) and is_own(sys.modules.get(obj.__module__)):
                return _kept, (obj.__wrapped__, obj.cache_parameters())
            return super().reducer_override(obj)

    file = io.BytesIO()
    Pickler(file).dump(value)
    return file.getvalue()


def _kept(function: Any, options: dict[str, Any]) -> Any:
    return functools.lru_cache(**options)(function)


def same(payload: bytes) -> bytes:
    """Run on a worker: keep a large payload there, which other workers take from it."""
    return payload


def computed(payload: bytes, cells: list[int], level: int) -> Batch:
    """Run on a worker: compute some cells with one compiled thread; messages count from this level."""
    work, modules = _unpacked(payload)
    if "numba" in sys.modules:
        sys.modules["numba"].set_num_threads(1)
    # What a thread waits for others is no time of its cells.
    with ONE_AT_A_TIME, listening(level), _found_by_imports(modules):
        return timed(work, cells)


@contextmanager
def _found_by_imports(modules: dict[str, ModuleType]) -> Iterator[None]:
    """Let cells that import these modules find them as they were sent, whatever the worker has imported before."""
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


@functools.lru_cache(maxsize=4)
def _unpacked(payload: bytes) -> Any:
    return pickle.loads(payload)
