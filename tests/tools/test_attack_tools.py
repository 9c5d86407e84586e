"""The tools behind the page on attacks, on small instances."""

from __future__ import annotations

import numpy as np

import attnflow as af
from attnflow.claims import exact
from tools import random_orbits
from tools.triple_programs import margin


def test_random_orbits_come_to_rest() -> None:
    assert random_orbits.moving(5, orbits=200).size == 0


def test_a_layer_is_that_of_the_library() -> None:
    x, delta, gamma = random_orbits.drawn(31, orbits=3)
    after = random_orbits.layer(x, delta, gamma)
    for k, tokens in enumerate(x):
        law, motion = af.Localmax(delta=float(delta[k])), af.Layers(gamma=float(gamma[k]))
        same = exact.replay(exact.rational(tokens), law, motion, 1)[1].astype(float)
        np.testing.assert_allclose(after[k], same, atol=1e-13)


def test_sums_over_triples_exist_above_minus_two_thirds_alone() -> None:
    assert margin(-0.6, degree=2, arcs=24) > 0.09
    assert margin(0.5, degree=3, arcs=24) > 0.4
    assert margin(-0.7, degree=3, arcs=24) < 0
