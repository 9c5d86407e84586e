"""Hardmax layers as Frank-Wolfe: rates of descent, duality gaps, shrinking hulls."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from attnflow.claims import exact, hypotheses
from attnflow.claims.claim import DERIVED, FALSE, PROVED, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.frank_wolfe.paper import FW, hardmax_layers
from attnflow.claims.margins import Margins, Numbers, once, stacked
from attnflow.claims.samplers import Rng, any_form, around_origin, cloud, pick, positive_form, step_sizes
from attnflow.core.inputs import number_at, varies_in_time
from attnflow.core.schedules import Schedule
from attnflow.geometry import forms
from attnflow.laws import Hardmax
from attnflow.motions import Layers


def _frank_wolfe(given: dict[str, Any]) -> tuple[Hardmax, Layers]:
    """Return the linear minimisation oracle of J = 1/2 <B_* x, x>, B_* = -B, with the steps 2 / (t + 2)."""
    B = -np.eye(given["tokens"].shape[1]) if given["B"] is None else given["B"]
    return Hardmax(B=B, ties="points"), Layers(gamma=Schedule("2 / (t + 2)"))


def _with_origin(rng: Rng, k: int) -> dict[str, Any]:
    x = around_origin(rng, k)
    if k % 4 == 3:  # few tokens, for a long time
        return {"tokens": around_origin(rng, k, n=3, d=int(rng.integers(1, 3))), "steps": 600}
    form = positive_form(rng, k // 2, x.shape[1])
    return {"tokens": x, "B": None if form is None else -form, "steps": int(rng.integers(10, 40))}


def _half_symmetric(rng: Rng, k: int) -> dict[str, Any]:
    """Return every other cloud as x and -x: there 0 stays in the hull."""
    given = _with_origin(rng, k // 2)
    return given if k % 2 else given | {"tokens": np.vstack([given["tokens"], -given["tokens"]])}


FRANK_WOLFE = Setting(
    {"tokens": ..., "B": None, "steps": 100}, _frank_wolfe, _with_origin, arithmetics=("exact",), varying=("B",)
)
WITH_ORIGIN = replace(FRANK_WOLFE, sample=_half_symmetric)


@hypotheses.of_symmetric_forms
def _descending_forms(e: Experiment) -> list[Margins]:
    """B_*^t >= 0 and B_*^t >= B_*^{t+1} at every step; a constant form is looked at once."""
    last = int(e.horizon) if varies_in_time(e.B) else 1
    energies = [_energy_form(e, t) for t in range(last)]
    found = [hypotheses.semidefinite_margin(e, B) for B in energies]
    drops = [hypotheses.semidefinite_margin(e, B - C) for B, C in pairwise(energies)]
    return [
        Margins(what, stacked([v for v, _ in margins]), np.arange(len(margins)), np.array([tol for _, tol in margins]))
        for what, margins in ((_negative(e), found), ("B_*^t >= B_*^{t+1}", drops))
        if margins
    ]


def _energy_form(e: Experiment, t: int = 0) -> Numbers:
    """Return B_* = -B at step t, the form of the energy; the identity if no B was given."""
    return e.form(t) if e.B is None else -e.form(t)


def _negative(e: Experiment) -> str:
    """Return the first hypothesis in words; if a B >= 0 was given, as if it were B_*, say what to give instead."""
    if e.B is None or not forms.positive_semidefinite(e.form().astype(float)):
        return "B_*^t >= 0"
    return "B_* = -B >= 0, where B is that of Hardmax, with scores <B x, y>: for J(x) = 1/2 <B_* x, x> give B = -B_*"


def _energy_against(e: Experiment, bound: Any) -> Margins:
    """Return (bound(t) - J^t(x_i^{t+1}) / (lambda_max D^2)) for every step and token."""
    steps = np.arange(len(e.states) - 1)
    B = _energy_form(e)
    largest = exact.largest_eigenvalue(B) if e.exact else float(np.linalg.eigvalsh(B).max())
    unit = largest * hypotheses.squared_diameter(e.tokens) or 1
    J = np.array([hypotheses.quadratic(_energy_form(e, t), e.states[t + 1]) / 2 for t in steps.tolist()])
    allowed = np.array([bound(t) for t in e.array(steps)])
    return Margins("J^t(x_i^{t+1}) <= bound", allowed[:, None] - J / unit, steps, 64 * e.shape[1] * e.rounding)


DESCENDING = "B_*^t = -B^t >= 0, not increasing"


@FW.claim(
    "cluster-rate", "Theorem 3.1", FALSE, FRANK_WOLFE,
    """If B_*^t = -B^t >= 0 does not increase in t (B = -I if none is given), gamma^t = 2/(t+2) and 0 lies in K^0, then
    J^t(x_i^{t+1}) <= 2/(t+1) lambda_max(B_*^0) diam(K^0)^2 for every token and step, J^t(x) = 1/2 <B_*^t x, x>.""",
    plain="With the steps of Frank-Wolfe, the energy of every token falls to zero at the stated rate.",
    given={DESCENDING: _descending_forms, "0 in K^0": hypotheses.origin_at_start},
    repair="cluster-rate/repaired",
)  # fmt: skip
def cluster_rate(e: Experiment) -> Margins:
    """The energy of every token after every step against the printed bound, in fractions."""
    return _energy_against(e, lambda t: 2 / (t + 1))


@FW.claim(
    "cluster-rate/repaired", "after Theorem 3.1", DERIVED, WITH_ORIGIN,
    """If B_*^t = -B^t >= 0 does not increase in t, gamma^t = 2/(t+2) and 0 lies in K^s for every s <= t, then
    J^t(x_i^{t+1}) <= lambda_max(B_*^0) diam(K^0)^2 (2t+3) / (3(t+1)(t+2)), with equality possible at t = 0.""",
    plain="If the hull holds the origin at every step, the energy of every token falls at a stated, sharper rate.",
    given={DESCENDING: _descending_forms, "0 in K^s": hypotheses.origin_always},
)  # fmt: skip
def cluster_rate_repaired(e: Experiment) -> Margins:
    """The energy of every token after every step against the bound, as long as 0 stays in the hull, in fractions."""
    return _energy_against(e, lambda t: (2 * t + 3) / (3 * (t + 1) * (t + 2)))


def _any_layers(rng: Rng, k: int) -> dict[str, Any]:
    x = cloud(rng, k)
    gamma = pick(rng, (1.0, step_sizes(rng, k)))
    return {"tokens": x, "B": any_form(rng, k // 2, x.shape[1]), "gamma": gamma, "steps": int(rng.integers(5, 15))}


def _any_diagonal(rng: Rng, k: int) -> dict[str, Any]:
    given = _any_layers(rng, k)
    d = given["tokens"].shape[1]
    V = np.diag(rng.integers(1, 9, d) / 4 if k % 2 else np.exp(rng.uniform(-3, 3, d)))
    return {"tokens": given["tokens"], "B": given["B"], "V": V, "steps": given["steps"]}


LAYERS = Setting(
    {"tokens": ..., "B": None, "gamma": 0.5, "steps": 30}, hardmax_layers, _any_layers, arithmetics=("exact",)
)
RENORMALISED = Setting(
    {"tokens": ..., "B": None, "V": ..., "steps": 30},
    lambda given: (Hardmax(B=given["B"], ties="points"), Layers(V=given["V"])), _any_diagonal, arithmetics=("exact",),
)  # fmt: skip


def _positive_diagonal(e: Experiment) -> Margins:
    V = np.asarray(e.V, dtype=float)
    off = float(np.abs(V - np.diag(np.diag(V))).max())
    return once("V diagonal, positive", -off if off else float(np.diag(V).min() / np.abs(V).max()), strict=True)


hull_shrinks = FW.claim(
    "hull-shrinks", "Section 3", FALSE, RENORMALISED,
    """The hull shrinks, K^{t+1} inside K^t, for the renormalised model z_i <- z_i + (I + V)^{-1} V (m_i - z_i) with a
    diagonal V of positive entries and any B.""",
    plain="The convex hull of the tokens never grows, also with different step sizes in different coordinates.",
    given={"V diagonal with positive entries": _positive_diagonal},
    repair="hull-shrinks/repaired",
)(hypotheses.shrinking_hull)  # fmt: skip
hull_shrinks_repaired = FW.claim(
    "hull-shrinks/repaired", "Section 3", PROVED, LAYERS,
    "With scalar steps gamma^t in (0, 1] the hull shrinks, K^{t+1} inside K^t, whatever B.",
    plain="With one step size for all coordinates, the convex hull of the tokens never grows.",
    given={"0 < gamma^t <= 1": hypotheses.step_up_to_one},
)(hypotheses.shrinking_hull)  # fmt: skip


def _betas(e: Experiment) -> Numbers:
    """Return beta^t for the steps of the run."""
    steps = range(len(e.states) - 1)
    if e.exact:
        return exact.rational([exact.value_at(e.beta, t) for t in steps])
    return np.array([number_at(e.beta, t, "beta") for t in steps])


def _proportional(rng: Rng, k: int) -> dict[str, Any]:
    given = _any_layers(rng, k)
    gamma = step_sizes(rng, k)
    factor = pick(rng, (1.0, 4.0, 0.25))
    beta = f"{factor} * ({gamma})" if isinstance(gamma, str) else factor
    return {**given, "B": positive_form(rng, k // 2, given["tokens"].shape[1]), "gamma": gamma, "beta": beta}


DUALITY = replace(
    LAYERS, parameters={"tokens": ..., "B": None, "beta": 1.0, "gamma": 0.5, "steps": 30}, sample=_proportional
)


def _balanced(e: Experiment) -> list[Margins]:
    """beta^t >= 0 and beta^t gamma^{t+1} = beta^{t+1} gamma^t for t >= 1."""
    beta, gamma = _betas(e)[1:], e.gammas[1:]
    one, other = beta[:-1] * gamma[1:], beta[1:] * gamma[:-1]
    sizes = np.maximum(np.abs(one), np.abs(other))
    off = np.abs(one - other) / np.where(sizes > 0, sizes, 1)
    balance = Margins("beta^t gamma^{t+1} = beta^{t+1} gamma^t", -off, np.arange(1, len(beta)), 4 * e.rounding)
    return [Margins("beta^t >= 0", beta, np.arange(1, len(beta) + 1)), *([balance] if len(beta) > 1 else [])]


@FW.claim(
    "duality-gap", "Section 3", PROVED, DUALITY,
    """If B >= 0 is symmetric, B^t = beta^t B with beta^t >= 0, gamma^t in (0, 1) and
    beta^t gamma^{t+1} = beta^{t+1} gamma^t, then for t >= 1,
    min_{1 <= s <= t} (max_j <B^s x_i, x_j> - <B^s x_i, x_i>) <=
    (1/t) [max_j 1/2 <B^t x_j^t, x_j^t> / gamma^t - 1/2 <B^1 x_i^1, x_i^1> / gamma^1], and <B x_i, x_i> never
    decreases.""",
    plain="Each token has come near to its largest score at some step, with a gap like one over the steps.",
    given={
        "B >= 0": hypotheses.positive_semidefinite, "0 < gamma^t < 1": hypotheses.step_in_unit_interval,
        "beta^t proportional to gamma^t": _balanced,
    },
)  # fmt: skip
def duality_gap(e: Experiment) -> list[Margins]:
    """The smallest gap so far against the bound, and the energy of each token against the step before."""
    B, x, steps = e.form(), e.states[:-1], len(e.states) - 1
    energy = hypotheses.quadratic(B, x) / 2
    unit = hypotheses.score_unit(e)
    tol = 64 * e.shape[1] * e.rounding
    rise = Margins(
        "<B x_i, x_i> never decreases", np.diff(hypotheses.quadratic(B, e.states), axis=0) / unit, e.times[:-1], tol
    )
    if steps < 2:
        return [rise]
    beta, gamma = _betas(e), e.gammas
    top = np.array([(state @ B.T @ state.T).max(axis=1) for state in x])
    gaps = beta[:, None] * (top - 2 * energy)
    least = np.minimum.accumulate(gaps[1:], axis=0)
    ratio = (beta / gamma)[:, None]
    t = e.array(np.arange(1, steps))[:, None]
    bound = ((ratio * energy).max(axis=1)[1:, None] - (ratio * energy)[1]) / t
    size = np.maximum(ratio[1:], beta[1:, None]) * unit
    return [rise, Margins("least gap <= bound", (bound - least) / np.where(size > 0, size, 1), e.times[1:-1], tol)]
