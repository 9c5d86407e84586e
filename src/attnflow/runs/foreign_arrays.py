"""The loop for arrays of torch, JAX or CuPy: layer after layer on their device, with nothing in the way of derivatives.

It is the loop of `simulate` without watchers and stores, which look at NumPy arrays between the steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.arrays import holds, library, namespace, precision
from attnflow.core.progress import Task
from attnflow.laws import Hearing
from attnflow.motions.normalisation import no_direction, token_at_zero
from attnflow.motions.stepper import NoDirection
from attnflow.runs.recording import Record, Recorder, Recording
from attnflow.runs.watch import Start


def run_layers(x: Any, hearing: Hearing, motion: Any, until: int, record: Record, work: Task) -> dict[str, Any]:
    """Return the recorded times and tokens, why the run ended, and what it says of itself; the motion has a `step`."""
    xp, kept, stopped = namespace(x), _Kept(), f"reached step {until}, as asked"
    recorder = Recorder(record, kept)
    recorder.begin(Start(0, x, until, True, x))
    for t in range(until):
        work.reach(t, part=0.0)
        try:
            x = motion.step(hearing, x, t)
        except NoDirection as error:
            if t == 0:
                raise
            stopped = str(error)
            break
        if not holds(xp.isfinite(x)):
            stopped = f"tokens left the range of {precision(x)} at step {t + 1}; {motion.advice(hearing.law)}"
            break
        if motion.keeps_radii and (i := token_at_zero(x)) is not None:
            stopped = no_direction(motion, i, f"step {t + 1}")
            break
        recorder.take(t, np.array([t + 1]), [x])
    recorder.end()
    report = {"engine": "dense", "arrays": library(x)}
    return {"times": np.array(kept.times), "tokens": xp.stack(kept.states), "stopped": stopped, "report": report}


class _Kept(Recording):
    """Records in lists, so that derivatives pass through."""

    def __init__(self) -> None:
        self.times: list[int] = []
        self.states: list[Any] = []

    def append(self, times: NDArray[Any], tokens: Any) -> None:
        self.times.extend(times.tolist())
        self.states.extend(tokens)
