"""Files of trained weights, one module for each format; `open_tensors` finds the format and opens them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnflow.checkpoints.files.gguf import read_gguf
from attnflow.checkpoints.files.pickled import read_pickled
from attnflow.checkpoints.files.safetensors import read_safetensors
from attnflow.checkpoints.files.shards import read_shards
from attnflow.checkpoints.files.tensors import Tensor, Tensors
from attnflow.core.inputs import InputError, location

__all__ = ["Tensor", "Tensors", "open_tensors"]

READERS: dict[str, Callable[[Path], Tensors]] = {
    ".safetensors": read_safetensors,
    ".bin": read_pickled,
    ".pt": read_pickled,
    ".pth": read_pickled,
    ".gguf": read_gguf,
}
INDEX = ".index.json"
# What is looked for in a folder, in this order; a checkpoint is often kept in several formats.
IN_FOLDERS = tuple(f"{name}{end}" for name in ("model.safetensors", "pytorch_model.bin") for end in ("", INDEX))


def open_tensors(path: Any) -> Tensors:
    """Open the weights of a file, or of a folder as checkpoints are published: nothing is read before it is asked for.

    A file ends in .safetensors, in .gguf, or, if it was written by `torch.save`, in .bin, .pt or .pth. A folder holds
    model.safetensors or pytorch_model.bin, or the index of its parts, as model.safetensors.index.json, or one .gguf
    file. All sizes and places in headers are checked first: a file whose parts contradict each other, or that holds
    anything but tensors, is refused, and no code in it is ever run.

    >>> import os, tempfile
    >>> import numpy as np
    >>> from safetensors.numpy import save_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_file({"V": np.eye(2, dtype=np.float16)}, os.path.join(folder, "model.safetensors"))
    ...     tensors = open_tensors(folder)
    ...     print(tensors, tensors["V"].stored_bytes, tensors["V"].read())
    Tensors(1 tensors, 0.0 MB) 8 [[1. 0.]
     [0. 1.]]
    """
    given = location(path, "path")
    file = _in_folder(given) if given.is_dir() else given
    if not file.exists():
        raise InputError(f"{file} does not exist: give the path of a checkpoint")
    name = file.name.removesuffix(INDEX)
    read = READERS.get(Path(name).suffix.lower())
    if read is None:
        raise InputError(f"{file} is of no known format, expected {', '.join(READERS)} or the folder of one")
    return read_shards(file, read) if file.name.endswith(INDEX) else read(file)


def _in_folder(folder: Path) -> Path:
    """Return the file of a folder that holds its weights."""
    for name in IN_FOLDERS:
        if (folder / name).exists():
            return folder / name
    others = sorted(folder.glob("*.gguf"))
    if len(others) > 1:
        raise InputError(f"{folder} holds {len(others)} files .gguf: give the path of one, such as {others[0]}")
    if not others:
        raise InputError(f"{folder} holds none of {', '.join(IN_FOLDERS)}, *.gguf: give the folder of a checkpoint")
    return others[0]
