"""Code blocks of README, CONTRIBUTING and docs are run: Python in one namespace per page, shell commands in order.

Figures are closed after tests and after the examples of docstrings alike.

What a comment says beside a Python statement that prints, or right below it, is what it prints; "..." stands for any
text.
"""

from __future__ import annotations

import ast
import gc
import io
import os
import shlex
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numba
import pytest
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser

from attnflow.app.cli import main
from attnflow.catalogue import REGISTERED
from attnflow.claims.claim import REGISTER
from attnflow.figures import gallery

# Collecting tests makes many objects that stay: to look for garbage among them would take a quarter of the time.
gc.disable()
os.environ.setdefault("MPLBACKEND", "Agg")
# Each process that runs tests has one core. A second thread of compiled code would wait in every call for the core of
# another process. What is about threads asks for all of them, by the fixture `all_threads`; they then wait asleep, here
# and in the processes that tests start: on a machine with other work, threads that wait awake take ten times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
numba.set_num_threads(1)
ROOT = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the site, which takes longest: near the end, one process would build it after the other is done."""
    items.sort(key=lambda item: item.path.name != "test_site.py")


def pytest_collection_finish() -> None:
    """Look for garbage from now on, though not among the tests."""
    gc.freeze()
    gc.enable()


def _close_figures() -> None:
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(autouse=True, scope="module")
def _closed() -> Iterator[None]:
    """No figure stays open after the tests of a module, which may share what they drew."""
    yield
    _close_figures()


@pytest.fixture
def figures_closed() -> Iterator[None]:
    """No figure stays open after a test, in modules that use this."""
    yield
    _close_figures()


@pytest.fixture(scope="module")
def all_threads() -> Iterator[None]:
    """Compiled code runs on as many threads as it does for users, in modules and tests that use this."""
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    yield
    numba.set_num_threads(1)


def _python(example: Example) -> None:
    """Run a Python block, statement by statement, and compare what each prints with the comment that belongs to it."""
    source = str(example.parsed)
    tree = ast.parse(source)
    wanted = {statement.lineno: _comment(source, statement) for statement in tree.body}
    for statement in tree.body:
        said, comment = io.StringIO(), wanted[statement.lineno]
        ast.increment_lineno(statement, example.line + example.parsed.line_offset)
        with redirect_stdout(said):
            exec(compile(ast.Module([statement], []), example.path, "exec"), example.namespace)
        printed = said.getvalue()
        if printed and comment:
            same = OutputChecker().check_output(comment, printed, ELLIPSIS | NORMALIZE_WHITESPACE)
            assert same, f"{ast.unparse(statement)}\nprints\n{printed}but the page says\n{comment}"


def _comment(source: str, statement: ast.stmt) -> str:
    """Return the comment at the end of a statement, and those on the lines right below it."""
    comments = {
        token.start: token.string.removeprefix("#").removeprefix(" ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    last = statement.end_lineno or statement.lineno
    lines = [text for (line, _), text in comments.items() if line == last]
    while (last + 1, 0) in comments:
        last += 1
        lines.append(comments[last, 0])
    return "".join(f"{line}\n" for line in lines)


def _shell(example: Example) -> None:
    """Run a shell block; of `make` only a dry run, since the tests are one of its targets.

    Commands of attnflow are run in this process, which has loaded the library already. Those that end with & go on
    until the end of the page.
    """
    for command in example.parsed.replace("\\\n", " ").strip().splitlines():
        arguments = command.split("#")[0].strip()
        place = ROOT if arguments.startswith("make ") else Path.cwd()
        arguments = arguments.replace("make ", "make -n ", 1)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path}
        if arguments.endswith("&"):
            log = Path(f"{len(example.namespace['_started'])}.log").open("w")  # noqa: SIM115
            words = shlex.split(arguments.removesuffix("&"))
            example.namespace["_started"].append(subprocess.Popen(words, env=environment, stdout=log, stderr=log))
            log.close()
            continue
        if arguments.startswith("attnflow explore"):
            _visit(arguments, environment)
            continue
        if arguments.startswith("attnflow "):
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
                status = main(shlex.split(arguments)[1:])
            assert status == 0, f"{command}\n{said.getvalue()}"
            continue
        done = subprocess.run(arguments, shell=True, cwd=place, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def _visit(arguments: str, environment: dict[str, str]) -> None:
    """Start a server on a free port, without a browser, fetch its page, and end it."""
    words = [*shlex.split(arguments), "--port", "0", "--no-browser"]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = next(word for word in server.stdout.readline().split() if word.startswith("http://"))
            with urlopen(address.replace("0.0.0.0", "127.0.0.1")) as page:
                assert b"<title>attnflow" in page.read()
        finally:
            server.terminate()


def _enter(namespace: dict[str, Any]) -> None:
    namespace["_before"], namespace["_folder"] = Path.cwd(), tempfile.TemporaryDirectory()
    namespace["_claims"] = dict(REGISTER)
    namespace["_parts"] = {kind: dict(parts) for kind, parts in REGISTERED.items()}
    namespace["_started"] = list[subprocess.Popen[bytes]]()
    os.chdir(namespace["_folder"].name)


def _leave(namespace: dict[str, Any]) -> None:
    if "client" in namespace:  # of a page that did not come to its end
        namespace["client"].close()
    for process in reversed(namespace["_started"]):
        process.terminate()
        process.wait()
    os.chdir(namespace["_before"])
    namespace["_folder"].cleanup()
    # A page may register claims, figures, laws and motions of its own, which are none of the library's.
    REGISTER.clear()
    REGISTER.update(namespace["_claims"])
    for kind, parts in namespace["_parts"].items():
        REGISTERED[kind].clear()
        REGISTERED[kind].update(parts)
    for name in [
        name for name, one in gallery._known.items() if not str(one.function.__module__).startswith("attnflow")
    ]:
        del gallery._known[name]


pytest_collect_file = Sybil(
    parsers=[CodeBlockParser(language="python", evaluator=_python), CodeBlockParser(language="sh", evaluator=_shell)],
    patterns=["README.md", "CONTRIBUTING.md", "docs/*.md", "docs/*/*.md"],
    setup=_enter,
    teardown=_leave,
).pytest()
