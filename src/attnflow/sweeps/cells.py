"""The cells of a sweep: a function called with the parameters of each place of the grid."""

from __future__ import annotations

import functools
import inspect
import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow.core.calls import BY_NAME, raised
from attnflow.core.identity import digest
from attnflow.core.inputs import InputError, quoted
from attnflow.runs.trajectory import Trajectory
from attnflow.sweeps.grid import Grid
from attnflow.sweeps.listening import said
from attnflow.sweeps.outcome import Outcome, values_of
from attnflow.sweeps.process import shared_process

Measure = Callable[[Trajectory], Any]
# The first part of the key of each cell's generator, which no cloud of tokens with the same seed has.
KEY = 0xCE11


@dataclass(frozen=True)
class Cells:
    """A function, the grid of its parameters, what is measured of a run that it returns, and the seed of all cells.

    Called with numbers of cells it returns their outcomes, each of which depends on nothing but its place in the grid.
    """

    function: Callable[..., Any]
    grid: Grid
    measures: dict[str, Measure]
    seed: int

    def __call__(self, cells: Iterable[int]) -> list[Outcome]:
        with shared_process():
            return self.outcomes(list(cells))

    def outcomes(self, cells: list[int]) -> list[Outcome]:
        """Return what the function gives for these cells."""
        return [self.outcome(cell) for cell in cells]

    @property
    def name(self) -> str:
        """The name of the function, "value" if it has none."""
        name: str = getattr(inspect.unwrap(_whole(self.function)), "__name__", "value")
        return name if name.isidentifier() else "value"

    @property
    def identity(self) -> str:
        """What the function is, beyond its name."""
        return digest(self.function)

    def outcome(self, cell: int) -> Outcome:
        """Return what the function gives for one cell."""
        return self.outcome_of(lambda: self._called(cell))

    def outcome_of(self, work: Callable[[], Any]) -> Outcome:
        """Return what work gives, with what it prints and logs; an error is its sentence."""
        try:
            values = values_of(work(), self.name)
        except InputError as error:
            return Outcome(failed=str(error), said=said())
        except BaseException as error:
            # Only the user interrupts the main thread; a worker runs cells in others.
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            return Outcome(failed=_sentence(error), said=said())
        return Outcome(values, said=said())

    def measured(self, run: Trajectory) -> dict[str, Any]:
        """Return what is measured of a run; where that is several values by name, NAME_KEY has each of them."""
        found: dict[str, Any] = {}
        for name, measure in self.measures.items():
            one = measure(run)
            found |= {f"{name}_{key}": value for key, value in one.items()} if isinstance(one, dict) else {name: one}
        return found

    def _called(self, cell: int) -> Any:
        sequence = np.random.SeedSequence(self.seed, spawn_key=(KEY, *self.grid.place(cell)))
        # A cell that draws from the generators of the process gets numbers of its own too.
        state = sequence.spawn(1)[0].generate_state(8)
        np.random.seed(state)  # noqa: NPY002
        random.seed(state.tobytes())
        own = {"rng": np.random.default_rng(sequence)} if wants_rng(self.function, self.grid) else {}
        found = self.function(**self.grid.parameters(cell), **own)
        if not isinstance(found, Trajectory):
            if self.measures:
                raise InputError(f"it returned {quoted(found)}, and measure is for runs: return one, or drop measure")
            return found
        if not self.measures:
            raise InputError("it returned a run: say what is measured of it, such as measure=['clusters']")
        return self.measured(found)


def check_function(function: Any, grid: Grid) -> None:
    """Refuse a function that does not take the parameters of the grid."""
    if not callable(function):
        raise InputError(f"the cell is {function!r}, expected a function of the parameters of the grid")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    known = [name for name, parameter in signature.parameters.items() if parameter.kind in BY_NAME]
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
        unknown = next((name for name in grid.names if name not in known), None)
        if unknown is not None:
            takes = ", ".join(known) or "nothing"
            raise InputError(
                f"the axis {unknown!r} is no parameter of the cell, which takes {takes}: rename one of them"
            )
    for name, parameter in signature.parameters.items():
        optional = parameter.default is not parameter.empty or parameter.kind not in (
            *BY_NAME,
            parameter.POSITIONAL_ONLY,
        )
        if not optional and name not in grid.names and not (name == "rng" and name in known):
            raise InputError(f"the cell needs {name!r}, which is no axis: add it to over, or give it a default")


def wants_rng(function: Any, grid: Grid) -> bool:
    """Say whether the function has a parameter `rng` that is free: it gets a generator of the cell's own."""
    if isinstance(function, functools.partial) and "rng" in function.keywords:
        return False
    try:
        return "rng" in inspect.signature(function).parameters and "rng" not in grid.names
    except (TypeError, ValueError):
        return False


def _sentence(error: BaseException) -> str:
    """Return what was raised in one line, even if the error cannot describe itself."""
    try:
        return " ".join(raised(error).split())
    except Exception:
        return f"it raised {type(error).__name__}, which has no text"


def _whole(function: Any) -> Any:
    """Return the function of which some parameters may have been fixed."""
    while isinstance(function, functools.partial):
        function = function.func
    return function
