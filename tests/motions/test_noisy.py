"""Noise around motions: its law against closed forms, the orders of its steps, what is random and what is not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.catalogue import build
from attnflow.core.inputs import Array
from attnflow.laws import Hearing
from attnflow.motions import ContinuousMotion, random_steps
from attnflow.motions.random_steps import noise_of
from attnflow.motions.stepper import NoDirection
from attnflow.runs.ensembles import ManyHearing

SPHERE = af.tokens.sphere(n=6, d=3, seed=0)
CLOUD = af.tokens.gaussian(n=6, d=2, seed=1)
SOFT = af.Softmax(beta=2.0)
CHANGING: Any = abs
NO_MOTION: Any = "flow"


@dataclass(frozen=True, eq=False)
class Still(ContinuousMotion):
    """A flow without drift, so that the noise is all that moves."""

    surface = "sphere"

    def velocity(self, hearing: Hearing, x: Array, t: float) -> Array:
        return np.zeros_like(x)


@dataclass(frozen=True, eq=False)
class Decay(ContinuousMotion):
    """The flow x' = -x of tokens that hear nothing."""

    def velocity(self, hearing: Hearing, x: Array, t: float) -> Array:
        return -x


def walked(motion: af.Noisy, law: af.Law, x: Array, normals: Array, until: float) -> Array:
    """Return where the tokens are after steps that take these normal numbers (steps, n, d), in place of drawn ones."""
    waiting = iter(normals)
    steps = list(motion.path(Hearing(law), x, 0.0, until, lambda *shape: next(waiting)))
    assert len(steps) == len(normals)
    return steps[-1][1]


def strong_errors(flow: af.Motion, x: Array, kappa: Any, paths: int) -> Array:
    """Return the errors of steps of 1/8, 1/16, 1/32 at time 1, against steps of 1/256 on the same Brownian paths."""
    rng, squares = np.random.default_rng(3), np.zeros(3)
    for _ in range(paths):
        fine = rng.standard_normal((256, *x.shape))

        def end(steps: int, fine: Array = fine) -> Array:
            normals = fine.reshape(steps, -1, *x.shape).sum(axis=1) * math.sqrt(steps / 256)
            return walked(af.Noisy(flow, kappa=kappa, dt=1 / steps), SOFT, x, normals, 1.0)

        reference = end(256)
        squares += [np.square(end(steps) - reference).sum() for steps in (8, 16, 32)]
    return np.sqrt(squares / paths)


def slope(errors: Array) -> float:
    """Return the order of errors of steps that are halved each time."""
    return float(-np.polyfit(np.arange(len(errors)), np.log2(errors), 1)[0])


@pytest.mark.parametrize(
    "flow",
    [af.Flow(V=[[-1.0, 0.5], [-0.5, -1.0]]), af.RescaledFlow(V=[[0.5, 0.3], [0.0, -0.5]])],
    ids=["flow", "frame"],
)
def test_steps_in_space_have_strong_order_one(flow: af.Motion) -> None:
    """Ten paths of six tokens; the reference itself errs by an eighth of the smallest error, which raises the slope."""
    assert 0.85 < slope(strong_errors(flow, CLOUD, lambda t: 2.0 + t, 10)) < 1.25


def test_steps_on_the_sphere_have_strong_order_one_half() -> None:
    assert 0.4 < slope(strong_errors(af.SphereFlow(), SPHERE, 2.0, 12)) < 0.75


def exact_means(order: int, d: int, kappa: float, steps: int) -> float:
    """Return E<x, e> after a time 1 of pure noise from x = e: that of one step, by quadrature, to the power of steps.

    A step turns each tangent direction alike, so E<x', e> = c <x, e> with the number c = E cos of the first step.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    grid = np.stack(np.meshgrid(*[nodes] * d, indexing="ij"), axis=-1).reshape(-1, 1, d)
    chance = np.prod(np.meshgrid(*[weights / weights.sum()] * d, indexing="ij"), axis=0).ravel()
    e, motion, hearing = np.eye(d)[:1], af.Noisy(Still(), kappa=kappa, dt=1 / steps), Hearing(SOFT)
    moved = [motion.random_step(hearing, e, 0.0, 1 / steps, lambda *shape, one=one: one)[0, 0] for one in grid]
    return float(chance @ np.array(moved)) ** steps


@pytest.mark.parametrize("d", [2, 3])
def test_noise_on_the_sphere_has_weak_order_one(d: int) -> None:
    """E<x, e> = e^{-(d-1) t / kappa}: no sampling, the mean of a step is a sum over nodes of a quadrature.

    On the circle a step of pure noise is exact.
    """
    exact = math.exp(-(d - 1) / 2.0)
    errors = np.array([abs(exact_means(12, d, 2.0, steps) - exact) for steps in (4, 8, 16)])
    if d == 2:
        assert errors.max() < 1e-10
    else:
        assert 0.95 < slope(errors) < 1.1
        assert errors[2] < 0.02 * exact


def test_noise_on_the_sphere_decays_as_brownian_motion_does() -> None:
    """Of 20,000 tokens that hear nothing: four standard errors; noise of half the strength is 40 of them away."""
    x = np.tile([1.0, 0.0, 0.0], (20_000, 1))
    motion, rng = af.Noisy(Still(), kappa=4.0, dt=0.1), np.random.default_rng(0)
    for _ in range(10):
        x = motion.random_step(Hearing(SOFT), x, 0.0, 0.1, lambda *shape: rng.standard_normal(shape))
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0, atol=1e-14)
    mean, error = x[:, 0].mean(), x[:, 0].std() / math.sqrt(len(x))
    assert abs(mean - math.exp(-2 / 4.0)) < 4 * error + 0.002  # the error of ten steps
    assert abs(x[:, 1:].mean(axis=0)).max() < 4 * error + 0.01


def test_steps_in_space_have_weak_order_one() -> None:
    """Ornstein and Uhlenbeck's process from 1: mean e^{-t}, variance (1 - e^{-2t}) / kappa; 40,000 tokens.

    The errors of the means are 12 to 50 standard errors, so that their slope is known to 0.1.
    """
    kappa, rng, errors = 20.0, np.random.default_rng(1), []
    for steps in (4, 8, 16):
        motion = af.Noisy(Decay(), kappa=kappa, dt=1 / steps)
        x = list(motion.path(Hearing(SOFT), np.ones((40_000, 1)), 0.0, 1.0, lambda *s: rng.standard_normal(s)))[-1][1]
        errors.append([math.exp(-1) - x.mean(), x.var() - (1 - math.exp(-2)) / kappa])
    means, variances = np.array(errors).T
    assert 0.9 < slope(means) < 1.25
    assert abs(variances[2]) < 0.05 / kappa < 0.1 / kappa < abs(variances[0])


def test_the_mean_of_softmax_tokens_has_weak_order_one() -> None:
    """Of E|mean of all tokens|^2 the differences between steps of 1/4, 1/8, 1/16 and 1/32 halve each time.

    All steps follow the same 1,000 Brownian paths and their opposites, so that each difference is 15 standard errors
    and more. With order 1/2 their ratios would be 1.4; noise that is too strong by sqrt(dt) makes them 1.6.
    """
    x0 = SPHERE + np.array([0.0, 0.0, 2.0])
    x0 /= np.linalg.norm(x0, axis=1, keepdims=True)
    fine = np.random.default_rng(0).standard_normal((32, 1000, *SPHERE.shape))
    fine = np.concatenate([fine, -fine], axis=1)
    hearing, flow, found = ManyHearing(SOFT), af.SphereFlow(V=3 * np.eye(3)), []
    for steps in (4, 8, 16, 32):
        normals = fine.reshape(steps, -1, *fine.shape[1:]).sum(axis=1) * math.sqrt(steps / 32)
        motion, x = af.Noisy(flow, kappa=4.0, dt=1 / steps), np.repeat(x0[None], 2000, axis=0)
        for k in range(steps):
            x = motion.random_step(hearing, x, k / steps, 1 / steps, lambda *shape, now=normals[k]: now)
        found.append(np.square(x.mean(axis=1)).sum(axis=1).reshape(2, -1).mean(axis=0))
    differences = np.diff(found, axis=0)
    means, errors = differences.mean(axis=1), differences.std(axis=1) / math.sqrt(1000)
    assert (means > 15 * errors).all()
    ratios = means[:-1] / means[1:]
    assert ((ratios > 1.75) & (ratios < 2.7)).all()


def test_without_noise_the_drift_is_left() -> None:
    for flow, x in (
        (af.Flow(), CLOUD),
        (af.RescaledFlow(V=[[1.0, 0.3], [0.0, 0.5]]), CLOUD),
        (af.SphereFlow(), SPHERE),
    ):
        exact = af.simulate(x, SOFT, flow, until=0.5).final
        cold = [af.simulate(x, SOFT, af.Noisy(flow, kappa=math.inf, dt=dt), until=0.5).final for dt in (0.01, 0.005)]
        errors = [abs(one - exact).max() for one in cold]
        assert errors[1] < 0.6 * errors[0] < 0.06
    never = af.Noisy(af.SphereFlow(), kappa=lambda t: math.inf, dt=0.005)
    np.testing.assert_array_equal(af.simulate(SPHERE, SOFT, never, until=0.5).final, cold[1])
    for layers, x in ((af.Layers(gamma=0.3), CLOUD), (af.Residual(dt=0.1), CLOUD), (af.SphereLayers(dt=0.1), SPHERE)):
        still = af.simulate(x, SOFT, af.Noisy(layers, sigma=0.0), until=7).final
        np.testing.assert_allclose(still, af.simulate(x, SOFT, layers, until=7).final, rtol=0, atol=1e-12)


def test_noise_of_layers_has_the_variance_that_was_asked_for() -> None:
    """Layers with gamma = 1 and beta = 0 forget all but the barycentre: what is left beside it is sigma xi."""
    x = np.random.default_rng(0).standard_normal((1500, 2))
    law, sigmas = af.Softmax(beta=0.0), [0.5, 0.1, 0.3]
    run = af.simulate(x, law, af.Noisy(af.Layers(gamma=1.0), sigma=sigmas), until=3, seed=0)
    for sigma, state in zip(sigmas, run.tokens[1:], strict=True):
        np.testing.assert_allclose(state.std(axis=0), sigma, rtol=4 / math.sqrt(2 * len(x)))
    north = np.tile([0.0, 0.0, 1.0], (1500, 1))
    around = af.simulate(north, law, af.Noisy(af.SphereLayers(), sigma=0.2), until=1, seed=0).final
    angles = np.arccos(around[:, 2])
    np.testing.assert_allclose(np.mean(angles**2), 2 * 0.2**2, rtol=4 / math.sqrt(len(angles)))


def test_in_a_moving_frame_the_same_tokens_hear_the_same_noise() -> None:
    V = [[1.0, 0.5], [0.0, -0.3]]
    seen = af.simulate(CLOUD, SOFT, af.Noisy(af.RescaledLayers(V=V, dt=0.3), sigma=0.2), until=5, seed=0).seen()
    plain = af.simulate(CLOUD, SOFT, af.Noisy(af.Residual(V=V, dt=0.3), sigma=0.2), until=5, seed=0).final
    np.testing.assert_allclose(seen, plain, rtol=1e-12)
    differences = []
    for dt in (1 / 32, 1 / 64, 1 / 128):
        flows = (af.Flow(V=V), af.RescaledFlow(V=V))
        here, there = (af.simulate(CLOUD, SOFT, af.Noisy(one, kappa=5.0, dt=dt), until=0.5, seed=0) for one in flows)
        differences.append(abs(there.seen() - here.final).max())
    assert differences[2] < 0.05 * abs(here.final - CLOUD).max()
    assert differences[2] < 0.8 * differences[0]


def test_where_tokens_keep_radii_the_state_has_noise_in_space() -> None:
    """A token that hears itself alone has x' = x / |x| under pre: one step by hand; directions and radii are told."""
    x = SPHERE[:1]
    run = af.simulate(x, SOFT, af.Noisy(af.SphereFlow(norm="pre"), kappa=2.0, dt=0.1), until=0.1, seed=5)
    y = x + 0.1 * x + math.sqrt(2 * 0.1 / 2.0) * noise_of(5).standard_normal((1, 3))
    np.testing.assert_allclose(run.radii[-1], np.linalg.norm(y, axis=1), rtol=1e-14)
    np.testing.assert_allclose(run.final, y / np.linalg.norm(y, axis=1), rtol=1e-14)
    for norm in ("peri", "ngpt", "cod"):
        noisy = af.Noisy(af.SphereFlow(norm=norm), kappa=1e12, dt=0.005)
        plain = af.simulate(SPHERE, SOFT, af.SphereFlow(norm=norm), until=0.5)
        np.testing.assert_allclose(af.simulate(SPHERE, SOFT, noisy, until=0.5).final, plain.final, atol=0.01)
    with refused("SphereFlow moves tokens in another way from t = 1 on"):
        af.Noisy(af.SphereFlow(norm="mix"), kappa=1.0, dt=0.1)


def test_seeds_repeat_runs_and_are_told() -> None:
    motion = af.Noisy(af.SphereFlow(), kappa=2.0, dt=0.1)
    first, again = (af.simulate(SPHERE, SOFT, motion, until=1.0, seed=4) for _ in range(2))
    np.testing.assert_array_equal(first.tokens, again.tokens)
    other = af.simulate(SPHERE, SOFT, motion, until=1.0)
    assert abs(other.final - first.final).max() > 1e-3
    np.testing.assert_array_equal(other.tokens, af.simulate(SPHERE, SOFT, motion, until=1.0, seed=other.seed).tokens)


def test_times_steps_and_what_is_between_them() -> None:
    """The last step is shorter; rounded multiples of dt are steps; between steps the earlier state is given."""
    motion = af.Noisy(af.SphereFlow(), kappa=2.0, dt=0.1)
    run = af.simulate(SPHERE, SOFT, motion, until=0.75, seed=0)
    np.testing.assert_allclose(run.times, [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75])
    assert len(af.simulate(SPHERE, SOFT, motion, until=0.7, seed=0)) == 8
    np.testing.assert_array_equal(run.at(0.3), run.tokens[3])
    np.testing.assert_array_equal(run.at([0.15, 0.1 + 0.2]), run.tokens[[1, 3]])
    few = af.simulate(SPHERE, SOFT, motion, until=0.75, seed=0, record=[0.1, 0.15, 3 * 0.1, 0.7])
    np.testing.assert_array_equal(few.tokens, run.tokens[[0, 1, 1, 3, 7, 8]])
    np.testing.assert_array_equal(few.at(0.45), run.tokens[4])
    stopped = af.simulate(SPHERE, SOFT, motion, until=0.75, seed=0, watch=[af.watch.When(lambda t, x: t > 0.35)])
    assert len(stopped) == 5
    assert "t = 0.4" in stopped.stopped


def test_a_token_draws_its_own_noise() -> None:
    """Tokens at one place part, and are not united again."""
    run = af.simulate(
        np.tile([1.0, 0.0], (30, 1)), SOFT, af.Noisy(af.SphereFlow(), kappa=9.0, dt=0.1), until=1.0, seed=0
    )
    assert af.measure.clusters(run.final, tol=1e-9).count == 30


MOTIONS = {
    "sphere": (af.Noisy(af.SphereFlow(), kappa=2.0, dt=0.1), 1.05),
    "layers": (af.Noisy(af.SphereLayers(dt=0.1), sigma=0.1), 10),
}


@pytest.mark.parametrize("name", MOTIONS)
def test_systems_of_an_ensemble_draw_from_their_own_seeds(name: str) -> None:
    (motion, until), x = MOTIONS[name], np.stack([af.tokens.sphere(n=4, d=3, seed=s) for s in range(5)])
    record = [until // 2, until]
    all_of_them = af.ensemble(x, SOFT, motion, until, seed=7, record=record)
    some = af.ensemble(x[:2], SOFT, motion, until, seed=7, record=record)
    np.testing.assert_allclose(some.values, all_of_them.values[:, :2], rtol=0, atol=1e-14)
    assert all_of_them.seeds is not None
    assert some.seeds == all_of_them.seeds[:2]
    assert len({*all_of_them.seeds}) == 5
    swapped = af.ensemble(x[[3, 1]], SOFT, motion, until, seed=[all_of_them.seeds[k] for k in (3, 1)])
    np.testing.assert_allclose(swapped.final, all_of_them.final[[3, 1]], rtol=0, atol=1e-14)
    for k in (0, 4):
        alone = af.simulate(x[k], SOFT, motion, until, seed=all_of_them[k].seed, record=record)
        np.testing.assert_allclose(alone.tokens, all_of_them.values[:, k], rtol=0, atol=1e-12)
    assert abs(af.ensemble(x, SOFT, motion, until, seed=8).final - all_of_them.final).max() > 1e-3


def test_temperatures_of_an_ensemble_and_its_files(tmp_path: Any) -> None:
    kappas = np.array([1.0, math.inf])
    motion = af.Noisy(af.SphereFlow(), kappa=kappas, dt=0.1)
    found = af.ensemble(np.stack([SPHERE, SPHERE]), SOFT, motion, 1.0, seed=0)
    cold = af.simulate(SPHERE, SOFT, af.Noisy(af.SphereFlow(), kappa=math.inf, dt=0.1), 1.0).final
    assert abs(found.final[1] - cold).max() < 1e-12 < 0.1 < abs(found.final[0] - cold).max()
    assert found[0].motion.kappa == 1.0  # type: ignore[union-attr]
    found.save(tmp_path / "found.npz")
    back: Any = af.load(tmp_path / "found.npz")
    assert back.seeds == found.seeds
    np.testing.assert_array_equal(back.values, found.values)
    with refused("seed holds 1 numbers for 2 systems"):
        af.ensemble(np.stack([SPHERE, SPHERE]), SOFT, motion, 1.0, seed=[0])


@pytest.mark.parametrize(
    "motion",
    [
        af.Noisy(af.SphereFlow(), kappa=5.0, dt=0.1),
        af.Noisy(af.SphereLayers(dt=0.1), sigma=0.1),
        af.RandomHeads(dt=0.1),
    ],
    ids=["flow", "layers", "heads"],
)
def test_masks_positions_and_noise_combine(motion: af.Motion) -> None:
    """Causal, rotated and noisy at once: who comes later changes nothing, and whoever is rotated does."""
    x = af.tokens.sphere(n=6, d=2, seed=0)
    law = af.Positional(af.Masked(SOFT, causal=True), rope=0.7)
    waiting = np.random.default_rng(0).standard_normal((3, 6, 2))
    ends = []
    for one, tokens in ((law, x), (law, np.concatenate([x[:4], -x[4:]])), (af.Masked(SOFT, causal=True), x)):
        state = tokens
        for k in range(3):
            # Random matrices are the same for all tokens, noise of their own is that of their rows.
            state = motion.random_step(Hearing(one), state, k, 0.1, lambda a, b, k=k: waiting[k, :a, :b])  # type: ignore[attr-defined]
        ends.append(state)
    np.testing.assert_allclose(ends[0][:4], ends[1][:4], atol=1e-13)
    assert abs(ends[0] - ends[2]).max() > 1e-3
    run = af.simulate(x, law, motion, until=2, seed=0)
    assert "as asked" in run.stopped


def test_plain_data_describe_a_motion_in_a_motion() -> None:
    made = build("motion", {"name": "noisy", "kappa": 2.0, "dt": 0.1, "motion": {"name": "sphere-flow", "rtol": 1e-6}})
    assert repr(made) == repr(af.Noisy(af.SphereFlow(rtol=1e-6), kappa=2.0, dt=0.1))
    assert af.catalogue.has_parameters(made)
    with refused("noisy does not say motion"):
        build("motion", {"name": "noisy", "kappa": 2.0, "dt": 0.1})


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: af.Noisy(af.HardmaxFlow(), kappa=1.0, dt=0.1), "which HardmaxFlow has not"),
        (lambda: af.Noisy(af.Leaps(gamma=0.1), sigma=0.1), "which Leaps has not"),
        (lambda: af.Noisy(af.Jumps(gamma=0.1), sigma=0.1), "Jumps is random itself"),
        (lambda: af.Noisy(af.Noisy(af.Flow(), kappa=1.0, dt=0.1), kappa=1.0, dt=0.1), "Noisy is random itself"),
        (lambda: af.Noisy(af.Flow(), sigma=0.1), "Noisy around Flow takes kappa and dt, not sigma"),
        (lambda: af.Noisy(af.Flow(), kappa=1.0), "takes kappa and dt, and dt must be given: for example kappa=5.0"),
        (lambda: af.Noisy(af.Flow()), "takes kappa and dt, and kappa and dt must be given"),
        (lambda: af.Noisy(af.Layers(gamma=0.1), kappa=1.0, dt=0.1), "Noisy around Layers takes sigma"),
        (lambda: af.Noisy(af.Layers(gamma=0.1)), "Noisy around Layers takes sigma"),
        (lambda: af.Noisy(af.Flow(), kappa=0.0, dt=0.1), "kappa is 0, expected a finite number above 0"),
        (lambda: af.Noisy(af.Flow(), kappa=math.nan, dt=0.1), "kappa is nan, expected a finite number above 0, or inf"),
        (lambda: af.Noisy(af.Flow(), kappa=-math.inf, dt=0.1), "kappa is -inf, expected"),
        (lambda: af.Noisy(af.Flow(), kappa=1.0, dt=0.0), "dt is 0, expected a finite number above 0"),
        (lambda: af.Noisy(af.Flow(), kappa=1.0, dt=CHANGING), "dt is a function of time, expected a constant"),
        (lambda: af.Noisy(af.Layers(gamma=0.1), sigma=-1.0), "sigma is -1, expected a finite number at least 0"),
        (lambda: af.Noisy(NO_MOTION, kappa=1.0, dt=0.1), "motion is 'flow', expected a motion"),
    ],
)
def test_what_cannot_be_noisy_is_refused(make: Any, sentence: str) -> None:
    with refused(sentence):
        make()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((2 * SPHERE, SOFT, MOTIONS["sphere"][0], 1.0), "has norm 2, expected 1"),
        ((SPHERE, af.Hardmax(), MOTIONS["sphere"][0], 1.0), "Hardmax jumps as tokens move"),
        ((CLOUD, SOFT, af.Noisy(af.Flow(), kappa=lambda t: 1.0 - t, dt=0.5), 2.0), "kappa(1) is 0, expected"),
        ((CLOUD, SOFT, af.Noisy(af.Layers(gamma=0.1), sigma=[0.1, 0.2]), 3), "sigma has 2 entries"),
        ((CLOUD, SOFT, af.Noisy(af.Flow(), kappa=[1.0, 2.0], dt=0.5), 1.0), "kappa is given layer by layer"),
        ((CLOUD, SOFT, af.Noisy(af.Layers(gamma=0.1), sigma=0.1), 2.5), "give a whole number"),
        ((CLOUD, SOFT, af.Noisy(af.Flow(), kappa=1.0, dt=1e-300), 1.0), "steps have the length 1e-300, and near until"),
        ((CLOUD, SOFT, af.Noisy(af.Flow(), kappa=1.0, dt=5e-324), 1e300), "give a larger dt, or an earlier until"),
    ],
)
def test_runs_that_cannot_begin_are_refused(given: Any, sentence: str) -> None:
    with refused(sentence):
        af.simulate(*given)


def test_a_flow_with_too_many_steps_warns_and_says_why() -> None:
    motion, stop = af.Noisy(af.Flow(), kappa=1.0, dt=1e-8), af.watch.When(lambda t, x: True, "seen enough")
    with pytest.warns(UserWarning, match=r"more than 1e\+07 steps; give a larger dt"):
        run = af.simulate(CLOUD, SOFT, motion, until=1.0, seed=0, watch=[stop])
    assert run.stopped.endswith("seen enough")
    with pytest.warns(UserWarning, match=r"more than 1e\+07 steps"), refused("failed at t = 0"):
        af.ensemble(CLOUD[None], SOFT, af.Noisy(af.Flow(), kappa=lambda t: 1 / t, dt=1e-8), until=1.0, seed=0)
    # Up to ten million steps nothing is wrong, beyond ten thousand the progress says why it takes long.
    shorter = af.Noisy(af.Flow(), kappa=1.0, dt=1e-5)
    af.simulate(CLOUD, SOFT, shorter, until=1.0, seed=0, watch=[stop])
    stepper = shorter.start(Hearing(SOFT, seed=0), CLOUD, 0.0)
    assert stepper.slow() is None
    stepper.advance(1.0)
    assert "length 1e-05, so that very many are to come; give a larger dt" in str(stepper.slow())
    stepper.advance(0.1)
    assert stepper.slow() is None
    # Layers are counted by the user.
    assert af.Noisy(af.Layers(gamma=0.1), sigma=0.1).slow(0, 10**9) is None


def test_tokens_that_grow_without_end_end_the_run() -> None:
    run = af.simulate(CLOUD, SOFT, af.Noisy(af.Flow(), kappa=1.0, dt=1.0), until=2000.0, seed=0)
    assert "left the range of float64" in run.stopped
    assert "RescaledFlow" in run.stopped
    assert np.isfinite(run.tokens).all()


def test_foreign_arrays_and_dask_are_refused() -> None:
    torch, dask = pytest.importorskip("torch"), pytest.importorskip("dask.array")
    with refused("Noisy takes NumPy arrays alone"):
        af.simulate(torch.tensor(SPHERE), SOFT, MOTIONS["sphere"][0], 1.0)
    with refused("Noisy"):
        af.simulate(dask.from_array(CLOUD, chunks=(3, 2)), SOFT, af.Noisy(af.Layers(gamma=0.1), sigma=0.1), 2)


@pytest.mark.parametrize("d", [2, 3])
def test_noise_of_the_seed_of_the_start_is_other_noise(d: int) -> None:
    """The noise of the first step has its variance, across the sphere and along the start, if both have one seed."""
    n, kappa, dt = 2000, 2.0, 0.01
    x = af.tokens.sphere(n=n, d=d, seed=0)
    motion = af.Noisy(af.SphereFlow(V=np.zeros((d, d))), kappa=kappa, dt=dt)
    moved = np.arccos(np.clip((af.simulate(x, af.Softmax(), motion, until=dt, seed=0).final * x).sum(axis=1), -1, 1))
    assert (moved**2).mean() == pytest.approx((d - 1) * 2 * dt / kappa, rel=0.2)
    y = af.tokens.gaussian(n=n, d=d, seed=0)
    noise = af.simulate(y, af.Softmax(), af.Noisy(af.Layers(gamma=1e-9), sigma=1.0), until=1, seed=0).final - y
    assert abs(np.corrcoef(noise.ravel(), y.ravel())[0, 1]) < 5 / np.sqrt(n * d)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_noise_under_layer_norm_has_no_mean_over_coordinates(norm: str) -> None:
    """In an orthonormal basis of the vectors whose coordinates add up to 0 it is the noise of RMSNorm."""
    basis = np.linalg.svd(np.eye(4) - 1 / 4)[0][:, :3]
    normals = noise_of(0).standard_normal((5, 6, 4))
    large = af.Noisy(af.SphereLayers(dt=0.25, norm=norm, centred=True), sigma=0.3)
    small = af.Noisy(af.SphereLayers(dt=0.25, norm=norm), sigma=0.3)
    found = walked(large, SOFT, SPHERE @ basis.T, normals, 5)
    assert np.abs(found.sum(axis=1)).max() < 1e-14
    np.testing.assert_allclose(found, walked(small, SOFT, SPHERE, normals @ basis, 5) @ basis.T, atol=1e-13)


def test_what_the_motion_inside_says_of_itself_is_what_the_noisy_one_says() -> None:
    for inside in (af.Flow(), af.SphereFlow(), af.RescaledFlow()):
        noisy = af.Noisy(inside, kappa=5.0, dt=0.01)
        for name in ("memoryless", "moving_frame", "grows", "hint", "hint_of_sums", "surface", "discrete"):
            assert getattr(noisy, name) == getattr(inside, name)
    assert af.Noisy(af.RescaledFlow(), kappa=5.0, dt=0.01).moving_frame
    assert af.Noisy(af.Flow(), kappa=5.0, dt=0.01).grows


def test_a_frame_that_does_not_say_what_noise_is_there_is_refused() -> None:
    class Framed(af.Flow):
        moving_frame = True

    with refused("Framed moves in a frame and does not say what noise is there: let it write into_frame"):
        af.Noisy(Framed(), kappa=5.0, dt=0.01)


def test_random_steps_that_lose_a_direction_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path fails at once: at the start this is refused, later the run ends there and says why."""
    motion, whole = af.Noisy(af.Layers(gamma=0.5), sigma=0.1), af.Noisy.path

    def lost(at: int) -> Any:
        def path(self: Any, hearing: Any, x: Any, t: Any, until: Any, draw: Any) -> Any:
            for step in whole(self, hearing, x, t, until, draw):
                if step[0] > at:
                    raise NoDirection(f"token 0 has no direction after step {at}")
                yield step

        return path

    monkeypatch.setattr(random_steps, "steps_per_stretch", lambda n: 1)
    monkeypatch.setattr(af.Noisy, "path", lost(0))
    with pytest.raises(NoDirection, match="after step 0"):
        af.simulate([[1.0], [0.0]], af.Softmax(), motion, until=4, seed=0)
    monkeypatch.setattr(af.Noisy, "path", lost(2))
    run = af.simulate([[1.0], [0.0]], af.Softmax(), motion, until=4, seed=0)
    assert run.times[-1] == 2
    assert "token 0 has no direction after step 2" in run.stopped
