"""Numba keeps compiled kernels on disk until their own file changes: it must change with all files it has code from."""

from __future__ import annotations

import hashlib
import importlib
import sys
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

import attnflow

ROOT = Path(attnflow.__file__).parent
KERNELS = [
    ".".join(("attnflow", *file.relative_to(ROOT).with_suffix("").parts))
    for file in sorted([*ROOT.glob("engines/*.py"), *ROOT.glob("motions/**/*.py")])
    if "kernels import compiled" in (text := file.read_text()) or "@compiled" in text
]


@pytest.mark.parametrize("name", KERNELS)
def test_compiled_code_is_renewed_with_what_it_holds(name: str) -> None:
    module = importlib.import_module(name)
    code = [thing for thing in vars(module).values() if isinstance(thing, (Dispatcher, _Intrinsic))]
    names = {(thing._defn if isinstance(thing, _Intrinsic) else thing.py_func).__module__ for thing in code}
    assert any(isinstance(thing, Dispatcher) and thing.py_func.__module__ == name for thing in code)
    for held in sorted(names - {name}):
        digest = hashlib.sha256(Path(str(sys.modules[held].__file__)).read_bytes()).hexdigest()[:16]
        noted = module.COPIES.get(held.rpartition(".")[2])
        assert noted == digest, f"{name} must say that {held} is {digest}"


@pytest.mark.parametrize("name", KERNELS)
def test_only_python_calls_parallel_code(name: str) -> None:
    # Numba starts its threads when it loads a parallel function from disk, but not when it loads a function that calls
    # one: called first in a new process, that function crashes the interpreter.
    for thing in vars(importlib.import_module(name)).values():
        if isinstance(thing, Dispatcher):
            called = [thing.py_func.__globals__.get(word) for word in thing.py_func.__code__.co_names]
            parallel = [each for each in called if isinstance(each, Dispatcher) and each.targetoptions.get("parallel")]
            assert not parallel, f"{thing.py_func.__name__} is compiled and calls {parallel[0].py_func.__name__}"
