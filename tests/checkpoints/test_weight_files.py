"""Files of weights: read as their own libraries wrote them, and refused where they contradict themselves."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from refusals import refused
from safetensors.numpy import save_file

from attnflow.checkpoints.files import open_tensors

RNG = np.random.default_rng(0)
WEIGHTS: dict[str, NDArray[Any]] = {
    "a.weight": RNG.normal(size=(3, 4)).astype(np.float32),
    "a.bias": RNG.normal(size=3).astype(np.float16),
    "b": RNG.normal(size=(2, 1, 5)),
    "ids": np.arange(7),
    "mask": np.array([[True, False], [False, True]]),
    "one": np.array(2.5, np.float32),
    "none": np.zeros((0, 3), np.float32),
}


def write_header(path: Path, header: dict[str, Any] | str, data: bytes = b"") -> Path:
    """Write a safetensors file by hand."""
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def entry(begin: int, end: int, shape: list[int], kind: str = "F32") -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_file(WEIGHTS, tmp_path / "model.safetensors", metadata={"format": "pt"})
    return tmp_path


def test_safetensors_are_read_as_their_library_wrote_them(folder: Path) -> None:
    tensors = open_tensors(folder)
    assert set(tensors) == set(WEIGHTS)
    assert tensors.metadata == {"format": "pt"}
    for name, written in WEIGHTS.items():
        read = tensors[name].read()
        assert read.dtype == tensors[name].dtype == (np.float32 if written.dtype == np.float16 else written.dtype)
        assert read.shape == tensors[name].shape == written.shape
        assert tensors[name].stored_bytes == written.nbytes
        np.testing.assert_array_equal(read, written)
        assert read.flags.aligned


def test_bfloat16_is_the_upper_half_of_float32(tmp_path: Path) -> None:
    numbers = np.array([1.0, -2.5, 3e38, 1e-40, np.inf], np.float32).view(np.uint32) >> 16
    path = write_header(tmp_path / "b.safetensors", {"b": entry(0, 10, [5], "BF16")}, numbers.astype("<u2").tobytes())
    read = open_tensors(path)["b"].read()
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read.view(np.uint32), numbers << 16)


def test_tensors_are_views_of_the_file(folder: Path) -> None:
    read = open_tensors(folder / "model.safetensors")["b"].read()
    assert not read.flags.owndata
    assert not read.flags.writeable


def test_shards_are_one_checkpoint(tmp_path: Path) -> None:
    names = list(WEIGHTS)
    files = {name: f"model-0000{1 + k % 2}-of-00002.safetensors" for k, name in enumerate(names)}
    for shard in set(files.values()):
        save_file({name: WEIGHTS[name] for name in names if files[name] == shard}, tmp_path / shard)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 9}, "weight_map": files}))
    for path in (tmp_path, index):
        tensors = open_tensors(path)
        assert list(tensors) == names
        assert tensors.metadata["total_size"] == 9
        for name in names:
            np.testing.assert_array_equal(tensors[name].read(), WEIGHTS[name])

    def again(**changes: str) -> None:
        index.write_text(json.dumps({"weight_map": {**files, **changes}}))

    again(extra=files["b"])
    with refused("does not hold the tensor 'extra'"):
        open_tensors(tmp_path)
    again(b="model-00003-of-00002.safetensors")
    with refused("which is not beside it|does not list there"):
        open_tensors(tmp_path)
    again(b=files["a.bias"])
    with refused("does not list there|does not hold"):
        open_tensors(tmp_path)


@pytest.mark.parametrize("shard", ["../secret.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", "x" * 5000, 7])
def test_shards_lie_beside_their_index(tmp_path: Path, shard: Any) -> None:
    (tmp_path / "inside").mkdir()
    save_file({"a": WEIGHTS["b"]}, tmp_path / "secret.safetensors")
    index = tmp_path / "inside" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": shard}}))
    with refused("expected the name of a file beside it"):
        open_tensors(tmp_path / "inside")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("{", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[]", "no 'weight_map'"),
        ('{"weight_map": []}', "no 'weight_map'"),
        ('{"weight_map": {}}', "no 'weight_map'"),
        ('{"weight_map": {"a": "m.safetensors", "a": "n.safetensors"}}', "lists a name twice"),
    ],
)
def test_an_index_is_checked(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with refused(words):
        open_tensors(tmp_path)


@pytest.mark.parametrize(
    ("header", "data", "words"),
    [
        ({"a": entry(0, 8, [2])}, 4, "safetensors says"),  # truncated
        ({"a": entry(0, 8, [2])}, 12, "safetensors says"),  # more than the tensors
        ({"a": entry(0, 8, [2]), "b": entry(4, 12, [2])}, 12, "safetensors says"),  # overlapping
        ({"a": entry(0, 8, [2]), "b": entry(12, 20, [2])}, 20, "safetensors says"),  # a gap
        ({"a": entry(0, 8, [3])}, 8, "safetensors says"),  # a shape that does not fit
        ({"a": entry(8, 0, [2])}, 8, "safetensors says"),
        ({"a": entry(0, 8, [-2])}, 8, "safetensors says"),
        ({"a": entry(0, 8, [1 << 62, 1 << 62])}, 8, "safetensors says"),
        ({"a": entry(0, 0, [0, 1 << 62])}, 0, "has the shape"),
        ({"a": entry(0, 4, [1] * 40)}, 4, "has 40 dimensions"),
        ({"a": entry(0, 8, [2], "F99")}, 8, "safetensors says"),
        ({"a": entry(0, 8, [8], "F8_E4M3")}, 8, "expected one of F64, F32"),
        ('{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "a": '
         '{"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}', 4, "has 'a' twice"),
        ("[" * 100_000, 0, "safetensors says"),
        ("{}}", 0, "safetensors says"),
    ],
)  # fmt: skip
def test_safetensors_that_contradict_themselves_are_refused(
    tmp_path: Path, header: dict[str, Any] | str, data: int, words: str
) -> None:
    path = write_header(tmp_path / "m.safetensors", header, bytes(data))
    with refused(words):
        open_tensors(path)


@pytest.mark.parametrize("contents", [b"", b"\0", (1 << 40).to_bytes(8, "little") + b"{}", b"\xff" * 100])
def test_files_without_a_header_are_refused(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(contents)
    with refused("is damaged"):
        open_tensors(path)


def test_paths_that_hold_no_weights_are_refused(tmp_path: Path) -> None:
    with refused("holds none of model.safetensors"):
        open_tensors(tmp_path)
    with refused("does not exist"):
        open_tensors(tmp_path / "m.safetensors")
    with refused("expected a path"):
        open_tensors(3)
    (tmp_path / "m.csv").write_text("1")
    with refused("is of no known format"):
        open_tensors(tmp_path / "m.csv")
    (tmp_path / "d.safetensors").mkdir()
    with refused("holds none of"):
        open_tensors(tmp_path / "d.safetensors")
    with refused("is not a file"):
        (tmp_path / "zero.safetensors").symlink_to("/dev/zero")
        open_tensors(tmp_path / "zero.safetensors")


@pytest.mark.parametrize("name", ["safetensors", "gguf"])
def test_a_missing_package_is_named(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = struct.pack("<Q1sIQIQ", 1, b"a", 1, 0, 0, 0)
    (folder / "m.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + tensor + bytes(7))
    path = folder / ("m.gguf" if name == "gguf" else "model.safetensors")
    assert open_tensors(path)
    monkeypatch.setitem(sys.modules, name, None)
    with refused(f"needs {name}: pip install 'attnflow\\[checkpoints\\]'"):
        open_tensors(path)


def test_packages_are_imported_when_a_file_is_opened() -> None:
    code = "import sys, attnflow.checkpoints.files; print({'safetensors', 'gguf', 'tokenizers'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"a": np.zeros(2, np.float32)}, path)

    def denied(self: Path, mode: str = "r") -> Any:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", denied)
    with refused("cannot be opened .Permission denied.: give a file that you may read"):
        open_tensors(path)


def test_tensors_in_another_order_than_their_numbers_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that forgot a tensor would leave numbers over, and all behind it would be read from wrong places."""
    import safetensors

    path, whole = tmp_path / "model.safetensors", safetensors.safe_open
    save_file({"a": np.zeros(2, np.float32), "b": np.ones(3, np.float32)}, path)
    size = path.stat().st_size

    class Forgetful:
        def __init__(self, *given: Any, **named: Any) -> None:
            self.file: Any = whole(*given, **named)

        def offset_keys(self) -> list[str]:
            return list(self.file.offset_keys())[:-1]

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    monkeypatch.setattr(safetensors, "safe_open", Forgetful)
    with refused(f"its tensors end at byte {size - 12}, the file at byte {size}"):
        open_tensors(path)
