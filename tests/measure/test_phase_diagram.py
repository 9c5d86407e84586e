"""The phase diagram on the sphere against closed forms and single runs."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.core.inputs import InputError
from attnflow.measure.phase_diagram import _Cells, equiangular, passing


def test_fractions_are_those_of_single_runs() -> None:
    betas, times = [0.5, 6.0], [1.0, 4.0, 9.0]
    found = af.measure.phase_diagram(betas, times, n=6, d=3, systems=5, seed=3, threshold=0.9)
    x = np.random.default_rng(3).standard_normal((5, 6, 3))
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    for k, beta in enumerate(betas):
        runs = [af.simulate(y, af.Softmax(beta=beta), af.SphereFlow(), until=9.0, record=times) for y in x]
        pairs = np.array([[(np.triu(z @ z.T, 1) > 0.9).sum() / 15 for z in run.tokens[1:]] for run in runs])
        np.testing.assert_allclose(found.fraction[:, k], pairs.mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(found.error[:, k], pairs.std(axis=0, ddof=1) / np.sqrt(5), atol=1e-12)


def test_uniform_starts_are_close_as_often_as_the_area_of_a_cap_says() -> None:
    """On the circle P(<x, y> > c) = arccos(c) / pi, before anybody has moved."""
    found = af.measure.phase_diagram([1.0], [0.0, 1e-9], n=12, systems=2000, threshold=0.5)
    assert abs(found.fraction[0, 0] - 1 / 3) < 5 * found.error[0, 0] < 0.01


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("beta", [0.1, 3.0, 9.0])
def test_the_curve_is_where_orthogonal_tokens_pass_the_threshold(beta: float, normalized: bool) -> None:
    t = float(passing(np.array([beta]), 32, 0.999, normalized)[0])
    assert equiangular(np.array([0.0, t]), 32, beta, normalized)[1] == pytest.approx(0.999, abs=1e-8)
    run = af.simulate(np.eye(32), af.Softmax(beta=beta), af.SphereFlow(normalized=normalized), until=t)
    assert (run.final[0] @ run.final[1]) == pytest.approx(0.999, abs=1e-7)


def test_no_beta_is_too_large_for_the_curve() -> None:
    found = af.measure.phase_diagram([1.0, 1000.0], [1.0, 2.0], n=3, systems=2)
    assert found.curve[1] == np.inf


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {"betas": [1.0, 2.0], "times": [2.0, 5.0], "n": 4, "systems": 7}
    whole = af.measure.phase_diagram(**given)
    monkeypatch.setattr(sys.modules["attnflow.measure.phase_diagram"], "DRAWN", 48)
    np.testing.assert_allclose(af.measure.phase_diagram(**given).fraction, whole.fraction, atol=1e-15)


def test_each_cell_has_the_same_bits_in_any_batch_and_as_they_were_before_sweeps() -> None:
    given = (np.array([1.0, 3.0, 60.0]), np.array([0.0, 2.0, 5.0]), 20, (6, 3), 0, 0.9)
    cells = _Cells(*given, af.SphereFlow(rtol=1e-6))
    whole = [(one.values["sum"].tolist(), one.values["squares"].tolist()) for one in cells(range(3))]
    alone = [(one.values["sum"].tolist(), one.values["squares"].tolist()) for k in range(3) for one in cells([k])]
    assert alone == whole
    x = np.random.default_rng(0).standard_normal((20, 6, 3))
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    law = af.Softmax(beta=np.repeat(given[0], 20))
    flow = af.ensemble(np.tile(x, (3, 1, 1)), law, af.SphereFlow(rtol=1e-6), 5.0, record=given[1], observe=cells.met)
    seen = flow.values.reshape(3, 3, 20)
    assert [one[0] for one in whole] == seen.sum(axis=2).T.tolist()


def test_a_flow_of_ones_own_has_the_same_bits_in_any_batch() -> None:
    class Own(af.SphereFlow):
        """It has no compiled loop: systems of a cell share their steps."""

    cells = _Cells(np.array([1.0, 3.0]), np.array([1.0, 2.0]), 4, (3, 2), 0, 0.9, Own(rtol=1e-6))
    whole = [one.values["sum"].tolist() for one in cells(range(2))]
    assert [one.values["sum"].tolist() for k in range(2) for one in cells([k])] == whole
    found = af.measure.phase_diagram([1.0, 3.0], [1.0, 2.0], n=3, systems=4, threshold=0.9, motion=Own(rtol=1e-6))
    assert (found.fraction.T * 4).tolist() == whole


def test_what_cannot_be_computed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*args: Any, **options: Any) -> None:
        raise InputError("the integrator stopped at t = 1")

    monkeypatch.setattr(_Cells, "moved", lost)
    with refused("the integrator stopped"):
        af.measure.phase_diagram([1.0], [1.0], n=3, systems=4)
    with refused("expected None, 'here', the address"):
        af.measure.phase_diagram([1.0], [1.0], n=3, systems=4, on=3)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"betas": [2.0, 1.0]}, "betas are .*increasing"),
        ({"betas": 2.0}, "betas are 2.0, expected a list"),
        ({"times": [-1.0, 1.0]}, "times go from -1 to 1"),
        ({"times": [0.0]}, "times go from 0 to 0"),
        ({"threshold": 1.0}, "threshold is 1"),
        ({"systems": 1}, "systems is 1"),
        ({"motion": af.Flow()}, "expected a SphereFlow"),
        ({"motion": af.SphereFlow(V=[[2.0, 0.0], [0.0, 2.0]])}, "without V"),
    ],
)
def test_bad_input_gets_a_sentence(change: dict[str, Any], sentence: str) -> None:
    with refused(sentence):
        af.measure.phase_diagram(**{"betas": [1.0], "times": [1.0], "systems": 2, **change})
