"""When tokens move again, against plain loops, integrals, exact laws and literal runs."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused
from scipy.integrate import quad

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.figures.groups import groups

module = importlib.import_module("attnflow.measure.next_change")


def on_a_line(beta: float, gamma: float, radius: float) -> int:
    """Count the steps of tokens 1 and -1, a <- a - 2 a gamma / (1 + e^{2 beta a^2}), until they have moved so far."""
    a, steps = 1.0, 0
    while 1 - a <= radius:
        a -= 2 * a * gamma / (1 + math.exp(2 * beta * a * a))
        steps += 1
    return steps


@pytest.mark.parametrize("beta", [4.0, 5.0, 6.0])
@pytest.mark.parametrize("gamma", [0.1, 0.5])
def test_two_tokens_leave_when_a_plain_loop_says(beta: float, gamma: float) -> None:
    run = af.simulate([[1.0], [-1.0]], af.Softmax(beta=beta), af.Layers(gamma=gamma), until=1, record=[0])
    start = float(run.final[0, 0])
    assert start == pytest.approx(1.0, abs=1e-3)
    found = af.measure.next_change(run)
    assert found.radius == 0.02
    expected = on_a_line(beta, gamma, found.radius)
    assert expected > 30
    assert found.time == pytest.approx(1 + expected, rel=0.05)


@pytest.mark.parametrize("beta", [20.0, 100.0, 300.0])
def test_two_tokens_leave_when_the_integral_says(beta: float) -> None:
    """Steps per way are (1 + e^{2 beta a^2}) / (2 a gamma): up to 10^262 of them, and no run waits for that."""
    run = af.simulate([[1.0], [-1.0]], af.Softmax(beta=beta), af.Layers(gamma=0.1), until=10)
    found = run.next_change
    # The largest exponential is taken out, which quad would not like.
    part = quad(lambda a: (math.exp(-2 * beta) + math.exp(2 * beta * (a * a - 1))) / (0.2 * a), 0.98, 1.0, epsrel=1e-10)
    expected = math.log(part[0]) + 2 * beta
    assert math.log(found.time) == pytest.approx(expected, abs=1e-3)
    power = math.floor(expected / math.log(10))
    digits = f"{math.exp(expected - power * math.log(10)):.1f}"
    assert str(found) == f"expected to move again near step {digits} * 10^{power}"


@pytest.mark.parametrize(("beta", "seed"), [(3.0, 0), (3.5, 3), (4.0, 3)])
def test_layers_in_the_plane_leave_when_a_literal_run_does(beta: float, seed: int) -> None:
    x0 = af.tokens.gaussian(n=12, d=2, seed=seed)
    run = af.simulate(x0, af.Softmax(beta=beta), af.Layers(gamma=0.2), until=10**5, watch=[af.watch.Converged(1e-5)])
    assert run.stopped.startswith("at rest within 1e-05 at step")
    found, rest = run.next_change, run.final
    left = af.watch.When(lambda t, x: bool((np.linalg.norm(x - rest, axis=1) > found.radius).any()))
    literal = af.simulate(rest, af.Softmax(beta=beta), af.Layers(gamma=0.2), until=10**5, record=10**5, watch=[left])
    assert found.time == pytest.approx(run.times[-1] + literal.times[-1], rel=0.02)
    assert found.time > run.times[-1] + 100


def test_clusters_are_followed_as_masses() -> None:
    """Forty tokens in three clusters: as three masses, the same step."""
    corners, sizes = af.tokens.polygon(3), [30, 6, 4]
    x0 = np.repeat(corners, sizes, axis=0) + 1e-9 * af.tokens.gaussian(40, 2, seed=0)
    law, layers = af.Softmax(beta=12.0), af.Layers(gamma=0.1)
    many, few = (
        af.simulate(x0, law, layers, until=50).next_change,
        af.simulate(corners, law, layers, until=50, masses=np.array(sizes, float)).next_change,
    )
    assert many.time == pytest.approx(few.time, rel=1e-3)
    assert many.time > 10**5


@pytest.mark.parametrize(
    ("law", "motion"),
    [
        (af.Hardmax(), af.Layers(gamma=0.3)),
        (af.Hardmax(B=[[2.0, 1.0], [-1.0, 2.0]]), af.Layers(alpha=0.5)),
        (af.Hardmax(), af.Layers(gamma=lambda t: 2 / (t + 2))),
        (af.Localmax(delta=0.3), af.Layers(gamma=0.3)),
        (af.Localmax(delta=0.1, threshold="normalized"), af.Layers(gamma=0.3)),
        (af.HegselmannKrause(eps=0.4), af.Layers(gamma=0.5)),
        (af.Hardmax(), af.HardmaxFlow()),
        (af.Hardmax(), af.Jumps(gamma=0.3)),
    ],
)
def test_clusters_that_are_deaf_to_each_other_rest_for_ever(law: af.Law, motion: af.motions.Motion) -> None:
    x0 = af.tokens.gaussian(n=40, d=2, seed=3)
    run = af.simulate(x0, law, motion, until=300, seed=0)
    found = run.next_change
    assert found.time == math.inf
    assert str(found) == "at rest for ever: no cluster hears another"
    later = af.simulate(run.final, law, motion, until=2000, seed=0, record=[0])
    assert np.linalg.norm(later.final - run.final, axis=1).max() <= found.radius


@pytest.mark.parametrize("relative", ["additive", "relative", "normalized"])
def test_separation_holds_all_over_the_hulls(relative: str) -> None:
    """Whatever points of their hulls the groups move to, no weight between them is positive."""
    rng = np.random.default_rng(0)
    separated = 0
    for _ in range(60):
        corners, B = af.tokens.polygon(4), np.eye(2) + 0.3 * rng.standard_normal((2, 2))
        groups = np.repeat(np.arange(4), 5)
        x = corners[groups] + rng.uniform(0, 0.2) * rng.uniform(-1, 1, (20, 2))
        law = af.Localmax(delta=rng.uniform(0, 0.6), B=B, threshold=relative)
        apart = groups[:, None] != groups
        if not law.separates(x, groups):
            continue
        separated += 1
        for _ in range(20):
            parts = rng.dirichlet(np.full(5, 0.3), size=20)
            y = np.stack([p @ x[groups == g] for p, g in zip(parts, groups, strict=True)])
            assert not law.weights(y)[apart].any()
    assert 5 < separated < 55


def test_separation_is_refused_where_somebody_hears() -> None:
    x, groups = np.array([[1.0, 0.0], [-1.0, 0.0], [0.2, 0.0]]), np.arange(3)
    assert not af.Hardmax().separates(x, groups)
    assert af.Hardmax().separates(x[:2], groups[:2])
    assert not af.HegselmannKrause(eps=0.8).separates(x, groups)
    assert af.HegselmannKrause(eps=0.79).separates(x, groups)
    assert not af.HegselmannKrause(eps=0.79).separates(x, np.array([0, 1, 0]))
    assert not af.Softmax(beta=1e6).separates(x, groups)

    class Own(af.Hardmax):
        def log_weights(self, *args: Any, **options: Any) -> Array:
            return super().log_weights(*args, **options)

    assert not Own().separates(x[:2], groups[:2])  # whose weights may be anything


def test_the_chain_waits_as_its_exact_law_says() -> None:
    triangle, law = af.tokens.polygon(3), af.Softmax(beta=20.0)
    run = af.simulate(triangle, law, af.Jumps(gamma=0.3), until=7, seed=0)
    exact = af.measure.exit_times(triangle, law, gamma=0.3, radius=run.next_change.radius, runs=6).exact
    assert exact is not None
    assert run.next_change.time == pytest.approx(7 + exact.median, rel=1e-9)


@pytest.mark.parametrize("beta", [6.0, 20.0])
def test_the_circle_waits_as_the_integral_says(beta: float) -> None:
    """Two tokens at an angle phi: phi' = -2 sin(phi) w / (1 + w), w = e^{beta (cos phi - 1)}; each turns by half."""
    x0 = np.array([[1.0, 0.0], [math.cos(1.8), math.sin(1.8)]])

    def slowness(phi: float) -> float:
        w = math.exp(beta * (math.cos(phi) - 1))
        return (1 + w) / (2 * w * math.sin(phi))

    for motion, pace in ((af.SphereFlow(), 1.0), (af.SphereLayers(dt=0.1), 11.0), (af.SphereLayers(dt=1.0), 2.0)):
        run = af.simulate(x0, af.Softmax(beta=beta), motion, until=2)
        turned = 4 * math.asin(run.next_change.radius / 2)
        expected = quad(slowness, 1.8 - turned, 1.8)[0]
        assert run.next_change.time == pytest.approx(pace * expected, rel=0.1, abs=2)


def test_layers_on_the_sphere_leave_when_a_literal_run_does() -> None:
    x0 = af.tokens.sphere(n=7, d=2, seed=3)
    motion = af.SphereLayers(dt=0.5)
    run = af.simulate(x0, af.Softmax(beta=9.0), motion, until=100)
    found, rest = run.next_change, run.final
    left = af.watch.When(lambda t, x: bool((np.linalg.norm(x - rest, axis=1) > found.radius).any()))
    literal = af.simulate(rest, af.Softmax(beta=9.0), motion, until=10**4, record=10**4, watch=[left])
    assert found.time == pytest.approx(run.times[-1] + literal.times[-1], rel=0.2)


def test_what_still_moves_and_what_is_over() -> None:
    x0 = af.tokens.gaussian(n=30, d=2, seed=0)
    going = af.simulate(x0, af.Softmax(beta=9.0), af.Layers(gamma=0.1), until=5)
    assert str(going.next_change) == "still moving at step 5"
    hard = af.simulate(x0, af.Hardmax(), af.Layers(gamma=0.1), until=5)
    assert str(hard.next_change) == "still moving at step 5"
    one = af.simulate(x0, af.Softmax(beta=0.0), af.Layers(gamma=1.0), until=1)
    assert one.next_change.time == math.inf
    assert str(one.next_change) == "at rest for ever: all tokens are at one place"
    gathering = af.simulate(x0, af.Softmax(beta=0.1), af.Layers(gamma=0.1), until=100)
    assert gathering.next_change.time == math.inf
    assert str(gathering.next_change) == "no token moves farther than the radius again: all of them come to one place"
    later = af.simulate(gathering.final, af.Softmax(beta=0.1), af.Layers(gamma=0.1), until=2000)
    assert 0 < np.linalg.norm(later.final - gathering.final, axis=1).max() < gathering.next_change.radius
    slow = af.simulate([[1.0], [-1.0]], af.Softmax(beta=1e4), af.Layers(gamma=0.1), until=5)
    assert str(slow.next_change) == "at rest: no change within 10^300 steps or units of time"
    tie = af.simulate([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]], af.Hardmax(), af.Layers(gamma=0.1), until=5)
    assert tie.next_change.time is None  # the third token hears both, by a tie that rounding could break


NOT_PREDICTED: dict[str, tuple[Callable[[], af.Trajectory], str]] = {
    "flow": (lambda: af.simulate([[1.0], [0.0]], af.Softmax(), af.Flow(), 0.1), "not known for Flow"),
    "b": (
        lambda: af.simulate(af.tokens.polygon(4), af.Softmax(beta=12.0), af.SphereLayers(dt=0.1, b=[0.0, 0.05]), 3),
        "with a bias b",
    ),
    "V": (lambda: af.simulate([[1.0], [0.0]], af.Softmax(), af.Layers(V=[[1.0]]), 2), "with a matrix V"),
    "beta": (
        lambda: af.simulate([[1.0], [0.0]], af.Softmax(beta=lambda t: 1 + t), af.Layers(gamma=0.1), 2),
        "a parameter of Softmax is a function of time",
    ),
    "gamma": (
        lambda: af.simulate([[1.0], [0.0]], af.Softmax(), af.Layers(gamma=lambda t: 1 / (t + 2)), 2),
        "a parameter of Layers is a function of time",
    ),
    "many": (
        lambda: af.simulate(af.tokens.gaussian(500, 2, seed=0), af.Softmax(), af.Layers(gamma=0.1), 1),
        "these are 500 places of tokens",
    ),
}


@pytest.mark.parametrize("name", NOT_PREDICTED)
def test_what_is_not_predicted_says_so(name: str) -> None:
    make, words = NOT_PREDICTED[name]
    found = make().next_change
    assert found.time is None
    assert str(found).startswith("next change not predicted: ")
    assert words in str(found)


def test_a_run_without_its_law_says_so(tmp_path: Path) -> None:
    af.simulate([[1.0], [0.0]], af.Softmax(beta=lambda t: 1.0), af.Layers(gamma=0.1), 2).save(tmp_path / "run.zarr")
    assert "loaded without its law" in str(af.load(tmp_path / "run.zarr").next_change)
    with refused("expected a run"):
        af.measure.next_change(np.ones((2, 2)))  # type: ignore[arg-type]


def dots(x: Array, width: float) -> int:
    """Count by hand the groups of points that a picture of this width shows as one dot."""
    left, found = list(range(len(x))), 0
    while left:
        group = [left.pop()]
        while group:
            i = group.pop()
            near = [j for j in left if np.linalg.norm(x[i] - x[j]) <= width / 100]
            left = [j for j in left if j not in near]
            group += near
        found += 1
    return found


def test_numbers_and_pictures_count_the_same_clusters() -> None:
    """A run that ends with tokens a little apart: the summary, the picture and an eye count alike."""
    x0 = af.tokens.gaussian(n=60, d=2, seed=0)
    run = af.simulate(x0, af.Hardmax(), af.Layers(alpha=0.5), until=12)
    width = float(np.linalg.norm(np.ptp(np.concatenate([x0, run.final]), axis=0)))
    end = af.measure.summary(run)
    assert end.clusters == groups(run, run.final, 12).clusters == dots(run.final, width)
    assert end.tol == 0.01
    assert end.clusters < af.measure.summary(run, tol=1e-3).clusters  # where a picture shows one dot


def test_a_prediction_that_is_refused_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*given: Any) -> Any:
        raise af.InputError("these tokens are not followed")

    run = af.simulate([[1.0], [0.0]], af.Softmax(), af.Layers(gamma=0.5), until=2)
    monkeypatch.setattr(module, "_predicted", refusing)
    found = af.measure.next_change(run)
    assert found.time is None
    assert "these tokens are not followed" in str(found)


def test_many_tokens_of_a_chain_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    run = af.simulate(af.tokens.polygon(3), af.Softmax(beta=40.0), af.Jumps(gamma=0.1), until=5, seed=0)
    monkeypatch.setattr(module, "MOST_TOKENS", 2)
    assert "these are 3 tokens, and at most 2 are looked at" in str(af.measure.next_change(run))


def test_what_takes_too_long_to_follow_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values push tokens around for ever: they are followed over few states, and then no further."""
    monkeypatch.setattr(module, "MOST", module.Effort(places=100, states=5))
    run = af.simulate(
        af.tokens.sphere(n=6, d=3, seed=0), af.Softmax(beta=9.0), af.SphereFlow(V=np.diag([1, 0.5, -0.3])), until=200.0
    )
    found = module._next_change(run, module.CLOSE, module.MOST)
    assert found.time is None
    assert "where following them took too long" in str(found)
