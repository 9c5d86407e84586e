"""Checkpoints in several files, and the index that says which tensor is in which of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnflow.checkpoints.files.tensors import Tensor, Tensors, broken, mapped
from attnflow.core.inputs import InputError, quoted

# The index of the largest models, with some thousand tensors, has a few hundred kilobytes.
LARGEST_INDEX = 1 << 25


def read_shards(index: Path, read: Callable[[Path], Tensors]) -> Tensors:
    """Return the tensors of all files that an index names, each read by `read`."""
    places, metadata = _read_index(index)
    tensors: dict[str, Tensor] = {}
    format = ""
    for shard in dict.fromkeys(places.values()):
        path = index.parent / shard
        if not path.exists():
            raise InputError(f"{index} names the file {quoted(shard)}, which is not beside it: put it there")
        found = read(path)
        for name, tensor in found.items():
            if places.get(name) != shard:
                raise broken(index, f"{quoted(shard)} holds the tensor {quoted(name)}, which it does not list there")
            tensors[name] = tensor
        metadata, format = {**found.metadata, **metadata}, found.format
    lacking = [name for name in places if name not in tensors]
    if lacking:
        raise broken(index, f"{quoted(places[lacking[0]])} does not hold the tensor {quoted(lacking[0])}")
    return Tensors({name: tensors[name] for name in places}, metadata, format)


def _read_index(index: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the file of each tensor, by its name, and the metadata."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise broken(index, "it lists a name twice")
        return found

    text = mapped(index)
    if len(text) > LARGEST_INDEX:
        raise broken(index, f"an index of {len(text)} bytes is larger than {LARGEST_INDEX}")
    try:
        listed = json.loads(text[:], object_pairs_hook=once)
    except InputError:
        raise
    except (ValueError, RecursionError):
        raise broken(index, "it is not JSON") from None
    places = listed.get("weight_map") if isinstance(listed, dict) else None
    if not isinstance(places, dict) or not places:
        raise broken(index, "it has no 'weight_map', which gives the file of each tensor")
    for name, shard in places.items():
        # Another folder is none of this checkpoint, and may be one that the user never meant to show.
        plain = isinstance(shard, str) and 0 < len(shard) < 200 and Path(shard).name == shard != ".."
        if not plain or "\\" in shard or "\0" in shard:
            raise broken(
                index, f"it looks for {quoted(name)} in {quoted(shard)}, expected the name of a file beside it"
            )
    metadata = listed.get("metadata")
    return places, metadata if isinstance(metadata, dict) else {}
