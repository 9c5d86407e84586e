"""A machine that runs pickles of tensors and nothing else.

A pickle is a program for a small stack machine, and Python's own calls any function that the program names. This one
knows the operations that `torch.save` needs for a dictionary of tensors, refuses all others before it looks at their
arguments, and calls nothing: it notes which numbers of which storage a tensor is made of. Python's own, restricted to
some functions, would still allocate whatever sizes a file names and can overflow its stack on nested keys.
"""

from __future__ import annotations

import mmap
import pickletools
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any, cast

from attnflow.checkpoints.files.tensors import MOST_NUMBERS, broken, checked_shape
from attnflow.core.inputs import InputError, quoted

STORAGES = {
    "torch DoubleStorage": "float64", "torch FloatStorage": "float32", "torch HalfStorage": "float16",
    "torch BFloat16Storage": "bfloat16", "torch LongStorage": "int64", "torch IntStorage": "int32",
    "torch ShortStorage": "int16", "torch CharStorage": "int8", "torch ByteStorage": "uint8",
    "torch BoolStorage": "bool",
}  # fmt: skip
DICTIONARY = "collections OrderedDict"
TENSOR, OLD_TENSOR = "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor"
PARAMETER = "torch._utils _rebuild_parameter"
NAMES = {*STORAGES, DICTIONARY, TENSOR, OLD_TENSOR, PARAMETER}

OPERATIONS = {
    "PROTO", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT",
    "BINUNICODE", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST", "APPEND", "APPENDS",
    "EMPTY_DICT", "SETITEM", "SETITEMS", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "GLOBAL", "BINPERSID",
    "REDUCE", "BUILD",
}  # fmt: skip
ALLOWED = {ord(one.code) for one in pickletools.opcodes if one.name in OPERATIONS}
NAME = ord("c")
LONGEST_NAME = 80
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
NUMBERS_AND_TEXT = {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE"}

# A tuple or dictionary takes one byte of a pickle and some 60 bytes of memory, and a dictionary with a name some 200.
# What is kept for later takes five and 100. Each tensor has about six of the former and seven of the latter, and more
# than 75 bytes, so that a true file stays below one per this many bytes.
BYTES_PER_CONTAINER = 12
BYTES_PER_KEPT = 8
SPARE = 1000
# Marks are open one inside the other: some five of them in a true file.
MOST_MARKS = 100


@dataclass(frozen=True, slots=True)
class Storage:
    """Numbers of one kind in a row, which tensors are made of."""

    kind: str
    key: str
    numbers: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A tensor: numbers of a storage, from an offset on; offset and strides count numbers."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Name:
    """A function or class that a pickle names; it is never looked up."""

    name: str


def called_by_users(thing: Any) -> str:
    """Return what users call something that came out of a pickle."""
    ours = {Piece: "a single tensor", Storage: "a storage", _Name: "the name of a function"}
    return ours.get(type(thing), f"something of type {type(thing).__name__}")


def run_pickle(path: Path, data: mmap.mmap) -> Any:
    """Run the pickle at the position of a file, and leave the position behind it."""
    try:
        return _Machine(path, data).run()
    except InputError:
        raise
    except (ValueError, IndexError, KeyError):
        raise broken(path, "a pickle in it ends too early or is no pickle") from None


class _Machine:
    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        # What came since the last mark, and what came before each mark that is still open.
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.containers_left = len(data) // BYTES_PER_CONTAINER + SPARE
        self.most_kept = len(data) // BYTES_PER_KEPT + SPARE

    def run(self) -> Any:
        # A mapped file reads and tells as other files do.
        operations = pickletools.genops(cast(IO[bytes], self.data))
        while True:
            # Looked at first: the arguments of other operations may be code, or of any size.
            code = self.data[self.data.tell()]
            if code not in ALLOWED:
                known = [one.name for one in pickletools.opcodes if ord(one.code) == code]
                raise self.code(f"use the operation {known[0]}" if known else "use an operation that no pickle has")
            if code == NAME:
                self.check_name(self.data.tell() + 1)
            operation, argument, _ = next(operations)
            if operation.name == "STOP":
                return self.pop()
            self.step(operation.name, argument)

    def check_name(self, begin: int) -> None:
        """Refuse a function or class, named in two lines, that is none of those known."""
        end = self.data.find(b"\n", self.data.find(b"\n", begin) + 1)
        name = self.data[begin : min(end, begin + LONGEST_NAME)].decode("ascii", "backslashreplace").replace("\n", " ")
        if name not in NAMES:
            raise self.code(f"call {quoted(name.replace(' ', '.'))}")

    def step(self, name: str, argument: Any) -> None:
        if name in NUMBERS_AND_TEXT:
            self.stack.append(argument)
        elif name in CONSTANTS:
            self.stack.append(CONSTANTS[name])
        elif name == "MARK":
            if len(self.below) >= MOST_MARKS:
                raise broken(self.path, f"it nests more than {MOST_MARKS} tuples or dictionaries")
            self.below.append(self.stack)
            self.stack = []
        elif name in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = self.top(object)
            if len(self.memo) > self.most_kept:
                raise broken(self.path, "it keeps far more for later than tensors need")
        elif name in ("BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        elif name.startswith("TUPLE"):
            items = tuple(self.pop_to_mark()) if name == "TUPLE" else self.pop_some(int(name[-1]))
            self.stack.append(self.counted(items))
        elif name.startswith("EMPTY_"):
            self.stack.append(self.counted([] if name == "EMPTY_LIST" else {}))
        elif name in ("APPEND", "APPENDS"):
            added = [self.pop()] if name == "APPEND" else self.pop_to_mark()
            self.top(list).extend(added)
        elif name in ("SETITEM", "SETITEMS"):
            pairs = list(self.pop_some(2)) if name == "SETITEM" else self.pop_to_mark()
            self.set_items(pairs)
        elif name == "GLOBAL":
            self.stack.append(_Name(argument))
        elif name == "BINPERSID":
            self.stack.append(self.storage(self.pop()))
        elif name == "REDUCE":
            function, arguments = self.pop_some(2)
            self.stack.append(self.called(function, arguments))
        elif name == "BUILD":
            # The attributes of a dictionary of tensors: versions of the modules it came from.
            self.pop()
            self.top(dict)

    def pop(self) -> Any:
        return self.pop_some(1)[0]

    def pop_some(self, count: int) -> tuple[Any, ...]:
        if len(self.stack) < count:
            raise IndexError
        items = tuple(self.stack[-count:])
        del self.stack[-count:]
        return items

    def pop_to_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.below.pop()
        return items

    def top(self, kind: type) -> Any:
        """Return what is on top of the stack, which must be of a kind."""
        if not isinstance(self.stack[-1], kind):
            raise self.code(f"change {called_by_users(self.stack[-1])}")
        return self.stack[-1]

    def counted(self, container: Any) -> Any:
        self.containers_left -= 1
        if self.containers_left < 0:
            raise broken(self.path, "it holds far more tuples and dictionaries than tensors need")
        return container

    def set_items(self, items: list[Any]) -> None:
        into = self.top(dict)
        if len(items) % 2:
            raise IndexError
        if items and not into:
            self.counted(into)  # once more: its first name makes it much larger
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) is not str:
                raise self.other(f"a dictionary with a key of type {type(key).__name__}")
            if key in into:
                raise broken(self.path, f"it sets {quoted(key)} twice")
            into[key] = value

    def storage(self, about: Any) -> Storage:
        """Return the storage that a pickle asks for by its type, key, device and length."""
        if type(about) is not tuple or len(about) not in (5, 6) or about[0] != "storage":
            raise self.other("something else than numbers beside the pickle")
        if len(about) == 6 and about[5] is not None:
            raise self.other("a view of a storage")
        kind, key, numbers = about[1], about[2], about[4]
        if type(kind) is not _Name or kind.name not in STORAGES or type(key) is not str:
            raise self.other("a storage of unknown numbers")
        if type(numbers) is not int or not 0 <= numbers < MOST_NUMBERS:
            raise broken(self.path, f"its storage {quoted(key)} has an impossible length")
        return Storage(STORAGES[kind.name], key, numbers)

    def called(self, function: Any, arguments: Any) -> Any:
        """Return what a call of one of the known functions stands for."""
        if type(function) is not _Name or type(arguments) is not tuple:
            raise self.code(f"call {called_by_users(function)}")
        name = function.name
        if name == DICTIONARY and not arguments:
            return self.counted({})
        if name == PARAMETER and arguments and type(arguments[0]) is Piece:
            return arguments[0]
        if name in (TENSOR, OLD_TENSOR) and len(arguments) >= 4:
            return self.piece(*arguments[:4])
        raise self.code(f"call {quoted(name.replace(' ', '.'))} with other arguments than torch does")

    def piece(self, storage: Any, offset: Any, shape: Any, strides: Any) -> Piece:
        if type(storage) is not Storage or type(shape) is not tuple or type(strides) is not tuple:
            raise self.other("a tensor without a storage, a shape or strides")
        name = f"in storage {storage.key}"
        sizes = checked_shape(self.path, name, shape)
        natural = [type(one) is int and 0 <= one < MOST_NUMBERS for one in (offset, *strides)]
        if not all(natural) or len(strides) != len(sizes):
            raise broken(self.path, f"a tensor {name} has an impossible offset or impossible strides")
        if not prod(sizes):
            return Piece(storage, 0, sizes, (0,) * len(sizes))
        last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        # Equal numbers are allowed to stand for several, but not for more than there are: that would fill the memory.
        if last >= storage.numbers or prod(sizes) > storage.numbers:
            raise broken(self.path, f"a tensor {name} reaches beyond its {storage.numbers} numbers")
        return Piece(storage, offset, sizes, strides)

    def code(self, what: str) -> InputError:
        return InputError(
            f"{self.path} would {what}, which no file of tensors needs and which may run foreign code: load it "
            "nowhere, and get the weights as .safetensors"
        )

    def other(self, what: str) -> InputError:
        return InputError(
            f"{self.path} holds {what}, expected a dictionary of tensors alone: save the model's state_dict() with "
            "torch.save, or as .safetensors"
        )
