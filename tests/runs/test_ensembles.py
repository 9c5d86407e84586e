"""Many systems at once against one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.core.inputs import Array, number_at
from attnflow.core.parameters import about
from attnflow.motions.solvers import ensemble_flow
from attnflow.runs import ensembles

pytestmark = pytest.mark.usefixtures("all_threads")

B = [[1.0, 0.4], [-0.2, 0.8]]


def spheres(b: int, n: int, d: int) -> Array:
    return np.stack([af.tokens.sphere(n=n, d=d, seed=s) for s in range(b)])


@pytest.mark.parametrize(
    ("law", "motion", "until"),
    [
        (af.Softmax(beta=3.0), af.SphereFlow(), 4.0),
        (af.Softmax(beta=-2.0, B=B), af.SphereFlow(normalized=False, V=[[1.0, 0.3], [0.0, 1.0]]), 2.0),
        (af.Softmax(beta=2.0, B=B), af.Flow(V=lambda t: [[-1.0, t], [0.0, -0.5]]), 2.0),
        (af.Softmax(beta=2.0), af.RescaledFlow(V=[[1.0, 0.2], [0.0, 0.4]]), 3.0),
        (af.Softmax(beta=lambda t: 1.0 + t), af.Layers(gamma=0.2), 9),
        (af.Softmax(beta=5.0), af.SphereLayers(dt=0.3), 9),
        (af.Softmax(beta=5.0), af.Residual(dt=0.3, feed_forward=af.FeedForward(activation="tanh")), 5),
        (af.Softmax(beta=5.0), af.RescaledLayers(dt=0.3), 9),
        (af.Hardmax(B=B), af.Layers(alpha=0.5), 9),
        (af.Localmax(delta=0.1), af.Layers(gamma=0.5), 9),
        (af.HegselmannKrause(eps=0.6), af.Layers(gamma=0.5), 9),
        (af.Heads([af.Softmax(beta=2.0), af.Hardmax()]), af.Residual(dt=0.1), 5),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_each_system_moves_as_it_does_alone(law: af.Law, motion: af.Motion, until: float, weighted: bool) -> None:
    x = spheres(5, 11, 2)
    masses = np.geomspace(1e-3, 10.0, 11) if weighted else None
    times = [1, 2] if motion.discrete else [0.3, 1.7]
    found = af.ensemble(x, law, motion, until, masses=masses, record=times)
    assert found.times.tolist() == [0, *times, until]
    for k in range(5):
        alone = af.simulate(x[k], law, motion, until, masses=masses, record=times)
        np.testing.assert_allclose(found.values[:, k], alone.tokens, atol=2e-8 if not motion.discrete else 1e-12)
    np.testing.assert_array_equal(found.final, found.values[-1])


def test_parameters_of_their_own() -> None:
    x = spheres(6, 7, 3)
    betas, gammas = np.array([1.0, -3.0, 8.0, 1.0, 0.0, 2.5]), np.array([0.1, 0.5, 0.1, 0.1, 0.5, 1.0])
    found = af.ensemble(x, af.Softmax(beta=betas), af.Layers(gamma=gammas), until=6)
    for k in range(6):
        alone = af.simulate(x[k], af.Softmax(beta=betas[k]), af.Layers(gamma=gammas[k]), until=6)
        np.testing.assert_allclose(found.final[k], alone.final, atol=1e-13)
    deltas = np.array([0.1, 0.5, 0.1, 0.3, 0.3, 0.2])
    found = af.ensemble(x, af.Localmax(delta=deltas), af.Layers(gamma=0.5), until=6)
    for k in range(6):
        alone = af.simulate(x[k], af.Localmax(delta=deltas[k]), af.Layers(gamma=0.5), until=6)
        np.testing.assert_allclose(found.final[k], alone.final, atol=1e-13)


def test_one_hasty_system_among_many_is_as_accurate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean error of 400 systems would let one of them, e^6 times as fast, be wrong by twenty tolerances."""
    monkeypatch.setattr(ensembles, "TOGETHER", 1 << 17)
    monkeypatch.setattr(ensemble_flow, "paths", lambda *_: None)
    x = spheres(400, 6, 2)
    betas = np.zeros(400)
    betas[123] = 6.0
    motion = af.SphereFlow(normalized=False, rtol=1e-6)
    found = af.ensemble(x, af.Softmax(beta=betas), motion, until=0.02)
    exact = af.simulate(x[123], af.Softmax(beta=6.0), replace(motion, rtol=1e-12), until=0.02).final
    alone = af.simulate(x[123], af.Softmax(beta=6.0), motion, until=0.02).final
    error, own = np.abs(found.final[123] - exact).max(), np.abs(alone - exact).max()
    assert error <= 5 * max(own, 1e-7)
    assert found.steps >= 3


MOTIONS: dict[str, Callable[[Array], af.Motion]] = {
    "SA": lambda V: af.SphereFlow(),
    "USA": lambda V: af.SphereFlow(normalized=False),
    "SA, V = 2 I": lambda V: af.SphereFlow(V=2 * np.eye(len(V))),
    "SA, any V": lambda V: af.SphereFlow(V=V),
    "flow": lambda V: af.Flow(),
    "flow, any V": lambda V: af.Flow(V=V),
    "gamma": lambda V: af.Layers(gamma=0.3),
    "alpha": lambda V: af.Layers(alpha=0.5),
    "renormalised": lambda V: af.Layers(V=V),
    "residual": lambda V: af.Residual(V=V, dt=0.2),
    "sphere layers": lambda V: af.SphereLayers(V=V, dt=0.2),
}


@pytest.mark.parametrize(
    ("n", "d", "formed"), [(1, 2, True), (2, 1, False), (8, 2, False), (5, 3, False), (17, 3, True)]
)
@pytest.mark.parametrize("name", MOTIONS)
def test_the_compiled_loop_moves_each_system_as_the_integrator_of_scipy_does(
    name: str, n: int, d: int, formed: bool
) -> None:
    rng = np.random.default_rng(n)
    motion, B = MOTIONS[name](rng.standard_normal((d, d))), rng.standard_normal((d, d)) if formed else None
    x, masses = spheres(4, n, d), rng.uniform(0.1, 3.0, n)
    # Speeds of USA are like e^beta.
    betas, times = np.array([-2.0, 0.0, 1.0, 3.0 if name == "USA" else 30.0]), np.array([0, 1, 2, 5])
    found = ensemble_flow.paths(x, af.Softmax(beta=betas, B=B), motion, masses, times if motion.discrete else times / 4)
    assert found is not None
    for k in range(4):
        law, until = af.Softmax(beta=betas[k], B=B), 5 if motion.discrete else 1.25
        alone = af.simulate(x[k], law, motion, until, masses=masses, record=[1, 2] if motion.discrete else [0.25, 0.5])
        np.testing.assert_allclose(found[0][:, k], alone.tokens, atol=1e-12 if motion.discrete else 3e-8)


def test_the_compiled_flow_takes_the_steps_of_the_integrator_of_scipy() -> None:
    x = spheres(1, 12, 2)
    for rtol in (1e-4, 1e-8):
        motion = af.Flow(V=-np.eye(2), rtol=rtol)
        found = ensemble_flow.paths(x, af.Softmax(beta=3.0), motion, None, np.array([0.0, 20.0]))
        alone = af.simulate(x[0], af.Softmax(beta=3.0), motion, until=20.0)
        assert found is not None
        assert found[1] == len(alone.times) - 1
        np.testing.assert_allclose(found[0][-1, 0], alone.final, rtol=1e-6)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("motion", [af.Layers(gamma=0.3), af.SphereFlow(), af.Flow()], ids=repr)
def test_a_system_moves_to_the_last_bit_as_it_does_alone(motion: af.Motion, d: int) -> None:
    """Exponents of 900 are shifted while those of others in the same vector are not, and steps are many or few."""
    betas = np.array([1.0, -2.0, 900.0, 0.0, 5.0, 2.0, 30.0, 4.0, 1.5, -900.0, 0.3])
    x, masses = spheres(11, 9, d), np.geomspace(0.1, 2.0, 9)
    x[3:6] *= 1.0 if isinstance(motion, af.SphereFlow) else 2.0
    times = np.array([0, 1, 4]) if motion.discrete else np.array([0.0, 0.1, 0.2, 1.0])
    found = ensemble_flow.paths(x, af.Softmax(beta=betas), motion, masses, times)
    assert found is not None
    steps = []
    for k in range(11):
        law = af.Softmax(beta=betas[k])
        alone = ensemble_flow.paths(x[k : k + 1], law, motion, masses, times)
        assert alone is not None
        np.testing.assert_array_equal(found[0][:, k], alone[0][:, 0])
        steps.append(alone[1])
        if motion.discrete:
            one = af.simulate(x[k], law, motion, until=4, masses=masses, record=[1])
            np.testing.assert_allclose(found[0][:, k], one.tokens, atol=1e-11)
    assert found[1] == max(steps)
    assert motion.discrete or min(steps) < max(steps)


@pytest.mark.parametrize(
    ("law", "motion"),
    [
        (af.Hardmax(), af.Layers(gamma=0.5)),
        (af.Softmax(beta=lambda t: 1.0 + t), af.Layers(gamma=0.5)),
        (af.Softmax(), af.Layers(gamma=lambda t: 1 / (t + 2))),
        (af.Softmax(), af.Layers(gamma=1.0)),
        (af.Softmax(), af.RescaledFlow()),
        (af.Softmax(), af.Flow(feed_forward=af.FeedForward())),
        (af.Softmax(beta=1.0), af.Flow()),  # leaves the range of float64 at t = 710
    ],
)
def test_there_is_no_compiled_loop_for_others(law: af.Law, motion: af.Motion) -> None:
    times = np.array([0, 2]) if motion.discrete else np.array([0.0, 800.0])
    assert ensemble_flow.paths(np.ones((1, 2, 2)), law, motion, None, times) is None


def test_subclasses_move_as_they_say() -> None:
    class Resting(af.Flow):
        def velocity(self, hearing: Any, x: Any, t: float) -> Any:
            return 0 * x

    x = spheres(3, 4, 2)
    np.testing.assert_array_equal(af.ensemble(x, af.Softmax(), Resting(), until=1.0).final, x)


def test_who_gets_stuck_is_told_so() -> None:
    with refused("use RescaledFlow"):
        af.ensemble(1e150 * np.ones((2, 2, 2)), af.Softmax(), af.Flow(), until=800.0)
    with refused("met its antipode"):
        af.ensemble([[[1.0, 0.0], [-1.0, 0.0]]] * 2, af.Softmax(beta=-800.0), af.SphereLayers(dt=1.0), until=2)


@pytest.mark.parametrize("motion", [af.Layers(gamma=0.2), af.SphereFlow()], ids=repr)
def test_blocks_and_threads_change_nothing(motion: af.Motion, monkeypatch: pytest.MonkeyPatch) -> None:
    x = spheres(40, 8, 2)
    law = af.Softmax(beta=np.linspace(0.1, 9, 40))
    whole = af.ensemble(x, law, motion, until=5)
    monkeypatch.setattr(ensembles, "TOGETHER", 100)
    np.testing.assert_array_equal(af.ensemble(x, law, motion, until=5).values, whole.values)
    monkeypatch.setattr(ensembles, "ThreadPoolExecutor", lambda _: ThreadPoolExecutor(1))
    np.testing.assert_array_equal(af.ensemble(x, law, motion, until=5).values, whole.values)


def test_what_is_observed_is_recorded_instead() -> None:
    x = spheres(9, 12, 2)
    found = af.ensemble(
        x, af.Softmax(beta=4.0), af.SphereFlow(), until=9.0, record=[1.0, 5.0], observe=lambda s: np.ptp(s, axis=1)
    )
    assert found.values.shape == (4, 9, 2)
    np.testing.assert_allclose(found.values[0], np.ptp(x, axis=1))
    np.testing.assert_allclose(found.values[-1], np.ptp(found.final, axis=1))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"tokens": np.zeros((3, 2))}, "tokens have shape \\(3, 2\\), expected \\(b, n, d\\)"),
        ({"tokens": np.full((2, 3, 2), np.nan)}, "not finite"),
        ({"law": af.Softmax(beta=np.ones(3))}, "beta holds 3 numbers for 4 systems"),
        ({"motion": af.Jumps(gamma=0.1)}, "expected one in layers or an integrated flow"),
        ({"until": 0.0}, "until is 0"),
        ({"until": 2.5}, "give a whole number"),
        ({"record": 3}, "expected a list of times"),
        ({"record": [1000]}, "outside"),
        ({"observe": lambda x: 1.0}, "return one row for each"),
        ({"observe": lambda x: "x"}, "one row for each system"),
        ({"motion": af.SphereFlow(), "tokens": np.full((4, 3, 2), 2.0)}, "norm"),
    ],
)
def test_bad_input_gets_a_sentence(change: dict[str, Any], sentence: str) -> None:
    given = {"tokens": spheres(4, 3, 2), "law": af.Softmax(), "motion": af.Layers(gamma=0.1), "until": 3}
    with refused(sentence):
        af.ensemble(**{**given, **change})


@pytest.mark.parametrize("record", [None, af.watch.Geometric(1.0, 2)])
def test_more_steps_than_int64_counts_are_refused(record: Any) -> None:
    with pytest.raises(af.InputError, match=r"until is 1e\+19, but these steps are counted in int64"):
        af.ensemble(np.zeros((2, 3, 1)), af.Softmax(), af.Layers(gamma=0.5), 1e19, record=record)


def test_arrays_are_for_ensembles_only() -> None:
    with refused("use ensemble"):
        af.simulate([[1.0], [0.0]], af.Softmax(beta=np.ones(2)), af.Layers(gamma=0.1), until=2)
    with refused("an entry of gamma is 2"):
        af.Layers(gamma=np.array([0.1, 2.0]))


def test_what_others_measure_in_changes_nothing() -> None:
    """Systems of size 1e-6 and 1e6 in one ensemble are each as accurate as alone, compiled or not."""
    x = np.random.default_rng(0).standard_normal((2, 6, 2)) * np.array([1e-6, 1e6])[:, None, None]
    betas = np.array([1e12, 1e-12])
    for motion in (af.Flow(V=-np.eye(2)), af.Flow(V=lambda t: -np.eye(2))):
        found = af.ensemble(x, af.Softmax(beta=betas), motion, until=5.0)
        for k in range(2):
            alone = af.simulate(x[k], af.Softmax(beta=betas[k]), motion, until=5.0).final
            np.testing.assert_allclose(found.final[k], alone, rtol=0, atol=1e-7 * np.abs(alone).max())


def test_foreign_systems_and_observers_that_fail() -> None:
    jnp = pytest.importorskip("jax.numpy")
    with refused("ensemble takes NumPy arrays alone, not those of jax"):
        af.ensemble(jnp.ones((2, 3, 2)), af.Softmax(), af.Layers(gamma=0.1), until=2)
    with refused("observe failed on systems of shape"):
        af.ensemble(np.ones((2, 3, 2)), af.Softmax(), af.Layers(gamma=0.1), until=2, observe=af.measure.diameter)


def test_an_array_has_a_number_for_each_system_and_a_list_one_for_each_layer() -> None:
    x = np.stack([af.tokens.gaussian(n=5, d=2, seed=s) for s in range(2)])
    layers, numbers = af.Layers(gamma=0.5), [1.0, 3.0]
    systems = af.ensemble(x, af.Softmax(beta=np.array(numbers)), layers, until=2)
    over_layers = af.ensemble(x, af.Softmax(beta=numbers), layers, until=2)
    for k in range(2):
        own = af.simulate(x[k], af.Softmax(beta=numbers[k]), layers, until=2)
        np.testing.assert_allclose(systems.final[k], own.final, atol=1e-14)
        shared = af.simulate(x[k], af.Softmax(beta=lambda t: numbers[int(t)]), layers, until=2)
        np.testing.assert_allclose(over_layers.final[k], shared.final, atol=1e-14)
    with refused("beta has 2 entries, one for each layer, but the run has 3 layers"):
        af.ensemble(x, af.Softmax(beta=numbers), layers, until=3)


def test_an_error_in_one_block_ends_the_others() -> None:
    """The second block would go on for ten seconds: it is told to stop at its next step."""
    ended = []

    def moved(block: Any, going: Any) -> None:
        if block.members[0] == 0:
            raise af.InputError("the first block failed")
        for _ in range(1000):
            going(0.5, False)
            time.sleep(0.01)
        ended.append(block)

    x = np.zeros((1, 2, 1))
    blocks = [ensembles.Block(np.array([k]), x, af.Softmax(), af.Layers(gamma=0.5)) for k in range(2)]
    with refused("the first block failed"):
        ensembles._on_all_cores(moved, blocks, af.Layers(gamma=0.5))
    assert not ended


def test_a_law_of_ones_own_may_have_one_parameter_for_each_system() -> None:
    @dataclass(frozen=True, eq=False)
    class Near(af.Law):
        """Attention in proportion to e^{-beta |x_i - x_j|^2}."""

        beta: Any = field(default=1.0, metadata=about("function", "sharpness", least=0.0))

        def log_weights(self, x: Any, t: float = 0, *, sources: Any = None, masses: Any = None) -> Any:
            y = x if sources is None else sources
            s = -number_at(self.beta, t, "beta") * ((x[:, None] - y) ** 2).sum(axis=2)
            return s - np.logaddexp.reduce(s, axis=1, keepdims=True)

    x, betas = np.random.default_rng(0).standard_normal((3, 5, 2)), np.array([2.0, 1.0, 2.0])
    found = af.ensemble(x, Near(betas), af.Layers(gamma=0.5), until=4)
    for system, beta, final in zip(x, betas.tolist(), found.final, strict=True):
        np.testing.assert_allclose(final, af.simulate(system, Near(beta), af.Layers(gamma=0.5), until=4).final)


@dataclass(frozen=True, eq=False)
class Doubled(af.motions.DiscreteMotion):
    """A motion of one's own, x <- x + 2 m / 5, that says so by its matrix."""

    def step(self, hearing: af.laws.Hearing, x: Array, t: int) -> Array:
        return np.asarray(x + 0.4 * hearing(x, t).mean)

    def matrix_form(self, d: int) -> af.motions.MatrixForm:
        return af.motions.MatrixForm(0.4 * np.eye(d))


class Changed(Doubled):
    """A motion that inherits a matrix which is not its own."""

    def step(self, hearing: af.laws.Hearing, x: Array, t: int) -> Array:
        return np.asarray(x - hearing(x, t).mean)


def test_a_motion_of_ones_own_moves_in_the_compiled_loop_if_it_says_its_matrix() -> None:
    x, law = np.stack([af.tokens.gaussian(n=4, d=2, seed=seed) for seed in range(3)]), af.Softmax(beta=0.5)
    found = ensembles.independent(x, law, Doubled(), until=3)
    assert found is not None
    np.testing.assert_array_equal(found.final, af.ensemble(x, law, af.Residual(dt=0.4), until=3).final)
    np.testing.assert_allclose(found.final[1], af.simulate(x[1], law, Doubled(), until=3).final, rtol=1e-13)
    assert ensembles.independent(x, law, Changed(), until=3) is None
