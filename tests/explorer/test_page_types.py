"""The page's JavaScript is type-checked from its JSDoc, where node and the TypeScript compiler are installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# Where make test installs the compiler.
COMPILERS = str(Path(sys.prefix) / "node" / "node_modules" / ".bin")
CONFIGURATION = Path(__file__).with_name("tsconfig.json")


def test_the_types_of_the_page_fit() -> None:
    compiler = shutil.which("tsc", path=COMPILERS) or shutil.which("tsc")
    if shutil.which("node") is None or compiler is None:
        pytest.skip("no node and tsc to check the types of the explorer's page: install node and npm")
    words = [compiler, "--noEmit", "--checkJs", "--project", str(CONFIGURATION)]
    checked = subprocess.run(words, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
