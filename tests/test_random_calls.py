"""Random calls of the public functions, with good and bad arguments: a result without NaN, or one sentence."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnflow as af
from attnflow.core.parameters import parameters_of

# 100 calls in `make test`, 2,000 in `make test-all`.
CALLS = 5 * int(os.environ.get("ATTNFLOW_EXAMPLES", "20"))
TOGETHER = 50


class Draw(np.random.Generator):
    """A generator with the number and the dimension of the tokens of one call, so that most arguments fit together."""

    def __init__(self, *seed: int) -> None:
        super().__init__(np.random.PCG64(seed))
        self.n, self.d = int(self.integers(1, 8)), int(self.integers(1, 4))


LAWS = [
    af.Softmax, af.Hardmax, af.Localmax, af.HegselmannKrause, af.Heads, af.Entmax, af.Sparsemax, af.Sinkhorn,
    af.SelfAdjusted, af.Unnormalized, af.Sigmoid, af.Linear, af.Masked, af.Positional,
]  # fmt: skip
MOTIONS: list[Any] = [
    af.Layers, af.Residual, af.RescaledLayers, af.SphereLayers, af.Flow, af.RescaledFlow, af.SphereFlow,
    af.HardmaxFlow, af.Jumps, af.Leaps, af.Noisy, af.RandomHeads,
]  # fmt: skip
WATCHERS = [af.watch.Converged, af.watch.Clustered, af.watch.When, af.watch.WallClock, af.watch.Checkpoint]
CLOUDS = [getattr(af.tokens, name) for name in ("gaussian", "uniform", "sphere", "polygon", "grid", "orthogonal")]
GEOMETRY = [
    af.geometry.hull, af.geometry.cells, af.geometry.stationary_points, af.geometry.genericity, af.geometry.classify,
    af.geometry.quiescent_sets,
]  # fmt: skip
MEASURES = [
    af.measure.clusters, af.measure.diameter, af.measure.energy, af.measure.pair_energy, af.measure.entropy,
    af.measure.influence, af.measure.leaders, af.measure.rank, af.measure.distance_to_limits, af.measure.summary,
    af.measure.contraction_rate, af.measure.power_law, af.measure.merge_times, af.measure.staircase,
    af.measure.exit_times, af.measure.exit_probability, af.measure.exit_rate, af.measure.phases,
    af.measure.wasserstein, af.measure.quantise, af.measure.sampling_rate,
]  # fmt: skip

# What somebody may give by mistake.
BAD: list[Any] = [
    None, True, "word", "", b"x", np.nan, np.inf, -np.inf, -1, 0, 0.5, 1e308, -1e-308, 10**400, 10**15, 1j, [], [[]],
    (), {}, {1}, object(), np.nan * np.ones((3, 2)), np.empty((0, 2)), np.empty((2, 0)), np.zeros((2, 2, 2)),
    np.zeros((3, 2)), 1e200 * np.ones((2, 2)), 1e-200 * np.eye(2), [1.0, 2.0], [[1.0, 2.0], [3.0]], [["a"]],
    np.array([[1j]]), np.eye(2, dtype=bool), np.array("x"), np.datetime64("2020-01-01"), 7, [0.1, -0.1],
    af.Softmax, af.Softmax(), af.Layers(gamma=0.5), lambda: 0, lambda t: "word", lambda t: np.nan, lambda t: t - 1,
    np.ones((2, 3)), [np.nan], float("1e-320"), "[[1, 2]]", Path("nowhere.zarr"), slice(None), range(3), iter([1.0]),
]  # fmt: skip


def cloud(draw: Draw) -> Any:
    n = draw.n
    x = [af.tokens.gaussian, af.tokens.sphere][draw.integers(2)](n=n, d=draw.d, seed=int(draw.integers(9)))
    if draw.random() < 0.2:
        x = x[draw.integers(0, n, n)]
    if draw.random() < 0.2:
        x = x * 10 ** draw.uniform(-6, 6)
    if draw.random() < 0.1:
        x = np.round(x)
    return x.tolist() if draw.random() < 0.2 else x


def matrix(draw: Draw) -> Any:
    d = draw.d
    return [None, np.eye(d), draw.normal(size=(d, d)), -np.eye(d), np.zeros((d, d))][draw.integers(5)]


def vector(draw: Draw) -> Any:
    return [None, np.zeros(draw.d), draw.normal(size=draw.d)][draw.integers(3)]


def number(low: float, high: float) -> Callable[[Draw], Any]:
    return lambda draw: float(10 ** draw.uniform(low, high))


def whole(low: int, high: int) -> Callable[[Draw], Any]:
    return lambda draw: int(draw.integers(low, high))


def one_of(*values: Any) -> Callable[[Draw], Any]:
    return lambda draw: values[draw.integers(len(values))]


def made(kinds: list[Any]) -> Callable[[Draw], Any]:
    """Return how to make one of these laws, motions or watchers, mostly with arguments that make sense."""
    return lambda draw: call(kinds[draw.integers(len(kinds))], draw, 0.02)


def several(draw: Draw) -> Any:
    return np.sort(10 ** draw.uniform(-1, 1.5, size=int(draw.integers(1, 5))))


def run(draw: Draw) -> Any:
    motion = [af.Layers(gamma=0.3), af.RescaledFlow(), af.Jumps(gamma=0.3)][draw.integers(3)]
    if draw.random() < 0.3:
        x = af.tokens.sphere(n=5, d=2, seed=int(draw.integers(9)))
        return af.simulate(x, af.Softmax(beta=2.0), af.SphereFlow(), until=20.0)
    return af.simulate(af.tokens.gaussian(n=5, d=2, seed=1), af.Softmax(beta=2.0), motion, until=6, seed=1)


# Values that make sense, by the name of the parameter.
GOOD: dict[str, Callable[[Draw], Any]] = {
    **dict.fromkeys(("tokens", "x", "y", "vertices", "limits", "points", "values", "distances"), cloud),
    **dict.fromkeys(("B", "V", "W"), matrix), "b": vector,
    "law": made(LAWS), "laws": lambda draw: [call(af.Softmax, draw, 0.02)], "motion": made(MOTIONS), "run": run,
    "until": lambda draw: [int(draw.integers(1, 30)), float(draw.uniform(0.01, 3))][draw.integers(2)],
    "masses": lambda draw: draw.uniform(0.1, 3, size=draw.n),
    "seed": whole(0, 99), "record": one_of(None, 2, [0, 1], af.watch.Geometric(), [0.5]),
    "watch": lambda draw: [call(WATCHERS[draw.integers(len(WATCHERS))], draw, 0.02)],
    "precision": one_of("double", "single"),
    "engine": one_of("auto", "precise", "dense", "fused", "blocked", "fast", "separable", "tree", "vertices"),
    "beta": lambda draw: [10 ** draw.uniform(-2, 2), 0.0, -1.0, lambda t: 1 + t][draw.integers(4)],
    "delta": number(-3, 1), "eps": number(-2, 1), "threshold": one_of("additive", "relative", "normalized"),
    "ties": one_of("tokens", "points", "first", "error"), "dt": number(-2, 0), "rtol": number(-9, -3),
    "gamma": lambda draw: [float(draw.uniform(0.01, 1)), lambda t: 1 / (t + 2)][draw.integers(2)],
    "alpha": number(-2, 1), "feed_forward": one_of(None, af.FeedForward(activation="tanh")),
    "normalized": one_of(True, False), "literal": one_of(True, False), "tol": number(-8, 0), "t": whole(0, 5),
    "n": whole(1, 9), "d": whole(1, 4), "k": whole(1, 6), "low": number(-2, 0), "high": number(0, 1),
    "radius": number(-2, 1), "angle": number(-1, 1), "at_most": whole(1, 4), "seconds": number(-3, 0),
    "predicate": one_of(lambda t, x: t > 3), "why": one_of("so it is"), "betas": several, "times": several,
    "runs": whole(2, 12), "steps": whole(1, 60), "token": one_of(None, 0), "P": lambda draw: np.eye(3), "to": cloud,
    "window": one_of(None, (0.0, 2.0), 1, 3), "causal": one_of(True, True, False), "scores": one_of(True, False),
    "graph": lambda draw: np.eye(draw.n) + (draw.random((draw.n, draw.n)) < 0.5) > 0, "heads": whole(1, 4),
    "rope": lambda draw: [number(-1, 1)(draw), draw.normal(size=draw.d // 2)][draw.integers(2)],
    "alibi": number(-2, 1), "bias": lambda draw: draw.normal(size=(draw.n, draw.n)),
    "offset": lambda draw: float(draw.normal()), "kappa": number(-1, 3), "sigma": number(-3, 0),
    "norm": one_of("post", "pre", "peri", "ngpt", "cod", "mix"), "tau": number(-1, 1), "centred": one_of(True, False),
     "scale": one_of(None, 1.0), "power": one_of(None, 1.0, 2.0),
    "atoms": whole(1, 5), "gap": one_of(True, False), "other_masses": one_of(None),
    "observe": one_of(None, lambda x: x.mean(axis=(1, 2))),
}  # fmt: skip


def call(function: Any, draw: Draw, wrong: float = 0.15) -> Any:
    """Call a function with random arguments, each of them wrong with some probability; some are left out."""
    return function(**arguments(function, draw, wrong))


def arguments(function: Any, draw: Draw, wrong: float) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        optional = parameter.default is not parameter.empty
        needed = function is af.Layers and name == "gamma"
        if optional and not needed and draw.random() < (0.9 if name in ("store", "alpha", "V", "precision") else 0.5):
            continue
        if name in ("store", "Q", "K"):
            continue
        bad = draw.random() < wrong or name not in GOOD
        if not optional and draw.random() < wrong / 10:
            continue
        given[name] = BAD[draw.integers(len(BAD))] if bad else GOOD[name](draw)
    if "Q" in inspect.signature(function).parameters and draw.random() < 0.15:
        # They come together, instead of B.
        given = {name: value for name, value in given.items() if name != "B"} | {
            name: BAD[draw.integers(len(BAD))] if draw.random() < wrong else draw.normal(size=(2, draw.d))
            for name in "QK"
        }
    if "norm" in inspect.signature(function).parameters:
        # Each is refused with norms that do not take it.
        for name, one in parameters_of(function).items():
            if one.only_for and name in given:
                given = {"norm": one.only_for, **given}
    if draw.random() < wrong / 10:
        given["nonsense"] = 1
    return given


def run_alone(draw: Draw) -> af.Trajectory:
    return af.simulate(**fitting(af.simulate, draw))


def simulated(draw: Draw) -> Any:
    """A run, and something that is asked of it."""
    return asked(run_alone(draw), draw)


def fitting(function: Any, draw: Draw) -> dict[str, Any]:
    """Return arguments of simulate or ensemble; mostly law, motion, tokens and until suit each other."""
    given = arguments(function, draw, 0.03)
    if draw.random() < 0.8:
        # Those that an ensemble takes come first, without HardmaxFlow, Jumps and Leaps.
        kind = MOTIONS[draw.integers(len(MOTIONS) if function is af.simulate or draw.random() < 0.1 else 7)]
        given["motion"], given["law"] = call(kind, draw, 0.0), call(af.Softmax, draw, 0.0)
        if kind is af.HardmaxFlow:
            given["law"] = af.Hardmax(B=matrix(draw))
        elif ((kind.discrete and kind is not af.Leaps) or draw.random() < 0.1) and draw.random() < 0.4:
            given["law"] = call([af.Hardmax, af.Localmax][draw.integers(2)], draw, 0.0)
        if kind in (af.SphereFlow, af.SphereLayers):
            given["tokens"] = af.tokens.sphere(draw.n, draw.d, seed=1)
        given["until"] = (
            int(draw.integers(1, 40)) if kind.discrete or draw.random() < 0.5 else float(draw.uniform(0, 3))
        )
        if draw.random() < 0.8:
            given.pop("engine", None)
            given.pop("precision", None)
    return given


def asked(found: af.Trajectory, draw: Draw) -> Any:
    options: list[Callable[[], Any]] = [
        lambda: found,
        lambda: found.at(BAD[draw.integers(len(BAD))] if draw.random() < 0.5 else draw.uniform(0, 3)),
        lambda: found.seen(int(draw.integers(-2, 3))),
        lambda: found.to_pandas().to_numpy(),
        lambda: found.save(BAD[draw.integers(len(BAD))]),
        lambda: np.asarray(found),
        lambda: af.measure.summary(found),
    ]
    return options[draw.integers(len(options))]()


def attended(draw: Draw) -> Any:
    law = made(LAWS)(draw)
    return call([law.weights, law.attend][draw.integers(2)], draw)


def together(draw: Draw) -> Any:
    given = fitting(af.ensemble, draw)
    if draw.random() < 0.9:
        b = int(draw.integers(1, 5))
        given["tokens"] = np.stack([af.tokens.sphere(n=draw.n, d=draw.d, seed=k) for k in range(b)])
    return af.ensemble(**given)


def constructed(draw: Draw) -> Any:
    kinds = [*LAWS, *MOTIONS, *WATCHERS, af.Schedule, af.FeedForward, af.watch.Geometric]
    return call(kinds[draw.integers(len(kinds))], draw, 0.4)


def checked(draw: Draw) -> Any:
    claims = ["fw/own-cell", "hardmax/limits", "emergence/negative-identity", "localmax/vanishing", "fw/cluster-rate"]
    name = claims[draw.integers(len(claims))]
    given = {"tokens": cloud(draw)}
    if "steps" in af.claims.get(name).setting.parameters and draw.random() < 0.5:
        given["steps"] = int(draw.integers(1, 20))
    if draw.random() < 0.4:
        given[["tokens", "B", "steps", "delta", "alpha", "until"][draw.integers(6)]] = BAD[draw.integers(len(BAD))]
    return af.check(name if draw.random() < 0.9 else BAD[draw.integers(len(BAD))], **given)


def from_a_list(functions: list[Any]) -> Callable[[Draw], Any]:
    return lambda draw: call(functions[draw.integers(len(functions))], draw)


def drawn(draw: Draw) -> Any:
    figures = [af.figures.plot, af.figures.compare, af.figures.save, af.figures.phases, af.figures.staircase]
    return call(figures[draw.integers(len(figures))], draw, 0.5) and None


Kind = Callable[[Draw], Any]
KINDS: list[tuple[float, Kind]] = [
    (0.3, simulated), (0.14, attended), (0.08, together), (0.1, constructed), (0.05, from_a_list(CLOUDS)),
    (0.12, from_a_list(GEOMETRY)), (0.16, from_a_list(MEASURES)), (0.04, checked), (0.01, drawn),
]  # fmt: skip


def numbers(value: Any, depth: int = 0) -> Iterator[np.ndarray[Any, Any]]:
    """Yield all numbers that a result holds."""
    if isinstance(value, float | complex | np.floating):
        yield np.asarray(value)
    elif isinstance(value, np.ndarray):
        if value.dtype.kind in "fc":
            yield value
    elif isinstance(value, af.Trajectory):
        yield from numbers([value.times, value.tokens, value.report], depth)
    elif depth < 4 and is_dataclass(value) and not isinstance(value, type):
        yield from numbers([getattr(value, f.name) for f in fields(value)], depth + 1)
    elif depth < 4 and isinstance(value, Mapping):
        yield from numbers(list(value.values()), depth + 1)
    elif depth < 4 and isinstance(value, list | tuple):
        for part in value:
            yield from numbers(part, depth + 1)


def once(draw: Draw, kind: Kind) -> str | None:
    """Make a call; return what was wrong with it, nothing if it was refused in a sentence, and None for a result."""
    try:
        found = kind(draw)
    except af.InputError as error:
        sentence = str(error)
        return f"{len(sentence)} characters are no sentence: {sentence}" if "\n" in sentence else ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if any(np.isnan(array).any() for array in numbers(found)):
        return f"NaN in {found!r}"[:300]
    return None


def of_any_kind(draw: Draw) -> Any:
    chances = np.array([chance for chance, _ in KINDS])
    return KINDS[int(draw.choice(len(KINDS), p=chances / chances.sum()))][1](draw)


@pytest.mark.parametrize("first", range(0, CALLS, TOGETHER))
def test_random_calls(first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = [f"call {k}: {told}" for k in range(first, first + TOGETHER) if (told := once(Draw(17, k), of_any_kind))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", [run_alone, attended, together, checked])
def test_a_fair_share_of_random_calls_has_a_result(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that are nearly all refused would test nothing but the refusals."""
    monkeypatch.chdir(tmp_path)
    told = [once(Draw(23, k), kind) for k in range(24)]
    assert not any(told), told
    assert told.count(None) >= 8
    assert told.count("") >= 2  # and some are refused
