"""Linear, sigmoid, unnormalised and self-adjusted attention: formulas written out, fast sums, and limits."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.core.inputs import Array

B = np.array([[1.0, 0.4], [-0.2, 0.6]])
b = np.array([0.2, -0.1])
W = np.random.default_rng(0).uniform(0.3, 3.0, 20)
X = af.tokens.gaussian(n=20, d=2, seed=0)


def softmax(z: Array) -> Array:
    e = W * np.exp(z)
    return np.asarray(e / e.sum(axis=1, keepdims=True))


FORMULAS: list[tuple[af.Law, Callable[[Array], Array]]] = [
    (af.Linear(B=B, b=b), lambda s: W * s / W.sum()),
    (af.Sigmoid(beta=1.5, offset=-0.7, B=B, b=b), lambda s: W / W.sum() / (1 + np.exp(-1.5 * s + 0.7))),
    (af.Unnormalized(beta=1.5, B=B, b=b), lambda s: W / W.sum() * np.exp(1.5 * s)),
    (af.Unnormalized(beta=-1.5, B=B, b=b), lambda s: W / W.sum() * np.exp(-1.5 * s)),
    (af.SelfAdjusted(beta=1.5, B=B, b=b), lambda s: 1.5 * s * softmax(1.5 * s)),
    (af.SelfAdjusted(beta=-1.5, B=B, b=b), lambda s: -1.5 * s * softmax(-1.5 * s)),
]
LAWS = [law for law, _ in FORMULAS]


@pytest.mark.parametrize(("law", "formula"), FORMULAS, ids=range(len(FORMULAS)))
def test_weights_and_sums_are_the_formula(law: af.Law, formula: Callable[[Array], Array]) -> None:
    expected = formula((X @ B.T + b) @ X.T)
    np.testing.assert_allclose(law.weights(X, masses=W), expected, rtol=1e-12)
    np.testing.assert_allclose(law.attend(X, masses=W), expected @ X, rtol=1e-11)
    # Tokens twice as large, values as they are: what moving frames ask for.
    heard = law.hear(X, sources=X, values=X, masses=W, gain=4.0).mean
    np.testing.assert_allclose(heard, formula((2 * X @ B.T + b) @ (2 * X).T) @ X, rtol=1e-11)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_a_mass_is_that_number_of_copies_and_sources_may_be_unheard(law: af.Law) -> None:
    counts = np.array([1, 3, 2, 1])
    copies = np.repeat(np.arange(4), counts)
    np.testing.assert_allclose(law.attend(X[:4], masses=counts.astype(float))[copies], law.attend(X[:4][copies]))
    few = law.of_scores(np.array([[0.5, -np.inf, -1.0]]), X[:1], 0, sources=X[:3], masses=W[:3])
    two = law.of_scores(np.array([[0.5, -1.0]]), X[:1], 0, sources=X[:3:2], masses=W[:3:2])
    np.testing.assert_allclose(few[0, [0, 2]], two[0], rtol=1e-14)
    assert few[0, 1] == 0


def test_unnormalised_on_the_sphere_is_usa() -> None:
    x = af.tokens.sphere(n=10, d=3, seed=0)
    law = af.simulate(x, af.Unnormalized(beta=2.0), af.SphereFlow(), until=1.0)
    usa = af.simulate(x, af.Softmax(beta=2.0), af.SphereFlow(normalized=False), until=1.0)
    np.testing.assert_allclose(law.final, usa.final, atol=1e-7)


def test_sigmoid_with_a_very_negative_offset_is_unnormalised() -> None:
    faint = af.Sigmoid(beta=1.5, offset=-30.0).weights(X) / np.exp(-30.0)
    np.testing.assert_allclose(faint, af.Unnormalized(beta=1.5).weights(X), rtol=1e-8)
    np.testing.assert_allclose(af.Sigmoid(offset=-700.0).weights(X[:1]), np.exp(X[0] @ X[0] - 700), rtol=1e-11)
    np.testing.assert_allclose(af.Sigmoid(beta=1e12).weights(X), (X @ X.T > 0) / 20, atol=1e-12)


def test_exponentials_and_sigmoids_are_linear_for_small_beta() -> None:
    small, linear = 1e-6, af.Linear().weights(X)
    first = (af.Unnormalized(beta=small).weights(X) - 1 / 20) / small
    np.testing.assert_allclose(first, linear, atol=1e-5)
    np.testing.assert_allclose(af.SelfAdjusted(beta=small).weights(X) / small, linear, atol=1e-5)
    np.testing.assert_allclose(
        (af.Sigmoid(beta=small).weights(X) - 1 / 40) * 4 / small, af.Linear().weights(X), atol=1e-6
    )


@pytest.mark.parametrize("wrap", [lambda law: law, lambda law: af.Masked(law, causal=True)])
def test_weights_that_leave_float64_are_refused_in_one_sentence(wrap: Callable[[af.Law], af.Law]) -> None:
    for call in (wrap(af.Unnormalized()).weights, wrap(af.Unnormalized()).attend):
        with refused(
            "the weights of tokens as large as .* leave the range of float64: divide the tokens by a constant"
        ):
            call(40 * X)


def test_sums_of_many_tokens_are_fast_and_right() -> None:
    x = af.tokens.gaussian(n=3000, d=2, seed=1)
    for law in (af.Linear(), af.Unnormalized(beta=0.5), af.SelfAdjusted(beta=0.5)):
        rows = law.signed_weights(x[:5], sources=x)
        np.testing.assert_allclose(law.attend(x)[:5], rows @ x, rtol=1e-8)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_arrays_of_other_libraries_give_the_same(law: af.Law) -> None:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        np.testing.assert_allclose(np.asarray(law.attend(jax.numpy.asarray(X))), law.attend(X), rtol=1e-11)


@pytest.mark.parametrize("law", [*LAWS, af.Entmax(beta=2.0, B=B, b=b), af.Sparsemax(beta=-2.0, Q=B, K=B)], ids=repr)
def test_a_masked_row_is_that_of_the_tokens_it_may_hear(law: af.Law) -> None:
    x, masked = X[:6], af.Masked(law, causal=True)
    P = masked.weights(x, masses=W[:6])
    for i in range(6):
        np.testing.assert_allclose(P[i, : i + 1], law.weights(x[: i + 1], masses=W[: i + 1])[i], rtol=1e-12, atol=1e-15)
        assert not P[i, i + 1 :].any()
    np.testing.assert_allclose(masked.attend(x, masses=W[:6]), P @ x, rtol=1e-11)


@pytest.mark.parametrize("law", [af.Entmax, af.Sparsemax, af.Sinkhorn, af.SelfAdjusted, af.Unnormalized, af.Sigmoid])
def test_parameters_may_differ_by_layer(law: type[af.Law]) -> None:
    """A list of betas and of matrices Q and K: the second layer takes the second of each."""
    Q, K = np.random.default_rng(1).standard_normal((2, 2, 1, 2)) / 2
    run = af.simulate(X, law(beta=[0.5, 1.0], Q=Q, K=K), af.Layers(gamma=0.5), until=2)  # type: ignore[call-arg]
    second = law(beta=1.0, B=K[1].T @ Q[1]).attend(run.tokens[1])  # type: ignore[call-arg]
    np.testing.assert_allclose(run.final, (run.tokens[1] + second) / 2, rtol=1e-11)


def test_parameters_of_laws_with_scores_stand_in_the_order_of_their_formulas() -> None:
    form = ["B", "b", "Q", "K"]
    for law, first in (
        (af.Entmax, ["alpha", "beta"]),
        (af.Sparsemax, ["beta"]),
        (af.SelfAdjusted, ["beta"]),
        (af.Unnormalized, ["beta"]),
        (af.Sigmoid, ["beta", "offset"]),
        (af.Linear, []),
    ):
        assert list(inspect.signature(law).parameters) == [*first, *form]
    assert repr(af.Sigmoid(2.0, -1.0)) == "Sigmoid(beta=2.0, offset=-1.0, B=None, b=None)"
