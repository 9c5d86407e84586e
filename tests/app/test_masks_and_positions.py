"""Masks and positions from files, flags, sweeps, stores and ensembles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.app.cli import main
from attnflow.app.config import Config
from attnflow.catalogue import build
from attnflow.serialise import brief, describe, rebuild

X = af.tokens.gaussian(n=5, d=2, seed=0)
PLAIN = {"tokens": {"file": X.tolist()}, "motion": {"name": "layers", "gamma": 0.5}, "until": 3}
LAW = af.Positional(af.Masked(af.Softmax(beta=2.0), causal=True), rope=0.1)


@pytest.mark.parametrize(
    "table",
    [
        {"name": "softmax", "beta": 2, "causal": True, "rope": 0.1},
        {"name": "masked", "law": {"name": "softmax", "beta": 2}, "causal": True, "rope": 0.1},
        {"name": "positional", "law": {"name": "softmax", "beta": 2, "causal": True}, "rope": 0.1, "window": None},
        {
            "name": "positional",
            "law": {"name": "masked", "law": {"name": "softmax", "beta": 2}, "causal": True},
            "rope": 0.1,
        },
        {"name": "heads", "heads": [{"name": "softmax", "beta": 2, "causal": True, "rope": 0.1}]},
    ],
)
def test_tables_put_masks_and_positions_around_laws(table: dict[str, Any]) -> None:
    given = Config({**PLAIN, "law": table}, Path()).arguments()
    expected = af.simulate(X, LAW, af.Layers(gamma=0.5), until=3).final
    np.testing.assert_allclose(af.simulate(**given).final, expected, atol=1e-14)


def test_what_is_not_asked_for_is_not_put_around() -> None:
    assert isinstance(build("law", {"name": "softmax", "causal": False, "window": None}), af.Softmax)
    with refused("law softmax has no parameter 'casual'"):
        build("law", {"name": "softmax", "casual": True})
    with refused("window is 0, expected a finite number at least 1"):
        build("law", {"name": "softmax", "window": 0})


def test_flags_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("zarr")
    store, words = tmp_path / "run.zarr", "--law softmax --beta 2 --causal true --rope 0.1 --motion layers --gamma 0.5"
    assert main(["simulate", "--tokens", str(X.tolist()), *words.split(), "--until", "3", "--store", str(store)]) == 0
    run = af.load(store)
    np.testing.assert_allclose(run.final, af.simulate(X, LAW, af.Layers(gamma=0.5), until=3).final, atol=1e-14)
    assert isinstance(run.law, af.Law)
    assert brief(run.law) == "Positional(Masked(Softmax(beta=2), causal=True), rope=0.1)"
    graph, rope = "[[1,0],[1,1]]", "[0.5]"
    more = ["--graph", graph, "--rope", rope, "--bias", "[[0,1],[0,0]]", "--alibi", "1 / (t + 1)"]
    line = "--law hardmax --motion layers --gamma 0.5 --until 1"
    assert main(["simulate", "--tokens", "[[1, 0], [0, 1]]", *line.split(), *more]) == 0
    capsys.readouterr()


def test_sweeps_vary_windows() -> None:
    pytest.importorskip("xarray")
    run = {**PLAIN, "law": {"name": "softmax", "beta": 2, "causal": True}}
    found = af.sweep(run=run, over={"window": [1, 5]}, measure=["diameter"], on="here")
    values = np.asarray(found["diameter"])
    assert values.shape[0] == 2
    assert values.ravel()[0] > values.ravel()[-1]


def test_plain_data_and_back() -> None:
    Q, K = np.random.default_rng(0).standard_normal((2, 2, 2))
    law = af.Masked(af.Positional(af.Softmax(Q=Q, K=K), rope=[0.3], bias=np.eye(5)), window=2, graph=np.tri(5))
    again = rebuild(describe(law))
    np.testing.assert_array_equal(again.weights(X), law.weights(X))
    layers = af.Masked(af.Softmax(), graph=[np.tri(5), np.ones((5, 5))])
    np.testing.assert_array_equal(rebuild(describe(layers)).weights(X, t=1), layers.weights(X, t=1))
    # Without rotations nothing tells B = K^T Q from Q and K.
    assert "Q" not in describe(af.Masked(af.Softmax(Q=Q, K=K), causal=True))["law"]


def test_a_large_graph_is_stored_by_its_digest() -> None:
    graphs = [np.tri(1100, dtype=bool) for _ in range(2)]
    graphs[1][7, 3] = False
    one, other = (describe(af.Masked(af.Softmax(), graph=graph)) for graph in graphs)
    assert one["graph"]["large array"] == [1100, 1100]
    assert one["graph"] != other["graph"]
    assert rebuild(one) is None


def test_systems_of_an_ensemble_have_laws_of_their_own_inside() -> None:
    starts, betas = np.stack([X, X + 1, -X]), np.array([1.0, 3.0, 3.0])
    Q, K = np.random.default_rng(1).standard_normal((2, 2, 2))

    def law(beta: Any) -> af.Law:
        return af.Masked(af.Positional(af.Softmax(beta=beta, Q=Q, K=K), rope=0.4), causal=True)

    found = af.ensemble(starts, law(betas), af.Layers(gamma=0.5), until=3)
    for k, beta in enumerate(betas):
        one = af.simulate(starts[k], law(float(beta)), af.Layers(gamma=0.5), until=3)
        np.testing.assert_allclose(found.final[k], one.final, atol=1e-13)
