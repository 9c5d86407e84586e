"""Sinkhorn: sums of rows and columns, closed forms, and an independent scaling."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from refusals import refused

import attnflow as af

TURN = np.array([[1.0, 0.8], [-0.6, 0.7]])


@pytest.mark.parametrize("B", [None, TURN, -np.eye(2)], ids=["I", "not symmetric", "-I"])
@pytest.mark.parametrize("beta", [0.0, 1.0, 9.0])
def test_rows_and_columns_have_their_sums(B: np.ndarray | None, beta: float) -> None:
    x, w = af.tokens.gaussian(n=25, d=2, seed=0), np.random.default_rng(0).uniform(0.3, 3.0, 25)
    P = af.Sinkhorn(beta=beta, B=B).weights(x, masses=w)
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-13)
    np.testing.assert_allclose(w @ P, w, rtol=1e-12)
    # That is one scaling of the exponentials: cross ratios of 2-by-2 minors are theirs.
    z = beta * (x if B is None else x @ B.T) @ x.T
    logs = np.log(P / w) - z
    np.testing.assert_allclose(logs - logs[:1] - logs[:, :1] + logs[0, 0], 0, atol=1e-9 * max(1.0, np.ptp(z)))


@pytest.mark.parametrize("B", [np.eye(2), TURN], ids=["I", "not symmetric"])
def test_weights_are_those_of_optimal_transport(B: np.ndarray) -> None:
    x, w = af.tokens.gaussian(n=12, d=2, seed=1), np.random.default_rng(1).uniform(0.3, 3.0, 12)
    shares = w / w.sum()
    plan = ot.sinkhorn(shares, shares, -(x @ B.T) @ x.T, 1 / 2.0, method="sinkhorn_log", stopThr=1e-15, numItermax=5000)
    np.testing.assert_allclose(af.Sinkhorn(beta=2.0, B=B).weights(x, masses=w), plan / shares[:, None], atol=1e-12)


def test_two_tokens_have_a_closed_form_and_one_hears_itself() -> None:
    x, law = np.array([[0.3, -1.0], [1.1, 0.4]]), af.Sinkhorn(beta=3.0, B=TURN)
    gap = x[0] - x[1]
    p = 1 / (1 + np.exp(-3.0 * gap @ TURN @ gap / 2))
    np.testing.assert_allclose(law.weights(x), [[p, 1 - p], [1 - p, p]], atol=1e-14)
    np.testing.assert_array_equal(law.weights(x[:1]), [[1.0]])


def test_groups_that_hardly_hear_each_other_are_scaled_too() -> None:
    x = np.concatenate([af.tokens.gaussian(n=10, d=2, seed=2), af.tokens.gaussian(n=10, d=2, seed=3) + 9])
    for law in (af.Sinkhorn(beta=2.0), af.Sinkhorn(beta=2.0, B=TURN), af.Sinkhorn(beta=-1.0)):
        np.testing.assert_allclose(law.weights(x).sum(axis=0), 1, atol=1e-12)
    with refused("the sums of columns of Sinkhorn are only reached up to a factor of"):
        af.Sinkhorn(beta=3000.0, B=[[0.1, 1.0], [-1.0, 0.2]]).weights(x)


def test_means_queries_masses_and_many_systems() -> None:
    x, law = af.tokens.gaussian(n=30, d=2, seed=4), af.Sinkhorn(beta=2.0)
    np.testing.assert_allclose(law.attend(x), law.weights(x) @ x, atol=1e-12)
    # A query is a row by itself, and one at a token has its weights.
    np.testing.assert_allclose(np.exp(law.log_weights(x[3:5], sources=x)), law.weights(x)[3:5], atol=1e-14)
    counts = np.array([2.0, 1.0, 3.0])
    copies = np.repeat(np.arange(3), counts.astype(int))
    np.testing.assert_allclose(law.attend(x[:3], masses=counts)[copies], law.attend(x[:3][copies]), atol=1e-12)
    many = af.ensemble(np.stack([x, 2 * x]), law, af.Layers(gamma=1.0), until=1).final
    np.testing.assert_allclose(many[1], law.attend(2 * x), atol=1e-12)


def test_fast_engines_serve_it() -> None:
    x, law = af.tokens.gaussian(n=800, d=2, seed=5), af.Sinkhorn(beta=0.5)
    heard = [law.hear(x, engine=engine).mean for engine in ("fast", "precise")]
    np.testing.assert_allclose(heard[0], heard[1], atol=1e-7)


@pytest.mark.parametrize("engine", ["auto", "dense"])
def test_rescaled_scores_are_those_of_rescaled_tokens(engine: str) -> None:
    x, law = af.tokens.gaussian(n=9, d=2, seed=6), af.Sinkhorn(beta=0.5, B=TURN)
    mean = law.hear(x, sources=x, values=x, gain=4.0, engine=engine).mean
    np.testing.assert_allclose(mean, law.weights(2 * x) @ x, atol=1e-12)
