"""Every measurement of a run is that of its states, as recorded or as the law sees them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.measure.over_time import OverTime

m = af.measure
MASSES = np.array([1.0, 2.0, 0.5, 3.0, 1.0, 1.0])
LIMITS = np.array([[0.0, 0.0], [1.0, 1.0]])


@pytest.fixture(params=["layers", "rescaled flow"])
def run(request: pytest.FixtureRequest) -> af.Trajectory:
    x0 = af.tokens.gaussian(n=6, d=2, seed=3)
    motion = af.Layers(gamma=0.3) if request.param == "layers" else af.RescaledFlow()
    law = af.Softmax(beta=lambda t: 1 + t, B=[[1.0, 0.2], [0.0, 0.5]])
    return af.simulate(x0, law, motion, until=3, masses=MASSES)


def seen(run: af.Trajectory, k: int) -> tuple[Any, float, Any]:
    return run.seen(k), run.times[k].item(), run.masses


# What a run gives, and what its k-th state gives.
NUMBERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "diameter": (m.diameter, lambda run, k: m.diameter(run.tokens[k])),
    "distance_to_limits": (
        lambda run: m.distance_to_limits(run, LIMITS),
        lambda run, k: m.distance_to_limits(run.tokens[k], LIMITS),
    ),
    "energy": (
        lambda run: m.energy(run, 1e-3, [[1.0, 0.0], [0.0, 2.0]]),
        lambda run, k: m.energy(run.seen(k), 1e-3, [[1.0, 0.0], [0.0, 2.0]], run.masses),
    ),
    "pair_energy": (
        lambda run: m.pair_energy(run, 0.7),
        lambda run, k: m.pair_energy(run.seen(k), 0.7, run.masses),
    ),
    "entropy": (lambda run: m.entropy(run.law, run), lambda run, k: m.entropy(run.law, *seen(run, k))),
    "index of leaders": (
        lambda run: m.leaders(run.law, run).index,
        lambda run, k: m.leaders(run.law, *seen(run, k)).index,
    ),
    "heard": (lambda run: m.leaders(run.law, run).heard, lambda run, k: m.leaders(run.law, *seen(run, k)).heard),
    "rank": (lambda run: m.rank(run, 0.1).value, lambda run, k: m.rank(run.law.weights(*seen(run, k)), 0.1).value),
    "singular values": (
        lambda run: m.rank(run).singular_values,
        lambda run, k: np.linalg.svd(run.law.weights(*seen(run, k)), compute_uv=False),
    ),
    "labels": (lambda run: m.clusters(run, 0.8).labels, lambda run, k: m.clusters(run.tokens[k], 0.8).labels),
    "count": (lambda run: m.clusters(run, 0.8).count, lambda run, k: m.clusters(run.tokens[k], 0.8).count),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_run_is_measured_at_each_time(run: af.Trajectory, name: str) -> None:
    of_run, of_state = NUMBERS[name]
    found = of_run(run)
    assert isinstance(found, np.ndarray)
    assert len(found) == len(run)
    for k in range(len(run)):
        np.testing.assert_allclose(found[k], of_state(run, k), rtol=1e-13)
    assert np.ptp(found, axis=0).any() or name == "rank"


def test_items_over_time_are_those_of_one_configuration(run: af.Trajectory) -> None:
    k, law = 1, run.law
    assert law is not None
    np.testing.assert_array_equal(m.leaders(law, run)[k].distinct, m.leaders(law, *seen(run, k)).distinct)
    state, t, masses = seen(run, k)
    edges = m.influence(law, run, threshold=0.1)
    assert isinstance(edges, OverTime)
    np.testing.assert_array_equal(edges[k], m.influence(law, state, t, 0.1, masses))
    assert m.clusters(run, 0.8)[k].sizes.tolist() == m.clusters(run.tokens[k], 0.8).sizes.tolist()
    assert m.rank(run, 1e-3)[-1].tol == 1e-3


def test_results_over_time_behave_like_a_list(run: af.Trajectory) -> None:
    found = m.clusters(run, 0.8)
    assert len(found) == len(list(found)) == len(run)
    np.testing.assert_array_equal(found[1:].count, found.count[1:])
    for again in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        np.testing.assert_array_equal(again.labels, found.labels)
    assert "labels" in dir(found)
    assert "times: from Clusters(" in repr(found)
    with pytest.raises(AttributeError, match="no 'size'"):
        _ = found.size


def test_what_differs_in_length_is_taken_from_one_time() -> None:
    run = af.simulate([[0.0], [1.0]], af.Softmax(), af.Layers(gamma=0.5), until=5)
    with pytest.raises(AttributeError, match=r"as in \[0\].sizes"):
        _ = m.clusters(run, 0.3).sizes


def test_a_run_brings_its_own_time_and_masses(run: af.Trajectory) -> None:
    law: Any = run.law
    measures: list[Callable[..., Any]] = [m.leaders, m.entropy, m.influence]
    for measure in measures:
        with refused("t came with a run"):
            measure(law, run, t=1)
        with refused("masses came with a run"):
            measure(law, run, masses=MASSES)
    energies: list[Callable[..., Any]] = [m.energy, m.pair_energy]
    for measure in energies:
        with refused("masses came with a run"):
            measure(run, 1.0, masses=MASSES)


@pytest.mark.parametrize("t", ["a", None, [1], np.nan, np.array([1.0]), True, 1j, np.complex128(1), b"1"])
def test_a_time_is_a_finite_number(run: af.Trajectory, t: Any) -> None:
    measures: list[Callable[..., Any]] = [m.leaders, m.entropy, m.influence]
    for measure in measures:
        for x in (LIMITS, run):
            with refused(r"^t is .*expected a"):
                measure(af.Softmax(), x, t=t)


def test_a_time_comes_to_the_law_as_it_was_given() -> None:
    """So that a table of layers can be asked for its t-th entry."""
    table: Any = [1.0, 2.0, 3.0]
    law = af.Softmax(beta=lambda t: table[t])
    np.testing.assert_array_equal(m.entropy(law, LIMITS, t=2), m.entropy(af.Softmax(beta=3.0), LIMITS))


@pytest.mark.parametrize("given", [LIMITS, None, "run.zarr"])
def test_only_a_run_has_a_summary(given: Any) -> None:
    with refused(f"is {type(given).__name__!r}, expected a run"):
        m.summary(given)


@pytest.mark.parametrize(("tol", "named"), [("a", "'a'"), (None, "None"), (-1, "-1"), (True, "True"), (np.nan, "nan")])
def test_the_tolerance_of_a_summary_is_checked(run: af.Trajectory, tol: Any, named: str) -> None:
    with refused(f"^tol is {named}, expected"):
        m.summary(run, tol=tol)


def test_a_summary_at_any_tolerance(run: af.Trajectory) -> None:
    assert m.summary(run, tol=0).clusters == 6
    assert m.summary(run, tol=1e308).clusters == 1


def test_a_run_without_its_law_or_motion_says_so(run: af.Trajectory) -> None:
    lost = copy.copy(run)
    lost.law = lost.motion = None
    for measure in (m.rank, lambda run: m.leaders(run.law, run), lambda run: m.entropy(run.law, run)):
        with refused("the law is None"):
            measure(lost)
    with refused("without its motion"):
        m.energy(lost)
    assert m.diameter(lost).shape == (len(run),)


def test_runs_that_leave_the_range_of_float64_are_refused_by_time() -> None:
    run = af.simulate([[1.0], [-1.0]], af.Softmax(), af.Layers(gamma=0.5), until=2)
    for bad in (1e200, np.nan):
        run.tokens[1] = bad
        with refused("the tokens at time 1"):
            m.diameter(run)
        with refused("the tokens at time 1"):
            m.leaders(af.Hardmax(), run)


def test_runs_may_shrink_below_what_users_may_bring() -> None:
    run = af.simulate([[1.0], [-1.0]], af.Softmax(beta=0.0), af.Layers(gamma=0.9), until=200)
    np.testing.assert_allclose(np.log10(m.diameter(run)), np.log10(2) - np.arange(201), rtol=1e-9)
    assert m.clusters(run, 0.0).count.tolist() == [2] * 201
