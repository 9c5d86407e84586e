"""Code of the user's own: it travels to workers as it is here, and it counts in the identity of a sweep."""

from __future__ import annotations

import sys
from types import ModuleType


def is_own(module: ModuleType | None) -> bool:
    """Say whether a module is the user's own: a script, a notebook, or a file that is not installed as a package.

    >>> is_own(sys.modules["sys"]), is_own(sys.modules["attnflow"])
    (False, False)
    """
    if module is None or module.__name__ == "__main__":
        return True
    file = getattr(module, "__file__", None)
    name = module.__name__.partition(".")[0]
    known = name in ("attnflow", *sys.stdlib_module_names)
    return not (known or file is None or any(part in file for part in ("site-packages", "dist-packages")))
