"""Measurements where there is little to measure or to say: one point, one value, many systems."""

from __future__ import annotations

import numpy as np
import pytest

import attnflow as af


def test_clouds_in_one_point_are_at_distance_zero() -> None:
    pytest.importorskip("ot")
    assert af.measure.wasserstein([[2.0, 1.0]] * 3, [[2.0, 1.0]] * 5) == 0.0


def test_a_measurement_of_many_systems_says_how_many() -> None:
    found = af.ensemble(np.zeros((4, 3, 2)) + np.arange(3.0)[:, None], af.Softmax(), af.Layers(gamma=0.5), until=1)
    said = repr(af.measure.clusters(found, 0.1)[0])
    assert said.startswith("<4 systems: from ")


def test_the_spread_of_edges_around_one_value() -> None:
    assert af.figures.axes.edges(np.array([3.0])).tolist() == [2.5, 3.5]
