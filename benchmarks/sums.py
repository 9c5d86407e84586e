"""One attention sum: attnflow against everybody, over numbers of tokens, dimensions, beta, shapes of clouds."""

from __future__ import annotations

import importlib
import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from clouds import SHAPES, Array, clipped_normal
from contenders import CONTENDERS, installed, numpy_dense
from timing import PAIRS, turns

import attnflow as af
from attnflow import engines

BETAS = (0.01, 0.1, 1.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
FUSED = "torch fused"


class Case(NamedTuple):
    """A cloud and a beta; the engine of attnflow; and against whom it runs."""

    x: Array
    beta: float
    engine: str = "auto"
    against: tuple[str, ...] = tuple(CONTENDERS)


class Outcome(NamedTuple):
    """Seconds of one sum, how many times as long the others take, the error over the diameter, and who computed it."""

    seconds: float
    ratios: dict[str, float]
    error: float
    engine: str


def measure(case: Case) -> Outcome:
    """Run a case; the reference is NumPy, on 200 queries."""
    x, beta, name, against = case
    n = len(x)
    law = af.Softmax(beta=beta)
    ours = partial(law.hear, x, engine=name)
    result = ours().mean
    some = np.random.default_rng(1).choice(n, min(n, 200), replace=False)
    error = np.abs(result[some] - numpy_dense(x[some], x, beta)()).max() / np.linalg.norm(np.ptp(x, axis=0))
    queries = x[: max(1, min(n, PAIRS // n))]
    seconds, ratios = math.inf, {}
    for other in [other for other in against if other in installed()]:
        mine, theirs = turns(ours, CONTENDERS[other][1](queries, x, beta))
        seconds, ratios[other] = min(seconds, mine), theirs * (n / len(queries)) / mine
    if not ratios:
        (seconds,) = turns(ours)
    return Outcome(seconds, ratios, float(error), _engine(x, beta, name))


def _engine(x: Array, beta: float, name: str) -> str:
    """Return who computes this sum."""
    chosen = engines.choose(name, "softmax", len(x), len(x), x.shape[1])
    module: Any = importlib.import_module(f"attnflow.engines.{chosen}")
    return module.name(x, x, beta) if chosen == "fast" else chosen


def cases() -> dict[str, Case]:
    """Return what is compared with everybody."""
    large = ("torch fused", "torch fused, float32", "KeOps")
    found = {}
    for n, name in ((200, "auto"), (2_000, "auto"), (20_000, "fused")):
        found[f"d = 2, n = {n:,}, beta = 1"] = Case(clipped_normal(n, 2), 1.0, name)
    for n, betas in ((100_000, (1.0, 4.0, 30.0, 300.0)), (1_000_000, (1.0, 300.0))):
        for beta in betas:
            found[f"d = 2, n = {n:,}, beta = {beta:g}"] = Case(clipped_normal(n, 2), beta, "auto", large)
    for beta in (1.0, 4.0, 30.0, 300.0):
        found[f"d = 3, n = 100,000, beta = {beta:g}"] = Case(clipped_normal(100_000, 3), beta, "auto", large)
    found["d = 64, n = 10,000, beta = 0.1"] = Case(clipped_normal(10_000, 64), 0.1)
    return found


def against_everybody() -> tuple[list[str], list[list[str]]]:
    """Return a table: the time of attnflow, by whom, its error, and how many times as long the others take."""
    names = installed()
    rows = []
    for title, case in cases().items():
        found = measure(case)
        row = [title, found.engine, _ms(found.seconds), f"{found.error:.0e}"]
        rows.append(row + [_times(found.ratios[name]) if name in found.ratios else "" for name in names])
        print("  ".join(rows[-1]), flush=True)
    return ["tokens", "engine", "attnflow", "error", *names], rows


def shapes() -> tuple[list[str], list[list[str]]]:
    """Return a table: how many times as long torch's fused attention takes, by shape and beta, and the worst error."""
    rows, n = [], 100_000
    for shape, x in {"normal": clipped_normal(n, 2), **{name: draw(n) for name, draw in SHAPES.items()}}.items():
        found = [measure(Case(x, beta, "auto", (FUSED,))) for beta in BETAS]
        ratios = [_times(outcome.ratios[FUSED]) if FUSED in outcome.ratios else "" for outcome in found]
        rows.append([shape, *ratios, f"{max(outcome.error for outcome in found):.0e}"])
        print("  ".join(rows[-1]), flush=True)
    return ["cloud", *(f"beta {beta:g}" for beta in BETAS), "worst error"], rows


def growth() -> tuple[list[str], list[list[str]], dict[float, tuple[list[int], list[float]]]]:
    """Return a table of times against n with the exponent from 10^5 to 10^6, and the numbers for a plot."""
    sizes = [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000]
    rows, curves = [], {}
    for beta in (1.0, 10.0, 100.0, 300.0, 1000.0, 3000.0):
        seconds = [turns(partial(af.Softmax(beta=beta).hear, clipped_normal(n, 2)), rounds=5)[0] for n in sizes]
        slope = float(np.polyfit(np.log(sizes[-3:]), np.log(seconds[-3:]), 1)[0])
        curves[beta] = sizes, seconds
        rows.append([f"{beta:g}", *map(_ms, seconds), f"{slope:.2f}"])
        print("  ".join(rows[-1]), flush=True)
    return ["beta", *(f"n = {n:,}" for n in sizes), "exponent"], rows, curves


def hardmax() -> tuple[list[str], list[list[str]]]:
    """Return the time of one step of a million tokens to the farthest of them."""
    rows = []
    for shape, x in {"normal": af.tokens.gaussian(n=1_000_000, d=2, seed=0), "disc": SHAPES["disc"](1_000_000)}.items():
        rows.append([shape, _ms(turns(partial(af.Hardmax().hear, x))[0])])
        print("  ".join(rows[-1]), flush=True)
    return ["cloud", "attnflow"], rows


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _times(ratio: float) -> str:
    return f"{ratio:.3g}" if ratio < 1000 else f"{round(ratio, -2):,.0f}"
