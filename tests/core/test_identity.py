"""Two functions have the same identity if they do the same, in whatever process and line they are written."""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnflow as af
from attnflow.core.identity import digest

START = """
import functools
import numpy as np

RATE = 0.5
WEIGHTS = np.arange(3.0)
NAMES = {"a", "b", "c"}

def helper(x, power=2):
    return RATE * x**power

class Model:
    scale = 3.0

    def __init__(self, shift):
        self.shift = shift

    def __call__(self, beta):
        return self.scale * beta + self.shift

    @staticmethod
    def other(beta):
        return beta

    @property
    def twice(self):
        return 2 * self.shift

def maker(k):
    def inner(n):
        return inner(n - 1) if n else k
    return inner

def even(n):
    return n == 0 or odd(n - 1)

def odd(n):
    return n != 0 and even(n - 1)

@functools.cache
def kept(n):
    return n + RATE

def cell(beta, *, least=1):
    \"\"\"What it is.\"\"\"
    listed = [helper(b) for b in (beta, 1.0)]
    chosen = beta in {1, 2, 3}
    return sum(listed) + WEIGHTS[1] + len(NAMES) + Model(2)(beta) + maker(4)(3) + even(3) + kept(2) + chosen + least
"""


def made(source: str) -> dict[str, Any]:
    """What a script, run as the user's own, has defined."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "a notebook", "exec", dont_inherit=True), names)
    return names


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import", "import"),
        ("\ndef cell", "\n# A comment.\n\n\ndef cell"),
        ("What it is.", "What it really is."),
        ("even(3)", "even( 3 )"),
        ('{"a", "b", "c"}', '{"c", "b", "a"}'),
        ("\nRATE", "\nUNUSED = 4\nRATE"),
        ("\nimport functools", "from __future__ import annotations\nimport functools"),
    ],
)
def test_the_same(old: str, new: str) -> None:
    assert digest(made(START)["cell"]) == digest(made(START.replace(old, new))["cell"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("RATE = 0.5", "RATE = 0.25"),
        ("arange(3.0)", "arange(4.0)"),
        ("arange(3.0)", "arange(3)"),
        ('"c"}', '"d"}'),
        ("power=2", "power=3"),
        ("RATE * x", "RATE + x"),
        ("scale = 3.0", "scale = 3.5"),
        ("+ self.shift", "- self.shift"),
        ("return 2 * self.shift", "return 3 * self.shift"),
        ("maker(4)", "maker(5)"),
        ("inner(n - 1)", "inner(n - 2)"),
        ("n != 0 and", "n != 1 and"),
        ("n + RATE", "n - RATE"),
        ("least=1", "least=2"),
        ("{1, 2, 3}", "{1, 2, 4}"),
        ("sum(listed)", "max(listed)"),
        ("        return beta\n", "        return -beta\n"),
    ],
)
def test_different(old: str, new: str) -> None:
    assert START.count(old) == 1
    assert digest(made(START)["cell"]) != digest(made(START.replace(old, new))["cell"])


def test_objects_partials_and_methods() -> None:
    first, second = made(START), made(START)
    for name, one, other in [
        ("partial", functools.partial(first["helper"], power=3), functools.partial(second["helper"], power=3)),
        ("object", first["Model"](2), second["Model"](2)),
        ("method", first["Model"](2).__call__, second["Model"](2).__call__),
        ("cached", first["kept"], second["kept"]),
        ("lambda", lambda a: a + 1, lambda a: a + 1),
        ("law", af.Softmax(beta=2.0), af.Softmax(beta=2.0)),
        ("nested", [{"a": {1, 2}}, np.float64(1)], [{"a": {2, 1}}, np.float64(1)]),
        ("closure", first["maker"](3), second["maker"](3)),
    ]:
        assert digest(one) == digest(other), name
    for name, one, other in [
        ("partial", functools.partial(first["helper"], power=3), functools.partial(first["helper"], power=2)),
        ("object", first["Model"](2), first["Model"](3)),
        ("method", first["Model"](2).__call__, first["Model"](3).__call__),
        ("law", af.Softmax(beta=2.0), af.Softmax(beta=2.5)),
        ("law", af.Softmax(), af.Hardmax()),
        ("types", 1, 1.0),
        ("signed", 0.0, -0.0),
        ("arrays", np.array([1, 2]), np.array([[1, 2]])),
        ("nested", [1, [2]], [[1], 2]),
        ("measures", af.measure.clusters, af.measure.diameter),
        ("closure", first["maker"](3), first["maker"](4)),
    ]:
        assert digest(one) != digest(other), name
    loop: list[Any] = [1]
    loop.append(loop)
    assert digest(loop) == digest(loop)


def test_a_function_of_another_file_of_the_users_counts_by_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "models_of_a_test.py"
    file.write_text("def rate(x):\n    return 2 * x\n\ndef other(x):\n    return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("models_of_a_test")
    cell = made("import models_of_a_test as models\ndef cell(a):\n    return models.rate(a)\n")["cell"]
    before = digest(cell)
    exec(compile("def other(x):\n    return -x\n", "again", "exec", dont_inherit=True), vars(module))
    assert digest(cell) == before
    exec(compile("def rate(x):\n    return 3 * x\n", "again", "exec", dont_inherit=True), vars(module))
    assert digest(cell) != before


def test_what_is_imported_when_it_runs_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package_of_a_test").mkdir()
    first, second = tmp_path / "package_of_a_test" / "__init__.py", tmp_path / "package_of_a_test" / "part.py"
    monkeypatch.syspath_prepend(tmp_path)
    ways = [
        ("import package_of_a_test as p", "p.rate(a)", first),
        ("from package_of_a_test import rate", "rate(a)", first),
        ("from package_of_a_test import part", "part.rate(a)", second),
        ("import package_of_a_test.part", "package_of_a_test.part.rate(a)", second),
        ("from .part import rate", "rate(a)", second),
        ("from . import part", "(lambda: part.rate(a))()", second),
    ]

    def digests() -> list[str]:
        for name in ("package_of_a_test", "package_of_a_test.part"):
            sys.modules.pop(name, None)  # as in another process
        importlib.invalidate_caches()
        found = []
        for line, call, _ in ways:
            names = made(f"__package__ = 'package_of_a_test'\ndef cell(a):\n    {line}\n    return {call}\n")
            found.append(digest(names["cell"]))
        return found

    first.write_text("def rate(x):\n    return 2 * x\n\ndef other(x):\n    return x\n")
    second.write_text(first.read_text())
    before = digests()
    second.write_text(second.read_text().replace("return x", "return x + 10"))
    assert digests() == before
    second.write_text(second.read_text().replace("2 * x", "2000 * x"))
    assert [new != old for new, old in zip(digests(), before, strict=True)] == [file is second for _, _, file in ways]


def test_attributes_of_functions_and_what_is_tried_count() -> None:
    cell = made("def cell(a):\n    cell.calls += 1\n    return a * cell.rate\n")["cell"]
    cell.rate, cell.calls = 2, 0
    before = digest(cell)
    cell(1)
    assert digest(cell) == before
    cell.rate = 3
    assert digest(cell) != before

    tried = (
        "def cell(a):\n    b = 0\n    try:\n        b = f(a)\n{}    except ValueError:\n        b = 1\n{}    return b\n"
    )
    one, other = tried.format("        b = g(b)\n", ""), tried.format("", "    else:\n        b = g(b)\n")
    assert digest(made(one)["cell"]) != digest(made(other)["cell"])


def test_functions_compiled_by_numba_count_by_their_code() -> None:
    numba = pytest.importorskip("numba")
    one, other = ({**made(START), "fast": numba.njit(made(START)["helper"])} for _ in range(2))
    for names in (one, other):
        exec(compile("def uses(x):\n    return fast(x)\n", "a notebook", "exec", dont_inherit=True), names)
    assert digest(one["uses"]) == digest(other["uses"])
    other["fast"] = numba.njit(made(START.replace("RATE * x", "RATE + x"))["helper"])
    assert digest(one["uses"]) != digest(other["uses"])


def test_processes_agree_whatever_the_seed_of_their_hashes() -> None:
    source = START + "from attnflow.core.identity import digest\nprint(digest(cell), digest(Model(3)))\n"
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    ran = subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, text=True, check=True)
    names = made(START)
    # The seed of this process is another one.
    assert ran.stdout.split() == [digest(names["cell"]), digest(names["Model"](3))]


def test_arrays_of_objects_and_cells_that_are_not_filled_yet() -> None:
    def boxed(*parts: Any) -> Any:
        found = np.empty(len(parts), dtype=object)
        found[:] = parts
        return found

    assert digest(boxed("a", (1, 2))) == digest(boxed("a", (1, 2)))
    assert digest(boxed("a", (1, 2))) != digest(boxed("a", (1, 3)))

    def outer(later: int) -> list[str]:
        def inner() -> int:
            return filled + later

        before = digest(inner)
        filled = 1
        return [before, digest(inner)]

    assert outer(1) == outer(1)
    assert outer(1)[0] != outer(2)[0]
    assert outer(1)[0] != outer(1)[1]
