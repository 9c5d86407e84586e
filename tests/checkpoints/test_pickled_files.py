"""Files of torch.save: read as torch wrote them, without torch; code in them is refused and never run."""

from __future__ import annotations

import os
import pickle
import shutil
import struct
import tracemalloc
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

from attnflow.checkpoints.files import open_tensors

FIXTURES = Path(__file__).parent / "fixtures"
TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n"


def archive(path: Path, program: bytes, storages: dict[str, bytes] | None = None, **settings: Any) -> None:
    """Write a file as torch does since 2020, around a pickle."""
    with zipfile.ZipFile(path, "w", **settings) as file:
        file.writestr("x/data.pkl", program)
        for key, numbers in (storages or {}).items():
            file.writestr(f"x/data/{key}", numbers)


def older(path: Path, program: bytes, storages: dict[str, bytes] | None = None) -> None:
    """Write a file as torch did before 2020, around a pickle."""
    facts = [0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}]
    head = b"".join(pickle.dumps(one, protocol=2) for one in facts)
    keys = pickle.dumps(list(storages or {}), protocol=2)
    numbers = b"".join(struct.pack("<q", len(one) // 4) + one for one in (storages or {}).values())
    path.write_bytes(head + program + keys + numbers)


WRITERS = pytest.mark.parametrize("write", [archive, older])


def text(word: str) -> bytes:
    return b"X" + struct.pack("<I", len(word)) + word.encode()


def number(value: int) -> bytes:
    size = (value.bit_length() + 8) // 8
    return b"\x8a" + bytes([size]) + value.to_bytes(size, "little", signed=True)


def numbers_of(values: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(number(one) for one in values) + b"t"


def a_tensor(
    length: int, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], kind: str = "FloatStorage"
) -> bytes:
    """Return the operations that make a tensor of storage 0."""
    storage = b"(" + text("storage") + f"ctorch\n{kind}\n".encode() + text("0") + text("cpu") + number(length) + b"tQ"
    return TENSOR + b"(" + storage + number(offset) + numbers_of(shape) + numbers_of(strides) + b"\x89}tR"


def named(*values: bytes) -> bytes:
    """Return the pickle of a dictionary with names a, b, ..."""
    return b"\x80\x02}(" + b"".join(text(chr(97 + k)) + value for k, value in enumerate(values)) + b"u."


@pytest.mark.parametrize("name", ["archive.bin", "older.bin"])
def test_both_formats_are_read_as_torch_wrote_them(name: str) -> None:
    tensors = open_tensors(FIXTURES / name)
    with np.load(FIXTURES / "expected.npz") as expected:
        assert list(tensors) == expected.files
        for one, tensor in tensors.items():
            read = tensor.read()
            assert read.dtype == tensor.dtype == expected[one].dtype
            assert tensor.shape == expected[one].shape
            np.testing.assert_array_equal(read, expected[one])
            assert read.flags.aligned
    assert tensors["half"].stored_bytes == 6
    if name == "archive.bin":  # where numbers begin at multiples of 64 bytes, and can be views of the file
        assert np.shares_memory(tensors["whole"].read(), tensors["transposed"].read())


def test_folders_and_shards_of_pickles(tmp_path: Path) -> None:
    for name in ("archive.bin", "older.bin"):
        shutil.copy(FIXTURES / name, tmp_path / "pytorch_model.bin")
        assert len(open_tensors(tmp_path)) == 11
    files = '{"weight_map": {' + ", ".join(f'"{one}": "pytorch_model.bin"' for one in open_tensors(tmp_path)) + "}}"
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(files)
    assert len(open_tensors(index)) == 11


@WRITERS
def test_files_written_by_hand(write: Callable[..., None], tmp_path: Path) -> None:
    """What the refusals below change is read."""
    numbers = np.arange(6, dtype=np.float32)
    write(tmp_path / "m.bin", named(a_tensor(6, 1, (2, 2), (3, 1))), {"0": numbers.tobytes()})
    np.testing.assert_array_equal(open_tensors(tmp_path / "m.bin")["a"].read(), [[1, 2], [4, 5]])
    write(tmp_path / "m.bin", named(a_tensor(6, 1 << 40, (1 << 40, 0), (1 << 40, 1 << 40))), {"0": numbers.tobytes()})
    assert open_tensors(tmp_path / "m.bin")["a"].read().shape == (1 << 40, 0)  # nothing, wherever it is


class Runs:
    """Asks to run something when it is unpickled."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@WRITERS
@pytest.mark.parametrize("protocol", [0, 1, 2, 4])
def test_code_in_a_pickle_is_refused_and_not_run(write: Callable[..., None], tmp_path: Path, protocol: int) -> None:
    made = tmp_path / "made"
    inner = pickle.dumps(Runs(os.mkdir, str(made)), protocol=protocol)
    for attack in (Runs(os.mkdir, str(made)), Runs(eval, f"__import__('os').mkdir({str(made)!r})"),
                   Runs(pickle.loads, inner), Runs(OrderedDict, Runs(os.mkdir, str(made))),
                   Runs(getattr, "", "upper"), np.float64(1.0), Path("x")):  # fmt: skip
        write(tmp_path / "m.bin", pickle.dumps({"a": attack}, protocol=protocol))
        with refused("may run foreign code"):
            open_tensors(tmp_path / "m.bin")
        assert not made.exists()
    # The attack itself works.
    pickle.loads(inner)
    assert made.exists()


@WRITERS
@pytest.mark.parametrize(
    ("program", "words"),
    [
        (named(a_tensor(6, 3, (2, 2), (3, 1))), "reaches beyond its 6 numbers"),
        (named(a_tensor(6, 0, (1 << 20,), (0,))), "reaches beyond its 6 numbers"),
        (named(a_tensor(6, -1, (2,), (1,))), "impossible offset"),
        (named(a_tensor(6, 5, (2,), (-1,))), "impossible strides"),
        (named(a_tensor(6, 0, (2,), (1, 1))), "impossible strides"),
        (named(a_tensor(6, 0, (-2, -2), (1, 1))), "has the shape"),
        (named(a_tensor(6, 0, (1 << 50, 0), (1, 1))), "has the shape"),
        (named(a_tensor(6, 0, (1,) * 40, (1,) * 40)), "40 dimensions"),
        (named(a_tensor(-6, 0, (2,), (1,))), "impossible length"),
        (named(a_tensor(1 << 60, 0, (2,), (1,))), "impossible length"),
        (named(a_tensor(1 << 40, 0, (2,), (1,))), "length"),
        (named(a_tensor(6, 0, (2,), (1,), "QInt8Storage")), "may run foreign code"),
        (named(a_tensor(6, 0, (2,), (1,)).replace(b"storage", b"mistake")), "something else than numbers"),
        (named(a_tensor(6, 0, (2,), (1,)).replace(b"ctorch\nFloatStorage\n", text("Float"))), "a storage of unknown"),
        (named(TENSOR + b"(NK\x00))tR"), "a tensor without a storage, a shape or strides"),
        (named(a_tensor(6, 0, (2,), (1,)).replace(numbers_of((2,)), b"(" + text("2") + b"t")), "no whole number"),
        (named(b"K\x01"), "holds something of type int under the name 'a'"),
        (named(b"}"), "holds something of type dict under the name 'a'"),
        (b"\x80\x02]q\0h\0a.", "holds something of type list"),
        (b"\x80\x02}(" + 2 * (text("a") + b"N") + b"u.", "sets 'a' twice"),
        (b"\x80\x02}" + b")" + b"\x85" * 2000 + b"Ns.", "tuples and dictionaries|key of type tuple"),
        (b"\x80\x02}K\x01Ns.", "key of type int"),
        (b"\x80\x02" + b"}" * 5000 + b".", "far more tuples"),
        (b"\x80\x02" + b"\x85" * 100 + b".", "is no pickle"),
        (b"\x80\x02.", "is no pickle"),
        (b"\x80\x02K\x01(\x85.", "is no pickle"),  # takes what is below a mark
        (named(a_tensor(6, 0, (2,), (1,)).replace(b"tQ", b")tQ", 1)), "a view of a storage"),
        (b"\x80\x02u.", "is no pickle"),
        (b"\x80\x02h\x07.", "is no pickle"),
        (b"\x80\x02}(" + text("a") + b"u.", "is no pickle"),
        (b"\x80\x02X\xff\xff\xff\xff.", "is no pickle"),
        (b"\x80\x02X\x01\0\0\0\xff.", "is no pickle"),
        (b"\x80\x02cos\nmkdir", "is no pickle|foreign code"),
        (b"\x80\x02ctorch\nFloat\\x53torage\n.", "may run foreign code"),  # an escape that Python does not know here
        (b"\x80\x02" + a_tensor(6, 0, (6,), (1,)) + b".", "holds a single tensor"),
        (b"\x80\x02K\x01}b.", "change something of type int"),
        (b"\x80\x02K\x01)R.", "call something of type int"),
        (b"\x80\x02" + TENSOR + b")R.", "with other arguments"),
        (b"\x80\x02Nr\xff\xff\xff\x7f.", "holds something of type NoneType"),  # Python's own would allocate 32 GB
        (b"\x80\x02\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.", "use the operation BINBYTES8"),
        (b"\x80\x02\xff.", "that no pickle has"),
        (b"\x80\x02Vx\\u12\n.", "use the operation UNICODE"),
    ],
)  # fmt: skip
def test_pickles_of_other_things_are_refused(
    write: Callable[..., None], tmp_path: Path, program: bytes, words: str
) -> None:
    write(tmp_path / "m.bin", program, {"0": bytes(24)})
    tracemalloc.start()
    try:
        with refused(words):
            open_tensors(tmp_path / "m.bin")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_archives_that_contradict_themselves_are_refused(tmp_path: Path) -> None:
    path, program = tmp_path / "m.bin", named(a_tensor(6, 0, (6,), (1,)))
    for storages in ({}, {"0": bytes(20)}, {"0": bytes(28)}, {"1": bytes(24)}):
        archive(path, program, storages)
        with refused("is absent or of another length"):
            open_tensors(path)
    archive(path, program, {"0": bytes(24)}, compression=zipfile.ZIP_DEFLATED)
    with refused("compressed or encrypted"):
        open_tensors(path)
    archive(path, program + b"more", {"0": bytes(24)})
    with refused("shorter or longer"):
        open_tensors(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x/data.pkl", program)
        with pytest.warns(UserWarning, match="Duplicate name"):
            file.writestr("x/data.pkl", program)
    with refused("twice"):
        open_tensors(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("data.pkl", program)
    with refused("with 0 files X/data.pkl"):
        open_tensors(path)
    archive(path, program, {"0": bytes(24), "../byteorder": b"big"})
    assert len(open_tensors(path)) == 1
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("x/byteorder", b"big")
    with refused("big-endian"):
        open_tensors(path)
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with refused("not that of a zip archive"):
        open_tensors(path)


def test_an_archive_says_the_same_in_both_places(tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    archive(path, named(a_tensor(1 << 28, 0, (6,), (1,))), {"0": bytes(24)})
    whole = path.read_bytes()
    sizes, larger = struct.pack("<II", 24, 24), struct.pack("<II", 1 << 30, 1 << 30)
    path.write_bytes(larger.join(whole.rsplit(sizes, 1)))  # the list of contents is at the end
    with refused("'x/data/0' reaches beyond its end"):
        open_tensors(path)
    path.write_bytes(whole.replace(b"x/data/0", b"x/data/1", 1))
    with refused("'x/data/0' has another name where it begins"):
        open_tensors(path)


def test_overlapping_files_of_an_archive_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    archive(path, named(a_tensor(6, 0, (6,), (1,))), {"0": bytes(24), "1": bytes(24)})
    written = bytearray(path.read_bytes())
    # In the list of contents, the last entry begins inside the one before it: where a local header was forged.
    with zipfile.ZipFile(path) as file:
        one, two = file.infolist()[1:]
    local = bytes(written[two.header_offset : two.header_offset + 30 + len(two.filename)])
    inside = one.header_offset + 30 + len(one.filename)
    forged = written.replace(
        two.header_offset.to_bytes(4, "little") + two.filename.encode(),
        inside.to_bytes(4, "little") + two.filename.encode(),
    )
    forged[inside : inside + len(local)] = local
    path.write_bytes(forged)
    with refused("'x/data/[01]' overlaps 'x/data/[01]'"):
        open_tensors(path)


def test_older_files_that_contradict_themselves_are_refused(tmp_path: Path) -> None:
    path, program = tmp_path / "m.bin", named(a_tensor(6, 0, (6,), (1,)))
    for storages in ({}, {"1": bytes(24)}, {"0": bytes(24), "1": bytes(24)}):
        older(path, program, storages)
        with refused("the storages it lists are not those of its tensors"):
            open_tensors(path)
    older(path, program, {"0": bytes(20)})
    with refused("not of the length that the pickle says"):
        open_tensors(path)
    older(path, named(a_tensor(6, 0, (6,), (1,)), a_tensor(5, 0, (5,), (1,))), {"0": bytes(24)})
    with refused("two lengths or two types"):
        open_tensors(path)
    older(path, program, {"0": bytes(24)})
    whole = path.read_bytes()
    path.write_bytes(whole + b"more")
    with refused("the file at byte"):
        open_tensors(path)
    path.write_bytes(whole.replace(b"little_endian", b"other_endians"))
    with refused("or big-endian"):
        open_tensors(path)
    path.write_bytes(pickle.dumps(7, protocol=2))
    with refused("was not written by torch.save"):
        open_tensors(path)
