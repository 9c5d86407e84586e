"""Whole runs: long layers of few tokens, flows of many, a million tokens, thousands of systems at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from clouds import Array, clipped_normal
from contenders import installed, numpy_dense
from timing import turns

import attnflow as af

Table = tuple[list[str], list[list[str]]]


def numpy_layers(x: Array, beta: float, gamma: float, steps: int) -> Array:
    """A recorded run of softmax layers as a NumPy loop."""
    states = np.empty((steps + 1, *x.shape))
    states[0] = x
    for s in range(steps):
        x = x + gamma * (numpy_dense(x, x, beta)() - x)
        states[s + 1] = x
    return states


def few_tokens() -> Table:
    """100,000 recorded layers of 20 tokens, against a NumPy loop."""
    x, motion, steps = af.tokens.gaussian(n=20, d=2, seed=0), af.Layers(gamma=0.1), 100_000
    rows = []
    for beta in (1.0, 9.0):
        run = partial(af.simulate, x, af.Softmax(beta=beta), motion)
        ours, theirs = turns(partial(run, steps), partial(numpy_layers, x, beta, 0.1, steps), rounds=5)
        error = np.abs(run(100).tokens - numpy_layers(x, beta, 0.1, 100)).max()
        rows.append([f"beta = {beta:g}", f"{ours:.3g} s", f"{theirs / ours:.3g}", f"{error:.0e}"])
        print("  ".join(rows[-1]), flush=True)
    return ["100,000 layers of 20 tokens", "attnflow", "NumPy loop", "error"], rows


def torch_systems(x: Array, betas: Array, dt: float, steps: int) -> Callable[[], Any]:
    """Batched layers on the sphere in PyTorch."""
    import torch

    start, beta = torch.from_numpy(x), torch.from_numpy(betas)[:, None, None]

    def compute() -> Any:
        y = start
        with torch.inference_mode():
            for _ in range(steps):
                y = y + dt * torch.softmax(beta * (y @ y.transpose(1, 2)), dim=2) @ y
                y = y / torch.linalg.vector_norm(y, dim=2, keepdim=True)
        return y

    return compute


def torch_fused_systems(x: Array, betas: Array, dt: float, steps: int) -> Callable[[], Any]:
    """The same with fused attention; beta goes into the queries."""
    import torch

    start, beta = torch.from_numpy(x), torch.from_numpy(betas)[:, None, None]

    def compute() -> Any:
        y = start
        with torch.inference_mode():
            for _ in range(steps):
                mean = torch.nn.functional.scaled_dot_product_attention(
                    (beta * y)[:, None], y[:, None], y[:, None], scale=1.0
                )
                y = y + dt * mean[:, 0]
                y = y / torch.linalg.vector_norm(y, dim=2, keepdim=True)
        return y

    return compute


def many_systems() -> Table:
    """2048 systems of 32 tokens on the circle, 300 layers, each with a beta of its own, against batched PyTorch."""
    rng, steps, dt = np.random.default_rng(0), 300, 0.1
    x = rng.standard_normal((2048, 32, 2))
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    betas = np.linspace(0.1, 9.0, 2048)
    ours = partial(af.ensemble, x, af.Softmax(beta=betas), af.SphereLayers(dt=dt), steps)
    rows = []
    others = {"batched torch": torch_systems, "batched torch fused": torch_fused_systems}
    for name, other in others.items() if "torch" in installed() else ():
        theirs = other(x, betas, dt, steps)
        mine, seconds = turns(ours, theirs, rounds=3)
        error = np.abs(ours().final - np.asarray(theirs())).max()
        rows.append([name, f"{mine:.3g} s", f"{seconds / mine:.3g}", f"{error:.0e}"])
        print("  ".join(rows[-1]), flush=True)
    return ["2048 systems of 32 tokens, 300 layers on the sphere", "attnflow", "times as long", "difference"], rows


def large_runs() -> Table:
    """Times of whole runs that people would not try on a laptop."""
    runs: dict[str, Callable[[], Any]] = {
        "RescaledFlow, 100,000 tokens in the plane, beta 1, until t = 8": partial(
            af.simulate, clipped_normal(100_000, 2), af.Softmax(), af.RescaledFlow(), 8.0, record=[4.0]
        ),
        "Layers, 1,000,000 tokens in the plane, beta 1, 100 steps": partial(
            af.simulate, clipped_normal(1_000_000, 2), af.Softmax(), af.Layers(gamma=0.1), 100, record=[50]
        ),
        "phase diagram on the circle, 90 betas, 2048 systems of 32 tokens, 200 times until t = 30": partial(
            af.measure.phase_diagram, np.linspace(0.1, 9, 90), np.linspace(0.15, 30, 200), systems=2048
        ),
    }
    rows = []
    for name, run in runs.items():
        begin = time.perf_counter()
        run()
        rows.append([name, f"{time.perf_counter() - begin:.3g} s"])
        print("  ".join(rows[-1]), flush=True)
    return ["run", "attnflow"], rows
