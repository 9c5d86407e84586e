"""Calls that do not fit, and laws and motions of one's own that return something else than they should."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow import claims
from attnflow.motions import ContinuousMotion, DiscreteMotion, Stepper, Stretch

X = af.tokens.gaussian(n=6, d=2, seed=0)
STEP = af.Layers(gamma=0.5)


def public() -> dict[str, Any]:
    """Every public function, and every public class that is made by calling it."""
    found = {}
    for module in (af, af.figures, af.geometry, af.measure, af.tokens, af.watch, claims):
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        for name in getattr(module, "__all__", None) or [name for name in own if not name.startswith("_")]:
            value = getattr(module, name)
            made = isinstance(value, type) and isinstance(vars(value).get("__init__"), FunctionType)
            if (made and not getattr(value, "_is_protocol", False)) or isinstance(value, FunctionType):
                found[f"{module.__name__}.{name}"] = value
    return found


PUBLIC = public()


@pytest.mark.parametrize("name", PUBLIC)
def test_an_unknown_keyword_is_answered_by_one_sentence(name: str) -> None:
    value = PUBLIC[name]
    parameters = inspect.signature(value).parameters.values()
    assert not any(one.kind is one.VAR_POSITIONAL and one.name == "args" for one in parameters)
    if not any(one.kind is one.VAR_KEYWORD for one in parameters):
        with pytest.raises(af.InputError, match=f"{value.__name__} has no parameter 'nonsense'.*: it takes ") as told:
            value(nonsense=1)
        assert all(one.name in str(told.value) for one in parameters)


def test_most_public_names_were_asked() -> None:
    assert len(PUBLIC) > 80
    assert {"attnflow.simulate", "attnflow.Softmax", "attnflow.watch.Converged", "attnflow.claims.search"} <= set(
        PUBLIC
    )


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: af.Layers(noise=0.1), "Layers has no parameter 'noise': it takes gamma, alpha, V"),  # type: ignore[call-arg]
        (lambda: af.simulate(X, af.Softmax(), STEP, untill=3), r"'untill' \(is 'until' meant\?\)"),  # type: ignore[call-arg]
        (lambda: af.ensemble(X[None], af.Softmax(), STEP, 3, store="r"), "ensemble has no parameter 'store'"),  # type: ignore[call-arg]
        (lambda: af.watch.Converged(tolerance=1), r"\(is 'tol' meant\?\)"),  # type: ignore[call-arg]
        (lambda: af.Jumps(), "Jumps was not given gamma: it takes gamma, literal"),  # type: ignore[call-arg]
        (lambda: af.Jumps(0.5, gamma=0.5), "Jumps was given 'gamma' twice"),  # type: ignore[misc]
        (lambda: af.geometry.hull(X, 1), "hull was given 2 values without names, expected at most 1"),  # type: ignore[call-arg]
        (lambda: af.simulate(X, af.Softmax(), STEP, 3).plot(colour="red"), "plot has no parameter 'colour'"),  # type: ignore[call-arg]
        (lambda: af.simulate(X, af.Softmax(), STEP, 3).at(), "at was not given t"),  # type: ignore[call-arg]
    ],
)
def test_sentences(call: Callable[[], Any], sentence: str) -> None:
    with refused(sentence):
        call()


def test_an_error_inside_stays_what_it_is() -> None:
    """Only the call itself is judged: a TypeError of the user's own function is not hidden."""

    def broken(t: float, x: Any) -> bool:
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        af.simulate(X, af.Softmax(), STEP, 3, watch=[af.watch.When(broken)])


def test_functions_and_objects_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(af.simulate)) is af.simulate
    assert pickle.loads(pickle.dumps(af.measure.diameter)) is af.measure.diameter
    assert pickle.loads(pickle.dumps(af.Jumps(gamma=0.5))).gamma == 0.5


def test_names_that_are_hardly_alike_are_not_suggested() -> None:
    with refused("simulate has no parameter 'steps': it takes tokens, law, motion, until"):
        af.simulate(X, af.Softmax(), STEP, steps=5)  # type: ignore[call-arg]


def test_a_picture_is_saved_not_a_run(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run = af.simulate(X, af.Softmax(), STEP, until=3)
    with refused(r"Trajectory is no picture, .*run\.plot\(\)"):
        af.figures.save(run, tmp_path / "r.png")  # type: ignore[arg-type]
    with refused("NoneType is no picture"):
        af.figures.save(None, tmp_path / "r.png")  # type: ignore[arg-type]


class OnlyVelocity(ContinuousMotion):
    """x' = -x."""

    def velocity(self, hearing: Any, x: Any, t: float) -> Any:
        return -x


def test_a_flow_of_ones_own_writes_only_its_velocity() -> None:
    run = af.simulate(X, af.Softmax(), OnlyVelocity(), until=2.0)
    np.testing.assert_allclose(run.final, np.exp(-2.0) * X, rtol=1e-7)
    np.testing.assert_allclose(run.at(0.7), np.exp(-0.7) * X, rtol=1e-7)


def test_a_motion_that_is_neither_a_flow_nor_in_layers() -> None:
    class Own(af.Motion):
        def velocity(self, hearing: Any, x: Any, t: float) -> Any:
            return -x

    uses = (lambda: af.simulate(X, af.Softmax(), Own(), 2), lambda: af.ensemble(X[None], af.Softmax(), Own(), 2))
    for use in uses:
        with refused("Own does not say how tokens move: .*ContinuousMotion that writes velocity, .*DiscreteMotion"):
            use()


def test_a_motion_of_ones_own_is_under_way_by_a_stepper() -> None:
    class Half(Stepper):
        """x^{t+1} = x^t / 2, one step at a time; all but `advance` is that of every stepper."""

        def __init__(self, x: Any, t: int) -> None:
            self.x, self.t = x, t

        def advance(self, until: float) -> Stretch:
            before = (self.t, self.x)
            self.t, self.x = self.t + 1, self.x / 2
            return Stretch(before, np.array([self.t]), self.x[None])

    class Own(af.Motion):
        discrete = True

        def __init__(self, stepper: Any) -> None:
            self.stepper = stepper

        def start(self, hearing: Any, x: Any, t: float, state: Any = None) -> Any:
            return self.stepper(x, int(t))

    run = af.simulate(X, af.Softmax(), Own(Half), until=3)
    np.testing.assert_array_equal(run.final, X / 8)
    with refused(r"start of Own returned <object object at .*>, expected a stepper: .*attnflow\.motions\.Stepper"):
        af.simulate(X, af.Softmax(), Own(lambda x, t: object()), until=3)
    with refused("Stepper does not say how tokens move on: a stepper must write advance"):
        af.simulate(X, af.Softmax(), Own(lambda x, t: Stepper()), until=3)


def test_motions_that_are_written_with_other_parameters() -> None:
    class Flows(ContinuousMotion):
        def velocity(self, x: Any, t: float = 0) -> Any:  # type: ignore[override]
            return -x

    class Steps(DiscreteMotion):
        def step(self, hearing: Any, x: Any) -> Any:  # type: ignore[override]
            return x

    for motion, sentence in (
        (Flows(), r"velocity of Flows is written as (self, x, t=0), expected (self, hearing, x, t)"),
        (Steps(), r"step of Steps is written as (self, hearing, x), expected (self, hearing, x, t)"),
    ):
        with refused(sentence):
            af.simulate(X, af.Softmax(), motion, until=2)
        with refused(sentence):
            af.ensemble(X[None], af.Softmax(), motion, until=2)


def test_laws_that_are_written_with_other_parameters() -> None:
    class Bare(af.Law):
        def log_weights(self, x: Any, t: float = 0) -> Any:  # type: ignore[override]
            return np.zeros((len(x), len(x)))

    class Causal(af.Law):
        def log_weights(self, x: Any, t: float = 0, *, rows: Any, columns: Any) -> Any:  # type: ignore[override]
            return np.zeros((len(rows), len(columns)))

    class Anything(af.Law):
        def log_weights(self, *values: Any, **named: Any) -> Any:
            n = len(named["sources"])
            return np.full((len(values[0]), n), -np.log(n))

    expected = r"log_weights of Bare is written as (self, x, t=0), expected (self, x, t, *, sources, masses)"
    for use in everyone(Bare()):
        with refused(expected):
            use()
    with refused(
        re.escape("(self, x, t=0, *, rows, columns), expected (self, x, t, *, sources, masses, rows, columns)")
    ):
        Causal().attend(X)
    np.testing.assert_allclose(Anything().attend(X), np.tile(X.mean(axis=0), (len(X), 1)))


def test_a_flow_of_ones_own_has_a_tolerance_that_makes_sense() -> None:
    @dataclass(frozen=True)
    class Loose(OnlyVelocity):
        rtol: float = 1.0

    with refused("rtol is 1, expected a finite number"):
        af.simulate(X, af.Softmax(), Loose(), until=2.0)


@pytest.mark.parametrize("returned", [np.zeros(3), np.zeros((6, 3)), np.zeros(2), None, 1.0])
def test_motions_that_return_another_shape(returned: Any) -> None:
    class Steps(DiscreteMotion):
        def step(self, hearing: Any, x: Any, t: int) -> Any:
            return returned

    class Flows(ContinuousMotion):
        def velocity(self, hearing: Any, x: Any, t: float) -> Any:
            return returned

    with refused(r"step of Steps returned an array of shape .*, expected that of the tokens, \(6, 2\)"):
        af.simulate(X, af.Softmax(), Steps(), until=2)
    with refused(r"velocity of Flows returned an array of shape .*, expected that of the tokens, \(6, 2\)"):
        af.simulate(X, af.Softmax(), Flows(), until=2.0)


MOTIONS = [STEP, af.Flow(), af.RescaledFlow(), af.Jumps(gamma=0.5), af.Jumps(gamma=0.5, literal=True), af.Leaps(0.1)]


def everyone(law: af.Law) -> list[Callable[[], Any]]:
    """All ways in which the rows of a law are used."""
    runs = [lambda m=m: af.simulate(X, law, m, until=3, seed=0) for m in MOTIONS]
    measures = (af.measure.entropy, af.measure.leaders, af.measure.influence, af.geometry.quiescent_sets)
    asked = [law.weights, law.attend, *(partial(measure, law) for measure in measures)]
    return [*runs, *(partial(ask, X) for ask in asked), lambda: af.ensemble(X[None], law, STEP, until=3)]


@pytest.mark.parametrize("returned", [np.zeros(6), np.zeros((2, 2)), np.zeros((6, 1)), None, 0.0])
def test_a_law_of_another_shape(returned: Any) -> None:
    class Shaped(af.Law):
        def log_weights(self, x: Any, t: float = 0, *, sources: Any = None, masses: Any = None) -> Any:
            return returned

    for use in everyone(Shaped()):
        with refused(r"log_weights of Shaped returned an array of shape .*, expected \(6, 6\)"):
            use()


@pytest.mark.parametrize("excess", [1e-3, 0.5, -700.0])
def test_a_law_whose_rows_do_not_sum_to_one(excess: float) -> None:
    class Scores(af.Law):
        def log_weights(self, x: Any, t: float = 0, *, sources: Any = None, masses: Any = None) -> Any:
            return af.Softmax().log_weights(x, t, sources=sources, masses=masses) + excess

    for use in everyone(Scores()):
        with refused("a row of the weights of Scores sums to .*, expected 1"):
            use()
