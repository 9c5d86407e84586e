"""Arrays: clouds of tokens, points, masses, matrices and vectors, of NumPy or of another library."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core.arrays import cast, foreign, holds, is_real, library, namespace, plain, precision
from attnflow.core.inputs.values import InputError

Array: TypeAlias = NDArray[np.float64]

MASS_RATIO = 1e140
SMALLEST_CLOUD, LARGEST_CLOUD = 1e-140, 1e150
# What to do with an array of another library where it cannot be used.
CONVERT = "convert them with numpy.asarray"
# What to do with a Dask array where it cannot be used.
SAMPLE = "take a sample that fits in one process, such as x[:100_000].compute()"


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


def any_square(matrix: Any, name: str, of: str = "d") -> Any:
    """Check a square matrix; one of another library stays as it is, so that it can be differentiated."""
    if not (foreign(matrix) and is_real(matrix)):
        return square(matrix, name, of)
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise InputError(f"{name} has shape {tuple(matrix.shape)}, expected a square matrix ({of}, {of})")
    return known_to_be_finite(matrix, name)


def any_vector(vector: Any, name: str) -> Any:
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


def _finite_entries(matrix: Array, name: str) -> Array:
    if not np.isfinite(matrix).all():
        raise InputError(f"{name} holds a value that is not finite: give finite entries")
    return matrix
