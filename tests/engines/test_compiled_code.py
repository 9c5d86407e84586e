"""Compiled kernels are kept on disk until any file of kernels changes."""

from __future__ import annotations

import importlib
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core import event
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

import attnflow
from attnflow.engines import compilation
from attnflow.engines.compilation import FOLDERS, version_of_kernels
from attnflow.engines.kernels import is_far

ROOT = Path(attnflow.__file__).parent
KERNELS = [
    ".".join(("attnflow", *file.relative_to(ROOT).with_suffix("").parts))
    for file in sorted([*ROOT.glob("engines/*.py"), *ROOT.glob("motions/**/*.py")])
    if "kernels import compiled" in (text := file.read_text()) or "@compiled" in text
]


@pytest.mark.parametrize("name", KERNELS)
def test_compiled_code_holds_that_of_kernels_alone(name: str) -> None:
    """So the digest of all files in the folders of kernels changes with whatever the code holds."""
    module = importlib.import_module(name)
    code = [thing for thing in vars(module).values() if isinstance(thing, (Dispatcher, _Intrinsic))]
    names = {(thing._defn if isinstance(thing, _Intrinsic) else thing.py_func).__module__ for thing in code}
    assert any(isinstance(thing, Dispatcher) and thing.py_func.__module__ == name for thing in code)
    folders = {str(Path(str(sys.modules[held].__file__)).parent.relative_to(ROOT)) for held in names}
    assert folders <= set(FOLDERS)


def test_code_on_disk_is_not_read_once_a_kernel_has_changed(tmp_path: Path) -> None:
    """An index that names a module of an older version, which is no more, would end in a traceback."""
    file = is_far._cache._cache_file
    before = vars(file)["_index_path"]
    vars(file)["_index_path"] = str(tmp_path / "index.nbi")
    try:
        for version, ends in ((numba.__version__, False), (version_of_kernels(ROOT), True)):
            (tmp_path / "index.nbi").write_bytes(pickle.dumps(version) + b"cattnflow.engines.gone\nis_far\n.")
            if ends:
                with pytest.raises(ModuleNotFoundError):
                    file._load_index()
            else:
                assert file._load_index() == {}
    finally:
        vars(file)["_index_path"] = before


def test_the_digest_follows_every_file_of_kernels(tmp_path: Path) -> None:
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    assert version_of_kernels(tmp_path) == version_of_kernels(ROOT)
    version_of_kernels.cache_clear()
    with (tmp_path / "engines" / "simd.py").open("a") as file:
        file.write("# another\n")
    assert version_of_kernels(tmp_path) != version_of_kernels(ROOT)


@pytest.mark.parametrize("name", KERNELS)
def test_only_python_calls_parallel_code(name: str) -> None:
    # Numba starts its threads when it loads a parallel function from disk, but not when it loads a function that calls
    # one: called first in a new process, that function crashes the interpreter.
    for thing in vars(importlib.import_module(name)).values():
        if isinstance(thing, Dispatcher):
            called = [thing.py_func.__globals__.get(word) for word in thing.py_func.__code__.co_names]
            parallel = [each for each in called if isinstance(each, Dispatcher) and each.targetoptions.get("parallel")]
            assert not parallel, f"{thing.py_func.__name__} is compiled and calls {parallel[0].py_func.__name__}"


def test_a_compilation_is_known_while_it_lasts() -> None:
    seen = []

    class Ear(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            seen.append(compilation.compiling())

        def on_end(self, event: Any) -> None:
            """Compilations inside of this one have ended."""

    def double(x: float) -> float:
        return 2 * x

    compilation.announce()
    ear = Ear()
    event.register("numba:compile", ear)
    try:
        for module, ours in (("elsewhere", False), ("attnflow.engines.made_here", True)):
            double.__module__ = module
            seen.clear()
            assert numba.njit(double)(1.0) == 2.0
            assert seen == [ours]
            assert not compilation.compiling()
    finally:
        event.unregister("numba:compile", ear)
