"""What a function is, beyond its name: two functions with the same identity do the same.

The identity of a function is made of its compiled code, its defaults, its attributes, and what it refers to: closures,
globals, what it imports, and functions and classes of the user's own. Code that is installed counts by its name.
Neither the file a function stands in nor its lines, comments and documentation count, so that a cell of a notebook can
be run again.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import hashlib
import inspect
import sys
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from attnflow.core.own_code import is_own, own_module

PLAIN = (str, bytes, int, float, complex, type(None), type(...))


def digest(*parts: Any) -> str:
    """Return the identity of functions and values as text.

    >>> f = lambda beta: beta + 1
    >>> g = lambda beta: beta + 1
    >>> digest(f) == digest(g), digest(f) == digest(lambda beta: beta + 2)
    (True, False)
    """
    return _identity(parts).hash.hexdigest()


class OwnModules(NamedTuple):
    """Modules of the user's own by name: all that some functions and values refer to, and those that they import."""

    all: dict[str, ModuleType]
    imported: dict[str, ModuleType]


def own_modules(*parts: Any) -> OwnModules:
    """Return the modules of the user's own that count in the identity, without the script or notebook itself."""
    return _identity(parts).modules


def language() -> str:
    """Return the version of Python, whose compiled code the identity of a function is made of."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _identity(parts: Iterable[Any]) -> _Identity:
    identity = _Identity()
    for part in parts:
        identity.add(part)
    return identity


class _Identity:
    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.modules = OwnModules({}, {})
        # What was added, by its address, with its number: kept, so that no other object gets the same address.
        self.seen: dict[int, tuple[int, Any]] = {}

    def add(self, part: Any) -> None:
        """Add anything."""
        if isinstance(part, np.generic):
            part = np.asarray(part)
        self._text(type(part).__qualname__)
        if isinstance(part, PLAIN):
            self._text(repr(part))
        elif isinstance(part, tuple):
            self._all(part)
        elif isinstance(part, set | frozenset):
            self._all(sorted(map(digest, part)))
        elif isinstance(part, CodeType):
            self._code(part, part.co_consts)
        elif isinstance(part, ModuleType | BuiltinFunctionType):
            self._text(part.__name__)
            self._reach(part.__name__ if isinstance(part, ModuleType) else None)
        elif id(part) in self.seen:
            self._text(f"part {self.seen[id(part)][0]}")
        else:
            self.seen[id(part)] = len(self.seen), part
            self._new(part)

    def _new(self, part: Any) -> None:
        """Add what may refer to itself."""
        if isinstance(part, np.ndarray):
            self._text(f"{part.dtype.descr}{part.shape}")
            if part.dtype.hasobject:
                self._all(part.ravel().tolist())
            else:
                self.hash.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        elif isinstance(part, list):
            self._all(part)
        elif isinstance(part, dict):
            self._all([item for pair in part.items() for item in pair])
        elif isinstance(part, FunctionType):
            self._function(part)
        elif isinstance(part, type):
            self._class(part)
        elif isinstance(part, MethodType):
            self._all([part.__func__, part.__self__])
        elif isinstance(part, functools.partial):
            self._all([part.func, part.args, part.keywords])
        elif isinstance(part, property):
            self._all([part.fget, part.fset])
        elif isinstance(inner := getattr(part, "py_func", getattr(part, "__wrapped__", None)), FunctionType):
            # Compiled by Numba, kept by functools.cache, a static method: what it is made from says what it does.
            self.add(inner)
        else:
            self._object(part)

    def _reach(self, name: str | None) -> bool:
        """Say whether a module is the user's own, and remember it."""
        module = sys.modules.get(name or "__main__")
        own = is_own(module)
        if own and module is not None and module.__name__ != "__main__":
            self.modules.all[module.__name__] = module
        return own

    def _text(self, text: str) -> None:
        self.hash.update(f"{len(text)}:{text}".encode())

    def _all(self, parts: Any) -> None:
        self._text(str(len(parts)))
        for part in parts:
            self.add(part)

    def _code(self, code: CodeType, constants: Iterable[Any]) -> None:
        self.hash.update(code.co_code + code.co_exceptiontable)
        self._all(tuple(constants))
        self._all((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
        takes_more = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        self._all((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, takes_more))

    def _function(self, function: FunctionType) -> None:
        if _installed(function):
            self._text(f"{function.__module__}.{function.__qualname__}")
            return
        code = function.__code__
        documented = function.__doc__ is not None and code.co_consts[:1] == (function.__doc__,)
        self._code(code, code.co_consts[documented:])
        self._reach(function.__module__)
        self._all((function.__defaults__, function.__kwdefaults__))
        closure = tuple(cell.cell_contents for cell in function.__closure__ or () if _filled(cell))
        self._all(closure)
        imported = {module.__name__: module for module in _imported(function)}
        self.modules.imported.update(imported)
        found = _globals(function) | imported
        modules = [part for part in (*closure, *found.values()) if isinstance(part, ModuleType) and is_own(part)]
        found |= _parts(modules, {name for code in _codes(function.__code__) for name in code.co_names})
        found |= {f".{name}": value for name, value in vars(function).items() if name not in _stored(function)}
        for name, value in sorted(found.items()):
            self._text(name)
            self.add(value)

    def _class(self, kind: type) -> None:
        self._text(f"{kind.__module__}.{kind.__qualname__}")
        if self._reach(kind.__module__):
            self._all(kind.__bases__)
            for name, part in sorted(vars(kind).items()):
                special = name.startswith("__") or name == "_abc_impl"
                if not special or isinstance(part, FunctionType):
                    self._text(name)
                    self.add(part)

    def _object(self, part: Any) -> None:
        self.add(type(part))
        if isinstance(own := getattr(part, "digest", None), str):
            # Weights of a trained layer, which it has gone through before.
            self._text(own)
            return
        if dataclasses.is_dataclass(part):
            # Its other attributes may be kept only once it was used.
            self._all([getattr(part, field.name, None) for field in dataclasses.fields(part)])
            return
        try:
            reduced = part.__reduce_ex__(4)
        except Exception:
            # Nothing is known of locks, open files and the like, beyond what they are.
            return
        made = reduced if isinstance(reduced, str) else (*reduced[:3], *(list(more or ()) for more in reduced[3:5]))
        self.add(made)


def _installed(function: FunctionType) -> bool:
    """Say whether a function is installed code, which its name is enough for: not so one made inside another."""
    module: Any = sys.modules.get(function.__module__ or "__main__")
    if is_own(module):
        return False
    try:
        return functools.reduce(getattr, function.__qualname__.split("."), module) is function
    except AttributeError:
        return False


def _globals(function: FunctionType) -> dict[str, Any]:
    """Return what a function, and those written inside it, look up in its module, but not what it changes itself."""
    steps = [step for code in _codes(function.__code__) for step in dis.get_instructions(code)]
    changed = {step.argval for step in steps if step.opname == "STORE_GLOBAL"}
    names = {step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")} - changed
    return {name: function.__globals__[name] for name in names if name in function.__globals__}


def _stored(function: FunctionType) -> set[str]:
    """Return the names of all attributes that a function changes, of itself or of others."""
    codes = _codes(function.__code__)
    return {step.argval for code in codes for step in dis.get_instructions(code) if step.opname == "STORE_ATTR"}


def _imported(function: FunctionType) -> Iterator[ModuleType]:
    """Yield the modules of the user's own, with the packages they are in, that a function imports when it runs."""
    for code in _codes(function.__code__):
        steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
        for k, step in enumerate(steps):
            if step.opname != "IMPORT_NAME":
                continue
            # Before it stand the number of dots, and the names that are imported from the module.
            level, names = steps[k - 2].argval, steps[k - 1].argval or ()
            home = (function.__globals__.get("__package__") or "").split(".")
            words = [*home[: len(home) + 1 - level], *filter(None, [step.argval])] if level else step.argval.split(".")
            whole = [".".join(words[: j + 1]) for j in range(len(words))]
            found = map(own_module, [*whole, *(f"{whole[-1]}.{name}" for name in names)])
            yield from (module for module in found if module is not None)


def _parts(modules: list[ModuleType], names: set[str]) -> dict[str, Any]:
    """Return the parts of modules that have these names, and of the user's own modules among them."""
    found: dict[str, Any] = {}
    waiting, seen = list(modules), set[str]()
    while waiting:
        module = waiting.pop()
        if module.__name__ in seen:
            continue
        seen.add(module.__name__)
        for name in names & vars(module).keys():
            value = found[f"{module.__name__}.{name}"] = vars(module)[name]
            if isinstance(value, ModuleType) and is_own(value):
                waiting.append(value)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of those written inside it."""
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _codes(part)


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
