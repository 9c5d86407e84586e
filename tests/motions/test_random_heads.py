"""Random value matrices in each layer: the diffusion of the overlap, what is common, heads and random scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.laws import Hearing
from attnflow.runs.ensembles import ManyHearing

SOFT = af.Softmax(beta=1.5)
SPHERE = af.tokens.sphere(n=5, d=3, seed=0)


def overlaps_after_a_layer(motion: af.RandomHeads, d: int, rho: float, draws: int, law: af.Law = SOFT) -> Array:
    """Return <x_1, x_2> after one layer of two tokens with overlap rho; the second half draws -W for W of the first."""
    rng = np.random.default_rng(5)

    def draw(*shape: int) -> Array:
        half = rng.standard_normal((draws // 2, *shape))
        return np.concatenate([half, -half])

    x = np.zeros((draws, 2, d))
    x[:, :, 0], x[:, 1, 0], x[:, 1, 1] = 1.0, rho, math.sqrt(1 - rho**2)
    x = motion.random_step(ManyHearing(law), x, 0, 1.0, draw)
    np.testing.assert_allclose(np.linalg.norm(x, axis=2), 1.0, atol=1e-14)
    return (x[:, 0] * x[:, 1]).sum(axis=1)


@pytest.mark.parametrize(("d", "rho"), [(2, 0.3), (3, -0.5), (5, 0.0)])
def test_the_overlap_of_two_tokens_has_the_drift_and_the_spread_of_its_diffusion(d: int, rho: float) -> None:
    """The formulas as they were first derived, term by term; five standard errors, and what dt leaves.

    The mean of draws W and -W is known much better than that of one: to 0.03 of a drift that is about 1.
    """
    dt, draws, beta = 1e-3, 20_000, 1.5
    a = 1 / (1 + math.exp(-beta * (1 - rho)))
    q = 2 * a * (1 - a)
    M, C = 1 - q + q * rho, q + (1 - q) * rho
    drift = (d - 2 + rho**2) * C - (d - 1) * M * rho
    spread = 2 * (1 - rho**2) * (M - rho * C)
    moves = overlaps_after_a_layer(af.RandomHeads(dt=dt), d, rho, draws) - rho
    pairs = moves.reshape(2, -1).mean(axis=0) / dt
    assert abs(pairs.mean() - drift) < 5 * pairs.std() / math.sqrt(len(pairs)) + 10 * dt < 0.15
    assert abs(moves.var() / dt / spread - 1) < 5 * math.sqrt(2 / len(pairs)) + 10 * dt
    # With the variable artanh rho the same is q (d - 2) + (1 - q) rho and 2 (1 - q).
    assert drift == pytest.approx((1 - rho**2) * (q * (d - 2) - (1 - q) * rho))
    assert spread == pytest.approx(2 * (1 - q) * (1 - rho**2) ** 2)


def test_noise_is_common() -> None:
    """Tokens at one place stay together, and two antipodal ones stay antipodal."""
    x = np.array([[1.0, 0.0, 0.0]] * 3 + [[-1.0, 0.0, 0.0]] * 3)
    final = af.simulate(x, SOFT, af.RandomHeads(dt=0.1), until=50, seed=0).final
    np.testing.assert_allclose(final[:3], np.repeat(final[:1], 3, axis=0), atol=1e-12)
    np.testing.assert_allclose(final[3:], -final[:3], atol=1e-12)
    assert abs(final[0] - x[0]).max() > 0.1


def test_heads_that_hear_alike_have_the_law_of_one() -> None:
    one, three = (overlaps_after_a_layer(af.RandomHeads(dt=0.1, heads=h), 3, 0.2, 20_000) for h in (1, 3))
    room = 5 * one.std() / math.sqrt(len(one) / 2)
    assert abs(one.mean() - three.mean()) < room
    assert abs(one.std() - three.std()) < room


def test_random_scores_are_gaussian_forms_of_the_tokens() -> None:
    """A layer with given numbers, written out: <G x_i, x_j> or <B G x_i, x_j> for the scores, W for the values."""
    given = list(np.random.default_rng(2).standard_normal((4, 3, 3)))
    motion, B = af.RandomHeads(dt=0.3, heads=2, scores=True), np.diag([1.0, 2.0, -1.0])
    for law, form in ((SOFT, np.eye(3)), (af.Softmax(beta=1.5, B=B), B)):
        waiting = iter(given)
        found = motion.random_step(Hearing(law), SPHERE, 0, 1.0, lambda *shape: next(waiting))  # noqa: B023
        y = SPHERE.copy()
        for G, W in ((given[0], given[1]), (given[2], given[3])):
            P = af.Softmax(beta=1.5, B=form @ G).weights(SPHERE)
            y += math.sqrt(0.3 / 2) * P @ SPHERE @ W.T
        np.testing.assert_allclose(found, y / np.linalg.norm(y, axis=1, keepdims=True), atol=1e-13)


def test_seeds_ensembles_and_masks() -> None:
    motion, law = af.RandomHeads(dt=lambda t: 0.1 / (1 + t), scores=True), af.Masked(SOFT, causal=True)
    x = np.stack([SPHERE, SPHERE])
    found = af.ensemble(x, law, motion, 5, seed=3)
    alone = af.simulate(SPHERE, law, motion, 5, seed=found[1].seed)
    np.testing.assert_allclose(found.final[1], alone.final, atol=1e-12)
    assert abs(found.final[0] - found.final[1]).max() > 1e-3
    np.testing.assert_array_equal(alone.at(3), alone.tokens[3])
    # The first token hears itself alone, whatever the others are.
    few = af.simulate(SPHERE[:2], law, motion, 5, seed=found[1].seed)
    np.testing.assert_allclose(few.tokens[:, 0], alone.tokens[:, 0], atol=1e-12)


def test_what_is_refused() -> None:
    for given, sentence in (
        ((SPHERE, af.Heads([SOFT, SOFT]), af.RandomHeads(), 3), "draw the matrices of their heads"),
        ((2 * SPHERE, SOFT, af.RandomHeads(), 3), "has norm 2"),
        ((SPHERE, SOFT, af.RandomHeads(), 2.5), "give a whole number"),
        ((SPHERE, af.HegselmannKrause(), af.RandomHeads(scores=True), 3), "weights of HegselmannKrause do not follow"),
        ((SPHERE, af.Sinkhorn(), af.RandomHeads(scores=True), 3), "give another law, or scores=False"),
    ):
        with refused(sentence):
            af.simulate(*given)
    with refused("RandomHeads is random itself"):
        af.Noisy(af.RandomHeads(), sigma=0.1)
    with refused("heads is 1e+15, expected a finite number at least 1 and at most 1e+06"):
        af.RandomHeads(heads=10**15)
    with refused("heads is 0, expected"):
        af.RandomHeads(heads=0)
