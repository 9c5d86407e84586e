"""Claims of the Frank-Wolfe paper: reference values, closed forms, certificates, and what they refuse."""

import math
import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import norm

import attnflow as af
from attnflow.claims import Experiment, exact, get
from attnflow.claims.frank_wolfe import cells, chain
from attnflow.claims.frank_wolfe.cone import Cone
from attnflow.claims.instances import read
from attnflow.claims.samplers import distinct
from attnflow.core.inputs import InputError
from attnflow.motions.jumps import chains
from attnflow.tokens import polygon

INSIDE = [[1.0, 0.0], [-0.5, 0.75], [-0.5, -0.75], [0.25, 0.0625]]
TRIANGLE = polygon(3)
ALL = "ATTNFLOW_EXAMPLES" in os.environ


def experiment(name: str, **instance: Any) -> Experiment:
    claim = get(f"fw/{name}")
    given = read(claim, instance)
    return Experiment(given, *claim.setting.model(given))


def lattice(rng: np.random.Generator, d: int) -> Any:
    x = distinct(rng.integers(-3, 4, (int(rng.integers(2, 8)), d)).astype(float))
    return x if len(x) > 1 else np.vstack([x, x + 1])


@pytest.mark.parametrize("claim", [c for c in af.claims.all() if c.id.startswith("fw/") and not c.refutable])
def test_true_claims_hold_on_their_samples(claim: af.claims.Claim) -> None:
    verdict = af.check(claim.id, seed=1)
    assert verdict.outcome == "holds"
    assert verdict.tried == claim.setting.samples


# Descent.


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
        e = experiment("duality-gap", tokens=x, gamma=gamma, beta=beta, steps=6).using("exact")
        rise, gap = get("fw/duality-gap").conclusion(e)  # type: ignore[misc]
        exact_steps: Any = (
            (lambda t: Fraction(1, t + 2), lambda t: Fraction(3, t + 2)) if callable(gamma) else (gamma, beta)
        )
        rises, margins = duality_by_hand(x, exact_steps[0], exact_steps[1], 6)
        assert rise.values.ravel().tolist() == rises
        assert gap.values.T.tolist() == margins
        assert rise.held.all()
        assert gap.held.all()


def test_the_duality_gap_asks_for_balance_and_symmetry() -> None:
    verdict = af.check("fw/duality-gap", tokens=INSIDE, beta="t + 1", gamma=0.5)
    assert (verdict.outcome, verdict.where) == ("hypotheses not met", (1, None))
    assert "beta^t gamma^{t+1} = beta^{t+1} gamma^t" in verdict.because
    assert af.check("fw/duality-gap", tokens=INSIDE, B=[[1.0, 1.0], [-1.0, 1.0]]).outcome == "hypotheses not met"


# Straight lines.


@pytest.mark.parametrize(
    ("gamma", "left"),
    [
        (0.5, lambda t: 0.5**t),
        ("1 / (t + 2)", lambda t: 1 / (t + 1)),
        ("1 - exp(-0.3 * (t + 1))", lambda t: math.exp(-0.15 * t * (t + 1))),
    ],
)
def test_straight_lines_are_the_closed_forms(gamma: Any, left: Callable[[int], float]) -> None:
    e = experiment("straight-lines", tokens=INSIDE, gamma=gamma, steps=12)
    v, x = np.array(INSIDE)[[0, 1, 2, 0]], np.array(INSIDE)
    for t, state in enumerate(e.states):
        np.testing.assert_allclose(state, v + left(t) * (x - v), atol=1e-14)
    assert af.check("fw/straight-lines", tokens=INSIDE, gamma=gamma, steps=12).outcome == "holds"
    late = af.check("fw/straight-lines", tokens=INSIDE, gamma=gamma, steps=12, motion=lambda m: af.Layers(gamma=0.9))
    assert (late.outcome, late.where) == ("violated", (1, 3))


@pytest.mark.parametrize(
    ("tokens", "because"),
    [
        ([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]], "token 2 ties between vertices 0 and 1"),
        ([[1.0, 0.0], [0.25, 0.0], [0.5, 0.0]], "vertex 1 loses its cell to vertex 0"),
    ],
)
def test_only_generic_polytopes(tokens: list[list[float]], because: str) -> None:
    for name in ("straight-lines", "exponential-rate", "exponential-rate/repaired", "ode"):
        verdict = af.check(f"fw/{name}", tokens=tokens)
        assert verdict.outcome == "hypotheses not met"
        assert because in verdict.because


def test_a_full_step_is_no_step_of_a_straight_line() -> None:
    verdict = af.check("fw/straight-lines", tokens=INSIDE, gamma="(t + 1) / 4", steps=4)
    assert (verdict.outcome, verdict.where) == ("hypotheses not met", (3, None))
    assert verdict.because == "0 < gamma^t < 1 fails at step 3"


@pytest.mark.parametrize(
    ("gamma", "outcome", "margin"),
    [
        (0.5, "holds", 0.5),
        ("0.25 + 1 / (t + 2)", "holds", 0.25),
        ("1 / (t + 2)", "violated", 0.0),
        ("1 / (t + 2) ** 2", "violated", 0.0),
        ("1 / sqrt(t + 2)", "undecided", 0.0),
        (lambda t: 0.5, "undecided", 0.0),
    ],
)
def test_the_schedule_decides_the_rate(gamma: Any, outcome: str, margin: float) -> None:
    verdict = af.check("fw/exponential-rate", tokens=INSIDE, gamma=gamma)
    assert (verdict.outcome, verdict.margin) == (outcome, margin)
    assert verdict.certified == ("float" if "sqrt" in str(gamma) else "exact")


def test_vertices_alone_have_arrived() -> None:
    assert af.check("fw/exponential-rate", tokens=INSIDE[:3], gamma="1 / (t + 2)").outcome == "holds"


def test_the_repaired_rate_needs_its_constant() -> None:
    verdict = af.check("fw/exponential-rate/repaired", tokens=INSIDE, gamma="1 / (t + 2)", c=0.25)
    assert (verdict.outcome, verdict.where) == ("hypotheses not met", (3, None))
    tight = af.check("fw/exponential-rate/repaired", tokens=INSIDE, gamma=0.5, c=0.5)
    assert (tight.outcome, tight.margin) == ("holds", 0.0)


def test_the_flow_is_exponential_and_euler_of_order_one() -> None:
    e = experiment("ode", tokens=INSIDE, until=2.0)
    solution, order = get("fw/ode").conclusion(e)  # type: ignore[misc]
    assert solution.held.all()
    assert -1e-14 < solution.worst <= 0
    # (1 + 1/m)^-m = e^-1 (1 + 1/(2m) + ..): the errors of m and 2m are in a ratio of about 2.
    errors = [(1 + 1 / m) ** -m - math.exp(-1) for m in (64, 128)]
    ratio = errors[0] / errors[1]
    assert order.worst == pytest.approx(min(ratio - 1.8, 2.2 - ratio), rel=1e-6)


def test_almost_every_start_has_one_leader() -> None:
    tied = [[1.0, 1.0], [-1.0, 1.0], [0.0, 0.5]]  # exactly tied where it stands, not after a random move
    for gamma in (1.0, 0.25):
        verdict = af.check("fw/single-leader", tokens=tied, gamma=gamma, steps=4)
        assert (verdict.outcome, verdict.certified) == ("holds", "exact")
    assert af.check("fw/single-leader", tokens=tied, B=[[1.0, 0.0], [0.0, 0.0]]).outcome != "holds"


# Cells.


def strict_and_weak_owners(x: Any, B: Any) -> tuple[list[int], list[bool], list[bool]]:
    """Return the vertices, and whether each is above all others, or at least as high, by brute force."""
    points = exact.rational(x)
    form = exact.rational(B)
    rows = [i for i in range(len(x)) if exact.separated(np.delete(points, i, axis=0), points[i]) is not None]
    G = points[rows] @ form.T @ points[rows].T
    strict = [all(row[j] < row[i] for j in range(len(rows)) if j != i) for i, row in enumerate(G)]
    weak = [all(row[j] <= row[i] for j in range(len(rows)) if j != i) for i, row in enumerate(G)]
    return rows, strict, weak


def test_own_cells_of_lattices_by_brute_force() -> None:
    outcomes = []
    for seed in range(240 if ALL else 96):
        rng = np.random.default_rng(seed)
        d = 1 + seed % 3
        x = lattice(rng, d)
        A = rng.integers(-2, 3, (d, d))
        B = (A @ A.T + np.eye(d)).astype(float) if seed % 4 == 0 else np.eye(d)
        rows, strict, weak = strict_and_weak_owners(x, B)
        printed, repaired = (af.check(f"fw/{name}", tokens=x, B=B) for name in ("own-cell", "own-cell/repaired"))
        if (x[rows] == 0).all(axis=1).any():
            assert printed.outcome == repaired.outcome == "hypotheses not met"
            assert printed.because == "v_i != 0 fails at step 0"
            continue
        assert (repaired.outcome, repaired.certified) == ("holds", "exact"), seed
        assert printed.outcome == ("holds" if strict == weak else "violated"), seed
        outcomes.append(printed.outcome)
    assert len(outcomes) / 10 < outcomes.count("violated") < 0.9 * len(outcomes)


def test_own_cells_ask_for_a_positive_form() -> None:
    assert af.check("fw/own-cell/repaired", tokens=INSIDE, B=[[1.0, 0.0], [0.0, -1.0]]).outcome == "hypotheses not met"
    assert af.check("fw/own-cell/repaired", tokens=INSIDE, B=[[1.0, 0.0], [0.0, 0.0]]).outcome != "holds"


def test_cells_of_an_indefinite_form() -> None:
    assert af.check("fw/cells", tokens=INSIDE, B=[[1.0, 2.0], [-3.0, -1.0]]).outcome == "holds"
    # Minus a direction: where everything ties, several cells meet, and only a positive form separates them.
    assert af.check("fw/cells", tokens=INSIDE, B=np.zeros((2, 2))).outcome == "holds"


def test_voronoi_cells() -> None:
    assert af.check("fw/voronoi", tokens=TRIANGLE).outcome == "holds"
    s = np.array([-1.0, -0.2, 0.4, 1.1])
    branch = np.column_stack([np.cosh(s), np.sinh(s)])  # all of energy 1/2 for x^2 - y^2
    assert af.check("fw/voronoi", tokens=branch, B=[[1.0, 0.0], [0.0, -1.0]]).outcome == "holds"
    wrong = af.check("fw/voronoi", tokens=branch, B=[[1.0, 0.0], [0.0, -1.0]], law=af.Hardmax(ties="points"))
    assert wrong.outcome == "violated"


@pytest.mark.parametrize(
    ("instance", "because"),
    [
        ({"tokens": [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], "B": [[1.0, 1.0], [-1.0, 1.0]]}, "B = B^T fails at step 0"),
        ({"tokens": [[3.0, 1.0], [-1.0, 1.0], [0.0, 0.0]]}, "all J(v_i) are equal fails at step 0"),
    ],
)
def test_voronoi_cells_ask_for_symmetry_and_equal_energies(instance: dict[str, Any], because: str) -> None:
    verdict = af.check("fw/voronoi", **instance)
    assert verdict.outcome == "hypotheses not met"
    assert verdict.because.startswith(because)


@pytest.mark.parametrize(("d", "p"), [(1, 0.25), (2, 0.146447), (3, 0.090845)])
def test_probability_that_a_gaussian_pair_fails(d: int, p: float) -> None:
    assert cells.failure_bound(2, d, 1.0, 1.0) / 2 == pytest.approx(p, abs=1e-6)
    assert cells.failure_bound(5, d, 1.0, 1.0) == pytest.approx(20 * p, abs=2e-5)
    x, y = np.random.default_rng(d).standard_normal((2, 200_000, d))
    fails = ((x * y).sum(axis=1) >= (x * x).sum(axis=1)).mean()
    assert abs(fails - p) < 5 * math.sqrt(p / 200_000)


def test_the_gaussian_bound_for_other_spectra() -> None:
    x, B = np.random.default_rng(0).standard_normal((100_000, 3)), np.diag([0.2, 0.6, 1.0])
    given = norm.sf(((x @ B) * x).sum(axis=1) / np.linalg.norm(x @ B, axis=1)).mean()
    assert given < cells.failure_bound(2, 3, 0.2, 1.0) / 2 < 4 * given
    assert cells.failure_bound(2, 3, 0.2, 1.0) > cells.failure_bound(2, 3, 1.0, 1.0)


def test_gaussian_draws_are_those_of_the_form() -> None:
    e = experiment("gaussian-own-cell/explicit", k=2, d=3, low=0.2, high=1.0, runs=4000)
    x, y = np.random.default_rng(7).standard_normal((2, 20_000, 3)) * np.sqrt([0.2, 0.6, 1.0])
    own = ((x * x).sum(axis=1) > (x * y).sum(axis=1)) & ((y * y).sum(axis=1) > (x * y).sum(axis=1))
    assert abs(cells._owners(e, 3) / 4000 - own.mean()) < 0.04


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (1.0, 0.5), (0.0, 1.0)])
def test_gaussian_spectra_are_bounded(low: float, high: float) -> None:
    verdict = af.check("fw/gaussian-own-cell", low=low, high=high)
    assert (verdict.outcome, verdict.because) == ("hypotheses not met", "0 < low <= high fails at step 0")


# Softmax layers.


def test_two_tokens_contract_at_the_promised_factor() -> None:
    for beta, gamma in ((1.0, 0.5), (0.7, 0.1), (3.0, 1.0)):
        e = experiment("collapse", tokens=[[1.0], [-0.5]], beta=beta, gamma=gamma, steps=10)
        diameter, weights, inside = get("fw/collapse").conclusion(e)  # type: ignore[misc]
        np.testing.assert_allclose(diameter.values, 0.0, atol=1e-15)
        assert diameter.held.all()
        assert inside.held.all()
        assert (weights.values > 0).all()
        # The factor itself, from the scores, for x = (a, b): a_11 - a_21 = s(beta a (a - b)) - s(beta b (a - b)).
        a, b = 1.0, -0.5
        s = [1 / (1 + math.exp(-beta * c * (a - b))) for c in (a, b)]
        left = np.ptp(e.states[1]) / (a - b)
        assert left == pytest.approx(1 - gamma * (1 - abs(s[0] - s[1])), abs=1e-14)
        assert left <= 1 - gamma * math.exp(-2 * abs(beta)) + 1e-15


def test_a_limit_other_than_the_origin_is_proved_in_balls() -> None:
    verdict = af.check("fw/collapse-to-origin", tokens=[[-0.5], [1.5]], beta=0.5, gamma=0.5, steps=5)
    assert (verdict.outcome, verdict.certified, verdict.where) == ("violated", "ball", (2, None))
    assert verdict.margin < -0.1


@pytest.mark.parametrize("beta", [0.02, 0.4562477765896568])
@pytest.mark.parametrize("steps", [60, 240])
def test_a_symmetric_cloud_never_leaves_the_origin(beta: float, steps: int) -> None:
    # Its tokens come as close to 0 as rounding goes, and balls around them grow beyond all bounds.
    verdict = af.check("fw/collapse-to-origin", tokens=[[-1.0], [-6.0], [1.0], [6.0]], beta=beta, steps=steps)
    assert verdict.outcome in ("holds", "undecided")


def test_the_origin_must_be_inside() -> None:
    for tokens in ([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [-1.0, 0.0]]):
        verdict = af.check("fw/collapse-to-origin", tokens=tokens)
        assert verdict.outcome in ("hypotheses not met", "undecided")
        assert verdict.because.startswith("0 in the interior of K^0")
    # Inside, but far from arrived.
    short = af.check("fw/collapse-to-origin", tokens=[[1.0], [-0.99]], steps=3)
    assert (short.outcome, short.certified) == ("undecided", "float")  # nor do balls decide it


def test_only_symmetry_tells_that_the_limit_is_the_origin() -> None:
    assert af.check("fw/collapse-to-origin", tokens=[[1.0], [-1.0]], steps=3).outcome == "holds"
    nearly: dict[str, Any] = {"tokens": [[1.0], [-1 + 1e-11]], "gamma": 0.5}
    assert af.check("fw/collapse-to-origin", **nearly, steps=33).outcome == "undecided"
    assert af.check("fw/collapse-to-origin", **nearly, steps=80).outcome == "violated"


def test_steps_of_finite_length_are_not_what_collapse_is_about() -> None:
    verdict = af.check("fw/collapse", tokens=[[1.0], [-1.0]], gamma="1 / (t + 2) ** 2")
    assert verdict.outcome == "hypotheses not met"


def test_the_weights_that_all_share_are_bounded_below() -> None:
    law = af.Softmax(beta=0.5)  # right law: shared weights e^{-2 beta R^2} at least
    verdict = af.check("fw/collapse", tokens=[[1.0], [-1.0]], beta=0.01, law=af.Softmax(beta=5.0), gamma=1e-6, steps=3)
    assert verdict.outcome == "violated"
    assert "min_i a_ik" in verdict.because
    assert af.check("fw/collapse", tokens=[[1.0], [-1.0]], beta=0.5, law=law).outcome == "holds"


@pytest.mark.parametrize(
    ("gamma", "outcome"),
    [("1 / (t + 2) - 0.0001", "hypotheses not met"), ("2 * (t + 1) / (t + 100)", "hypotheses not met"),
     ("1 / (t + 2)", "violated"), ("1 / (t + 2) - 1e-9", "undecided")],
)  # fmt: skip
def test_a_schedule_must_stay_between_0_and_1_for_ever(gamma: str, outcome: str) -> None:
    assert af.check("fw/exponential-rate", tokens=INSIDE, gamma=gamma, steps=30).outcome == outcome


def test_schedules_with_roots_are_not_replayed_in_fractions() -> None:
    given: dict[str, Any] = {"beta": "1 / sqrt(t + 2)", "gamma": "3 / (10 * sqrt(t + 2))", "steps": 10}
    verdict = af.check("fw/duality-gap", tokens=INSIDE, **given)
    assert (verdict.outcome, verdict.certified) == ("holds", "float")


def test_the_duality_bound_by_hand() -> None:
    # One token on its way from 1/2 to 1 on the line: gap_s = x_s (1 - x_s), and the bound at t = 1 from its own words.
    e = experiment("duality-gap", tokens=[[0.5], [1.0], [-1.0]], gamma=0.5, steps=3)
    _, gaps = get("fw/duality-gap").conclusion(e)  # type: ignore[misc]
    x1 = 0.75
    bound = (0.5 * 1.0 / 0.5) - (0.5 * x1**2 / 0.5)
    unit = 1.0 / 0.5
    assert float(gaps.values[0, 0]) == pytest.approx((bound - x1 * (1 - x1)) / unit, abs=1e-15)


@pytest.mark.parametrize(
    "id", ["fw/duality-gap", "hardmax/norms", "localmax/norms", "emergence/polytope", "fw/own-cell"]
)
def test_a_form_that_varies_is_refused_where_the_claim_has_a_constant_one(id: str) -> None:
    with pytest.raises(af.InputError, match="constant B"):
        af.check(id, tokens=INSIDE, B=lambda t: np.eye(2) * (1.0 if t < 3 else -1.0))


def test_functions_of_time_that_know_no_fractions() -> None:
    verdict = af.check("fw/hull-shrinks/repaired", tokens=INSIDE, gamma=lambda t: 0.5 * np.exp(-t))
    assert verdict.outcome == "holds"


def test_a_positive_definite_form_is_told_by_its_pivots() -> None:
    verdict = af.check("hardmax/norms", tokens=INSIDE, B=np.diag([1.0, 1e-17]))
    assert (verdict.outcome, verdict.certified) == ("holds", "exact")


@pytest.mark.parametrize(
    ("given", "outcome"),
    [({"gamma": 1e-17}, "hypotheses not met"), ({"beta": 800.0, "k": 2}, "hypotheses not met"),
     ({"beta": -60.0}, "holds"), ({"beta": 300.0, "k": 2}, "holds")],
)  # fmt: skip
def test_exit_times_at_the_ends_of_float64(given: dict[str, Any], outcome: str) -> None:
    assert af.check("fw/exit-time", **given).outcome == outcome


def test_a_constant_that_is_just_enough_is_undecided() -> None:
    given: dict[str, Any] = {"vertices": TRIANGLE, "tokens": np.array([[0.98], [0.4]]) * TRIANGLE[:2], "beta": 1e9}
    assert af.check("fw/first-phase", **given, C=30.0).outcome == "undecided"
    assert af.check("fw/first-phase", **given, C=1.0).outcome == "hypotheses not met"


def test_a_hotter_law_gives_other_tokens_too_much_weight() -> None:
    assert af.check("fw/first-phase/repaired", law=lambda own: replace(own, beta=own.beta / 2)).outcome == "violated"
    assert af.check("fw/metastable/repaired", law=lambda own: replace(own, beta=own.beta / 1.5)).outcome == "violated"


# The chain.


@pytest.mark.parametrize(
    ("k", "beta", "median"),
    [(3, 1.0, 2), (3, 2.0, 8), (3, 3.0, 32), (3, 4.0, 141), (3, 40.0, 3.958e25), (4, 40.0, 8.158e16)],
)
def test_medians_of_one_token_whose_neighbours_are_frozen(k: int, beta: float, median: float) -> None:
    weights = np.exp(af.Softmax(beta=beta).log_weights(polygon(k), 0))[0]
    found = math.ceil(math.log(0.5) / math.log1p(-float(weights[1:].sum())))
    assert found == (median if median < 1e6 else pytest.approx(median, rel=1e-3))


def test_exit_times_are_those_of_the_weights() -> None:
    e = experiment("exit-time", k=3, beta=3.0, runs=400)
    weights, *draws = get("fw/exit-time").conclusion(e)  # type: ignore[misc]
    assert np.abs(weights.values).max() < 1e-12
    assert not weights.strict
    p = 2 / (2 + math.exp(4.5))
    assert len(draws) == 6
    for one, other, q in zip(draws[::2], draws[1::2], (0.1, 0.5, 0.9), strict=True):
        m = math.ceil(math.log(1 - q) / (3 * math.log(1 - p)))
        assert one.what.startswith(f"P(first move by step {m})")
        assert other.what.startswith(f"P(first move by step {m})")
        assert one.level == 1 - 1e-6
    # A chain of another temperature is caught by the weights, another number of tokens that move by the times.
    assert af.check("fw/exit-time", k=3, beta=3.0, law=af.Softmax(beta=3.01)).certified == "float"


def test_the_start_set_of_the_triangle_is_empty_below_441() -> None:
    inside = np.random.default_rng(0).dirichlet(np.ones(3), 3000) @ TRIANGLE
    axis = np.linspace(0, 1, 1001)[:, None] * TRIANGLE[0]
    tokens = np.vstack([inside, axis])
    held = {}
    for beta in (100.0, 438.0, 444.0):
        e = experiment("first-phase", vertices=TRIANGLE, tokens=tokens, beta=beta)
        held[beta] = bool((get("fw/first-phase").given["tokens in the start set"](e).values > 0).any())  # type: ignore[union-attr]
    assert held == {100.0: False, 438.0: False, 444.0: True}


def test_the_start_set_is_named_with_its_token() -> None:
    verdict = af.check("fw/first-phase", vertices=TRIANGLE, tokens=[0.5 * TRIANGLE[0], 0.1 * TRIANGLE[1]], beta=1e4)
    assert (verdict.outcome, verdict.where) == ("hypotheses not met", (0, 1))
    assert verdict.because.endswith("fails at step 0, token 1")
    away = af.check("fw/first-phase", vertices=TRIANGLE, tokens=TRIANGLE)
    assert (away.outcome, away.where) == ("hypotheses not met", (0, 0))


@pytest.mark.parametrize("gamma", [0.05, 0.1, 0.3, 0.45])
@pytest.mark.parametrize("s", [0.1, 0.137, 0.2])
def test_one_step_where_tau_is_one_step_away(gamma: Any, s: float) -> None:
    # tau = (1 - gamma) m: the ratio of logarithms is 1, whatever floats make of it.
    tokens = (1 - s) * TRIANGLE[:1]
    for name in ("first-phase", "first-phase/repaired"):
        verdict = af.check(f"fw/{name}", vertices=TRIANGLE, tokens=tokens, gamma=gamma, beta=1e9)
        assert verdict.outcome == "holds"
        assert ("T_1 = 1 " if name == "first-phase" else "by step 1)") in verdict.because
    assert "(they need C = 1)" in af.check("fw/first-phase", vertices=TRIANGLE, tokens=tokens, beta=1e9).because


def test_phases_of_a_token_from_afar() -> None:
    # m = .9 and tau = c0 / (2 sqrt 3) = .433: log(.433/.9) / log .9 = 6.94.
    instance: dict[str, Any] = {"vertices": TRIANGLE, "tokens": 0.1 * TRIANGLE[:1], "gamma": 0.1, "beta": 1e12}
    assert "T_1 = 6 tokens are within C tau (they need C = 1.1)" in af.check("fw/first-phase", **instance).because
    assert "by step 7)" in af.check("fw/first-phase/repaired", **instance).because
    assert af.check("fw/first-phase", **instance, C=1.05).outcome == "violated"


def test_the_constant_is_that_of_the_farthest_token() -> None:
    tokens = np.array([0.98, 0.4])[:, None] * TRIANGLE[:2]
    verdict = af.check("fw/first-phase", vertices=TRIANGLE, tokens=tokens, gamma=0.1, beta=1e9)
    assert verdict.outcome == "violated"
    assert "(they need C = 30)" in verdict.because
    assert af.check("fw/first-phase", vertices=TRIANGLE, tokens=tokens, gamma=0.1, beta=1e9, C=31.0).outcome == "holds"


def test_bounds_on_exits_of_the_triangle() -> None:
    given = read(get("fw/metastable/repaired"), {"vertices": TRIANGLE})
    cone = Cone(TRIANGLE)
    assert (cone.c0, cone.R, cone.D) == pytest.approx((1.5, 1.0, math.sqrt(3)))
    a, b = chain._plain_bound(cone, given)
    plain = math.comb(99, 3) * (9 * math.exp(-9)) ** 3
    assert math.exp(a - 12 * b) == pytest.approx(plain)
    assert plain == pytest.approx(2.1e-4, rel=0.03)
    a, b = chain._staged_bound(cone, given)
    gaps = [1.5 - 4 * j * 0.04 * math.sqrt(3) for j in range(3)]
    staged = math.comb(99, 3) * math.prod(6 * math.exp(-12 * gap) for gap in gaps)
    assert math.exp(a - 12 * b) == pytest.approx(staged)
    x = 0.9 * TRIANGLE[[0, 1, 2, 0]]
    a, b = chain._staged_bound(cone, {**given, "tokens": x})
    gaps = [1.5 - 4 * (0.1 + j * 0.04 * math.sqrt(3)) for j in range(3)]
    assert math.exp(a - 3 * b) == pytest.approx(math.comb(99, 3) * math.prod(12 * math.exp(-3 * g) for g in gaps))


@pytest.mark.parametrize("name", ["metastable/repaired", "metastable/staged"])
def test_bounds_on_exits_hold_and_are_told(name: str) -> None:
    verdict = af.check(f"fw/{name}", vertices=TRIANGLE)
    assert (verdict.outcome, verdict.certified, verdict.level) == ("holds", "statistical", 1 - 1e-6)
    bound = 2.1491e-4 if name == "metastable/repaired" else 2.5753e-12
    assert verdict.margin == pytest.approx(bound, rel=1e-3)


def test_exits_are_counted_before_the_last_step() -> None:
    # Any move leaves a small neighbourhood: no exit before step t if nobody moves in t - 1 steps.
    e = experiment("metastable", vertices=TRIANGLE, beta=1.0, gamma=0.1, eps=0.1, steps=3, runs=2000)
    p = 2 / (2 + math.exp(1.5))
    assert chain._exits(e) / 2000 == pytest.approx(1 - (1 - p) ** 6, abs=0.02)
    once = experiment("metastable", vertices=TRIANGLE, beta=1.0, gamma=0.1, eps=0.01, steps=1, runs=50)
    assert chain._exits(once) == 0


def test_the_printed_bound_of_the_triangle() -> None:
    verdict = af.check("fw/metastable", vertices=TRIANGLE, beta=9.5, runs=20)
    bound = 1 - math.exp(4.75 * math.log(0.04 * 100 * 3 / 0.15) - 9.5 * 1.5 * 3.75 / 2)
    assert 0.9 < bound < 0.999
    assert f"P(T_2 >= 100) >= {bound:.6g} holds" in verdict.because


def test_the_printed_bound_is_not_invariant_under_scaling() -> None:
    # The same chain at 100 times the size: the printed bound passes from 0 to 1, what happens does not change.
    small: dict[str, Any] = {"vertices": TRIANGLE, "beta": 0.5, "gamma": 0.05, "eps": 0.18, "steps": 40, "runs": 60}
    large: dict[str, Any] = {**small, "vertices": 100 * TRIANGLE, "beta": 0.5e-4, "eps": 18.0}
    assert af.check("fw/metastable", **small).outcome == "holds"
    verdict = af.check("fw/metastable", **large)
    assert (verdict.outcome, verdict.certified) == ("violated", "statistical")


def test_weights_across_groups_of_pushed_tokens() -> None:
    e = experiment("metastable/repaired", vertices=TRIANGLE, runs=10)
    facts = get("fw/metastable/repaired").conclusion(e)[1]  # type: ignore[index]
    log_cross = chain._log_cross(e, TRIANGLE, np.arange(3))
    np.testing.assert_allclose(np.exp(log_cross), 2 / (2 + math.exp(18)), rtol=1e-12)
    assert facts.held.all()
    pushed = chain._pushed(e, Cone(TRIANGLE), np.arange(3), 0.15)
    np.testing.assert_allclose(np.linalg.norm(pushed - TRIANGLE, axis=1), 0.15)


@pytest.mark.parametrize(
    ("name", "instance", "because"),
    [
        ("metastable", {"eps": 0.1}, "eps / gamma >= 2 diam K fails at step 0"),
        ("metastable/repaired", {"eps": 0.2}, "4 R (rho + eps) <= c0/2 (4 R (rho + eps) <= c0 / 2) fails at step 0"),
        ("metastable/staged", {"tokens": 0.95 * TRIANGLE}, "(4 R (rho + eps) <= c0 / 2) fails at step 0"),
        ("metastable/staged", {"tokens": [*TRIANGLE, [0.0, 3.0]]}, "tokens in K fails at step 0, token 3"),
        ("metastable", {"vertices": TRIANGLE + 0.1}, "(vertex cones acute, norms equal) fails at step 0"),
        (
            "metastable",
            {"vertices": [[1.0, 0.0], [0.6, 0.8], [0.6, -0.8]]},
            "(vertex cones acute, norms equal) fails at step 0",
        ),
    ],
)
def test_metastability_asks_for_its_hypotheses(name: str, instance: dict[str, Any], because: str) -> None:
    verdict = af.check(f"fw/{name}", **{"vertices": TRIANGLE, "runs": 2, **instance})
    assert verdict.outcome == "hypotheses not met"
    assert verdict.because.endswith(because)


def test_steps_of_softmax_layers_to_arrive() -> None:
    for k in (3, 4, 5):
        v = polygon(k)
        x = np.vstack([v, (1 - 0.35) * v])
        for beta, steps in ((8, None), (16, 31), (32, 20), (64, 19), (128, 19)):
            run = af.simulate(x, af.Softmax(beta=float(beta)), af.Layers(gamma=0.1), until=2000 if beta == 8 else 40)
            near = (np.linalg.norm(run.tokens[:, k:] - v, axis=2) < 0.05).all(axis=1)
            assert (int(near.argmax()) if near.any() else None) == steps


def test_chains_move_in_the_mean_as_softmax_layers() -> None:
    _, ends = chains(TRIANGLE, af.Softmax(beta=1.0), 0.5, 1, 4000, 0)
    step = af.simulate(TRIANGLE, af.Softmax(beta=1.0), af.Layers(gamma=0.5), until=1).final
    np.testing.assert_allclose(ends.mean(axis=0), step, atol=0.05)


# Bad input.


@pytest.mark.parametrize(
    ("id", "given", "words"),
    [
        ("fw/cluster-rate", {"tokns": 3}, "fw/cluster-rate has no parameter 'tokns': it takes tokens, B, steps"),
        ("fw/cluster-rate", {"steps": 3}, "fw/cluster-rate needs tokens: give tokens=..., or no parameter at all"),
        ("fw/hull-shrinks", {"tokens": INSIDE, "V": None}, "fw/hull-shrinks needs V: give V=..."),
        ("fw/nothing", {}, "there is no claim 'fw/nothing': choose for example"),
        ("own-cell", {}, "there is no claim 'own-cell': choose for example fw/own-cell, "),
        (
            "fw/collapse",
            {"tokens": INSIDE, "law": 3},
            "law is 3, expected a law such as Softmax(beta=1.0), or a function",
        ),
        ("fw/collapse", {"tokens": INSIDE, "law": lambda law: None}, "law is None, expected a law"),
        (
            "fw/collapse",
            {"tokens": INSIDE, "motion": af.Softmax()},
            "Layers(gamma=0.1), or a function that returns one",
        ),
        ("fw/collapse", {"tokens": INSIDE, "gamma": 1.5}, "gamma is 1.5, expected a finite number above 0"),
        ("fw/collapse", {"tokens": INSIDE, "gamma": "2 / x"}, "gamma is '2 / x', where 'x' is not arithmetic in t"),
        ("fw/collapse", {"tokens": INSIDE, "steps": 0}, "steps is 0"),
        ("fw/collapse", {"tokens": [[np.nan]]}, "tokens"),
        ("fw/cluster-rate", {"tokens": INSIDE, "B": [[1.0]]}, "B has shape (1, 1), but the tokens have dimension 2"),
        ("fw/ode", {"tokens": INSIDE, "until": -1.0}, "until is -1, expected a finite number above 0"),
        ("fw/exit-time", {"motion": af.Layers(gamma=0.5), "k": 3}, "this claim is about the chain: give Jumps"),
        ("fw/exit-time", {"k": 1}, "k is 1"),
        ("fw/exponential-rate/repaired", {"tokens": INSIDE, "c": "x"}, "c is 'x', expected a number"),
        ("fw/metastable", {"vertices": TRIANGLE, "eps": "x"}, "eps is 'x', expected a number"),
        ("fw/metastable", {"vertices": [[1.0, 0.0]]}, "vertices holds 1 point"),
        ("fw/first-phase", {"vertices": TRIANGLE, "tokens": [[0.5]]}, "tokens have 1 coordinates and vertices 2"),
        ("fw/first-phase", {"vertices": TRIANGLE}, "fw/first-phase needs tokens"),
    ],
)
def test_bad_input_is_told_in_a_sentence(id: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as error:
        af.check(id, **given)
    assert words in str(error.value)


class Folded(af.Hardmax):
    """Hardmax of |<x, y>|: its cells are pairs of opposite cones."""

    def log_weights(self, x: Any, t: float = 0, *, sources: Any = None, masses: Any = None) -> Any:
        scores = np.abs(x @ (x if sources is None else sources).T)
        with np.errstate(divide="ignore"):
            return np.log((scores == scores.max(axis=1, keepdims=True)).astype(float))


def test_cells_that_are_not_convex_or_overlap_are_seen() -> None:
    square = [[1.0, 1.1], [-1.0, 1.0], [-1.2, -1.0], [1.0, -1.3]]
    e = experiment("cells", tokens=square)
    right = get("fw/cells").conclusion(e)
    assert [m.held.all() for m in right] == [True] * 3  # type: ignore[union-attr]
    folded = get("fw/cells").conclusion(Experiment(e.instance, Folded(), e.motion))
    assert folded[1].failed.any()  # type: ignore[index]
    everyone = get("fw/cells").conclusion(Experiment(e.instance, af.Softmax(), e.motion))
    assert everyone[2].failed.all()  # type: ignore[index]
