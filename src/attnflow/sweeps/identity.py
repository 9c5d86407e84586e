"""What a function is, beyond its name: two functions with the same identity do the same.

The identity of a function is made of its compiled code, its defaults, and what it refers to: closures, globals, and the
functions that it calls, as long as they are written in the same module. Neither the file it stands in nor its lines
count, so that a cell of a notebook can be run again, and a comment can be added.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import sys
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np


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


class _Identity:
    def __init__(self) -> None:
        self.hash, self.seen = hashlib.sha256(), set[int]()

    def add(self, part: Any) -> None:
        """Add anything."""
        if id(part) in self.seen:
            return
        self._text(type(part).__qualname__)
        if isinstance(part, str | bytes | int | float | complex | None):
            self._text(repr(part))
        elif isinstance(part, np.ndarray) and part.dtype != object:
            self._text(f"{part.dtype.str}{part.shape}")
            self.hash.update(np.ascontiguousarray(part).tobytes())
        elif isinstance(part, list | tuple):
            self._all(part)
        elif isinstance(part, set | frozenset):
            self._all(sorted(part, key=repr))
        elif isinstance(part, dict):
            self._all([item for pair in part.items() for item in pair])
        elif isinstance(part, CodeType):
            self._code(part)
        elif isinstance(part, FunctionType):
            self._function(part)
        elif isinstance(part, MethodType):
            self._all([part.__func__, part.__self__])
        elif isinstance(part, functools.partial):
            self._all([part.func, part.args, part.keywords])
        elif isinstance(part, ModuleType | BuiltinFunctionType):
            self._text(part.__name__)
        elif isinstance(part, type):
            self._class(part)
        else:
            self._object(part)

    def _text(self, text: str) -> None:
        self.hash.update(f"{len(text)}:{text}".encode())

    def _all(self, parts: Any) -> None:
        self._text(str(len(parts)))
        for part in parts:
            self.add(part)

    def _code(self, code: CodeType) -> None:
        self.hash.update(code.co_code)
        self._all([code.co_consts, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars])

    def _function(self, function: FunctionType) -> None:
        self.seen.add(id(function))
        self._all([function.__code__, function.__defaults__, function.__kwdefaults__])
        self._all([cell.cell_contents for cell in function.__closure__ or () if _filled(cell)])
        for name in sorted(_names(function.__code__)):
            if name in function.__globals__:
                self._text(name)
                self._global(function.__globals__[name], function.__module__)

    def _global(self, value: Any, module: str) -> None:
        """Add what a function of this module refers to: what is imported from elsewhere by its name alone."""
        home = getattr(value, "__module__", None)
        if isinstance(value, FunctionType | type) and home not in (module, "__main__"):
            self._text(f"{home}.{value.__qualname__}")
        else:
            self.add(value)

    def _class(self, kind: type) -> None:
        self.seen.add(id(kind))
        self._text(f"{kind.__module__}.{kind.__qualname__}")
        if kind.__module__ == "__main__":
            methods = {name: part for name, part in vars(kind).items() if isinstance(part, FunctionType)}
            self._all([methods[name] for name in sorted(methods)])

    def _object(self, part: Any) -> None:
        self.seen.add(id(part))
        self.add(type(part))
        state = getattr(part, "__dict__", None)
        if isinstance(state, dict) and type(part).__module__.partition(".")[0] in ("__main__", "attnflow"):
            self.add(state)
            return
        try:
            self.hash.update(pickle.dumps(part))
        except Exception:
            self._text(f"{type(part).__module__}.{type(part).__qualname__}")


def _names(code: CodeType) -> set[str]:
    """Return the names that a function and those written inside it look up."""
    inner = [_names(part) for part in code.co_consts if isinstance(part, CodeType)]
    return set(code.co_names).union(*inner)


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def language() -> str:
    """Return the version of Python, whose compiled code the identity of a function is made of."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"
