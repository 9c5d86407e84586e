"""Bad input gets one sentence: what was given, what was expected, what to do."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import attnflow as af
from attnflow.core.indices import _moderate
from attnflow.core.inputs import OverLayers
from attnflow.core.threads import threads

LAYERS = af.Layers(gamma=0.5)
X = [[1.0, 0.0], [0.0, 1.0]]
WORD: Any = lambda t: "x"  # noqa: E731


def run(**keywords: Any) -> Any:
    return af.simulate(X, af.Softmax(), LAYERS, 5, **keywords)


ROWS: Any = np.ones((60, 2))
LIST: Any = [0.1] * 99
SOFT: Any = af.Softmax()
CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "law and tokens swapped": (lambda: af.measure.entropy(ROWS, SOFT), r"law is an array of shape \(60, 2\)"),
    "tokens for a law": (lambda: af.simulate([[1.0]], ROWS, LAYERS, 1), "law is an array of shape"),
    "a long list for a motion": (lambda: af.simulate([[1.0]], SOFT, LIST, 1), r"\.\.\., expected a motion"),
    "nan tokens": (lambda: af.Softmax().attend([[np.nan, 1.0]]), "not finite in row 0"),
    "infinite tokens": (lambda: af.simulate([[1.0], [np.inf]], af.Softmax(), LAYERS, 1), "not finite in row 1"),
    "empty tokens": (lambda: af.simulate(np.empty((0, 2)), af.Softmax(), LAYERS, 1), "empty"),
    "no dimension": (lambda: af.simulate(np.empty((3, 0)), af.Softmax(), LAYERS, 1), "empty"),
    "one axis": (lambda: af.simulate([1.0, 2.0], af.Softmax(), LAYERS, 1), r"x.reshape\(-1, 1\)"),
    "three axes": (lambda: af.simulate(np.zeros((2, 2, 2)), af.Softmax(), LAYERS, 1), r"shape \(2, 2, 2\)"),
    "words": (lambda: af.Hardmax().attend([["a", "b"]]), "not an array of numbers"),
    "ragged": (lambda: af.Hardmax().attend([[1.0], [1.0, 2.0]]), "not an array of numbers"),
    "complex": (lambda: af.Hardmax().attend(np.array([[1j]])), "complex"),
    "non-square B": (lambda: af.Softmax(B=[[1.0, 0.0]]), r"B has shape \(1, 2\), expected a square"),
    "wrong size of B": (lambda: af.Hardmax(B=np.eye(3)).attend(X), "give a 2 by 2 matrix"),
    "nan in B": (lambda: af.Hardmax(B=[[np.nan]]), "B holds a value that is not finite"),
    "bad B in time": (lambda: af.Softmax(B=lambda t: [[1.0, 2.0]]).attend(X), r"B\(0\) has shape"),
    "non-square V": (lambda: af.Flow(V=np.ones((2, 3))), "V has shape"),
    "wrong size of V": (lambda: af.simulate(X, af.Softmax(), af.Flow(V=np.eye(3)), 1.0), "give a 2 by 2 matrix"),
    "V of rescaled flow in time": (lambda: af.RescaledFlow(V=lambda t: np.eye(2)), "constant V"),
    "singular matrix step": (lambda: af.Layers(V=-np.eye(2)), "I \\+ V is singular"),
    "singular frame": (lambda: af.RescaledLayers(V=-np.eye(2), dt=1.0), "singular"),
    "gamma 0": (lambda: af.Layers(gamma=0.0), "gamma is 0, expected a finite number above 0 and at most 1"),
    "gamma 1.5": (lambda: af.Layers(gamma=1.5), "gamma is 1.5"),
    "gamma in time": (
        lambda: af.simulate(X, af.Softmax(), af.Layers(gamma=lambda t: 1 - t), 9),
        r"gamma\(1\) is 0",
    ),
    "gamma a word": (lambda: af.Layers(gamma="fast"), "gamma is 'fast', expected a number"),  # type: ignore[arg-type]
    "beta a formula": (
        lambda: af.Softmax(beta="t"),  # type: ignore[arg-type]
        "beta is 't', expected a number or a function of time: give .* or af.Schedule",
    ),
    "gamma and alpha": (lambda: af.Layers(gamma=0.1, alpha=1.0), "exactly one of gamma, alpha and V"),
    "nothing": (lambda: af.Layers(), "exactly one of gamma, alpha and V"),
    "negative delta": (lambda: af.Localmax(delta=-1.0), "delta is -1, expected a finite number at least 0"),
    "infinite beta": (lambda: af.Softmax(beta=np.inf), "beta is inf"),
    "nan beta": (lambda: af.Softmax(beta=float("nan")), "beta is nan"),
    "unknown ties": (lambda: af.Hardmax(ties="all"), "expected one of tokens, points, first, error"),
    "unknown threshold": (lambda: af.Localmax(threshold="soft"), "expected one of additive"),
    "until 0": (lambda: af.simulate(X, af.Softmax(), LAYERS, 0), "until is 0, expected a finite number above 0"),
    "until negative": (lambda: af.simulate(X, af.Softmax(), af.Flow(), -1.0), "until is -1"),
    "until half a step": (lambda: af.simulate(X, af.Softmax(), LAYERS, 2.5), "give a whole number"),
    "until nan": (lambda: af.simulate(X, af.Softmax(), LAYERS, np.nan), "until is nan"),
    "law is not a law": (lambda: af.simulate(X, "softmax", LAYERS, 1), "expected a law"),  # type: ignore[arg-type]
    "motion is not one": (lambda: af.simulate(X, af.Softmax(), 0.1, 1), "expected a motion"),  # type: ignore[arg-type]
    "unknown engine": (lambda: af.simulate(X, af.Softmax(), LAYERS, 1, engine="gpu"), "expected one of auto"),
    "masses too few": (lambda: af.Softmax().attend(X, masses=[1.0]), r"masses have shape \(1,\), expected \(2,\)"),
    "negative mass": (lambda: af.Softmax().attend(X, masses=[1.0, -2.0]), "mass 1 is -2.0"),
    "zero mass": (lambda: af.Softmax().attend(X, masses=[0.0, 1.0]), "mass 0 is 0.0"),
    "masses too far apart": (lambda: af.Softmax().attend(X, masses=[1e-200, 1.0]), "span a factor"),
    "record outside": (lambda: af.simulate(X, af.Softmax(), LAYERS, 5, record=[0, 9]), r"outside \[0, 5\]"),
    "record between layers": (lambda: af.simulate(X, af.Softmax(), LAYERS, 5, record=[0.5]), "not whole"),
    "record zero": (lambda: af.simulate(X, af.Softmax(), LAYERS, 5, record=0), "record is 0"),
    "record a word": (lambda: af.simulate(X, af.Softmax(), LAYERS, 5, record="all"), "record is 'all'"),  # type: ignore[arg-type]
    "off the sphere": (lambda: af.simulate([[2.0, 0.0]], af.Softmax(), af.SphereFlow(), 1.0), "token 0 has norm 2"),
    "antipodes": (
        lambda: af.simulate([[1.0, 0.0], [-1.0, 0.0]], af.Softmax(beta=-100.0), af.SphereLayers(), 1),
        "met its antipode",
    ),
    "USA of heads": (
        lambda: af.simulate([[1.0, 0.0]], af.Heads([af.Softmax()]), af.SphereFlow(normalized=False), 1.0),
        r"needs softmax weights, not Heads: use SphereFlow\(\) with the law Unnormalized\(...\), or with Masked",
    ),
    "rescaled heads": (
        lambda: af.simulate(X, af.Heads([af.Softmax()]), af.RescaledFlow(), 1.0),
        "RescaledFlow moves with one matrix V, but heads bring several",
    ),
    "heads without laws": (lambda: af.Heads([]), "at least one law"),
    "heads with fewer matrices": (lambda: af.Heads([af.Softmax(), af.Softmax()], V=[None]), "2 heads came with 1"),
    "unknown activation": (lambda: af.FeedForward(activation="gelu"), "expected one of relu, tanh"),
    "feed-forward is not one": (lambda: af.Flow(feed_forward="relu"), "expected a FeedForward"),  # type: ignore[arg-type]
    "rtol 0": (lambda: af.Flow(rtol=0.0), "rtol is 0"),
    "no such time": (lambda: af.simulate(X, af.Softmax(), LAYERS, 5).at(7), "expected a time of the run, 0 to 5"),
    "a time that is a word": (lambda: run().at("a"), "t is not an array of numbers: give one time"),
    "a time that is None": (lambda: run().at(None), "t is not an array of numbers: give one time"),
    "a complex time": (lambda: run().at(1j), "t is complex"),
    "no times": (lambda: run().at([]), "give one time, or a list of at least one"),
    "a row instead of P": (lambda: af.measure.rank([1.0, 2.0]), r"P has shape \(2,\), expected a matrix \(m, n\)"),
    "an empty P": (lambda: af.measure.rank(np.empty((0, 2))), r"P has shape \(0, 2\), expected a matrix"),
    "a P that is a word": (lambda: af.measure.rank("P"), "P is not an array of numbers: give n rows"),
    "nan in P": (lambda: af.measure.rank([[np.nan]]), "P holds a value that is not finite"),
    "no limits": (
        lambda: af.measure.distance_to_limits(X, np.empty((0, 2))),
        r"limits are empty, with shape \(0, 2\): give at least one row of at least one number",
    ),
    "limits without rows": (lambda: af.measure.distance_to_limits(X, []), "limits have shape .*give n rows of d"),
    "half a layer": (lambda: af.simulate(X, af.Softmax(), LAYERS, 5).at(2.5), "give a whole number"),
    "tokens too large": (lambda: af.Softmax().attend([[1e200], [1.0]]), "of size 1e\\+200"),
    "tokens too small": (lambda: af.Hardmax().attend([[1e-170], [-1e-170]]), "of size 1e-170"),
    "scores overflow": (lambda: af.Softmax(B=[[1e100]]).attend([[1e140], [1.0]]), "leave the range of float64"),
    "top scores overflow": (lambda: af.Hardmax(B=[[1e100]]).attend([[1e140], [1.0]]), "leave the range of float64"),
    "tokens as strings": (lambda: af.Hardmax().attend([["1"], ["2"]]), "not an array of numbers"),
    "complex B": (lambda: af.Softmax(B=np.array([[1 + 2j]])), "B is complex"),
    "complex masses": (lambda: af.Softmax().attend(X, masses=[1j, 1.0]), "masses are complex"),
    "gamma true": (lambda: af.Layers(gamma=True), "gamma is True"),
    "beta beyond float64": (lambda: af.Softmax(beta=10**400), "beyond the range of float64"),
    "until a string": (lambda: af.simulate(X, af.Softmax(), LAYERS, "5"), "until is '5'"),  # type: ignore[arg-type]
    "record nested": (lambda: af.simulate(X, af.Softmax(), LAYERS, 5, record=[[1, 2]]), "record is"),  # type: ignore[list-item]
    "record half a step": (lambda: af.simulate(X, af.Softmax(), LAYERS, 5, record=1.5), "record is 1.5"),
    "seed a word": (lambda: af.simulate(X, af.Softmax(), LAYERS, 5, seed="x"), "seed is 'x'"),  # type: ignore[arg-type]
    "a watcher alone": (lambda: run(watch=af.watch.Converged()), "expected a list of watchers"),
    "a watcher's class": (lambda: run(watch=[af.watch.Converged]), "expected a list of watchers"),
    "a function that fails": (lambda: af.Softmax(beta=lambda t: 1 / t).attend(X), "beta, a function of time, failed"),
    "a function that fails in a run": (
        lambda: af.simulate(X, af.Softmax(beta=lambda t: 1 / t), LAYERS, 5), "Softmax, a function of time, failed"
    ),
    "a function without numbers": (
        lambda: af.simulate(X, af.Softmax(beta=WORD), LAYERS, 5), "a function of time, failed at t = 0"
    ),
    "a store that is a number": (lambda: run(store=5), "store is 5, expected a path"),
    "load a number": (lambda: af.load(5), "path is 5, expected a path"),  # type: ignore[arg-type]
    "not-a-number time": (lambda: af.simulate(X, af.Softmax(), LAYERS, 5).at(np.nan), "finite times"),
    "normalized a word": (lambda: af.SphereFlow(normalized="no"), "normalized is 'no'"),  # type: ignore[arg-type]
    "seed of a cloud": (lambda: af.tokens.gaussian(3, 2, seed=-1), "seed is -1"),
    "fraction of a token": (lambda: af.tokens.gaussian(2.5, 2), "expected a whole number"),  # type: ignore[call-overload]
    "empty cube": (lambda: af.tokens.uniform(2, 2, low=1.0, high=1.0), "expected low < high"),
    "too many orthogonal": (lambda: af.tokens.orthogonal(3, 2), "do not fit"),
    "schedule is not arithmetic": (lambda: af.Schedule("__import__('os')"), "not arithmetic in t"),
    "schedule is not Python": (lambda: af.Schedule("2 +"), "not a formula in t"),
    "schedule without value": (lambda: af.Schedule("1/t")(0), "no real value at t = 0"),
    "schedule of whole powers": (lambda: af.Schedule("floor(9e9)**floor(9e9)")(0), "no real value at t = 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_sentence(name: str) -> None:
    call, message = CASES[name]
    with pytest.raises(af.InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_large_beta_is_handled_not_refused() -> None:
    x = af.tokens.gaussian(n=30, d=2, seed=0)
    for beta in (1e5, 1e300, -1e300):
        m = af.Softmax(beta=beta).attend(x)
        np.testing.assert_allclose(m, af.Hardmax(B=np.sign(beta) * np.eye(2)).attend(x), rtol=0, atol=1e-12)
    run = af.simulate(x, af.Softmax(beta=1e300), af.Layers(gamma=0.1), until=100)
    assert np.isfinite(run.tokens).all()


def test_the_caller_keeps_his_array() -> None:
    x = af.tokens.gaussian(n=5, d=2, seed=0)
    before = x.copy()
    run = af.simulate(x, af.Softmax(), LAYERS, until=3)
    run.tokens[0] += 1
    np.testing.assert_array_equal(x, before)


def test_how_many_threads_there_are_is_known_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "numba")
    for given, expected in (("3", 3), ("0", os.cpu_count()), ("many", os.cpu_count())):
        monkeypatch.setenv("NUMBA_NUM_THREADS", given)
        assert threads() == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, True), ("left", True), (af.Softmax(), True), (3.0, True), (30.0, False), ([1.0, 2.0], True),
        ([1.0, 20.0], False), (np.array([9.0, -11.0]), False), (lambda t: 1.0, False),
        (OverLayers([1.0, 2.0], "a"), True), (OverLayers([1.0, 20.0], "a"), False),
    ],
)  # fmt: skip
def test_parameters_that_are_known_to_be_below_a_bound(value: Any, expected: bool) -> None:
    assert _moderate(value, 10.0) == expected
