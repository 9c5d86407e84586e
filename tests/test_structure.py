"""How the source is built: imports point one way, files are short, and nobody asks a law or a motion for its class."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import attnflow as af
from attnflow import catalogue, laws, motions

ROOT = Path(af.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
MOST_LINES = 500

# Each may import what stands before it. `catalogue` and `serialise` stand before `runs`, whose stores read them.
ORDER = (
    "core", "tokens", "geometry", "engines", "laws", "motions", "catalogue", "serialise", "runs", "watch", "sweeps",
    "densities", "measure", "enclosures", "claims", "figures", "checkpoints", "app", "explorer",
)  # fmt: skip
# What may reach forward, at call time alone: each is a public method that is shorter to write than its function.
FORWARD = {
    ("runs.trajectory", "Trajectory.plot", "figures"),
    ("runs.trajectory", "Trajectory.animate", "figures"),  # a picture of a run, as plot is
    ("runs.trajectory", "Trajectory.dashboard", "figures"),  # a picture of a run, as plot is
    ("runs.trajectory", "Trajectory.explore", "explorer"),  # the page of a run, as plot is its picture
    ("geometry.cells", "Cells.plot", "figures"),  # a picture of cells, as plot is of a run
    ("runs.trajectory", "Trajectory._predicted", "measure"),  # run.next_change, and its line in the table of a run
    ("app.cli", "_explore", "explorer"),  # the one command that starts the page, whose code reads flags of this room
}
# Those who ask for the class of a law or a motion: these alone, where the classes are defined and gathered.
MAY_ASK = ("laws", "motions", "catalogue")
# Attributes that `Motion` promises where another one is set: V of moving frames, gamma of chains.
DOCUMENTED = ("V", "gamma")
# Those who read another one where there is one, and can do without.
PROBED = {
    ("claims.experiment", "B"),
    ("claims.settled", "delta"),
    ("claims.sphere.collapse", "velocity"),
    ("enclosures.flows", "feed_forward"),
    ("explorer.applicable_claims", "ties"),
    ("measure.merges", "normalized"),
    ("measure.merges", "retracts"),
    ("measure.next_change", "b"),
    ("runs.ensembles", "helps"),
    ("runs.ensembles", "random_step"),
    ("runs.ensembles", "step"),
}


class Import(NamedTuple):
    """A module, the function in which it imports ("" at the top), what it imports, and whether for types alone."""

    module: str
    function: str
    target: str
    for_types: bool


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in FILES}


def imports(module: str, tree: ast.Module) -> Iterator[Import]:
    """Yield the imports of attnflow in a module, wherever they are."""

    def walk(node: ast.AST, function: str, for_types: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from walk(child, f"{function}.{child.name}".strip("."), for_types)
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                yield from walk(child, function, True)
            elif isinstance(child, ast.Import):
                yield from (Import(module, function, one.name, for_types) for one in child.names)
            elif isinstance(child, ast.ImportFrom):
                names = (f"{child.module}.{one.name}" for one in child.names)
                yield from (Import(module, function, name, for_types) for name in names)
            else:
                yield from walk(child, function, for_types)

    for one in walk(tree, "", False):
        first, _, rest = one.target.partition(".")
        if first != "attnflow":
            continue
        while rest not in MODULES:
            rest = rest.rpartition(".")[0]
        if rest != module:
            yield one._replace(target=rest)


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """The syntax tree of each module."""
    # In a thread of its own: after the greenlets of Playwright, CPython 3.11 can lose count of its depth in this one.
    with ThreadPoolExecutor(1) as thread:
        found = thread.map(lambda path: ast.parse(path.read_text(encoding="utf-8")), MODULES.values())
        return dict(zip(MODULES, found, strict=True))


@pytest.fixture(scope="module")
def all_imports(trees: dict[str, ast.Module]) -> list[Import]:
    """All imports of attnflow by attnflow."""
    return [one for module, tree in trees.items() for one in imports(module, tree)]


def room(module: str) -> str:
    return module.partition(".")[0]


def test_imports_point_one_way(all_imports: list[Import]) -> None:
    """No import reaches forward, at the top of a file or in a function, but those that are listed."""
    backward = set()
    for one in all_imports:
        here, there = room(one.module), room(one.target)
        if one.for_types or not there or here in ("", "__main__"):
            continue
        if ORDER.index(there) > ORDER.index(here):
            backward.add((one.module, one.function, there))
    assert backward == FORWARD


def test_no_imports_make_a_cycle(all_imports: list[Import]) -> None:
    """No module imports itself by way of others, at the top of files or in functions."""
    graph: dict[str, set[str]] = {}
    for one in all_imports:
        if not one.for_types and (one.module, one.function, room(one.target)) not in FORWARD:
            graph.setdefault(one.module, set()).add(one.target)
    TopologicalSorter(graph).prepare()  # raises a CycleError that names the cycle


def test_no_part_of_the_package_imports_the_whole(all_imports: list[Import]) -> None:
    """`import attnflow` gathers the public names: only what it does not import itself may use them in one piece."""
    reached, new = set[str](), {""}
    while new:
        reached |= new
        tops = {one.target for one in all_imports if one.module in new and not one.function and not one.for_types}
        new = {part for top in tops for part in _with_parents(top)} - reached
    assert {"runs.simulate", "laws.softmax", "figures"} <= reached
    assert not {one.module for one in all_imports if one.target == "" and not one.for_types} & reached


def _with_parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[: k + 1]) for k in range(len(parts))]


def test_files_are_short() -> None:
    long = {name: count for name, path in MODULES.items() if (count := len(path.read_text().splitlines())) > MOST_LINES}
    assert not long


def classes() -> set[str]:
    """Return the names of all classes of laws and motions, the bases too."""
    bases = (laws.Law, motions.Motion)
    held = [one for name in MODULES if room(name) in ("laws", "motions") for one in vars(_loaded(name)).values()]
    return {one.__name__ for one in held if inspect.isclass(one) and issubclass(one, bases)}


def _loaded(module: str) -> object:
    import importlib

    return importlib.import_module(f"attnflow.{module}")


def names() -> set[str]:
    """Return the names of all laws and motions in the catalogue, and of their classes."""
    return classes() | {name for kind in ("law", "motion") for name in catalogue.entries(kind)}


def asked(tree: ast.Module, known: set[str]) -> Iterator[int]:
    """Yield the lines that ask whether something is of one of these classes, or has one of these names."""

    def named(*nodes: ast.AST) -> bool:
        inside = [node for one in nodes for node in ast.walk(one)]
        return any(getattr(node, "id", getattr(node, "attr", getattr(node, "value", None))) in known for node in inside)

    def of_class(node: ast.AST) -> bool:
        return re.search(r"\btype\(|__class__|\bname\b|__name__", ast.unparse(node)) is not None

    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            what = ast.unparse(node.func)
            found = what.endswith("weighs_like")
            if what in ("isinstance", "issubclass"):
                # A variable may hold any class.
                of_any = re.match(r"isinstance\((\w+\.)*(law|motion), (?!type\b)[a-z]", ast.unparse(node))
                found = named(node.args[1]) or of_any is not None
        elif isinstance(node, ast.Compare):
            found = named(node.left, *node.comparators) and of_class(node)
        elif isinstance(node, ast.Subscript):
            found = isinstance(node.value, ast.Dict) and named(*filter(None, node.value.keys)) and of_class(node)
        else:
            found = isinstance(node, ast.MatchClass) and named(node.cls)
        if found:
            yield getattr(node, "lineno", 0)


def probed(tree: ast.Module) -> set[str]:
    """Return the attributes of laws and motions that are asked for although not every one of them has it."""
    every = {*dir(laws.Law), *dir(motions.Motion), "discrete"}
    asking = r"(?:has|get)attr\((?:\w+\.)*(?:law|motion), '(\w+)'"
    calls = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "")[3:] == "attr"
    ]
    return {found[1] for node in calls if (found := re.match(asking, ast.unparse(node)))} - every


def test_nobody_asks_a_law_or_a_motion_for_its_class(trees: dict[str, ast.Module]) -> None:
    """A law or a motion of another package must get every behaviour by its attributes (see `Law` and `Motion`)."""
    known = names()
    assert {"Law", "Softmax", "TopScores", "Motion", "Layers", "ContinuousMotion", "softmax", "sphere-flow"} <= known
    found = {
        f"{name}:{line}" for name, tree in trees.items() if room(name) not in MAY_ASK for line in asked(tree, known)
    }
    assert not found


def test_few_attributes_are_read_that_not_every_law_or_motion_has(trees: dict[str, ast.Module]) -> None:
    found = {(name, one) for name, tree in trees.items() if room(name) not in MAY_ASK for one in probed(tree)}
    assert {one for one in found if one[1] not in DOCUMENTED} <= PROBED


@pytest.mark.parametrize(
    "source",
    [
        "isinstance(law, af.Softmax)",
        "isinstance(run.motion, kind)",
        "type(motion) is Layers",
        "law.__class__ is Softmax",
        "type(law).__name__ == 'Softmax'",
        "law.name in ('softmax', 'other')",
        "data['name'] == 'softmax'",
        "{Softmax: 1}[type(law)]",
        "isinstance(x, int | Jumps)",
        "laws.weighs_like(a, B)",
    ],
)
def test_such_questions_are_seen(source: str) -> None:
    assert list(asked(ast.parse(source), names())) == [1]


def test_other_questions_are_not() -> None:
    for source in ("isinstance(law, type)", "kind == 'softmax'", "name == 'other'", "law.name == name"):
        assert not list(asked(ast.parse(source), names()))
    assert probed(ast.parse("hasattr(e.law, 'slack') or getattr(law, 'heads', ())")) == {"slack"}
