"""Claims on the sphere: reference values, closed forms, hypotheses, cases that must stay undecided."""

from __future__ import annotations

import math
import os
import re
from typing import Any

import numpy as np
import pytest
from experiments import experiment
from numpy.typing import NDArray
from refusals import refused

import attnflow as af
from attnflow.claims.check import decide
from attnflow.claims.experiment import Experiment
from attnflow.claims.instances import read
from attnflow.claims.sphere import collapse, hemisphere, metastability, runs
from attnflow.claims.sphere.metastability import early_by
from attnflow.claims.statistics import clopper_pearson
from attnflow.measure.phase_diagram import equiangular, passing

Array = NDArray[np.float64]
ALL = "ATTNFLOW_EXAMPLES" in os.environ


def on_circle(*angles: float) -> Array:
    return np.column_stack([np.cos(angles), np.sin(angles)])


@pytest.mark.parametrize("normalized", [True, False])
def test_energy_of_two_tokens_is_integrated(normalized: bool) -> None:
    verdict = af.check("sphere/energy", tokens=on_circle(0.0, 2.0), beta=2.0, normalized=normalized, until=4.0)
    assert verdict.outcome == "holds"


@pytest.mark.parametrize("motion", [af.SphereFlow(normalized=False), af.SphereFlow(V=1.001 * np.eye(2))])
def test_energy_notices_another_clock(motion: af.motions.Motion) -> None:
    """The energy still grows, but not by the integral of the rate of SA."""
    verdict = af.check("sphere/energy", tokens=on_circle(0.0, 2.0), beta=0.7, until=4.0, motion=motion)
    assert verdict.outcome == "violated"
    assert "integral" in verdict.because


def test_energy_needs_a_positive_beta() -> None:
    verdict = af.check("sphere/energy", tokens=on_circle(0.0, 2.0), beta=-1.0)
    assert (verdict.outcome, verdict.where) == ("hypotheses not met", (0, None))
    assert "beta > 0" in verdict.because


@pytest.mark.parametrize("until", [1e3, 1e9] if ALL else [1e9])
def test_energy_is_integrated_over_long_times(until: float) -> None:
    assert af.check("sphere/energy", tokens=np.eye(3), until=until).outcome == "holds"
    slower = af.check("sphere/energy", tokens=np.eye(3), until=until, motion=af.SphereFlow(V=(1 - 1e-6) * np.eye(3)))
    assert slower.outcome == "violated"
    assert "integral" in slower.because


def test_energy_of_merges_far_apart_is_integrated() -> None:
    """Two tokens merge at once, and with the third after a time of e^{beta (1 - cos 2.4)}, about 10^6."""
    tokens = on_circle(0.0, 0.1, 2.4)
    assert af.check("sphere/energy", tokens=tokens, beta=8.0, until=1e8).outcome == "holds"
    run = af.simulate(tokens, af.Softmax(beta=8.0), af.SphereFlow(), 1e8, record=[1e3, 1e8])
    assert [af.measure.clusters(x, tol=1e-3).count for x in run.tokens[-2:]] == [2, 1]


def test_energy_of_fast_tokens_is_integrated_over_a_long_time() -> None:
    tokens = on_circle(0.0, 0.5, 1.9)
    assert af.check("sphere/energy", tokens=tokens, beta=3.0, normalized=False, until=200.0).outcome == "holds"


def test_energy_is_about_flows() -> None:
    with refused("SphereLayers moves in steps"):
        af.check("sphere/energy", tokens=np.eye(3), motion=af.SphereLayers(dt=0.1))


def test_a_token_outside_the_hemisphere_is_named() -> None:
    verdict = af.check("sphere/hemisphere", tokens=on_circle(0.0, 0.4, 2.0), w=[1.0, 0.0])
    assert (verdict.outcome, verdict.where) == ("hypotheses not met", (0, 2))
    assert "an open hemisphere" in verdict.because


def test_a_triangle_around_the_centre_is_in_no_hemisphere() -> None:
    verdict = af.check("sphere/hemisphere", tokens=on_circle(0.0, 2.1, 4.2))
    assert verdict.outcome in ("hypotheses not met", "undecided")


def test_a_short_run_does_not_decide_the_limit() -> None:
    tokens = on_circle(0.0, 1.5, 3.0)
    assert af.check("sphere/hemisphere", tokens=tokens, until=0.1).outcome == "undecided"
    assert af.check("sphere/hemisphere", tokens=tokens, until=30.0).outcome == "holds"


@pytest.mark.parametrize("normalized", [True, False])
def test_hemisphere_for_any_queries_and_keys(normalized: bool) -> None:
    B = np.array([[0.3, -1.0], [0.8, -0.2]])
    verdict = af.check("sphere/hemisphere", tokens=on_circle(0.0, 1.0, 2.0), B=B, normalized=normalized)
    assert verdict.outcome == "holds"


@pytest.mark.parametrize("motion", [af.SphereFlow(V=np.zeros((2, 2))), af.SphereFlow(V=0.9 * np.eye(2))])
def test_hemisphere_notices_slower_tokens(motion: af.motions.Motion) -> None:
    """Frozen tokens do not contract; tokens at nine tenths of the speed have another local rate."""
    verdict = af.check("sphere/hemisphere", tokens=on_circle(0.0, 0.3, 0.7), motion=motion)
    assert verdict.outcome == "violated"


@pytest.mark.parametrize(("normalized", "rate"), [(True, 2.0), (False, 2 * math.e)])
def test_local_rate(normalized: bool, rate: float) -> None:
    """1 - <x_i, x_j> of two close tokens against e^{-2t} (SA) and e^{-2 e^beta t} (USA)."""
    run = af.simulate(on_circle(0.0, 1e-3), af.Softmax(), af.SphereFlow(normalized=normalized, rtol=1e-11), until=1.0)
    gap = runs.pair_gaps(run.tokens)[:, 0, 1]
    np.testing.assert_allclose(gap[-1] / gap[0], np.exp(-rate), rtol=1e-4)


@pytest.mark.parametrize(("n", "d", "p"), [(3, 2, 0.75), (4, 3, 0.875), (2, 2, 1.0), (6, 3, 0.5)])
def test_wendel(n: int, d: int, p: float) -> None:
    assert hemisphere.wendel(n, d) == p
    rng = np.random.default_rng(0)
    found = sum(runs.best_axis(runs.normalised(rng.standard_normal((n, d))))[1] > 1e-12 for _ in range(1000))
    low, high = clopper_pearson(found, 1000)
    assert low <= p <= high


def test_draws_refute_another_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = af.tokens.sphere(n=6, d=3, seed=0) * [1, 1, 0.1] + [0, 0, 2]
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    instance: dict[str, Any] = {"tokens": tokens, "draws": 400, "until": 20.0}
    assert af.check("sphere/hemisphere", **instance).outcome == "holds"
    monkeypatch.setattr(hemisphere, "wendel", lambda n, d: 0.7)
    verdict = af.check("sphere/hemisphere", **instance)
    assert (verdict.outcome, verdict.certified) == ("violated", "statistical")


def test_discrete_hemisphere_for_a_matrix() -> None:
    swap = np.eye(3)[[1, 2, 0]]
    verdict = af.check("sphere/hemisphere-discrete", tokens=on_circle(0.0, 1.5, 3.0), P=swap, dt=100.0)
    assert verdict.outcome == "holds"
    with refused("row-stochastic"):
        af.check("sphere/hemisphere-discrete", tokens=on_circle(0.0, 1.5, 3.0), P=2 * swap)


@pytest.mark.parametrize("tokens", [on_circle(0, np.pi), on_circle(0, *2 * np.pi / 3 * np.array([1, 2])), np.eye(3)])
def test_every_start_is_refuted_at_rest_only(tokens: Array) -> None:
    """Antipodes and triangles rest; orthogonal tokens do not."""
    verdict = af.check("sphere/collapse/every-start", tokens=tokens)
    assert verdict.outcome == ("holds" if len(tokens) == tokens.shape[1] == 3 else "violated")
    if verdict.outcome == "violated":
        assert "sphere/collapse" in verdict.because
        assert af.check("sphere/collapse/every-start", tokens=tokens, until=400.0).outcome == "violated"
        assert af.check("sphere/collapse", tokens=tokens).outcome == "hypotheses not met"


def test_a_slow_start_is_not_at_rest() -> None:
    """At beta = 60 two tokens at a right angle move too slowly for floats, but they move."""
    verdict = af.check("sphere/collapse/every-start", tokens=np.eye(3)[:2], beta=60.0)
    assert verdict.outcome == "undecided"


def test_collapse_on_the_circle_needs_a_small_beta() -> None:
    for beta in (-0.16, 5.0):
        assert af.check("sphere/collapse", tokens=on_circle(0.0, 1.0, 3.5), beta=beta).outcome == "hypotheses not met"
    assert af.check("sphere/collapse", tokens=on_circle(0.0, 1.0, 3.5), beta=1.0).outcome == "holds"


@pytest.mark.parametrize(
    ("beta", "met"), [(-0.17, False), (-0.16, True), (0.0, False), (1.0, False), (1.01, True), (5.0, True)]
)
def test_what_is_announced_of_the_circle_is_not_what_is_proved(beta: float, met: bool) -> None:
    verdict = af.check("sphere/collapse/announced", tokens=on_circle(0.0, 1.0, 3.5), beta=beta)
    assert verdict.outcome == ("holds" if met else "hypotheses not met")


def test_collapse_is_undecided_before_a_hemisphere_is_reached() -> None:
    assert af.check("sphere/collapse", tokens=on_circle(0.0, 2.0, 4.0), until=0.01).outcome == "undecided"


def test_an_unstable_rest_is_not_attracting() -> None:
    """The same configuration, at rest, attracts under V = -I and repels under V = I."""
    claim = af.claims.get("sphere/collapse")
    instance = read(claim, {"tokens": on_circle(0.0, 2 * np.pi / 3, 4 * np.pi / 3)})
    law, motion = claim.setting.model(instance)
    x = np.asarray(instance["tokens"])
    assert collapse.attracting_rate(af.claims.Experiment(instance, law, motion), x) == 0
    assert collapse.attracting_rate(af.claims.Experiment(instance, law, af.SphereFlow(V=-np.eye(2))), x) > 0.1


@pytest.mark.parametrize(
    ("beta", "normalized", "time"), [(1.0, True, 5.909), (3.0, True, 6.148), (1.0, False, 3.558), (3.0, False, 2.005)]
)
def test_equiangular_times(beta: float, normalized: bool, time: float) -> None:
    """When 128 orthogonal tokens reach <x_i, x_j> = 1 - 1e-3."""
    times = np.array([0.0, time - 1e-3, time + 1e-3])
    g = equiangular(times, 128, beta, normalized)
    assert g[1] < 0.999 < g[2]


def test_orthogonal_tokens() -> None:
    assert af.check("sphere/orthogonal-start", tokens=np.eye(16), beta=3.0, until=6.0).outcome == "holds"
    tilted = np.eye(3)
    tilted[0, 1] = 1e-6
    verdict = af.check("sphere/orthogonal-start", tokens=tilted, until=1.0)
    assert (verdict.outcome, verdict.where) == ("hypotheses not met", (0, 0))


# The case of two antipodal caps, with five tokens in each, at the rims that face each other.
FACING: dict[str, Any] = {
    "tokens": on_circle(*np.linspace(0.0, 0.1414, 5), *(np.pi - np.linspace(0.0, 0.1414, 5))),
    "centres": [[1.0, 0.0], [-1.0, 0.0]],
    "eps": 0.01,
    "beta": 9.0,
}


@pytest.mark.parametrize("normalized", [True, False])
def test_caps_hold_their_tokens_until_the_bound(normalized: bool) -> None:
    assert af.check("sphere/metastability", **FACING, normalized=normalized).outcome == "holds"


def test_caps_lose_their_tokens_past_the_bound() -> None:
    """The same check fails well past the bound: in the clock of the weights, some ten times."""
    rims = {**FACING, "tokens": on_circle(*[0.1414] * 5, *[np.pi - 0.1414] * 5)}
    assert af.check("sphere/metastability", **rims, normalized=False).outcome == "holds"
    late = af.check("sphere/metastability", **rims, normalized=False, factor=12.0)
    assert late.outcome == "violated"
    assert late.where is not None
    e = experiment("sphere/metastability", **rims, normalized=False)
    assert late.where[0] > 5 * metastability.time_of_the_bound(e)


def test_staircase_names_its_merges() -> None:
    angles, until = ((0.0, 0.05, 1.9, 3.7), 1e8) if ALL else ((0.0, 0.05, 1.3), 1e5)
    verdict = af.check("sphere/staircase", tokens=on_circle(*angles), beta=10.0, until=until)
    assert verdict.outcome == "holds"
    assert re.search(r"merges \(at t = .* \+- .*, .* \+- ", verdict.because)
    assert af.check("sphere/staircase", tokens=on_circle(0.0, 1.0), beta=2.0).outcome == "hypotheses not met"


def test_phase_diagram_is_about_random_tokens_in_many_dimensions() -> None:
    verdict = af.check("sphere/phase-diagram", n=3, beta=2.0, runs=24 if ALL else 12)
    assert (verdict.outcome, verdict.certified) == ("holds", "statistical")
    assert af.check("sphere/phase-diagram", n=4, runs=24 if ALL else 12, law=af.Softmax(beta=1.3)).outcome == "violated"
    assert af.check("sphere/phase-diagram", n=1).outcome == "hypotheses not met"
    assert af.claims.get("sphere/phase-diagram").status == "derived"
    with refused("no parameter 'tokens' any more: it is about random tokens"):
        af.check("sphere/phase-diagram", tokens=af.tokens.sphere(8, 2))


def test_given_tokens_merge_whenever_they_like() -> None:
    """What is noted beside the phase diagram: angles decide for two tokens, and d = n = 2 is too small a dimension."""
    due = float(passing(np.array([1.0]), 2, 0.999)[0])
    for angle, met in ((np.pi / 18, True), (0.99 * np.pi, False)):
        run = af.simulate(on_circle(0.0, angle), af.Softmax(beta=1.0), af.SphereFlow(), until=2.0)
        late = af.simulate(on_circle(0.0, angle), af.Softmax(beta=1.0), af.SphereFlow(), until=1.5 * due)
        assert (run.final[0] @ run.final[1] > 0.999) == met
        assert (late.final[0] @ late.final[1] > 0.999) == met
    starts = np.cos(np.linspace(0, np.pi, 2003)[1:-1])  # quantiles of a uniform angle
    times = np.array([due - early_by(g, 2, 1.0, True) for g in starts])
    assert 0.4 < ((times < due / 1.5) | (times > 1.5 * due)).mean() < 0.5


@pytest.mark.parametrize(("n", "beta", "normalized"), [(2, 1.0, True), (6, 3.0, True), (5, 0.5, False)])
def test_how_much_earlier_is_the_time_of_orthogonal_tokens(n: int, beta: float, normalized: bool) -> None:
    early = early_by(0.3, n, beta, normalized)
    np.testing.assert_allclose(equiangular(np.array([early]), n, beta, normalized), 0.3, rtol=1e-3)


def test_tokens_off_the_sphere_are_refused() -> None:
    with refused("norm"):
        af.check("sphere/energy", tokens=[[1.0, 1.0], [1.0, 0.0]])


def test_a_varying_beta_is_refused() -> None:
    with refused("beta"):
        af.check("sphere/energy", tokens=on_circle(0.0, 1.0), beta="1 + t")


@pytest.mark.parametrize("id", [claim.id for claim in af.claims.all() if claim.id.startswith("sphere/")])
def test_no_true_claim_is_violated(id: str) -> None:
    """On the first sample in make test, and on all in make test-all."""
    claim = af.claims.get(id)
    if not ALL and id in ("sphere/phase-diagram", "sphere/staircase"):
        pytest.skip("long, and in test_broken_models on one instance: make test-all")
    for k in range(claim.setting.samples if ALL else 1):
        instance = read(claim, claim.setting.sample(np.random.default_rng([1, k]), k), 1)
        verdict = decide(claim, instance)
        assert verdict.outcome != "violated" or claim.refutable, verdict.because


def test_other_models_are_not_plain_and_attract_nothing_that_is_known() -> None:
    e = experiment("sphere/collapse/every-start", tokens=[[1.0, 0.0], [0.0, 1.0]])
    assert collapse._plain(e)
    assert not collapse._plain(Experiment(e.instance, af.Hardmax(), e.motion))
    assert collapse.attracting_rate(Experiment(e.instance, e.law, af.Layers(gamma=0.5)), np.eye(2)) == 0.0
