"""Random runs of any kind, many of them stiff: what a user may ask of `simulate` and `ensemble`, from a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import attnflow as af
from attnflow.core.inputs import Array


@dataclass(frozen=True)
class Asked:
    """One question: tokens (n, d) for `simulate`, (b, n, d) for `ensemble`."""

    tokens: Array
    law: af.Law
    motion: af.Motion
    until: float
    seed: int | None = None

    def run(self, **options: Any) -> Any:
        """Answer it."""
        if self.tokens.ndim == 3:
            return af.ensemble(self.tokens, self.law, self.motion, self.until)
        record = [self.until]
        return af.simulate(self.tokens, self.law, self.motion, self.until, seed=self.seed, record=record, **options)

    def __str__(self) -> str:
        return f"{self.tokens.shape} {self.law} {self.motion} until {self.until:.3g}"


def asked(number: int) -> Asked:
    """Return the question of this number: sizes, scales, temperatures and times are drawn evenly in their logarithm."""
    rng = np.random.default_rng([17, number])
    n, d = int(_log_uniform(rng, 2, 400)), int(rng.integers(1, 6))
    systems = int(rng.integers(1, 40)) if rng.random() < 0.3 else None
    beta = _log_uniform(rng, 1e-3, 1e6)
    kind = rng.choice(["Flow", "RescaledFlow", "SphereFlow", "SphereFlow", "Layers", "Residual", "SphereLayers",
                       "RescaledLayers", "Leaps", "Jumps", "HardmaxFlow"])  # fmt: skip
    if kind in ("SphereFlow", "SphereLayers"):
        d = max(2, d)
    if systems is not None:
        n = min(n, 60)
        kind = kind if kind not in ("Leaps", "Jumps", "HardmaxFlow") else "SphereFlow"
    x = rng.standard_normal((n if systems is None else systems * n, d))
    if kind in ("SphereFlow", "SphereLayers"):
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    else:
        x *= _log_uniform(rng, 1e-3, 1e3)
    tokens = x if systems is None else x.reshape(systems, n, d)
    V = rng.standard_normal((d, d)) * _log_uniform(rng, 1e-2, 1e2) if rng.random() < 0.5 else None
    B = rng.standard_normal((d, d)) if rng.random() < 0.3 else None
    law: af.Law = af.Hardmax(B) if kind == "HardmaxFlow" else af.Softmax(beta, B)
    steps = int(_log_uniform(rng, 1, 1e6))
    gamma, seed = float(rng.uniform(0.01, 1.0)), None
    motion: af.Motion
    if kind == "Layers":
        motion = af.Layers(gamma=gamma)
    elif kind == "Leaps":
        motion, steps = af.Leaps(gamma=gamma), int(_log_uniform(rng, 1, 1e12))
    elif kind == "Jumps":
        motion, seed = af.Jumps(gamma=gamma), number
    elif kind == "HardmaxFlow":
        motion = af.HardmaxFlow()
    elif kind in ("Residual", "SphereLayers", "RescaledLayers"):
        motion = getattr(af, kind)(V=V, dt=gamma)
    else:
        motion = getattr(af, kind)(V=V, rtol=_log_uniform(rng, 1e-12, 1e-3))
    until = steps if motion.discrete else _log_uniform(rng, 1e-1, 1e6)
    return Asked(tokens, law, motion, until, seed)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
