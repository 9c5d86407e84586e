"""Build the wheel and the sdist twice, in different folders: the bytes must be the same, and the wheel small.

    python -m tools.build_twice dist

The wheel is also built from the sdist, which has to hold the tests and the licence, and has the same bytes again. The
files of the second build stay in the folder, beside their digests in SHA256SUMS.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_BYTES = 3_000_000
# What those who build and test from the sdist look for.
OF_SDIST = ("LICENSE", "Makefile", "conftest.py", "constraints.txt", "docs", "src", "tests", "tools")
# What a build reads; caches and environments beside it are of no interest to it.
IGNORED = shutil.ignore_patterns(".venv", ".git", "out", "dist", "__pycache__", "*.egg-info", ".*_cache", ".hypothesis")


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a folder."""
    files = sorted(folder.glob("attnflow-*"))
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def built(source: Path, folder: Path, kinds: Sequence[str] = ("wheel", "sdist")) -> dict[str, str]:
    """Build a copy of the tree into a folder, and return the digests of what was built."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    asked = [word for kind in kinds for word in ("-t", kind)]
    words = (sys.executable, "-m", "hatchling", "build", *asked, "-d", str(folder))
    subprocess.run(words, cwd=source, check=True, capture_output=True, env=environment)
    return digests(folder)


def unpacked(sdist: Path, folder: Path) -> Path:
    """Unpack an sdist into a folder, and return the tree, which has all that its tests and its licence ask for."""
    with tarfile.open(sdist) as archive:
        # Python 3.11 has this since 3.11.4; before, files are unpacked as they are.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        archive.extractall(folder)
    (tree,) = folder.iterdir()
    lacking = [name for name in OF_SDIST if not (tree / name).exists()]
    if lacking:
        raise SystemExit(f"{sdist.name} has no {', '.join(lacking)}: let the build include it")
    return tree


def build_twice(folder: Path) -> dict[str, str]:
    """Build twice, compare, and return the digests."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        first = Path(place, "first")
        shutil.copytree(ROOT, first, ignore=IGNORED)
        second = Path(place, "another folder")
        shutil.copytree(ROOT, second, ignore=IGNORED)
        one = built(first, Path(place, "built"))
        for file in second.rglob("*"):
            os.utime(file, (1.5e9, 1.5e9))
        two = built(second, folder.resolve())
        assert len(one) == 2
        if one != {name: two[name] for name in one}:
            raise SystemExit(f"two builds differ: {one} and {two}")
        (sdist,) = (name for name in one if name.endswith(".tar.gz"))
        again = built(unpacked(folder / sdist, Path(place, "unpacked")), Path(place, "again"), ["wheel"])
        if not again.items() <= one.items():
            raise SystemExit(f"the wheel of the sdist differs: {again}, expected one of {one}")
    for name in one:
        size = (folder / name).stat().st_size
        print(f"{one[name]}  {name}  {size:,} bytes")
        if name.endswith(".whl") and size > MOST_BYTES:
            raise SystemExit(
                f"{name} has {size:,} bytes, expected at most {MOST_BYTES:,}: leave out what is not needed"
            )
    (folder / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in one.items()))
    return one


if __name__ == "__main__":
    build_twice(Path(sys.argv[1]))
