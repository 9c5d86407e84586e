"""Measurements by name, as configurations and sweeps ask for them: of a whole run one number, or a few."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from attnflow.catalogue import check_parameters
from attnflow.core.calls import meant
from attnflow.core.inputs import InputError, quoted
from attnflow.runs.trajectory import Trajectory

Numbers = TypeVar("Numbers", bound=Callable[..., Any])
# Functions of a run and options, by the name of the measurement; those that need no states but the first and the last.
KNOWN: dict[str, Callable[..., Any]] = {}
OF_ENDS: set[str] = set()


def number_of(measurement: Callable[..., Any], *, ends: bool = False) -> Callable[[Numbers], Numbers]:
    """Decorate the function that says which number, or dictionary of numbers, a measurement gives for a whole run.

    Its parameters beside the run are the options of the measurement. Those that need no states of a run but the first
    and the last say so by `ends`.
    """

    def known(function: Numbers) -> Numbers:
        KNOWN[measurement.__name__] = function
        if ends:
            OF_ENDS.add(measurement.__name__)
        return function

    return known


@dataclass(frozen=True)
class Measurement:
    """A measurement by its name, with options: a function of a run.

    >>> import attnflow as af
    >>> run = af.simulate([[0.0], [0.1], [5.0]], af.Hardmax(), af.Layers(gamma=0.5), until=3)
    >>> Measurement("clusters", {"tol": 0.2})(run)
    3
    >>> Measurement("cluster")
    Traceback (most recent call last):
    ...
    attnflow.InputError: there is no measurement 'cluster' (is 'clusters' meant?), expected one of clusters, ...
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name not in KNOWN:
            raise InputError(
                f"there is no measurement {quoted(self.name)}{meant(self.name, KNOWN)}, expected one of "
                f"{', '.join(sorted(KNOWN))}, or a function of a run"
            )
        _, *options = inspect.signature(KNOWN[self.name]).parameters.values()
        check_parameters(self.options, [option.name for option in options], f"the measurement {self.name!r}")
        for option in options:
            if option.default is option.empty and option.name not in self.options:
                raise InputError(f"the measurement {self.name!r} needs {option.name}: give a table with name and it")

    @property
    def ends(self) -> bool:
        """Whether it needs no states of a run but the first and the last."""
        return self.name in OF_ENDS

    def __call__(self, run: Trajectory) -> Any:
        """Return the number, or numbers by name."""
        return KNOWN[self.name](run, **self.options)
