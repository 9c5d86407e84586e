"""The loop for arrays of torch, JAX or CuPy: layer after layer on their device, with nothing in the way of derivatives.

It is the loop of `simulate` without watchers and stores, which look at NumPy arrays between the steps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attnflow.core.arrays import holds, library, namespace, precision
from attnflow.core.progress import Task
from attnflow.laws import Hearing
from attnflow.motions import DiscreteMotion
from attnflow.runs.watch import RECORD_BYTES, At, Every, Geometric, Record, rule


def run_layers(
    x: Any, hearing: Hearing, motion: DiscreteMotion, until: int, record: Record, work: Task
) -> dict[str, Any]:
    """Return the recorded times and tokens, why the run ended, and what it says of itself."""
    xp, kept = namespace(x), _Kept(record, until, math.prod(x.shape) * x.dtype.itemsize)
    times, states, stopped = [0], [x], f"reached step {until}, as asked"
    for t in range(until):
        work.reach(t, part=0.0)
        before, x = x, motion.step(hearing, x, t)
        if not holds(xp.isfinite(x)):
            stopped = f"tokens left the range of {precision(x)} at step {t + 1}; {motion.hint}"
            if times[-1] != t:
                times, states = [*times, t], [*states, before]
            break
        if kept.wants(t + 1) or t + 1 == until:
            times.append(t + 1)
            states.append(x)
    report = {"engine": "dense", "arrays": library(x)}
    return {"times": np.array(times), "tokens": xp.stack(states), "stopped": stopped, "report": report}


class _Kept:
    """Which steps are recorded: by the rule of the user, or every one until the recording has grown by 1 GiB."""

    def __init__(self, record: Record, until: int, size: int) -> None:
        chosen = rule(record)
        self.times = set(chosen.chosen(until, True).tolist()) if isinstance(chosen, At | Geometric) else None
        self.stride, self.budget = (chosen.k, until) if isinstance(chosen, Every) else (1, max(2, RECORD_BYTES // size))
        self.room = self.budget

    def wants(self, t: int) -> bool:
        if self.times is not None:
            return t in self.times
        if t % self.stride:
            return False
        self.room -= 1
        if self.room == 0:
            self.stride, self.room = 2 * self.stride, self.budget
        return True
