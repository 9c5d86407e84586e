"""What a cell of a sweep gives: values by name, or the sentence of its failure; and what it printed and logged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import InputError, quoted
from attnflow.sweeps.grid import is_name
from attnflow.sweeps.listening import Said

Values = dict[str, NDArray[Any]]
# The shape of each value, and its type.
Schema = dict[str, tuple[tuple[int, ...], str]]


@dataclass
class Outcome:
    """Values of a cell by name, or why there are none."""

    values: Values = field(default_factory=dict)
    failed: str = ""
    said: list[Said] = field(default_factory=list)

    @property
    def schema(self) -> Schema:
        """Shapes and types of the values."""
        return {name: (value.shape, value.dtype.str) for name, value in self.values.items()}

    def fitted(self, schema: Schema) -> Outcome:
        """Return the outcome, a failure if its values do not fit those of the first cell, in whatever order."""
        if self.failed or self.schema == schema:
            return self
        if set(self.values) != set(schema):
            theirs, ours = ", ".join(sorted(schema)), ", ".join(sorted(self.values))
            return Outcome(failed=f"it returned {ours}, and the first cell {theirs}: return the same names always")
        for name, (shape, kind) in sorted(schema.items()):
            value = self.values[name]
            if value.shape != shape:
                sentence = f"{name} has shape {value.shape}, and {shape} in the first cell: return one shape always"
                return Outcome(failed=sentence)
            if not np.can_cast(value.dtype, kind):
                sentence = f"{name} is complex, and real in the first cell: return complex numbers always"
                return Outcome(failed=sentence)
        return Outcome({name: self.values[name].astype(kind) for name, (_, kind) in schema.items()})


def values_of(found: Any, name: str) -> Values:
    """Return what a cell has returned as arrays of float64 or complex128, by name.

    >>> values_of({"a": 1, "b": [1.0, 2.0]}, "cell")
    {'a': array(1.), 'b': array([1., 2.])}
    """
    if not isinstance(found, dict):
        wanted = "a number, an array, a dictionary of them, or a run with measure=[...]"
        return {name: _numbers(found, "it returned", wanted)}
    if not found:
        raise InputError("it returned an empty dictionary: return at least one value")
    for key in found:
        if not is_name(key):
            raise InputError(f"it names a value {key!r}, expected a word such as 'clusters': rename it")
    return {key: _numbers(value, f"{key!r} is", "a number or an array") for key, value in found.items()}


def _numbers(value: Any, what: str, wanted: str) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        array = np.empty(0, object)
    if array.dtype.kind not in "biufc":
        raise InputError(f"{what} {quoted(value)}, expected {wanted}")
    numbers = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    if array.dtype.kind in "iu" and array.itemsize == 8 and np.abs(numbers).max(initial=0.0) >= 2.0**53:
        raise InputError(
            f"{what} {quoted(value)}, beyond 2**53, where float64 has gaps: return it in parts, or as float"
        )
    return numbers


class Batch(NamedTuple):
    """What a worker sends back: outcomes of some cells, seconds of work, the most bytes of its process, and who it is.

    `worker` is a thread of a process: the first batch of each loads and compiles code.
    """

    outcomes: list[Outcome]
    seconds: float
    memory: int
    worker: str
