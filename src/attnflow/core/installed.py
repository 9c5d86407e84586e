"""What other packages add to this one: they name it in their entry points, and it is loaded when it is first needed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import metadata
from typing import Any

_loaded: dict[str, list[Any]] = {}


def installed(group: str, read: Callable[[Any], Any] | None = None) -> list[Any]:
    """Return what the entry points of a group stand for, each as `read` returns it; all are loaded once.

    One that fails is left out, with a warning that says which and why: an error in another package stops nothing here.

    >>> installed("attnflow.nothing")
    []
    """
    if group not in _loaded:
        # What is loaded may ask for the same group: it is then told what has been found before it.
        found = _loaded[group] = []
        for one in metadata.entry_points(group=group):
            try:
                part = one.load()
                found.append(part if read is None else read(part))
            except Exception as error:
                owner = one.dist.name if one.dist is not None else "another one"
                warnings.warn(
                    f"{one.value} of the package {owner} is left out of {group}, since loading it failed with "
                    f"{type(error).__name__}: {' '.join(str(error).split())}; update or remove that package",
                    stacklevel=2,
                )
    return _loaded[group]


def same_definition(one: Any, other: Any) -> bool:
    """Say whether two classes or functions are one definition, perhaps run again, as a cell of a notebook is."""
    return one is other or (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)
