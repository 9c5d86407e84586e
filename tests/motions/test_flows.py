"""Flows against exact solutions, order of accuracy and theorems."""

from __future__ import annotations

import re
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np
import pytest
from larger import larger
from numpy.typing import NDArray
from refusals import refused
from scipy.integrate import solve_ivp

import attnflow as af
from attnflow.motions.solvers import integrate

Array = NDArray[np.float64]


def scalar(rhs: Any, u0: float, t: float) -> float:
    """Reference solution of a scalar equation by an independent method."""
    return float(solve_ivp(rhs, (0, t), [u0], method="LSODA", rtol=1e-13, atol=1e-14).y[0, -1])


def pair(t: float, u: Array) -> Array:
    return u * np.tanh(u * u)


@pytest.mark.parametrize("u0", [0.3, 1.0, 1.7])
def test_two_tokens_on_the_line(engine: str, u0: float) -> None:
    """(-u, u) with unit parameters: u' = u tanh(u^2)."""
    run = af.simulate([[-u0], [u0]], af.Softmax(), af.Flow(), until=1.5, engine=engine)
    u = scalar(pair, u0, 1.5)
    np.testing.assert_allclose(run.final.ravel(), [-u, u], rtol=1e-8)


def test_two_tokens_rescaled_listen_to_themselves() -> None:
    """P -> I in the rescaled flow, and e^{-t} u(t) agrees with the scalar equation."""
    run = af.simulate([[-0.5], [0.5]], af.Softmax(), af.RescaledFlow(), until=12.0)
    z = scalar(lambda t, z: z * (np.tanh(np.exp(2 * t) * z * z) - 1), 0.5, 12.0)
    np.testing.assert_allclose(run.final[1, 0], z, rtol=1e-7)
    np.testing.assert_allclose(af.Softmax().weights(run.seen()), np.eye(2), atol=1e-8)


def test_three_tokens_on_the_line() -> None:
    """(-u, 0, u): u' = 2u sinh(u^2) / (1 + 2 cosh u^2), and the middle row is (1/3, 1/3, 1/3)."""
    run = af.simulate([[-1.0], [0.0], [1.0]], af.Softmax(), af.Flow(), until=1.0)
    u = scalar(lambda t, u: 2 * u * np.sinh(u * u) / (1 + 2 * np.cosh(u * u)), 1.0, 1.0)
    np.testing.assert_allclose(run.final.ravel(), [-u, 0, u], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(af.Softmax().weights(run.final)[1], 1 / 3, rtol=1e-12)


def test_pair_in_the_plane_does_not_collapse() -> None:
    """From (1, 1) and (1, -1) the second rescaled coordinate tends to c(1) = .9483, not to 0."""
    run = af.simulate([[1.0, 1.0], [1.0, -1.0]], af.Softmax(), af.RescaledFlow(), until=15.0)
    np.testing.assert_allclose(run.final[:, 1], [0.9483, -0.9483], atol=5e-5)


def test_flow_has_its_order_of_accuracy() -> None:
    """The error falls like the eighth power of the number of evaluations as the tolerance is tightened."""
    exact = scalar(pair, 0.5, 2.0)
    errors, work = [], []
    for rtol in 10.0 ** -np.arange(3.0, 11.0):
        run = af.simulate([[-0.5], [0.5]], af.Softmax(), af.Flow(rtol=float(rtol)), until=2.0)
        errors.append(abs(run.final[1, 0] - exact))
        work.append(run.report["evaluations"])
    keep = np.array(errors) > 1e-12
    slope = np.polyfit(np.log(np.array(work)[keep]), np.log(np.array(errors)[keep]), 1)[0]
    assert keep.sum() >= 4
    assert -12 < slope < -6


def test_flow_and_rescaled_flow_follow_the_same_tokens(engine: str) -> None:
    """X = e^{tV} z, for a V that is not normal and a B that is not symmetric."""
    rng = np.random.default_rng(0)
    V, B = np.array([[0.5, 1.0], [0.0, -0.3]]), rng.standard_normal((2, 2)) / 2
    x0 = rng.standard_normal((10, 2)) / 2
    x = af.simulate(x0, af.Softmax(B=B), af.Flow(V=V), until=2.0, engine=engine)
    z = af.simulate(x0, af.Softmax(B=B), af.RescaledFlow(V=V), until=2.0, engine=engine)
    np.testing.assert_allclose(z.seen(), x.final, rtol=0, atol=1e-7)
    assert np.abs(z.final - x.final).max() > 0.1


def test_one_dimension_reduces_to_unit_parameters() -> None:
    """V = v, QK = c: y_i(s) = sqrt(c) x_i(s / v) solves the unit case."""
    x0, v, c = np.array([[0.4], [-0.2], [0.9]]), 1.7, 0.6
    run = af.simulate(x0, af.Softmax(B=[[c]]), af.Flow(V=[[v]]), until=1.0)
    unit = af.simulate(np.sqrt(c) * x0, af.Softmax(), af.Flow(), until=v)
    np.testing.assert_allclose(np.sqrt(c) * run.final, unit.final, rtol=1e-7)


@pytest.mark.parametrize("until", [40.0, 400.0])
def test_rescaled_flow_survives_any_temperature(until: float) -> None:
    x0 = af.tokens.uniform(n=15, d=2, seed=0, low=-5, high=5)
    run = af.simulate(x0, af.Softmax(), af.RescaledFlow(), until=until)
    assert run.stopped == f"reached t = {until:g}, as asked"
    assert np.isfinite(run.tokens).all()
    angles = np.linspace(0, 2 * np.pi, 360)
    support = (run.tokens @ np.stack([np.cos(angles), np.sin(angles)])).max(axis=1)
    assert (np.diff(support, axis=0) <= 1e-8 * 5).all()


def test_distances_never_decrease_when_all_are_identities() -> None:
    run = af.simulate(af.tokens.gaussian(n=8, d=2, seed=0), af.Softmax(), af.Flow(), until=1.0)
    distances = np.linalg.norm(run.tokens[:, :, None] - run.tokens[:, None], axis=3)
    assert (np.diff(distances, axis=0) >= -1e-9 * np.abs(run.tokens).max()).all()


def test_feed_forward_row() -> None:
    """Z' = W sigma(V sum_j P_ij (z_j - z_i)): the velocity at t = 0 against the formula written out."""
    from attnflow.laws import Hearing

    x = af.tokens.gaussian(n=5, d=2, seed=0)
    W, V = np.array([[1.0, 0.5], [0.0, 2.0]]), np.array([[1.0, -1.0], [0.5, 1.0]])
    flow = af.RescaledFlow(V=V, feed_forward=af.FeedForward(W=W, activation="relu"))
    P = af.Softmax().weights(x)
    expected = np.array([W @ np.maximum(V @ sum(P[i, j] * (x[j] - x[i]) for j in range(5)), 0) for i in range(5)])
    np.testing.assert_allclose(flow.velocity(Hearing(af.Softmax()), x, 0.0), expected, atol=1e-14)


def equiangular(beta: float, n: int, normalized: bool) -> Any:
    def rhs(t: float, g: Array) -> Array:
        common = 2 * np.exp(beta * g) * (1 - g) * ((n - 1) * g + 1)
        return common / (np.exp(beta) + (n - 1) * np.exp(beta * g)) if normalized else common / n

    return rhs


@pytest.mark.parametrize(
    ("n", "normalized", "beta", "time"),
    [
        (24, True, 3.0, 5.899),
        (24, False, 1.0, 2.7645),
        pytest.param(128, True, 1.0, 5.909, marks=larger),
        pytest.param(128, False, 3.0, 2.005, marks=larger),
    ],
)
def test_orthogonal_start_on_the_sphere(n: int, normalized: bool, beta: float, time: float) -> None:
    """sphere/orthogonal-start: tokens stay equiangular and follow the scalar equation."""
    until = time + 0.5
    run = af.simulate(af.tokens.orthogonal(n), af.Softmax(beta=beta), af.SphereFlow(normalized=normalized), until)
    exact = solve_ivp(equiangular(beta, n, normalized), (0, until), [0.0], rtol=1e-12, atol=1e-13, dense_output=True)
    for t in np.linspace(0.1, until, 7):
        gram = run.at(t) @ run.at(t).T
        np.testing.assert_allclose(gram[~np.eye(n, dtype=bool)], exact.sol(t)[0], rtol=0, atol=1e-8)
    before, after = (run.at(time + shift) for shift in (-1e-3, 1e-3))
    assert before[0] @ before[1] < 0.999 < after[0] @ after[1]
    assert run.report["norm defect"] < 1e-8


@pytest.mark.parametrize("normalized", [True, False])
def test_energy_identity_on_the_sphere(normalized: bool) -> None:
    """sphere/energy, integrated along the run: E(T) - E(0) is the integral of the weighted squared speeds."""
    beta, n = 2.0, 10
    law, x0 = af.Softmax(beta=beta), af.tokens.sphere(n=10, d=3, seed=2)
    run = af.simulate(x0, law, af.SphereFlow(normalized=normalized, rtol=1e-11), until=3.0)
    times = np.linspace(0, 3, 301)
    states = run.at(times)
    rates = []
    for x in states:
        e = np.exp(beta * x @ x.T)
        v = e @ x / (e.sum(axis=1, keepdims=True) if normalized else n)
        v -= (v * x).sum(axis=1, keepdims=True) * x
        weight = e.sum(axis=1) / n**2 if normalized else np.full(n, 1 / n)
        rates.append(weight @ (v**2).sum(axis=1))
    from scipy.integrate import simpson

    energies = [af.measure.energy(x, beta=beta) for x in states]
    np.testing.assert_allclose(energies[-1] - energies[0], simpson(rates, x=times), rtol=1e-7)
    assert (np.diff(energies) > 0).all()


def test_unnormalized_masses_are_repeated_tokens() -> None:
    x, copies = af.tokens.sphere(n=5, d=3, seed=0), np.array([1, 3, 2, 1, 4])
    motion = af.SphereFlow(normalized=False)
    by_mass = af.simulate(x, af.Softmax(), motion, until=0.7, masses=copies).final
    repeated = af.simulate(np.repeat(x, copies, axis=0), af.Softmax(), motion, until=0.7).final
    np.testing.assert_allclose(np.repeat(by_mass, copies, axis=0), repeated, rtol=0, atol=1e-8)


def test_growth_beyond_float64_ends_with_a_sentence() -> None:
    run = af.simulate([[1e140], [2e140]], af.Softmax(), af.Flow(rtol=1e-4), until=1e4)
    assert "use RescaledFlow" in run.stopped
    assert np.isfinite(run.tokens).all()
    run = af.simulate(af.tokens.sphere(4, 3), af.Softmax(beta=800.0), af.SphereFlow(normalized=False), until=1.0)
    assert "range of float64" in run.stopped
    assert len(run) == 1


@pytest.mark.parametrize("law", [af.Hardmax(), af.Localmax(delta=0.1), af.HegselmannKrause(), af.Heads([af.Hardmax()])])
def test_laws_that_jump_are_refused(law: af.Law) -> None:
    with refused("jumps as tokens move"):
        af.simulate([[1.0], [2.0]], law, af.Flow(), until=1.0)


def test_feed_forward_of_the_flow_and_value_matrix_on_the_sphere() -> None:
    from attnflow.laws import Hearing

    W, V = np.array([[1.0, 0.5], [0.0, 2.0]]), np.array([[1.0, -1.0], [0.5, 1.0]])
    x, hearing = af.tokens.sphere(n=5, d=2, seed=0), Hearing(af.Softmax())
    m = af.Softmax().weights(x) @ x
    flow = af.Flow(V=V, feed_forward=af.FeedForward(W=W, activation="tanh"))
    np.testing.assert_allclose(flow.velocity(hearing, x, 0.0), np.tanh(m @ V.T) @ W.T, atol=1e-14)
    v = m @ V.T
    expected = v - (v * x).sum(axis=1, keepdims=True) * x
    np.testing.assert_allclose(af.SphereFlow(V=V).velocity(hearing, x, 0.0), expected, atol=1e-14)


def test_tokens_stay_on_the_sphere_and_between_steps_too() -> None:
    x0, law = af.tokens.sphere(n=8, d=3, seed=1), af.Softmax(beta=2.0)
    run = af.simulate(x0, law, af.SphereFlow(rtol=1e-4), until=5.0)
    np.testing.assert_allclose(np.linalg.norm(run.tokens, axis=2), 1, rtol=0, atol=4e-16)
    assert run.report["norm defect"] > 1e-9
    fine = af.simulate(x0, law, af.SphereFlow(), until=5.0)
    exact = af.simulate(x0, law, af.SphereFlow(rtol=1e-12), until=5.0)
    times = np.linspace(0.1, 4.9, 33)
    np.testing.assert_allclose(np.linalg.norm(fine.at(times), axis=2), 1, rtol=0, atol=4e-16)
    np.testing.assert_allclose(fine.at(times), exact.at(times), rtol=0, atol=2e-8)


@pytest.mark.parametrize("t", [0.3, 5.0])
def test_frames_of_complex_and_defective_matrices(t: float) -> None:
    """e^{tV} from eigenvectors or, where these do not span, from the matrix exponential, against closed forms."""
    x = af.tokens.gaussian(n=4, d=2, seed=0)
    turn = np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]])
    spiral = af.RescaledFlow(V=[[1.0, -1.0], [1.0, 1.0]])
    np.testing.assert_allclose(spiral.seen(x, t), np.exp(t) * x @ turn.T, rtol=1e-12)
    R = np.array([[0.6, -0.8], [0.8, 0.6]])
    shear = af.RescaledFlow(V=R @ np.array([[1.0, 1.0], [0.0, 1.0]]) @ R.T)
    exact = np.exp(t) * R @ np.array([[1.0, t], [0.0, 1.0]]) @ R.T
    np.testing.assert_allclose(shear.seen(x, t), x @ exact.T, rtol=0, atol=1e-6 * np.exp(t))


def test_what_the_law_sees_stays_within_float64() -> None:
    x = np.array([[1.0], [2.0]])
    for motion in (af.RescaledFlow(), af.RescaledLayers()):
        seen = motion.seen(x, 2000)
        assert 1e139 < seen.max() < 1e141
        np.testing.assert_allclose(af.Softmax().weights(seen)[1], [0.0, 1.0])


def test_blas_keeps_to_one_thread_beside_the_sums_of_many_tokens() -> None:
    from threadpoolctl import threadpool_info, threadpool_limits

    def threads() -> set[int]:
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    seen: set[int] = set()

    class Watched(af.Flow):
        def velocity(self, hearing: Any, x: Any, t: float) -> Any:
            seen.update(threads())
            return 0 * x

    with threadpool_limits(2, user_api="blas"):
        af.simulate(np.ones((5000, 2)) + np.arange(5000)[:, None], af.Softmax(), Watched(), until=1.0)
        assert seen == {1}
        assert threads() == {2}


class UndefinedLater(af.motions.ContinuousMotion):
    """A flow of one's own whose velocity is a number up to a time."""

    def __init__(self, end: float) -> None:
        self.end = end

    def velocity(self, hearing: Any, x: Array, t: float) -> Array:
        return -x if t < self.end else np.nan * x


class UndefinedStep(af.motions.DiscreteMotion):
    def step(self, hearing: Any, x: Array, t: int) -> Array:
        return x / 2 if t < 3 else np.nan * x


@pytest.mark.parametrize(
    ("motion", "words"),
    [
        (UndefinedLater(0.0), "stopped at t = 0.* velocity of UndefinedLater returned NaN; let it return numbers"),
        (UndefinedLater(0.5), "stopped at t = 0.5.* velocity of UndefinedLater returned NaN; let it return numbers"),
        (UndefinedStep(), "step of UndefinedStep returned NaN at step 4; let it return numbers"),
    ],
)
def test_a_motion_of_ones_own_that_returns_nan_is_told_so(motion: Any, words: str) -> None:
    """The length of the run is not to blame. An ensemble, which asks for no first step, ends in the same way."""
    x = af.tokens.gaussian(n=3, d=2, seed=0)
    assert re.search(words, af.simulate(x, af.Softmax(), motion, until=9).stopped)
    with refused(words):
        af.ensemble(x[None], af.Softmax(), motion, until=9)


def test_a_flow_that_blows_up_is_told_otherwise() -> None:
    class Square(af.motions.ContinuousMotion):
        def velocity(self, hearing: Any, x: Array, t: float) -> Array:
            return x * x

    run = af.simulate([[1.0], [0.0]], af.Softmax(), Square(), until=2.0)
    assert run.stopped == "the integrator stopped at t = 1 because its steps became too small; shorten the run"


def test_a_flow_that_would_never_end_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens of size 1e6 that listen to the farthest one turn in every step: 10^8 of them are to come."""
    monkeypatch.setattr(integrate, "PACE", 60)
    x, law = 1e6 * af.tokens.gaussian(n=6, d=2, seed=0), af.Softmax(beta=lambda t: 1 + t, B=-np.eye(2))
    states = iter(range(200))
    enough = [af.watch.When(lambda t, x: next(states) == 199)]
    with pytest.warns(UserWarning, match=r"more than 1e\+07 steps; .*tokens turn quickly; .* use RescaledLayers"):
        af.simulate(x, law, af.RescaledFlow(), until=5.0, watch=enough)


def test_a_flow_that_rests_for_long_does_not_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its steps are 1e-8 of the time that is left, but they grow with the time."""
    monkeypatch.setattr(integrate, "PACE", 60)
    x = af.tokens.sphere(n=4, d=2, seed=1)
    assert len(af.simulate(x, af.Softmax(beta=8.0), af.SphereFlow(), until=1e9)) > 120


@dataclass(frozen=True)
class Checked(af.Flow):
    """A flow that works something out of its tolerance."""

    tight: bool = field(default=False, init=False)

    def __post_init__(self, *given: Any) -> None:
        super().__post_init__(*given)
        object.__setattr__(self, "tight", self.rtol < 1e-8)


@dataclass(frozen=True)
class Scaled(af.Flow):
    """A flow that is given a value which it does not hold."""

    scale: InitVar[float] = 1.0

    def __post_init__(self, scale: float) -> None:
        super().__post_init__()
        object.__setattr__(self, "factor", 2 * scale)


class Plain(af.motions.ContinuousMotion):
    def velocity(self, hearing: Any, x: Array, t: float) -> Array:
        return -x


class Fixed(Plain):
    @property
    def rtol(self) -> float:  # type: ignore[override]
        return 1e-6


def test_another_tolerance_makes_another_motion() -> None:
    assert not Checked(rtol=1e-4).tight
    assert Checked(rtol=1e-4).with_rtol(1e-9).tight
    with refused("rtol is 1"):
        af.Flow().with_rtol(1.0)
    other = Scaled(scale=3.0).with_rtol(1e-5)
    assert (other.rtol, other.factor) == (1e-5, 6.0)  # type: ignore[attr-defined]
    assert (Plain().with_rtol(1e-5).rtol, Plain().rtol) == (1e-5, 1e-9)
    assert af.Layers(gamma=0.5).with_rtol(1e-5).rtol is None
    with refused("^rtol of Fixed cannot be set, expected a field.*: write rtol: float"):
        Fixed().with_rtol(1e-5)


SUMS = [af.Unnormalized(), af.Linear(), af.Masked(af.Unnormalized(), causal=True)]


@pytest.mark.parametrize("law", SUMS, ids=lambda law: type(law).__name__)
def test_growth_in_finite_time_is_not_to_be_divided_out(law: af.laws.Law) -> None:
    """Here x' is like x^3, or larger: in the frame of RescaledFlow tokens leave the range of float64 as well."""
    start = [[2.0], [3.0]]
    flow = af.simulate(start, law, af.Flow(), until=9.0)
    assert flow.stopped.endswith("; shorten the run, or use SphereFlow")
    layers = af.simulate(start, law, af.Residual(), until=99)
    assert layers.stopped.endswith("; shorten the run, or use SphereLayers")
    for motion, until in ((af.RescaledFlow(), 9.0), (af.RescaledLayers(), 99)):
        assert not af.simulate(start, law, motion, until=until).stopped.startswith("reached")
    probabilities = af.simulate(start, af.Softmax(), af.Residual(), until=2000)
    assert probabilities.stopped.endswith("use RescaledLayers, which divide the growth out")
