"""Leaps against literal layers, against the integral of the logarithm of a one-dimensional map, and their refusals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from larger import larger
from numpy.typing import NDArray
from refusals import refused
from scipy import integrate

import attnflow as af
from attnflow.core import blocks as block_module
from attnflow.core import indices
from attnflow.laws import Hearing
from attnflow.motions import Leaps
from attnflow.motions.solvers import leaps
from attnflow.runs.recording import Geometric
from attnflow.runs.watch import Checkpoint, When

Array = NDArray[np.float64]
THREE = np.array([[1.0, 0.0], [-0.5, 0.8], [-0.6, -0.8]])
FIVE = np.vstack([THREE, [[1.0, 0.1], [0.3, 0.2]]])


def leaping(x: Any, beta: float, until: int, gamma: float = 0.1, **options: Any) -> af.Trajectory:
    return af.simulate(x, af.Softmax(beta=beta), Leaps(gamma), until, **options)


def literal(x: Any, beta: float, until: int, gamma: float = 0.1, **options: Any) -> af.Trajectory:
    return af.simulate(x, af.Softmax(beta=beta), af.Layers(gamma), until, **options)


def speed(x: Array) -> float:
    return float(np.abs(np.diff(x, axis=0)).max())


# Against literal steps


@pytest.mark.parametrize(
    ("x", "beta", "gamma", "until"),
    [
        (THREE, 8.0, 0.1, 40_000),
        (THREE, 8.0, 0.5, 20_000),
        (FIVE, 9.0, 0.1, 120_000),
        (FIVE, 5.0, 0.01, 20_000),
        (FIVE, 12.0, 1.0, 20_000),
        ([[1.0], [0.9], [-1.0], [0.1]], 6.0, 0.2, 300_000),
    ],
)
def test_leaps_are_many_literal_steps(x: Any, beta: float, gamma: float, until: int) -> None:
    """Every record agrees: to 2e-8 in place, or to 1e-9 of the time that has passed."""
    steps, run = literal(x, beta, until, gamma), leaping(x, beta, until, gamma)
    assert run.report["leaps"] >= 2
    assert len(run) < until / 4
    assert (np.diff(run.times) > 0).all()
    for t, y in zip(run.times, run.tokens, strict=True):
        near = steps.tokens[max(0, t - 1) : t + 2]
        assert np.abs(y - steps.tokens[t]).max() < 2e-8 + 1e-9 * t * speed(near)


@pytest.mark.parametrize(
    ("x", "beta", "gamma"), [(THREE, 8.0, 0.1), pytest.param(FIVE, 9.0, 0.1, marks=larger), (FIVE, 9.0, 0.5)]
)
def test_the_step_of_collapse_is_exact(x: Array, beta: float, gamma: float) -> None:
    together = When(lambda t, x: bool(np.linalg.norm(np.ptp(x, axis=0)) < 0.2))
    runs = [simulated(x, beta, 10**6, gamma, watch=[together]) for simulated in (literal, leaping)]
    assert 10**4 < runs[0].times[-1] == runs[1].times[-1]
    assert np.abs(runs[0].final - runs[1].final).max() < 1e-5


def test_a_form_and_masses() -> None:
    law = af.Softmax(beta=6.0, B=[[1.0, 0.3], [-0.2, 0.9]])
    masses = [1.0, 2.5, 0.5]
    runs = [af.simulate(THREE, law, motion, 3000, masses=masses) for motion in (af.Layers(0.1), Leaps(0.1))]
    assert runs[1].report["leaps"] > 0
    for t, y in zip(runs[1].times, runs[1].tokens, strict=True):
        assert np.abs(y - runs[0].tokens[t]).max() < 1e-7


def test_a_tighter_tolerance_is_more_accurate() -> None:
    times = [5000, 15_000, 25_000, 28_000, 29_000]
    exact = literal(THREE, 8.0, 29_000).at(times)
    law, errors = af.Softmax(beta=8.0), []
    for rtol in (1e-5, 1e-8, 1e-11):
        run = af.simulate(THREE, law, Leaps(0.1, rtol), 29_000, record=times)
        errors.append(float(np.abs(run.tokens[1:] - exact).max()))
    assert errors[0] > 20 * errors[1] > 400 * errors[2]
    assert errors[2] < 1e-9


# Against the logarithm of a map


def log_map(a: float, beta: float, gamma: float, terms: int = 6) -> float:
    """The field log F of F(a) = a - 2 gamma a / (1 + e^{2 beta a^2}), the step of two tokens at a and -a."""
    steps = []
    for _ in range(terms):
        steps.append(-2 * gamma * a * math.exp(-2 * beta * a * a) / (1 + math.exp(-2 * beta * a * a)))
        a += steps[-1]
    total, sign = 0.0, 1
    for k in range(1, terms + 1):
        total += sign * steps[0] / k
        steps, sign = np.diff(steps).tolist(), -sign
    return total


def passed(a: float, start: float, beta: float, gamma: float) -> float:
    """The number of steps from one place to the other, the integral of da / log F."""
    scale = -log_map(start, beta, gamma)
    # In s = e^{2 beta (a^2 - start^2)}, that is da = ds / (4 beta a s), the integrand is smooth.
    end = math.exp(2 * beta * (a * a - start * start))

    def speedless(s: float) -> float:
        b = math.sqrt(start * start + math.log(s) / (2 * beta))
        return scale / (-log_map(b, beta, gamma) * 4 * beta * b * s)

    pieces = np.geomspace(end, 1.0, 12)
    return (
        math.fsum(integrate.quad(speedless, *piece, epsabs=0, epsrel=1e-12)[0] for piece in itertools.pairwise(pieces))
        / scale
    )


@pytest.mark.parametrize(("beta", "gamma"), [(5.0, 0.3), (10.0, 0.1), (20.0, 0.1), (40.0, 0.5), (300.0, 1.0)])
def test_two_tokens_on_a_line(beta: float, gamma: float) -> None:
    """Up to 10^259 steps, each record at the time at which the map gets there."""
    total = int(passed(0.6, 1.0, beta, gamma))
    run = leaping([[1.0], [-1.0]], beta, total, gamma, record=[int(total * q) for q in (0.1, 0.5, 0.9, 0.99, 0.999)])
    assert len(run) == 7
    for t, x in zip(run.times[1:], run.tokens[1:, :, 0], strict=True):
        assert x[0] == pytest.approx(-x[1], rel=1e-12)
        assert passed(x[0], 1.0, beta, gamma) / t == pytest.approx(1, abs=1e-7)
    assert 0.6 - 1e-4 < run.final[0, 0] < 0.99


def test_the_integral_counts_literal_steps() -> None:
    """The reference itself, on a run short enough to be taken step by step."""
    run = literal([[1.0], [-1.0]], 5.0, 10_000, 0.3)
    for t in (1, 10, 1000, 2000):
        assert passed(run.tokens[t, 0, 0], 1.0, 5.0, 0.3) == pytest.approx(t, rel=1e-7)


# Bodies


def test_repeated_tokens_are_masses() -> None:
    x = np.vstack([THREE, THREE[:1], THREE[:1]])
    run = leaping(x, 8.0, 10**5)
    heavy = leaping(THREE, 8.0, 10**5, masses=[3.0, 1.0, 1.0])
    assert run.report["merged"] == heavy.report["merged"] + 2
    np.testing.assert_array_equal(run.times, heavy.times)
    np.testing.assert_allclose(run.tokens[:, :3], heavy.tokens, atol=1e-12)
    np.testing.assert_array_equal(run.tokens[:, 0], run.tokens[:, 4])


def test_tokens_near_each_other_become_one_and_leap() -> None:
    """Pairs that approach limit no leap once they have met; they end where one body of twice the mass would."""
    v = af.tokens.polygon(3, angle=0.3)
    x = np.vstack([v, 0.9 * v])
    run = leaping(x, 30.0, 10**12)
    assert run.report["merged"] == 3
    assert run.report["steps"] < 1000
    met = run.tokens[np.searchsorted(run.times, 1000)]
    np.testing.assert_array_equal(met[:3], met[3:])
    drawn = leaping(met[:3], 30.0, 10**12, masses=[2.0, 2.0, 2.0])
    np.testing.assert_allclose(drawn.final, run.final[:3], atol=1e-9)


def test_tokens_that_part_stay_two() -> None:
    """Between two heavy ones the middle is unstable: tokens there are near each other and move apart."""
    x, masses = np.array([[1.0], [-1.0], [1e-10], [-1e-10]]), [50.0, 50.0, 1.0, 1.0]
    run = leaping(x, 8.0, 400, masses=masses)
    exact = literal(x, 8.0, 400, masses=masses)
    assert run.final[2, 0] > 0.9
    assert run.final[3, 0] < -0.9
    np.testing.assert_allclose(run.final, exact.final, atol=1e-6)


def test_permuting_tokens_permutes_the_run() -> None:
    order = [3, 0, 4, 2, 1]
    run, mixed = leaping(FIVE, 9.0, 10**5), leaping(FIVE[order], 9.0, 10**5)
    np.testing.assert_allclose(mixed.final, run.final[order], atol=1e-8)


def test_one_point_rests_for_ever() -> None:
    run = leaping(np.ones((4, 2)), 3.0, 10**300)
    assert run.times.tolist() == [0, 10**300]
    assert run.report == {"engine": "dense", "steps": 0, "leaps": 1, "merged": 3}
    # The weight of the other token, e^{-2000}, is zero in float64.
    assert leaping([[1.0], [-1.0]], 1000.0, 10**300).report["leaps"] == 1


def test_a_negative_beta_collapses_at_once() -> None:
    run = leaping(FIVE, -2.0, 10**30)
    assert run.report["merged"] == 4
    assert len(run) < 1000
    np.testing.assert_allclose(run.final, literal(FIVE, -2.0, 5000).final, atol=1e-8)


# Times, records, stores


def test_times_beyond_int64_and_records_inside_leaps() -> None:
    x, until = [[1.0], [-1.0]], int(passed(0.9, 1.0, 40.0, 0.1))
    every = leaping(x, 40.0, until)
    assert every.times.dtype == object
    assert every.times[-1] == until > 10**33
    assert all(isinstance(t, int) for t in every.times)
    some = leaping(x, 40.0, until, record=Geometric(first=1, per_decade=3))
    assert len(some) > 95
    assert (np.diff(some.tokens[:, 0, 0]) <= 0).all()
    for t, y in zip(some.times[1:], some.tokens[1:], strict=True):
        # Off in place or off in time; before that, tokens have not moved by a rounding error.
        if t > 10**28:
            late = abs(passed(y[0, 0], 1.0, 40.0, 0.1) - t)
            assert late < 1e-8 * t or late * -log_map(y[0, 0], 40.0, 0.1) < 2e-9
    np.testing.assert_allclose(every.at(10**33), some.at(10**33), atol=1e-8)


def test_a_leap_that_ends_in_a_meeting_still_knows_its_inside() -> None:
    """The bodies of a leap are those at its start, whoever meets at its end."""
    x = np.array([[1.0], [0.98], [-1.0]])
    stepper = Leaps(gamma=1e-4, rtol=1e-3).start(Hearing(af.Softmax(beta=20.0)), x, 0)
    exact = literal(x, 20.0, 10**5, 1e-4)
    met = 0
    for _ in range(200):
        stretch = stepper.advance(10**5)
        if stretch.between is not None:
            before, (end, after) = stretch.before[0], stretch.after
            met += len(np.unique(stretch.before[1])) > len(np.unique(after))
            middle = (int(before) + int(end)) // 2
            assert np.abs(stretch.between(middle) - exact.tokens[middle]).max() < 2e-2
        if stretch.after[0] >= 10**5:
            break
    assert met == 1


@pytest.mark.parametrize("after", [0, *(pytest.param(after, marks=larger) for after in (2, 5)), 20])
def test_a_stored_run_goes_on_bit_for_bit(tmp_path: Path, dies: Any, after: int) -> None:
    pytest.importorskip("zarr")
    place, until = tmp_path / "run.zarr", 10**6
    with pytest.raises(KeyboardInterrupt):
        leaping(FIVE, 9.0, until, store=place, watch=[Checkpoint(0), dies(after)])
    resumed, straight = leaping(FIVE, 9.0, until, store=place), leaping(FIVE, 9.0, until)
    assert resumed.times.tobytes() == straight.times.tobytes()
    assert resumed.tokens.tobytes() == straight.tokens.tobytes()
    assert resumed.report == straight.report
    assert isinstance(af.load(place).motion, Leaps)


# Refusals


class Word(af.Law):
    """A law of one's own that wraps another."""

    def __init__(self, law: af.Law) -> None:
        self.law = law


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "gamma zero": (lambda: Leaps(0.0), "gamma is 0"),
    "gamma large": (lambda: Leaps(1.5), "gamma is 1.5"),
    "gamma a word": (lambda: Leaps("half"), "gamma is 'half'"),  # type: ignore[arg-type]
    "gamma a function": (lambda: Leaps(lambda t: 0.5), "use Layers"),  # type: ignore[arg-type]
    "rtol": (lambda: Leaps(0.5, rtol=1e-15), "rtol is 1e-15"),
    "until": (lambda: leaping(THREE, 1.0, 2.5), "give a whole number"),  # type: ignore[arg-type]
    "beta a function": (lambda: leaping(THREE, lambda t: 1.0, 5), "function of time: use Layers"),  # type: ignore[arg-type]
    "wrapped": (lambda: af.simulate(THREE, Word(af.Softmax(beta=lambda t: t)), Leaps(0.5), 5), "function of time"),
    "heads": (lambda: af.simulate(THREE, af.Heads([af.Softmax()]), Leaps(0.5), 5), "heads"),
    "hardmax": (lambda: af.simulate(THREE, af.Hardmax(), Leaps(0.5), 5), "Hardmax jumps as tokens move: use Layers"),
    "engine": (lambda: leaping(THREE, 1.0, 5, engine="fused"), "without engine 'fused'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused(name: str) -> None:
    call, words = REFUSED[name]
    with refused(words):
        call()


def test_tokens_that_grow_without_end_end_the_run_in_a_sentence() -> None:
    """Warnings are errors here: none is left over from distances of tokens that are no numbers."""
    run = af.simulate(af.tokens.sphere(n=6, d=2, seed=0), af.SelfAdjusted(beta=2.0), Leaps(0.2), 50)
    assert "left the range of float64" in run.stopped


def test_scores_beyond_float64_end_the_run_in_a_sentence() -> None:
    law = af.Softmax(B=1e50 * np.eye(2))
    run = af.simulate(1e149 * THREE, law, Leaps(0.5), 10**20)
    assert "left the range of float64 at step 1" in run.stopped


# Where steps are lost in rounding, or cannot be leapt over


@pytest.mark.parametrize(
    "law",
    [
        af.Masked(af.Softmax(beta=0.5), causal=True),
        af.Masked(af.Softmax(beta=0.5), window=2),
        af.Positional(af.Softmax(beta=0.5), alibi=1.0),
    ],
    ids=["causal", "window", "alibi"],
)
def test_tokens_with_an_order_that_have_met_rest(law: af.Law) -> None:
    """They are never merged: their distances shrink to rounding, where no literal step moves them either."""
    run = af.simulate(THREE, law, Leaps(0.9), until=10**20)
    assert run.stopped == "reached step 1e+20, as asked"
    assert (run.report["merged"], run.report["leaps"] >= 1) == (0, True)
    assert run.report["steps"] < 2000
    steps = af.simulate(THREE, law, af.Layers(0.9), until=500)
    np.testing.assert_allclose(run.final, steps.final, atol=1e-14)
    assert af.measure.diameter(run.final) < 1e-13


def test_a_rest_that_rounding_may_feign_is_told() -> None:
    """Two tokens at distance 2 would go on at e^{-40} in each step, which is lost beside 1."""
    law = af.Masked(af.Softmax(beta=20.0), window=3)
    with pytest.warns(
        UserWarning, match="steps are lost in rounding, and tokens are taken to rest: drifts of about 4e-18"
    ):
        run = af.simulate([[1.0], [-1.0]], law, Leaps(0.5), until=10**20)
    assert af.measure.diameter(run.final) == 2.0
    af.simulate([[1.0], [-1.0]], law, Leaps(0.5), until=10**5)  # these do not add up to the tolerance


def test_drifts_below_rounding_are_found_in_blocks_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of no more pairs than anywhere else, whose largest drift is that of all rows."""
    asked, weights = [], indices.weights

    def counted(law: Any, x: Any, *given: Any, **named: Any) -> Any:
        asked.append(len(x))
        return weights(law, x, *given, **named)

    monkeypatch.setattr(leaps, "weights", counted)
    law = af.Masked(af.Softmax(beta=20.0), window=3)
    warned = []
    for size in (1 << 22, 2):
        monkeypatch.setattr(block_module, "BLOCK", size)
        with pytest.warns(UserWarning, match="drifts of about") as found:
            af.simulate([[1.0], [-1.0]], law, Leaps(0.5), until=10**20)
        warned.append(str(found[0].message))
    assert warned[0] == warned[1]
    assert asked == [2, 1, 1]


def test_a_token_that_follows_another_one_makes_runs_slow_and_they_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third token hears the first alone, which drifts: it follows at the rate gamma, for ever."""
    monkeypatch.setattr(leaps, "PACE", 100)
    monkeypatch.setattr(leaps, "HELD", 300)
    law = af.Masked(af.Softmax(beta=8.0), graph=[[1, 1, 0], [1, 1, 0], [1, 0, 0]])
    stop = When(lambda t, x: t >= 1000, "seen enough")
    with pytest.warns(
        UserWarning, match=r"1e\+09 steps are to come and few are leapt over, because .* does not end; end"
    ):
        run = af.simulate([[1.0], [-1.0], [0.2]], law, Leaps(0.1), until=10**9, watch=[stop])
    assert run.report["steps"] > 500
    under_way = Leaps(0.1).start(Hearing(law), np.array([[1.0], [-1.0], [0.2]]), 0)
    assert under_way.slow() is None
    under_way.advance(10**9)
    assert str(under_way.slow()).startswith("few steps are leapt over, because a fast stable motion")
