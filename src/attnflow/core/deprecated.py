"""Public names of an earlier release: they work for one release more, and say what to write instead."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Renamed:
    """What some names of a module stood for, each as ``module:name``, and what is written in their place now.

    >>> names = Renamed({"Fraktion": "fractions:Fraction"}, use="fractions.Fraction")
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     names.get("example", "Fraktion")
    <class 'fractions.Fraction'>
    >>> print(said[0].message)
    example.Fraktion will be gone in the next release: write fractions.Fraction
    """

    names: dict[str, str]
    use: str

    def get(self, module: str, name: str) -> Any:
        """Return what a name of the module stands for, with a warning; for `__getattr__` of the module."""
        if name not in self.names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        place, _, found = self.names[name].partition(":")
        warnings.warn(
            f"{module}.{name} will be gone in the next release: write {self.use}", DeprecationWarning, stacklevel=3
        )
        return getattr(import_module(place), found)
