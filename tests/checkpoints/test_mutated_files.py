"""Mutated files of weights: read or refused in one sentence, in little memory, and no code in them is run."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from larger import larger
from numpy.random import Generator
from refusals import refused
from safetensors.numpy import save_file

from attnflow.checkpoints.files import open_tensors
from attnflow.core.inputs import InputError

FIXTURES = Path(__file__).parent / "fixtures"
# Sizes, counts and offsets that a reader might believe.
NUMBERS = [0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
# Tokens of the formats, and of pickles that run code.
WORDS = [b"cos\nsystem\n", b"(S'touch made'\ntR.", b"\x80\x04", b"R", b"(", b"}", b"]" * 40, b"\x85" * 40, b"-1", b"[",
         b'"shape":[', b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"GGUF", b"../../", b"1e999", b"null"]  # fmt: skip
# Reading one of these files, one tensor after the other, takes at most this many times its size in memory, and some to
# spare; opening those that were made to take the most takes at most `WORST` times as much.
FACTOR = 16
WORST = 32
SPARE = 1 << 18


def write_safetensors(path: Path) -> None:
    rng = np.random.default_rng(0)
    save_file(
        {
            "a.weight": rng.normal(size=(8, 16)).astype(np.float32),
            "a.bias": rng.normal(size=8).astype(np.float16),
            "b": rng.normal(size=(2, 1, 5)),
            "ids": np.arange(7),
            "mask": np.array([True, False]),
        },
        path,
        metadata={"format": "pt"},
    )


def write_gguf(path: Path) -> None:
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("llama.block_count", 2)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b", "<s>"])
    writer.add_array("tokenizer.ggml.token_type", [1, 1, 3])
    for kind in (None, *(gguf.GGMLQuantizationType[name] for name in ("F16", "BF16", "Q8_0", "Q4_0", "Q4_1"))):
        numbers = rng.normal(size=(4, 32)).astype(np.float32)
        name = "plain" if kind is None else kind.name
        writer.add_tensor(name, numbers if kind is None else gguf.quantize(numbers, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


FORMATS: dict[str, Callable[[Path], object]] = {
    "m.safetensors": write_safetensors,
    "archive.bin": lambda path: path.write_bytes((FIXTURES / "archive.bin").read_bytes()),
    "older.bin": lambda path: path.write_bytes((FIXTURES / "older.bin").read_bytes()),
    "m.gguf": write_gguf,
}


def mutated(contents: bytes, rng: Generator) -> bytes:
    """Return a file with one to four changes: bits, numbers, words, pieces moved, repeated, left out or cut off."""
    data = bytearray(contents)
    for _ in range(rng.integers(1, 5)):
        at, other = (int(one) for one in rng.integers(0, max(len(data), 1), 2))
        length = int(rng.integers(1, 200))
        match rng.integers(0, 8):
            case 0 if data:
                data[at] ^= 1 << int(rng.integers(0, 8))
            case 1 if data:
                data[at] = int(rng.integers(0, 256))
            case 2:
                size = int(rng.choice([1, 2, 4, 8]))
                number = NUMBERS[rng.integers(0, len(NUMBERS))] % (1 << (8 * size))
                data[at : at + size] = number.to_bytes(size, "little")
            case 3:
                word = WORDS[rng.integers(0, len(WORDS))]
                data[at : at + (len(word) if rng.random() < 0.5 else 0)] = word
            case 4:
                data[at : at + length] = data[other : other + length]
            case 5:
                data[at:at] = data[other : other + length]
            case 6:
                del data[at : at + length]
            case _ if rng.random() < 0.5:
                del data[at:]
    return bytes(data)


def inside_header(contents: bytes, rng: Generator) -> bytes:
    """Return a safetensors file with changes in its header, whose length is right again."""
    end = 8 + int.from_bytes(contents[:8], "little")
    header = mutated(contents[8:end], rng)
    return len(header).to_bytes(8, "little") + header + contents[end:]


def inside_archive(contents: bytes, rng: Generator) -> bytes:
    """Return an archive that is whole, with changes in its pickle."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(contents)) as old, zipfile.ZipFile(written, "w") as new:
        for one in old.infolist():
            data = old.read(one)
            new.writestr(one.filename, mutated(data, rng) if one.filename.endswith("data.pkl") else data)
    return written.getvalue()


# What reaches further than changes anywhere: those of headers that are read after others have been checked.
INSIDE = {"m.safetensors": inside_header, "archive.bin": inside_archive}


def read_all(path: Path) -> int:
    """Return how many numbers a file holds, reading all of them; 0 if it is refused."""
    count, sentence = 0, ""
    try:
        for tensor in open_tensors(path).values():
            read = tensor.read()
            assert read.shape == tensor.shape
            assert read.dtype == tensor.dtype
            count += read.size
    except InputError as error:
        count, sentence = 0, str(error)
    assert "\n" not in sentence
    assert len(sentence) < 600
    return count


def attack(name: str, folder: Path, seeds: range) -> tuple[int, int]:
    """Read mutated files, and return how many were read and how many refused."""
    path = folder / name
    FORMATS[name](path)
    contents = path.read_bytes()
    assert read_all(path)  # the packages are loaded before memory is counted
    read = 0
    for seed in seeds:
        mutate = INSIDE.get(name, mutated) if seed % 2 else mutated
        data = mutate(contents, np.random.default_rng(seed))
        path.write_bytes(data)
        tracemalloc.start()
        try:
            read += read_all(path) > 0
            peak = tracemalloc.get_traced_memory()[1]
        except BaseException as error:
            raise AssertionError(f"{name} with seed {seed} is not refused in one sentence") from error
        finally:
            tracemalloc.stop()
        assert peak <= FACTOR * len(data) + SPARE, f"{name} with seed {seed} takes {peak} bytes"
    return read, len(seeds) - read


@pytest.fixture
def no_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What a pickle would call on its way to running code, each of which fails here."""
    called: list[str] = []

    def refuse(*arguments: Any, **keywords: Any) -> None:
        called.append(repr(arguments))
        raise AssertionError

    for function in ("pickle.load", "pickle.loads", "pickle.Unpickler", "os.system", "subprocess.Popen"):
        monkeypatch.setattr(function, refuse)
    monkeypatch.chdir(tmp_path)
    return called


@pytest.mark.parametrize("name", FORMATS)
def test_mutated_files_are_read_or_refused(name: str, tmp_path: Path, no_code: list[str]) -> None:
    read, refused = attack(name, tmp_path, range(100))
    assert read > 3
    assert refused > 30
    assert not no_code
    assert [path.name for path in tmp_path.iterdir()] == [name]


@larger
@pytest.mark.parametrize("name", FORMATS)
def test_many_mutated_files_are_read_or_refused(name: str, tmp_path: Path, no_code: list[str]) -> None:
    attack(name, tmp_path, range(100, 1100))
    assert not no_code
    assert [path.name for path in tmp_path.iterdir()] == [name]


def many_tensors(count: int) -> bytes:
    header = {f"{k:x}": {"dtype": "F32", "shape": [], "data_offsets": [4 * k, 4 * k + 4]} for k in range(count)}
    text = json.dumps(header, separators=(",", ":")).encode()
    return len(text).to_bytes(8, "little") + text + bytes(4 * count)


def many_files(count: int) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as file:
        for k in range(count):
            file.writestr(f"{k:x}", b"")
    return written.getvalue()


def archived(program: bytes) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as file:
        file.writestr("x/data.pkl", program)
    return written.getvalue()


def many_values(count: int) -> bytes:
    values = [struct.pack("<Q4sIB", 4, f"{k:04x}".encode(), 0, k % 256) for k in range(count)]
    return b"GGUF" + struct.pack("<IQQ", 3, 0, count) + b"".join(values)


def many_entries(count: int, kind: int = 0) -> bytes:
    entries = [struct.pack("<Q4sIQIQ", 4, f"{k:04x}".encode(), 1, 0, kind, 0) for k in range(count)]
    return b"GGUF" + struct.pack("<IQQ", 3, count, 0) + b"".join(entries)


def many_empty(count: int, kind: int) -> bytes:
    """Return a whole file, whose header lists tensors without a number."""
    head = many_entries(count, kind)
    return head + bytes(-len(head) % 32)


def many_words(count: int) -> bytes:
    words = b"".join(struct.pack("<Q2s", 2, b"ab") for k in range(count))
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q1sIIQ", 1, b"a", 9, 8, count) + words


def many_bytes(count: int) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q1sIIQ", 1, b"a", 9, 7, count) + b"\7" * count


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("m.safetensors", many_tensors(4000)),
        ("m.bin", many_files(2000)),
        ("m.bin", archived(b"\x80\x02" + b"}" * 200_000 + b".")),
        ("m.bin", archived(b"\x80\x02]" + b"(" + b"]" * 20_000 + b"e.")),
        ("m.bin", archived(b"\x80\x02N" + b"".join(b"r" + struct.pack("<I", 1000 * k) for k in range(20_000)) + b".")),
        ("m.bin", archived(b"\x80\x02(" + b"".join(b"J" + struct.pack("<I", 1000 * k) for k in range(20_000)) + b"t.")),
        ("m.gguf", many_values(8000)),
        ("m.gguf", many_entries(4000)),
        ("m.gguf", many_words(8000)),
        ("m.gguf", many_bytes(100_000)),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_headers_of_many_small_things_take_little_memory(tmp_path: Path, name: str, contents: bytes) -> None:
    assert most_memory(tmp_path / name, contents) <= FACTOR * len(contents)


def most_memory(path: Path, contents: bytes) -> int:
    """Return how many bytes are in use, at most, while a file is read."""
    path.write_bytes(contents)
    read_all(path)
    tracemalloc.start()
    try:
        read_all(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


KEPT = b"".join(b"r" + struct.pack("<I", 1000 + k) + b"NNN" for k in range(21_900))


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("m.gguf", many_empty(2800, 0)),
        ("m.gguf", many_empty(2800, gguf.GGMLQuantizationType.Q8_0)),
        ("m.bin", archived(b"\x80\x02N" + KEPT.replace(b"NNN", b"") + b".")),
        ("m.bin", archived(b"\x80\x02N" + KEPT + b".")),
        ("m.bin", archived(b"\x80\x02N" + KEPT.replace(b"NNN", b"]Na") + b".")),
        ("m.bin", archived(b"\x80\x02" + b"N" * 300 + b"(" * 50_000 + b".")),
        ("m.bin", archived(b"\x80\x02](" + b"N" * 50_000 + b"e.")),
        ("m.bin", archived(b"\x80\x02(" + b"M\xff\x7f" * 20_000 + b"t.")),
        ("m.bin", archived(b"\x80\x02X\1\0\0\0aq\0(" + b"}h\0NsNNN" * 8000 + b"t.")),
        ("m.bin", archived(b"\x80\x02X\1\0\0\0aq\0(" + (b"}h\0Ns" + b"N" * 19) * 8000 + b"t.")),
        ("m.bin", archived(b"\x80\x02(" + (b"]Na" + b"N" * 9) * 8000 + b"t.")),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_files_made_to_fill_the_memory(tmp_path: Path, name: str, contents: bytes) -> None:
    assert most_memory(tmp_path / name, contents) <= WORST * len(contents)


def test_pickles_that_keep_or_nest_too_much_are_refused(tmp_path: Path) -> None:
    """A true file of many tensors keeps one thing for later in ten bytes, and nests five deep."""
    for program, sentence in (
        (b"N" + KEPT.replace(b"NNN", b""), "keeps far more for later"),
        (b"(" * 101, "nests more than 100"),
    ):
        (tmp_path / "m.bin").write_bytes(archived(b"\x80\x02" + program + b"."))
        with refused(sentence):
            open_tensors(tmp_path / "m.bin")
