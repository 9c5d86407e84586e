"""Energies against double sums, and as the theorems want them."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refused
from scipy.spatial.distance import pdist

import attnflow as af
from attnflow.core import blocks as block_module

m = af.measure


def test_pair_energy_against_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = af.tokens.gaussian(n=30, d=2, seed=0), np.arange(1.0, 31.0)
    for eps in (0.0, 0.3, 1.0, 100.0):
        assert m.pair_energy(x, eps) == pytest.approx(2 * np.minimum(pdist(x), eps).dot(np.minimum(pdist(x), eps)))
    total = sum(w[i] * w[j] * min(((x[i] - x[j]) ** 2).sum(), 0.25) for i in range(30) for j in range(30))
    assert m.pair_energy(x, 0.5, masses=w) == pytest.approx(total, rel=1e-13)
    monkeypatch.setattr(block_module, "BLOCK", 70)
    assert m.pair_energy(x, 0.5, masses=w) == pytest.approx(total, rel=1e-13)
    assert m.pair_energy([[3.0]], 1.0) == 0


def test_energies_of_masses_are_those_of_repeated_tokens() -> None:
    x, copies = af.tokens.gaussian(n=4, d=2, seed=0), np.array([1, 3, 2, 5])
    repeated = np.repeat(x, copies, axis=0)
    assert m.pair_energy(x, 0.8, masses=copies) == pytest.approx(m.pair_energy(repeated, 0.8), rel=1e-13)
    assert m.energy(x, 0.8, masses=copies) == pytest.approx(m.energy(repeated, 0.8), rel=1e-13)


@pytest.mark.parametrize("seed", range(4))
def test_pair_energy_drops_by_four_times_the_squared_steps(seed: int) -> None:
    """Bounded confidence with step 1: the energy drops by at least 4 sum_i |x_i^{t+1} - x_i^t|^2."""
    run = af.simulate(
        af.tokens.uniform(n=30, d=2, seed=seed), af.HegselmannKrause(eps=0.4), af.Layers(gamma=1.0), until=15
    )
    drops = -np.diff(m.pair_energy(run, 0.4))
    steps = (np.diff(run.tokens, axis=0) ** 2).sum(axis=(1, 2))
    assert (drops >= 4 * steps - 1e-12).all()
    assert steps[0] > 0.1


@pytest.mark.parametrize("unit", [1e-300, 1e300, 1e-320])
def test_energy_of_masses_of_any_size(unit: float) -> None:
    """Only ratios of masses matter."""
    x, w = af.tokens.gaussian(n=4, d=2, seed=0), np.array([1.0, 3.0, 2.0, 5.0])
    rel = 1e-13 if unit > 1e-310 else 1e-2
    assert m.energy(x, 0.8, masses=w * unit) == pytest.approx(m.energy(x, 0.8, masses=w), rel=rel)
    heard = m.leaders(af.Softmax(), x, masses=w * unit).heard
    np.testing.assert_allclose(heard, m.leaders(af.Softmax(), x, masses=w).heard, rtol=rel)


def test_the_total_mass_may_leave_float64() -> None:
    x, w = af.tokens.gaussian(n=40, d=2, seed=0), np.full(40, 1e308)
    assert m.energy(x, 0.8, masses=w) == pytest.approx(m.energy(x, 0.8), rel=1e-13)
    np.testing.assert_allclose(m.leaders(af.Softmax(), x, masses=w).heard, m.leaders(af.Softmax(), x).heard)


def test_energy_at_the_largest_beta() -> None:
    """It overflows, and says so without a warning, or has a value."""
    for x in ([[2.0], [1.0]], [[1.0, 0.0], [-1.0, 0.0]]):
        with refused("leaves the range of float64"):
            m.energy(x, 1e308)
    assert m.energy([[0.0]], 1e308) == pytest.approx(0.5e-308, rel=1e-12)
    assert m.energy([[2.0], [1.0]], -1e308) == 0


def test_a_run_whose_energy_overflows_says_when_and_what_to_do() -> None:
    """The law of a rescaled run sees e^{tV} z; of z itself there is an energy."""
    x = af.tokens.gaussian(n=12, d=2, seed=0)
    run = af.simulate(x, af.Softmax(), af.RescaledFlow(V=np.diag([1.0, 0.5])), until=12.0, record=[12.0])
    size = np.abs(run.final * np.exp([12.0, 6.0])).max()
    with pytest.raises(af.InputError) as told:
        m.energy(run)
    assert str(told.value) == (
        f"tokens are as large as {size:.2g} at t = 12, where the energy at beta = 1 leaves the range of float64: the "
        "law of a rescaled run sees e^{tV} z; end the run earlier, or measure z, as energy(run.final)"
    )
    assert m.energy(run.final) == pytest.approx(np.exp(run.final @ run.final.T).mean() / 2)
    grown = af.simulate(x, af.Softmax(), af.Residual(dt=0.5), until=30)
    with refused(r"at t = \d+, where .* float64: end the run earlier, or lower beta"):
        m.energy(grown)
    with refused(r"as large as 99, where .*: divide them by a number, or lower beta"):
        m.energy([[99.0]])
    large = af.simulate([[40.0], [39.0]], af.Softmax(), af.Layers(gamma=0.5), until=2)
    with refused(r"as large as 40 at t = 0, where .*: divide them by a number, or lower"):
        m.energy(large)


def test_energy_climbs_on_the_sphere() -> None:
    run = af.simulate(af.tokens.sphere(n=8, d=3, seed=0), af.Softmax(beta=2.0), af.SphereFlow(), until=20.0)
    found = m.energy(run, 2.0)
    assert (np.diff(found) > -1e-9).all()
    assert found[-1] == pytest.approx(np.exp(2) / 4, rel=1e-6)


def test_parameters_are_checked() -> None:
    for eps in (-1.0, np.nan, "far"):
        with refused("eps is"):
            m.pair_energy([[1.0]], eps)  # type: ignore[arg-type]
    with refused("leaves the range of float64"):
        m.pair_energy([[1e140], [-1e140]], 1e140, masses=[1e100, 1e100])
    with refused("masses span a factor"):
        m.energy([[1.0], [2.0]], 1.0, masses=[1e-300, 1e300])
    with refused("mass 0 is -1"):
        m.pair_energy([[1.0]], 1.0, masses=[-1.0])
