"""Arrays of other libraries: torch, JAX, CuPy, and whatever else keeps the array API standard.

A formula that such arrays may enter is written once, for all of them and for NumPy: with operators, and with the
functions of the library that its arrays come from,

    xp = namespace(x);  xp.exp(x), xp.where(x > 0, x, 0.0), xp.max(x, axis=-1, keepdims=True)...

JAX says itself which functions those are; torch and CuPy are found by the class of their arrays. So no library is ever
imported here that its user has not loaded, and no package is needed that smooths out their differences: of the dozen
functions in use, torch spells one in another way.

References
----------
Consortium for Python Data API Standards, *Python array API standard* (2024.12), https://data-apis.org/array-api.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np

# Types that are certainly no arrays of another library.
_ORDINARY = (np.ndarray, np.generic, float, int, list, tuple)


class _Torch:
    """The functions of torch, where a maximum along an axis has another name."""

    def __init__(self, torch: ModuleType) -> None:
        self.torch, self.max = torch, torch.amax

    def __getattr__(self, name: str) -> Any:
        return getattr(self.torch, name)


def foreign(x: Any) -> bool:
    """Say whether x is an array of another library than NumPy.

    >>> foreign(np.eye(2)), foreign([[1.0]]), foreign(1.0)
    (False, False, False)
    """
    if isinstance(x, _ORDINARY):
        return False
    return hasattr(x, "dtype") and (hasattr(x, "__array_namespace__") or _home(x) is not None)


def _home(x: Any) -> str | None:
    """Return the library of x, among those that are recognised by the class of their arrays."""
    modules = {base.__module__.partition(".")[0] for base in type(x).__mro__}
    return next((name for name in ("torch", "cupy") if name in modules), None)


def namespace(x: Any) -> Any:
    """Return the functions for x: those of its library, or of NumPy.

    >>> namespace(np.eye(2)) is np
    True
    """
    if not foreign(x):
        return np
    home = _home(x)
    functions = x.__array_namespace__() if home is None else sys.modules[home]
    return _Torch(functions) if home == "torch" else functions


def library(x: Any) -> str:
    """Return the name of the library of x.

    >>> library(np.eye(2))
    'numpy'
    """
    name: str = _home(x) or namespace(x).__name__
    return name.partition(".")[0]


def precision(x: Any) -> str:
    """Return the type of the entries of x, without the name of the library.

    >>> precision(np.eye(2))
    'float64'
    """
    return str(x.dtype).rpartition(".")[2]


def is_real(x: Any) -> bool:
    """Say whether the entries of x are floating-point numbers, not whole, complex or Boolean ones.

    >>> is_real(np.eye(2)), is_real(np.arange(2))
    (True, False)
    """
    return "float" in precision(x)


def place(x: Any) -> dict[str, Any]:
    """Return the keywords that create an array where x is; JAX moves new arrays to old ones by itself.

    >>> place(np.eye(2))
    {}
    """
    return {"device": x.device} if library(x) == "torch" else {}


def cast(value: Any, like: Any) -> Any:
    """Return a value with the library, the precision and the device of an array; derivatives pass through.

    >>> cast([1, 2], like=np.eye(2))
    array([1., 2.])
    """
    if library(like) == "torch" and foreign(value):
        return value.to(like)
    return namespace(like).asarray(value, dtype=like.dtype, **place(like))


def plain(value: Any) -> Any:
    """Return an array of another library as a NumPy array, without its derivatives; leave all else as it is.

    An array whose values are not known yet, because JAX is tracing a function, raises TypeError.
    """
    if not foreign(value):
        return value
    for leave in ("detach", "cpu", "get"):  # the graph and the device of torch, the device of CuPy
        value = getattr(value, leave)() if hasattr(value, leave) else value
    return np.asarray(value)


def holds(condition: Any) -> bool:
    """Say whether all entries are true, as far as is known: while a library traces a function, values are not.

    >>> holds(np.array([True, False]))
    False
    """
    try:
        return bool(condition.all())
    except (TypeError, RuntimeError):
        if foreign(condition):
            return True
        raise


def sign(number: Any) -> Any:
    """Return -1 for negative numbers and 1 for all others, zero included.

    >>> sign(-2.5), sign(0.0)
    (-1.0, 1.0)
    """
    if not foreign(number):
        return -1.0 if number < 0 else 1.0
    xp = namespace(number)
    return xp.where(number < 0, -xp.ones_like(number), xp.ones_like(number))


def identity(d: int, like: Any) -> Any:
    """Return the identity matrix, with the library, the precision and the device of an array.

    >>> identity(1, like=np.zeros(3))
    array([[1.]])
    """
    return namespace(like).eye(d, dtype=like.dtype, **place(like))
