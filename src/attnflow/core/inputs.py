"""What users bring: arrays, masses, matrices and parameters of time, each checked once.

Every refusal is an `InputError`: one sentence that says what was given, what was expected and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf, isfinite
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core.arrays import cast, foreign, holds, is_real, library, namespace, plain, precision

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Array: TypeAlias = NDArray[np.float64]
Scalar: TypeAlias = float | Sequence[float] | Callable[[float], float] | NDArray[Any]
Matrix: TypeAlias = ArrayLike | Callable[[float], ArrayLike] | None
Vector: TypeAlias = ArrayLike | Callable[[float], ArrayLike] | None

MASS_RATIO = 1e140
SMALLEST_CLOUD, LARGEST_CLOUD = 1e-140, 1e150
# What to do with an array of another library where it cannot be used.
CONVERT = "convert them with numpy.asarray"
# What to do with a Dask array where it cannot be used.
SAMPLE = "take a sample that fits in one process, such as x[:100_000].compute()"


class InputError(ValueError):
    """What was given cannot be used; the message says what was expected and what to do."""

    def __init__(self, sentence: str = "") -> None:
        # Arrays that are shown in it would break it into lines.
        super().__init__(" ".join(sentence.split()) if "\n" in sentence else sentence)


# Where users know it from.
InputError.__module__ = "attnflow"


def quoted(value: Any) -> str:
    """Return a value for a sentence: an array by its shape, anything else in at most 80 characters.

    >>> quoted(np.zeros((60, 2))), quoted("softmax"), len(quoted([1.0] * 500))
    ('an array of shape (60, 2)', "'softmax'", 80)
    """
    if hasattr(value, "shape") and np.ndim(value):
        return f"an array of shape {tuple(value.shape)}"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def reals(value: Any, what: str, wanted: str) -> Array:
    """Return a float64 array of real numbers; `what` begins the sentence of a refusal, as in "masses are"."""
    if hasattr(value, "__dask_graph__") and value.__dask_graph__() is not None:
        # Converting it would compute all of it, perhaps many gigabytes, in this process.
        raise InputError(f"{what} in Dask, which is not taken here as a whole: {SAMPLE}")
    try:
        given = np.asarray(plain(value))
        if given.dtype == object and all(isinstance(item, int) for item in given.flat):  # steps beyond int64
            given = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} not an array of numbers: give {wanted}") from None
    if given.dtype.kind == "c":
        raise InputError(f"{what} complex: give {wanted}, all real")
    if given.dtype.kind not in "biuf" and given.size:
        raise InputError(f"{what} not an array of numbers: give {wanted}")
    return np.array(given, dtype=np.float64, order="C")


def cloud(tokens: ArrayLike, name: str = "tokens") -> Array:
    """Check a configuration of tokens and return it as a C-contiguous (n, d) float64 array."""
    x = reals(tokens, f"{name} are", "n rows of d numbers")
    _rows_of_numbers(x.shape, name)
    if not np.isfinite(x).all():
        bad = int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
        raise InputError(f"{name} hold a value that is not finite in row {bad}: remove or replace that row")
    largest = float(np.abs(x).max())
    if 0 < largest < SMALLEST_CLOUD or largest > LARGEST_CLOUD:
        raise InputError(f"{name} are of size {largest:.3g}, where scores leave float64: multiply them by a constant")
    return x


def _rows_of_numbers(given: Iterable[int], name: str) -> None:
    shape = tuple(given)
    if len(shape) == 1 and 0 not in shape:
        raise InputError(f"{name} have shape {shape}, expected (n, d): for points on the line use x.reshape(-1, 1)")
    if len(shape) != 2:
        raise InputError(f"{name} have shape {shape}, expected (n, d): give n rows of d numbers")
    if 0 in shape:
        raise InputError(f"{name} are empty, with shape {shape}: give at least one row of at least one number")


def any_cloud(tokens: Any, *users: Any) -> Any:
    """Check tokens that may be of another library than NumPy, and then stay as they are, if all users take them.

    >>> any_cloud([[1, 2]])
    array([[1., 2.]])
    """
    if not foreign(tokens):
        return cloud(tokens)
    for user in users:
        if not user.array_api:
            ties = f" with ties={user.ties!r}" if hasattr(user, "ties") else ""
            name = f"{type(user).__name__}{ties}"
            raise InputError(f"{name} takes NumPy arrays alone, not those of {library(tokens)}: {CONVERT}")
    if not is_real(tokens):
        raise InputError(f"tokens are {precision(tokens)}, expected floating-point numbers such as float32 or float64")
    _rows_of_numbers(tokens.shape, "tokens")
    if not holds(namespace(tokens).isfinite(tokens)):
        raise InputError("tokens hold a value that is not finite: remove or replace that row")
    return tokens


def follow(value: Any, like: Any, name: str) -> Any:
    """Return a parameter with the library, the precision and the device of the tokens, which decide for both.

    >>> follow([[1]], np.zeros((2, 1)), "B")
    array([[1.]])
    """
    if foreign(like) and foreign(value) and library(like) != library(value):
        raise InputError(f"{name} is of {library(value)}, the tokens are of {library(like)}: give both in one library")
    if foreign(like):
        return cast(value, like)
    try:
        return np.asarray(plain(value), dtype=np.float64)
    except (TypeError, RuntimeError):
        raise InputError(
            f"{name} is traced by {library(value)}, expected a number that is known, or tokens that are an array of "
            "that library in a law that can be differentiated in it"
        ) from None


def points_of(points: ArrayLike, d: int, name: str = "points") -> tuple[Array, bool]:
    """Check points of R^d: one (d,) or several (m, d). Return them as rows, and whether it was one."""
    p = reals(points, f"{name} are", f"rows of {d} numbers")
    rows = p[None] if p.ndim == 1 else p
    if rows.ndim != 2 or rows.shape[1] != d:
        raise InputError(f"{name} have shape {p.shape}, expected ({d},) or (m, {d}): one row per point")
    if not np.isfinite(rows).all():
        raise InputError(f"{name} hold a value that is not finite: give finite coordinates")
    if rows.size and np.abs(rows).max() > LARGEST_CLOUD:
        raise InputError(f"{name} are of size {np.abs(rows).max():.3g}, where squares leave float64: rescale them")
    return rows, p.ndim == 1


def mass_vector(masses: Any, n: int, like: Any = None) -> Array | None:
    """Check the masses of n tokens: positive, finite, within a factor of 1e140 of each other.

    With tokens given, those of another library decide for the masses too.
    """
    if masses is None:
        return None
    if foreign(like) and foreign(masses):
        if tuple(masses.shape) != (n,) or not holds(namespace(masses).isfinite(masses) & (masses > 0)):
            raise InputError(f"masses are not {n} positive finite numbers: give one for each token")
        return follow(masses, like, "masses")
    if foreign(like):
        return follow(mass_vector(masses, n), like, "masses")
    w = reals(masses, "masses are", "one positive number per token")
    if w.shape != (n,):
        raise InputError(f"masses have shape {w.shape}, expected ({n},): give one positive number per token")
    if not (np.isfinite(w).all() and (w > 0).all()):
        bad = int(np.flatnonzero(~(np.isfinite(w) & (w > 0)))[0])
        raise InputError(f"mass {bad} is {w[bad]}, expected a positive finite number: leave out tokens without mass")
    if w.max() / MASS_RATIO > w.min():
        raise InputError(f"masses span a factor of more than {MASS_RATIO:g}: leave out the negligible tokens")
    return w


def each_mass(masses: Array | None, n: int, like: Any = None) -> Array:
    """Return the masses of n tokens, one each unless given, as an array of the library of the tokens."""
    if masses is not None:
        return masses
    return namespace(like).ones_like(like[:, 0]) if foreign(like) else np.ones(n)


def shares(masses: Array | None, n: int) -> Array:
    """Return the part of the total mass that each of n tokens has.

    >>> shares(np.array([0.5e308, 1.5e308]), 2)
    array([0.25, 0.75])
    """
    w = each_mass(masses, n)
    w = w / w.max()
    part: Array = w / w.sum()
    return part


def square(matrix: ArrayLike, name: str, of: str = "d") -> Array:
    """Check a square matrix of finite numbers; `of` is the letter of its size in sentences."""
    m = reals(matrix, f"{name} is", f"{of} rows of {of} numbers")
    if m.ndim != 2 or m.shape[0] != m.shape[1] or m.size == 0:
        raise InputError(f"{name} has shape {m.shape}, expected a square matrix ({of}, {of})")
    return _finite_entries(m, name)


def rectangular(matrix: ArrayLike, name: str) -> Array:
    """Check a matrix of finite numbers, with any number of rows and columns."""
    m = reals(matrix, f"{name} is", "n rows of equally many numbers")
    if m.ndim != 2 or m.size == 0:
        raise InputError(f"{name} has shape {m.shape}, expected a matrix (m, n): give rows of equally many numbers")
    return _finite_entries(m, name)


def _finite_entries(matrix: Array, name: str) -> Array:
    if not np.isfinite(matrix).all():
        raise InputError(f"{name} holds a value that is not finite: give finite entries")
    return matrix


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
    return constant(vector, name, 1, _any_vector)


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


def _any_vector(vector: Any, name: str) -> Any:
    """Check a vector; one of another library stays as it is, so that it can be differentiated."""
    if foreign(vector) and is_real(vector) and len(vector.shape) == 1:
        return known_to_be_finite(vector, name)
    v = reals(vector, f"{name} is", "d numbers")
    if v.ndim != 1 or v.size == 0:
        raise InputError(f"{name} has shape {v.shape}, expected a vector (d,): give d numbers")
    return _finite_entries(v, name)


def known_to_be_finite(value: Any, name: str) -> Any:
    if not holds(namespace(value).isfinite(value)):
        raise InputError(f"{name} holds a value that is not finite: give finite entries")
    return value


def any_square(matrix: Any, name: str, of: str = "d") -> Any:
    """Check a square matrix; one of another library stays as it is, so that it can be differentiated."""
    if not (foreign(matrix) and is_real(matrix)):
        return square(matrix, name, of)
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise InputError(f"{name} has shape {tuple(matrix.shape)}, expected a square matrix ({of}, {of})")
    return known_to_be_finite(matrix, name)


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
    v = value_at(vector, t, name, like, _any_vector)
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


def number(
    value: Any, name: str, *, above: float = -inf, least: float = -inf, most: float = inf, infinite: float = False
) -> float:
    """Check a real number in a range, above < value, least <= value <= most, which is finite or may be `infinite`."""
    try:
        value = plain(value)
    except (TypeError, RuntimeError):
        raise InputError(f"{name} is traced by {library(value)}, expected a number that is known") from None
    if isinstance(value, np.ndarray) and value.ndim:
        raise InputError(f"{name} is an array of shape {value.shape}, expected a number")
    if isinstance(value, str | bytes | bool | np.bool_ | np.complexfloating):
        raise InputError(f"{name} is {value!r}, expected a number")
    try:
        real = float(value)
    except OverflowError:
        raise InputError(f"{name} is beyond the range of float64: give a smaller number") from None
    except (TypeError, ValueError):
        raise InputError(f"{name} is {value!r}, expected a number") from None
    if (isfinite(real) or (infinite and real == inf)) and real > above and least <= real <= most:
        return real
    low = f"above {above:g}" if above > -inf else f"at least {least:g}" if least > -inf else ""
    high = f"at most {most:g}" if most < inf else ""
    wanted = " and ".join(part for part in (low, high) if part) + (", or inf" if infinite else "")
    raise InputError(f"{name} is {real:g}, expected a finite number {wanted}".rstrip())


def whole(value: Any, name: str, **bounds: float) -> int:
    """Check a whole number in a range, as `number` does."""
    if not number(value, name, **bounds).is_integer():
        raise InputError(f"{name} is {value}, expected a whole number")
    return int(value)


def below(value: Any, count: int, what: str) -> int:
    """Check the number of one of `count` things."""
    index = whole(value, f"the number of a {what}", least=0)
    if index >= count:
        raise InputError(f"there is no {what} {index}, expected a number from 0 to {count - 1}")
    return index


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


def location(path: Any, name: str) -> Path:
    """Check that a path is one."""
    if not isinstance(path, str | PathLike) or "\0" in str(path):
        raise InputError(f"{name} is {path!r}, expected a path such as 'run.zarr'")
    return Path(path)


def one_of(value: str, names: Iterable[str], what: str) -> str:
    """Check that a name is one of those known."""
    known = tuple(names)
    if isinstance(value, str) and value in known:
        return value
    raise InputError(f"{what} is {value!r}, expected one of {', '.join(known)}")
