"""Code of the user's own: it travels to workers as it is here, and it counts in the identity of a sweep."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType


def is_own(module: ModuleType | None) -> bool:
    """Say whether a module is the user's own: a script, a notebook, or a file that is not installed as a package.

    >>> is_own(sys.modules["sys"]), is_own(sys.modules["attnflow"])
    (False, False)
    """
    if module is None or module.__name__ == "__main__":
        return True
    return _is_own_file(module.__name__, getattr(module, "__file__", None))


def own_module(name: str) -> ModuleType | None:
    """Return the module of this name, imported now, if it is the user's own.

    >>> own_module("json.decoder"), own_module("not_there")
    (None, None)
    """
    try:
        spec = importlib.util.find_spec(name.partition(".")[0])
        own = spec is not None and _is_own_file(name, spec.origin)
        return importlib.import_module(name) if own else None
    except Exception:  # the cell that imports it says so
        return None


def _is_own_file(name: str, file: str | None) -> bool:
    known = name.partition(".")[0] in ("attnflow", *sys.stdlib_module_names)
    # Compiled code cannot travel.
    written = file is not None and file.endswith((".py", ".pyc"))
    return written and not known and not any(part in str(file) for part in ("site-packages", "dist-packages"))
