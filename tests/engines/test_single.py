"""Sums in single precision: within their bound of the dense reference, on clouds that attack it."""

from __future__ import annotations

import math
from pathlib import Path

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

import attnflow as af
from attnflow.app.cli import main
from attnflow.engines import blocked, dense, single

Array = NDArray[np.float64]


def clouds(kind: str, n: int, d: int) -> Array:
    rng = np.random.default_rng(n + d)
    x = rng.standard_normal((n, d)) / math.sqrt(d)
    if kind == "off centre":
        x += 5.0
    elif kind == "far":
        x += 1e6
    elif kind == "clusters":
        x = rng.standard_normal((4, d))[rng.integers(4, size=n)] + 1e-6 * x
    elif kind == "all alike":
        x = np.abs(x[:1]) * (1 + 1e-3 * rng.standard_normal((n, 1)))
    elif kind == "heavy tails":
        x *= np.abs(rng.standard_cauchy((n, 1)))
    elif kind == "tiny":
        x *= 1e-30
    elif kind == "underflow":
        x *= 1e-145
    elif kind == "huge":
        x *= 1e40
    return x


KINDS = ("normal", "off centre", "far", "clusters", "all alike", "heavy tails", "tiny", "underflow", "huge")


def error(q: Array, k: Array, v: Array, log_masses: Array | None, gain: float) -> tuple[float, float]:
    """Return the error of means, over the diameter of the values, and that of log totals."""
    mean, log_total = single.softmax(q, k, v, log_masses, gain)
    exact, exact_total = dense.softmax(q, k, v, log_masses, gain)
    assert mean.dtype == log_total.dtype == np.float64
    largest = np.linalg.norm(mean - exact, axis=1).max() / max(af.measure.diameter(v), 1e-300)
    # What no double can know of scores this large is not asked of log totals.
    unknown = 4e-16 * gain * np.linalg.norm(q, axis=1).max() * np.linalg.norm(k, axis=1).max()
    return float(largest), float(np.abs(log_total - exact_total).max() - unknown)


def bound(q: Array, k: Array, log_masses: Array | None, gain: float) -> float:
    """Return the bound as the docstring of the engine states it, with norms and masses as it sees them."""
    c = k.mean(axis=0)
    y, tilt = k - c, gain * (k - c) @ c
    seen, logs = (y, tilt) if q is k and np.ptp(tilt) <= 60 else (q, np.zeros(len(k)))
    size = gain * np.linalg.norm(seen, axis=1).max() * np.linalg.norm(y, axis=1).max()
    apart = np.ptp(logs if log_masses is None else logs + log_masses)
    d, u = k.shape[1], 2.0**-24
    return float(u * ((min(d, 64) + math.ceil(d / 64) + 8) * size + 2 * apart + 240))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [4, 17, 130])
def test_within_the_stated_bound(kind: str, d: int) -> None:
    x = clouds(kind, 300, d)
    q = x @ np.random.default_rng(1).standard_normal((d, d)) / math.sqrt(d)
    v = np.random.default_rng(2).standard_normal((300, 5))
    size = float((((x - x.mean(axis=0)) ** 2).sum(axis=1)).max()) or 1e-300
    for gain in (0.1 / size, 3.0 / size, 30.0 / size, 300.0 / size):
        for queries in (x, q):
            off, off_total = error(queries, x, v, None, gain)
            limit = bound(queries, x, None, gain)
            assert off <= min(limit, single.LARGEST_ERROR), (gain, off)
            assert off_total <= max(limit, 1e-9), (gain, off_total)


def test_ordinary_clouds_err_by_1e_6() -> None:
    for d in (8, 64, 300):
        x = clouds("normal", 1000, d)
        for gain in (0.1, 1.0, 10.0):
            assert 1e-10 < error(x, x, x, None, gain)[0] < 1e-6
            assert 1e-10 < error(-x, x, x, None, gain)[0] < 1e-6


@pytest.mark.parametrize("decades", [3, 12, 25, 80])
def test_masses_over_many_decades(decades: int) -> None:
    """Beyond 27 decades floats would underflow: sums are then those of double precision."""
    x = clouds("normal", 400, 20)
    logs = np.random.default_rng(3).uniform(-decades, decades, 400) / 2 * math.log(10)
    light = logs - 0.9 * decades * math.log(10) * (x[:, 0] > 0)  # light tokens have the top scores of some
    for masses in (logs, light):
        for queries in (x, x + 0.3):
            off = error(queries, x, x, masses, 4.0)[0]
            assert off <= bound(queries, x, masses, 4.0)
            if np.ptp(masses) > 150:
                assert off < 1e-12


def test_sources_without_mass_are_not_heard() -> None:
    x = clouds("normal", 300, 9)
    masses = np.where(np.arange(300) % 3, 0.0, -np.inf)
    assert error(x, x, x, masses, 2.0)[0] < 1e-12


@pytest.mark.parametrize("kind", ["all alike", "normal"])
def test_sums_too_coarse_in_single_are_taken_in_double(kind: str) -> None:
    x = clouds(kind, 300, 40)
    expected = blocked.softmax(x, x, x, None, 1e6)
    for found, one in zip(single.softmax(x, x, x, None, 1e6), expected, strict=True):
        np.testing.assert_array_equal(found, one)


@pytest.mark.usefixtures("all_threads")
@pytest.mark.parametrize("engine", [single, blocked])
@pytest.mark.parametrize("n", [300, 1000])
def test_threads_do_not_matter(engine: object, n: int) -> None:
    x = clouds("normal", n, 20)
    softmax = vars(engine)["softmax"]
    many = [softmax(x, x, x, None, 3.0)[0], softmax(x + 0.1, x, x, None, 3.0)[0]]
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        alone = [softmax(x, x, x, None, 3.0)[0], softmax(x + 0.1, x, x, None, 3.0)[0]]
    finally:
        numba.set_num_threads(threads)
    np.testing.assert_array_equal(many, alone)


def test_laws_and_runs_take_a_precision() -> None:
    x = clouds("normal", 300, 12)
    law = af.Softmax(beta=-3.0, B=np.random.default_rng(4).standard_normal((12, 12)))
    exact, found = law.attend(x), law.attend(x, precision="single")
    assert 0 < np.abs(found - exact).max() < 1e-6
    run = af.simulate(x, law, af.Layers(gamma=0.5), until=3, precision="single")
    double = af.simulate(x, law, af.Layers(gamma=0.5), until=3)
    assert (run.report["engine"], double.report["engine"]) == ("single", "blocked")
    assert 0 < np.abs(run.final - double.final).max() < 1e-6
    flow = af.RescaledFlow(rtol=1e-3)
    flows = [af.simulate(x, af.Softmax(), flow, until=1, precision=name) for name in ("single", "double")]
    assert np.abs(flows[0].final - flows[1].final).max() < 1e-3
    few = af.simulate(x[:40], law, af.Layers(gamma=0.5), until=3, precision="single")
    np.testing.assert_array_equal(few.final, af.simulate(x[:40], law, af.Layers(gamma=0.5), until=3).final)
    for other in (af.Hardmax(), af.Masked(law, causal=True)):
        both = [af.simulate(x, other, af.Layers(gamma=0.5), until=2, precision=name) for name in ("single", "double")]
        np.testing.assert_array_equal(both[0].final, both[1].final)


def test_a_stored_run_in_single_precision_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    x, law, motion = clouds("normal", 300, 5), af.Softmax(beta=2.0), af.Layers(gamma=0.5)
    whole = af.simulate(x, law, motion, until=4, precision="single")
    af.simulate(x, law, motion, until=2, precision="single", store=tmp_path / "run.zarr")
    later = af.simulate(x, law, motion, until=4, precision="single", store=tmp_path / "run.zarr")
    np.testing.assert_array_equal(later.final, whole.final)
    with pytest.raises(af.InputError):
        af.simulate(x, law, motion, until=4, store=tmp_path / "run.zarr")


def test_the_command_line_takes_a_precision(capsys: pytest.CaptureFixture[str]) -> None:
    told = "simulate --cloud gaussian --n 300 --d 6 --law softmax --motion layers --gamma 0.5 --until 2"
    assert main([*told.split(), "--precision", "single"]) == 0
    printed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert printed["engine"] == "single"


def test_refusals() -> None:
    x = clouds("normal", 300, 12)
    law, layers = af.Softmax(), af.Layers(gamma=0.5)
    for match, ask in (
        ("precision is 'half', expected one of double, single", lambda: law.attend(x, precision="half")),
        ("leave engine or precision out", lambda: af.simulate(x, law, layers, 2, engine="fused", precision="single")),
        ("an rtol of at least 0.0001", lambda: af.simulate(x, law, af.Flow(), 1.0, precision="single")),
        ("without precision 'single'", lambda: af.simulate(x, law, af.Jumps(gamma=0.5), 9, precision="single")),
    ):
        with pytest.raises(af.InputError, match=match):
            ask()
