"""Laws that depend on the indices of tokens are told them everywhere; those that hide such a dependence are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from refusals import refused
from scipy.integrate import solve_ivp

import attnflow as af
from attnflow.core.indices import not_numbers, takes_indices
from attnflow.core.inputs import Array
from attnflow.laws import Law


@dataclass(frozen=True, eq=False)
class Causal(Law):
    """Softmax over the sources up to the token itself, with a slope over the distance of indices and a bias each."""

    beta: float = 1.0
    slope: float = 0.0
    bias: tuple[float, ...] = ()

    def log_weights(self, x, t=0, *, sources=None, masses=None, rows=None, columns=None):  # type: ignore[no-untyped-def]
        s = self.beta * x @ sources.T - self.slope * (rows[:, None] - columns)
        if self.bias:
            s += np.asarray(self.bias)[columns]
        if masses is not None:
            s += np.log(masses)
        s[columns > rows[:, None]] = -np.inf
        s -= s.max(axis=1, keepdims=True)
        return s - np.log(np.exp(s).sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Previous(Law):
    """Token i hears token i - 1 alone, the first one itself."""

    def log_weights(self, x, t=0, *, sources=None, masses=None, rows=None, columns=None):  # type: ignore[no-untyped-def]
        return np.where(columns == np.maximum(rows - 1, 0)[:, None], 0.0, -np.inf)


PREVIOUS: Any = Previous()


def matrix(law: Causal, x: Array, masses: Array | None = None) -> Array:
    """Return P token by token, in plain NumPy."""
    P = np.zeros((len(x), len(x)))
    for i in range(len(x)):
        s = law.beta * x[: i + 1] @ x[i] - law.slope * np.arange(i, -1, -1.0)
        if law.bias:
            s = s + law.bias[: i + 1]
        w = np.exp(s - s.max()) * (1.0 if masses is None else masses[: i + 1])
        P[i, : i + 1] = w / w.sum()
    return P


def crowd(n: int, d: int = 2) -> Array:
    """Return tokens of which most have copies, in mixed order."""
    rng = np.random.default_rng(n)
    x = rng.standard_normal((max(1, n // 3), d))[rng.integers(max(1, n // 3), size=n)]
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def law_of(n: int) -> Causal:
    return Causal(beta=1.5, slope=0.01, bias=tuple(np.random.default_rng(0).standard_normal(n)))


@pytest.mark.parametrize("n", [1, 5, 60, 2500])
def test_means_are_those_of_a_loop_over_tokens(n: int) -> None:
    x, law, masses = crowd(n), law_of(n), np.random.default_rng(1).uniform(0.2, 4.0, n)
    np.testing.assert_allclose(law.attend(x, masses=masses), matrix(law, x, masses) @ x, atol=1e-12)


def test_heads_tell_their_laws() -> None:
    n = 2100
    x, law, masses = crowd(n), Causal(beta=2.0), np.random.default_rng(1).uniform(0.2, 4.0, n)
    heads = af.Heads([law, af.Softmax(beta=0.5)], V=[np.diag([2.0, 1.0]), None])
    expected = matrix(law, x, masses) @ x * [2.0, 1.0] + af.Softmax(beta=0.5).attend(x, masses=masses)
    np.testing.assert_allclose(heads.attend(x, masses=masses), expected, atol=1e-10)


def test_many_tokens_take_the_step_of_few() -> None:
    x, law = crowd(5000, d=1), Causal(beta=2.0, slope=1e-3)
    run = af.simulate(x, law, af.Layers(gamma=0.5), until=1)
    np.testing.assert_allclose(run.final, (x + matrix(law, x) @ x) / 2, atol=1e-12)


V = np.array([[0.5, 0.25], [-0.25, 1.0]])
STEPS: dict[str, tuple[af.Motion, Callable[[Array, Array, int], Array]]] = {
    "layers": (af.Layers(gamma=0.3), lambda x, m, t: x + 0.3 * (m - x)),
    "layers with V": (af.Layers(V=V), lambda x, m, t: x + (m - x) @ np.linalg.solve(np.eye(2) + V, V).T),
    "residual": (af.Residual(V=V, dt=0.1), lambda x, m, t: x + 0.1 * m @ V.T),
    "sphere": (
        af.SphereLayers(dt=0.5),
        lambda x, m, t: (x + 0.5 * m) / np.linalg.norm(x + 0.5 * m, axis=1, keepdims=True),
    ),
    "leaps": (af.Leaps(gamma=0.3), lambda x, m, t: x + 0.3 * (m - x)),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("weighted", [False, True])
def test_layers_move_as_a_loop_over_tokens_does(name: str, weighted: bool) -> None:
    motion, step = STEPS[name]
    x, law = crowd(9), law_of(9)
    masses = np.arange(1.0, 10.0) if weighted else None
    expected = x
    for t in range(7):
        expected = step(expected, matrix(law, expected, masses) @ expected, t)
    run = af.simulate(x, law, motion, until=7, masses=masses)
    np.testing.assert_allclose(run.final, expected, atol=1e-12)
    if name != "leaps":
        many = af.ensemble(np.stack([crowd(9), x]), law, motion, until=7, masses=masses)
        np.testing.assert_allclose(many.final[1], expected, atol=1e-12)


def test_the_moving_frame_of_layers_divides_their_growth_out() -> None:
    x, law = crowd(9), law_of(9)
    grown = af.simulate(x, law, af.Residual(dt=0.1), until=7).final
    np.testing.assert_allclose(
        af.simulate(x, law, af.RescaledLayers(dt=0.1), until=7).final * 1.1**7, grown, atol=1e-12
    )


def _tangent(x: Array, v: Array) -> Array:
    return v - (v * x).sum(axis=1, keepdims=True) * x


FLOWS: dict[str, tuple[af.Motion, Callable[[Array, Array], Array]]] = {
    "flow": (af.Flow(V=V), lambda x, m: m @ V.T),
    "sphere": (af.SphereFlow(), _tangent),
    "sphere with V": (af.SphereFlow(V=V), lambda x, m: _tangent(x, m @ V.T)),
}


@pytest.mark.parametrize("name", FLOWS)
@pytest.mark.parametrize("weighted", [False, True])
def test_flows_move_as_an_integrated_loop_over_tokens_does(name: str, weighted: bool) -> None:
    motion, velocity = FLOWS[name]
    x, law = crowd(7), law_of(7)
    masses = np.arange(1.0, 8.0) if weighted else None

    def field(t: float, flat: Array) -> Array:
        y = flat.reshape(x.shape)
        return velocity(y, matrix(law, y, masses) @ y).ravel()

    expected = solve_ivp(field, (0, 1.5), x.ravel(), method="DOP853", rtol=1e-11, atol=1e-13).y[:, -1].reshape(x.shape)
    run = af.simulate(x, law, motion, until=1.5, masses=masses)
    np.testing.assert_allclose(run.final, expected, atol=1e-8)
    assert run.report["bodies"] == 7


def test_copies_part_where_a_law_tells_them_apart() -> None:
    """The second of two copies hears more than the first: merged, they would stay together."""
    x = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    for motion in (af.Layers(gamma=0.5), af.Flow(), af.SphereFlow(), af.RescaledFlow(), af.Leaps(gamma=0.5)):
        final = af.simulate(x, Causal(), motion, until=2).final
        assert np.linalg.norm(final[0] - final[2]) > 0.01


def test_tokens_that_come_close_are_not_united() -> None:
    x = af.tokens.sphere(n=6, d=2, seed=0)
    x[:, 0] = abs(x[:, 0])
    run = af.simulate(x, Causal(beta=1.0), af.SphereFlow(), until=60.0)
    assert run.report["bodies"] == 6
    assert af.measure.diameter(run.final) < 1e-9
    merged = af.simulate(x, Causal(beta=1.0), af.Leaps(gamma=0.5), until=200)
    assert merged.report["merged"] == 0


@pytest.mark.parametrize("literal", [False, True])
def test_chains_draw_from_the_weights_of_each_token(literal: bool) -> None:
    x = np.array([[1.0], [2.0], [2.0], [5.0]])
    run = af.simulate(x, Previous(), af.Jumps(gamma=0.5, literal=literal), until=3, seed=0)
    expected = x
    for _ in range(3):
        expected = (expected + expected[[0, 0, 1, 2]]) / 2
    np.testing.assert_array_equal(run.final, expected)


def test_measurements_are_told_the_indices_too() -> None:
    n = 2500
    x, before = crowd(n), np.maximum(np.arange(n) - 1, 0)
    np.testing.assert_array_equal(af.measure.leaders(Previous(), x).index, before)
    np.testing.assert_array_equal(af.measure.influence(Previous(), x), np.stack([np.arange(n), before], axis=1)[1:])
    np.testing.assert_array_equal(af.measure.entropy(Previous(), x), np.zeros(n))
    assert [group.members.tolist() for group in af.geometry.quiescent_sets(Previous(), x)] == [[0]]
    run = af.simulate(x[:20], law_of(20), af.Layers(gamma=0.5), until=3)
    found = af.measure.rank(run).singular_values[-1]
    np.testing.assert_allclose(found, np.linalg.svd(matrix(law_of(20), run.final), compute_uv=False), atol=1e-12)


@dataclass(frozen=True, eq=False)
class Near(af.Localmax):
    """Localmax over the sources up to the token itself: a subclass of a law with methods of its own."""

    def log_weights(self, x, t=0, *, sources=None, masses=None, rows=None, columns=None):  # type: ignore[no-untyped-def]
        s = np.where(columns <= rows[:, None], x @ sources.T, -np.inf)
        near = s >= s.max(axis=1, keepdims=True) - self.delta
        return np.log(near / near.sum(axis=1, keepdims=True), where=near, out=np.full(s.shape, -np.inf))


@dataclass(frozen=True, eq=False)
class Halved(af.Softmax):
    """Softmax with half of its beta."""

    def log_weights(self, x, t=0, *, sources=None, masses=None):  # type: ignore[no-untyped-def]
        assert isinstance(self.beta, float)
        return af.Softmax(beta=self.beta / 2).log_weights(x, t, sources=sources, masses=masses)


def test_a_subclass_with_weights_of_its_own_takes_nothing_faster_over() -> None:
    x = crowd(30)
    for law in (Near(delta=0.3), Halved(beta=4.0)):
        np.testing.assert_allclose(law.attend(x), law.weights(x) @ x, atol=1e-14)
        run = af.simulate(x, law, af.Layers(gamma=0.5), until=1)
        np.testing.assert_allclose(run.final, (x + law.weights(x) @ x) / 2, atol=1e-14)
        many = af.ensemble(x[None], law, af.Layers(gamma=0.5), until=1)
        np.testing.assert_allclose(many.final[0], run.final, atol=1e-14)
    assert all(group.certificate is None for group in af.geometry.quiescent_sets(Near(delta=0.3), x))
    with refused("HardmaxFlow moves tokens under Hardmax, not First"):
        af.simulate(x, First(), af.HardmaxFlow(), until=1.0)


class First(af.Hardmax):
    """Everyone hears the first token."""

    def log_weights(self, x, t=0, *, sources=None, masses=None, rows=None, columns=None):  # type: ignore[no-untyped-def]
        return np.where(columns == 0, 0.0, np.full((len(x), 1), -np.inf))


# Laws that are not told


class ByShape(Law):
    """A causal mask from the shape of the weights alone: wrong as soon as the first row is not the first token."""

    def log_weights(self, x, t=0, *, sources=None, masses=None):  # type: ignore[no-untyped-def]
        y = x if sources is None else sources
        s = np.where(np.tril(np.ones((len(x), len(y)))) > 0, x @ y.T, -np.inf)
        return s - np.logaddexp.reduce(s, axis=1, keepdims=True)


class ByColumn(Law):
    """A bias for each source in its order."""

    def log_weights(self, x, t=0, *, sources=None, masses=None):  # type: ignore[no-untyped-def]
        s = np.tile(np.arange(len(x if sources is None else sources), dtype=float), (len(x), 1))
        return s - np.logaddexp.reduce(s, axis=1, keepdims=True)


class NotItself(Law):
    """All tokens but the one on the diagonal."""

    def log_weights(self, x, t=0, *, sources=None, masses=None):  # type: ignore[no-untyped-def]
        n = len(x if sources is None else sources)
        with np.errstate(divide="ignore"):
            return np.log((1 - np.eye(len(x), n)) / (n - 1))


@pytest.mark.parametrize("law", [ByShape(), ByColumn(), NotItself(), af.Heads([af.Softmax(), ByShape()])])
def test_a_law_that_depends_on_an_order_it_is_not_told_is_refused(law: Law) -> None:
    x = af.tokens.sphere(n=8, d=2, seed=0)
    for motion in (af.Layers(gamma=0.5), af.Flow(), af.SphereFlow()):
        with refused(r"depend on the order of the tokens.*rows and columns"):
            af.simulate(x, law, motion, until=1)
    with refused("depend on the order of the tokens"):
        af.ensemble(x[None], law, af.Layers(gamma=0.5), until=1)


class Cauchy(Law):
    """Weights that fall with the distance."""

    def log_weights(self, x, t=0, *, sources=None, masses=None):  # type: ignore[no-untyped-def]
        y = x if sources is None else sources
        s = -np.log1p(((x[:, None] - y) ** 2).sum(axis=2))
        return s - np.logaddexp.reduce(s, axis=1, keepdims=True)


@pytest.mark.parametrize(("place", "size"), [(1.0, 1e-12), (1e3, 1e-9), (1e6, 1e-5)])
def test_rounding_of_a_small_cloud_far_away_is_no_order(place: float, size: float) -> None:
    x = place + size * af.tokens.gaussian(n=40, d=2, seed=0)
    for law in (Cauchy(), af.Heads([Cauchy(), af.Softmax()])):
        assert af.simulate(x, law, af.Layers(gamma=0.5), until=3).tokens.shape == (4, 40, 2)
    with refused("ByShape depend on the order of the tokens"):
        af.simulate(x, ByShape(), af.Layers(gamma=0.5), until=3)


class Window(Law):
    """Tokens at most 2500 places away, by the shape of the weights."""

    def log_weights(self, x, t=0, *, sources=None, masses=None):  # type: ignore[no-untyped-def]
        n = len(x if sources is None else sources)
        near = abs(np.arange(len(x))[:, None] - np.arange(n)) <= 2500
        with np.errstate(divide="ignore"):
            return np.log(near / near.sum(axis=1, keepdims=True))


def test_a_wide_window_is_refused_too() -> None:
    with refused("Window depend on the order of the tokens"):
        Window().attend(af.tokens.gaussian(n=6000, d=2, seed=0))


def test_it_is_refused_wherever_rows_come_in_blocks() -> None:
    x = af.tokens.gaussian(n=2500, d=2, seed=0)
    for call in (
        lambda: ByShape().attend(x),
        lambda: af.measure.leaders(ByShape(), x),
        lambda: af.geometry.quiescent_sets(ByShape(), x),
    ):
        with refused("ByShape depend on the order of the tokens"):
            call()


def test_one_index_without_the_other_is_refused() -> None:
    class Half(Law):
        def log_weights(self, x, t=0, *, sources=None, masses=None, rows=None):  # type: ignore[no-untyped-def]
            return np.zeros((len(x), len(x)))

    with refused("takes rows alone, expected both rows and columns"):
        Half().attend([[1.0]])


def test_a_law_that_hands_all_keywords_on_is_told() -> None:
    class Wrapped(Law):
        def log_weights(self, x, t=0, **given):  # type: ignore[no-untyped-def]
            return PREVIOUS.log_weights(x, t, **given)

    x = crowd(3000)
    assert takes_indices(Wrapped())
    np.testing.assert_array_equal(Wrapped().attend(x), x[np.maximum(np.arange(3000) - 1, 0)])


@pytest.mark.parametrize("law", [af.Softmax(beta=3.0), af.Hardmax(), af.Hardmax(ties="first"), af.Localmax(delta=0.1)])
def test_no_law_of_ours_is_refused_where_most_tokens_tie(law: Law) -> None:
    x = np.tile([[1.0, 1.0], [1.0, -1.0], [0.5, 0.0]], (900, 1))
    assert len(af.measure.leaders(law, x).index) == 2700


@dataclass(frozen=True)
class Faulty(af.Law):
    """A mistake that ends in NaN: the logarithm of a negative number, from a time on."""

    since: float = 0.0

    def log_weights(self, x: Array, t: float = 0, *, sources: Any = None, masses: Any = None) -> Array:
        """Return log P_ij = -log n, and NaN later."""
        y = x if sources is None else sources
        with np.errstate(invalid="ignore", over="ignore"):
            return np.log((1.0 if t < self.since else -1.0) * np.ones((len(x), len(y))) / len(y)) + 0 * (x @ y.T) ** 2


NAN_FROM_A_LAW: dict[str, Callable[[Array], Any]] = {
    "weights": lambda x: Faulty().weights(x),
    "attend": lambda x: Faulty().attend(x),
    "heads": lambda x: af.Heads([af.Softmax(), Faulty()]).weights(x),
    "layers": lambda x: af.simulate(x, Faulty(since=2), af.Layers(gamma=0.5), until=5),
    "jumps": lambda x: af.simulate(x, Faulty(), af.Jumps(gamma=0.5), until=5, seed=0),
    "ensemble": lambda x: af.ensemble(x[None], Faulty(), af.Layers(gamma=0.5), until=3),
    "leaders": lambda x: af.measure.leaders(Faulty(), x),
    "quiescent sets": lambda x: af.geometry.quiescent_sets(Faulty(), x),
}


@pytest.mark.parametrize("name", NAN_FROM_A_LAW)
def test_a_law_that_returns_nan_is_named_and_tokens_are_not_blamed(name: str) -> None:
    with pytest.raises(af.InputError, match=r"log_weights of Faulty returned NaN, expected log P_ij") as refusal:
        NAN_FROM_A_LAW[name](af.tokens.gaussian(n=5, d=2, seed=0))
    assert "\n" not in str(refusal.value)
    assert "divide the tokens" not in str(refusal.value)


@pytest.mark.parametrize("law", [Faulty(), af.Heads([Faulty()], V=[np.eye(2)])])
def test_a_law_of_ours_that_returns_nan_is_named_unless_scores_can_overflow(
    law: Law, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Faulty.log_weights, "__module__", "attnflow.laws.faulty")
    with refused("log_weights of Faulty returned NaN, expected .*: correct its formula"):
        law.attend([[1.0, 2.0], [3.0, 4.0]])
    for since in (1e200, lambda t: 1e200):
        with refused("the scores of tokens as large as 4 leave the range of float64"):
            raise not_numbers(Faulty(since), np.array([[1.0, 2.0], [3.0, 4.0]]))  # type: ignore[arg-type]


def test_large_parameters_of_our_laws_are_no_mistake_in_a_formula() -> None:
    with refused("the scores of tokens as large as 1e[+]20 leave the range of float64"):
        af.Softmax(B=[[1e300]]).attend([[1e20], [1.0]])


def test_scores_of_a_law_that_overflow_are_the_fault_of_large_tokens() -> None:
    with refused(r"the scores of tokens as large as 1e\+150 leave the range of float64"):
        Faulty(since=9).attend([[1e150, -1e150], [1e150, 1e150]])
