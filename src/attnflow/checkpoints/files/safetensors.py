"""Files of the safetensors format: a header in JSON, then the numbers of all tensors one after the other.

The library `safetensors` reads the header and checks it: its size (at most 100 MB), that the tensors fill the rest of
the file in one piece without gaps or overlaps, and that each has the size that its shape and type ask for. It copies a
tensor when it hands it over, so that the numbers are read here, from the same places.
"""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

from attnflow.checkpoints.files.tensors import STORED, Tensor, Tensors, broken, checked_shape, mapped, stored
from attnflow.core.inputs import InputError, quoted

KINDS = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip


def read_safetensors(path: Path) -> Tensors:
    """Return the tensors of one file."""
    try:
        import safetensors
    except ImportError:
        raise InputError("reading .safetensors files needs safetensors: pip install 'attnflow[checkpoints]'") from None
    data = mapped(path)
    try:
        file: Any = safetensors.safe_open(path, framework="numpy")
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise broken(path, f"safetensors says {quoted(str(error))}") from None
    length = int.from_bytes(data[:8], "little")
    _check_names_once(path, data[8 : 8 + length])
    tensors: dict[str, Tensor] = {}
    begin = 8 + length
    for name in file.offset_keys():
        about = file.get_slice(name)
        shape = checked_shape(path, name, about.get_shape())
        kind = KINDS.get(about.get_dtype())
        if kind is None:
            raise InputError(
                f"{path} stores the tensor {quoted(name)} as {quoted(about.get_dtype())}, expected one of "
                f"{', '.join(KINDS)}: convert it to one of these"
            )
        tensors[name] = stored(data, begin, kind, shape)
        begin += prod(shape) * STORED[kind].itemsize
    # The library has checked this; should it ever order tensors otherwise, numbers would be read from wrong places.
    if begin != len(data):
        raise broken(path, f"its tensors end at byte {begin}, the file at byte {len(data)}")
    return Tensors(tensors, file.metadata() or {}, "safetensors")


def _check_names_once(path: Path, header: bytes) -> None:
    """Refuse a header that names something twice: the library would take the last one, other readers the first."""

    def once(pairs: list[tuple[str, Any]]) -> None:
        names = set[str]()
        for name, _ in pairs:
            if name in names:
                raise broken(path, f"its header has {quoted(name)} twice")
            names.add(name)

    json.loads(header, object_pairs_hook=once)
