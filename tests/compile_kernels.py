"""Compile the kernels and keep them on disk, each in one process: tests that run side by side would each compile all.

Those on disk already are only loaded. One that is missing here is compiled by the first test that needs it.
"""

from __future__ import annotations

import gc
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context

import numpy as np

import attnflow as af
from attnflow.engines import Lists, Memory, module


def softmax(name: str) -> None:
    """Sums of few and of many tokens, among themselves and from elsewhere, with and without masses."""
    # At the large beta, separable sums of 230 tokens would need no other kernel, and take longer than to compile one.
    for d, (n, beta) in product((2, 3), ((20, 1.0), (20, 1e3), (230, 1.0), (700, 1.0), (700, 1e3))):
        x = np.random.default_rng(d).standard_normal((n, d))
        for queries, masses in product((x, x + 1.0), (None, np.zeros(n))):
            module(name).softmax(queries, x, x, masses, beta)


def listed(_: str) -> None:
    """Sums over lists of sources."""
    x = np.random.default_rng(0).standard_normal((20, 2))
    lists = Lists(np.arange(20), np.array([0, 8, 20]), np.tile(np.arange(20, dtype=np.int32), 2), np.array([0, 20, 40]))
    module("listed").softmax(x, x, x, None, 1.0, Memory(lists=lists))


def causal(_: str) -> None:
    """Sums over the tokens before each one, all of them and the last few."""
    for d, window in product((2, 3), (None, 5)):
        x = np.random.default_rng(d).standard_normal((40, d))
        module("causal").softmax(x, x, x, np.zeros(len(x)), 1.0, window)


def top(name: str) -> None:
    """Averages over top scores of few and of many tokens."""
    for d, n in product((2, 3), (20, 3000)):
        x = np.random.default_rng(d).standard_normal((n, d))
        module(name).top(x, x, x, np.ones(n), np.zeros(n), 0.0)


def near(_: str) -> None:
    """Averages over balls of few and of many tokens, over nearly top scores, and many layers in compiled code."""
    x = af.tokens.gaussian(n=20, d=2, seed=0)
    af.HegselmannKrause(eps=0.1).attend(x)
    for law in (af.Softmax(), af.Hardmax(), af.Localmax(delta=0.1)):
        af.simulate(x, law, af.Layers(gamma=0.1), until=5)
    module("neighbours").ball(x, x, x, np.ones(len(x)), 0.1)
    module("neighbours").top(x, x, x, np.ones(len(x)), np.ones(len(x)), 0.0)


def many(_: str) -> None:
    """Many systems in one loop."""
    starts = np.stack([af.tokens.sphere(n=8, d=2, seed=k) for k in range(9)])
    for motion in (af.SphereFlow(rtol=1e-3), af.Layers(gamma=0.1), af.RescaledLayers(dt=0.1)):
        af.ensemble(starts, af.Softmax(), motion, until=1)
    # Far from the origin each layer is a sum about a centre.
    af.ensemble(starts + 1e4, af.Softmax(beta=1e-4), af.Layers(gamma=0.1), until=1)


if __name__ == "__main__":
    # The fused kernels serve the others too; then those that take longest.
    kinds = [(softmax, "fused"), (many, ""), (softmax, "separable"), (top, "vertices"), (softmax, "tree")]
    kinds += [(softmax, "blocked"), (softmax, "single"), (near, ""), (top, "fused"), (softmax, "fast"), (causal, "")]
    kinds += [(listed, "")]
    # To look for garbage among what a compiler makes, most of which stays, takes a fifteenth of the time.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn"), initializer=gc.disable) as pool:
        for done in [pool.submit(kind, name) for kind, name in kinds]:
            done.result()
