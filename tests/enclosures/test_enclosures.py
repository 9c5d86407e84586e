"""Balls around flows hold closed forms and references of fifty digits, and a wrong remainder is caught."""

from __future__ import annotations

from dataclasses import replace
from decimal import localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from larger import larger
from reference import DIGITS, decimals, solved, velocity
from refusals import refused

import attnflow as af
from attnflow.enclosures import Enclosure, enclose, steps
from attnflow.enclosures.circles import NotAnalytic
from attnflow.enclosures.fields import exponential
from attnflow.enclosures.numbers import arithmetic, ball, balls

MOTIONS: dict[str, Any] = {"space": af.Flow, "rescaled": af.RescaledFlow, "sphere": af.SphereFlow}


def holds(enclosure: Enclosure, tokens: Any) -> bool:
    """Say whether the balls at the end hold these tokens, given as exact numbers."""
    with arithmetic(400):
        return enclosure.reached and all(
            one.contains(ball(Fraction(value)))
            for one, value in zip(enclosure.final.ravel(), np.ravel(tokens), strict=True)
        )


def instance(seed: int) -> tuple[str, Any, Any, Any, float]:
    """Return a random flow of few tokens: its kind, its tokens, law and motion, and the reference of its field."""
    rng = np.random.default_rng([18, seed])
    kind = ("space", "rescaled", "sphere")[seed % 3]
    n, d = int(rng.integers(2, 4)), int(rng.integers(1, 3)) if kind != "sphere" else 2
    x, beta = rng.standard_normal((n, d)), float(rng.uniform(-1, 2))
    B = np.eye(d) + 0.3 * rng.standard_normal((d, d))
    V = rng.uniform(0.5, 1.5) * np.eye(d) if kind == "rescaled" else np.eye(d) + 0.3 * rng.standard_normal((d, d))
    sums = kind == "sphere" and bool(rng.integers(2))
    motion = MOTIONS[kind](V=V, **({"normalized": not sums} if kind == "sphere" else {}))
    return kind, x, (af.Softmax(beta=beta, B=B), motion), velocity(kind, beta, B, V, sums), float(rng.uniform(0.2, 0.6))


# Seed 14 is the first with weights that are not divided by their sum.
@pytest.mark.parametrize("seed", [*range(3), 14, *(pytest.param(k, marks=larger) for k in range(3, 200) if k != 14)])
def test_balls_hold_a_reference_of_fifty_digits(seed: int) -> None:
    kind, x, (law, motion), field, until = instance(seed)
    if kind == "sphere":
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    found = enclose(x, law, motion, until)
    with localcontext() as context:
        context.prec = DIGITS
        start = decimals(x)
        if kind == "sphere":
            start = start / np.vectorize(lambda v: v.sqrt(), otypes=[object])(
                (start * start).sum(axis=1, keepdims=True)
            )
        end = solved(field, start, until)
    assert found.radius < 1e-15
    assert holds(found, end)


def test_two_tokens_on_the_line() -> None:
    """Tokens x and -x grow by x' = x tanh(beta x^2): with u = x^2, u' = 2 u tanh(beta u), which a quadrature solves."""
    found = enclose([[1.0], [-1.0]], af.Softmax(beta=0.5), af.Flow(), until=1.5)
    # At beta = 0 all tokens are at their mean 0 and velocities vanish: nothing moves.
    rest = enclose([[1.0], [-1.0]], af.Softmax(beta=0.0), af.Flow(), until=1.5)
    assert holds(rest, [[1], [-1]])
    x = found.middle[0, 0]
    from scipy.integrate import quad

    time, _ = quad(lambda u: 1 / (2 * u * np.tanh(0.5 * u)), 1.0, x * x, epsabs=1e-12, epsrel=1e-12)
    assert abs(time - 1.5) < 1e-11
    assert found.radius < 1e-17


def test_orthogonal_tokens_on_the_sphere() -> None:
    """Orthogonal tokens have one cosine, c' = 2 e^{beta c} (1 - c) ((n - 1) c + 1) / (e^beta + (n - 1) e^{beta c})."""
    n, beta, until = 3, 1.0, 1.0
    found = enclose(np.eye(n), af.Softmax(beta=beta), af.SphereFlow(), until=until)
    with arithmetic(200):
        products = [
            sum((a * b for a, b in zip(found.final[i], found.final[j], strict=True)), ball(0))
            for i in range(n)
            for j in range(i)
        ]
    cosine = float(products[0].mid())
    from scipy.integrate import quad

    def slope(c: float) -> float:
        pull = np.exp(beta * c)
        return float(2 * pull * (1 - c) * ((n - 1) * c + 1) / (np.exp(beta) + (n - 1) * pull))

    time, _ = quad(lambda c: 1 / slope(c), 0.0, cosine, epsabs=1e-12, epsrel=1e-12)
    assert abs(time - until) < 1e-11
    assert all(one.overlaps(products[0]) for one in products)


def test_tokens_stay_in_the_balls_of_each_step() -> None:
    x = af.tokens.gaussian(n=3, d=2, seed=4)
    found = enclose(x, af.Softmax(), af.RescaledFlow(), until=1.0)
    run = af.simulate(x, af.Softmax(), af.RescaledFlow(rtol=1e-12), until=1.0)
    for k, during in enumerate(found.between):
        low, high = float(found.times[k]), float(found.times[k + 1])
        for t in np.linspace(low, high, 3):
            for value, one in zip(run.at(t).ravel(), during.ravel(), strict=True):
                assert abs(value - float(one.mid())) <= float(one.rad()) + 1e-10


def test_a_frame_does_not_wrap() -> None:
    """Tokens that turn about the origin: boxes without frames would grow by the factor of a turn, again and again."""
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    x = [[1.0, 0.0], [0.9, 0.2]]
    found = enclose(x, af.Softmax(beta=0.0), af.Flow(V=turn), until=12.0, tolerance=1e-18)
    assert found.radius < 1e-13


@pytest.mark.parametrize("wrong", ["no defect", "a defect a million times too small"])
@pytest.mark.parametrize("seed", [0, 3])
def test_a_wrong_remainder_is_caught(seed: int, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a wrong bound of the defect the balls of low orders miss the reference, and the test above would say so."""
    _, x, (law, motion), field, until = instance(seed)
    end = solved(field, decimals(x), until)
    assert holds(enclose(x, law, motion, until, order=6, tolerance=1e-8), end)
    right = steps.__dict__["circle"]
    if wrong == "no defect":
        monkeypatch.setattr(steps, "_defect", lambda *given: ball(0))
    else:
        monkeypatch.setattr(steps, "circle", lambda *given: smaller(right(*given)))
    found = enclose(x, law, motion, until, order=6, tolerance=1e-8)
    assert found.reached
    assert not holds(found, end)


def smaller(circle: Any) -> Any:
    return replace(circle, defect=circle.defect / 10**6)


def test_the_rescaled_flow_is_the_flow_in_another_frame() -> None:
    """x(t) = e^{tV} z(t), also for a matrix that is not a multiple of the identity, not normal and not symmetric."""
    rng = np.random.default_rng(5)
    x, B, V = (
        rng.standard_normal((3, 2)),
        np.eye(2) + 0.3 * rng.standard_normal((2, 2)),
        np.array([[1.0, 0.7], [-0.2, 0.4]]),
    )
    law = af.Softmax(beta=1.5, B=B)
    here, there = enclose(x, law, af.Flow(V=V), 1.0), enclose(x, law, af.RescaledFlow(V=V), 1.0)
    with arithmetic(200):
        growth = exponential(balls(V), ball(1))
        for token, frame in zip(here.final, there.final, strict=True):
            for one, row in zip(token, growth, strict=True):
                assert one.overlaps(sum((g * z for g, z in zip(row, frame, strict=True)), ball(0)))
    assert max(here.radius, there.radius) < 1e-16


def test_starts_that_are_balls() -> None:
    """A start known up to a radius: balls hold the runs from its corners, and are not much wider."""
    from flint import arb

    x, radius = af.tokens.gaussian(n=3, d=2, seed=1), 1e-4
    wide = np.array([[arb(float(v), radius) for v in row] for row in x], dtype=object)
    found = enclose(wide, af.Softmax(), af.Flow(), until=1.0)
    assert found.reached
    apart = 0.0
    for signs in (np.ones((3, 2)), -np.ones((3, 2)), np.array([[1, -1], [-1, 1], [1, 1]])):
        end = af.simulate(x + radius * signs, af.Softmax(), af.Flow(rtol=1e-12), until=1.0).final
        apart = max(apart, float(abs(end - found.middle).max()))
        for value, one in zip(end.ravel(), found.final.ravel(), strict=True):
            assert abs(value - float(one.mid())) <= float(one.rad()) + 1e-10
    assert found.radius < 5 * apart


@pytest.mark.parametrize(
    ("law", "motion", "said"),
    [
        (af.Hardmax(), af.HardmaxFlow(), "Hardmax has no enclosure"),
        (af.Softmax(), af.Layers(gamma=0.5), "Layers has no enclosure"),
        (af.Softmax(beta=af.Schedule("t")), af.Flow(), "constant beta"),
        (af.Softmax(), af.SphereFlow(norm="pre"), "the norm 'post'"),
        (af.Softmax(), af.RescaledFlow(feed_forward=af.FeedForward(W=np.eye(2))), "a feed-forward layer has no"),
    ],
)
def test_what_has_no_enclosure_is_refused(law: Any, motion: Any, said: str) -> None:
    with refused(said):
        enclose([[1.0, 0.0], [0.0, 1.0]], law, motion, 1.0)


@pytest.mark.parametrize(("options", "said"), [({"mirrors": "x"}, "mirrors is 'x'"), ({"enough": 3}, "enough is 3")])
def test_options_of_another_kind_are_refused(options: Any, said: str) -> None:
    with refused(said):
        enclose([[1.0]], af.Softmax(), af.Flow(), 0.1, **options)


def test_too_many_tokens_are_refused() -> None:
    with refused("expected at most 36"):
        enclose(np.zeros((20, 2)), af.Softmax(), af.Flow(), 1.0)


def test_a_flow_whose_circles_are_never_analytic_stops_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: Any) -> Any:
        raise NotAnalytic

    monkeypatch.setattr("attnflow.enclosures.steps.circle", never)
    found = af.enclosures.enclose([[1.0], [-1.0]], af.Softmax(), af.Flow(), 1.0)
    assert not found.reached
    assert len(found.steps) == 0
    assert float(found.final[0, 0].mid()) == 1.0
