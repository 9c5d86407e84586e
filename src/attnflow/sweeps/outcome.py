"""What a cell of a sweep gives: values by name, or the sentence of its failure; and what it printed and logged."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import InputError, quoted

Values = dict[str, NDArray[Any]]
# The shape of each value, and its type.
Schema = dict[str, tuple[tuple[int, ...], str]]


@dataclass
class Outcome:
    """Values of a cell by name, or why there are none."""

    values: Values = field(default_factory=dict)
    failed: str = ""
    heard: list[str | logging.LogRecord] = field(default_factory=list)

    @property
    def schema(self) -> Schema:
        """Shapes and types of the values."""
        return {name: (value.shape, value.dtype.str) for name, value in self.values.items()}

    def fitted(self, schema: Schema) -> Outcome:
        """Return the outcome, a failure if its values do not fit those of the cells before it."""
        if self.failed or self.schema == schema:
            return self
        if list(self.values) == list(schema):
            for name, (shape, kind) in schema.items():
                value = self.values[name]
                if value.shape != shape:
                    sentence = f"{name} has shape {value.shape}, and {shape} in the first cell: return one shape always"
                    return Outcome(failed=sentence, heard=self.heard)
                if np.can_cast(value.dtype, kind):
                    continue
                sentence = f"{name} is complex, and was real in the first cell: return complex numbers always"
                return Outcome(failed=sentence, heard=self.heard)
            return Outcome({name: value.astype(schema[name][1]) for name, value in self.values.items()}, "", self.heard)
        sentence = (
            f"it returned {', '.join(self.values)}, and the first cell {', '.join(schema)}: return the same names"
        )
        return Outcome(failed=sentence, heard=self.heard)


def values_of(found: Any, name: str) -> Values:
    """Return what a cell has returned as arrays of float64 or complex128, by name.

    >>> values_of({"a": 1, "b": [1.0, 2.0]}, "cell")
    {'a': array(1.), 'b': array([1., 2.])}
    """
    if isinstance(found, dict):
        if not found:
            raise InputError("it returned an empty dictionary: return at least one value")
        return {str(key): _numbers(value, f"{str(key)!r} is", "a number or an array") for key, value in found.items()}
    return {
        name: _numbers(found, "it returned", "a number, an array, a dictionary of them, or a run with measure=[...]")
    }


def _numbers(value: Any, what: str, wanted: str) -> NDArray[Any]:
    try:
        array = np.asarray(value)
        if array.dtype.kind in "biufc":
            return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    except (TypeError, ValueError):
        pass
    raise InputError(f"{what} {quoted(value)}, expected {wanted}")


class Batch(NamedTuple):
    """What a worker sends back: outcomes of some cells, seconds of work, and the most memory of its process, bytes."""

    outcomes: list[Outcome]
    seconds: float
    memory: int


class _ByThread:
    """Standard output that goes where each thread wants it: other threads of a worker print as before."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.own = stream, threading.local()

    def write(self, text: str) -> int:
        into = getattr(self.own, "heard", None)
        if into is None:
            return self.stream.write(text)
        into.append(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Log(logging.Handler):
    """Keeps what one thread logs, as plain text that can travel."""

    def __init__(self, heard: list[Any]) -> None:
        super().__init__()
        self.heard, self.thread = heard, threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self.thread:
            plain = logging.makeLogRecord({**vars(record), "msg": record.getMessage(), "args": None, "exc_info": None})
            self.heard.append(plain)


_guard = threading.Lock()


@contextmanager
def listening(level: int) -> Iterator[list[Any]]:
    """Yield a list to which everything is added that this thread prints, or logs at this level or above."""
    heard: list[Any] = []
    with _guard:
        if not isinstance(sys.stdout, _ByThread):
            sys.stdout = _ByThread(sys.stdout)
        stream: Any = sys.stdout
    root, handler = logging.getLogger(), _Log(heard)
    before, stream.own.heard = root.level, heard
    root.addHandler(handler)
    root.setLevel(level)
    try:
        yield heard
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        stream.own.heard = None
