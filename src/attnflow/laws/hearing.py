"""A law as a motion listens through it: with the masses, the engine and the seed of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attnflow.core.inputs import Array
from attnflow.core.progress import tick
from attnflow.engines import Memory
from attnflow.laws.law import Law
from attnflow.laws.sums import Heard


@dataclass(frozen=True)
class Hearing:
    """A law with the masses of the tokens, the engine and the seed of a run: what a motion listens through.

    A `memory` lets engines keep something from one call to the next.
    """

    law: Law
    masses: Array | None = None
    engine: str = "auto"
    seed: int | None = None
    memory: Memory | None = None

    def __call__(
        self,
        x: Array,
        t: float,
        *,
        sources: Array | None = None,
        values: Array | None = None,
        gain: float = 1.0,
    ) -> Heard:
        """What tokens at x hear at time t."""
        tick()
        own: dict[str, Any] = {"masses": self.masses, "engine": self.engine, "memory": self.memory}
        return self.law.hear(x, t, sources=sources, values=values, gain=gain, **own)

    def pull(self, x: Array, t: float) -> Heard:
        """What tokens at x hear at time t, as seen from where they are: sum_j P_ij (x_j - x_i)."""
        tick()
        return self.law.pull(x, t, masses=self.masses, engine=self.engine)

    def served_by(self, x: Array, t: float) -> str:
        """Return the name of the engine that serves tokens at x, as the law sees them, at time t."""
        return self.law.served_by(x, t, self.engine)

    @property
    def total_mass(self) -> float | None:
        """Sum of the masses, or None when each token has mass one."""
        return None if self.masses is None else float(self.masses.sum())
