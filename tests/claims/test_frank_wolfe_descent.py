"""Claims of the Frank-Wolfe paper on rates of descent, shrinking hulls and duality gaps."""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from experiments import experiment
from frank_wolfe_instances import ALL, INSIDE, lattice
from scipy.optimize import linprog

import attnflow as af
from attnflow.claims import Experiment, exact, get
from attnflow.claims.instances import read


def test_the_printed_rate_fails_for_two_tokens_of_the_line() -> None:
    verdict = af.check("fw/cluster-rate", tokens=[[3.0], [-1.0]], steps=700)
    assert verdict.outcome == "violated"
    assert verdict.certified == "exact"
    # The bound 32 / (t + 1) passes below 1/18, under which J never falls, a little before t = 575.
    assert verdict.where == (575, 0)
    assert verdict.margin == pytest.approx(2 / 700 - 1 / 18 / 16, rel=1e-3)
    assert "0 in K^s, a hypothesis of fw/cluster-rate/repaired, fails first at step 2" in verdict.because
    assert af.check("fw/cluster-rate", tokens=[[3.0], [-1.0]], steps=575).outcome == "holds"


def test_the_repaired_rate_asks_for_the_origin_at_every_step() -> None:
    verdict = af.check("fw/cluster-rate/repaired", tokens=[[3.0], [-1.0]], steps=700)
    assert (verdict.outcome, verdict.where, verdict.certified) == ("hypotheses not met", (2, None), "exact")
    assert verdict.because == "0 in K^s fails at step 2"
    assert verdict.margin < 0


def test_the_repaired_rate_is_attained_at_the_first_step() -> None:
    # The token at 0 may choose any point: it chooses the other token, one diameter away.
    verdict = af.check(
        "fw/cluster-rate/repaired", tokens=[[4.0], [0.0]], steps=1, law=af.Hardmax(B=[[-1.0]], ties="first")
    )
    assert (verdict.outcome, verdict.margin, verdict.certified) == ("holds", 0.0, "exact")


def frank_wolfe(x: list[list[Fraction]], B: list[list[Fraction]], steps: int) -> list[list[list[Fraction]]]:
    """Frank-Wolfe by hand: each token towards the mean of the distinct points that minimise <B x_i, y>."""
    states = [x]
    for t in range(steps):
        gamma, new = Fraction(2, t + 2), []
        for p in x:
            q = [sum(b * c for b, c in zip(row, p, strict=True)) for row in B]
            scores = [sum(a * b for a, b in zip(q, y, strict=True)) for y in x]
            best = sorted({tuple(y) for y, s in zip(x, scores, strict=True) if s == min(scores)})
            mean = [sum(y[c] for y in best) / Fraction(len(best)) for c in range(len(p))]
            new.append([a + gamma * (m - a) for a, m in zip(p, mean, strict=True)])
        x = new
        states.append(x)
    return states


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("cluster-rate", lambda t: Fraction(2, t + 1)),
        ("cluster-rate/repaired", lambda t: Fraction(2 * t + 3, 3 * (t + 1) * (t + 2))),
    ],
)
@pytest.mark.parametrize("seed", range(6))
def test_margins_of_the_rates_by_hand(name: str, bound: Callable[[int], Fraction], seed: int) -> None:
    rng = np.random.default_rng(seed)
    half = rng.integers(-3, 4, (2, 2)) + np.array([[4, 0], [0, 4]])
    tokens = np.vstack([half, -half]).astype(float)
    # Diagonal, so that the largest eigenvalue is known without rounding.
    B = np.diag(rng.integers(1, 5, 2)).astype(float)
    form = [[Fraction(v) for v in row] for row in B]
    states = frank_wolfe([[Fraction(v) for v in row] for row in tokens], form, 8)
    D2 = max(sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) for p in states[0] for q in states[0])
    energies = [[sum(b * v * v for b, v in zip(np.diag(B), p, strict=True)) / 2 for p in x] for x in states[1:]]
    margins = [bound(t) - Fraction(J) / (Fraction(B.max()) * D2) for t, row in enumerate(energies) for J in row]
    verdict = af.check(f"fw/{name}", tokens=tokens, B=-B, steps=8)
    assert verdict.outcome == "holds"
    assert verdict.margin == float(min(margins))


@pytest.mark.parametrize(
    ("instance", "because"),
    [
        ({"tokens": [[3.0], [1.0]]}, "0 in K^0 fails at step 0"),
        ({"tokens": [[3.0], [-1.0]], "B": [[1.0]]}, "give B = -B_*) fails at step 0"),
        ({"tokens": [[3.0], [-1.0]], "B": lambda t: [[-1 - t * (t == 3)]]}, "(B_*^t >= B_*^{t+1}) fails at step 2"),
        ({"tokens": [[3.0, 0.0], [-1.0, 0.0]], "B": [[-1.0, -1.0], [0.0, -1.0]]}, "if that is rounding"),
    ],
)
def test_the_rate_asks_for_its_hypotheses(instance: dict[str, Any], because: str) -> None:
    verdict = af.check("fw/cluster-rate", **instance, steps=6)
    assert verdict.outcome == "hypotheses not met"
    assert verdict.because.endswith(because)


@pytest.mark.parametrize("name", ["cluster-rate", "cluster-rate/repaired"])
def test_the_form_of_the_rate_is_that_of_hardmax(name: str) -> None:
    """With the same B the run of the claim is that of Hardmax(B); without one B is -I."""
    x, B = np.array([[3.0, 0.5], [-1.0, 0.25], [-0.5, -2.0]]), -np.diag([1.0, 2.0])
    claim = get(f"fw/{name}")
    for form, given in ((B, {"B": B}), (-np.eye(2), {})):
        instance = read(claim, {"tokens": x, "steps": 9, **given})
        law, motion = af.Hardmax(B=form, ties="points"), af.Layers(gamma=lambda t: 2 / (t + 2))
        states = Experiment(instance, *claim.setting.model(instance)).states
        np.testing.assert_array_equal(states, af.simulate(x, law, motion, until=9).tokens)
    old = af.check(f"fw/{name}", tokens=x, B=-B)
    assert old.outcome == "hypotheses not met"
    assert "B is that of Hardmax, with scores <B x, y>: for J(x) = 1/2 <B_* x, x> give B = -B_*" in old.because


def test_a_form_may_descend() -> None:
    x = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    verdict = af.check("fw/cluster-rate/repaired", tokens=x, B=lambda t: -np.eye(2) / (1 + float(t)), steps=9)
    assert verdict.outcome == "holds"


def in_hull(points: Any, p: Any) -> bool:
    n = len(points)
    equal = np.vstack([points.T, np.ones((1, n))])
    return linprog(np.zeros(n), A_eq=equal, b_eq=[*p, 1.0], bounds=(0, None)).status == 0


def test_hulls_shrink_as_linear_programs_say() -> None:
    outcomes = []
    for seed in range(40 if ALL else 16):
        rng = np.random.default_rng(seed)
        x, V = lattice(rng, 2), np.diag(rng.integers(1, 6, 2)).astype(float)
        run = af.simulate(x, af.Hardmax(ties="points"), af.Layers(V=V), until=3).tokens
        out = [(t, i) for t, (old, new) in enumerate(pairwise(run)) for i, p in enumerate(new) if not in_hull(old, p)]
        verdict = af.check("fw/hull-shrinks", tokens=x, V=V, steps=3)
        assert (verdict.outcome, verdict.where) == (("violated", out[0]) if out else ("holds", None)), seed
        assert verdict.certified == "exact"
        assert af.check("fw/hull-shrinks/repaired", tokens=x, gamma=0.5, steps=3).outcome == "holds"
        outcomes.append(verdict.outcome)
    assert len(outcomes) / 8 < outcomes.count("violated") < len(outcomes) * 7 / 8


def test_the_depth_of_a_hull_is_its_margin() -> None:
    # The token at 4 goes to 2, half of the way to 0; the one at 0 ties, and goes to 1, half of the way to the middle.
    verdict = af.check("fw/hull-shrinks/repaired", tokens=[[4.0], [0.0]], B=[[-1.0]], steps=1)
    assert (verdict.outcome, verdict.margin) == ("holds", 0.5)  # over the half width


def test_the_diagonal_must_be_one() -> None:
    x = [[1.0, 2.0], [0.0, 1.0]]
    for V in ([[1.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, -0.5]]):
        verdict = af.check("fw/hull-shrinks", tokens=x, V=V)
        assert verdict.outcome == "hypotheses not met"
        assert verdict.because == "V diagonal with positive entries (V diagonal, positive) fails at step 0"


def test_functions_of_time_that_know_no_fractions() -> None:
    verdict = af.check("fw/hull-shrinks/repaired", tokens=INSIDE, gamma=lambda t: 0.5 * np.exp(-t))
    assert verdict.outcome == "holds"


def duality_by_hand(x: Any, gamma: Any, beta: Any, steps: int) -> tuple[list[Fraction], list[list[Fraction]]]:
    """Return the rises of the energies, and the margins of the gaps of each token, for B = I, in fractions."""
    run = exact.replay(exact.rational(x), af.Hardmax(ties="points"), af.Layers(gamma=gamma), steps)
    b, g = ([Fraction(v(t)) if callable(v) else Fraction(v) for t in range(steps)] for v in (beta, gamma))
    unit = Fraction(np.abs(x).max()) ** 2 * x.shape[1]
    E = [[sum(v * v for v in p) / 2 for p in state] for state in run]
    rises = [2 * (new - old) / unit for before, after in pairwise(E) for old, new in zip(before, after, strict=True)]
    margins: list[list[Fraction]] = [[] for _ in x]
    for i in range(len(x)):
        gaps = [b[t] * (max((run[t] @ run[t][i]).tolist()) - 2 * E[t][i]) for t in range(steps)]
        for t in range(1, steps):
            bound = (max(b[t] / g[t] * e for e in E[t]) - b[1] / g[1] * E[1][i]) / t
            margins[i].append((bound - min(gaps[1 : t + 1])) / (unit * max(b[t] / g[t], b[t])))
    return rises, margins


@pytest.mark.parametrize("seed", range(4))
def test_margins_of_the_duality_gap_by_hand(seed: int) -> None:
    x = lattice(np.random.default_rng(seed), 2)
    for gamma, beta in ((0.5, 3.0), (lambda t: 1 / (t + 2), lambda t: 3 / (t + 2))):
        e = experiment("fw/duality-gap", tokens=x, gamma=gamma, beta=beta, steps=6).using("exact")
        rise, gap = get("fw/duality-gap").conclusion(e)  # type: ignore[misc]
        exact_steps: Any = (
            (lambda t: Fraction(1, t + 2), lambda t: Fraction(3, t + 2)) if callable(gamma) else (gamma, beta)
        )
        rises, margins = duality_by_hand(x, exact_steps[0], exact_steps[1], 6)
        assert rise.values.ravel().tolist() == rises
        assert gap.values.T.tolist() == margins
        assert rise.held.all()
        assert gap.held.all()


def test_the_duality_bound_by_hand() -> None:
    # One token on its way from 1/2 to 1 on the line: gap_s = x_s (1 - x_s), and the bound at t = 1 from its own words.
    e = experiment("fw/duality-gap", tokens=[[0.5], [1.0], [-1.0]], gamma=0.5, steps=3)
    _, gaps = get("fw/duality-gap").conclusion(e)  # type: ignore[misc]
    x1 = 0.75
    bound = (0.5 * 1.0 / 0.5) - (0.5 * x1**2 / 0.5)
    unit = 1.0 / 0.5
    assert float(gaps.values[0, 0]) == pytest.approx((bound - x1 * (1 - x1)) / unit, abs=1e-15)


def test_the_duality_gap_asks_for_balance_and_symmetry() -> None:
    verdict = af.check("fw/duality-gap", tokens=INSIDE, beta="t + 1", gamma=0.5)
    assert (verdict.outcome, verdict.where) == ("hypotheses not met", (1, None))
    assert "beta^t gamma^{t+1} = beta^{t+1} gamma^t" in verdict.because
    assert af.check("fw/duality-gap", tokens=INSIDE, B=[[1.0, 1.0], [-1.0, 1.0]]).outcome == "hypotheses not met"
