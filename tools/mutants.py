"""Mutation testing: change the source in one place, run the tests that run that line, and see whether one fails.

    python -m tools.mutants --count 300 --seed 0

The claims core and the geometry are changed: comparisons, arithmetic, numbers, truth values. First all their tests run
once, to learn which of them run which line. A mutant that no test notices survives; it is printed with its place. Each
mutant is tried in a forked process that compiles one file from a changed syntax tree: no file is written.

The sample of a seed consists of the mutants with the smallest digests, of the text of the line and of the change: an
edit elsewhere leaves a mutant in the sample.

Three kinds of changes are left out, because none of them could be of consequence:

- `strict` of `zip`: it guards against lengths that differ, and in a program that is right they never do.
- Whole numbers that multiply the unit of rounding EPS: such a bound has room, and 9 in the place of 8 is as right.
- Entries of LATTICES and BINARY, the grids on which `shrink` looks for a smaller witness: another grid is as right.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import importlib
import importlib.machinery
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "attnflow"
# Not the search: what its heuristics change is how soon a witness is found, not whether it is one.
CORE = "balls check claim errors exact experiment hypotheses instances margins settled shrink verdict witness"
GEOMETRY = "affine cells copies extreme forms generic hull linkage nearest quiescent region spectra stationary"
TARGETS = [*(f"claims/{name}.py" for name in CORE.split()), *(f"geometry/{name}.py" for name in GEOMETRY.split())]
TESTS = [
    "src/attnflow/geometry",
    "src/attnflow/claims",
    "tests/geometry",
    "tests/measure/test_clusters.py",
    "tests/claims",
    "tests/test_display.py",
]
# A single test that runs for longer than this is caught in a loop: somebody would notice.
SECONDS = 120
QUIET = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "-o", "addopts="]
QUIET += ["--doctest-modules", "--disable-plugin-autoload", "-p", "hypothesispytest"]

# Comparisons are turned around: between floats, whether equality counts is rarely of consequence.
SWAPPED: dict[type[ast.AST], Any] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


class Mutant(NamedTuple):
    """A place in a file: the number of the node in its syntax tree, its line, and what is done there.

    `name` tells it from all others, wherever its line stands.
    """

    file: str
    node: int
    line: int
    what: str
    name: str


def changed(node: ast.AST) -> str:
    """Change a node in place and return what was done; "" for a node that is left alone.

    Small whole numbers grow by one; other numbers become 0.

    >>> tree = ast.parse("a < b")
    >>> changed(tree.body[0].value), ast.unparse(tree)
    ('< to >=', 'a >= b')
    """
    before = ast.unparse(node)
    if isinstance(node, ast.Compare):
        node.ops[0] = SWAPPED[type(node.ops[0])]()
        return f"{_sign(SWAPPED[type(node.ops[0])])} to {_sign(type(node.ops[0]))}"
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp):
        texts = [one for one in ast.walk(node) if isinstance(one, ast.JoinedStr)]
        texts += [one for one in ast.iter_child_nodes(node) if isinstance(getattr(one, "value", None), str)]  # type: ignore[misc]
        if texts or type(node.op) not in SWAPPED:
            return ""
        node.op = SWAPPED[type(node.op)]()
        return f"{before} to {ast.unparse(node)}"
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        node.value = not node.value
        return f"{before} to {node.value}"
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        node.value = node.value + 1 if isinstance(node.value, int) and node.value < 10 else float(node.value == 0)
        return f"{before} to {node.value}"
    return ""


def _sign(operator: Any) -> str:
    return ast.unparse(ast.Compare(ast.Name("a"), [operator()], [ast.Name("b")]))[2:-2]


def places(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes that are run: no annotations, no texts, nothing that is there for types alone."""
    left: list[ast.AST] = [tree]
    idle: list[ast.AST] = []
    while left:
        node = left.pop()
        yield node
        idle += _idle(node)
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
            continue
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            children = value if isinstance(value, list) else [value]
            left += [child for child in reversed(children) if isinstance(child, ast.AST) and child not in idle]


def _idle(node: ast.AST) -> list[ast.AST]:
    """Return what is left out below a node."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip":
        return list(node.keywords)
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "(LATTICES, BINARY)":
        return [node.value]
    factors = _factors(node)
    if any(isinstance(one, ast.Name) and one.id == "EPS" for one in factors):
        return [one for one in factors if isinstance(one, ast.Constant) and one.value in range(1, 10)]
    return []


def _factors(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return [*_factors(node.left), *_factors(node.right)]
    return [node]


def mutants(file: str) -> Iterator[Mutant]:
    """Yield all mutants of a file."""
    text = (SOURCE / file).read_text(encoding="utf-8")
    lines, seen = text.splitlines(), Counter[tuple[str, str]]()
    for number, node in enumerate(places(ast.parse(text))):
        if isinstance(node, ast.expr | ast.stmt) and (what := changed(copy.deepcopy(node))):
            line = lines[node.lineno - 1].strip()
            seen[line, what] += 1
            yield Mutant(file, number, node.lineno, what, f"{file}: {line}: {what}: {seen[line, what]}")


def sampled(every: list[Mutant], seed: int, count: int) -> list[Mutant]:
    """Return those mutants whose names have the smallest digests."""
    return sorted(every, key=lambda one: hashlib.sha256(f"{seed} {one.name}".encode()).digest())[:count]


def grow(mutant: Mutant) -> None:
    """Let this process compile the file of a mutant with the change."""
    path = SOURCE / mutant.file
    tree = ast.parse(path.read_text(encoding="utf-8"))
    changed(next(node for number, node in enumerate(places(tree)) if number == mutant.node))
    code, usual = compile(tree, str(path), "exec"), importlib.machinery.SourceFileLoader.get_code

    def get_code(self: Any, name: str) -> Any:
        return code if Path(self.path) == path else usual(self, name)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]


def lines_to_tests(data: Path) -> dict[str, dict[int, list[str]]]:
    """Run all tests once, and return for each file and line the tests that run it, quick ones first."""
    import coverage
    import pytest

    seconds = defaultdict[str, float](float)

    class Watch:
        """Tell the measurement which test runs, and note how long it took."""

        def pytest_runtest_setup(self, item: pytest.Item) -> None:
            measured.switch_context(item.nodeid)

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            seconds[report.nodeid] += report.duration

    measured = coverage.Coverage(data_file=None, include=[str(SOURCE / file) for file in TARGETS], config_file=False)
    measured.start()
    status = pytest.main([*QUIET, *TESTS], plugins=[Watch()])
    measured.stop()
    if status != 0:
        raise SystemExit("the tests fail without any mutant")
    found: dict[str, dict[int, list[str]]] = {}
    for file in TARGETS:
        lines = measured.get_data().contexts_by_lineno(str(SOURCE / file))
        found[file] = {
            line: sorted({one for one in tests if one}, key=seconds.__getitem__) for line, tests in lines.items()
        }
    data.write_text(json.dumps(found), encoding="utf-8")
    return found


class Clock:
    """End the process in a test that takes too long: all tests of a line together may take longer."""

    def pytest_runtest_setup(self) -> None:
        """Begin to count anew."""
        signal.alarm(SECONDS)


def survives(mutant: Mutant, tests: list[str]) -> bool:
    """Try a mutant in a forked process; one that crashes or never ends is noticed."""
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        try:
            grow(mutant)
            import pytest

            status = int(pytest.main([*QUIET, *tests], plugins=[Clock()]))
        except BaseException:
            status = 1
        os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def preload() -> None:
    """Load the libraries once, for all mutants; nothing of attnflow."""
    for name in ("hypothesis", "matplotlib.pyplot", "numba", "scipy.stats", "sybil.parsers.markdown", "flint"):
        importlib.import_module(name)


def main() -> None:
    """Try a sample of mutants and print those that survive."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--skip", type=int, default=0, help="leave out so many of the sample, which were tried before")
    parser.add_argument("--only", type=int, nargs="*", help="numbers in the sample, as printed: try these again")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--map", type=Path, default=Path("out/mutants.json"), help="which tests run which line")
    given = parser.parse_args()
    os.chdir(ROOT)
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = tempfile.mkdtemp()
    given.map.parent.mkdir(parents=True, exist_ok=True)
    if not given.map.exists() and os.fork() == 0:
        lines_to_tests(given.map)
        sys.stdout.flush()
        os._exit(0)
    while not given.map.exists():
        if os.wait()[1]:
            raise SystemExit(1)
    known = json.loads(given.map.read_text(encoding="utf-8"))
    every = [mutant for file in TARGETS for mutant in mutants(file)]
    drawn = list(enumerate(sampled(every, given.seed, given.count)))
    sample = drawn[given.skip :] if given.only is None else [drawn[number] for number in given.only]
    preload()
    alive, begun = 0, time.perf_counter()
    for count, (number, mutant) in enumerate(sample, start=1):
        lines = known[mutant.file]
        tests = lines.get(str(mutant.line)) or sorted({one for some in lines.values() for one in some})
        if survives(mutant, tests):
            alive += 1
            print(f"{number}. {mutant.file}:{mutant.line}: {mutant.what} ({len(tests)} tests)", flush=True)
        if count % 20 == 0:
            print(f"  {count} tried, {alive} survive, {time.perf_counter() - begun:.0f} s", flush=True)
    print(f"of {len(sample)} mutants, a sample of {len(every)}, {alive} survive ({alive / len(sample):.1%})")


if __name__ == "__main__":
    main()
