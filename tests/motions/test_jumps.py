"""The chain against enumeration, the law of its literal steps, geometric times of polygons, and its seeds.

Statistical tests have fixed seeds and a level of 1e-6 each, so that a wrong law and not bad luck makes them fail.
"""

from __future__ import annotations

import itertools
import math
import os
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from larger import larger
from numpy.typing import NDArray
from refusals import refused
from scipy import stats

import attnflow as af
from attnflow.app.cli import main
from attnflow.core import blocks
from attnflow.motions.jumps import Rule, chains
from attnflow.runs.recording import Geometric
from attnflow.runs.watch import Checkpoint, Converged, When

Array = NDArray[np.float64]
LEVEL = 1e-6
X = np.array([[1.0, 0.2], [-0.4, 0.9], [-0.5, -0.8], [0.3, 0.1]])
SOFT = af.Softmax(beta=1.5, B=[[1.0, 0.4], [-0.2, 0.8]])
SOFT1 = af.Softmax()


def polygon_chance(k: int, beta: float) -> float:
    """The probability that a given corner of the regular k-gon picks another one."""
    S = math.fsum(math.exp(-beta * (1 - math.cos(2 * math.pi * j / k))) for j in range(1, k))
    return S / (1 + S)


def key(x: Array) -> tuple[float, ...]:
    return tuple(np.round(x, 12).ravel().tolist())


def one_step(x: Array, law: af.Law, gamma: float, masses: Any = None) -> Counter[tuple[float, ...]]:
    """The law of x^1, by going through all n^n choices."""
    P = law.weights(x, masses=masses)
    reached: Counter[tuple[float, ...]] = Counter()
    for choice in itertools.product(range(len(x)), repeat=len(x)):
        chance = math.prod(P[i, j] for i, j in enumerate(choice))
        reached[key((1 - gamma) * x + gamma * x[list(choice)])] += chance
    return reached


def agrees(counts: Counter[tuple[float, ...]], expected: Counter[tuple[float, ...]]) -> bool:
    """A chi-square test of counts against probabilities; states expected less than eight times are taken together."""
    total = sum(counts.values())
    assert set(counts) <= set(expected)
    frequent = [state for state in expected if expected[state] * total >= 8]
    seen = [counts[state] for state in frequent]
    wanted = [expected[state] * total for state in frequent]
    rest = total - sum(wanted)
    if rest > 1e-6 * total:
        seen, wanted = [*seen, total - sum(seen)], [*wanted, rest]
    scaled = np.array(wanted) * total / sum(wanted)
    return bool(stats.chisquare(seen, scaled).pvalue > LEVEL)


def final(x: Array, law: af.Law, motion: af.Jumps, until: int, seed: int, **options: Any) -> Array:
    return af.simulate(x, law, motion, until, seed=seed, **options).final


# One step


LAWS = [SOFT, af.Softmax(beta=-2.0), af.HegselmannKrause(eps=1.2), af.Localmax(delta=0.4)]


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize(
    ("law", "gamma"),
    [*((law, 0.3) for law in LAWS[::2]), (SOFT, 1.0)]
    + [
        pytest.param(law, gamma, marks=larger)
        for law, gamma in [*((law, 0.3) for law in LAWS[1::2]), *((law, 1.0) for law in LAWS[1:])]
    ],
)
def test_one_step_has_the_law_of_all_choices(law: af.Law, gamma: float, literal: bool) -> None:
    motion = af.Jumps(gamma, literal)
    counts = Counter(key(final(X, law, motion, 1, seed)) for seed in range(700))
    assert agrees(counts, one_step(X, law, gamma))


def test_chains_have_the_law_of_all_choices() -> None:
    """Many samples, so that joint moves of several tokens are seen often; at low temperature and with masses too."""
    cold, masses = af.Softmax(beta=4.0), [1.0, 2.0, 0.5, 3.0]
    for law, weights in ((SOFT, None), (cold, None), (cold, masses)):
        _, finals = chains(X, law, 0.3, 1, 20000, 1, masses=weights)
        assert agrees(Counter(map(key, finals)), one_step(X, law, 0.3, weights))


@pytest.mark.parametrize("literal", [False, True])
def test_the_mean_of_one_step_is_a_layer(literal: bool) -> None:
    x = af.tokens.gaussian(n=6, d=3, seed=0)
    law, runs = af.Softmax(beta=1.0), 600
    layer = af.simulate(x, law, af.Layers(gamma=0.4), until=1).final
    steps = np.array([final(x, law, af.Jumps(0.4, literal), 1, seed) for seed in range(runs)])
    error = steps.std(axis=0, ddof=1) / math.sqrt(runs)
    assert (np.abs(steps.mean(axis=0) - layer) < stats.norm.isf(LEVEL / (2 * x.size)) * error).all()


def test_coinciding_tokens_draw_independently() -> None:
    x = np.array([[1.0], [1.0], [-1.0]])
    law = af.Softmax(beta=0.2)
    q = law.weights(x)[0, 2]
    _, finals = chains(x, law, 0.5, 1, 20000, 2)
    moved = (finals[:, :2, 0] != 1.0).sum(axis=1)
    expected = [(1 - q) ** 2, 2 * q * (1 - q), q**2]
    assert stats.chisquare(np.bincount(moved, minlength=3), 20000 * np.array(expected)).pvalue > LEVEL


def test_a_full_step_lands_on_its_source() -> None:
    run = af.simulate(X, SOFT, af.Jumps(gamma=1.0), until=30, seed=0)
    assert set(map(tuple, run.tokens.reshape(-1, 2))) == set(map(tuple, X))


# Several steps


def test_two_steps_have_the_law_of_all_choices() -> None:
    x, law, gamma = np.array([[1.0], [-0.5], [0.2]]), af.Softmax(beta=1.0), 1.0
    expected: Counter[tuple[float, ...]] = Counter()
    for middle, chance in one_step(x, law, gamma).items():
        for end, more in one_step(np.array(middle).reshape(3, 1), law, gamma).items():
            expected[end] += chance * more
    _, finals = chains(x, law, gamma, 2, 20000, 3)
    assert agrees(Counter(map(key, finals)), expected)


# Runs of each kind that are compared, which the tests share.
RUNS = 400 if "ATTNFLOW_EXAMPLES" in os.environ else 150


@cache
def ends(literal: bool, runs: int) -> Array:
    """States after 40 steps at beta = 4, gamma = .25, of runs one after the other."""
    motion = af.Jumps(0.25, literal)
    return np.array([final(X, af.Softmax(beta=4.0), motion, 40, 2 * seed + literal) for seed in range(runs)])


@pytest.mark.parametrize("measure", [lambda x: x[:, 0, 0], lambda x: np.linalg.norm(np.ptp(x, axis=1), axis=1)])
def test_literal_and_effective_steps_agree_in_law(measure: Callable[[Array], Array]) -> None:
    effective, literal = (np.round(measure(x), 9) for x in (ends(False, RUNS), ends(True, RUNS)))
    assert stats.ks_2samp(effective, literal).pvalue > LEVEL


def test_each_move_is_recorded_and_nothing_moves_in_between() -> None:
    run = af.simulate(X, af.Softmax(beta=5.0), af.Jumps(0.2), until=400, seed=5)
    changes = (np.diff(run.tokens, axis=0) != 0).any(axis=(1, 2))
    assert run.times.dtype == np.int64
    assert run.times[0] == 0
    assert run.times[-1] == 400
    assert changes[:-1].all()
    assert run.report["moves"] == changes.sum() < 399
    assert (np.diff(run.times) > 0).all()


# Waiting times


@pytest.mark.parametrize(("k", "beta"), [(3, 1.0), (3, 3.0), (4, 4.0), (5, 6.0)])
def test_the_first_move_of_a_polygon_is_geometric(k: int, beta: float) -> None:
    times, _ = chains(af.tokens.polygon(k), af.Softmax(beta=beta), 0.1, 10**9, 4000, 7, lambda x, t: True)
    chance = -math.expm1(k * math.log1p(-polygon_chance(k, beta)))
    edges = np.unique(stats.geom.ppf(np.linspace(0, 1, 21)[1:-1], chance))
    bins = np.concatenate([[0], edges, [np.inf]])
    expected = np.diff(stats.geom.cdf(bins, chance)) * len(times)
    assert stats.chisquare(np.histogram(times, bins + 0.5)[0], expected).pvalue > LEVEL


def test_literal_steps_wait_as_long() -> None:
    k, beta = 3, 2.0
    chance = -math.expm1(k * math.log1p(-polygon_chance(k, beta)))
    moved = When(lambda t, x: bool((x != af.tokens.polygon(k)).any()))
    runs = [
        af.simulate(af.tokens.polygon(k), af.Softmax(beta=beta), af.Jumps(0.1, literal=True), 10, seed=s, watch=[moved])
        for s in range(300)
    ]
    edges = np.array([0, 1, 2, 3, 4, 6, 9, np.inf])
    expected = np.diff(stats.geom.cdf(edges, chance)) * len(runs)
    assert stats.chisquare(np.histogram([run.times[-1] for run in runs], edges + 0.5)[0], expected).pvalue > LEVEL


@pytest.mark.parametrize(("k", "one_token"), [(3, 3.958e25), (4, 8.158e16)])
def test_the_median_at_low_temperature(k: int, one_token: float) -> None:
    """The printed medians are those of one token among frozen ones; k of them leave k times as early."""
    runs = 2001
    times, _ = chains(af.tokens.polygon(k), af.Softmax(beta=40.0), 0.1, 10**40, runs, 11, lambda x, t: True)
    assert all(isinstance(t, int) for t in times)
    p = polygon_chance(k, 40.0)
    assert math.log(2) / p == pytest.approx(one_token, rel=1e-3)
    # The number of times below the true median is binomial.
    below = sum(t < math.log(2) / (k * p) for t in times)
    assert stats.binomtest(below, runs).pvalue > LEVEL
    assert stats.kstest([float(t) * k * p for t in times], "expon").pvalue > LEVEL


def test_probabilities_of_1e_minus_300_are_not_lost() -> None:
    x, beta = np.array([[1.0], [-1.0]]), 345.0  # each picks the other with probability e^{-2 beta}
    times, _ = chains(x, af.Softmax(beta=beta), 1.0, 10**305, 400, 0, lambda x, t: True)
    scaled = [math.exp(math.log(t) - 2 * beta) * 2 for t in times]
    assert stats.kstest(scaled, "expon").pvalue > LEVEL


# Horizons


def test_1e300_steps_take_few_moves() -> None:
    run = af.simulate(af.tokens.polygon(3), af.Softmax(beta=40.0), af.Jumps(gamma=0.2), until=10**300, seed=0)
    assert run.report["moves"] < 10**4
    assert run.times[0] == 0
    assert run.times[-1] == 10**300
    assert run.stopped == "reached step 1e+300, as asked"
    assert all(isinstance(t, int) for t in run.times)
    assert run.times[1] > 10**20
    assert all(np.diff(run.times) > 0)
    assert af.measure.diameter(run.final) < 1e-12


def test_times_beyond_int64_are_exact() -> None:
    until = 2**70 + 1
    run = af.simulate([[1.0], [1.0]], SOFT1, af.Jumps(0.5), until=until)
    assert run.times.tolist() == [0, until]
    for inside in (2**63 - 1, 2**63):
        assert af.simulate([[1.0], [1.0]], SOFT1, af.Jumps(0.5), until=inside).times.tolist() == [0, inside]


def test_consensus_jumps_to_the_end() -> None:
    run = af.simulate(np.ones((5, 2)), SOFT, af.Jumps(0.1), until=10**18, seed=0)
    assert run.times.tolist() == [0, 10**18]
    assert run.report["moves"] == 0
    assert (run.final == 1).all()


def test_tokens_within_rounding_of_each_other_rest() -> None:
    x = np.array([[1.0], [1.0 + 2.0**-52]])
    assert af.simulate(x, SOFT1, af.Jumps(0.1), until=10**30, seed=0).report["moves"] == 0
    assert af.simulate(x, SOFT1, af.Jumps(1.0), until=10**30, seed=0).report["moves"] > 0


def test_a_stay_that_is_impossible() -> None:
    """Every pick moves its token: each step is a move."""
    x = np.array([[1.0], [-1.0]])
    run = af.simulate(x, af.Hardmax(B=[[-1.0]]), af.Jumps(1.0), until=4, seed=0)
    np.testing.assert_array_equal(run.tokens[:, :, 0], [[1, -1], [-1, 1]] * 2 + [[1, -1]])
    times, finals = chains(x, af.Hardmax(B=[[-1.0]]), 1.0, 3, 2, 0)
    assert times.tolist() == [3, 3]
    np.testing.assert_array_equal(finals, [-x, -x])


def test_records_at_given_times_hold_the_state_of_the_last_move() -> None:
    law, motion = af.Softmax(beta=5.0), af.Jumps(0.2)
    every = af.simulate(X, law, motion, until=400, seed=5)
    for record in ([3, 50, 51, 399], Geometric(first=1, per_decade=5)):
        some = af.simulate(X, law, motion, until=400, seed=5, record=record)
        for t, x in zip(some.times, some.tokens, strict=True):
            np.testing.assert_array_equal(x, every.tokens[np.searchsorted(every.times, t, side="right") - 1])
        np.testing.assert_array_equal(some.at([0, 60, 300]), every.at([0, 60, 300]))
    k = int(np.searchsorted(every.times, 60, side="right")) - 1
    np.testing.assert_array_equal(every.at(60), every.tokens[k])


def test_records_and_states_at_times_beyond_int64() -> None:
    x, law = af.tokens.polygon(3), af.Softmax(beta=40.0)
    run = af.simulate(x, law, af.Jumps(0.5), until=10**30, seed=0, record=[10**20, 10**30])
    assert run.times.tolist() == [0, 10**20, 10**30]
    first = af.simulate(x, law, af.Jumps(0.5), until=10**30, seed=0).times[1]
    np.testing.assert_array_equal(run.at(first - 1), x)
    assert (run.at(first) != x).any()
    assert run.at([1, first]).shape == (2, 3, 2)
    for wrong in (10**31, "soon", [0.5], -1):
        with pytest.raises(af.InputError):
            run.at(wrong)


# Seeds, watchers, stores


def test_seeds_reproduce() -> None:
    for literal in (False, True):
        runs = [af.simulate(X, SOFT, af.Jumps(0.2, literal), until=50, seed=seed) for seed in (3, 3, 4)]
        np.testing.assert_array_equal(runs[0].tokens, runs[1].tokens)
        np.testing.assert_array_equal(runs[0].times, runs[1].times)
        assert not np.array_equal(runs[0].final, runs[2].final)


def test_a_run_without_a_seed_says_which_it_drew() -> None:
    run = af.simulate(X, SOFT, af.Jumps(0.2), until=50)
    other = af.simulate(X, SOFT, af.Jumps(0.2), until=50)
    assert run.seed != other.seed
    again = af.simulate(X, SOFT, af.Jumps(0.2), until=50, seed=run.seed)
    np.testing.assert_array_equal(run.tokens, again.tokens)
    assert af.simulate(X, SOFT, af.Layers(0.2), until=5).seed is None


def test_watchers_look_at_moves() -> None:
    run = af.simulate(X, SOFT, af.Jumps(0.3), until=10**6, seed=0, watch=[When(lambda t, x: t > 10)])
    assert run.stopped.startswith("stopped at step 1")
    slow = af.simulate(
        af.tokens.polygon(3), af.Softmax(beta=40.0), af.Jumps(0.3), 10**28, seed=0, watch=[Converged(1e-9)]
    )
    assert slow.stopped.startswith("at rest within 1e-09 at step")
    assert len(slow) == 2


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize("seed", [0, None])
def test_a_stored_chain_goes_on_bit_for_bit(
    tmp_path: Path, dies: Any, literal: bool, seed: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("zarr")
    # Several stretches in a short run.
    monkeypatch.setattr("attnflow.motions.jumps.steps_per_stretch", lambda n: 100)
    x, motion = af.tokens.gaussian(n=4, d=2, seed=0), af.Jumps(0.01, literal)
    place, options = tmp_path / "run.zarr", {"until": 500, "seed": seed, "record": 50}
    with pytest.raises(KeyboardInterrupt):
        af.simulate(x, SOFT, motion, store=place, watch=[Checkpoint(0), dies(1)], **options)  # type: ignore[arg-type]
    resumed = af.simulate(x, SOFT, motion, store=place, **options)  # type: ignore[arg-type]
    straight = af.simulate(x, SOFT, motion, **{**options, "seed": resumed.seed})  # type: ignore[arg-type]
    assert resumed.times.tobytes() == straight.times.tobytes()
    assert resumed.tokens.tobytes() == straight.tokens.tobytes()
    assert resumed.report == straight.report
    back = af.load(place)
    assert isinstance(back.motion, af.Jumps)
    assert back.seed == resumed.seed
    np.testing.assert_array_equal(back.at(277), straight.at(277))


def test_stores_refuse_times_beyond_int64(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    with refused("int64"):
        af.simulate(X, SOFT, af.Jumps(0.1), until=2**63, store=tmp_path / "run.zarr")
    with refused("int64"):
        af.simulate(X, SOFT, af.Jumps(0.1), until=2**63).save(tmp_path / "run.zarr")


# Functions of time, chains, refusals


def test_functions_of_time_take_every_step() -> None:
    run = af.simulate(X, SOFT, af.Jumps(gamma=lambda t: 1.0 if t == 2 else 1e-9), until=3, seed=0)
    assert run.times.tolist() == [0, 1, 2, 3]
    assert np.abs(run.tokens[2] - X).max() < 1e-8
    law = af.Softmax(beta=lambda t: 1e6 if t < 5 else 0.0)
    x = af.tokens.polygon(3)
    run = af.simulate(x, law, af.Jumps(gamma=0.5), until=20, seed=0)
    assert (run.tokens[:6] == x).all()
    assert (run.tokens[-1] != x).any()


def test_the_command_line_knows_the_chain(capsys: pytest.CaptureFixture[str]) -> None:
    words = "simulate --cloud polygon --k 3 --law softmax --beta 40 --motion jumps --gamma 0.2 --until 1e28 --seed 0"
    assert main(words.split()) == 0
    assert "reached step 1e+28, as asked" in capsys.readouterr().out
    assert main([*words.split(), "--literal", "maybe"]) == 2
    assert "literal is 'maybe'" in capsys.readouterr().err


def test_one_chain_is_a_run() -> None:
    times, finals = chains(X, SOFT, 0.2, 50, 1, np.random.default_rng(9))
    assert times.tolist() == [50]
    np.testing.assert_array_equal(finals[0], final(X, SOFT, af.Jumps(0.2), 50, 9))
    seen: list[int] = []
    times, finals = chains(X, SOFT, 0.2, 50, 1, 9, lambda x, t: seen.append(t) or len(seen) == 4)  # type: ignore[func-returns-value]
    run = af.simulate(X, SOFT, af.Jumps(0.2), until=50, seed=9)
    assert times[0] == seen[3] == run.times[4]
    np.testing.assert_array_equal(finals[0], run.tokens[4])


@pytest.mark.parametrize("until", [300, 10**30])
def test_each_chain_ends_with_its_own_time_and_state(until: int) -> None:
    """Chains that advance together stop at different moves; what `stop` saw is what is returned, in order."""
    seen: dict[bytes, int] = {}
    far = 0.5

    def stop(x: Array, t: int) -> bool:
        assert type(t) is int
        ended = bool(np.abs(x - X).max() > far)
        if ended:
            seen[x.tobytes()] = t
        return ended

    times, finals = chains(X, af.Softmax(beta=3.0), 0.1, until, 400, 0, stop)
    assert len(set(times.tolist())) > 20
    assert times.dtype == (np.int64 if until < 2**63 else object)
    for t, x in zip(times.tolist(), finals, strict=True):
        left = bool(np.abs(x - X).max() > far)
        assert t == (seen[x.tobytes()] if left else until)
    again, same = chains(X, af.Softmax(beta=3.0), 0.1, until, 400, 0, stop)
    assert times.tolist() == again.tolist()
    np.testing.assert_array_equal(finals, same)


def test_small_blocks_of_memory_change_no_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 500)
    for law in (SOFT, af.HegselmannKrause(eps=1.2)):
        times, finals = chains(X, law, 0.3, 1, 4000, 1)
        assert times.tolist() == [1] * 4000
        assert agrees(Counter(map(key, finals)), one_step(X, law, 0.3))


def test_chains_together_agree_with_literal_runs() -> None:
    """The states after many moves, of chains together and of runs one step after the other."""
    _, together = chains(X, af.Softmax(beta=4.0), 0.25, 40, 4000, 0)
    literal = ends(True, RUNS)
    for i, k in itertools.product(range(4), range(2)):
        assert stats.ks_2samp(np.round(together[:, i, k], 9), np.round(literal[:, i, k], 9)).pvalue > LEVEL / 8


@pytest.mark.parametrize("masses", [None, [1.0, 2.0, 0.5, 3.0]])
@pytest.mark.parametrize(
    "law",
    [
        SOFT,
        af.Softmax(beta=-2.0),
        af.HegselmannKrause(eps=1.2),
        af.Localmax(delta=0.3),
        af.Localmax(delta=0.3, threshold="relative", B=[[1.0, 0.4], [-0.2, 0.8]]),
        af.Localmax(delta=0.3, threshold="normalized"),
        *(af.Hardmax(ties=ties) for ties in ("tokens", "points", "first")),
    ],
)
def test_weights_of_many_configurations_are_those_of_each(law: af.Law, masses: Any) -> None:
    """Ties and copies differ from one configuration to the next."""
    corners = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    x = np.array([X, corners, corners[[0, 0, 2, 3]], corners[[0, 2, 2, 0]] / 2, X[::-1]])
    w = None if masses is None else np.array(masses)
    together = Rule(law, 0.5, w).weights(x)
    np.testing.assert_allclose(together, [law.weights(one, masses=w) for one in x], rtol=1e-13, atol=1e-300)
    held = Rule(law, 0.5, w, free=np.arange(4) == 2).weights(x)
    np.testing.assert_array_equal(held[:, 2], together[:, 2])
    assert not held[:, [0, 1, 3]].any()


def test_ties_refused_in_one_of_many_configurations() -> None:
    law = af.Hardmax(ties="error")
    x = np.array([X, [[-1.0, 0.1], [1.0, 0.5], [1.0, -0.5], [0.3, 0.0]]])
    with refused("token 3 ties between token 1"):
        Rule(law, 0.5).weights(x)


def heads() -> af.Law:
    return af.Heads([SOFT, SOFT])


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "gamma zero": (lambda: af.Jumps(0.0), "gamma is 0"),
    "gamma large": (lambda: af.Jumps(1.5), "gamma is 1.5"),
    "gamma a word": (lambda: af.Jumps("half"), "gamma is 'half'"),  # type: ignore[arg-type]
    "gamma later": (lambda: af.simulate(X, SOFT, af.Jumps(lambda t: 2.0), 3), r"gamma\(0\) is 2"),
    "literal": (lambda: af.Jumps(0.5, literal=1), "literal is 1"),  # type: ignore[arg-type]
    "until": (lambda: af.simulate(X, SOFT, af.Jumps(0.5), until=2.5), "give a whole number"),
    "until too far": (lambda: af.simulate(X, SOFT, af.Jumps(0.5), until=10**400), "beyond the range"),
    "heads": (lambda: af.simulate(X, heads(), af.Jumps(0.5), until=2), "heads"),
    "engine": (lambda: af.simulate(X, SOFT, af.Jumps(0.5), until=2, engine="fused"), "without engine 'fused'"),
    "scores": (lambda: af.simulate(1e149 * X, af.Softmax(B=1e50 * np.eye(2)), af.Jumps(0.5), 2), "leave the range"),
    "scores literal": (
        lambda: af.simulate(1e149 * X, af.Softmax(B=1e50 * np.eye(2)), af.Jumps(0.5, True), 2),
        "leave the range",
    ),
    "chains gamma": (lambda: chains(X, SOFT, 0.0, 5, 1, 0), "gamma is 0"),
    "chains until": (lambda: chains(X, SOFT, 0.5, -1, 1, 0), "until is -1"),
    "chains runs": (lambda: chains(X, SOFT, 0.5, 5, 0, 0), "runs is 0"),
    "chains heads": (lambda: chains(X, heads(), 0.5, 5, 1, 0), "heads"),
    "chains function": (lambda: chains(X, af.Softmax(beta=lambda t: t), 0.5, 5, 1, 0), "function of time"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused(name: str) -> None:
    call, words = REFUSED[name]
    with refused(words):
        call()
