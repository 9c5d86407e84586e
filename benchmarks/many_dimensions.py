"""Softmax sums in four and more dimensions: attnflow against torch's fused attention, in one run.

    python benchmarks/many_dimensions.py wide [n ...]     8 to 512 dimensions, in double and in single precision
    python benchmarks/many_dimensions.py few [n ...]      4 to 10 dimensions, each engine, on clouds of several shapes

prints a table in Markdown. All times are CPU times, the least of some rounds in which all take turns; ratios are those
of torch over attnflow, so that above 1 attnflow is faster. Errors are over the diameter of the cloud, against NumPy on
some rows. With OMP_WAIT_POLICY=passive, threads that wait are not counted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from clouds import Array
from contenders import installed, numpy_dense, torch_fused

import attnflow as af
from attnflow.engines import module

DIMENSIONS = (8, 16, 32, 64, 128, 512)
ROUNDS, LONG = 5, 2.0
# Where all pairs would take minutes, torch and the engines that look at all pairs serve a part of the queries.
PAIRS = 10**9


def least(*computations: Callable[[], Any]) -> list[float]:
    """Return the least CPU time of each of some computations that take turns, after one round to warm up."""
    times: list[list[float]] = [[] for _ in computations]
    for turn in range(ROUNDS + 1):
        for kept, compute in zip(times, computations, strict=True):
            began = time.process_time()
            compute()
            kept.append(time.process_time() - began)
        if turn >= 2 and sum(kept[-1] for kept in times) > LONG:
            break
    return [min(kept[1:]) for kept in times]


def error(mean: Array, queries: Array, x: Array, beta: float) -> float:
    """Return the error of some rows, over twice the largest distance to the mean."""
    some = np.linspace(0, len(queries) - 1, min(len(queries), 100)).astype(int)
    off = np.linalg.norm(mean[some] - numpy_dense(queries[some], x, beta)(), axis=1).max()
    return float(off / (2 * np.linalg.norm(x - x.mean(axis=0), axis=1).max()))


def wide(sizes: list[int]) -> Iterator[list[str]]:
    """Yield rows: queries that are keys, and others, in both precisions; normal tokens, beta = d^{-1/2}."""
    yield ["d", "n", "double, ms", "ratio", "other queries", "error", "single, ms", "ratio", "other queries", "error"]
    for d in DIMENSIONS:
        for n in sizes:
            rng = np.random.default_rng(d)
            x, q, beta = rng.standard_normal((n, d)), rng.standard_normal((n, d)), d**-0.5
            law = af.Softmax(beta=beta)
            row = [str(d), f"{n:,}"]
            for name, kind in (("auto", "float64"), ("single", "float32")):
                same, others = partial(law.hear, x, engine=name), partial(law.hear, q, sources=x, engine=name)
                ours, theirs, torch = least(same, others, torch_fused(q, x, beta, kind))
                off = max(error(same().mean, x, x, beta), error(others().mean, q, x, beta))
                row += [f"{1e3 * ours:.1f}", f"{torch / ours:.2f}", f"{torch / theirs:.2f}", f"{off:.0e}"]
            yield row


def clusters(n: int, d: int) -> Array:
    """Twenty clusters of width .05."""
    rng = np.random.default_rng(d)
    return rng.standard_normal((20, d))[rng.integers(20, size=n)] + 0.05 * rng.standard_normal((n, d))


def sheet(n: int, d: int) -> Array:
    """A disc of radius 3, bent into d dimensions."""
    rng = np.random.default_rng(d)
    u = rng.uniform(-1, 1, (n, 2))
    bent = np.column_stack([u, *(np.sin(rng.uniform(0.5, 1.5, 2) @ u.T) for _ in range(d - 2))])
    return 3 * bent / np.linalg.norm(bent, axis=1).max()


def few(sizes: list[int]) -> Iterator[list[str]]:
    """Yield rows: CPU milliseconds of the engines and of torch, who is chosen, and the ratio of torch to that one."""
    engines = ("blocked", "tree")
    shapes = {
        "normal": lambda n, d: np.random.default_rng(d).standard_normal((n, d)), "clusters": clusters, "sheet": sheet
    }  # fmt: skip
    yield ["d", "n", "cloud", "beta", *engines, "torch", "chosen", "ratio"]
    for n in sizes:
        for d in (4, 6, 10):
            for (shape, draw), beta in ((each, beta) for each in shapes.items() for beta in (0.3, 3.0, 30.0, 300.0)):
                x = draw(n, d)
                m = min(n, PAIRS // n)
                some = x if m == n else x[:m]
                runs: list[Callable[[], Any]] = [
                    partial(module(name).softmax, x if name == "tree" else some, x, x, None, beta) for name in engines
                ]
                runs.append(torch_fused(some, x, beta))
                parts = [n / m, 1.0, n / m]
                found = [seconds * part for seconds, part in zip(least(*runs), parts, strict=True)]
                chosen = af.Softmax(beta=beta).served_by(x, 0, "auto")
                ratio = found[2] / found[engines.index(chosen)]
                yield [str(d), f"{n:,}", shape, f"{beta:g}", *(f"{1e3 * s:.0f}" for s in found), chosen, f"{ratio:.1f}"]


def main(table: Callable[[list[int]], Iterator[list[str]]], sizes: list[int]) -> None:
    """Print a table."""
    if "torch fused" not in installed():
        raise SystemExit("torch is not installed: there is nothing to compare with")
    for k, row in enumerate(table(sizes)):
        print("| " + " | ".join(row) + " |" + ("\n|" + " --- |" * len(row) if k == 0 else ""), flush=True)


if __name__ == "__main__":
    named = {"wide": (wide, [1_000, 3_000, 10_000]), "few": (few, [20_000])}
    table, usual = named[sys.argv[1] if len(sys.argv) > 1 else "wide"]
    main(table, [int(n.replace("_", "")) for n in sys.argv[2:]] or usual)
