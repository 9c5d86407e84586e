"""Densities in time against what does not know of them: tokens of `simulate`, rates of growth, other identities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from larger import larger
from refusals import refused
from scipy import special

import attnflow as af
from attnflow.densities import Density, evolution, moments


def bump(theta: Any) -> Any:
    return 1 + 0.4 * np.cos(theta) + 0.2 * np.sin(2 * theta)


def zonal(s: Any) -> Any:
    return np.exp(0.5 * s - 0.4 * s**2)


def masses_on_circle(n: int, f: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return equidistant tokens with masses f: sums of smooth functions over them are integrals to rounding."""
    theta = 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(theta), np.sin(theta)]), f(theta)


def masses_on_sphere(n: int, f: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return tokens on n circles of latitude, with masses f times the weights of Gauss, poles on the first axis."""
    s, w = np.polynomial.legendre.leggauss(n)
    turns = 2 * np.pi * np.arange(n) / n
    r = np.sqrt(1 - s**2)
    x = np.stack([np.repeat(s, n), np.outer(r, np.cos(turns)).ravel(), np.outer(r, np.sin(turns)).ravel()], axis=1)
    return x, np.repeat(f(s) * w, n)


@pytest.mark.parametrize("normalized", [True, False])
def test_tokens_with_masses_move_as_the_density(normalized: bool) -> None:
    x, masses = masses_on_circle(96, bump)
    motion = af.SphereFlow(normalized=normalized, rtol=1e-11)
    run = af.simulate(x, af.Softmax(beta=2.0), motion, until=0.5, masses=masses, record=[0.5])
    found = af.MeanField(2.0, normalized=normalized).solve(bump, until=0.5)
    assert np.abs(found.final.moments[:8] - moments(run.final, 8, masses=masses)).max() < 1e-9
    assert np.abs(found[0].moments[:8] - found.final.moments[:8]).max() > 0.02


@pytest.mark.parametrize("normalized", [True, False])
def test_tokens_with_masses_move_as_the_zonal_density(normalized: bool) -> None:
    x, masses = masses_on_sphere(24, zonal)
    motion = af.SphereFlow(normalized=normalized, rtol=1e-10)
    run = af.simulate(x, af.Softmax(beta=1.5), motion, until=0.6, masses=masses, record=[0.6])
    found = af.MeanField(1.5, d=3, normalized=normalized).solve(zonal, until=0.6)
    assert np.abs(found.final.moments[:6] - moments(run.final, 6, masses=masses)).max() < 1e-8
    assert np.abs(found[0].moments[:6] - found.final.moments[:6]).max() > 0.02


def deviations(n: int, runs: int, kappa: float | None = None, dt: float = 0.01) -> Any:
    """Return by how many standard errors the mean moments of runs from samples differ from those of the density."""
    start, until = Density.of(bump), 1.0
    found = af.MeanField(3.0, kappa).solve(start, until=until).final.moments[:4]
    flow = af.SphereFlow(rtol=1e-6)
    motion = flow if kappa is None else af.Noisy(flow, kappa=kappa, dt=dt)
    law = af.Softmax(beta=3.0)
    ends = [
        af.simulate(start.sample(n, seed=s), law, motion, until, record=[until], seed=None if kappa is None else 99 + s)
        for s in range(runs)
    ]
    drawn = np.array([moments(run.final, 4) for run in ends])
    drawn, found = np.concatenate([drawn.real, drawn.imag], axis=1), np.concatenate([found.real, found.imag])
    spread = drawn.std(axis=0, ddof=1)
    # The error of n samples is of order n^{-1/2}.
    assert (spread * np.sqrt(n) < 4).all()
    return np.abs(drawn.mean(axis=0) - found) / (spread / np.sqrt(runs))


@pytest.mark.parametrize("kappa", [None, 4.0])
def test_samples_agree_within_their_sampling_error(kappa: float | None) -> None:
    """Eight moments by 12 runs: Student's t beyond 6 has a probability of 1e-4."""
    assert deviations(400, 12, kappa, dt=0.02).max() < 6


@larger
@pytest.mark.parametrize("kappa", [None, 4.0])
def test_1e5_samples_agree_within_their_sampling_error(kappa: float | None) -> None:
    """Steps of 1/200 are off by less than the standard error 0.001 of the mean of six runs."""
    assert deviations(100_000, 6, kappa, dt=0.005).max() < 10


@pytest.mark.parametrize(("d", "kappa", "normalized"), [(2, None, True), (2, 0.9, False), (3, 1.7, False)])
def test_waves_grow_at_the_rates_of_bessel_functions(d: int, kappa: float | None, normalized: bool) -> None:
    beta, eps, t = 3.0, 1e-7, 0.5
    model = af.MeanField(beta, kappa, d, normalized)
    k = np.arange(1, 5)
    half = d / 2 - 1
    w = special.gamma(d / 2) * (2 / beta) ** half * special.iv(k + half, beta) / beta
    if normalized:
        w /= special.i0(beta)
    expected = k * (k + d - 2) * (w - (0 if kappa is None else 1 / kappa))
    np.testing.assert_allclose(model.rates(4), expected, rtol=1e-12)
    basis = Density.of(np.ones_like, d).basis
    start = Density(basis, np.where((basis.degrees < 5) & (np.arange(len(basis.degrees)) < 4), eps, 0.0))
    grown = np.real(model.solve(start, until=t, rtol=1e-11).final.moments[:4])
    np.testing.assert_allclose(np.log(grown / eps) / t, expected, rtol=3e-4)


def test_the_number_of_clusters_is_that_of_the_fastest_wave() -> None:
    """From 1 + small random waves, the maxima of the density when it has left the uniform one are k_max."""
    rng, theta = np.random.default_rng(1), np.linspace(0, 2 * np.pi, 400, endpoint=False)
    for beta, expected in ((0.5, 1), (2.0, 2), (4.0, 3)):
        a, b = 1e-8 * rng.standard_normal((2, 6))
        model = af.MeanField(beta)
        wait = np.log(1e7) / model.rates(8).max()
        uniform = Density.of(np.ones_like)
        start = Density(uniform.basis, np.zeros_like(uniform.vector))
        start.vector[:6], start.vector[start.modes : start.modes + 6] = a, b
        run = model.solve(start, wait)
        f = run.final.at(theta)
        peaks = (f > np.roll(f, 1)) & (f > np.roll(f, -1))
        assert (model.fastest, int(peaks.sum())) == (expected, expected)


def test_the_fastest_wave_switches_where_k2_ik_are_equal() -> None:
    for beta, k in ((1.044457, 1), (3.165434, 2)):
        assert [af.MeanField(b).fastest for b in (beta - 1e-6, beta + 1e-6)] == [k, k + 1]
    for beta in (50.0, 200.0):
        assert abs(af.MeanField(beta).fastest - np.sqrt(2 * beta)) <= 1


def test_errors_fall_geometrically_with_the_number_of_modes() -> None:
    """Two more modes divide the error by more than e^4."""
    model = af.MeanField(3.0, kappa=6.0)
    exact = model.solve(bump, until=1.0, modes=16).final.moments[:2]
    errors = [np.abs(model.solve(bump, 1.0, modes=K).final.moments[:2] - exact).max() for K in (2, 4, 6, 8)]
    assert errors[0] > 1e-4
    assert (np.diff(np.log(errors)) < -4).all()


@pytest.mark.parametrize(("kappa", "normalized"), [(None, True), (None, False), (2.0, True), (0.9, False)])
def test_energy_and_entropy_follow_their_rates(kappa: float | None, normalized: bool) -> None:
    run = af.MeanField(2.0, kappa, 2, normalized).solve(bump, until=0.6)
    assert max(run.balance) < 1e-8
    if not normalized:
        assert (np.diff(run.free_energy) < 0).all()
    if kappa is None:
        assert (np.diff(run.energy) > 0).all()
    x, masses = masses_on_circle(64, bump)
    assert run.energy[0] + 1 / 4 == pytest.approx(af.measure.energy(x, beta=2.0, masses=masses), rel=1e-12)
    assert run.entropy[0] == pytest.approx(-np.mean(masses * np.log(masses)), rel=1e-12)


def test_a_density_that_gets_too_sharp_ends_the_run_and_says_so() -> None:
    run = af.MeanField(4.0).solve(bump, until=100.0)
    assert run.modes == 512
    assert run.stopped.startswith("stopped at t = ")
    assert "too sharp for 512 modes" in run.stopped
    assert run.times[-1] < 100
    assert run.final.tail <= 1e-9
    assert np.abs(run.density(np.linspace(0, 6, 50)).imag).max() == 0


def test_records_lie_on_the_run_of_all_steps() -> None:
    model = af.MeanField(2.0, kappa=3.0)
    run = model.solve(bump, until=1.0, record=[0.25, 0.5])
    assert run.times.tolist() == [0.0, 0.25, 0.5, 1.0]
    again = model.solve(run[1], until=0.75)
    assert np.abs(again.final.moments[:8] - run.final.moments[:8]).max() < 1e-8


def test_samples_have_the_moments_of_the_density() -> None:
    for d in (2, 3):
        f = Density.of(lambda s: np.exp(2 * np.cos(s)) if d == 2 else np.exp(2 * s), d)  # noqa: B023
        x = f.sample(20_000, seed=1)
        np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0)
        assert np.abs(moments(x, 3) - f.moments[:3]).max() < 5 / np.sqrt(20_000)


def test_runs_and_stationary_densities_show_themselves_in_one_line() -> None:
    model = af.MeanField(beta=3.0, kappa=0.77, normalized=False)  # above the threshold 0.758...
    run = model.solve(1.0, until=0.5)
    assert repr(run) == f"<DensityRun: {len(run)} densities of {run.modes} modes, {model!r}; reached t = 0.5, as asked>"
    assert repr(model.stationary(1)).startswith("<Stationary: unstable, largest rate 0.0")
    clusters = model.stationary(lambda theta: np.exp(2 * np.cos(theta)))
    assert repr(clusters).startswith("<Stationary: stable, largest rate -")
    assert "\n" not in repr(run) + repr(clusters)


def test_functions_that_fail_are_refused() -> None:
    model = af.MeanField(beta=1.0, kappa=1.0)
    with refused(r"the density, a function of an array of .* points, failed \(division by zero\): give one"):
        model.solve(lambda theta: 1 / 0, until=1.0)
    with refused("failed .* missing 1 required positional argument: 'other'.: give one"):
        model.stationary(lambda theta, other: theta)  # type: ignore[arg-type, misc]


def test_what_makes_no_sense_is_refused() -> None:
    model = af.MeanField(2.0)
    assert af.MeanField(2.0, kappa=np.inf) == model
    with refused("kappa is 0"):
        af.MeanField(2.0, kappa=0.0)
    with refused("beta is 10000"):
        af.MeanField(1e4)
    with refused("d is 1"):
        af.MeanField(1.0, d=1)
    with refused("expected numbers >= 0"):
        model.solve(lambda x: np.cos(x), until=1.0)
    with refused("give a smoother one"):
        model.solve(lambda x: np.where(x < 1, 1.0, 0.0), until=1.0)
    with refused("expected a function"):
        model.solve("uniform", until=1.0)  # type: ignore[arg-type]
    with refused("until is -1"):
        model.solve(1, until=-1.0)
    with refused("give a later end"):
        model.solve(1, until=1.0, record=[2.0])
    with refused("give a kappa"):
        model.stationary(1)
    with refused("give the same d to both"):
        af.MeanField(2.0, d=3).solve(Density.of(bump), until=1.0)
    with refused("divide each by its norm"):
        moments([[2.0, 0.0]])
    with refused("between -1 and 1"):
        Density.of(zonal, 3).at([2.0])


def test_a_solver_that_fails_ends_the_run_and_says_when(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = evolution._started

    def failing(*given: Any) -> Any:
        equation, solver = whole(*given)
        solver.step = lambda: "the step is too short"
        return equation, solver

    monkeypatch.setattr(evolution, "_started", failing)
    run = af.MeanField(1.0).solve(lambda angles: 1 + 0.1 * np.cos(angles), 1.0)
    assert run.stopped == "stopped at t = 0: the solver cannot take shorter steps (the step is too short)"
    assert len(run) == 1


def test_a_refusal_of_the_function_itself_is_kept() -> None:
    def refusing(angles: Any) -> Any:
        raise af.InputError("angles are not for me")

    with refused("angles are not for me"):
        af.MeanField(1.0).solve(refusing, 1.0)
