"""Objects that hold much are printed in one short line, which says how much they hold."""

from __future__ import annotations

import numpy as np
import pytest

import attnflow as af
from attnflow.core.inputs import OverLayers
from attnflow.laws import ByLayer
from attnflow.motions.blocks import Norm, Perceptron

WEIGHTS = np.ones((2, 3, 4))
OUT = WEIGHTS.swapaxes(1, 2)
BLOCK = af.Block(af.Softmax())
LAYERS = ByLayer([af.Softmax(), af.Hardmax()])
SHORT = {
    repr(Norm("rms")): "Norm('rms')",
    repr(Perceptron(np.ones((3, 2)), np.ones((2, 3)))): "Perceptron(2 to 3, gelu)",
    repr(af.Attention(WEIGHTS, WEIGHTS, WEIGHTS, OUT)): "Attention(2 heads of size 3 in dimension 4)",
    af.Attention(WEIGHTS, WEIGHTS, WEIGHTS, OUT).short_name: "2 heads",
    repr(LAYERS): "<a law in each of 2 layers>",
    LAYERS.short_name: "2 layers",
    repr(af.Transformer([BLOCK] * 2)): "Transformer(2 blocks)",
    repr(af.Transformer([BLOCK], again=True)): "Transformer(1 block, again and again)",
    af.Transformer([BLOCK], again=True).short_name: "One layer again and again",
    af.Transformer([BLOCK] * 2).short_name: "Transformer",
    repr(OverLayers([1.0, 2.0], "beta")): "<beta over 2 layers>",
    repr(af.geometry.cells([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])): "<Cells: 3 vertices in R^2>",
}


@pytest.mark.parametrize(("said", "expected"), SHORT.items(), ids=list(SHORT.values()))
def test_they_say_how_much_they_hold(said: str, expected: str) -> None:
    assert said == expected


def test_a_law_in_each_layer_is_continuous_if_all_are() -> None:
    assert not LAYERS.continuous
    assert ByLayer([af.Softmax()]).continuous
    assert LAYERS.heads == ()
