"""One step of Hegselmann-Krause and of localmax in the plane: attnflow against SciPy's k-d tree and blocks of NumPy.

    python benchmarks/neighbours.py [n ...]

prints for each cloud and median number of neighbours the wall and the CPU time of a step, nanoseconds of CPU per token,
how many of 1,000 tokens have other neighbours than by all pairs, the error of their means, and how many times as long
the others take. These compute the means of few tokens, times the number of all; SciPy's tree, for all tokens, is
built once. CPU times of a machine shared with others say more than wall times.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from clouds import Array, disc, line, stragglers
from scipy.spatial import cKDTree

from attnflow.engines import fused, neighbours

NUMBERS = (10, 100, 1000, 5000)
CHECKED = 1000
# So many queries are asked of the others, in blocks of NumPy so many at a time.
BY_TREE, BY_BLOCKS, BLOCK = 4000, 64, 16
ROUNDS = 3


def normal(n: int) -> Array:
    """Standard normal tokens."""
    return np.random.default_rng(0).standard_normal((n, 2))


CLOUDS = {"normal": normal, "disc": disc, "clusters": stragglers, "line": line}


@dataclass(frozen=True)
class Ball:
    """Hegselmann-Krause: the mean over the tokens within a distance."""

    size: float
    name: ClassVar[str] = "Hegselmann-Krause"

    @classmethod
    def of(cls, x: Array, number: int, some: Array) -> Ball:
        """Return balls in which half of some tokens have at least this number of neighbours."""
        squares = (np.partition(((x - q) ** 2).sum(axis=1), number - 1)[number - 1] for q in some)
        return cls(float(np.sqrt(np.median(list(squares)))))

    def by(self, engine: Any, q: Array, x: Array, v: Array) -> Array:
        """Return the means of values by an engine."""
        mean: Array = engine.ball(q, x, v, np.ones(len(x)), self.size)
        return mean

    def by_blocks(self, q: Array, x: Array) -> Array:
        """Return the means as a NumPy user writes them."""
        means = []
        for first in range(0, len(q), BLOCK):
            part = q[first : first + BLOCK, None]
            near = ((part[..., 0] - x[:, 0]) ** 2 + (part[..., 1] - x[:, 1]) ** 2 <= self.size**2).astype(float)
            means.append(near @ x / near.sum(axis=1, keepdims=True))
        return np.concatenate(means)

    def by_tree(self, q: Array, x: Array, tree: Any) -> Array:
        """Return the means with SciPy's lists of neighbours, on all cores."""
        lists = tree.query_ball_point(q, self.size, workers=-1, return_sorted=False)
        lengths = np.array([len(one) for one in lists])
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        sums = np.add.reduceat(x[np.concatenate([np.asarray(one, dtype=np.int64) for one in lists])], starts)
        mean: Array = sums / lengths[:, None]
        return mean


@dataclass(frozen=True)
class Near:
    """Localmax: the mean over the tokens whose score is within delta of the top score."""

    size: float
    name: ClassVar[str] = "localmax"

    @classmethod
    def of(cls, x: Array, number: int, some: Array) -> Near:
        """Return the delta for which half of some tokens have at least this number of neighbours."""
        scores = (np.partition(x @ -q, number - 1)[:number] for q in some)
        return cls(float(np.median([s.max() - s.min() for s in scores])))

    def by(self, engine: Any, q: Array, x: Array, v: Array) -> Array:
        """Return the means of values by an engine."""
        mean: Array = engine.top(q, x, v, np.ones(len(x)), np.full(len(q), self.size), 0.0)[0]
        return mean

    def by_blocks(self, q: Array, x: Array) -> Array:
        """Return the means as a NumPy user writes them."""
        means = []
        for first in range(0, len(q), BLOCK):
            scores = q[first : first + BLOCK] @ x.T
            near = (scores >= scores.max(axis=1, keepdims=True) - self.size).astype(float)
            means.append(near @ x / near.sum(axis=1, keepdims=True))
        return np.concatenate(means)


def clock(compute: Callable[[], Any]) -> tuple[float, float]:
    """Return the wall and the CPU time of a computation."""
    wall, cpu = time.perf_counter(), time.process_time()
    compute()
    return time.perf_counter() - wall, time.process_time() - cpu


def measured(cloud: str, x: Array, law: Ball | Near, number: int) -> str:
    """Return a row of the table."""
    n, rng = len(x), np.random.default_rng(1)
    rows = rng.choice(n, CHECKED, replace=False)
    # Means of random numbers are the same only if they are taken over the same tokens.
    noise, q = rng.standard_normal((n, 2)), x[rows]
    wrong = np.abs(law.by(neighbours, x, x, noise)[rows] - law.by(fused, q, x, noise)).max(axis=1) > 1e-12
    extent = np.linalg.norm(np.ptp(x, axis=0))
    error = np.abs(law.by(neighbours, x, x, x)[rows] - law.by(fused, q, x, x)).max() / extent
    ours, blocks = partial(law.by, neighbours, x, x, x), partial(law.by_blocks, x[rows[:BY_BLOCKS]], x)
    times = [(clock(ours), clock(blocks)) for _ in range(ROUNDS)]
    (wall, cpu), by_blocks = np.min(times, axis=0)
    cells = [law.name, cloud, f"{number:,}", f"{law.size:.3g}", f"{1e3 * wall:.0f}", f"{1e3 * cpu:.0f}"]
    cells += [
        f"{1e9 * cpu / n:.0f}",
        str(int(wrong.sum())),
        f"{error:.0e}",
        _ratio(n / BY_BLOCKS * by_blocks, wall, cpu),
    ]
    if isinstance(law, Ball):
        some, made = x[rng.choice(n, BY_TREE)], []
        build = np.array(clock(lambda: made.append(cKDTree(x))))
        cells.append(_ratio(build + n / BY_TREE * np.array(clock(partial(law.by_tree, some, x, made[0]))), wall, cpu))
    else:
        cells.append("-")
    return "| " + " | ".join(cells) + " |"


def _ratio(theirs: Array, wall: float, cpu: float) -> str:
    return f"{theirs[0] / wall:.0f} / {theirs[1] / cpu:.0f}"


def main(sizes: list[int]) -> None:
    """Print the table."""
    names = [
        "law",
        "cloud",
        "neighbours",
        "eps or delta",
        "wall ms",
        "CPU ms",
        "CPU ns per token",
        "wrong sets",
        "error",
    ]
    names += ["blocks of NumPy (wall / CPU)", "SciPy's k-d tree (wall / CPU)"]
    print("| " + " | ".join(names) + " |\n|" + "---|" * len(names))
    for n in sizes:
        for cloud, made in CLOUDS.items():
            x = made(n)
            some = x[:: n // 15]
            for kind in (Ball, Near):
                for number in NUMBERS:
                    print(measured(cloud, x, kind.of(x, number, some), number), flush=True)


if __name__ == "__main__":
    main([int(n.replace("_", "")) for n in sys.argv[1:]] or [1_000_000])
