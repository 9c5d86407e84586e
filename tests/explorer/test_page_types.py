"""The page's JavaScript is type-checked from its JSDoc, where node and the TypeScript compiler are installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CONFIGURATION = Path(__file__).with_name("tsconfig.json")


def test_the_types_of_the_page_fit() -> None:
    compiler = shutil.which("tsc")
    if shutil.which("node") is None or compiler is None:
        pytest.skip("no node and tsc to check the types of the explorer's page: install the npm package typescript")
    words = [compiler, "--noEmit", "--checkJs", "--project", str(CONFIGURATION)]
    checked = subprocess.run(words, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
