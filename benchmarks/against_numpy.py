"""attnflow against vectorised NumPy in one run: ratios, not seconds, because machines differ and are noisy.

    python benchmarks/against_numpy.py

Each figure is the median time of NumPy over the median time of attnflow, the two taking turns. Other work on the
machine costs the compiled loops more than NumPy: run it on a quiet one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

import attnflow as af

Array = NDArray[np.float64]


def attention(x: Array, beta: float) -> Array:
    """One softmax step as a careful NumPy user writes it."""
    s = beta * (x @ x.T)
    s -= s.max(axis=1, keepdims=True)
    p = np.exp(s)
    p /= p.sum(axis=1, keepdims=True)
    result: Array = p @ x
    return result


def layers(x: Array, beta: float, gamma: float, steps: int) -> Array:
    """A recorded run of softmax layers as a NumPy loop."""
    states = np.empty((steps + 1, *x.shape))
    states[0] = x
    for s in range(steps):
        x = x + gamma * (attention(x, beta) - x)
        states[s + 1] = x
    return states


def hardmax(x: Array, y: Array) -> Array:
    """What queries x hear from the farthest of the sources y, as a careful NumPy user writes it."""
    s = x @ y.T
    near = s == s.max(axis=1, keepdims=True)
    result: Array = (near / near.sum(axis=1, keepdims=True)) @ y
    return result


def turns(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Return the median times of two computations that take turns, after one round to warm up."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 1):
        for kept, compute in zip(times, (ours, theirs), strict=True):
            begin = time.perf_counter()
            compute()
            if turn:
                kept.append(time.perf_counter() - begin)
    return median(times[0]), median(times[1])


def line(name: str, ours: float, theirs: float, error: float) -> None:
    """Print one comparison."""
    print(f"{name:<62}{ours * 1e3:>10.2f} ms{theirs * 1e3:>12.2f} ms{theirs / ours:>8.1f} x{error:>10.1e}", flush=True)


def main() -> None:
    """Print the table."""
    print(f"{'':<62}{'attnflow':>13}{'NumPy':>15}{'ratio':>10}{'error':>10}")
    law = af.Softmax(beta=1.0)
    for n, d, rounds in ((200, 2, 200), (2_000, 2, 20), (10_000, 2, 5), (10_000, 3, 3), (2_000, 16, 10)):
        x = af.tokens.gaussian(n=n, d=d, seed=0) * np.sqrt(2 / d)
        ours, theirs = turns(partial(law.attend, x), partial(attention, x, 1.0), rounds)
        line(f"one softmax step, n = {n:,}, d = {d}", ours, theirs, np.abs(law.attend(x) - attention(x, 1.0)).max())
    n, rows = 1_000_000, 20
    x, sharp = af.tokens.gaussian(n=n, d=2, seed=0), af.Hardmax()
    ours, theirs = turns(partial(sharp.attend, x), partial(hardmax, x[:rows], x), 5)
    error = np.abs(sharp.attend(x)[:rows] - hardmax(x[:rows], x)).max()
    line(
        f"one hardmax step, n = {n:,}, d = 2 (NumPy: {rows} rows, times {n // rows:,})", ours, theirs * n / rows, error
    )
    x, motion = af.tokens.gaussian(n=20, d=2, seed=0), af.Layers(gamma=0.1)
    for beta in (1.0, 9.0):
        law = af.Softmax(beta=beta)
        run = partial(af.simulate, x, law, motion)
        loop = partial(layers, x, beta, 0.1)
        ours, theirs = turns(partial(run, 100_000), partial(loop, 100_000), 9)
        error = np.abs(run(100).tokens - loop(100)).max()
        line(f"100,000 recorded layers of 20 tokens, beta = {beta:g}", ours, theirs, error)


if __name__ == "__main__":
    main()
