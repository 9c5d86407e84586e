"""The hardmax flow against closed forms, matrix exponentials, its discrete scheme and the laws it obeys."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from refusals import refused
from scipy.linalg import expm
from scipy.optimize import brentq
from scipy.special import lambertw

import attnflow as af
from attnflow.laws import Hearing
from attnflow.laws.top_scores import TieError
from attnflow.motions import hardmax_flow
from attnflow.motions.solvers import crossings
from attnflow.runs.watch import Watcher

Array = NDArray[np.float64]
FLOW = af.HardmaxFlow()
EMERGING = np.array(
    [[1, 1 / 3], [-1 / 12, 1 / 12], [-1, -1], [0, 1 / 4], [-0.3, -0.7], [-0.6, -0.9], [0.8, 0.1], [0.6, 0.15]]
)
SQUARE = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0], [0.5, 0.0], [-0.5, 0.0]])
# Each token follows the next one out; the last one rests.
SPIRAL = np.array([[1.5**k * np.cos(0.6 * k), 1.5**k * np.sin(0.6 * k)] for k in range(5)])
TWISTED = np.array([[1.0, 0.8], [-0.8, 0.5]])


def flow(x: Any, until: float, law: af.Law | None = None, **options: Any) -> af.Trajectory:
    return af.simulate(x, law or af.Hardmax(), FLOW, until, **options)


def layers(x: Any, until: float, h: float, law: af.Law | None = None) -> Array:
    """The discrete scheme with gamma = h / (1 + h), after a time `until`."""
    steps = round(until / h)
    return af.simulate(x, law or af.Hardmax(), af.Layers(gamma=h / (1 + h)), steps, record=[steps]).final


def generic_polytope(d: int) -> tuple[Array, NDArray[np.int64]]:
    """Vertices on the unit sphere own their cells; the others are drawn inside, away from the boundaries of cells."""
    rng = np.random.default_rng(d)
    vertices = np.array([[1.0], [-1.0]]) if d == 1 else af.tokens.sphere(n=d + 4, d=d, seed=d)
    inside = rng.dirichlet(np.ones(len(vertices)), size=40) @ vertices
    gaps = np.sort(inside @ vertices.T, axis=1)
    x = np.concatenate([vertices, inside[gaps[:, -1] - gaps[:, -2] > 1e-3]])
    return x, (x @ vertices.T).argmax(axis=1)


# Closed forms


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_straight_lines_in_a_generic_polytope(d: int) -> None:
    """fw/ode: x_i(t) = e^{-t} x_i + (1 - e^{-t}) v_sigma(i), without any change of leader."""
    x, sigma = generic_polytope(d)
    times = [0.1, 1.0, 5.0, 40.0]
    run = flow(x, 40.0, record=times)
    assert run.report["events"] == 0
    assert run.stopped == "reached t = 40, as asked"
    for t, state in zip(run.times[1:], run.tokens[1:], strict=True):
        np.testing.assert_allclose(state, np.exp(-t) * x - np.expm1(-t) * x[sigma], rtol=0, atol=1e-15)
    np.testing.assert_array_equal(run.final[: sigma.max() + 1], x[: sigma.max() + 1])


def test_two_tokens_that_flee_each_other_until_one_crosses_the_origin() -> None:
    """B = -1, tokens 3 and -1: 1 +- 2 e^{-2t}. The second reaches 0 at log(2)/2 and rests; the first follows it."""
    run = flow([[3.0], [-1.0]], 5.0, af.Hardmax(B=[[-1.0]]), record=[0.2, 0.3, 2.0])
    event = np.log(2) / 2
    for t, state in zip(run.times[1:], run.tokens[1:], strict=True):
        r = 2 * np.exp(-2 * t)
        exact = [1 + r, 1 - r] if t < event else [2 * np.exp(event - t), 0.0]
        np.testing.assert_allclose(state.ravel(), exact, rtol=0, atol=1e-15)


def follower_of_a_moving_leader() -> tuple[Array, float]:
    """Token 2 follows 1, which moves towards 0; it changes to 0 when e^{-t} (2.35 + 1.81 t) = 2."""
    c, q = 2.35 / 1.81, 2 / 1.81
    return np.array([[2.0, 0.0], [1.0, 0.9], [0.1, 0.5]]), float(-c - lambertw(-q * np.exp(-c), -1).real)


def test_the_time_of_a_change_of_leader() -> None:
    x, event = follower_of_a_moving_leader()
    run = flow(x, 2.0)
    assert run.report["events"] == 1
    near = run.times[np.abs(run.times - event).argmin()]
    assert abs(near - event) <= 1e-14
    before, after = 0.5 * event, event + 0.3
    p, q, r = x[0], x[1] - x[0], x[2] - x[0]
    np.testing.assert_allclose(run.at(before)[2], p + np.exp(-before) * (r + before * q), rtol=0, atol=1e-14)
    there = p + np.exp(-event) * (r + event * q)
    np.testing.assert_allclose(run.at(after)[2], p + np.exp(event - after) * (there - p), rtol=0, atol=1e-14)
    np.testing.assert_allclose(run.at(1.0)[1], p + np.exp(-1) * q, rtol=0, atol=1e-15)


def test_the_cloud_of_the_emerging_leader() -> None:
    """Token 1 follows token 3, which follows token 0, until <x_1, x_3 - x_0> = 0; from then on it follows token 0."""
    p, q, r = EMERGING[0], EMERGING[3] - EMERGING[0], EMERGING[1] - EMERGING[0]

    def place(t: float) -> Array:
        return np.asarray(p + np.exp(-t) * (r + t * q))

    event = brentq(lambda t: place(t) @ q, 0, 1, xtol=1e-16)
    run = flow(EMERGING, 6.0)
    assert run.report["events"] == 1
    assert np.abs(run.times - event).min() <= 1e-14
    np.testing.assert_allclose(run.at(event / 2)[1], place(event / 2), rtol=0, atol=1e-15)
    np.testing.assert_allclose(run.final[1], p + np.exp(event - 6) * (place(event) - p), rtol=0, atol=1e-15)


@pytest.mark.parametrize(("x", "B", "until"), [(SPIRAL, None, 0.15), ([[2.0], [-2.1]], [[-1.0]], 1.2)])
def test_matrix_exponential(x: Any, B: Any, until: float) -> None:
    """Chains and cycles of followers: X(t) = e^{t (P - I)} X_0 while nothing changes."""
    law = af.Hardmax(B=B)
    P = law.weights(x)
    run = flow(x, until, law)
    assert run.report["events"] == 0
    assert np.abs(P @ P - P).max() > 0.5
    for t in np.linspace(0.05, until, 9):
        np.testing.assert_allclose(run.at(t), expm(t * (P - np.eye(len(P)))) @ np.asarray(x), rtol=0, atol=2e-14)


# The discrete scheme

CASES = {
    "emerging leader": (EMERGING, None),
    "leader that moves": (follower_of_a_moving_leader()[0], None),
    "spiral": (SPIRAL, None),
    "not symmetric": (af.tokens.gaussian(n=12, d=2, seed=10), TWISTED),
    "three dimensions": (af.tokens.gaussian(n=15, d=3, seed=1), np.eye(3) + np.triu(np.ones((3, 3)), 1)),
    "gaussian": (af.tokens.gaussian(n=40, d=2, seed=5), None),
}


@pytest.mark.parametrize("name", CASES)
def test_layers_converge_to_the_flow_with_order_one(name: str) -> None:
    x, B = CASES[name]
    law = af.Hardmax(B=B)
    run = flow(x, 2.0, law)
    assert run.report["events"] >= 1
    steps = 2.0 ** -np.arange(4, 12)
    errors = [np.abs(layers(x, 2.0, h, law) - run.final).max() for h in steps]
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert 0.85 < slope < 1.15


# Ties


@pytest.mark.parametrize("ties", ["tokens", "points"])
@pytest.mark.parametrize("angle", [0.0, 0.3])
def test_ties_of_a_symmetric_cloud_last(ties: str, angle: float) -> None:
    """The extra tokens of the square tend to the middles of its sides, and do not move in the other direction."""
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    run = flow(SQUARE @ turn.T, 30.0, af.Hardmax(ties=ties))
    assert run.report["events"] == 0
    back = run.final @ turn
    np.testing.assert_allclose(back[4:], [[1.0, 0.0], [-1.0, 0.0]], rtol=0, atol=1e-12)
    np.testing.assert_allclose(back[:4], SQUARE[:4], rtol=0, atol=1e-15)
    np.testing.assert_allclose((run.at(1.7) @ turn)[4], [1 - 0.5 * np.exp(-1.7), 0.0], rtol=0, atol=1e-14)


def test_the_first_of_tied_sources() -> None:
    for order in ([0, 1, 2, 3, 4, 5], [1, 0, 3, 2, 4, 5]):
        run = flow(SQUARE[order], 30.0, af.Hardmax(ties="first"))
        np.testing.assert_allclose(run.final[4:], SQUARE[[order[0], order[2]]], rtol=0, atol=1e-12)


def test_a_heavier_source_wins_a_tie() -> None:
    """The average is nearer to the heavy corner, whose score then grows faster; points do not have masses."""
    masses = [1.0, 3.0, 1.0, 1.0, 1.0, 1.0]
    run = flow(SQUARE, 30.0, masses=masses)
    np.testing.assert_allclose(run.final[4:], [[1.0, -1.0], [-1.0, 0.0]], rtol=0, atol=1e-12)
    run = flow(SQUARE, 30.0, af.Hardmax(ties="points"), masses=masses)
    np.testing.assert_allclose(run.final[4:], [[1.0, 0.0], [-1.0, 0.0]], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("ties", "height"), [("tokens", 0.5), ("points", 0.0), ("first", 1.0)])
def test_averages_over_tied_tokens_and_points(ties: str, height: float) -> None:
    """Scores that see one coordinate only: the two ends of a side tie for ever, three tokens at one of them."""
    ends = [[1.0, 1.0], [1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]
    x = np.array([*ends, [0.3, 0.2]])
    law = af.Hardmax(B=[[1.0, 0.0], [0.0, 0.0]], ties=ties)
    run = flow(x, 3.0, law)
    exact = [1.0, height] + np.exp(-3) * (x - [1.0, height])
    np.testing.assert_allclose(run.final, exact, rtol=0, atol=1e-14)
    heavy = flow(x[[0, 2, 4]], 3.0, law, masses=[3.0, 1.0, 1.0])
    np.testing.assert_allclose(heavy.final, exact[[0, 2, 4]], rtol=0, atol=1e-14)


def test_ties_as_errors() -> None:
    """A tie at the start is refused; one that is passed at once is not, one that would last ends the run."""
    law = af.Hardmax(ties="error")
    with pytest.raises(TieError, match=r"token 4 ties between tokens 0 and 1 at t = 0: choose ties="):
        flow(SQUARE, 1.0, law)
    x, _ = follower_of_a_moving_leader()
    run, other = flow(x, 2.0, law), flow(x, 2.0)
    assert run.report["events"] == 1
    np.testing.assert_array_equal(run.final, other.final)
    np.testing.assert_allclose(run.at(run.times[2] + 1e-3), other.at(run.times[2] + 1e-3), rtol=0, atol=1e-14)
    # Copies are not a tie.
    np.testing.assert_array_equal(flow(np.concatenate([x, x]), 2.0, law).final[:3], run.final)


def test_copies_and_masses() -> None:
    x, copies = af.tokens.gaussian(n=9, d=2, seed=5), np.array([1, 3, 2, 1, 4, 1, 1, 2, 1])
    law = af.Hardmax(B=TWISTED)
    by_mass = flow(x, 3.0, law, masses=copies)
    repeated = flow(np.repeat(x, copies, axis=0), 3.0, law)
    np.testing.assert_allclose(np.repeat(by_mass.final, copies, axis=0), repeated.final, rtol=0, atol=1e-13)
    assert by_mass.report["events"] >= 1


# Sliding

CHASED = np.array([[1.0, 1.0], [1.0, -0.8], [0.5, 0.3]])
SADDLE = np.array([[1.0, 0.0], [0.0, -1.0]])
# The height of token 2 below, .1 - .7 e^{-t} + .9 e^{-2t}, vanishes here.
SLIDES = np.log((7 - np.sqrt(13)) / 2)


def test_a_token_that_slides_ends_the_run() -> None:
    """B = diag(1, -1): tokens 0 and 1 chase each other on x = 1, at heights a, b = .1 +- .9 e^{-2t}.

    Token 2 hears <B x_2, x_0 - x_1> = (b - a) y: above y = 0 it follows 1, downwards as b < 0; below it follows 0,
    upwards as a > 0. From the time it arrives at y = 0 both push it back.
    """
    law = af.Hardmax(B=SADDLE)
    run = flow(CHASED, 2.0, law)
    assert run.times[-1] == pytest.approx(SLIDES, abs=1e-14)
    assert run.stopped.startswith("token 2 begins to slide along the boundary between tokens 0 and 1 at t = 0.528994:")
    np.testing.assert_allclose(run.final[2], [1 - 0.5 * np.exp(-SLIDES), 0.0], rtol=0, atol=1e-15)
    # The field on either side points to the other one.
    for height in (1e-6, -1e-6):
        x = run.final.copy()
        x[2, 1] = height
        assert (law.attend(x)[2, 1] - height) * height < 0
    # The discrete scheme chatters: its height changes sign again and again, and stays of the order of h.
    for h in (1e-2, 1e-3):
        heights = af.simulate(CHASED, law, af.Layers(gamma=h / (1 + h)), until=round(0.8 / h)).tokens[:, 2, 1]
        heights = heights[round(0.55 / h) :]
        assert np.abs(heights).max() < h
        assert np.count_nonzero(np.diff(np.sign(heights))) > 0.5 * len(heights)


@pytest.mark.parametrize("ties", ["tokens", "points", "first", "error"])
def test_sliding_does_not_depend_on_the_rule_for_ties(ties: str) -> None:
    run = flow(CHASED, 2.0, af.Hardmax(B=SADDLE, ties=ties))
    assert "begins to slide" in run.stopped
    assert run.times[-1] == pytest.approx(SLIDES, abs=1e-14)


def test_a_token_slides_where_it_arrives_but_may_start_on_the_boundary() -> None:
    """Tokens 0 and 1 are at heights +-e^{-2t}. Who arrives in between is pushed back by both; who starts there ties."""
    law = af.Hardmax(B=SADDLE)
    arrives = flow([[1.0, 1.0], [1.0, -1.0], [0.5, 0.3]], 3.0, law)
    assert "token 2 begins to slide along the boundary between tokens 0 and 1" in arrives.stopped
    assert arrives.times[-1] == pytest.approx(-np.log(0.7), abs=1e-14)
    x = [[1.0, 1.0], [1.0, -1.0], [0.5, 0.0]]
    starts = flow(x, 3.0, law)
    np.testing.assert_allclose(starts.final[2], [1 - 0.5 * np.exp(-3), 0.0], rtol=0, atol=1e-15)
    np.testing.assert_allclose(layers(x, 3.0, 1e-3, law)[2], starts.final[2], rtol=0, atol=2e-3)


def test_a_gap_that_touches_zero_and_opens_again_changes_no_leader() -> None:
    """Four tokens turn around the origin; the gap of each is 2 |x|^2 sin^2 of its angle, which vanishes on the way."""
    x = np.array([[-1.0, 3.0], [3.0, 1.0], [0.0, -1.0], [1.0, -3.0], [-3.0, -1.0], [0.0, 1.0]])
    law = af.Hardmax(B=[[1.0, 2.0], [-1.0, 0.0]], ties="points")
    run = flow(x, 0.75, law)
    turned = np.exp(-0.75) * np.array([3 * np.cos(0.75) + np.sin(0.75), np.cos(0.75) - 3 * np.sin(0.75)])
    np.testing.assert_allclose(run.final[1], turned, atol=1e-13)
    np.testing.assert_allclose(layers(x, 0.75, 2.0**-10, law), run.final, atol=5e-3)


def test_a_form_that_is_blind_to_a_line_of_tokens() -> None:
    """From t = .29 on tokens have B x = 0 and hear everybody; the average would be one solution, not that of layers."""
    x = [[-1.0, 2.0], [1.0, 0.0], [0.0, -1.0], [-2.0, -3.0], [1.0, -2.0], [-1.0, 0.0], [0.0, 1.0], [2.0, 3.0]]
    run = flow(x, 1.0, af.Hardmax(B=[[0.0, 0.0], [-2.0, -2.0]], ties="points"))
    assert "begins to slide" in run.stopped
    assert 0.2 < run.times[-1] < 0.3


def test_a_token_drawn_to_the_origin_from_both_sides_slides_there() -> None:
    """B = -1: token 2 follows -2.1 until it is at 0, where either side pushes it back; the discrete scheme chatters."""
    x, law = np.array([[2.0], [-2.1], [1.0]]), af.Hardmax(B=[[-1.0]])
    run = flow(x, 1.0, law)
    assert "token 2 begins to slide" in run.stopped
    assert run.final[2, 0] == pytest.approx(0.0, abs=1e-15)
    assert np.abs(layers(x, 1.0, 1e-4, law)[2]) <= 3e-4


@pytest.mark.parametrize("k", [2, 3, 5, 7, 12])
def test_a_token_at_the_centre_of_a_regular_polygon_stays(k: int) -> None:
    """The average of the corners is 0 up to rounding, which must not send the token anywhere."""
    x = np.concatenate([af.tokens.polygon(k), [[0.0, 0.0]]])
    assert np.abs(flow(x, 5.0).final[-1]).max() < 1e-14


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [0, 3, 2, 1, 4], [0, 2, 3, 1, 4]])
def test_a_token_at_the_origin_of_a_symmetric_cloud_stays_in_any_order(order: list[int]) -> None:
    x = np.array([[3.0, 0.0], [-2.0, -3.0], [-3.0, 0.0], [2.0, 3.0], [0.0, 0.0]])[order]
    assert np.abs(flow(x, 5.0).final[-1]).max() < 1e-14


def test_first_of_tied_sources_gives_way_to_the_one_it_leads_to() -> None:
    """Setting out towards 1, the lowest index, the token at 0 scores 2 highest, and follows it; so do layers."""
    x, law = np.array([[1.0], [-1.0], [2.0], [0.0]]), af.Hardmax(ties="first")
    end = flow(x, 2.0, law).final
    assert end[3, 0] == pytest.approx(2 * (1 - np.exp(-2.0)), abs=1e-14)
    np.testing.assert_allclose(layers(x, 2.0, 2.0**-12, law), end, atol=2e-3)


def test_a_token_that_has_chosen_itself_stays_although_others_tie() -> None:
    x = np.array([[1, 3], [-1, 3], [1, 0], [1, -3], [-2, 2], [3, 2], [0, 3], [-1, -3], [-2, 2]], dtype=float)
    law = af.Hardmax(B=np.diag([2.0, 1.0]), ties="first")
    np.testing.assert_allclose(flow(x, 1.5, law).final, layers(x, 1.5, 2.0**-12, law), atol=2e-3)


def test_a_token_that_hears_everybody_alike_slides_where_b_sends_it_back() -> None:
    """B (1, 0) = 0: all sources tie, and whichever is followed, another takes over."""
    x = np.array([[1, 2], [-2, 2], [0, -1], [1, 0], [-1, -1], [1, 0], [0, -1], [1, -1]], dtype=float)
    run = flow(x, 2.0, af.Hardmax(B=[[0.0, 2.0], [0.0, -1.0]]))
    assert "token 3 begins to slide" in run.stopped
    assert run.times.tolist() == [0.0]


def test_a_token_that_starts_on_a_sliding_boundary() -> None:
    x = np.array([[1.0, 1.0], [1.0, -1.0], [0.5, 0.0]])
    run = flow(x, 1.0, af.Hardmax(B=SADDLE, ties="first"))
    assert "token 2 begins to slide" in run.stopped
    np.testing.assert_array_equal(run.times, [0.0])


def test_events_that_accumulate_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of almost a right angle: a token near the origin spirals into it in finite time, leader after leader."""
    monkeypatch.setattr(hardmax_flow, "EVENTS", 4)
    B = np.array([[0.0, -1.0], [1.0, 0.0]]) - 0.1 * np.eye(2)
    x = np.concatenate([af.tokens.polygon(7), [[0.003, 0.001]]])
    run = flow(x, 3.0, af.Hardmax(B=B))
    assert "changes of leader happened between" in run.stopped
    assert np.isfinite(run.tokens).all()


# Laws of nature

seeds = st.integers(0, 10**6)


def instance(seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 4))
    A = rng.standard_normal((d, d))
    return rng.standard_normal((int(rng.integers(2, 14)), d)), A @ A.T + rng.choice([0.0, 1.0]) * (A - A.T)


@given(seeds)
def test_order_and_rotations_do_not_matter(seed: int) -> None:
    x, B = instance(seed)
    rng = np.random.default_rng(seed)
    run = flow(x, 3.0, af.Hardmax(B=B))
    assert run.stopped == "reached t = 3, as asked"
    order = rng.permutation(len(x))
    np.testing.assert_allclose(flow(x[order], 3.0, af.Hardmax(B=B)).final, run.final[order], rtol=0, atol=1e-11)
    R = np.linalg.qr(rng.standard_normal(B.shape))[0]
    turned = flow(x @ R.T, 3.0, af.Hardmax(B=R @ B @ R.T)).final
    np.testing.assert_allclose(turned, run.final @ R.T, rtol=0, atol=1e-11)
    scaled = flow(1e3 * x, 3.0, af.Hardmax(B=7 * B)).final
    np.testing.assert_allclose(scaled, 1e3 * run.final, rtol=0, atol=1e-8)


@given(seeds)
def test_hulls_shrink_and_norms_grow(seed: int) -> None:
    """Support functions never grow, for any B; |x_i|_B never decreases when B is positive definite."""
    x, B = instance(seed)
    run = flow(x, 4.0, af.Hardmax(B=B))
    directions = np.random.default_rng(0).standard_normal((x.shape[1], 64))
    support = (run.tokens @ directions).max(axis=1)
    assert (np.diff(support, axis=0) <= 1e-13 * np.abs(support).max()).all()
    B = (B + B.T) / 2
    tokens = flow(x, 4.0, af.Hardmax(B=B)).tokens
    norms = np.einsum("tia,ab,tib->ti", tokens, B, tokens)
    assert (np.diff(norms, axis=0) >= -1e-13 * norms.max()).all()


@given(seeds)
def test_nothing_is_missed_between_events(seed: int) -> None:
    """Forward differences of the states inside stretches agree with the law's own averages, for every kind of B."""
    rng = np.random.default_rng(seed)
    x, B = instance(seed)
    law = af.Hardmax(B=B if seed % 2 else rng.standard_normal(B.shape))
    stepper = FLOW.start(Hearing(law), x, 0.0)
    t = 0.0
    while t < 3.0:
        stretch = stepper.advance(3.0)
        a, t = stretch.before[0], float(stretch.after[0])
        for middle in a + (t - a) * np.array([0.3, 0.8]):
            h = 1e-5 * (t - a)
            assert stretch.between is not None
            rate = (stretch.between(middle + h) - stretch.between(middle - h)) / (2 * h)
            y = stretch.between(middle)
            scores = law.queries(y, 0) @ y.T
            top = np.sort(scores, axis=1)[:, -2:]
            clear = top[:, 1] - top[:, 0] > 1e-9
            np.testing.assert_allclose(rate[clear], (law.attend(y) - y)[clear], rtol=0, atol=1e-10 / h + 1e-6)
        if stretch.ended:
            break


@pytest.mark.parametrize(
    ("n", "d", "B"), [(150, 2, None), (40, 2, TWISTED), (40, 3, np.eye(3) + np.triu(np.ones((3, 3)), 1))]
)
def test_a_large_cloud_against_restarts(n: int, d: int, B: Any) -> None:
    """What is remembered from one event to the next, against forgetting everything every .05 units of time."""
    law, x = af.Hardmax(B=B), af.tokens.gaussian(n=n, d=d, seed=5)
    run = flow(x, 2.0, law)
    assert run.report["events"] >= 5
    events = 0
    for _ in range(40):
        part = flow(x, 0.05, law)
        x, events = part.final, events + part.report["events"]
    assert events == run.report["events"]
    np.testing.assert_allclose(run.final, x, rtol=0, atol=1e-11)


def test_near_copies_are_copies() -> None:
    """Tokens a few 1e-14 from each other, whose order is noise, move together and make no events of their own."""
    x, law = af.tokens.gaussian(n=20, d=2, seed=10), af.Hardmax(B=TWISTED)
    noise = 2e-14 * np.random.default_rng(0).standard_normal((3, *x.shape))
    single, many = flow(x, 2.0, law), flow(np.concatenate([x, *(x + noise)]), 2.0, law)
    assert single.report["events"] >= 3
    assert many.report["events"] <= 4 * single.report["events"]
    np.testing.assert_allclose(many.final, np.tile(single.final, (4, 1)), rtol=0, atol=1e-11)


# Roots


@given(st.lists(st.integers(-40, 40), min_size=3, max_size=3))
def test_first_roots_of_quadratics(coefficients: list[int]) -> None:
    """Against a search in rational arithmetic on a grid fine enough to separate the roots."""
    c0, c1, c2 = coefficients
    g0, g1, g2 = c0 + c1 + c2, -c1 - 2 * c2, c2
    tau = crossings.quadratic_times(
        np.array([[g0], [g1], [g2]], float), np.array([[c0], [c1], [c2]], float), np.array([1e-15])
    )[0]
    lead = next((g for g in (g0, g1, g2) if g), 0)
    if lead <= 0:
        assert tau == (0.0 if lead < 0 else np.inf)
        return
    grid = [Fraction(k, 4000) for k in range(1, 4000)]
    negative = [u for u in grid if g0 + g1 * u + g2 * u * u < 0]
    if negative:
        u = -np.expm1(-tau)
        assert float(negative[0]) - 1 / 4000 - 1e-12 <= u <= float(negative[0])
        assert abs(g0 + g1 * u + g2 * u * u) <= 1e-13 * (abs(g0) + abs(g1) + abs(g2))
    elif tau < np.inf:  # between two points of the grid, or beyond its last one
        assert g1 * g1 >= 4 * g0 * g2


def quadratic_time(c0: float, c1: float, c2: float) -> float:
    """The first time the gap c0 + c1 s + c2 s^2, s = e^{-tau}, turns negative."""
    start, end = np.array([[c0 + c1 + c2], [-c1 - 2 * c2], [c2]]), np.array([[c0], [c1], [c2]])
    return float(crossings.quadratic_times(start, end, np.array([1e-15]))[0])


def test_late_roots_and_gaps_that_never_close() -> None:
    for s in (0.9, 0.4, 1e-3, 1e-9):
        assert quadratic_time(-s, 1.0, 0.0) == pytest.approx(-np.log(s), rel=1e-15)
        assert quadratic_time(-s * 0.7, 0.7 - s, 1.0) == pytest.approx(-np.log(s), rel=1e-14)
    # Gaps that vanish at infinity, up to rounding, do not close before; those without real roots never do.
    assert quadratic_time(-5e-16, 1.0, 0.0) == quadratic_time(-5e-16, 1.0, 0.3) == np.inf
    assert quadratic_time(-1e-17, -0.5, 1.0) == pytest.approx(np.log(2), rel=1e-14)
    assert quadratic_time(3.0, -8.0, 10.0) == np.inf


@pytest.mark.parametrize("roots", [(0.2, 0.5, 0.8), (0.1, 0.85, 0.9), (0.05, 0.1, 0.95), (0.6, 0.601, 0.99)])
def test_the_first_of_three_roots(roots: tuple[float, ...]) -> None:
    gaps = -np.pad(np.poly(roots)[::-1], (0, crossings.PRODUCT - 3))[None]
    gaps *= np.sign(gaps[0, 0])
    np.testing.assert_allclose(crossings.series_times(gaps, np.array([1e-16])), roots[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("apart", [1e-3, 1e-5, 1e-7])
def test_a_dip_between_two_close_roots_is_found(apart: float) -> None:
    roots = np.array([[0.37, 0.37 + apart, 1.4, -2.0], [0.9, 0.9 + apart, 3.0, -0.1]])
    gaps = np.zeros((2, crossings.PRODUCT + 1))
    for k, r in enumerate(roots):
        gaps[k, :5] = np.poly(r)[::-1] * np.sign(np.poly(r)[-1])
    found = crossings.series_times(gaps, np.full(2, 1e-16))
    np.testing.assert_allclose(found, [0.37, 0.9], rtol=0, atol=1e-14 / apart)
    lifted = gaps + 10 * apart**2 * np.eye(1, crossings.PRODUCT + 1)
    assert np.isinf(crossings.series_times(lifted, np.full(2, 1e-16))).all()


# Runs


def test_states_do_not_depend_on_where_stretches_end() -> None:
    x, B = af.tokens.gaussian(n=12, d=2, seed=10), TWISTED
    times = [0.05, 0.33, 0.77, 1.234, 2.5]
    run = flow(x, 3.0, af.Hardmax(B=B), record=times)
    whole = flow(x, 3.0, af.Hardmax(B=B))
    assert run.report["events"] >= 3
    for t, state in zip(run.times[1:-1], run.tokens[1:-1], strict=True):
        np.testing.assert_array_equal(flow(x, t, af.Hardmax(B=B)).final, state)
        np.testing.assert_allclose(whole.at(t), state, rtol=0, atol=1e-13)
        np.testing.assert_allclose(run.at(t + 0.1), whole.at(t + 0.1), rtol=0, atol=1e-13)


@pytest.mark.parametrize("after", [1, 4, 9, 17])
@pytest.mark.parametrize(
    ("x", "B"), [(af.tokens.gaussian(n=12, d=2, seed=10), TWISTED), (SPIRAL, None), (SQUARE, None)]
)
def test_an_interrupted_run_ends_bit_for_bit_the_same(
    tmp_path: Path, x: Array, B: Any, after: int, dies: Callable[[int], Watcher]
) -> None:
    pytest.importorskip("zarr")
    law, path = af.Hardmax(B=B), tmp_path / "run.zarr"
    whole = flow(x, 3.0, law)
    with pytest.raises(KeyboardInterrupt):
        flow(x, 3.0, law, store=path, watch=[af.watch.Checkpoint(seconds=0), dies(after)])
    resumed = flow(x, 3.0, law, store=path)
    assert whole.times.tobytes() == resumed.times.tobytes()
    assert whole.tokens.tobytes() == resumed.tokens.tobytes()
    assert (whole.stopped, whole.report) == (resumed.stopped, resumed.report)
    back = af.load(path)
    assert isinstance(back.motion, af.HardmaxFlow)
    np.testing.assert_array_equal(back.at(1.23), whole.at(1.23))


def test_followers_that_have_arrived() -> None:
    """Long after everyone has arrived nothing moves, nothing changes, and a replay from there agrees."""
    x = af.tokens.gaussian(n=60, d=2, seed=2)
    run = flow(x, 120.0, record=[60.0, 120.0])
    assert run.stopped == "reached t = 120, as asked"
    np.testing.assert_allclose(run.tokens[1], run.final, rtol=0, atol=1e-14)
    np.testing.assert_allclose(run.at(90.0), run.final, rtol=0, atol=1e-12)
    assert flow(run.final, 20.0).report["events"] <= 5
    np.testing.assert_allclose(flow(run.final, 20.0).final, run.final, rtol=0, atol=1e-12)


@pytest.mark.parametrize("law", [af.Softmax(), af.Localmax(), af.HegselmannKrause(), af.Heads([af.Hardmax()])])
def test_other_laws_are_refused(law: af.Law) -> None:
    with refused(f"under Hardmax, not {type(law).__name__}: use"):
        flow([[1.0], [2.0]], 1.0, law)


def test_bad_input_is_refused() -> None:
    with refused("constant B, but B is a function of time: use Layers"):
        flow([[1.0], [2.0]], 1.0, af.Hardmax(B=lambda t: [[1.0]]))
    with refused("give a 1 by 1 matrix"):
        flow([[1.0], [2.0]], 1.0, af.Hardmax(B=np.eye(2)))
    with refused("use HardmaxFlow, Layers"):
        af.simulate([[1.0], [2.0]], af.Hardmax(), af.Flow(), until=1.0)


def test_one_token_and_tokens_at_one_place() -> None:
    for x in ([[2.0, 1.0]], [[0.0, 0.0]], [[2.0, 1.0]] * 3, [[0.0, 0.0]] * 3):
        run = flow(x, 1.0)
        np.testing.assert_array_equal(run.final, x)
        assert run.report["events"] == 0
