"""Times of computations that take turns, so that a noisy machine is noisy for both."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

# A contender is timed on so many pairs of tokens: on all queries if they are few, else on some of them, times the rest.
PAIRS = 4 * 10**8
# Nobody takes turns for longer than this, in seconds, once each has had two.
PATIENCE = 4.0


def turns(*computations: Callable[[], Any], rounds: int = 7) -> list[float]:
    """Return the median time of each of some computations that take turns, after one round to warm up."""
    times: list[list[float]] = [[] for _ in computations]
    began = time.perf_counter()
    for turn in range(rounds + 1):
        for kept, compute in zip(times, computations, strict=True):
            begin = time.perf_counter()
            compute()
            if turn:
                kept.append(time.perf_counter() - begin)
        if turn >= 2 and time.perf_counter() - began > PATIENCE:
            break
    return [median(kept) for kept in times]
