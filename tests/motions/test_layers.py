"""Layers against the papers' closed forms, exact rationals and reference values."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

import attnflow as af
from attnflow.laws import Hearing

Array = NDArray[np.float64]


@pytest.mark.parametrize("k", [3, 4, 5])
@pytest.mark.parametrize(("beta", "steps"), [(16, 31), (32, 20), (64, 19), (128, 19), (8, None), (4, None)])
def test_steps_to_arrive_under_softmax(engine: str, k: int, beta: float, steps: int | None) -> None:
    """A k-gon with one token pulled .35 from each vertex to the centre: steps until it is within .05 of the vertex."""
    v = af.tokens.polygon(k)
    run = af.simulate(np.concatenate([v, 0.65 * v]), af.Softmax(beta=beta), af.Layers(gamma=0.1), 2000, engine=engine)
    arrived = np.linalg.norm(run.tokens[:, k:] - v, axis=2).max(axis=1) <= 0.05
    assert (int(arrived.argmax()) if arrived.any() else None) == steps


@pytest.mark.parametrize(("gamma", "slope"), [(0.1, -0.105361), (0.35, -0.430783), (0.7, -1.203973)])
def test_followers_contract_at_the_rate_of_the_step(engine: str, gamma: float, slope: float) -> None:
    v = af.tokens.polygon(5)
    run = af.simulate(np.concatenate([v, 0.65 * v]), af.Hardmax(), af.Layers(gamma=gamma), until=12, engine=engine)
    logs = np.log(np.linalg.norm(run.tokens[:, 5:] - v, axis=2))
    np.testing.assert_allclose(np.diff(logs, axis=0), slope, atol=5e-7)
    np.testing.assert_array_equal(run.tokens[:, :5], np.broadcast_to(v, (13, 5, 2)))


@pytest.mark.parametrize(
    ("gamma", "product"),
    [
        (lambda t: 1 / (t + 2), lambda t: 1 / (t + 1)),
        (lambda t: 1 - np.exp(-0.1 * (t + 1)), lambda t: np.exp(-0.1 * t * (t + 1) / 2)),
        (lambda t: 0.3, lambda t: 0.7**t),
    ],
)
def test_straight_lines(engine: str, gamma: float, product: float) -> None:
    """fw/straight-lines: x_i^t = v + Pi_t (x_i^0 - v), Pi_t = prod_{s<t} (1 - gamma^s), and the vertices rest."""
    assert callable(gamma)
    assert callable(product)
    v = af.tokens.polygon(6)
    x0 = np.concatenate([v, af.tokens.uniform(n=40, d=2, seed=0, low=-0.6, high=0.6)])
    run = af.simulate(x0, af.Hardmax(), af.Layers(gamma=gamma), until=20, engine=engine)
    leader = (x0 @ v.T).argmax(axis=1)
    for t in range(21):
        exact = v[leader] + product(t) * (x0 - v[leader])
        np.testing.assert_allclose(run.tokens[t], exact, rtol=0, atol=4 * (t + 2) * np.finfo(float).eps)


def test_argmax_and_frank_wolfe_forms_agree(engine: str) -> None:
    """B = -B_*: the leader is the linear minimisation oracle of 1/2 <B_* x, x>, written separately here."""
    M = np.random.default_rng(0).standard_normal((3, 3))
    B = M @ M.T
    run = af.simulate(
        af.tokens.gaussian(n=30, d=3, seed=1),
        af.Hardmax(B=-B),
        af.Layers(gamma=lambda t: 2 / (t + 2)),
        50,
        engine=engine,
    )
    for t in range(50):
        x = run.tokens[t]
        oracle = np.array([x[np.argmin([(B @ xi) @ y for y in x])] for xi in x])
        gamma = 2 / (t + 2)
        np.testing.assert_allclose(run.tokens[t + 1], x + gamma * (oracle - x), rtol=0, atol=1e-12)


def exact_hardmax(x: list[list[Fraction]], gamma: Fraction, steps: int) -> list[list[list[Fraction]]]:
    """Hardmax layers, ties by tokens, in exact rationals."""
    states = [x]
    for _ in range(steps):
        new = []
        for xi in x:
            s = [sum((a * b for a, b in zip(xi, y, strict=True)), Fraction(0)) for y in x]
            tied = [y for y, score in zip(x, s, strict=True) if score == max(s)]
            mean = [sum(column) / len(tied) for column in zip(*tied, strict=True)]
            new.append([a + gamma * (m - a) for a, m in zip(xi, mean, strict=True)])
        x = new
        states.append(x)
    return states


def test_lattice_with_ties_against_exact_rationals(engine: str) -> None:
    """Small integers tie often; gamma = 1/2 keeps all numbers exact in float64 for these steps."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        x0 = rng.integers(-2, 3, (8, 2))
        exact = exact_hardmax([[Fraction(int(a)) for a in row] for row in x0], Fraction(1, 2), 6)
        run = af.simulate(x0, af.Hardmax(), af.Layers(gamma=0.5), until=6, engine=engine)
        np.testing.assert_allclose(run.tokens, np.array(exact, dtype=float), rtol=0, atol=1e-15)


def test_emerging_leader(engine: str) -> None:
    """Leaders {0, 2} at layer 0 and {0, 1, 2} from layer 1; token 1 freezes at (-1/18, 5/36)."""
    x0 = [(1, 1 / 3), (-1 / 12, 1 / 12), (-1, -1), (0, 1 / 4), (-0.3, -0.7), (-0.6, -0.9), (0.8, 0.1), (0.6, 0.15)]
    law = af.Hardmax()
    run = af.simulate(x0, law, af.Layers(alpha=0.5), until=30, engine=engine)
    own = [{i for i, j in enumerate(af.measure.leaders(law, x).index) if i == j} for x in run.tokens]
    assert own[0] == {0, 2}
    assert all(found == {0, 1, 2} for found in own[1:])
    np.testing.assert_allclose(run.tokens[1:, 1], np.tile([-1 / 18, 5 / 36], (30, 1)), rtol=0, atol=1e-15)


def test_limits_on_faces(engine: str) -> None:
    x0 = [(1, 1), (1, -1), (-1, 1), (-1, -1), (0.5, 0), (-0.5, 0)]
    run = af.simulate(x0, af.Hardmax(), af.Layers(alpha=0.5), until=100, engine=engine)
    np.testing.assert_allclose(run.final[4:], [[1, 0], [-1, 0]], rtol=0, atol=1e-15)


def test_localmax_limit(engine: str) -> None:
    run = af.simulate([[1.0], [-1.0], [0.1], [-0.1]], af.Localmax(delta=0.05), af.Layers(gamma=0.5), 200, engine=engine)
    np.testing.assert_allclose(run.final.ravel(), [0.9859375, -0.9859375, 0.9859375, -0.9859375], rtol=0, atol=1e-15)


def test_cluster_rate_counterexample() -> None:
    """Tokens (3, -1) under Frank-Wolfe steps 2/(t+2) tend to 1/3, not to 0."""
    run = af.simulate([[3.0], [-1.0]], af.Hardmax(B=[[-1.0]]), af.Layers(gamma=lambda t: 2 / (t + 2)), until=700)
    np.testing.assert_allclose(run.final.ravel(), 1 / 3, atol=2e-3)
    assert (0.5 * run.tokens[-1] ** 2 >= 1 / 18 - 1e-3).all()


def test_softmax_contracts_as_proved(engine: str) -> None:
    """fw/collapse: diam(X^{t+1}) <= (1 - gamma sum_k min_i a_ik) diam(X^t)."""
    law, gamma = af.Softmax(beta=1.0), 0.3
    run = af.simulate(af.tokens.uniform(n=12, d=3, seed=0), law, af.Layers(gamma=gamma), until=60, engine=engine)
    for x, y in zip(run.tokens, run.tokens[1:], strict=False):
        factor = 1 - gamma * law.weights(x).min(axis=0).sum()
        assert af.measure.diameter(y) <= factor * af.measure.diameter(x) + 1e-14


@pytest.mark.parametrize(
    "law", [af.Softmax(beta=2.0), af.Hardmax(), af.Localmax(delta=0.2), af.HegselmannKrause(eps=0.5)]
)
def test_hulls_shrink(law: af.Law, engine: str) -> None:
    run = af.simulate(af.tokens.gaussian(n=30, d=2, seed=0), law, af.Layers(gamma=0.4), until=40, engine=engine)
    angles = np.linspace(0, 2 * np.pi, 720)
    support = (run.tokens @ np.stack([np.cos(angles), np.sin(angles)])).max(axis=1)
    assert (np.diff(support, axis=0) <= 1e-12).all()


@pytest.mark.parametrize(
    "law",
    [af.Softmax(beta=2.0, B=[[1.0, 2.0], [-1.0, 0.5]]), af.Softmax(beta=lambda t: t, B=None), af.Hardmax(ties="points"),
     af.Hardmax(ties="first"), af.Localmax(delta=0.3), af.Localmax(delta=lambda t: 1 / (t + 1), threshold="relative"),
     af.Localmax(delta=0.2, threshold="normalized", B=[[2.0, 1.0], [1.0, 1.0]])],
)  # fmt: skip
def test_compiled_loop_is_the_same_as_single_steps(law: af.Law) -> None:
    """The compiled loop between watcher calls against one dense step at a time, masses and schedules included."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.standard_normal((20, 2)), rng.integers(-1, 2, (10, 2))])
    w = rng.uniform(0.5, 2.0, 30)

    def gamma(t: float) -> float:
        return 1.0 if t == 3 else 1 / (t + 2)

    run = af.simulate(x, law, af.Layers(gamma=gamma), until=12, masses=w, engine="fused")
    slow = x
    for t in range(12):
        slow = slow + gamma(t) * (law.weights(slow, t, w) @ slow - slow)
        np.testing.assert_allclose(run.tokens[t + 1], slow, rtol=0, atol=1e-12)


def test_gamma_one_is_the_barycentre_itself(engine: str) -> None:
    x = af.tokens.gaussian(n=10, d=2, seed=0) * 1e8 + 0.1
    run = af.simulate(x, af.Hardmax(), af.Layers(gamma=1.0), until=1, engine=engine)
    assert {tuple(p) for p in run.final} <= {tuple(p) for p in x}


def test_matrix_step_of_the_renormalised_model() -> None:
    """x^t = M_t z^t, M_t = (I+V)^t: one step of z with B turned into M^T B M is one residual step of x."""
    V, B = np.diag([0.5, 2.0]), np.array([[1.0, 0.3], [0.0, 1.0]])
    M = np.diag([1.5, 3.0])
    z = af.tokens.gaussian(n=10, d=2, seed=0)
    moved = af.simulate(z, af.Softmax(B=M.T @ B @ M), af.Layers(V=V), until=1).final
    x = af.simulate(z @ M.T, af.Softmax(B=B), af.Residual(V=V), until=1).final
    np.testing.assert_allclose(moved @ (M @ (np.eye(2) + V)).T, x, rtol=1e-13)


@pytest.mark.parametrize("seed", range(5))
def test_one_step_of_x_is_one_step_of_z(seed: int, engine: str) -> None:
    """R z^{k+1} in the frame of step k equals the residual step of x = R^k z, to 1e-13."""
    rng = np.random.default_rng(seed)
    V, B, dt, k = rng.standard_normal((3, 3)) / 2, rng.standard_normal((3, 3)) / 4, 0.1, 4
    z = rng.standard_normal((12, 3)) / 4
    R = np.eye(3) + dt * V
    Rk = np.linalg.matrix_power(R, k)
    hearing = Hearing(af.Softmax(B=B), engine=engine)
    x = z @ Rk.T
    x_next = af.Residual(V=V, dt=dt).step(hearing, x, k)
    z_next = af.RescaledLayers(V=V, dt=dt).step(hearing, z, k)
    assert np.abs(z_next @ (Rk @ R).T - x_next).max() <= 1e-13
    assert np.abs(x_next - x).max() > 1e-3


def test_rescaled_layers_survive_any_number_of_steps() -> None:
    x0 = af.tokens.uniform(n=20, d=2, seed=0)
    run = af.simulate(x0, af.Softmax(), af.RescaledLayers(V=[[1.0, 0.2], [0.0, 0.5]]), until=3000)
    assert run.stopped == "reached step 3000, as asked"
    assert np.isfinite(run.tokens).all()


def test_residual_heads_and_feed_forward() -> None:
    x = af.tokens.gaussian(n=6, d=2, seed=0)
    V = np.array([[0.0, 1.0], [-1.0, 0.0]])
    heads = af.Heads([af.Softmax(), af.Softmax(beta=0.0)], V=[V, None])
    step = af.simulate(x, heads, af.Residual(dt=0.1), until=1).final
    np.testing.assert_allclose(step, x + 0.1 * (af.Softmax().weights(x) @ x @ V.T + x.mean(axis=0)), atol=1e-14)
    W = np.array([[1.0, 2.0], [0.0, 1.0]])
    layer = af.Residual(V=V, dt=0.1, feed_forward=af.FeedForward(W=W, activation="tanh"))
    step = af.simulate(x, af.Softmax(), layer, until=1).final
    np.testing.assert_allclose(step, x + 0.1 * np.tanh(af.Softmax().weights(x) @ x @ V.T) @ W.T, atol=1e-14)


def test_hemisphere_in_discrete_time(engine: str) -> None:
    """sphere/hemisphere-discrete: min_i <x_i, w> never decreases, for every dt."""
    x0 = af.tokens.sphere(n=15, d=3, seed=0)
    x0[:, 2] = np.abs(x0[:, 2])
    for dt in (0.1, 1.0, 10.0):
        run = af.simulate(x0, af.Softmax(beta=3.0), af.SphereLayers(dt=dt), until=50, engine=engine)
        assert (np.diff(run.tokens[:, :, 2].min(axis=1)) >= -1e-14).all()
        np.testing.assert_allclose(np.linalg.norm(run.tokens, axis=2), 1, rtol=1e-14)


def test_hegselmann_krause_freezes() -> None:
    """With step 1 the model freezes in finite time, and its pair energy drops by at least 4 sum |Delta|^2."""
    eps = 0.4
    run = af.simulate(
        af.tokens.uniform(n=60, d=2, seed=0), af.HegselmannKrause(eps=eps), af.Layers(gamma=1.0), until=100
    )
    assert np.abs(run.tokens[-1] - run.tokens[-2]).max() <= 1e-15

    def energy(x: Array) -> float:
        return float(np.minimum(((x[:, None] - x) ** 2).sum(axis=2), eps**2).sum())

    for x, y in zip(run.tokens, run.tokens[1:], strict=False):
        assert energy(x) - energy(y) >= 4 * ((y - x) ** 2).sum() - 1e-12


@pytest.mark.parametrize("law", [af.Softmax(), af.Hardmax(), af.Localmax(delta=0.1), af.HegselmannKrause()])
def test_a_contracting_frame_survives_too(law: af.Law) -> None:
    run = af.simulate([[1.0], [2.0]], law, af.RescaledLayers(V=[[-0.5]]), until=1000)
    assert np.isfinite(run.tokens).all()
    assert run.stopped == "reached step 1000, as asked"


def test_matrix_step_with_a_matrix_that_is_not_symmetric() -> None:
    x, V = af.tokens.gaussian(n=6, d=2, seed=0), np.array([[0.5, 1.0], [-0.3, 0.2]])
    P = np.linalg.inv(np.eye(2) + V) @ V
    m = af.Softmax(beta=2.0).weights(x) @ x
    expected = np.array([a + P @ (b - a) for a, b in zip(x, m, strict=True)])
    for value in (V, lambda t: V):
        run = af.simulate(x, af.Softmax(beta=2.0), af.Layers(V=value), until=1)
        np.testing.assert_allclose(run.final, expected, atol=1e-14)


def test_value_matrix_on_the_sphere_in_layers() -> None:
    x, V = af.tokens.sphere(n=6, d=3, seed=0), np.diag([1.0, -2.0, 0.5]) + np.eye(3, k=1)
    y = x + 0.3 * af.Softmax().weights(x) @ x @ V.T
    run = af.simulate(x, af.Softmax(), af.SphereLayers(V=V, dt=0.3), until=1)
    np.testing.assert_allclose(run.final, y / np.linalg.norm(y, axis=1, keepdims=True), atol=1e-14)


def test_softmax_with_gamma_one_forgets_where_it_was(engine: str) -> None:
    """Adding m - x to x would leave the rounding of large tokens in the small barycentre."""
    x, law = af.tokens.gaussian(n=7, d=2, seed=0), af.Softmax(beta=1e-20)
    x[3] *= 1e8
    run = af.simulate(x, law, af.Layers(gamma=1.0), until=1, engine=engine)
    np.testing.assert_array_equal(run.final, law.hear(x, engine=engine).mean)


def test_points_that_merge_on_the_way_count_once() -> None:
    """After one step of gamma = 1 tokens sit on top of each other; each point must count once from then on."""
    rng = np.random.default_rng(0)
    law = af.Hardmax(ties="points")
    for _ in range(20):
        x = rng.integers(-2, 3, (9, 2)).astype(float)
        fused = af.simulate(x, law, af.Layers(gamma=lambda t: 1.0 if t == 0 else 0.5), until=4, engine="fused")
        dense = af.simulate(x, law, af.Layers(gamma=lambda t: 1.0 if t == 0 else 0.5), until=4, engine="dense")
        np.testing.assert_allclose(fused.tokens, dense.tokens, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    "law",
    [af.Softmax(beta=lambda t: 10.0 ** (t - 2)), af.Softmax(B=lambda t: 10.0 ** (t - 2) * np.array([[1, 0.2], [0, 1]])),
     af.Softmax(beta=-3.0), af.Softmax(beta=lambda t: (-2.0) ** t)],
)  # fmt: skip
def test_exponents_that_outgrow_every_bound(law: af.Law) -> None:
    x = af.tokens.gaussian(n=12, d=2, seed=0)
    fused, dense = (af.simulate(x, law, af.Layers(gamma=0.3), until=9, engine=e).tokens for e in ("fused", "dense"))
    np.testing.assert_allclose(fused, dense, rtol=0, atol=1e-9)
