"""Runs with a proved error: balls that hold the true tokens, and how far the recorded ones are from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow.claims import balls, exact
from attnflow.claims.experiment import products
from attnflow.core.cards import card
from attnflow.core.inputs import InputError
from attnflow.enclosures import enclose
from attnflow.enclosures.numbers import Numbers, ball, digits, largest, largest_radius
from attnflow.runs.trajectory import Trajectory

# Runs of layers are replayed if that takes at most this many products of machine words.
MOST = 2e6


@dataclass(frozen=True)
class CertifiedRun:
    """What is proved of a run: `tokens` (n, d) hold the true ones at `time`, in balls or, if "exact", in fractions.

    `error` bounds the distance of each recorded coordinate from the true one at that time, and `radius` is that of the
    balls. `stopped` says in one sentence why the proof ended; `reached` is false if that was before the end of the run.
    """

    tokens: Numbers
    time: float
    error: float
    stopped: str
    reached: bool
    certified: str

    @property
    def radius(self) -> float:
        """The largest radius of a ball."""
        return 0.0 if self.certified == "exact" else largest_radius(self.tokens)

    def _repr_html_(self) -> str:
        n, d = self.tokens.shape
        rows = {
            "tokens": f"{n} in dimension {d}", "step or time": f"{self.time:g}",
            "error at most": digits(self.error, up=True), "largest radius": digits(self.radius, up=True),
            "stopped": self.stopped, "reached": "the end of the run" if self.reached else "only a part of the run",
            "certified": self.certified,
        }  # fmt: skip
        return card("Certified run", rows)


def certified_run(run: Trajectory) -> CertifiedRun:
    """Return balls of the tokens at the end of a run, or as far as they come; see `certify`."""
    law, motion = run.law, run.motion
    if law is None or motion is None:
        raise InputError("the run does not say its law and motion: give one from simulate")
    if run.masses is not None:
        raise InputError("the run has masses, which are not certified: repeat tokens instead")
    start, end = np.asarray(run.tokens[0]), run.times[-1]
    if not motion.discrete:
        found = enclose(start, law, motion, float(end))
        time = float(found.times[-1])
        recorded = run.final if found.reached else run.at(time)
        return _compared(found.final, recorded, time, found.stopped, found.reached, "ball")
    ways: Any = {"exact": (exact, exact.rational), "ball": (balls, balls.balls)}
    for how, (arithmetic, numbers) in ways.items():
        if arithmetic.replayable(law, motion):
            if products(start.shape, int(end)) > MOST:
                raise InputError(f"the {end} steps of this run take too long to replay: give fewer, or fewer tokens")
            with balls.precision():
                states = arithmetic.replay(numbers(start), law, motion, int(end))
                return _compared(states[-1], run.final, int(end), f"step {end} was reached", True, how)
    raise InputError(
        f"{law.short_name} in {type(motion).__name__} is not certified: use Softmax, Hardmax or Localmax in Layers, or "
        "Softmax in a flow"
    )


def _compared(tokens: Numbers, recorded: Any, time: float, stopped: str, reached: bool, how: str) -> CertifiedRun:
    pairs = zip(tokens.ravel(), np.ravel(recorded), strict=True)
    bound = largest((ball(one) - ball(float(value))).abs_upper() for one, value in pairs)
    error = 0.0 if bound == 0 else float(np.nextafter(float(bound), np.inf))
    return CertifiedRun(tokens, time, error, stopped, reached, how)
