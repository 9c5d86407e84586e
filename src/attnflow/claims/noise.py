"""Claims of noisy self-attention: when tokens leave the uniform density, and whether they do so by a jump."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnflow.claims.claim import DERIVED, OPEN, Paper, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, Undecided, once, unknown
from attnflow.claims.quadratures import on_circle, on_sphere
from attnflow.claims.samplers import Rng
from attnflow.core.inputs import Array, number, whole
from attnflow.densities import Density, MeanField
from attnflow.densities.basis import gegenbauer, kernel
from attnflow.densities.branches import APART, Curve
from attnflow.laws import Hearing, Softmax
from attnflow.motions import SphereFlow

NOISE = Paper(
    "noise",
    "Mun, Rosenzweig",
    "Phase transitions for the noisy transformer model in arbitrary dimension",
    "2606.05140",
    heading="Noisy self-attention",
    notation="""Infinitely many tokens on the unit sphere of R^d, with a density f against the uniform probability
    measure, under USA with independent noise of size sqrt(2/kappa). A free energy, the entropy over kappa minus the
    energy of pairs, never grows. The order parameter is the length of the mean of all tokens. I_k are the modified
    Bessel functions, and w_k is the k-th coefficient of e^{beta <x, y>} / beta: I_k(beta) / beta on the circle. The
    paper's coupling is half of kappa.""",
)
# How far rates and forces of tokens may be off those of the density, in parts of them.
CLOSE = 1e-6
# The number of waves that are compared.
WAVES = 4
# Tokens that stand for a density: on the circle, and on each circle of latitude of the sphere.
TOKENS = {2: 256, 3: 32}


def _usa(given: dict[str, Any]) -> tuple[Softmax, SphereFlow]:
    """Return the law and the motion without noise, which is what tokens feel on average."""
    return Softmax(beta=number(given["beta"], "beta")), SphereFlow(normalized=False)


def _velocity(e: Experiment, density: Any) -> tuple[Array, Array, Array]:
    """Return tokens that stand for a density, their masses and their velocities in the model."""
    x, masses = (on_circle if e.d == 2 else on_sphere)(TOKENS[e.d], density)
    return x, masses, e.motion.velocity(Hearing(e.law, masses), x, 0.0)  # type: ignore[attr-defined]


def _waves(d: int, place: Array) -> Array:
    """Return the waves of degrees 1 to WAVES at angles or cosines, (M, WAVES)."""
    return np.cos(np.outer(place, np.arange(1, WAVES + 1))) if d == 2 else gegenbauer(place, d, WAVES)[0]


def _growth(e: Experiment, k: int) -> float:
    """Return the rate at which tokens make the wave of degree k grow on the uniform density.

    Velocities are linear in the density, fluxes quadratic: half the difference of both signs of a wave has no
    quadratic part.
    """
    eps, found = 1e-3, 0.0
    for sign in (1.0, -1.0):
        x, masses, v = _velocity(e, lambda p, sign=sign: 1 + sign * eps * _waves(e.d, p)[:, k - 1])
        if e.d == 2:
            theta = np.arctan2(x[:, 1], x[:, 0])
            gained = -k * np.sin(k * theta) * (x[:, 0] * v[:, 1] - x[:, 1] * v[:, 0])
        else:
            gained = gegenbauer(x[:, 0], 3, WAVES)[1][:, k - 1] * v[:, 0]
        found += sign * float(masses @ gained) / 2
    size = 0.5 if e.d == 2 else 1 / (2 * k + 1)
    return found / (eps * size)


def _in_two_or_three(e: Experiment) -> list[Margins]:
    d = whole(e.d, "d", least=1)
    return [
        once("d is 2 or 3", -min(abs(d - 2), abs(d - 3))),
        once("0 < beta <= 8", min(e.beta, 8 - e.beta), strict=True),
    ]


def _beyond(e: Experiment) -> Margins:
    """I_{d/2+1}(beta) / I_{d/2}(beta) - 1/d, which grows with beta."""
    return once("beta > beta_*", _ratio(e) - 1 / e.d, 1e-9, strict=True)


def _ratio(e: Experiment) -> float:
    w = kernel(e.beta, e.d, 2)[1]
    return float(w[1] / w[0])


def _sample(low: float, high: float) -> Any:
    def sample(rng: Rng, k: int) -> dict[str, Any]:
        return {"beta": float(rng.uniform(low, high)), "d": 2 + k % 2}

    return sample


ANY = Setting({"beta": 3.0, "d": 2}, _usa, _sample(0.3, 5.0), samples=4, lengths=())
LARGE = Setting({"beta": 3.0, "d": 2}, _usa, _sample(2.6, 5.0), samples=2, lengths=())


@NOISE.claim(
    "uniform-threshold", "the linear-stability threshold and the critical beta, derived", DERIVED, ANY,
    """Under USA with noise a wave of degree k on the uniform density grows at the rate k (k + d - 2) (w_k - 1/kappa),
    k^2 (I_k(beta) / beta - 1/kappa) on the circle: the uniform density is stable exactly up to kappa_0 = 1 / w_1,
    beta / I_1(beta) on the circle. The densities with one cluster that branch off there exist for kappa > kappa_0 if
    beta < beta_* and for kappa < kappa_0 if beta > beta_*, where I_{d/2+1}(beta_*) / I_{d/2}(beta_*) = 1/d:
    2.446918 for d = 2, 1.816155 for d = 3.""",
    plain="With more noise than a known threshold an even spread of tokens is stable; with less, clusters grow.",
    given={"d = 2 or 3, 0 < beta <= 8": _in_two_or_three},
    note="""As we read it, the paper proves more: up to beta_* the uniform density is the only minimiser of the free
    energy as long as kappa <= kappa_0, beyond it is not. Noise takes k (k + d - 2) / kappa from each rate exactly; the
    rest is measured on tokens with masses that stand for a density.""",
)  # fmt: skip
def uniform_threshold(e: Experiment) -> list[Margins]:
    """Rates of four waves, from the velocities of tokens that stand for 1 + 0.001 Y_k, against k (k + d - 2) w_k to
    1e-6; the side to which the branch of stationary densities leaves, from its expansion, against beta_*."""
    k, w = np.arange(1, WAVES + 1), kernel(e.beta, e.d, WAVES)[1]
    expected = k * (k + e.d - 2) * w
    measured = np.array([_growth(e, one) for one in k.tolist()])
    off = float(np.abs(measured - expected).max() / expected[0])
    curvature = Curve(MeanField(e.beta, None, e.d, False), 1).curvature()
    side = (1 / e.d - _ratio(e)) * np.sign(curvature)
    return [
        once("each wave grows at the rate k (k + d - 2) (w_k - 1/kappa)", CLOSE - off, CLOSE / 100, strict=True),
        once("the branch begins above kappa_0 exactly below beta_*", float(side), 1e-6, strict=True),
    ]


@NOISE.claim(
    "first-order", "the discontinuous transition", OPEN, LARGE,
    """If beta > beta_*, the order parameter of the density with the least free energy jumps from 0 to a positive value
    at some kappa_c < kappa_0, where a density with one cluster has the free energy of the uniform one. At beta = 3 on
    the circle kappa_c = .9912 kappa_0, and it jumps to .4815; densities with one cluster exist from .9887 kappa_0
    on.""",
    plain="For large beta, order appears by a jump as noise gets weaker: a cluster is there at once.",
    given={"d = 2 or 3, 0 < beta <= 8": _in_two_or_three, "beta > beta_*": _beyond},
    note="""As we read it, the paper proves kappa_c < kappa_0. That the densities on our branch are those of least free
    energy is evidence: the branch is followed from kappa_0 through its fold.""",
)  # fmt: skip
def first_order(e: Experiment) -> list[Margins]:
    """The branch of one cluster, followed through its fold: where its free energy is that of f = 1. There the drift of
    tokens with masses f is grad log(f) / kappa, to 1e-6 of its size."""
    model = MeanField(e.beta, None, e.d, False)
    branch = model.branch(until=1.001 * model.threshold)
    what = "a density with one cluster has the free energy of the uniform one below kappa_0"
    if not branch.crossings or branch.crossings[0].kappa > branch.start * (1 - APART):
        why = Undecided("the branch has no such density up to kappa_0, to 1e-9", "give a beta further from beta_*")
        return [unknown(what, why)]
    jump = branch.crossings[0]
    found = branch.at(jump.kappa)[-1].density
    return [
        once(what, 1 - jump.kappa / branch.start, 1e-9, strict=True),
        once("the order parameter jumps", jump.order, 1e-6, strict=True),
        once("there tokens are at rest on average", CLOSE - _imbalance(e, found, jump.kappa), CLOSE / 100, strict=True),
    ]


def _imbalance(e: Experiment, f: Density, kappa: float) -> float:
    """Return by how much the drift of tokens differs from grad log(f) / kappa, in parts of the larger one."""
    x, _, v = _velocity(e, f.at)
    if e.d == 2:
        drift, place = x[:, 0] * v[:, 1] - x[:, 1] * v[:, 0], np.arctan2(x[:, 1], x[:, 0])
        h = 1e-5
        slope = (np.log(f.at(place + h)) - np.log(f.at(place - h))) / (2 * h)
    else:
        # Along the meridian, at each latitude once.
        place, first = np.unique(x[:, 0], return_index=True)
        across = np.sqrt(1 - place**2)
        drift, h = v[first, 0] / across, 1e-5
        angle = np.arccos(place)
        slope = (np.log(f.at(np.cos(angle - h))) - np.log(f.at(np.cos(angle + h)))) / (2 * h)
    return float(np.abs(drift - slope / kappa).max() / np.abs(drift).max())
