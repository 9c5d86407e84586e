"""Files of `torch.save`: a zip archive since 2020, before that some pickles and the numbers behind them.

In an archive `X`, `X/data.pkl` is the pickle and `X/data/K` has the numbers of storage K, not compressed. The older
format has five pickles: a magic number, a version, facts about the machine, the tensors, and the keys of all storages.
Then come the storages in the order of these keys, each with its length before its numbers.
"""

from __future__ import annotations

import mmap
import struct
import zipfile
from pathlib import Path
from typing import Any

from attnflow.checkpoints.files.pickle_machine import Piece, Storage, called_by_users, run_pickle
from attnflow.checkpoints.files.tensors import STORED, Tensors, broken, check_apart, mapped, stored
from attnflow.core.inputs import InputError, quoted

MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001
ARCHIVE = b"PK\x03\x04"
LOCAL_HEADER = 30
ENCRYPTED, UTF8 = 1, 1 << 11  # bits of the flags of a file


def read_pickled(path: Path) -> Tensors:
    """Return the tensors of one file."""
    data = mapped(path)
    if data[: len(ARCHIVE)] == ARCHIVE:
        pieces, places = _read_archive(path, data)
    else:
        pieces, places = _read_older(path, data)
    tensors = {}
    for name, piece in pieces.items():
        kind = piece.storage.kind
        begin = places[piece.storage] + piece.offset * STORED[kind].itemsize
        tensors[name] = stored(data, begin, kind, piece.shape, piece.strides)
    return Tensors(tensors, {}, "pickled")


def _read_archive(path: Path, data: mmap.mmap) -> tuple[dict[str, Piece], dict[Storage, int]]:
    """Return the tensors, and where each storage begins."""
    entries = _entries(path, data)
    pickles = [name for name in entries if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(pickles) != 1:
        raise InputError(
            f"{path} is a zip archive with {len(pickles)} files X/data.pkl, expected one as torch.save writes"
        )
    archive = pickles[0].removesuffix("/data.pkl")
    order = entries.get(f"{archive}/byteorder")
    if order is not None and data[slice(*order)] != b"little":
        raise InputError(
            f"{path} holds big-endian numbers, expected little-endian ones: save it again on another machine"
        )
    begin, end = entries[pickles[0]]
    data.seek(begin)
    pieces = _named_pieces(path, run_pickle(path, data))
    if data.tell() != end:
        raise broken(path, "its pickle is shorter or longer than the archive says")
    places = {}
    for piece in pieces.values():
        storage = piece.storage
        begin, end = entries.get(f"{archive}/data/{storage.key}", (0, -1))
        if end - begin != storage.numbers * STORED[storage.kind].itemsize:
            raise broken(path, f"its storage {quoted(storage.key)} is absent or of another length than the pickle says")
        places[storage] = begin
    return pieces, places


def _entries(path: Path, data: mmap.mmap) -> dict[str, tuple[int, int]]:
    """Return where each file of an archive begins and ends."""
    try:
        with zipfile.ZipFile(path) as archive:
            listed = archive.infolist()
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, struct.error, ValueError, OSError):
        raise broken(path, "its list of contents is not that of a zip archive") from None
    entries: dict[str, tuple[int, int]] = {}
    whole = []
    for one in listed:
        # What this list says of a file is also said right before the file; other readers believe the latter.
        start = one.header_offset
        header = data[start : start + LOCAL_HEADER] if start >= 0 else b""
        if len(header) < LOCAL_HEADER or not header.startswith(ARCHIVE):
            raise broken(path, f"{quoted(one.filename)} is not where its list of contents says")
        name, extra = struct.unpack("<HH", header[-4:])
        begin = start + LOCAL_HEADER + name + extra
        end = begin + one.file_size
        written = one.orig_filename.encode("utf-8" if one.flag_bits & UTF8 else "cp437")
        if data[start + LOCAL_HEADER : start + LOCAL_HEADER + name] != written:
            raise broken(path, f"{quoted(one.filename)} has another name where it begins")
        if one.compress_type != zipfile.ZIP_STORED or one.file_size != one.compress_size or one.flag_bits & ENCRYPTED:
            raise InputError(
                f"{path} is compressed or encrypted, which torch.save never does: unpack it and save it again"
            )
        if end > len(data):
            raise broken(path, f"{quoted(one.filename)} reaches beyond its end")
        if one.filename in entries:
            raise broken(path, f"it holds {quoted(one.filename)} twice")
        entries[one.filename] = begin, end
        whole.append((start, end, one.filename))
    check_apart(path, whole)
    return entries


def _read_older(path: Path, data: mmap.mmap) -> tuple[dict[str, Piece], dict[Storage, int]]:
    """Return the tensors, and where each storage begins."""
    if run_pickle(path, data) != MAGIC:
        raise InputError(f"{path} was not written by torch.save: give a file of weights")
    version, machine = run_pickle(path, data), run_pickle(path, data)
    if version != VERSION or type(machine) is not dict or machine.get("little_endian") is not True:
        raise InputError(f"{path} is of a version of torch.save that is not known, or big-endian: save it again")
    pieces = _named_pieces(path, run_pickle(path, data))
    keys = run_pickle(path, data)
    storages: dict[str, Storage] = {}
    for piece in pieces.values():
        if storages.setdefault(piece.storage.key, piece.storage) != piece.storage:
            raise broken(path, f"its storage {quoted(piece.storage.key)} has two lengths or two types")
    if type(keys) is not list or not all(type(key) is str for key in keys) or sorted(keys) != sorted(storages):
        raise broken(path, "the storages it lists are not those of its tensors")
    places = {}
    begin = data.tell()
    for key in keys:
        storage = storages[key]
        length = int.from_bytes(data[begin : begin + 8], "little")
        end = begin + 8 + storage.numbers * STORED[storage.kind].itemsize
        if length != storage.numbers or end > len(data):
            raise broken(path, f"its storage {quoted(key)} is not of the length that the pickle says")
        places[storage] = begin + 8
        begin = end
    if begin != len(data):
        raise broken(path, f"its storages end at byte {begin}, the file at byte {len(data)}")
    return pieces, places


def _named_pieces(path: Path, found: Any) -> dict[str, Piece]:
    """Check that a pickle holds tensors by name, and nothing else."""
    if type(found) is not dict:
        raise InputError(
            f"{path} holds {called_by_users(found)}, expected a dictionary of tensors: save a state_dict()"
        )
    for name, piece in found.items():
        if type(piece) is not Piece:
            raise InputError(
                f"{path} holds {called_by_users(piece)} under the name {quoted(name)}, expected tensors alone: save "
                "the model's state_dict() by itself"
            )
    return found
