"""Claims of the mean-field limit near the uniform density: how many clusters appear first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnflow.claims.claim import PROVED, Paper, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, Undecided, once
from attnflow.claims.quadratures import on_circle
from attnflow.claims.samplers import Rng, log_uniform
from attnflow.claims.sphere.runs import sphere_model
from attnflow.core.inputs import whole
from attnflow.densities import MeanField, moments
from attnflow.runs.simulate import simulate

MEAN_FIELD = Paper(
    "mean-field",
    "Bruno, Pasqualotto, Agazzi",
    "Emergence of meta-stable clustering in mean-field transformer models",
    "2410.23228",
    heading="Clusters in the mean-field limit",
    notation="""Infinitely many tokens on the circle with the density f against the uniform probability measure, under
    SA or USA without noise. I_k are the modified Bessel functions. A wave of degree k is a cos(k theta) + b sin(k
    theta).""",
)
# Tokens with masses that stand for the density; number and size of the waves at the start; growth of the fastest.
TOKENS, SIZE, WAVES, GROWTH = 192, 1e-7, 8, 100.0
CLOSE = 1e-3
# By how much logarithms of waves that have grown are off, as measured at most: by the products of other waves, in parts
# of the size of the largest, and by the tolerance of the run, in parts of the size at the start.
PRODUCTS, STEPPING = 10.0, 0.02


def _sample(rng: Rng, k: int) -> dict[str, Any]:
    return {"beta": log_uniform(rng, 0.3, 12.0), "normalized": k % 2 == 0, "seed": k}


WAVING = Setting({"beta": 2.0, "normalized": True, "seed": 0}, sphere_model, _sample, samples=6, lengths=())


@MEAN_FIELD.claim(
    "kmax", "the linear regime of its main theorem, as we read it", PROVED, WAVING,
    """Without noise, from a nearly uniform density on the circle, waves of degree k grow at the rate
    k^2 I_k(beta) / beta under USA, and at that rate divided by I_0(beta) under SA. So k_max = argmax_k k^2 I_k(beta)
    clusters appear first: k_max switches from 1 to 2 at beta = 1.044457, from 2 to 3 at 3.165434, and is about
    sqrt(2 beta) for large beta.""",
    plain="From a nearly uniform ring of tokens, the number of clusters that appear first is known from beta.",
    given={"0 < beta <= 20": lambda e: once("0 < beta <= 20", min(e.beta, 20 - e.beta), strict=True)},
)  # fmt: skip
def kmax(e: Experiment) -> list[Margins]:
    """192 tokens with masses 1 + 8 waves of 1e-7 each, at random angles, until the fastest has grown a hundredfold:
    those of more than half its rate have grown at theirs, to a thousandth, and the largest is that of k_max."""
    rng = np.random.default_rng(whole(e.seed, "seed", least=0))
    phases = rng.uniform(0, 2 * np.pi, WAVES)
    k = np.arange(1, WAVES + 1)
    rates = MeanField(e.beta, normalized=e.normalized).rates(WAVES)
    until = float(np.log(GROWTH) / rates.max())
    x, masses = on_circle(TOKENS, lambda theta: 1 + SIZE * np.cos(np.outer(theta, k) - phases).sum(axis=1))
    run = simulate(x, e.law, e.motion, until, masses=masses, record=[until])
    start, end = (np.abs(moments(state, WAVES, masses=masses)) for state in (x, run.final))
    # Waves that grow less are soon as large as the products of others.
    off = np.abs(np.log(end / start) - rates * until)[rates > 0.5 * rates.max()].max() / np.log(GROWTH)
    fastest = int(rates.argmax())
    lead = float(np.log(end[fastest] / np.delete(end, fastest).max()))
    blur = PRODUCTS * SIZE * GROWTH + STEPPING * e.rtol / SIZE
    return [
        once("every wave grows at its rate", CLOSE - float(off), CLOSE / 50, time=until, strict=True),
        replace(
            once(f"the largest wave is that of k_max = {fastest + 1}", lead, blur, time=until, strict=True),
            undecided=Undecided("two waves grow nearly as fast", "give a beta further from where k_max switches"),
        ),
    ]
