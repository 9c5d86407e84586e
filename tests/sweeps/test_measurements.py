"""Measurements by name: the number of each for a run, against the measurement itself; options; refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.app.sweep import measures_of
from attnflow.measure.by_name import KNOWN, Measurement

X = af.tokens.sphere(n=6, d=2, seed=3)
LAW = af.Softmax(beta=4.0)
RUN = af.simulate(X, LAW, af.SphereFlow(rtol=1e-6), until=15.0)
LAYERS = af.simulate([[1.0], [0.4], [-1.0]], af.Softmax(beta=2.0), af.Layers(gamma=0.2), until=60)
CHAIN = af.simulate(af.tokens.polygon(3), af.Softmax(beta=40.0), af.Jumps(gamma=0.1), until=10, seed=0)


def direct_energy(x: Any, beta: float) -> float:
    return float(np.exp(beta * x @ x.T).sum() / (2 * beta * len(x) ** 2))


END = RUN.final
P = LAW.weights(END)


@pytest.mark.parametrize(
    ("name", "options", "run", "expected"),
    [
        ("clusters", {"tol": 0.1}, RUN, af.measure.clusters(END, 0.1).count),
        ("clusters", {}, RUN, af.measure.summary(RUN).clusters),
        ("diameter", {}, RUN, np.linalg.norm(END[:, None] - END, axis=2).max()),
        ("energy", {}, RUN, direct_energy(END, 4.0)),
        ("pair_energy", {"eps": 0.5}, RUN, np.minimum(((END[:, None] - END) ** 2).sum(axis=2), 0.25).sum()),
        ("entropy", {}, RUN, -(P * np.log(P)).sum(axis=1).mean()),
        ("rank", {}, RUN, np.linalg.matrix_rank(P, tol=1e-8 * np.linalg.norm(P, 2))),
        ("leaders", {}, RUN, len(set(P.argmax(axis=1)))),
        ("influence", {"threshold": 0.1}, RUN, np.count_nonzero(P > 0.1) - np.count_nonzero(np.diag(P) > 0.1)),
        ("distance_to_limits", {"limits": [[0.0, 0.0]]}, RUN, 1.0),
        ("next_change", {}, LAYERS, af.measure.next_change(LAYERS).time),
    ],
)
def test_the_number_of_a_run(name: str, options: dict[str, Any], run: af.Trajectory, expected: float) -> None:
    assert math.isclose(Measurement(name, options)(run), float(expected), rel_tol=1e-9)


def test_numbers_of_several_names() -> None:
    found = Measurement("summary")(RUN)
    assert found == {name: getattr(af.measure.summary(RUN), name) for name in ("clusters", "leaders", "rank")}
    rate = af.measure.contraction_rate(LAYERS)
    assert Measurement("contraction_rate")(LAYERS) == {"value": rate.value, "error": rate.error}
    exits = Measurement("exit_times", {"radius": 0.1, "runs": 50})(CHAIN)
    assert exits["low"] <= exits["median"] <= exits["high"]
    assert f"{exits['exact']:.3g}" == "1.32e+25"


def test_the_time_of_the_merge_that_leaves_so_many() -> None:
    merges = af.measure.merge_times(LAYERS, 0.05)
    assert [Measurement("merge_times", {"threshold": 0.05, "left": k})(LAYERS) for k in (3, 2, 1)] == [0, *merges.time]
    assert math.isnan(Measurement("merge_times", {"threshold": 1e-9})(LAYERS))


def test_a_sweep_measures_runs_by_name_and_by_functions() -> None:
    def moved(beta: float) -> af.Trajectory:
        return af.simulate(X, af.Softmax(beta=beta), af.Layers(gamma=0.5), until=9)

    asked = ["energy", "summary", {"name": "clusters", "tol": 0.1}, lambda run: run.final[0]]
    found = af.sweep(moved, {"beta": [1.0, 4.0]}, measure=asked, on="here")
    for k, beta in enumerate((1.0, 4.0)):
        run = moved(beta)
        assert math.isclose(found.energy.values[k], direct_energy(run.final, beta))
        assert found.summary_rank.values[k] == af.measure.summary(run).rank
        assert found.clusters.values[k] == af.measure.clusters(run.final, 0.1).count
        assert (found.value.values[k] == run.final[0]).all()
    named = af.sweep(moved, {"beta": [1.0]}, measure={"a": "diameter", "b": {"name": "clusters", "tol": 9}}, on="here")
    assert named.b.values.tolist() == [1.0]


def test_the_energy_of_a_run_is_that_of_its_own_law() -> None:
    hard = af.simulate(X, af.Hardmax(), af.Layers(gamma=0.5), until=3)
    with refused("that of its own Softmax"):
        Measurement("energy")(hard)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["cluster"], "is 'clusters' meant"),
        (["phase_diagram"], "no measurement 'phase_diagram'"),
        ([{"name": "clusters", "tolerance": 1}], "it takes tol"),
        (["pair_energy"], "needs eps"),
        (["clusters", {"name": "clusters", "tol": 1}], "name them yourself"),
        ([3], "expected the name of a measurement"),
        ({"a": {"tol": 1}}, "no measurement ''"),
    ],
)
def test_refusals(asked: Any, words: str) -> None:
    with refused(words):
        measures_of(asked)


def test_every_name_is_that_of_a_public_measurement() -> None:
    assert set(KNOWN) <= set(af.measure.__all__)
