"""Files of the GGUF format: keys with values, names and places of tensors, then their numbers, often quantised.

The package `gguf` knows the types and turns quantised numbers into float32. Its reader of headers is not used: it
checks no size against the file, takes a hundred times the memory of a header, and seconds for the words of a tokenizer.
"""

from __future__ import annotations

import mmap
import struct
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.checkpoints.files.tensors import Tensor, Tensors, broken, check_apart, checked_shape, mapped, stored
from attnflow.core.inputs import InputError, quoted

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_DIMENSIONS = 4  # of ggml, whose format this is
# Types of values by their numbers in the file; 8 is a text, 9 an array.
VALUES = {
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip
TEXT, ARRAY = 8, 9
# Types of numbers that need no package, by their names there.
PLAIN = {
    "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64", "I8": "int8", "I16": "int16",
    "I32": "int32", "I64": "int64",
}  # fmt: skip

# A type of the package gguf, how many numbers a block of it has, and how many bytes.
_Type = tuple[Any, int, int]


def read_gguf(path: Path) -> Tensors:
    """Return the tensors of one file; shapes are in the order of NumPy, the last index fastest."""
    header = _Header(path, mapped(path))
    if header.take(4) != MAGIC:
        raise InputError(f"{path} does not begin as GGUF files do: give a file of weights in that format")
    version = header.whole("<I")
    if version not in VERSIONS:
        big = " (is it big-endian?)" if version % (1 << 16) == 0 else ""
        raise InputError(f"{path} is of version {version} of GGUF{big}, expected 2 or 3: convert it")
    tensor_count, value_count = header.count("<Q", least=24), header.count("<Q", least=13)
    metadata = {}
    for _ in range(value_count):
        key = header.name()
        if key in metadata:
            raise broken(path, f"its header has {quoted(key)} twice")
        metadata[key] = header.value(header.whole("<I"), key)
    parts = metadata.get("split.count", 1)
    if type(parts) is not int or parts not in (0, 1):
        raise InputError(f"{path} is one of {quoted(parts)} parts: merge them with llama-gguf-split --merge")
    return Tensors(_tensors(header, tensor_count, metadata.get("general.alignment", 32)), metadata, "gguf")


class _Header:
    """A header, read from its beginning; nothing beyond the end of the file is ever asked for."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.at = 0

    def skip(self, count: int) -> int:
        """Go on by some bytes, and return where they begin."""
        begin = self.at
        if count > len(self.data) - begin:
            raise broken(self.path, f"its header asks for {count} bytes at byte {begin} of {len(self.data)}")
        self.at += count
        return begin

    def take(self, count: int) -> bytes:
        begin = self.skip(count)
        return self.data[begin : begin + count]

    def whole(self, layout: str) -> int:
        return int(struct.unpack(layout, self.take(struct.calcsize(layout)))[0])

    def count(self, layout: str, least: int) -> int:
        """Return a number of things that follow, each of `least` bytes or more: the file must have room for them."""
        count = self.whole(layout)
        if count * least > len(self.data) - self.at:
            raise broken(self.path, f"its header promises {count} entries, more than the file has room for")
        return count

    def name(self) -> str:
        try:
            return self.take(self.whole("<Q")).decode()
        except UnicodeDecodeError:
            raise broken(self.path, f"a name that ends at byte {self.at} is no text") from None

    def texts(self, count: int) -> list[str]:
        """Return some texts; a tokenizer has a hundred thousand, so that this loop is a tight one."""
        found, at, data, size = list[str](), self.at, self.data, len(self.data)
        length_at = struct.Struct("<Q").unpack_from
        for _ in range(count):
            length = length_at(data, at)[0] if at + 8 <= size else size
            end = at + 8 + length
            if end > size:
                raise broken(self.path, f"a text at byte {at} of its header reaches beyond its end")
            # A token may be a part of a letter: such bytes are kept, as Python keeps those of file names.
            found.append(data[at + 8 : end].decode("utf-8", "surrogateescape"))
            at = end
        self.at = at
        return found

    def value(self, kind: int, key: str) -> Any:
        if kind == TEXT:
            return self.texts(1)[0]
        if kind == ARRAY:
            kind = self.whole("<I")
            if kind == TEXT:
                return self.texts(self.count("<Q", least=8))
            layout = self.layout(kind, key)
            return self.array(layout, self.count("<Q", least=layout.itemsize))
        return self.array(self.layout(kind, key), 1)[0].item()

    def array(self, layout: np.dtype[Any], count: int) -> NDArray[Any]:
        begin = self.skip(count * layout.itemsize)
        if layout.kind == "b":  # any byte may be there, and NumPy takes 0 and 1 alone
            return np.ndarray(count, np.uint8, buffer=self.data, offset=begin) != 0
        return np.ndarray(count, layout, buffer=self.data, offset=begin)

    def layout(self, kind: int, key: str) -> np.dtype[Any]:
        if kind not in VALUES:
            raise broken(self.path, f"{quoted(key)} has a value of type {kind}, or an array of arrays")
        return np.dtype(VALUES[kind])


def _tensors(header: _Header, count: int, alignment: Any) -> dict[str, Tensor]:
    """Return the tensors that a header lists."""
    path = header.path
    listed: dict[str, tuple[tuple[int, ...], int, int]] = {}
    for _ in range(count):
        name = header.name()
        if name in listed:
            raise broken(path, f"it lists the tensor {quoted(name)} twice")
        dimensions = header.whole("<I")
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            raise broken(
                path, f"the tensor {quoted(name)} has {dimensions} dimensions, expected 1 to {MOST_DIMENSIONS}"
            )
        sizes = struct.unpack(f"<{dimensions}Q", header.take(8 * dimensions))
        listed[name] = checked_shape(path, name, sizes[::-1]), header.whole("<I"), header.whole("<Q")
    if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
        raise broken(path, f"'general.alignment' is {quoted(alignment)}, expected a power of two")
    start = -(-header.at // alignment) * alignment
    tensors: dict[str, Tensor] = {}
    types: dict[int, _Type | None] = {}
    places = []
    for name, (shape, kind, offset) in listed.items():
        if offset % alignment:
            raise broken(path, f"the tensor {quoted(name)} begins at {offset}, which is no multiple of {alignment}")
        if kind not in types:
            types[kind] = _type(kind)
        if (found := types[kind]) is None:
            raise InputError(
                f"{path} stores the tensor {quoted(name)} in the type {kind}, which the package gguf cannot read: "
                "convert it to Q8_0 or F16, or install a newer gguf"
            )
        tensor = _tensor(header, name, shape, found, start + offset)
        end = start + offset + tensor.stored_bytes
        if end > len(header.data):
            raise broken(path, f"the tensor {quoted(name)} reaches to byte {end}, the file to byte {len(header.data)}")
        places.append((start + offset, end, name))
        tensors[name] = tensor
    check_apart(path, places)
    return tensors


def _type(kind: int) -> _Type | None:
    """Return the type of a number; None if the package gguf cannot read it."""
    try:
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize
    except ImportError:
        raise InputError("reading .gguf files needs gguf: pip install 'attnflow[checkpoints]'") from None
    try:
        known = GGMLQuantizationType(kind)
        block, block_bytes = GGML_QUANT_SIZES[known]
        if known.name not in PLAIN:
            dequantize(np.zeros((1, block_bytes), np.uint8), known)
    except (ValueError, KeyError, NotImplementedError):
        return None
    return known, block, block_bytes


def _tensor(header: _Header, name: str, shape: tuple[int, ...], found: _Type, begin: int) -> Tensor:
    """Return the tensor at a place, which need not be inside the file yet."""
    known, block, block_bytes = found
    if known.name in PLAIN:
        return stored(header.data, begin if prod(shape) else 0, PLAIN[known.name], shape)
    if shape[-1] % block:
        raise broken(header.path, f"the tensor {quoted(name)} has rows of {shape[-1]} numbers, no multiple of {block}")
    rows = (*shape[:-1], shape[-1] // block * block_bytes)

    def decode() -> NDArray[Any]:
        if not prod(shape):
            return np.zeros(shape, np.float32)
        from gguf import dequantize

        # The scales of a damaged file may be infinite: what is done with such weights is not decided here.
        with np.errstate(all="ignore"):
            return dequantize(np.ndarray(rows, np.uint8, buffer=header.data, offset=begin), known)

    return Tensor(shape, np.dtype(np.float32), prod(rows), decode)
