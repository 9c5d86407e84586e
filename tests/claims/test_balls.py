"""Ball arithmetic: softmax layers enclosed, more tightly with more bits."""

from typing import Any

import numpy as np
import pytest

import attnflow as af
from attnflow.claims import balls
from attnflow.core.schedules import Schedule

TOKENS = [[1.0, 0.5], [-0.5, 0.25], [0.0, -1.0]]


def run(bits: int, law: Any, steps: int = 8, gamma: Any = 0.5) -> Any:
    with balls.precision(bits):
        return balls.replay(balls.balls(TOKENS), law, af.Layers(gamma=gamma), steps)


def radii(states: Any) -> Any:
    return np.vectorize(lambda v: float(v.rad()))(states)


@pytest.mark.parametrize("beta", [2.0, -1.0, 40.0])
@pytest.mark.parametrize("B", [None, [[0.0, 1.0], [2.0, -1.0]]])
def test_balls_contain_the_states(beta: float, B: Any) -> None:
    law = af.Softmax(beta=beta, B=B)
    plain = af.simulate(TOKENS, law, af.Layers(gamma=0.5), until=8).tokens
    wide, narrow = run(53, law), run(256, law)
    np.testing.assert_allclose(narrow.astype(float), plain, atol=1e-12)
    for ball, better in zip(wide.ravel(), narrow.ravel(), strict=True):
        assert ball.contains(better)
    assert radii(narrow).max() < 1e-60
    assert 1e-60 < radii(wide)[-1].max() < 1
    assert radii(wide)[0].max() == 0.0


def test_balls_shrink_with_precision() -> None:
    law = af.Softmax(beta=3.0)
    widths = [radii(run(bits, law)).max() for bits in (64, 128, 256)]
    assert widths[1] < 1e-15 * widths[0]
    assert widths[2] < 1e-30 * widths[1]


def test_precision_is_put_back() -> None:
    from flint import ctx

    before = ctx.prec

    def fails() -> None:
        with balls.precision(100):
            assert ctx.prec == 100
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert ctx.prec == before


def test_schedules_of_balls() -> None:
    law = af.Softmax(beta=Schedule("1 + t"))
    plain = af.simulate(TOKENS, law, af.Layers(gamma=Schedule("1 / (t + 2)")), until=8).tokens
    np.testing.assert_allclose(run(256, law, gamma=Schedule("1 / (t + 2)")).astype(float), plain, atol=1e-13)


def test_only_softmax_layers_are_enclosed() -> None:
    assert balls.replayable(af.Softmax(), af.Layers(gamma=0.5))
    assert not balls.replayable(af.Softmax(), af.Layers(V=np.eye(2)))
    assert not balls.replayable(af.Hardmax(), af.Layers(gamma=0.5))
    assert not balls.replayable(af.Softmax(), af.Residual())
