"""Steps that few tokens repeat alone, against SciPy, brute force, and the same flow with common steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from larger import larger
from numpy.typing import NDArray
from scipy.integrate import DOP853

import attnflow as af
from attnflow.laws import Hearing
from attnflow.motions.solvers import heard_sources, integrate, local_steps
from attnflow.motions.solvers.heard_sources import LEFT_OUT, Around, covectors, groups, heard
from attnflow.motions.solvers.local_steps import Company, Part
from attnflow.motions.solvers.order8_step import E3, E5, STAGES, Step

Array = NDArray[np.float64]

TURNED = np.array([[1.0, 0.4], [-0.3, 0.7]])


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let small clouds take local steps, and count the tokens of each part."""
    monkeypatch.setattr(integrate, "MANY", 0)
    monkeypatch.setattr(local_steps, "FEW", 0.2)
    monkeypatch.setattr(local_steps, "PAIRS", 64)
    monkeypatch.setattr(local_steps, "NARROW", 64)
    sizes: list[int] = []
    through = Part.through

    def counted(self: Part, *journey: Any) -> bool:
        sizes.append(len(self.rows))
        return through(self, *journey)

    monkeypatch.setattr(Part, "through", counted)
    return sizes


def swing(t: float, x: Array) -> Array:
    return np.column_stack([x[:, 1], -np.sin(x[:, 0]) * (1 + t)])


def test_a_step_is_that_of_scipy() -> None:
    x, h = np.random.default_rng(0).standard_normal((5, 2)), 0.4
    solver: Any = DOP853(lambda t, y: swing(t, y.reshape(5, 2)).ravel(), 0.0, x.ravel(), 9.0, rtol=1, first_step=h)
    solver.step()
    step = Step(swing, 0.0, x, swing(0.0, x), h)
    np.testing.assert_allclose(step.y.ravel(), solver.y, rtol=1e-14)
    path, dense = step.path(), solver.dense_output()
    for t in (0.0, 0.1, 0.3, h):
        np.testing.assert_allclose(path.at(t).ravel(), dense(t), rtol=1e-13)
    np.testing.assert_array_equal(path.of(np.array([3, 1])).at(0.3), path.at(0.3)[[3, 1]])
    # With one tolerance for all coordinates the errors of tokens add up to no less than SciPy's.
    scipys = solver._estimate_error_norm(solver.K, h, np.full(10, 1e-9))
    assert scipys <= np.sqrt(np.mean(step.errors(0.0, 1e-9) ** 2)) <= 10 * scipys
    one = Step(swing, 0.0, x[:1], swing(0.0, x[:1]), h)
    alone_ = DOP853(lambda t, y: swing(t, y.reshape(1, 2)).ravel(), 0.0, x[0], 9.0, rtol=1, first_step=h)
    alone_.step()
    assert one.errors(0.0, 1e-9)[0] == pytest.approx(alone_._estimate_error_norm(alone_.K, h, np.full(2, 1e-9)))


@pytest.mark.parametrize("sharpness", [10, 30])
def test_a_token_that_turns_within_a_step_is_noticed(sharpness: float) -> None:
    """The error of x' = tanh(k (t - tau)) is known; one estimate alone overlooks it for some tau."""
    h, tau = 0.1, np.linspace(0.01, 0.99, 981)

    def turning(t: float, x: Array) -> Array:
        return np.tanh(sharpness * (t / h - tau))[:, None]

    step = Step(turning, 0.0, np.zeros((len(tau), 1)), turning(0.0, np.zeros(0)), h)
    ends = np.log(np.cosh(sharpness * (1 - tau))) - np.log(np.cosh(sharpness * tau))
    error = np.abs(step.y[:, 0] - h / sharpness * ends)
    large = error > 1e-9
    assert (step.errors(0.0, 1.0) >= 0.02 * error)[large].all()
    fifth, third = (h * np.abs(np.tensordot(E[:STAGES], step.K[:STAGES], 1)[:, 0]) for E in (E5, E3))
    assert (fifth**2 / np.hypot(fifth, 0.1 * third) < 1e-3 * error)[large].any()


@pytest.mark.parametrize(
    ("law", "motion"),
    [
        (af.Softmax(beta=300.0), af.Flow()),
        (af.Softmax(beta=-200.0, B=TURNED, b=np.array([0.5, -1.0])), af.RescaledFlow()),
        (af.Softmax(beta=lambda t: 300 + 200 * t, B=TURNED), af.RescaledFlow(V=TURNED)),
    ],
)
@pytest.mark.parametrize(("weighed", "spread", "cells"), [(False, 0.3, 2), (True, 0.3, 128), (False, 0.01, 8)])
def test_what_is_left_out_weighs_nothing_wherever_tokens_go(
    law: af.Softmax, motion: Any, weighed: bool, spread: float, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heard_sources, "FINE", cells)
    rng, t, h = np.random.default_rng(1), 0.3, 0.2
    # Tokens near the origin would hear everybody.
    tokens = Around([2.0, 1.0] + spread * rng.standard_normal((40, 2)), spread * rng.uniform(0, 0.3, 40))
    disc = 2 * on_circle(rng, 500) * np.sqrt(rng.random((500, 1)))
    sources = Around(disc, rng.uniform(0, 0.1, 500))
    masses = np.exp(rng.uniform(-9, 9, 500)) if weighed else np.ones(500)
    hearing = Hearing(law, masses)
    near, lists = heard(motion, hearing, (t, t + h / 2, t + h), tokens, sources, np.log(masses), float(masses.sum()))
    assert 0 < len(near) < 400
    heard_by = np.zeros((40, 500), dtype=bool)
    for k, own in enumerate(np.split(lists.order, lists.begins[1:-1])):
        heard_by[np.ix_(own, near[lists.sources[lists.first[k] : lists.first[k + 1]]])] = True
    assert lists.pairs == heard_by.sum()
    np.testing.assert_array_equal(np.flatnonzero(heard_by.any(axis=0)), near)
    for s in (t, t + h / 2, t + h, *rng.uniform(t, t + h, 3)):
        for worst in [False] * 9 + [True]:
            x, y = (one.places + one.reach[:, None] * on_circle(rng, len(one.reach)) for one in (tokens, sources))
            a, gain = covectors(motion, hearing, x, s)
            if worst:
                # Those that are left out go where tokens hear them most, the others where they hear them least.
                ahead = sources.reach[:, None] * a.mean(axis=0) / np.linalg.norm(a.mean(axis=0))
                ahead[near] *= -1
                y = sources.places + ahead
            scores = gain * a @ y.T
            # The covectors are those of the law: its weights differ by a factor for each row.
            given = law.log_weights(motion.seen(x, s), s, sources=motion.seen(y, s))
            np.testing.assert_allclose(np.ptp(given - scores, axis=1), 0, atol=1e-9 * np.abs(scores).max())
            logs = scores + np.log(masses)
            weights = np.exp(logs - logs.max(axis=1, keepdims=True))
            left_out = np.where(heard_by, 0.0, weights).sum(axis=1)
            assert (left_out <= LEFT_OUT * weights.sum(axis=1)).all()


def on_circle(rng: np.random.Generator, n: int) -> Array:
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def test_groups_hold_every_point_once() -> None:
    a = np.random.default_rng(0).standard_normal((300, 3))
    order, begins = groups(a, 4, 3)
    assert sorted(order.tolist()) == list(range(300))
    assert begins[0] == 0
    assert begins[-1] == 300
    assert (np.diff(begins) > 0).all()
    np.testing.assert_array_equal(groups(np.zeros((4, 2)), 4, 3).begins, [0, 4])


def test_no_token_is_lost_where_codes_of_cells_wrap_around() -> None:
    way = np.array([1.0, -1, 1, -1, 1, -1, 1, -1, 1]) / 3
    np.testing.assert_array_equal(groups(np.vstack([way / 20, -np.eye(9)[8]]), 128, 6).begins, [0, 1, 2])


SQUARE = np.array([[2.0, 2.0], [2.0, -2.0], [-2.0, 2.0], [-2.0, -2.0]])


def around(corners: Array, n: int, seed: int) -> Array:
    """Corners that lead, and tokens near the lines on which two of them tie."""
    rng = np.random.default_rng(seed)
    ties = rng.uniform(-1, 1, (n, 2))
    ties[: n // 2, 0] *= 10.0 ** rng.uniform(-5, 0, n // 2)
    return np.concatenate([corners, ties])


CASES: dict[str, tuple[Array, af.Softmax, Any, float]] = {
    "separatrices": (around(SQUARE, 100, 0), af.Softmax(beta=2.0), af.RescaledFlow(), 3.0),
    "merging": (around(np.repeat(SQUARE, 4, 0) + np.linspace(0, 0.3, 32).reshape(16, 2), 60, 1), af.Softmax(),
                af.RescaledFlow(), 3.0),
    "symmetric": (np.concatenate([SQUARE, SQUARE / 4, SQUARE / 9, [[0.2, 0.0], [0.0, 0.1]]]), af.Softmax(beta=3.0),
                  af.RescaledFlow(), 3.0),
    "V and B": (around(SQUARE, 60, 2), af.Softmax(beta=3.0, B=[[1.0, 0.3], [0.1, 0.8]]),
                af.RescaledFlow(V=[[1.0, 0.2], [0.0, 0.9]]), 2.5),
    "growing": (around(SQUARE, 60, 3), af.Softmax(beta=2.0), af.Flow(), 2.0),
    "beta of time": (around(SQUARE, 60, 4), af.Softmax(beta=lambda t: 2 + np.sin(9 * t)), af.RescaledFlow(), 2.5),
}  # fmt: skip


@pytest.mark.parametrize(("name", "weighed"), [*((name, False) for name in CASES), ("merging", True)])
def test_local_steps_follow_the_flow_at_a_tight_tolerance(alone: list[int], name: str, weighed: bool) -> None:
    x, law, motion, until = CASES[name]
    masses = np.random.default_rng(5).uniform(0.5, 2.0, len(x)) if weighed else None
    times = np.linspace(0, until, 12)
    run = af.simulate(x, law, motion, until, masses=masses, record=times)
    assert alone or name == "symmetric"
    # The last two tokens of the symmetric cloud stay between two leaders until rounding decides.
    compared = slice(-2) if name == "symmetric" else slice(None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(integrate, "MANY", 1 << 30)
        exact = af.simulate(x, law, motion.with_rtol(1e-12), until, masses=masses, record=times)
        usual = af.simulate(x, law, motion, until, masses=masses, record=times)
    size = np.abs(exact.tokens).max(axis=(1, 2))

    def error(other: Any) -> float:
        return float((np.abs(other.tokens - exact.tokens)[:, compared].max(axis=(1, 2)) / size).max())

    # A token may err by ten times the tolerance in a step, and those that start near a tie multiply errors.
    assert error(run) <= max(3e-8, 2 * error(usual))


def test_a_run_taken_up_again_ends_bit_for_bit(alone: list[int], tmp_path: Any) -> None:
    x, law, motion, until = CASES["separatrices"]
    whole = af.simulate(x, law, motion, until, record=[1.1])
    for end in (1.5, until):
        run = af.simulate(x, law, motion, end, store=tmp_path / "run", record=[1.1])
        assert alone
    np.testing.assert_array_equal(run.final, whole.final)
    np.testing.assert_array_equal(run.at(1.1), whole.at(1.1))


def test_tokens_that_heard_others_in_the_wrong_place_are_taken_along(
    alone: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One token is repeated, far from where the step took it; those that follow it must be repeated too."""
    n = 40
    x = np.zeros((n, 1))
    flow = local_steps.Flowing(af.RescaledFlow(), Hearing(af.Softmax()), 1e-9, 1e-12, n)
    company = local_steps._All(flow, (n, 1), None)

    def velocity(t: float, x: Array) -> Array:
        return np.where(np.arange(n)[:, None] < 4, x[:1], 0.0) - x

    monkeypatch.setattr(company, "velocity", velocity)
    asked = []

    class Moved:
        pairs = 1

        def __init__(self, rows: Any) -> None:
            self.x = np.where(rows[:, None] == 0, 1.0, 0.0)

    def repeated(self: Company, step: Step, bad: Any, first: float) -> Any:
        asked.append(bad.tolist())
        return Moved(bad)

    monkeypatch.setattr(Company, "_repeated", repeated)
    step = Step(company.velocity, 0.0, x, company.velocity(0.0, x), 0.1)
    ended = company._ended(step, np.array([0]), np.full(n, 50.0))
    assert asked == [[0], [0, 1, 2, 3]]
    assert ended is not None
    np.testing.assert_array_equal(ended[2], [0, 1, 2, 3])
    assert step.K[STAGES].shape == (n, 1)


def test_other_laws_and_motions_take_common_steps(alone: list[int]) -> None:
    @dataclass(frozen=True, eq=False)
    class Slower(af.RescaledFlow):
        def velocity(self, hearing: Hearing, x: Array, t: float) -> Array:
            return 0.5 * super().velocity(hearing, x, t)

    assert af.RescaledFlow.moves_some
    assert not Slower.moves_some
    x = around(SQUARE, 30, 0)
    af.simulate(x, af.Softmax(beta=2.0), Slower(), 1.0)
    af.simulate(x, af.Masked(af.Softmax(beta=2.0), causal=True), af.RescaledFlow(), 1.0)
    assert not alone


@larger
def test_many_tokens_need_fewer_sums() -> None:
    """Where leaders are many, on a circle, some token turns in every step."""
    x = af.tokens.gaussian(n=8000, d=2, seed=0)
    x *= np.minimum(1, 2.5 / np.linalg.norm(x, axis=1, keepdims=True))
    run = af.simulate(x, af.Softmax(), af.RescaledFlow(), 5.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(integrate, "MANY", 1 << 30)
        usual = af.simulate(x, af.Softmax(), af.RescaledFlow(), 5.0)
    assert run.report["evaluations"] < 0.7 * usual.report["evaluations"]
    apart = np.abs(run.final - usual.final).max(axis=1)
    assert np.quantile(apart, 0.999) < 1e-6


@pytest.mark.parametrize("doublings", [6, 0])
def test_tokens_that_stray_further_than_was_assumed_cost_steps_and_no_accuracy(
    alone: list[int], doublings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens are thought to be eight times slower than they are: this is doubled, or the step is refused."""
    x, law, motion, until = around(SQUARE, 30, 0), af.Softmax(beta=2.0), af.RescaledFlow(), 1.0
    usual = af.simulate(x, law, motion, until)
    parts = len(alone)
    monkeypatch.setattr(local_steps, "SPARE", local_steps.SPARE / 8)
    monkeypatch.setattr(local_steps, "DOUBLINGS", doublings)
    run = af.simulate(x, law, motion, until)
    if doublings:
        assert len(alone) - parts > parts > 0
    else:
        assert run.report["evaluations"] > usual.report["evaluations"]
    np.testing.assert_allclose(run.final, usual.final, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("following", "parts"), [(0, 1), (9, 4), (40, 1)])
def test_a_step_is_refused_if_a_part_cannot_take_it(
    alone: list[int], following: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No part comes through; or a part never ends where others heard it; or too many tokens heard it elsewhere."""
    n = 40
    flow = local_steps.Flowing(af.RescaledFlow(), Hearing(af.Softmax()), 1e-9, 1e-12, n)
    company = local_steps._All(flow, (n, 1), None)

    def velocity(t: float, x: Array) -> Array:
        # Each of a few tokens follows the one before it, or all follow the first.
        heard = np.roll(x, 1, axis=0) if following < n else x[:1]
        return np.where(np.arange(n)[:, None] < following, heard, 0.0) - x

    monkeypatch.setattr(company, "velocity", velocity)
    asked = []

    class Moved:
        pairs = 1

        def __init__(self, rows: Any) -> None:
            self.x = np.ones((len(rows), 1))

    def repeated(self: Company, step: Step, bad: Any, first: float) -> Any:
        asked.append(len(bad))
        return Moved(bad) if following else None

    monkeypatch.setattr(Company, "_repeated", repeated)
    x = np.zeros((n, 1))
    step = Step(company.velocity, 0.0, x, company.velocity(0.0, x), 0.1)
    assert company._ended(step, np.array([0]), np.full(n, 50.0)) is None
    assert len(asked) == parts


def test_many_sources_are_looked_at_twice_and_none_that_is_heard_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """First by coarse groups of tokens, then by fine ones, or by one group where these would be too many."""
    for name, value in (("FEW_SOURCES", 100), ("MOST_COMPARED", 1)):
        monkeypatch.setattr(heard_sources, name, value)
        test_what_is_left_out_weighs_nothing_wherever_tokens_go(
            af.Softmax(beta=300.0), af.Flow(), False, 0.3, 2, monkeypatch
        )


def test_steps_that_become_too_short_end_the_run(alone: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    x = around(SQUARE, 30, 0)
    with monkeypatch.context() as patch:
        patch.setattr(Part, "leg", lambda *given: None)
        run = af.simulate(x, af.Softmax(beta=2.0), af.RescaledFlow(), 0.5)
    usual = af.simulate(x, af.Softmax(beta=2.0), af.RescaledFlow(), 0.5)
    np.testing.assert_allclose(run.final, usual.final, rtol=0, atol=1e-6)
    flow = local_steps.Flowing(af.RescaledFlow(), Hearing(af.Softmax()), 1e-9, 1e-12, 4)
    company = local_steps._All(flow, (4, 2), lambda t, y: -y)
    assert company.leg(1.0, SQUARE, -SQUARE, 1e-20, 2.0, None) is None
    monkeypatch.setattr(Company, "leg", lambda *given: None)
    stopped = af.simulate(x, af.Softmax(beta=2.0), af.RescaledFlow(), 0.5)
    assert stopped.times[-1] == 0
    assert "0" in stopped.stopped
