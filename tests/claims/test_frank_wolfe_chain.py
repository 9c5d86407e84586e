"""Claims of the Frank-Wolfe paper on the Markov chain: the first phase, exits, metastable groups."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from experiments import experiment
from frank_wolfe_instances import TRIANGLE

import attnflow as af
from attnflow.claims import get
from attnflow.claims.frank_wolfe import chain
from attnflow.claims.frank_wolfe.cone import Cone
from attnflow.claims.instances import read
from attnflow.motions.jumps import chains
from attnflow.tokens import polygon


@pytest.mark.parametrize(
    ("k", "beta", "median"),
    [(3, 1.0, 2), (3, 2.0, 8), (3, 3.0, 32), (3, 4.0, 141), (3, 40.0, 3.958e25), (4, 40.0, 8.158e16)],
)
def test_medians_of_one_token_whose_neighbours_are_frozen(k: int, beta: float, median: float) -> None:
    weights = np.exp(af.Softmax(beta=beta).log_weights(polygon(k), 0))[0]
    found = math.ceil(math.log(0.5) / math.log1p(-float(weights[1:].sum())))
    assert found == (median if median < 1e6 else pytest.approx(median, rel=1e-3))


def test_exit_times_are_those_of_the_weights() -> None:
    e = experiment("fw/exit-time", k=3, beta=3.0, runs=400)
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


@pytest.mark.parametrize(
    ("given", "outcome"),
    [({"gamma": 1e-17}, "hypotheses not met"), ({"beta": 800.0, "k": 2}, "hypotheses not met"),
     ({"beta": -60.0}, "holds"), ({"beta": 300.0, "k": 2}, "holds")],
)  # fmt: skip
def test_exit_times_at_the_ends_of_float64(given: dict[str, Any], outcome: str) -> None:
    assert af.check("fw/exit-time", **given).outcome == outcome


def test_the_start_set_of_the_triangle_is_empty_below_441() -> None:
    inside = np.random.default_rng(0).dirichlet(np.ones(3), 3000) @ TRIANGLE
    axis = np.linspace(0, 1, 1001)[:, None] * TRIANGLE[0]
    tokens = np.vstack([inside, axis])
    held = {}
    for beta in (100.0, 438.0, 444.0):
        e = experiment("fw/first-phase", vertices=TRIANGLE, tokens=tokens, beta=beta)
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


def test_a_constant_that_is_just_enough_is_undecided() -> None:
    given: dict[str, Any] = {"vertices": TRIANGLE, "tokens": np.array([[0.98], [0.4]]) * TRIANGLE[:2], "beta": 1e9}
    assert af.check("fw/first-phase", **given, C=30.0).outcome == "undecided"
    assert af.check("fw/first-phase", **given, C=1.0).outcome == "hypotheses not met"


def test_a_hotter_law_gives_other_tokens_too_much_weight() -> None:
    assert af.check("fw/first-phase/repaired", law=lambda own: replace(own, beta=own.beta / 2)).outcome == "violated"
    assert af.check("fw/metastable/repaired", law=lambda own: replace(own, beta=own.beta / 1.5)).outcome == "violated"


def test_bounds_on_exits_of_the_triangle() -> None:
    given = read(get("fw/metastable/repaired"), {"vertices": TRIANGLE})
    cone = Cone(TRIANGLE)
    assert (cone.c0, cone.R, cone.D) == pytest.approx((1.5, 1.0, math.sqrt(3)))
    a, b = chain.plain_bound(cone, given)
    plain = math.comb(99, 3) * (9 * math.exp(-9)) ** 3
    assert math.exp(a - 12 * b) == pytest.approx(plain)
    assert plain == pytest.approx(2.1e-4, rel=0.03)
    a, b = chain.staged_bound(cone, given)
    gaps = [1.5 - 4 * j * 0.04 * math.sqrt(3) for j in range(3)]
    staged = math.comb(99, 3) * math.prod(6 * math.exp(-12 * gap) for gap in gaps)
    assert math.exp(a - 12 * b) == pytest.approx(staged)
    x = 0.9 * TRIANGLE[[0, 1, 2, 0]]
    a, b = chain.staged_bound(cone, {**given, "tokens": x})
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
    e = experiment("fw/metastable", vertices=TRIANGLE, beta=1.0, gamma=0.1, eps=0.1, steps=3, runs=2000)
    p = 2 / (2 + math.exp(1.5))
    assert chain.exits(e) / 2000 == pytest.approx(1 - (1 - p) ** 6, abs=0.02)
    once = experiment("fw/metastable", vertices=TRIANGLE, beta=1.0, gamma=0.1, eps=0.01, steps=1, runs=50)
    assert chain.exits(once) == 0


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
    # Each token is pushed by r = .15 towards one of the two others: the margins are those of one of the eight choices.
    e = experiment("fw/metastable/repaired", vertices=TRIANGLE, runs=10)
    _, room, ahead = get("fw/metastable/repaired").conclusion(e)  # type: ignore[misc]
    beta, r, found = 12.0, 0.15, []
    for turns in product((1, 2), repeat=3):
        towards = np.array([TRIANGLE[(i + turn) % 3] - TRIANGLE[i] for i, turn in enumerate(turns)])
        x = TRIANGLE + r * towards / math.sqrt(3)
        scores = beta * x @ x.T
        cross = [sum(math.exp(s[j] - s[i]) for j in range(3) if j != i) for i, s in enumerate(scores)]
        weights = [math.log(3) - beta * 0.75 - math.log(c / (1 + c)) for c in cross]
        leads = [min(s[i] - s[j] for j in range(3) if j != i) - beta * (1.5 - 4 * r) for i, s in enumerate(scores)]
        found.append(np.array([weights, np.array(leads) / (1 + 1.5 * beta)]))
    shown = np.array([room.values[0], ahead.values[0]])
    assert min(np.abs(shown - one).max() for one in found) < 1e-12
    assert room.held.all()
    assert ahead.held.all()


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


def test_straight_lines_that_are_too_rare_decide_nothing() -> None:
    verdict = af.check("fw/first-phase", vertices=TRIANGLE, tokens=[[0.2, 0.1]], beta=1.5, C=1e9)
    assert verdict.outcome in ("undecided", "hypotheses not met")
    e = experiment("fw/first-phase", vertices=TRIANGLE, tokens=[[0.2, 0.1]], beta=1.5, C=1e9)
    margins = get("fw/first-phase").conclusion(e)
    assert "too little to tell" in str(margins.undecided)  # type: ignore[union-attr]
