"""Claims of the Frank-Wolfe paper on straight lines, their rates, and single leaders."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from experiments import experiment
from frank_wolfe_instances import INSIDE

import attnflow as af
from attnflow.claims import get


@pytest.mark.parametrize(
    ("gamma", "left"),
    [
        (0.5, lambda t: 0.5**t),
        ("1 / (t + 2)", lambda t: 1 / (t + 1)),
        ("1 - exp(-0.3 * (t + 1))", lambda t: math.exp(-0.15 * t * (t + 1))),
    ],
)
def test_straight_lines_are_the_closed_forms(gamma: Any, left: Callable[[int], float]) -> None:
    e = experiment("fw/straight-lines", tokens=INSIDE, gamma=gamma, steps=12)
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


def test_vertices_alone_have_arrived() -> None:
    assert af.check("fw/exponential-rate", tokens=INSIDE[:3], gamma="1 / (t + 2)").outcome == "holds"


def test_the_repaired_rate_needs_its_constant() -> None:
    verdict = af.check("fw/exponential-rate/repaired", tokens=INSIDE, gamma="1 / (t + 2)", c=0.25)
    assert (verdict.outcome, verdict.where) == ("hypotheses not met", (3, None))
    tight = af.check("fw/exponential-rate/repaired", tokens=INSIDE, gamma=0.5, c=0.5)
    assert (tight.outcome, tight.margin) == ("holds", 0.0)


def test_the_flow_is_exponential_and_euler_of_order_one() -> None:
    e = experiment("fw/ode", tokens=INSIDE, until=2.0)
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


def test_samples_of_single_leaders_have_forms_without_a_kernel() -> None:
    """Every kind of form is drawn; of the third, with small whole entries, every ninth is 0 on a line."""
    setting = get("fw/single-leader").setting
    forms = [setting.sample(np.random.default_rng(seed), 4)["B"] for seed in range(60)]
    assert all(B is None or np.linalg.matrix_rank(B) == len(B) for B in forms)
    assert 0 < sum(B is None for B in forms) < 30


def test_a_vertex_that_owns_its_cell_by_rounding_alone_leaves_the_claim_open() -> None:
    """<v_1, v_1> and <v_1, v_0> differ by 2^-55."""
    tokens = [[1.0, 1.0], [1.0, 2.0**-55], [-1.0, 0.0], [0.3, 0.6]]
    verdict = af.check("fw/straight-lines", tokens=tokens)
    assert verdict.outcome == "undecided"
    assert "(vertex 1 ties with vertex 0)" in verdict.because
    assert af.check("fw/straight-lines", tokens=[*tokens[:1], [1.0, 0.0], *tokens[2:]]).outcome == "hypotheses not met"
