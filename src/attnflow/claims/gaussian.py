"""Claims of Gaussian clouds under softmax attention: they stay Gaussian, and their covariances have closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnflow.claims.claim import DERIVED, Paper, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, once
from attnflow.claims.quadratures import gaussian
from attnflow.claims.samplers import Rng, rotation
from attnflow.core.inputs import Array, number, square
from attnflow.laws import Hearing, Softmax
from attnflow.motions import Flow, Layers
from attnflow.runs.simulate import simulate

UNIFIED = Paper(
    "gaussian",
    "Castin, Ablin, Carrillo, Peyre",
    "A unified perspective on the dynamics of deep transformers",
    "2501.18322",
    heading="Gaussian clouds",
    notation="""Infinitely many tokens with a Gaussian law N(m, Sigma) in R^d hear, by softmax attention, the mean
    m + beta Sigma x at x, an affine function: so motions that are affine in what is heard map Gaussians to
    Gaussians.""",
)
# Nodes of the quadrature in each dimension, and how close covariances must be.
NODES = {1: 60, 2: 28}
CLOSE = 1e-6
# Times end, and variances are, where beta times the largest eigenvalue of Sigma is at most this.
WIDEST = 0.6


def _covariance(given: Any) -> Array:
    return square(given["covariance"], "covariance")


def _flow(given: dict[str, Any]) -> tuple[Softmax, Flow]:
    return Softmax(beta=number(given["beta"], "beta")), Flow()


def _positive(e: Experiment) -> list[Margins]:
    Sigma = _covariance(e.instance)
    values = np.linalg.eigvalsh((Sigma + Sigma.T) / 2)
    return [
        once("Sigma is symmetric", -float(np.abs(Sigma - Sigma.T).max() / np.abs(Sigma).max()), 1e-12),
        once("Sigma > 0", float(values[0] / values[-1]), strict=True),
        once("d is 1 or 2", 2 - len(Sigma)),
        once("beta > 0", e.beta, strict=True),
    ]


def _before(e: Experiment) -> Margins:
    """Before the blow-up, by as much as the quadrature needs."""
    top = float(np.linalg.eigvalsh(_covariance(e.instance))[-1])
    latest = (1 / top - e.beta / WIDEST) / (2 * e.beta)
    return once("beta times the largest eigenvalue of Sigma stays below .6", (latest - e.until) * e.beta * top)


def _sample(rng: Rng, k: int) -> dict[str, Any]:
    d = 1 + k % 2
    turn, beta = rotation(rng, d) if d > 1 else np.eye(1), float(rng.uniform(0.5, 2.0))
    values = rng.uniform(0.1, 0.3, d) / beta
    until = (1 / values.max() - beta / WIDEST) / (2 * beta)
    return {"covariance": turn @ np.diag(values) @ turn.T, "beta": beta, "until": float(0.95 * until)}


MOVING = Setting({"covariance": ..., "beta": 1.0, "until": 0.5}, _flow, _sample, samples=4, lengths=())


@UNIFIED.claim(
    "covariance", "Gaussian initial data, softmax attention", DERIVED, MOVING,
    """In the mean-field limit of softmax attention with V = I a Gaussian N(0, Sigma_0) stays Gaussian, with
    Sigma(t) = (Sigma_0^{-1} - 2 beta t I)^{-1}: it blows up at the time 1 / (2 beta s), s the largest eigenvalue of
    Sigma_0.""",
    plain="A very large Gaussian cloud stays Gaussian, and blows up at a time that is known.",
    given={"Sigma > 0, d = 1 or 2, beta > 0": _positive, "before the blow-up": _before},
)  # fmt: skip
def covariance(e: Experiment) -> Margins:
    """Tokens with the masses of a quadrature of the Gaussian, moved by the flow: their covariance against Sigma(t), to
    1e-6 of its size."""
    Sigma = _covariance(e.instance)
    d = len(Sigma)
    x, masses = gaussian(NODES[d], np.zeros(d), Sigma)
    run = simulate(x, e.law, e.motion, e.until, masses=masses, record=[e.until])
    found = run.final.T @ (masses[:, None] * run.final)
    expected = np.linalg.inv(np.linalg.inv(Sigma) - 2 * e.beta * e.until * np.eye(d))
    off = float(np.abs(found - expected).max() / np.abs(expected).max())
    return once("the covariance is (Sigma_0^{-1} - 2 beta t)^{-1}", CLOSE - off, CLOSE / 50, time=e.until, strict=True)


def _layers(given: dict[str, Any]) -> tuple[Softmax, Layers]:
    return Softmax(beta=number(given["beta"], "beta")), Layers(gamma=number(given["gamma"], "gamma"))


def _narrow(e: Experiment) -> list[Margins]:
    return [
        once("sigma > 0, beta > 0", min(e.sigma, e.beta), strict=True),
        once("0 < gamma <= 1", min(e.gamma, 1 - e.gamma + 1e-300), strict=True),
        once("beta sigma^2 <= 1.6", 1.6 - e.beta * e.sigma**2),
    ]


def _near_threshold(rng: Rng, k: int) -> dict[str, Any]:
    beta, product = float(rng.uniform(0.5, 4.0)), float(rng.uniform(0.5, 0.95) if k % 2 else rng.uniform(1.05, 1.5))
    return {"sigma": float(np.sqrt(product / beta)), "beta": beta, "gamma": float(rng.uniform(0.05, 1.0))}


LAYERED = Setting({"sigma": 1.0, "beta": 1.2, "gamma": 0.1}, _layers, _near_threshold, samples=4, lengths=())


@UNIFIED.claim(
    "threshold", "derived: x' = m - x on Gaussians", DERIVED, LAYERED,
    """If tokens with the law N(0, sigma^2) on the line move by x' = m - x, m what they hear, their variance grows if
    beta sigma^2 > 1 and shrinks if beta sigma^2 < 1: (sigma^2)' = 2 sigma^2 (beta sigma^2 - 1). Under layers
    x + gamma (m - x) it is multiplied by (1 + gamma (beta sigma^2 - 1))^2, with the same threshold.""",
    plain="A Gaussian cloud on the line spreads if beta times its variance is above one, and contracts if it is below.",
    given={"sigma, beta > 0, gamma in (0, 1], beta sigma^2 <= 1.6": _narrow},
)  # fmt: skip
def threshold(e: Experiment) -> list[Margins]:
    """Tokens with the masses of a quadrature of the Gaussian, one layer: their variance against the formula, to 1e-6,
    and whether it grew."""
    x, masses = gaussian(NODES[1], np.zeros(1), np.array([[e.sigma**2]]))
    after = e.motion.step(Hearing(e.law, masses), x, 0)  # type: ignore[attr-defined]
    ratio = float(masses @ after[:, 0] ** 2) / e.sigma**2
    excess = e.beta * e.sigma**2 - 1
    off = abs(ratio - (1 + e.gamma * excess) ** 2)
    return [
        once("the variance is multiplied by (1 + gamma (beta sigma^2 - 1))^2", CLOSE - off, CLOSE / 50, strict=True),
        once("it grows exactly if beta sigma^2 > 1", (ratio - 1) * float(np.sign(excess)), 1e-9, strict=True),
    ]
