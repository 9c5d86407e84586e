"""Single values: numbers in a range, names of a list, paths; and the error that refuses them."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, isfinite
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from attnflow.core.arrays import library, plain


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
