"""What other packages add to this one: they name it in their entry points, and it is loaded when it is first needed."""

from __future__ import annotations

import importlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

_loaded: dict[str, list[Any]] = {}
# What this thread is loading now, by group.
_loading = threading.local()


def installed(group: str, read: Callable[[Any], Any] | None = None) -> list[Any]:
    """Return what the entry points of a group stand for, each as `read` returns it; all are loaded once.

    One that fails is left out, with a warning that says which and why: an error in another package stops nothing here.
    Threads that ask at the same time all load, so that none of them is answered too early.

    >>> installed("attnflow.nothing")
    []
    """
    # What is loaded may ask for the same group: it is then told what has been found before it.
    known = _loaded.get(group, vars(_loading).get(group))
    if known is not None:
        return known
    found, failed = vars(_loading).setdefault(group, []), []
    try:
        for one in metadata.entry_points(group=group):
            try:
                part = one.load()
                found.append(part if read is None else read(part))
            except (Exception, SystemExit) as error:
                owner = one.dist.name if one.dist is not None else "another one"
                failed.append(
                    f"{one.value} of the package {owner} is left out of {group}, since loading it failed with "
                    f"{type(error).__name__}: {' '.join(str(error).split())}; update or remove that package"
                )
        _loaded[group] = found
    finally:
        del vars(_loading)[group]
    for sentence in failed:
        warnings.warn(sentence, stacklevel=2)
    return found


def of_this_process(part: Any) -> bool:
    """Say whether another process cannot import a class or function: one of a prompt, a notebook or `python -c`."""
    main = sys.modules["__main__"]
    found = getattr(main, "__spec__", None) is not None or Path(getattr(main, "__file__", "")).is_file()
    return part.__module__ == "__main__" and not found


def import_again(modules: Iterable[str]) -> None:
    """Import modules that another process has imported, so that what they register is known here too."""
    for name in modules:
        with suppress(ImportError):
            importlib.import_module(name)


def same_definition(one: Any, other: Any) -> bool:
    """Say whether two classes or functions are one definition, perhaps run again, as a cell of a notebook is."""
    return one is other or (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)
