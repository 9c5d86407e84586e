"""What doubly stochastic attention keeps (arXiv 2110.11773): with Sinkhorn weights the barycentre of the tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnflow.claims.claim import DERIVED, Paper, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins
from attnflow.claims.samplers import Rng, any_form, cloud, log_uniform, positive_form, step_sizes
from attnflow.core.inputs import Array
from attnflow.laws import Sinkhorn
from attnflow.laws.sinkhorn import ENOUGH
from attnflow.motions import Layers, RescaledFlow

SINKFORMERS = Paper(
    "sinkhorn",
    "Sander, Ablin, Blondel, Peyre",
    "Sinkformers: transformers with doubly stochastic attention",
    "2110.11773",
    heading="Sinkformers",
    notation="""Tokens x_1 .. x_n in R^d. P_ij = e^{beta <B x_i, x_j> + f_i + g_j} is doubly stochastic, and m_i = sum_j
    P_ij x_j. The barycentre is sum_i x_i / n.""",
)


def _layers(given: dict[str, Any]) -> tuple[Sinkhorn, Layers]:
    return Sinkhorn(beta=given["beta"], B=given["B"]), Layers(gamma=given["gamma"])


def _flow(given: dict[str, Any]) -> tuple[Sinkhorn, RescaledFlow]:
    return Sinkhorn(beta=given["beta"], B=given["B"]), RescaledFlow(V=given["V"])


def _cloud(rng: Rng, k: int) -> Array:
    x = cloud(rng, k)
    return x / (np.abs(x).max() or 1.0)  # beta alone says how large scores are


def _in_layers(rng: Rng, k: int) -> dict[str, Any]:
    x = _cloud(rng, k)
    return {
        "tokens": x, "beta": log_uniform(rng, 0.1, 10), "B": any_form(rng, k // 2, x.shape[1]),
        "gamma": step_sizes(rng, k), "steps": 8,
    }  # fmt: skip


def _in_time(rng: Rng, k: int) -> dict[str, Any]:
    x = _cloud(rng, k)
    V = None if k % 2 else rng.standard_normal((x.shape[1], x.shape[1])) / 2
    B = positive_form(rng, k // 2, x.shape[1])
    return {"tokens": x, "beta": log_uniform(rng, 0.1, 4), "B": B, "V": V, "until": 0.5}


LAYERS = Setting(
    {"tokens": ..., "beta": 1.0, "B": None, "gamma": 0.5, "steps": 20}, _layers, _in_layers, varying=("B",), lengths=()
)
FLOW = Setting({"tokens": ..., "beta": 1.0, "B": None, "V": None, "until": 2.0}, _flow, _in_time, samples=6, lengths=())


def _kept(e: Experiment) -> Margins:
    """The barycentre of every state against that of the first one."""
    off = np.abs(e.states.mean(axis=1) - e.tokens.mean(axis=0)).max(axis=1) / e.scale
    # Each average keeps it as well as the columns of P have their sums.
    tol = ENOUGH * np.arange(1.0, len(off) + 1)
    return Margins("sum_i x_i is what it was", -off, e.times, tol)


barycentre = SINKFORMERS.claim(
    "barycentre", "of doubly stochastic weights", DERIVED, LAYERS,
    """Averaging layers x_i <- x_i + gamma (m_i - x_i) keep the barycentre of the tokens, for every beta and B,
    symmetric or not, constant or not, and all step sizes: columns of P sum to one, so sum_i m_i = sum_j x_j.""",
    plain="With doubly stochastic attention, the mean of all tokens never moves.",
)(_kept)  # fmt: skip


barycentre_of_flows = SINKFORMERS.claim(
    "barycentre/flow", "of doubly stochastic weights", DERIVED, FLOW,
    """Under the flow x_i' = V m_i the barycentre moves as e^{tV}, for every V: the rescaled tokens z_i = e^{-tV} x_i,
    z_i' = V (sum_j P_ij z_j - z_i), keep theirs.""",
    plain="With doubly stochastic attention, the mean of all tokens moves as if it were alone.",
)(_kept)  # fmt: skip
