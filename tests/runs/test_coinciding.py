"""Tokens that coincide are summed as one mass, by laws and by layers, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.engines import fused
from attnflow.geometry.copies import copies
from attnflow.motions import DiscreteMotion

RNG = np.random.default_rng(4)
PLACES = af.tokens.sphere(n=9, d=3, seed=0)
WHO = np.concatenate([np.arange(9), RNG.integers(9, size=31)])
MASSES = RNG.uniform(0.1, 3.0, 40)


def test_copies_are_found_as_by_sorting() -> None:
    x = PLACES[WHO]
    found = copies(x)
    assert found is not None
    np.testing.assert_array_equal(found.label, WHO)
    np.testing.assert_array_equal(x[found.first][found.label], x)
    assert copies(PLACES) is None
    assert copies(np.concatenate([PLACES, PLACES[:8]])) is None  # nine of seventeen are distinct
    assert copies(np.full((8, 2), np.nan)) is None


def test_many_places_with_many_copies_are_found_too() -> None:
    x = RNG.standard_normal((1000, 5))[RNG.integers(1000, size=20_000)]
    found = copies(x)
    assert found is not None
    assert len(found.first) == 1000
    grid = np.stack(np.meshgrid(np.arange(30.0), np.arange(30.0)), axis=-1).reshape(-1, 2)
    assert copies(grid, at_a_glance=True) is None
    assert copies(np.tile(PLACES, (300, 1)), at_a_glance=True) is not None


@dataclass(frozen=True)
class Wandering(DiscreteMotion):
    """Tokens at one place part: who is who matters."""

    def step(self, hearing: Any, x: Array, t: int) -> Array:
        return x + np.random.default_rng(t).standard_normal(x.shape)


def test_motions_that_tell_tokens_apart_get_all_of_them() -> None:
    run = af.simulate(np.zeros((10, 2)), af.Softmax(), Wandering(), until=1)
    assert len(np.unique(run.final, axis=0)) == 10


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sources each sum of the fused engine has."""
    sizes: list[int] = []
    for name in ("softmax", "softmax_layers"):
        right = getattr(fused, name)

        def spy(x: Array, *rest: Any, right: Any = right) -> Any:
            sizes.append(len(x))
            return right(x, *rest)

        monkeypatch.setattr(fused, name, spy)
    return sizes


@pytest.mark.parametrize(
    "motion",
    [
        af.Layers(gamma=0.3),
        af.Layers(V=np.diag([1.0, 0.5, 0.2])),
        af.Residual(dt=0.1, feed_forward=af.FeedForward(activation="tanh")),
        af.SphereLayers(dt=0.2),
        af.RescaledLayers(dt=0.2),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_layers_move_them_as_one(motion: af.Motion, weighted: bool, heard: list[int]) -> None:
    law, masses = af.Softmax(beta=3.0, B=[[1.0, 0.2, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 0.4]]), MASSES
    run = af.simulate(PLACES[WHO], law, motion, until=20, masses=masses if weighted else None)
    assert set(heard) == {9}
    by_hand = af.simulate(PLACES[WHO], law, motion, until=20, masses=masses if weighted else None, engine="fused")
    assert 40 in heard
    np.testing.assert_allclose(run.tokens, by_hand.tokens, atol=1e-13)
    np.testing.assert_array_equal(run.tokens, run.tokens[:, :9][:, WHO])


def test_large_sums_hear_them_as_one(heard: list[int]) -> None:
    who = RNG.integers(9, size=3000)
    x, masses = PLACES[who], RNG.uniform(0.1, 3.0, 3000)
    law = af.Softmax(beta=-2.0)
    once = law.hear(x, masses=masses)
    assert heard == [9]
    exact = law.hear(x[:50], sources=x, masses=masses, engine="dense")
    np.testing.assert_allclose(once.mean[:50], exact.mean, atol=1e-14)
    assert once.log_total is not None
    assert exact.log_total is not None
    np.testing.assert_allclose(once.log_total[:50], exact.log_total, rtol=1e-13)
    other = law.hear(PLACES, sources=x, masses=masses)
    np.testing.assert_allclose(other.mean, law.hear(PLACES, sources=x, masses=masses, engine="dense").mean, atol=1e-14)


def test_a_stopped_run_goes_on_bit_for_bit(tmp_path: Path, dies: Callable[[int], af.watch.Watcher]) -> None:
    """All meet on the way: for beta = 0 and gamma = 1, to the last bit."""
    law, motion = af.Softmax(beta=lambda t: float(t != 2500)), af.Layers(gamma=lambda t: 1.0 if t == 2500 else 0.01)
    start, often = np.concatenate([PLACES, PLACES[:3]]), af.watch.Checkpoint(seconds=0)
    whole = af.simulate(start, law, motion, until=9000, record=1000)
    assert copies(whole.final) is not None
    with pytest.raises(KeyboardInterrupt):
        af.simulate(start, law, motion, 9000, record=1000, store=tmp_path / "run", watch=[often, dies(3)])
    resumed = af.simulate(start, law, motion, until=9000, record=1000, store=tmp_path / "run")
    assert resumed.tokens.tobytes() == whole.tokens.tobytes()


@pytest.mark.parametrize(
    ("law", "motion", "named"),
    [
        (af.Softmax(beta=1.0), af.Layers(gamma=0.5), "separable"),
        (af.Softmax(beta=1e5), af.Layers(gamma=0.5), "tree"),
        (af.Softmax(beta=1.0), af.Flow(rtol=1e-4), "separable"),
        (af.Softmax(beta=1.0), af.RescaledFlow(rtol=1e-10), "fused"),
        (af.Heads([af.Softmax(), af.Hardmax()]), af.Residual(dt=0.1), "separable, vertices"),
    ],
)
def test_the_report_names_who_summed(law: af.Law, motion: af.Motion, named: str) -> None:
    x = 0.5 * af.tokens.gaussian(n=4200, d=2, seed=0)
    assert af.simulate(x, law, motion, until=1 if motion.discrete else 0.01).report["engine"] == named


def test_the_report_names_who_was_handed_the_sum() -> None:
    x, step = af.tokens.gaussian(n=200, d=2, seed=0), af.Layers(gamma=0.5)
    assert af.simulate(x, af.Softmax(beta=1e-3), step, until=1, engine="pruned").report["engine"] == "tree"
    assert af.simulate(x, af.Softmax(beta=1e6), step, until=1, engine="separable").report["engine"] == "fused"
    assert af.simulate(x, af.Softmax(beta=1.0), step, until=1, engine="separable").report["engine"] == "separable"
    crowd = RNG.standard_normal((200, 16))[RNG.integers(200, size=3000)]
    assert af.simulate(crowd, af.Softmax(), step, until=1).report["engine"] == "fused"
