"""Claims on localmax: cases solved by hand, exhibits, thresholds, hypotheses and input."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.claims import exact
from attnflow.claims.experiment import Experiment
from attnflow.claims.instances import read
from attnflow.claims.localmax import LEADER, OUTSIDE, WANDERER, Periodic
from attnflow.claims.settled import orbit, settled
from attnflow.core.schedules import Schedule

TRIANGLE = np.array([[2.0, 0.0], [-1.0, 1.5], [-1.0, -1.0], [0.5, 0.25], [-0.25, 0.5]])
LINE = np.array([[10.0], [-10.0], [1.0], [-1.0]])
# It hears (2, 8) alone and all three in turn.
TURNS = np.array([[2.0, 8.0], [2.0, -28.8125], [2.0, 0.25]])
IDS = [claim.id for claim in af.claims.all() if claim.id.startswith("localmax/")]
DELTAS = {"additive": 0.5, "relative": 0.125, "normalized": 0.25}


def exactly(tokens: Any, law: Any, gamma: float = 0.5, steps: int = 60) -> Experiment:
    return Experiment({"tokens": np.asarray(tokens), "steps": steps}, law, af.Layers(gamma=gamma), "exact")


@pytest.mark.parametrize("id", [id for id in IDS if not id.endswith("directed")])
def test_own_samples_hold(id: str) -> None:
    verdict = af.check(id, seed=3)
    assert verdict.outcome == "holds"
    assert "violated" not in verdict.because


def test_constant_delta_moves_leaders() -> None:
    # Ten times {1, -1, .1, -.1} with delta .05, whose limits are +-.9859375; hardmax: +-1.
    end = settled(exactly(LINE, af.Localmax(delta=5.0)))
    assert end is not None
    limit = Fraction("9.859375")
    assert end.limits.ravel().tolist() == [limit, -limit, limit, -limit]
    assert end.never.all()
    verdict = af.check("localmax/constant-converges", tokens=LINE, delta=5.0)
    assert (verdict.outcome, verdict.certified) == ("holds", "exact")
    moved = af.check("localmax/leaders-move", tokens=LINE, deltas=[5.0], steps=60)
    assert (moved.outcome, moved.certified) == ("holds", "exact")
    assert moved.margin == pytest.approx((1 - 0.9859375) ** 2, rel=1e-12)


def test_proved_limits_are_the_end_of_runs() -> None:
    for seed in range(6):
        x = af.tokens.gaussian(n=6, d=2, seed=seed)
        for threshold, delta in (("additive", 0.25), ("relative", 0.125)):
            law = af.Localmax(delta=delta, threshold=threshold)
            end = settled(exactly(x, law))
            assert end is not None
            run = af.simulate(x, law, af.Layers(gamma=0.5), until=200)
            np.testing.assert_allclose(end.limits.astype(float), run.final, atol=1e-9)


def test_nothing_is_proved_while_neighbours_may_change() -> None:
    assert settled(exactly(LINE, af.Localmax(delta=5.0), steps=2)) is None
    assert settled(exactly(LINE, af.Localmax(delta=5.0), gamma=1.0)) is None
    assert settled(exactly(LINE, af.Localmax(delta=Periodic((5.0, 5.0))))) is None
    # All would stay as it is if nobody moved, but the third token is still too far from its limit to tell.
    near = exactly([[1.0, 1.0], [1.0, -0.9375], [0.9375, 0.0]], af.Localmax(delta=0.125), steps=1)
    vars(near)["states"] = near.tokens[None]
    assert settled(near) is None
    verdict = af.check("localmax/constant-converges", tokens=LINE, delta=5.0, steps=2)
    assert (verdict.outcome, verdict.where) == ("undecided", (2, None))


def test_a_limit_outside_S() -> None:
    p, q = [1.0, 1.0], [1.0, -0.9375]
    end = settled(exactly([p, q, [0.5, 0.0]], af.Localmax(delta=0.125), steps=80))
    assert end is not None
    assert end.limits[2].tolist() == [1, Fraction(1, 32)]
    assert not end.never.any()  # the third token hears itself, p and q, and nothing is said of its arrival
    shown = af.check("localmax/leaders-move", tokens=[p, q, [0.5, 0.0]], deltas=0.125, shows=OUTSIDE, steps=80)
    assert (shown.outcome, shown.certified) == ("holds", "exact")
    # <m, p> - <m, m> = (1/32)(31/32) over |p|^2 = 2
    assert shown.margin == 31 / 2048
    vertex = af.check("localmax/leaders-move", tokens=LINE, deltas=5.0, shows=OUTSIDE, steps=60)
    assert vertex.outcome == "hypotheses not met"


def test_a_token_without_limit() -> None:
    law = af.Localmax(delta=Periodic((1.0, 50.0)))
    nearby = TURNS + np.array([[0, 0], [0, 0], [0.125, 0.0625]])
    found = orbit(exactly(nearby, law, gamma=0.125, steps=41), period=2)
    assert found is not None
    assert found[:, 2].tolist() == [[2, Fraction(1, 4)], [2, Fraction(39, 32)], [2, Fraction(1, 4)]]
    assert (found[:, :2] == exact.rational(TURNS[:2])).all()
    given: dict[str, Any] = {"tokens": nearby, "gamma": 0.125, "deltas": (1.0, 50.0), "shows": WANDERER, "steps": 41}
    shown = af.check("localmax/leaders-move", **given)
    assert (shown.outcome, shown.certified) == ("holds", "exact")
    assert shown.margin == pytest.approx((31 / 32) ** 2 / (4 + 28.8125**2), rel=1e-12)
    constant = af.check("localmax/leaders-move", law=lambda law: replace(law, delta=1.0), **given)
    assert constant.outcome == "violated"
    assert af.check("localmax/leaders-move", **{**given, "deltas": (1.0, 1.0)}).outcome == "hypotheses not met"
    short = af.check("localmax/leaders-move", **{**given, "steps": 1})
    assert short.outcome == "undecided"
    assert "no periodic orbit is found from 1 steps; to decide it, give more steps" in short.because


def test_an_orbit_that_the_law_does_not_follow_is_none() -> None:
    # Near 0 the token hears p and q; at their mean, the fixed point of that, it would hear p alone.
    tokens, law = [[1.0, 1.0], [1.0, -0.5], [0.0625, 0.0]], af.Localmax(delta=Periodic((0.125, 0.125)))
    assert orbit(exactly(tokens, law, gamma=0.125, steps=2), period=2) is None
    assert orbit(exactly(TURNS, af.Localmax(delta=Periodic((1.0, 50.0))), gamma=0.125, steps=1), period=2) is None


def test_no_witness_refutes_nothing() -> None:
    still = af.check("localmax/leaders-move", tokens=[[1.0], [-1.0]], shows=LEADER)
    assert still.outcome == "hypotheses not met"
    assert "the instance is a witness" in still.because


def test_a_state_that_comes_back_never_converges() -> None:
    law = af.Localmax(delta=Periodic((1.0, 50.0)))
    given: dict[str, Any] = {"tokens": TURNS, "gamma": 0.125, "delta": 1.0}
    refuted = af.check("localmax/constant-converges", law=law, **given, steps=40)
    assert (refuted.outcome, refuted.certified) == ("violated", "exact")
    assert af.check("localmax/constant-converges", **given, steps=100).outcome == "holds"
    resting = af.check("localmax/constant-converges", tokens=[[1.0], [-1.0]], delta=0.5)
    assert resting.outcome == "holds"


def test_vanishing_is_hardmax_in_the_end() -> None:
    square = [[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.5, 0.0]]
    # A delta that is 0 for ever is hardmax, whatever the ratio of its formula.
    for delta in (0.0, "0.25 * 0.25 ** t", "1 / 4 ** (t + 1)", "0 * 2 ** t", "0 * 0.9 ** t", "0"):
        verdict = af.check("localmax/vanishing", tokens=square, delta=delta)
        assert (verdict.outcome, verdict.certified) == ("holds", "exact")
    assert af.check("localmax/vanishing", tokens=TRIANGLE, delta="0.5 ** t").outcome == "holds"
    assert af.check("localmax/vanishing", tokens=TRIANGLE, delta="0.875 ** t").outcome == "undecided"
    assert af.check("localmax/vanishing", tokens=TRIANGLE, delta="1.0 ** t").outcome == "hypotheses not met"
    assert af.check("localmax/vanishing", tokens=TRIANGLE, delta="1 / (t + 1) ** 2").outcome == "undecided"
    assert af.check("localmax/vanishing", tokens=TRIANGLE, delta=lambda t: 0.25**t).outcome == "undecided"
    assert af.check("localmax/vanishing", tokens=TRIANGLE, gamma="1 / (t + 2)").outcome == "hypotheses not met"


LISTED = [0.5, 0.3, 0.2, 0.1, 0.0, 0.0]


@pytest.mark.parametrize("delta", [0.25, "0.25 * 0.5 ** t", lambda t: 0.25 / (1 + t) ** 2, LISTED])
def test_delta_of_a_claim_is_that_of_localmax(delta: Any) -> None:
    """Whatever the claim, its run is that of Localmax with this delta: a number is a constant."""
    x = np.array([[1.0, 1.0], [1.0, -0.875], [0.5, 0.0], [-0.3, 0.4]])
    for id in ("localmax/vanishing", "localmax/hull", "localmax/norms"):
        claim = af.claims.get(id)
        given = read(claim, {"tokens": x, "delta": delta, "steps": 6})
        wanted = Schedule(delta) if isinstance(delta, str) else delta
        plain = af.simulate(x, af.Localmax(delta=wanted), af.Layers(gamma=0.5), until=6)
        np.testing.assert_array_equal(Experiment(given, *claim.setting.model(given)).states, plain.tokens)
    with pytest.raises(
        af.InputError,
        match=r"delta has 6 entries, .* the run has 7 layers: .* or steps=6 at most",
    ):
        af.check("localmax/hull", tokens=x, delta=LISTED, steps=7)
    with refused("B is given layer by layer, but localmax/hull is about a constant B"):
        af.check("localmax/hull", tokens=x, B=[np.eye(2), 2 * np.eye(2)], steps=2)
    constant = af.check("localmax/vanishing", tokens=x, delta=0.25)
    assert constant.outcome == "hypotheses not met"
    assert "give a formula such as '0.1 * 0.25 ** t'" in constant.because


def test_norms_are_sharp() -> None:
    # Token 0 hears (0, 1) too, exactly delta below the top: <z_0, Delta> = -gamma delta / 2, and |Delta|^2 is counted.
    verdict = af.check("localmax/norms", tokens=[[1.0, 0.0], [0.5, 1.0]], delta=0.5, gamma=0.5, steps=1)
    assert (verdict.outcome, verdict.certified) == ("holds", "exact")
    # 2 gamma delta (1 - 1/|N|) is lost at token 0: the slack is 2 (1/2)(1/2)/2 over the largest norm 5/4.
    assert verdict.margin == 0.2


@pytest.mark.parametrize("threshold", DELTAS)
@pytest.mark.parametrize("id", ["norms", "cluster-gap", "no-finite-time", "neighbours-converge"])
def test_thresholds_and_how_they_scale(threshold: str, id: str) -> None:
    c, power = 8.0, {"additive": 2, "relative": 0, "normalized": 1}[threshold]
    given: dict[str, Any] = {"threshold": threshold, "steps": 6}
    one = af.check(f"localmax/{id}", tokens=TRIANGLE, delta=DELTAS[threshold], **given)
    scaled = af.check(f"localmax/{id}", tokens=c * TRIANGLE, delta=DELTAS[threshold] * c**power, **given)
    assert one.outcome == scaled.outcome == "holds"
    assert one.certified == ("float" if threshold == "normalized" else "exact")
    assert one.margin == pytest.approx(scaled.margin, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("threshold", "delta", "gap"),
    # p = (1, 0), q = (-1/2, 1/2): |p - q|^2 = 5/2, |p|^2 + |q|^2 = 3/2, |p| + |q| = 1 + sqrt(1/2)
    [("additive", 0.25, 2.5 - 0.5), ("relative", 0.25, 2.5 - 0.375), ("normalized", 0.25, 2.5 - 0.25 * (1 + 0.5**0.5))],
)
def test_cluster_gap_by_hand(threshold: str, delta: float, gap: float) -> None:
    given: dict[str, Any] = {"tokens": [[1.0, 0.0], [-0.5, 0.5]], "delta": delta, "threshold": threshold}
    verdict = af.check("localmax/cluster-gap", **given)
    assert verdict.outcome == "holds"
    assert verdict.margin == pytest.approx(gap, rel=1e-12)


def test_members_of_largest_norm_decide_the_gap() -> None:
    one_group = af.check("localmax/cluster-gap", tokens=[[1.0], [0.5]], delta=4.0)
    assert one_group.outcome == "undecided"
    # Two deaf groups: (1, 0) with (15/16, 0), and (-1, 0) with (-7/8, 0).
    groups = af.check("localmax/cluster-gap", tokens=[[1.0], [0.9375], [-1.0], [-0.875]], delta=0.125, steps=1)
    assert groups.margin == 4 - 0.25


def test_tokens_with_other_neighbours_may_meet() -> None:
    x = [[61.0, -4.0], [59.0, -8.0], [600.0, 0.0], [600.0, 48.0], [594.0, 12.0]]
    run = af.simulate(x, af.Localmax(delta=432.0), af.Layers(gamma=0.5), until=1)
    assert run.final[0].tolist() == run.final[1].tolist() == [329.5, 8.0]
    assert af.check("localmax/no-finite-time", tokens=x, delta=432.0, steps=20).outcome == "holds"


def test_no_finite_time_needs_steps_below_one() -> None:
    verdict = af.check("localmax/no-finite-time", tokens=TRIANGLE, gamma=1.0)
    assert (verdict.outcome, verdict.where) == ("hypotheses not met", (0, None))
    assert af.check("localmax/no-finite-time", tokens=[[1.0], [-1.0]], delta=0.5).outcome == "undecided"
    meeting = af.check("localmax/no-finite-time", tokens=TRIANGLE, motion=af.Layers(gamma=1.0))
    assert meeting.outcome == "violated"


def test_neighbours_converge_is_sharp_and_takes_full_steps() -> None:
    for gamma in (0.5, 1.0):
        verdict = af.check("localmax/neighbours-converge", tokens=TRIANGLE, gamma=gamma, delta=0.5)
        assert (verdict.outcome, verdict.margin) == ("holds", 0)
    # Smaller steps than the rule's leave less of the neighbours in z_i^+ than the inequality says.
    short = af.check("localmax/neighbours-converge", tokens=TRIANGLE, motion=af.Layers(gamma=0.25))
    assert short.outcome == "violated"


@pytest.mark.parametrize("gamma", [1.0, 0.5, 0.25])
def test_energy_of_a_pair_drops_by_exactly_the_bound(gamma: float) -> None:
    verdict = af.check("localmax/lyapunov", tokens=[[0.0], [1.0]], eps=1.0, gamma=gamma, steps=1)
    assert (verdict.outcome, verdict.margin, verdict.certified) == ("holds", 0, "exact")


def test_energy_is_that_of_measure() -> None:
    x = [[0.0], [0.75], [1.5], [2.75]]
    run = af.simulate(x, af.HegselmannKrause(eps=1.0), af.Layers(gamma=1.0), until=1)
    drop = -np.diff(af.measure.pair_energy(run, eps=1.0))[0]
    steps = 4 * ((run.tokens[1] - run.tokens[0]) ** 2).sum()
    verdict = af.check("localmax/lyapunov", tokens=x, eps=1.0, steps=1)
    assert verdict.margin == pytest.approx((drop - steps) / (16 * 2.75**2), rel=1e-12)


def test_energy_rises_on_a_directed_graph() -> None:
    witness = af.search("localmax/lyapunov/directed", evaluations=300, seed=0)
    assert witness is not None
    assert witness.exact
    verdict = af.check("localmax/lyapunov/directed", tokens=[[1.0], [-1.0], [0.125], [-0.125]], delta=0.0625, gamma=0.5)
    assert (verdict.outcome, verdict.certified, verdict.where) == ("violated", "exact", (0, None))
    # Only the pair (1/8, -1/8) is closer than sqrt(1/8), by 1/16: its two terms rise to 1/8, over 16 pairs.
    assert verdict.margin <= -2 * (1 / 8 - 1 / 16) / 16
    assert af.check("localmax/lyapunov/directed", tokens=TRIANGLE, delta=0.5).outcome == "holds"


@pytest.mark.parametrize("id", ["norms", "vanishing", "cluster-gap", "constant-converges", "lyapunov/directed"])
def test_forms_must_be_positive_definite(id: str) -> None:
    verdict = af.check(f"localmax/{id}", tokens=TRIANGLE, B=[[1.0, 2.0], [2.0, 1.0]])
    assert verdict.outcome == "hypotheses not met"
    assert "A > 0" in verdict.because


def test_constant_converges_is_about_constants() -> None:
    varying: list[dict[str, Any]] = [{"delta": "1 / (t + 1)"}, {"gamma": "1 / (t + 2)"}, {"gamma": 1.0}]
    for given in varying:
        verdict = af.check("localmax/constant-converges", tokens=TRIANGLE, **given)
        assert verdict.outcome == "hypotheses not met"


def test_bad_input() -> None:
    with refused("threshold is 'top', expected one of additive, relative, normalized"):
        af.check("localmax/hull", tokens=LINE, threshold="top")
    with refused("shows is 'all', expected one of"):
        af.check("localmax/leaders-move", tokens=LINE, shows="all")
    with refused("deltas is -1, expected a finite number at least 0"):
        af.check("localmax/leaders-move", tokens=LINE, deltas=[0.5, -1.0])
    with pytest.raises(
        af.InputError, match=r"has no parameter 'ratio' any more: .* give a formula such as '0.1 \* 0.25 \*\* t'"
    ):
        af.check("localmax/vanishing", tokens=LINE, ratio=0.5)
    with refused(r"delta is an array, .* but a claim is about one"):
        af.check("localmax/hull", tokens=LINE, delta=np.array([0.1, 0.05]))
    with refused("delta is -1, expected a finite number at least 0"):
        af.check("localmax/norms", tokens=LINE, delta=-1.0)
