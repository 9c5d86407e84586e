"""The public names of this release, one per line: `python -m tools.public_names tests/releases/VERSION.txt`."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import attnflow as af

# Their names are written out by users: af.measure.clusters.
PARTS = ("figures", "geometry", "measure", "tokens", "watch")


def public_names() -> set[str]:
    """Return the public names of the package, and those of its parts.

    >>> {"simulate", "measure.clusters", "tokens.gaussian"} <= public_names()
    True
    """
    found = set(af.__all__)
    for part in PARTS:
        module: ModuleType = getattr(af, part)
        own = [name for name, one in vars(module).items() if getattr(one, "__module__", None) == module.__name__]
        names = getattr(module, "__all__", None) or [name for name in own if not name.startswith("_")]
        found |= {f"{part}.{name}" for name in names}
    return found


if __name__ == "__main__":
    Path(sys.argv[1]).write_text("\n".join(sorted(public_names())) + "\n", encoding="utf-8")
