"""The oldest versions that pyproject.toml allows, as constraints: `python -m tools.minimum_versions FILE`.

Tests and an installed wheel are tried with these too, so that ">=" is a promise that was kept at least once.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What users install. The tools of developers are pinned by constraints.txt and need no promise; neither do array
# libraries that are never needed.
NOT_PROMISED = ("dev", "docs", "torch", "jax")
HEAD = "# The oldest versions that pyproject.toml allows. Written by tools/minimum_versions.py."


def minimum_versions(project: Path) -> list[str]:
    """Return a line ``name==version`` for each library that attnflow may need.

    >>> minimum_versions(ROOT / "pyproject.toml")[0]
    'dask==2025.1'
    """
    table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    extras = table["optional-dependencies"]
    needed = [*table["dependencies"], *(one for name in extras if name not in NOT_PROMISED for one in extras[name])]
    found = {}
    for one in needed:
        name, least = re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?(?:>=([\w.]+))?", one).groups()  # type: ignore[union-attr]
        if name != "attnflow":
            found[name] = least
    return [f"{name}=={least}" for name, least in sorted(found.items(), key=lambda pair: pair[0].lower())]


if __name__ == "__main__":
    lines = [HEAD, *minimum_versions(ROOT / "pyproject.toml")]
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n", encoding="utf-8")
