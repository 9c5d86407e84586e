"""Reasons why a verdict is undecided that several claims share: rounding, the cap of exact replays, short runs."""

from __future__ import annotations

from math import floor, sqrt
from typing import TYPE_CHECKING

from attnflow.claims.margins import Undecided
from attnflow.core.inputs import InputError

if TYPE_CHECKING:
    from attnflow.claims.experiment import Experiment

# How an exact replay is asked for, in Python and on the command line.
ASK_FOR_EXACT = "exact=True (--exact)"
DIFFERENT_RUNS = Undecided(
    "the run and its repetition at a tighter tolerance do not agree on what they show",
    "give a shorter until, or tokens farther from where two limits part",
)


class TooLong(InputError):
    """A run was stopped because it takes too long: `reached` is where, `why` what an undecided verdict says of it."""

    def __init__(self, seconds: float, discrete: bool, reached: float, until: float) -> None:
        moment, ways = (
            (f"step {reached:.0f} of {until:.0f}", "fewer steps")
            if discrete
            else (f"time {reached:.3g} of {until:.3g}", "a shorter until, smaller tokens or a smaller beta, B or V")
        )
        stiff = "" if discrete else ", as happens to stiff flows"
        self.why = Undecided(
            f"after {seconds:g} seconds the run was at {moment}{stiff}", f"give {ways}, or fewer tokens"
        )
        self.reached = reached
        super().__init__(str(self.why))


def affordable_steps(shape: tuple[int, int], most: float) -> int:
    """Return how many steps s of such tokens take at most `most` products in fractions, n^2 d s (1 + s / 64).

    >>> affordable_steps((100, 2), 2e6)
    54
    """
    n, d = shape
    return floor(32 * (sqrt(1 + most / (16 * n * n * d)) - 1))


def capped(e: Experiment, most: float) -> Undecided:
    """Return that an exact replay would decide, but takes so long that it is done only if asked for."""
    n, d = e.shape
    steps = affordable_steps(e.shape, most)
    fewer = f"at most {steps} steps, fewer tokens" if steps else "fewer tokens"
    return Undecided(
        f"an exact replay of {int(e.horizon)} steps of {n} tokens in dimension {d} takes so long that it is done only "
        "if asked for",
        f"give {fewer}, or {ASK_FOR_EXACT}",
    )


def within_rounding(e: Experiment, rational: bool, most: float) -> Undecided:
    """Return that rounding, or the error of an integration, is as large as the margin."""
    if e.arithmetic == "ball":
        return Undecided("the balls around the states are as wide as the margin", "give fewer steps")
    if not e.motion.discrete:
        return Undecided(
            "the error of the integration, from a rerun at a tighter tolerance, is as large as the margin",
            "give another until, or tokens farther from the border between two outcomes",
        )
    if rational and e.work > most:
        return capped(e, most)
    return Undecided(
        "rounding is as large as the margin, and this run cannot be computed in fractions",
        "give fewer steps, or tokens farther from the tie",
    )


NOTHING_SEEN = Undecided("the run shows nothing that the claim speaks of", "give more steps, or a longer until")
