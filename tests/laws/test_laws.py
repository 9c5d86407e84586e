"""Laws of nature for the laws of attention; those of every engine are in tests/engines/test_laws_of_nature.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import attnflow as af
from attnflow.laws import Law, TieError

Array = NDArray[np.float64]
Make = Callable[[Array | None], Law]

# A law for each form B, None where there is none.
WITH_FORM: dict[str, Make] = {
    "softmax": lambda B: af.Softmax(beta=3.0, B=B),
    "softmax, negative beta": lambda B: af.Softmax(beta=-2.0, B=B),
    "hardmax": lambda B: af.Hardmax(B=B),
    "hardmax, points": lambda B: af.Hardmax(B=B, ties="points"),
    "hardmax, first": lambda B: af.Hardmax(B=B, ties="first"),
    "localmax": lambda B: af.Localmax(delta=0.3, B=B),
    "localmax, relative": lambda B: af.Localmax(delta=0.3, B=B, threshold="relative"),
    "localmax, normalized": lambda B: af.Localmax(delta=0.3, B=B, threshold="normalized"),
}
LAWS: dict[str, Make] = {**WITH_FORM, "hegselmann-krause": lambda B: af.HegselmannKrause(eps=0.8)}


@pytest.fixture(params=LAWS)
def make(request: pytest.FixtureRequest) -> Make:
    return LAWS[request.param]


@pytest.fixture(params=WITH_FORM)
def make_with_form(request: pytest.FixtureRequest) -> Make:
    return WITH_FORM[request.param]


def attend(law: Law, x: Array, engine: str = "auto", masses: Array | None = None, t: float = 0) -> Array:
    return law.hear(x, t, masses=masses, engine=engine).mean


def instances(lattice: bool = True) -> st.SearchStrategy[tuple[Array, Array]]:
    """Tokens and a matrix: generic, or small integers, where ties and duplicates happen."""

    @st.composite
    def draw(choose: st.DrawFn) -> tuple[Array, Array]:
        n, d = choose(st.integers(1, 12)), choose(st.integers(1, 4))
        rng = np.random.default_rng(choose(st.integers(0, 2**32 - 1)))
        if lattice and choose(st.booleans()):
            return rng.integers(-2, 3, (n, d)).astype(float), rng.integers(-1, 2, (d, d)).astype(float)
        scale = 10.0 ** choose(st.integers(-3, 2))
        return scale * rng.standard_normal((n, d)), rng.standard_normal((d, d))

    return draw()


@given(instances())
def test_rows_sum_to_one_and_weights_are_not_negative(make: Make, instance: tuple[Array, Array]) -> None:
    x, B = instance
    P = make(B).weights(x)
    assert (P >= 0).all()
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-13)


@given(instances())
def test_attend_is_weights_times_tokens(make: Make, engine: str, instance: tuple[Array, Array]) -> None:
    x, B = instance
    law = make(B)
    np.testing.assert_allclose(attend(law, x, engine), law.weights(x) @ x, rtol=0, atol=1e-12 * np.abs(x).max())


@given(instances(), st.sampled_from(["tokens", "points", "first"]))
def test_vertices_attend_like_weights_times_tokens(instance: tuple[Array, Array], ties: str) -> None:
    x, B = instance[0][:, :3], instance[1][:3, :3]
    law, w = af.Hardmax(B=B, ties=ties), np.arange(1.0, len(x) + 1)
    expected = law.weights(x, masses=w) @ x
    np.testing.assert_allclose(attend(law, x, "vertices", w), expected, rtol=0, atol=1e-12 * np.abs(x).max())


def test_refused_ties_name_tokens_though_most_are_left_out() -> None:
    x = np.random.default_rng(0).uniform(-0.4, 0.4, (2500, 2))
    x[1500], x[1700], x[1900] = (1.0, 1.0), (1.0, -1.0), (0.5, 0.0)
    x[:20] = [-1.0, 0.0]
    with pytest.raises(TieError, match="token 1900 ties between token 1500 and another point"):
        af.Hardmax(ties="error").attend(x)


@given(instances(), st.integers(0, 10**6))
def test_masses_agree_with_repeated_tokens(make: Make, instance: tuple[Array, Array], seed: int) -> None:
    x, B = instance
    copies = np.random.default_rng(seed).integers(1, 5, len(x))
    law, tol = make(B), 1e-12 * np.abs(x).max()
    repeated = np.repeat(x, copies, axis=0)
    by_mass = attend(law, x, masses=copies.astype(float))
    np.testing.assert_allclose(np.repeat(by_mass, copies, axis=0), attend(law, repeated), rtol=0, atol=tol)


@given(instances(), st.floats(0.05, 0.95))
def test_splitting_a_mass_changes_nothing(make: Make, instance: tuple[Array, Array], share: float) -> None:
    x, B = instance
    law, w = make(B), np.arange(1.0, len(x) + 1)
    split = np.concatenate([x, x[:1]]), np.concatenate([w, [w[0] * (1 - share)]])
    split[1][0] *= share
    expected = attend(law, x, masses=w)
    got = attend(law, split[0], masses=split[1])[: len(x)]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12 * np.abs(x).max())


@given(instances(lattice=False), st.integers(0, 10**6))
def test_permuting_tokens_permutes_the_result(make: Make, instance: tuple[Array, Array], seed: int) -> None:
    x, B = instance
    order = np.random.default_rng(seed).permutation(len(x))
    law = make(B)
    tol = 1e-12 * np.abs(x).max()
    np.testing.assert_allclose(attend(law, x[order]), attend(law, x)[order], rtol=0, atol=tol)


@given(instances(lattice=False), st.integers(0, 10**6))
def test_rotating_tokens_and_B_rotates_the_result(make: Make, instance: tuple[Array, Array], seed: int) -> None:
    x, B = instance
    R = np.linalg.qr(np.random.default_rng(seed).standard_normal((x.shape[1],) * 2))[0]
    rotated = attend(make(R @ B @ R.T), x @ R.T)
    np.testing.assert_allclose(rotated, attend(make(B), x) @ R.T, rtol=0, atol=1e-10 * np.abs(x).max())


@given(instances())
def test_barycentres_stay_in_the_box_of_the_tokens(make: Make, instance: tuple[Array, Array]) -> None:
    x, B = instance
    m, slack = attend(make(B), x), 1e-12 * np.abs(x).max()
    assert (m >= x.min(axis=0) - slack).all()
    assert (m <= x.max(axis=0) + slack).all()


@given(instances(lattice=False), st.floats(0.1, 50.0))
def test_gain_is_a_scaling_of_the_tokens(make: Make, instance: tuple[Array, Array], gain: float) -> None:
    x, B = instance
    law, root = make(B), np.sqrt(gain)
    expected = attend(law, root * x) / root
    np.testing.assert_allclose(law.hear(x, gain=gain).mean, expected, rtol=0, atol=1e-9 * np.abs(x).max())


def test_score_is_B_on_the_left(make_with_form: Make) -> None:
    """s_ij = <B x_i, x_j>: with B = [[0, 1], [0, 0]] token (0, 1) listens along the first axis, (1, 0) to nobody."""
    B = np.array([[0.0, 1.0], [0.0, 0.0]])
    x = np.array([[1.0, 0.0], [0.0, 1.0], [-3.0, 0.5]])
    for sharp in (af.Softmax(beta=100.0, B=B), af.Hardmax(B=B), af.Localmax(B=B)):
        np.testing.assert_allclose(sharp.weights(x)[1], [1.0, 0.0, 0.0], atol=1e-12)
        np.testing.assert_allclose(sharp.weights(x)[0], 1 / 3)
    np.testing.assert_allclose(make_with_form(B).weights(x)[0], make_with_form(np.zeros((2, 2))).weights(x)[0])


def test_parameters_may_be_functions_of_time() -> None:
    x = af.tokens.gaussian(n=6, d=2, seed=1)
    B = np.array([[1.0, 2.0], [0.0, 1.0]])
    pairs = [
        (af.Softmax(beta=lambda t: 1 + t, B=lambda t: t * B), af.Softmax(beta=4.0, B=3 * B)),
        (af.Hardmax(B=lambda t: (t - 4) * B), af.Hardmax(B=-B)),
        (af.Localmax(delta=lambda t: 1 / (t + 1)), af.Localmax(delta=0.25)),
        (af.HegselmannKrause(eps=lambda t: t / 2), af.HegselmannKrause(eps=1.5)),
    ]
    for varying, fixed in pairs:
        np.testing.assert_allclose(varying.weights(x, t=3), fixed.weights(x))
        np.testing.assert_allclose(varying.attend(x, t=3), fixed.attend(x))


def test_ties_of_hardmax() -> None:
    """Token 4 scores tokens 0, 1, 2 alike; 1 and 2 are one point, with masses 1 and 5."""
    x = np.array([[1.0, 1.0], [1.0, -1.0], [1.0, -1.0], [-1.0, 0.0], [0.5, 0.0]])
    w = np.array([1.0, 1.0, 5.0, 1.0, 1.0])
    np.testing.assert_allclose(af.Hardmax(ties="tokens").weights(x)[4], [1 / 3, 1 / 3, 1 / 3, 0, 0])
    np.testing.assert_allclose(af.Hardmax(ties="tokens").weights(x, masses=w)[4], [1 / 7, 1 / 7, 5 / 7, 0, 0])
    np.testing.assert_allclose(af.Hardmax(ties="points").weights(x, masses=w)[4], [0.5, 0.5, 0, 0, 0])
    np.testing.assert_allclose(af.Hardmax(ties="first").weights(x)[4], [1, 0, 0, 0, 0])


@pytest.mark.parametrize("engine", ["dense", "fused", "vertices"])
def test_ties_are_refused_only_between_distinct_points(engine: str) -> None:
    law = af.Hardmax(ties="error")
    twice = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(attend(law, twice, engine), twice)
    assert law.weights(twice).sum() == 3
    # The mean of these tied points is the middle one: comparing means would not notice.
    line = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, -1.0], [3.0, 0.0]])[:3]
    with pytest.raises(TieError, match="token 0 ties between token 0 and another point at time 7"):
        law.hear(line, 7, engine=engine)
    with pytest.raises(TieError, match="token 0"):
        law.weights(line)


def test_localmax_at_zero_is_hardmax_and_at_infinity_uniform(engine: str) -> None:
    x = np.random.default_rng(2).integers(-2, 3, (15, 2)).astype(float)
    for threshold in ("additive", "relative", "normalized"):
        law = af.Localmax(threshold=threshold)
        np.testing.assert_array_equal(attend(law, x, engine), attend(af.Hardmax(), x, engine))
    np.testing.assert_allclose(attend(af.Localmax(delta=1e3), x, engine), np.tile(x.mean(axis=0), (15, 1)), atol=1e-14)
    np.testing.assert_allclose(attend(af.Softmax(beta=0.0), x, engine), np.tile(x.mean(axis=0), (15, 1)), atol=1e-14)


@pytest.mark.parametrize(("threshold", "power"), [("additive", 2), ("relative", 0), ("normalized", 1)])
def test_delta_scales_with_the_threshold(engine: str, threshold: str, power: int) -> None:
    x, c = af.tokens.gaussian(n=30, d=2, seed=4), 4.0
    small = attend(af.Localmax(delta=0.3, threshold=threshold), x, engine)
    large = attend(af.Localmax(delta=0.3 * c**power, threshold=threshold), c * x, engine)
    np.testing.assert_allclose(large, c * small, rtol=0, atol=1e-13)
    assert not np.allclose(large, c * attend(af.Hardmax(), x, engine))


def test_localmax_has_the_support_of_truncated_softmax() -> None:
    x, beta, tau = af.tokens.gaussian(n=25, d=3, seed=0), 2.0, 0.05
    P = af.Softmax(beta=beta).weights(x)
    support = tau * P.max(axis=1, keepdims=True) <= P
    np.testing.assert_array_equal(af.Localmax(delta=np.log(1 / tau) / beta).weights(x) > 0, support)


def test_heads_sum_their_values(engine: str) -> None:
    x = af.tokens.gaussian(n=7, d=2, seed=0)
    V = np.array([[1.0, 2.0], [3.0, 4.0]])
    law = af.Heads([af.Softmax(beta=2.0), af.Hardmax()], V=[V, lambda t: t * V.T])
    a, b = af.Softmax(beta=2.0).weights(x) @ x, af.Hardmax().weights(x) @ x
    np.testing.assert_allclose(law.hear(x, 3, engine=engine).mean, a @ V.T + 3 * b @ V, atol=1e-13)
    assert law.weights(x, t=3).shape == (2, 7, 7)


def test_a_new_law_needs_only_its_weights() -> None:
    class Nearest(Law):
        def log_weights(self, x, t=0, *, sources=None, masses=None):  # type: ignore[no-untyped-def]
            y = x if sources is None else sources
            s = -((x[:, None] - y) ** 2).sum(axis=2)
            return s - np.log(np.exp(s).sum(axis=1, keepdims=True))

    x = af.tokens.gaussian(n=9, d=2, seed=0)
    law = Nearest()
    np.testing.assert_allclose(law.attend(x), law.weights(x) @ x, atol=1e-14)
    run = af.simulate(x, law, af.Layers(gamma=0.5), until=3)
    np.testing.assert_allclose(run.tokens[1], x + 0.5 * (law.weights(x) @ x - x), atol=1e-14)
    assert run.report["engine"] == "dense"


def test_a_law_that_weighs_otherwise_separates_nothing() -> None:
    class Wider(af.HegselmannKrause):
        def log_weights(self, x: Any, t: float = 0, **given: Any) -> Any:
            return af.HegselmannKrause(eps=9.0).log_weights(x, t, **given)

    x, apart = np.array([[0.0], [5.0]]), np.array([0, 1])
    assert af.HegselmannKrause(eps=1.0).separates(x, apart)
    assert not Wider(eps=1.0).separates(x, apart)
