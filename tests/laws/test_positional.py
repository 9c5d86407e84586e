"""Positions against loops over pairs, the relative property of rotations, engines, and masks around them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.laws import Law
from attnflow.laws.around import Around

N = 6
RNG = np.random.default_rng(5)
X = RNG.standard_normal((N, 5))
Q, K = RNG.standard_normal((2, 4, 5))
BIAS = RNG.standard_normal((N, N))
MASSES = RNG.uniform(0.5, 2.0, N)


def turned(v: Any, p: int, omega: list[float]) -> list[float]:
    """Return v with each pair of its coordinates rotated, by complex numbers; the last of an odd number stays."""
    found = []
    for a, w in enumerate(omega):
        z = complex(v[2 * a], v[2 * a + 1]) * complex(math.cos(w * p), math.sin(w * p))
        found += [z.real, z.imag]
    return found + [float(v[-1])] * (len(v) % 2)


def score(i: int, j: int, omega: list[float], slope: float, bias: bool) -> float:
    q, k = turned(X[i], i, omega), turned(X[j], j, omega)
    return sum(a * b for a, b in zip(q, k, strict=True)) - slope * abs(i - j) + (BIAS[i, j] if bias else 0.0)


@pytest.mark.parametrize("beta", [1.0, 0.4])
@pytest.mark.parametrize(
    ("given", "omega", "slope"),
    [
        ({"rope": 0.3}, [0.3, 0.3], 0.0),
        ({"rope": [1.0, 0.1]}, [1.0, 0.1], 0.0),
        ({"alibi": 0.7}, [0.0, 0.0], 0.7),
        ({"bias": BIAS}, [0.0, 0.0], 0.0),
        ({"rope": (0.5, 2.0), "alibi": -0.2, "bias": BIAS}, [0.5, 2.0], -0.2),
    ],
)
def test_scores_are_those_of_a_loop_over_pairs(
    given: dict[str, Any], omega: list[float], slope: float, beta: float
) -> None:
    P = np.zeros((N, N))
    for i in range(N):
        w = [MASSES[j] * math.exp(beta * score(i, j, omega, slope, "bias" in given)) for j in range(N)]
        P[i] = np.array(w) / sum(w)
    law = af.Positional(af.Softmax(beta=beta), **given)
    np.testing.assert_allclose(law.weights(X, masses=MASSES), P, atol=1e-14)
    np.testing.assert_allclose(law.attend(X, masses=MASSES), P @ X, atol=1e-13)
    top = af.Positional(af.Hardmax(), **given).weights(X).argmax(axis=1)
    assert top.tolist() == [max(range(N), key=lambda j: score(i, j, omega, slope, "bias" in given)) for i in range(N)]


def test_rotations_turn_the_queries_and_keys_of_a_transformer() -> None:
    omega = [0.7, 0.2]
    s = [[np.dot(turned(Q @ X[i], i, omega), turned(K @ X[j], j, omega)) for j in range(N)] for i in range(N)]
    P = np.exp(np.array(s))
    law = af.Positional(af.Softmax(Q=Q, K=K), rope=omega)
    np.testing.assert_allclose(law.weights(X), P / P.sum(axis=1, keepdims=True), atol=1e-13)
    np.testing.assert_allclose(law.attend(X), law.weights(X) @ X, atol=1e-13)


LAWS = [af.Softmax(beta=1.2), af.Softmax(beta=-0.5, Q=Q, K=K), af.Hardmax(), af.Localmax(delta=0.5)]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_only_differences_of_positions_count(law: Law) -> None:
    """The last tokens of a longer text that may not hear the first ones hear what they hear alone."""
    later = np.concatenate([RNG.standard_normal((9, 5)), X])
    graph = np.zeros((9 + N, 9 + N))
    graph[:9, :9] = graph[9:, 9:] = 1
    each: list[dict[str, Any]] = [{"rope": [0.9, 0.1]}, {"alibi": 0.3}]
    for given in each:
        far = af.Masked(af.Positional(law, **given), graph=graph).weights(later)
        near = af.Positional(law, **given).weights(X)
        np.testing.assert_allclose(far[9:, 9:], near, atol=1e-13)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_masks_and_positions_stand_around_each_other_in_any_order(law: Law) -> None:
    masks: list[dict[str, Any]] = [{"causal": True}, {"window": 2}, {"causal": True, "window": 3, "graph": np.tri(N)}]
    positions: list[dict[str, Any]] = [{"rope": 0.4}, {"rope": 0.4, "alibi": 0.1, "bias": BIAS}]
    for mask in masks:
        for given in positions:
            one = af.Masked(af.Positional(law, **given), **mask)
            other = af.Positional(af.Masked(law, **mask), **given)
            np.testing.assert_array_equal(one.weights(X), other.weights(X))
            np.testing.assert_allclose(one.attend(X), one.weights(X) @ X, atol=1e-13)
            np.testing.assert_allclose(other.attend(X), one.weights(X) @ X, atol=1e-13)
            heads = af.Heads([one, other])
            np.testing.assert_allclose(heads.attend(X), 2 * one.attend(X), atol=1e-13)


def test_nothing_changes_without_rotation() -> None:
    law = af.Softmax(beta=1.2)
    np.testing.assert_allclose(af.Positional(law, rope=0.0, alibi=0.0).weights(X), law.weights(X), atol=1e-15)
    np.testing.assert_allclose(af.Positional(law, rope=2 * np.pi).weights(X), law.weights(X), atol=1e-13)
    np.testing.assert_allclose(af.Positional(law, alibi=1e4).weights(X), np.eye(N))


@pytest.mark.parametrize("law", [af.Softmax(beta=2.0), af.Hardmax(), af.Localmax(delta=0.2)], ids=lambda law: law.name)
def test_rotated_queries_and_keys_are_served_by_engines(law: Law) -> None:
    x = af.tokens.gaussian(n=60, d=2, seed=0)
    positional = af.Positional(law, rope=0.1)
    P = np.exp(positional.log_weights(x))
    for engine in ("auto", "precise", "fused", "dense"):
        np.testing.assert_allclose(positional.hear(x, engine=engine).mean, P @ x, atol=1e-12)
        np.testing.assert_allclose(
            positional.hear(x, gain=4.0, engine=engine).mean, _of(positional, 2 * x) @ x, atol=1e-9
        )
    assert positional.uses("auto", 60, 2) == "fused"
    assert positional.uses("dense", 60, 2) == "dense"


def _of(law: Law, x: Any) -> Any:
    return np.exp(law.log_weights(x))


@pytest.mark.parametrize("beta", [2.0, -1.0])
@pytest.mark.parametrize("window", [None, 7])
def test_causal_sums_of_rotated_queries_come_from_an_engine(beta: float, window: int | None) -> None:
    x, masses = af.tokens.gaussian(n=50, d=3, seed=0), np.linspace(1.0, 2.0, 50)
    law = af.Masked(af.Positional(af.Softmax(beta=beta), rope=0.2), causal=True, window=window)
    P = np.exp(law.log_weights(x, masses=masses))
    heard = law.hear(x, masses=masses)
    np.testing.assert_allclose(heard.mean, P @ x, atol=1e-12)
    assert law.uses("auto", 50, 3) == "causal"
    assert heard.log_total is not None
    assert af.Masked(law, graph=np.tri(50)).uses("auto", 50, 3) == "dense"
    assert af.simulate(x, law, af.Layers(gamma=0.5), until=1, masses=masses).report["engine"] == "causal"


def test_functions_of_time_and_layers() -> None:
    law = af.Positional(af.Softmax(), rope=lambda t: [t, 0.5], alibi=lambda t: t, bias=lambda t: t * BIAS)
    same = af.Positional(af.Softmax(), rope=[2.0, 0.5], alibi=2.0, bias=2 * BIAS)
    np.testing.assert_array_equal(law.weights(X, t=2), same.weights(X))
    layers = af.Positional(af.Softmax(), alibi=[1.0, 2.0], bias=[BIAS, 2 * BIAS])
    np.testing.assert_array_equal(
        layers.weights(X, t=1), af.Positional(af.Softmax(), alibi=2.0, bias=2 * BIAS).weights(X)
    )


def test_a_law_of_ones_own_around_another_needs_its_scores() -> None:
    @dataclass(frozen=True, eq=False)
    class Plain(Around):
        law: Law

    np.testing.assert_allclose(Plain(af.Softmax()).weights(X), af.Softmax().weights(X), rtol=1e-14)
    with refused("Plain came with HegselmannKrause, which has no scores <q_i, k_j>: give a law whose rows follow"):
        Plain(af.HegselmannKrause()).weights(X)


def test_what_is_refused() -> None:
    with refused("Positional came with HegselmannKrause, which has no scores <q_i, k_j>: give a law"):
        af.Positional(af.HegselmannKrause(), rope=0.1)
    with refused("Positional was given a law alone, without positions: give rope, alibi or bias too"):
        af.Positional(af.Softmax())
    for bias in (np.ones(6), 1.0):
        with refused(r"bias has shape .*, expected a square matrix \(n, n\)"):
            af.Positional(af.Softmax(), bias=bias)
    ropes: list[Any] = [[], np.ones((2, 2))]
    for rope in ropes:
        with refused("rope has shape .*, expected one number, or one for each pair of coordinates"):
            af.Positional(af.Softmax(), rope=rope)
    with refused("rope rotates pairs of coordinates, but queries and keys have one"):
        af.Positional(af.Softmax(), rope=0.1).attend([[1.0], [2.0]])
    with refused("rope holds 3 numbers, but queries and keys have 2 pairs of coordinates"):
        af.Positional(af.Softmax(), rope=[1.0, 2.0, 3.0]).attend(X)
    with refused("bias has shape (6, 6), but there are 5 tokens"):
        af.Positional(af.Softmax(), bias=BIAS).attend(X[:5])
    with refused("rope is 'fast', expected a number"):
        af.Positional(af.Softmax(), rope="fast")
    with refused("Positional came with 1 head: put it around each of them"):
        af.Positional(af.Heads([af.Softmax()]), rope=0.1)
