"""Parameters that are values, functions of time, or sequences with a value for each layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core.arrays import foreign, holds, is_real, namespace, plain
from attnflow.core.inputs.arrays import Array, any_square, any_vector, follow
from attnflow.core.inputs.values import InputError, number

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Scalar: TypeAlias = float | Sequence[float] | Callable[[float], float] | NDArray[Any]
Matrix: TypeAlias = ArrayLike | Callable[[float], ArrayLike] | None
Vector: TypeAlias = ArrayLike | Callable[[float], ArrayLike] | None


def called(function: Callable[[float], Any], t: float, name: str) -> Any:
    """Return the value at time t of a parameter that is a function; say so if it fails."""
    try:
        return function(t)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{name}, a function of time, failed at t = {t:g} ({error}): give one defined there"
        ) from error


def varies_in_time(value: object) -> TypeIs[Callable[..., Any]]:
    """Say whether a parameter is a function of time: a Python function, a formula in t, or a sequence over layers.

    >>> varies_in_time(0.5), varies_in_time(None), varies_in_time(np.eye(2))
    (False, False, False)
    >>> varies_in_time(lambda t: 2 / (t + 2)), varies_in_time(OverLayers([1.0, 4.0], "beta"))
    (True, True)
    """
    return callable(value)


class OverLayers:
    """A parameter with a value of its own in each layer: a function of the step t = 0, 1, ..., L - 1.

    After the last layer, at t = L, where a run of L layers ends and is measured, the value is that of the last one.

    >>> beta = OverLayers([1.0, 4.0], "beta")
    >>> beta(0), beta(1), beta(2)
    (1.0, 4.0, 4.0)
    """

    def __init__(self, values: Iterable[Any], name: str) -> None:
        self.values, self.name = tuple(values), name
        if not self.values:
            raise InputError(f"{name} is an empty sequence, expected a value for each layer")

    def __len__(self) -> int:
        return len(self.values)

    def __call__(self, t: float) -> Any:
        """Return the value in the step from x^t to x^{t+1}."""
        k = int(t)
        if k != t or k < 0:
            raise InputError(
                f"{self.name} is given layer by layer, but was asked for at t = {float(t):g}: give a whole number, "
                "or one value, or a function of time"
            )
        if k > len(self):
            raise InputError(
                f"{self._entries}, but was asked for at t = {k}: give at least {k + 1} entries, or a time up to "
                f"{len(self)}"
            )
        return self.values[min(k, len(self) - 1)]

    def check_length(self, steps: int, end: str = "until") -> None:
        """Refuse a run of more steps than there are entries; `end` is the parameter that says how many it has."""
        if steps > len(self):
            raise InputError(
                f"{self._entries}, but the run has {steps:.10g} layers: give at least {steps:.10g} entries, or "
                f"{end}={len(self)} at most"
            )

    @property
    def _entries(self) -> str:
        return f"{self.name} has {len(self)} {'entry' if len(self) == 1 else 'entries'}, one for each layer"

    def __repr__(self) -> str:
        return f"<{self.name} over {len(self)} layers>"


def constant_matrix(matrix: Matrix, name: str) -> Any:
    """Check a matrix parameter that is a value, or a sequence of values over layers; leave None and functions."""
    return constant(matrix, name, 2, any_square)


def constant_vector(vector: Vector, name: str) -> Any:
    """Check a vector parameter that is a value, or a sequence of values over layers; leave None and functions."""
    return constant(vector, name, 1, any_vector)


def constant(value: Any, name: str, axes: int, checked: Callable[[Any, str], Any]) -> Any:
    """Check a value that has `axes` axes; one axis more, or a list of such values, is a sequence over layers."""
    if value is None or varies_in_time(value):
        return value
    if _axes(value) != axes + 1:
        return checked(value, name)
    found = [checked(one, f"{name} of layer {k}") for k, one in enumerate(value)]
    for k, one in enumerate(found):
        if tuple(one.shape) != tuple(found[0].shape):
            raise InputError(
                f"{name} of layer {k} has shape {tuple(one.shape)}, that of layer 0 {tuple(found[0].shape)}: "
                "give all layers the same dimension"
            )
    return OverLayers(found, name)


def _axes(value: Any) -> int:
    """Return how many axes a value has, those of a list by its first item."""
    if isinstance(value, list | tuple):
        return 1 + (_axes(value[0]) if value else 0)
    return len(value.shape) if hasattr(value, "shape") else 0


def value_at(value: Any, t: float, name: str, like: Any, checked: Callable[[Any, str], Any]) -> Array | None:
    """Return a parameter at time t as an array of the tokens' library; what a function returns is checked first."""
    if value is None:
        return None
    if varies_in_time(value):
        value = checked(called(value, t, name), f"{name}({t:g})")
    found: Array = follow(value, like, name) if foreign(like) or foreign(value) else np.asarray(value, dtype=np.float64)
    return found


def vector_at(vector: Vector, t: float, d: int, name: str, like: Any = None) -> Array | None:
    """Value at time t of a parameter that passed `constant_vector`, for tokens (like these) in dimension d."""
    v = value_at(vector, t, name, like, any_vector)
    if v is not None and v.shape[0] != d:
        raise InputError(f"{name} holds {v.shape[0]} numbers, but the tokens have dimension {d}: give {d}")
    return v


def vectors_at(vector: Vector, times: range, d: int, name: str) -> Array:
    """Values at several times, stacked: one vector per time, one for all if it is constant, none for 0."""
    values = [vector_at(vector, t, d, name) for t in (times if varies_in_time(vector) else times[:1])]
    return np.array([value for value in values if value is not None]).reshape(-1, d)


def matrix_at(matrix: Matrix, t: float, d: int | None, name: str, like: Any = None) -> Array | None:
    """Value at time t of a parameter that passed `constant_matrix`, for tokens (like these) in dimension d.

    Without d the matrix may have any size.
    """
    m = value_at(matrix, t, name, like, any_square)
    if m is not None and d is not None and m.shape[0] != d:
        raise InputError(
            f"{name} has shape {tuple(m.shape)}, but the tokens have dimension {d}: give a {d} by {d} matrix"
        )
    return m


def constant_number(parameter: Any, name: str, **bounds: float) -> Any:
    """Check a parameter that is a value, or values: a list has one for each layer, an array one for each system.

    Systems are those of an ensemble. A function of time is checked whenever it is called.
    """
    if varies_in_time(parameter):
        return parameter
    if isinstance(parameter, str):
        raise InputError(
            f"{name} is {parameter!r}, expected a number or a function of time: give a function such as "
            "lambda t: 1 + t, or af.Schedule('1 + t') for a formula that is text"
        )
    if isinstance(parameter, list | tuple) or (foreign(parameter) and len(parameter.shape) == 1):
        values = [_any_number(value, f"{name} of layer {k}", **bounds) for k, value in enumerate(parameter)]
        return OverLayers(values, name)
    if isinstance(parameter, np.ndarray) and parameter.ndim == 1 and parameter.size:
        return np.array([number(value, f"an entry of {name}", **bounds) for value in parameter.tolist()])
    return _any_number(parameter, name, **bounds)


def _any_number(value: Any, name: str, **bounds: float) -> Any:
    """Check a number; one that is an array of another library stays as it is, so that it can be differentiated."""
    if not (foreign(value) and is_real(value) and len(value.shape) == 0):
        return number(value, name, **bounds)
    inside = namespace(value).isfinite(value) & (value > bounds.get("above", -inf))
    inside &= (value >= bounds.get("least", -inf)) & (value <= bounds.get("most", inf))
    return value if holds(inside) else number(plain(value), name, **bounds)


def number_at(parameter: Scalar, t: float, name: str, like: Any = None, **bounds: float) -> float:
    """Value at time t of a number or a function of time, checked against its bounds, for tokens like these.

    A number that is an array of another library stays one when the tokens are.
    """
    if type(parameter) is float:
        return parameter
    if varies_in_time(parameter):
        parameter = _any_number(called(parameter, t, name), f"{name}({t:g})", **bounds)
    if not foreign(parameter):
        return _one_number(parameter, name)
    followed = follow(parameter, like, name)
    return followed if foreign(like) else float(followed)


def _one_number(parameter: Any, name: str) -> float:
    if isinstance(parameter, np.ndarray):
        raise InputError(
            f"{name} is an array of {len(parameter)} numbers, one for each system: use ensemble, or give one number, "
            "or a list for one in each layer"
        )
    return float(parameter)


def numbers_at(parameter: Scalar, times: range, name: str, **bounds: float) -> Array:
    """Values at several times of a number or a function of time."""
    if varies_in_time(parameter):
        return np.array([number_at(parameter, t, name, **bounds) for t in times])
    return np.full(len(times), number_at(parameter, times[0], name))
