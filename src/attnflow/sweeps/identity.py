"""What a function is, beyond its name: two functions with the same identity do the same.

The identity of a function is made of its compiled code, its defaults, and what it refers to: closures, globals, and
functions and classes of the user's own. Code that is installed counts by its name. Neither the file a function stands
in nor its lines, comments and documentation count, so that a cell of a notebook can be run again.
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
from typing import Any

import numpy as np

from attnflow.sweeps.own_code import is_own

PLAIN = (str, bytes, int, float, complex, type(None), type(...))


def digest(*parts: Any) -> str:
    """Return the identity of functions and values as text.

    >>> f = lambda beta: beta + 1
    >>> g = lambda beta: beta + 1
    >>> digest(f) == digest(g), digest(f) == digest(lambda beta: beta + 2)
    (True, False)
    """
    identity = _Identity()
    for part in parts:
        identity.add(part)
    return identity.hash.hexdigest()


def language() -> str:
    """Return the version of Python, whose compiled code the identity of a function is made of."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


class _Identity:
    def __init__(self) -> None:
        self.hash = hashlib.sha256()
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
                self.hash.update(np.ascontiguousarray(part).tobytes())
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

    def _text(self, text: str) -> None:
        self.hash.update(f"{len(text)}:{text}".encode())

    def _all(self, parts: Any) -> None:
        self._text(str(len(parts)))
        for part in parts:
            self.add(part)

    def _code(self, code: CodeType, constants: Iterable[Any]) -> None:
        self.hash.update(code.co_code)
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
        self._all((function.__defaults__, function.__kwdefaults__))
        self._all(tuple(cell.cell_contents for cell in function.__closure__ or () if _filled(cell)))
        for name, value in sorted(_globals(function).items()):
            self._text(name)
            self.add(value)

    def _class(self, kind: type) -> None:
        self._text(f"{kind.__module__}.{kind.__qualname__}")
        if is_own(sys.modules.get(kind.__module__)):
            self._all(kind.__bases__)
            for name, part in sorted(vars(kind).items()):
                special = name.startswith("__") or name == "_abc_impl"
                if not special or isinstance(part, FunctionType):
                    self._text(name)
                    self.add(part)

    def _object(self, part: Any) -> None:
        self.add(type(part))
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
    """Return what a function, and those written inside it, look up in its module: names such as `f` and `module.f`.

    Names that it changes itself are left out.
    """
    found: dict[str, Any] = {}
    changed = set()
    for code in _codes(function.__code__):
        steps = list(dis.get_instructions(code))
        for k, step in enumerate(steps):
            if step.opname == "STORE_GLOBAL":
                changed.add(step.argval)
            elif step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval in function.__globals__:
                name, value = step.argval, function.__globals__[step.argval]
                for after in steps[k + 1 :]:
                    if not (
                        isinstance(value, ModuleType) and is_own(value) and after.opname in ("LOAD_ATTR", "LOAD_METHOD")
                    ):
                        break
                    name, value = f"{name}.{after.argval}", getattr(value, after.argval, None)
                found[name] = value
    return {name: value for name, value in found.items() if name not in changed}


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
