"""Every code block of README and docs is run: Python in one namespace per page, shell commands one after the other."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

os.environ.setdefault("MPLBACKEND", "Agg")
ROOT = Path(__file__).parent


def _shell(example: Example) -> None:
    """Run a shell block; of `make` only a dry run, since the tests are one of its targets."""
    for command in example.parsed.replace("\\\n", " ").strip().splitlines():
        arguments = command.split("#")[0].strip()
        place = ROOT if arguments.startswith("make ") else Path.cwd()
        arguments = arguments.replace("make ", "make -n ", 1)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            arguments, shell=True, cwd=place, env={**os.environ, "PATH": path}, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def _enter(namespace: dict[str, Any]) -> None:
    namespace["_before"], namespace["_folder"] = Path.cwd(), tempfile.TemporaryDirectory()
    os.chdir(namespace["_folder"].name)


def _leave(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_before"])
    namespace["_folder"].cleanup()


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), CodeBlockParser(language="sh", evaluator=_shell)],
    patterns=["README.md", "docs/*.md", "docs/*/*.md"],
    setup=_enter,
    teardown=_leave,
).pytest()
