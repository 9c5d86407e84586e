"""CPU time of computations that take turns, so that a noisy machine is noisy for both.

The seconds of all threads are added up: they depend less than those of a clock on what else the machine does.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from statistics import median
from typing import Any

# A contender is timed on so many pairs of tokens: on all queries if they are few, else on some of them, times the rest.
PAIRS = 4 * 10**8
# A turn takes at least so many seconds. Before it there is a rest: threads that wait for more work may still spin.
TURN, REST = 5e-3, 0.05
# Nobody takes turns for longer than this, in seconds, once each has had two.
PATIENCE = 4.0


def turns(*computations: Callable[[], Any], rounds: int = 7) -> list[float]:
    """Return the median CPU time of each of some computations that take turns, after one round to warm up."""
    times: list[list[float]] = [[] for _ in computations]
    repeats = [1] * len(computations)
    began = time.perf_counter()
    for turn in range(rounds + 1):
        for k, compute in enumerate(computations):
            if turn == 1:
                repeats[k] = math.ceil(TURN / _seconds(compute, 1))
            seconds = _seconds(compute, repeats[k])
            if turn:
                times[k].append(seconds)
        if turn >= 2 and time.perf_counter() - began > PATIENCE:
            break
    return [median(kept) for kept in times]


def _seconds(compute: Callable[[], Any], repeats: int) -> float:
    time.sleep(REST)
    begin = time.process_time()
    for _ in range(repeats):
        compute()
    return (time.process_time() - begin) / repeats
