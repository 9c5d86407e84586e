"""Random orbits of localmax layers in floats: an attack on localmax/constant-converges.

python -m tools.random_orbits --seeds 108

A seed has 2,000 orbits. Consecutive seeds go through n = 3, 4, 5, 6, 8, 10, d = 1, 2, 3, and whole, normal and shifted
normal coordinates. An orbit has come to rest once no coordinate changes by 1e-9 in a layer.
"""

from __future__ import annotations

from argparse import ArgumentParser
from itertools import product

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array

KINDS = list(product((3, 4, 5, 6, 8, 10), (1, 2, 3), range(3)))
GAMMAS = np.array([0.1, 0.3, 0.5, 0.75, 0.9, 0.97, 0.999])
ORBITS, LAYERS, REST = 2000, 2000, 1e-9


def layer(x: Array, delta: Array, gamma: Array) -> Array:
    """Return tokens (orbits, n, d) after one layer of localmax."""
    scores = x @ np.swapaxes(x, 1, 2)
    hears = scores >= scores.max(axis=2, keepdims=True) - delta[:, None, None]
    mean = (hears @ x) / hears.sum(axis=2, keepdims=True)
    return np.asarray(x + gamma[:, None, None] * (mean - x))


def drawn(seed: int, orbits: int = ORBITS) -> tuple[Array, Array, Array]:
    """Return the tokens (orbits, n, d), delta and gamma of the orbits of a seed."""
    rng = np.random.default_rng(seed)
    n, d, kind = KINDS[seed % len(KINDS)]
    x = rng.integers(-6, 7, (orbits, n, d)).astype(float) if kind == 0 else rng.normal(size=(orbits, n, d))
    if kind == 2:
        x = x + rng.normal(0, 2, (orbits, 1, d))
    size = np.maximum((x * x).sum(axis=2).max(axis=1), 1e-300)
    return x, size * np.exp(rng.uniform(-5, 0.7, orbits)), rng.choice(GAMMAS, orbits)


def moving(seed: int, orbits: int = ORBITS) -> NDArray[np.int64]:
    """Return the numbers of those orbits of a seed that do not come to rest.

    >>> moving(0, orbits=20).tolist()
    []
    """
    x, delta, gamma = drawn(seed, orbits)
    left = np.arange(orbits, dtype=np.int64)
    for t in range(3 * LAYERS):
        after = layer(x, delta, gamma)
        keep = np.abs(after - x).max(axis=(1, 2)) >= REST
        x, delta, gamma, left = after[keep], delta[keep], gamma[keep], left[keep]
        if len(left) == 0 or (t >= LAYERS and gamma.min() > 0.2):
            break
    return left


if __name__ == "__main__":
    parser = ArgumentParser(description="follow random orbits of localmax layers in floats")
    parser.add_argument("--seeds", type=int, default=54)
    seeds = parser.parse_args().seeds
    left = {seed: moving(seed) for seed in range(seeds)}
    print(f"{sum(map(len, left.values()))} of {seeds * ORBITS} orbits do not come to rest")
    for seed, orbits in left.items():
        if len(orbits):
            print(f"seed {seed}: orbits {orbits.tolist()}")
