"""GGUF files: read as the package gguf writes and reads them, and refused where they contradict themselves."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from refusals import refused

from attnflow.checkpoints.files import open_tensors

KINDS = gguf.GGMLQuantizationType
WORDS = ["a", "", "é\n", "<s>"]


def write(path: Path, tensors: dict[str, Any], alignment: int | None = None) -> None:
    """Write tensors, given as numbers or as (numbers, how to quantise them), and a value of each type."""
    writer = gguf.GGUFWriter(path, "llama")
    if alignment:
        writer.add_custom_alignment(alignment)
    writer.add_uint32("a.count", 7)
    writer.add_float32("a.eps", 0.5)
    writer.add_bool("a.flag", True)
    writer.add_int64("a.low", -(1 << 40))
    writer.add_array("a.words", WORDS)
    writer.add_array("a.types", [1, 2, 3])
    writer.add_array("a.flags", [True, False])
    for name, given in tensors.items():
        numbers, kind = given if isinstance(given, tuple) else (given, None)
        quantised = numbers if kind is None else gguf.quantize(numbers, kind)
        writer.add_tensor(name, quantised, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("alignment", [None, 128])
def test_values_and_tensors_are_read_as_they_were_written(tmp_path: Path, alignment: int | None) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(3, 64)).astype(np.float32)
    exact: dict[str, Any] = {
        "one": numbers,
        "half": numbers.astype(np.float16),
        "double": rng.normal(size=5),
        "ids": np.arange(4),
    }
    coarse = {kind.name: (numbers, kind) for kind in (KINDS.Q8_0, KINDS.Q4_0, KINDS.Q4_1, KINDS.BF16)}
    write(tmp_path / "m.gguf", {**exact, **coarse}, alignment)
    tensors = open_tensors(tmp_path)
    assert list(tensors) == [*exact, *coarse]
    for name, written in exact.items():
        read = tensors[name].read()
        np.testing.assert_array_equal(read, written)
        assert read.dtype == tensors[name].dtype == (np.float32 if name == "half" else written.dtype)
    # The largest number of a row, 3, stands for the errors of rounding to 8, 4, 4 and 8 bits.
    for (name, _), bits in zip(coarse.items(), (7, 3, 4, 8), strict=True):
        read = tensors[name].read()
        assert read.dtype == np.float32
        assert 0 < np.abs(read - numbers).max() <= 3 * 2.0**-bits
    assert tensors["Q8_0"].stored_bytes == 3 * 2 * 34
    metadata = tensors.metadata
    assert metadata["general.architecture"] == "llama"
    assert (metadata["a.count"], metadata["a.eps"], metadata["a.flag"], metadata["a.low"]) == (7, 0.5, True, -(1 << 40))
    assert metadata["a.words"] == WORDS
    assert metadata["a.types"].tolist() == [1, 2, 3]
    assert metadata["a.flags"].tolist() == [True, False]


def test_all_types_that_the_package_reads_are_read_alike(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    path, known = tmp_path / "m.gguf", 0
    for kind in KINDS:
        block, size = gguf.GGML_QUANT_SIZES[kind]
        raw = rng.integers(0, 60, (2, 2 * size), dtype=np.uint8)  # as small as to make no number infinite
        header = entry("a", (2 * block, 2), kind)
        path.write_bytes(a_file([header], data=raw.tobytes()))
        try:
            with np.errstate(all="ignore"):
                expected = gguf.dequantize(raw, kind)
        except NotImplementedError:
            if kind.name.startswith(("I8", "I16", "I32", "I64", "F64")):
                assert open_tensors(path)["a"].read().tobytes() == raw.tobytes()
            else:
                with refused(r"which the package gguf cannot read"):
                    open_tensors(path)
            continue
        known += 1
        read = open_tensors(path)["a"].read()
        assert read.shape == (2, 2 * block) == expected.shape
        np.testing.assert_array_equal(read, expected)
    assert known >= 20


@pytest.mark.parametrize("kind", [KINDS.Q4_0, KINDS.IQ1_S, KINDS.TQ1_0], ids=lambda kind: kind.name)
def test_quantised_numbers_take_at_most_three_times_their_memory(tmp_path: Path, kind: Any) -> None:
    block, size = gguf.GGML_QUANT_SIZES[kind]
    (tmp_path / "m.gguf").write_bytes(a_file([entry("a", (block, 4000), kind)], data=bytes(4000 * size)))
    tensor = open_tensors(tmp_path)["a"]
    tensor.read()
    tracemalloc.start()
    try:
        read = tensor.read()
        assert read.nbytes < tracemalloc.get_traced_memory()[1] < 3 * read.nbytes
    finally:
        tracemalloc.stop()


def test_each_type_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []
    dequantize = gguf.dequantize

    def noted(data: Any, kind: Any) -> Any:
        tried.append(kind)
        return dequantize(data, kind)

    monkeypatch.setattr(gguf, "dequantize", noted)
    entries = [entry(str(k), (0, 1), kind) for k, kind in enumerate([KINDS.Q8_0, KINDS.Q4_0] * 50)]
    (tmp_path / "m.gguf").write_bytes(a_file(entries))
    assert len(open_tensors(tmp_path)) == 100
    assert tried == [KINDS.Q8_0, KINDS.Q4_0]


def text(word: bytes) -> bytes:
    return struct.pack("<Q", len(word)) + word


def entry(name: str, sizes: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    """Return what a header says of a tensor."""
    shape = struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
    return text(name.encode()) + shape + struct.pack("<IQ", kind, offset)


def value(key: str, kind: int, contents: bytes) -> bytes:
    return text(key.encode()) + struct.pack("<I", kind) + contents


def a_file(entries: list[bytes], values: list[bytes] = [], data: bytes = b"", **changes: Any) -> bytes:  # noqa: B006
    """Return a file written by hand."""
    count, values_count = changes.get("count", len(entries)), changes.get("values_count", len(values))
    head = b"GGUF" + struct.pack("<IQQ", changes.get("version", 3), count, values_count)
    head += b"".join(values) + b"".join(entries)
    return head + bytes(-len(head) % 32) + data


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        (b"", "it is empty"),
        (b"GGML" + bytes(40), "does not begin as GGUF"),
        (b"GG", "asks for 4 bytes"),
        (a_file([], version=1), "version 1 of GGUF"),
        (a_file([], version=0x03000000), "big-endian"),
        (a_file([], count=1 << 62), "more than the file has room for"),
        (a_file([], values_count=1 << 63), "more than the file has room for"),
        (a_file([entry("a", (2,))], data=bytes(4)), "reaches to byte"),  # truncated
        (a_file([entry("a", (2,)), entry("b", (2,))], data=bytes(8)), "overlaps"),
        (a_file([entry("a", (16,)), entry("b", (2,), 0, 32)], data=bytes(64)), "overlaps"),
        (a_file([entry("a", (2,)), entry("a", (2,), 0, 32)], data=bytes(64)), "'a' twice"),
        (a_file([entry("a", (2,), 0, 4)], data=bytes(64)), "no multiple of 32"),
        (a_file([entry("a", (2,), 0, (1 << 64) - 32)], data=bytes(64)), "reaches to byte"),
        (a_file([entry("a", (1 << 63, 1 << 63))], data=bytes(64)), "has the shape"),
        (a_file([entry("a", (1 << 40,))], data=bytes(64)), "reaches to byte"),
        (a_file([entry("a", ())], data=bytes(64)), "has 0 dimensions"),
        (a_file([entry("a", (1,) * 5)], data=bytes(64)), "has 5 dimensions"),
        (a_file([text(b"a") + b"\xff\xff\xff\xff" + bytes(40)]), "has 4294967295 dimensions"),
        (a_file([entry("a", (2,), 99)], data=bytes(64)), "in the type 99"),
        (a_file([entry("a", (31, 32), KINDS.Q8_0)], data=bytes(2000)), "rows of 31 numbers, no multiple of 32"),
        (a_file([struct.pack("<Q", 1 << 60) + bytes(50)]), "asks for"),
        (a_file([text(b"\xff") + entry("a", (2,))[9:]], data=bytes(64)), "is no text"),
        (a_file([], [value("k", 4, bytes(4))] * 2), "'k' twice"),
        (a_file([], [value("k", 13, bytes(8))]), "has a value of type 13"),
        (a_file([], [value("k", 9, struct.pack("<IQ", 9, 1) * 9)]), "or an array of arrays"),
        (a_file([], [value("k", 9, struct.pack("<IQ", 0, 1 << 60))]), "more than the file has room for"),
        (a_file([], [value("k", 9, struct.pack("<IQ", 8, 2) + bytes(8) + b"\xff" * 8)]), "reaches beyond its end"),
        (a_file([], [value("k", 8, struct.pack("<Q", (1 << 64) - 1))]), "reaches beyond its end"),
        (a_file([], [value("general.alignment", 4, struct.pack("<I", 3))]), "expected a power of two"),
        (a_file([], [value("general.alignment", 4, struct.pack("<I", 0))]), "expected a power of two"),
        (a_file([], [value("general.alignment", 8, text(b"x"))]), "expected a power of two"),
        (a_file([], [value("split.count", 2, struct.pack("<H", 3))]), "is one of 3 parts"),
    ],
)  # fmt: skip
def test_files_that_contradict_themselves_are_refused(tmp_path: Path, contents: bytes, words: str) -> None:
    (tmp_path / "m.gguf").write_bytes(contents)
    tracemalloc.start()
    try:
        with refused(words):
            open_tensors(tmp_path / "m.gguf")
        assert tracemalloc.get_traced_memory()[1] < 1 << 18
    finally:
        tracemalloc.stop()


def test_files_written_by_hand(tmp_path: Path) -> None:
    """What the refusals above change is read."""
    numbers = np.arange(6, dtype=np.float32)
    values = [value("k", 9, struct.pack("<IQ", 8, 1) + text(b"\xe2\x82")), value("b", 7, b"\x07")]
    entries = [entry("a", (3, 2)), entry("n", (0, 1 << 40)), entry("q", (0, 2), KINDS.Q8_0)]
    (tmp_path / "m.gguf").write_bytes(a_file(entries, values, numbers.tobytes()))
    tensors = open_tensors(tmp_path)
    np.testing.assert_array_equal(tensors["a"].read(), numbers.reshape(2, 3))
    assert tensors["n"].read().shape == (1 << 40, 0)
    assert tensors["q"].read().shape == (2, 0)
    assert tensors.metadata == {"k": [b"\xe2\x82".decode(errors="surrogateescape")], "b": True}


def test_a_folder_with_two_files_is_refused(tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(a_file([]))
    with refused("holds 2 files .gguf"):
        open_tensors(tmp_path)
