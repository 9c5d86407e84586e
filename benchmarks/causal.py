"""Causal softmax sums: attnflow against torch's fused causal attention and against NumPy, in one run.

    python benchmarks/causal.py [n ...]

prints for each beta how sums are taken, the wall and the CPU time, nanoseconds of CPU per token, the error on some
rows, and how many times as long the others take. torch, where it is installed, computes all n rows, by turns with
attnflow; NumPy computes 100 rows, times n / 100. CPU times of a machine shared with others say more than wall times.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from clouds import Array, clipped_normal
from contenders import installed, numpy_dense

from attnflow.engines import causal

BETAS = (0.01, 1.0, 4.0, 10.0, 30.0, 100.0, 1000.0)
ROWS = 100
ROUNDS = 3


def torch_causal(x: Array, beta: float) -> Callable[[], Any]:
    """PyTorch's fused attention with its causal mask."""
    import torch

    tokens = torch.from_numpy(x)[None, None]

    def compute() -> Any:
        with torch.inference_mode():
            attention = torch.nn.functional.scaled_dot_product_attention
            return attention(tokens, tokens, tokens, scale=beta, is_causal=True)[0, 0]

    return compute


def some_rows(x: Array, beta: float, rows: list[int]) -> Array:
    """Return some rows by the definition, as a NumPy user writes it."""
    return np.concatenate([numpy_dense(x[i : i + 1], x[: i + 1], beta)() for i in rows])


def clock(compute: Callable[[], Any]) -> tuple[float, float]:
    """Return the wall and the CPU time of a computation."""
    wall, cpu = time.perf_counter(), time.process_time()
    compute()
    return time.perf_counter() - wall, time.process_time() - cpu


def measured(n: int, d: int, beta: float, against_torch: bool) -> str:
    """Return a row of the table."""
    x = clipped_normal(n, d)
    ours = partial(causal.softmax, x, x, x, None, beta)
    mean, _ = ours()
    rows = np.linspace(0, n - 1, ROWS).astype(int).tolist()
    error = np.abs(mean[rows] - some_rows(x, beta, rows)).max() / np.linalg.norm(np.ptp(x, axis=0))
    others: dict[str, tuple[Callable[[], Any], float]] = {"NumPy": (partial(some_rows, x, beta, rows), n / ROWS)}
    if against_torch:
        others["torch"] = torch_causal(x, beta), 1.0
    times = [[clock(ours), *(clock(compute) for compute, _ in others.values())] for _ in range(ROUNDS)]
    medians = np.median(times, axis=0)
    (wall, cpu), *theirs = medians.tolist()
    cells = [f"{n:,}", str(d), f"{beta:g}", causal.name(x, x, beta), f"{1e3 * wall:.0f}", f"{1e3 * cpu:.0f}"]
    cells += [f"{1e9 * cpu / n:.0f}", f"{error:.0e}"]
    for (_, times_as_many), seconds in zip(others.values(), theirs, strict=True):
        cells.append(" / ".join(f"{times_as_many * s / t:.0f}" for s, t in zip(seconds, (wall, cpu), strict=True)))
    return "| " + " | ".join(cells) + " |"


def main(sizes: list[int]) -> None:
    """Print the table."""
    against_torch = "torch fused" in installed()
    names = ["n", "d", "beta", "way", "wall ms", "CPU ms", "CPU ns per token", "error", "NumPy (wall / CPU)"]
    names += ["torch fused (wall / CPU)"] if against_torch else []
    print("| " + " | ".join(names) + " |\n|" + "---|" * len(names))
    if not against_torch:
        print("torch is not installed: no comparison with its fused attention", file=sys.stderr)
    for n in sizes:
        for d, betas in ((2, BETAS), (3, (0.1, 1.0, 4.0))):
            for beta in betas:
                print(measured(n, d, beta, against_torch), flush=True)


if __name__ == "__main__":
    main([int(n.replace("_", "")) for n in sys.argv[1:]] or [100_000])
