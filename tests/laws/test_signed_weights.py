"""Laws whose weights are no probabilities: they move tokens, and are refused where probabilities are needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.laws import Law
from attnflow.laws.by_layer import ByLayer


@dataclass(frozen=True, eq=False)
class Scores(Law):
    """Weights w_j <x_i, x_j> / sum_k w_k."""

    stochastic = False

    def signed_weights(self, x, t=0, *, sources=None, masses=None):  # type: ignore[no-untyped-def]
        y = x if sources is None else sources
        w = np.ones(y.shape[-2]) if masses is None else masses
        return x @ y.swapaxes(-1, -2) * w / w.sum()


@dataclass(frozen=True, eq=False)
class Before(Law):
    """Weight -1 on the token before, and on nobody for the first one."""

    stochastic = False

    def signed_weights(self, x, t=0, *, sources=None, masses=None, rows=None, columns=None):  # type: ignore[no-untyped-def]
        return -1.0 * (columns == rows[:, None] - 1)


LAW, BEFORE = Scores(), Before()
X = af.tokens.gaussian(n=9, d=2, seed=0)


def test_weights_and_means_are_those_of_the_formula() -> None:
    w = np.linspace(1.0, 2.0, 9)
    np.testing.assert_allclose(LAW.weights(X), X @ X.T / 9, rtol=1e-14)
    np.testing.assert_allclose(LAW.attend(X, masses=w), X @ X.T @ (w[:, None] * X) / w.sum(), rtol=1e-12)
    np.testing.assert_allclose(BEFORE.attend(X), np.concatenate([np.zeros((1, 2)), -X[:-1]]))


def test_indices_are_told_in_every_block_of_rows() -> None:
    x = af.tokens.gaussian(n=3000, d=1, seed=0)
    np.testing.assert_array_equal(BEFORE.attend(x)[1:], -x[:-1])


def test_heads_of_both_kinds_add_up() -> None:
    law = af.Heads([LAW, af.Softmax()], V=[None, 2 * np.eye(2)])
    np.testing.assert_allclose(law.attend(X), LAW.attend(X) + 2 * af.Softmax().attend(X), rtol=1e-12)
    np.testing.assert_allclose(law.weights(X), [LAW.weights(X), af.Softmax().weights(X)], rtol=1e-12)


def test_layers_flows_and_ensembles_move_by_the_signed_sums() -> None:
    run = af.simulate(X, LAW, af.Layers(gamma=0.5), until=1)
    np.testing.assert_allclose(run.final, (X + LAW.attend(X)) / 2, rtol=1e-12)
    flow = af.simulate(X[:, :1], LAW, af.Flow(), until=0.3)
    a = float((X[:, 0] ** 2).mean())  # x' = x mean(x^2): mean(x^2) is a / (1 - 2 a t)
    np.testing.assert_allclose(flow.final[:, 0], X[:, 0] / np.sqrt(1 - 2 * a * 0.3), rtol=1e-8)
    both = af.ensemble(np.stack([X, -2 * X]), LAW, af.Layers(gamma=0.5), until=1)
    np.testing.assert_allclose(both.final[1], (-2 * X + LAW.attend(-2 * X)) / 2, rtol=1e-12)


@pytest.mark.parametrize(
    "asked",
    [
        lambda: af.simulate(X, LAW, af.Jumps(gamma=0.5), until=3, seed=0),
        lambda: af.measure.leaders(LAW, X),
        lambda: af.measure.entropy(LAW, X),
        lambda: af.measure.influence(LAW, X),
        lambda: af.geometry.quiescent_sets(LAW, X),
        lambda: LAW.log_weights(X),
        lambda: af.Heads([LAW]).log_weights(X),
    ],
)
def test_what_needs_probabilities_refuses_in_one_sentence(asked: Any) -> None:
    with refused("the weights of (Scores|Heads) are no probabilities, which are needed here"):
        asked()


def test_runs_are_summed_up_without_leaders_and_without_arguments_of_averages() -> None:
    run = af.simulate(np.zeros((3, 1)), LAW, af.Layers(gamma=0.5), until=2)
    assert af.measure.summary(run).leaders is None
    assert "no probabilities" in str(run.next_change)


def test_mistakes_in_a_formula_are_named() -> None:
    @dataclass(frozen=True, eq=False)
    class Wrong(Law):
        stochastic = False
        value: float = np.nan

        def signed_weights(self, x, t=0, *, sources=None, masses=None):  # type: ignore[no-untyped-def]
            return np.full((len(x), 1 if self.value else len(x)), self.value)

    with refused("signed_weights of Wrong returned an array of shape"):
        Wrong(1.0).attend(X)
    with refused("signed_weights of Wrong returned NaN"):
        Wrong().attend(X[:1])

    class Silent(Law):
        stochastic = False

    with refused("a law must write signed_weights"):
        Silent().attend(X)


def test_signed_weights_of_a_layer_are_those_of_its_law() -> None:
    x = af.tokens.gaussian(n=4, d=2, seed=0)
    laws = [af.Linear(), af.Linear(B=[[2.0, 0.0], [1.0, -1.0]])]
    for k, law in enumerate(laws):
        np.testing.assert_array_equal(ByLayer(laws).signed_weights(x, k), law.signed_weights(x, k))
