"""What every reader of a format returns: tensors by name, each read from its memory-mapped file when it is asked for.

What comes out of a file is not trusted. Readers check sizes, offsets and shapes against the size of the file before
they allocate anything, with the functions below, and refuse a file as a whole.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import InputError, quoted

# How numbers are stored, all in little-endian order. NumPy has no bfloat16: it is the upper half of a float32.
STORED: dict[str, np.dtype[Any]] = {
    "float64": np.dtype("<f8"),
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "bfloat16": np.dtype("<u2"),
    "int64": np.dtype("<i8"),
    "int32": np.dtype("<i4"),
    "int16": np.dtype("<i2"),
    "int8": np.dtype("i1"),
    "uint8": np.dtype("u1"),
    "bool": np.dtype("u1"),
}
DECODED: dict[str, np.dtype[Any]] = {
    **STORED,
    "float16": np.dtype("<f4"),
    "bfloat16": np.dtype("<f4"),
    "bool": np.dtype("?"),
}

# Weights have at most five dimensions and 10^13 numbers; beyond these limits a shape is an error or an attack.
MOST_DIMENSIONS = 16
MOST_NUMBERS = 1 << 48


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a file: its shape, the type of its numbers once they are read, and its size in the file.

    >>> import mmap
    >>> page = mmap.mmap(-1, 8)
    >>> page[:8] = np.array([1.0, 2.0], dtype="<f4").tobytes()
    >>> tensor = stored(page, 0, "float32", (2,))
    >>> tensor.shape, tensor.dtype, tensor.stored_bytes, tensor.read()
    ((2,), dtype('float32'), 8, array([1., 2.], dtype=float32))
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    stored_bytes: int
    decode: Callable[[], NDArray[Any]] = field(repr=False)

    def read(self) -> NDArray[Any]:
        """Return the numbers, as a view of the file where its format allows it, or decoded anew on each call."""
        return self.decode()


class Tensors(Mapping[str, Tensor]):
    """The tensors of a checkpoint by their names in its files, in their order, with their format and its metadata."""

    def __init__(self, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any], format: str) -> None:
        self._tensors = dict(tensors)
        self.metadata = dict(metadata)
        self.format = format

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        size = sum(tensor.stored_bytes for tensor in self.values())
        return f"Tensors({len(self)} tensors, {size / 1e6:.1f} MB)"


def stored(
    data: mmap.mmap, begin: int, kind: str, shape: tuple[int, ...], strides: tuple[int, ...] | None = None
) -> Tensor:
    """Return the tensor whose numbers are at a place of a file; strides count numbers, not bytes.

    That the numbers are inside the file has been checked before.
    """
    layout = STORED[kind]
    steps = None if strides is None else tuple(layout.itemsize * stride for stride in strides)

    def decode() -> NDArray[Any]:
        numbers: NDArray[Any] = np.ndarray(shape, layout, buffer=data, offset=begin, strides=steps)
        if kind == "bfloat16":
            wide = numbers.astype("<u4")
            wide <<= 16
            return wide.view("<f4")
        if kind == "bool":
            return numbers != 0
        # Some kernels and all of BLAS need numbers at multiples of their size.
        return numbers.astype(DECODED[kind], copy=not numbers.flags.aligned)

    return Tensor(shape, DECODED[kind], prod(shape) * layout.itemsize, decode)


def broken(path: Path, what: str) -> InputError:
    """Return the refusal of a file whose contents contradict each other."""
    return InputError(f"{path} is damaged, or was made to do harm: {what}; get it again from where it came")


def mapped(path: Path) -> mmap.mmap:
    """Return a file as memory that is read when it is looked at."""
    # Devices and pipes have no size, and reading them may never end.
    if not path.is_file():
        raise InputError(f"{path} is not a file: give the path of a checkpoint")
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:
        raise broken(path, "it is empty") from None
    except OSError as error:
        raise InputError(f"{path} cannot be opened ({error.strerror}): give a file that you may read") from None


def checked_shape(path: Path, name: str, shape: Sequence[Any]) -> tuple[int, ...]:
    """Check the shape of a tensor, before anything is computed with it."""
    if len(shape) > MOST_DIMENSIONS:
        raise broken(path, f"the tensor {quoted(name)} has {len(shape)} dimensions")
    if not all(type(size) is int for size in shape):
        raise broken(path, f"the tensor {quoted(name)} has a size that is no whole number")
    if min(shape, default=0) < 0 or prod(max(size, 1) for size in shape) >= MOST_NUMBERS:
        raise broken(path, f"the tensor {quoted(name)} has the shape {quoted(tuple(shape))}")
    return tuple(shape)


def check_apart(path: Path, places: Iterable[tuple[int, int, str]]) -> None:
    """Refuse pieces of a file, given by where they begin and end and what they are called, that overlap."""
    last, before = 0, "the header"
    for begin, end, name in sorted(places):
        if begin < end:
            if begin < last:
                raise broken(path, f"{quoted(name)} overlaps {quoted(before)}")
            last, before = end, name
