"""Bad input that no other test gives: each is refused in one sentence, in every room of the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.claims import Paper, Setting
from attnflow.core.dask_arrays import chunked_cloud
from attnflow.core.schedules import Schedule
from attnflow.densities.diagram import diagram
from attnflow.explorer.run_stream import threshold
from attnflow.explorer.state_of_run import state_of
from attnflow.laws import ByLayer
from attnflow.motions.blocks import Norm, Perceptron
from attnflow.runs.trajectory import Trajectory

X = np.array([[1.0, 0.0], [-1.0, 0.5], [0.3, -0.2]])
RUN = af.simulate(X, af.Softmax(), af.Layers(gamma=0.5), until=2)
Q = np.ones((2, 2, 2))


def lost() -> Trajectory:
    """A run that was loaded without its law and its motion."""
    kept: dict[str, Any] = {"masses": None, "stopped": RUN.stopped, "about": dict(RUN.about), "report": {}}
    return Trajectory(RUN.times, RUN.tokens, law=None, motion=None, **kept)


def in_dask(values: Any) -> Any:
    return pytest.importorskip("dask.array").from_array(np.asarray(values))


def run_in_dask() -> Trajectory:
    return af.simulate(in_dask(X).rechunk((2, 2)), af.Softmax(), af.Layers(gamma=0.5), until=1)


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    # Initial clouds.
    "too many tokens": (lambda: af.tokens.gaussian(n=10**18, d=10, seed=0), "which no memory holds: ask for fewer"),
    "no memory": (lambda: af.tokens.gaussian(n=10**17, d=10, seed=0), "not enough memory for gaussian: ask for fewer"),
    "a grid of many axes": (lambda: af.tokens.grid(2, 1000), "but a grid has at most"),
    # Parameters.
    "a formula": (lambda: Schedule(3), "the formula is 3, expected text such as '2 / (t + 2)'"),  # type: ignore[arg-type]
    "complex chunks": (lambda: chunked_cloud(in_dask([[1j]])), "are a Dask array of complex128, expected real numbers"),
    "no chunks": (lambda: chunked_cloud(in_dask(np.ones((0, 2)))), "are empty, with shape (0, 2)"),
    # Laws.
    "no layers": (lambda: ByLayer([]), "ByLayer needs a law for each layer, such as"),
    "heads of heads": (lambda: af.Heads([af.Heads([af.Softmax()])]), "a head is itself made of heads"),
    "no heads": (lambda: af.Heads(3), "heads need at least one law"),  # type: ignore[arg-type]
    "many angles": (lambda: af.Attention(Q, Q, Q, Q, rope=[1.0, 2.0]), "expected at most 1 angles, one a pair"),
    "complex heads": (lambda: af.Attention(Q, Q, Q, Q * 1j), "O holds complex128, expected real numbers"),
    "single in Dask": (
        lambda: af.Softmax().attend(in_dask(X), precision="single"),
        "only NumPy arrays have that choice",
    ),
    # Motions.
    "one row up": (lambda: Perceptron([1.0], [[1.0]]), r"up has shape \(1,\), expected \(m, d\)"),  # type: ignore[arg-type]
    "wide tokens": (lambda: Perceptron(np.ones((2, 3)), np.ones((3, 2)))(X), "but the feed-forward layer takes 3"),
    "gain": (lambda: Norm("rms", gain=np.ones(3))(X), "gain of the norm has 3 numbers, but tokens have dimension 2"),
    "a layer": (lambda: af.Block(af.Softmax(), feed_forward=3), "feed_forward is 3, expected a Perceptron"),  # type: ignore[arg-type]
    "final": (lambda: af.Transformer([af.Block(af.Softmax())], final=3), "final is 3, expected a Norm or None"),  # type: ignore[arg-type]
    "an engine": (
        lambda: af.simulate(X, af.Hardmax(), af.HardmaxFlow(), until=1.0, engine="fused"),
        "HardmaxFlow compares scores itself, without",
    ),
    # Runs.
    "a predicate": (lambda: af.watch.When(3), "predicate is 3, expected a function of t and x"),  # type: ignore[arg-type]
    "half a state": (lambda: RUN.seen(0.5), "k is 0.5, expected the whole number of a recorded state"),  # type: ignore[arg-type]
    # Sweeps.
    "no count": (lambda: af.sweep(max, over={"beta": {"from": 1, "to": 2}}), "does not say how many values it has"),
    "no end": (lambda: af.sweep(max, over={"beta": {"from": 1, "count": 2}}), "the axis 'beta' is {'from': 1"),
    "one place": (lambda: af.sweep(max, over={"beta": {"from": 1, "to": 1, "count": 2}}), "move the ends apart"),
    "a design": (lambda: af.sweep(max, over={"p": {"design": "random", "count": 2}}), "varies nothing: add parameters"),
    "no cell": (lambda: af.sweep(3, over={"beta": [1.0]}), "the cell is 3, expected a function"),  # type: ignore[arg-type]
    # Densities.
    "values": (lambda: af.densities.Density.of(lambda angles: np.ones(3)), r"returned an array of shape \(3,\)"),
    "betas": (lambda: diagram([2.0, 1.0], [1.0]), "betas and ratios are not positive and increasing"),
    "record": (
        lambda: af.densities.MeanField(1.0).solve(af.densities.Density.of(np.ones_like), 1.0, record=[1.0, 0.5]),
        "record holds times that do not increase from 0 on",
    ),
    "normalized": (lambda: af.densities.MeanField(1.0, normalized=3), "normalized is 3, expected True"),  # type: ignore[arg-type]
    "even waves": (
        lambda: af.densities.MeanField(9.0, d=3).branch(2),
        "on spheres branches of odd degrees are followed",
    ),
    "waves that decay": (lambda: af.densities.MeanField(-1.0).branch(2), "waves of degree 2 decay on the uniform"),
    # Claims.
    "claims": (
        lambda: Paper("own", "Own", "Own", "0").claim("a", "b", "proved", Setting({}, None, None), "c", given=[3]),  # type: ignore[arg-type]
        "given is [3], expected a dictionary from names to functions",
    ),
    "yes or no": (lambda: af.check("sphere/collapse/gap", tokens=X, normalized=3), "normalized is 3, expected True"),
    "many draws": (
        lambda: af.check("causal/strong-centres", n=10**5, draws=10),
        "are too many pairs: give fewer draws",
    ),
    "many pairs": (lambda: af.check("random/antipodal", runs=10**7), "pairs in .* layers are too many: give at most"),
    "a direction": (
        lambda: af.check("sphere/hemisphere", tokens=X, w=[1.0]),
        "w has 1 coordinates, expected a direction",
    ),
    "centres": (
        lambda: af.check("sphere/metastability", tokens=X, centres=[[1.0, 0.0, 0.0]]),
        "centres have dimension 3, the tokens 2: give them in the same",
    ),
    "a long run": (
        lambda: af.check("causal/two-points", tokens=X, V=np.diag([2.0, 1.0]), until=1e4),
        "long before 200: give less",
    ),
    # Figures.
    "a forgotten law": (lambda: af.figures.attention_map(lost()), "the law of this run was not stored"),
    # The explorer.
    "a run in Dask": (lambda: state_of(run_in_dask()), "the run is in Dask, and the page shows at most"),
    "a lost law": (lambda: state_of(lost()), "the run was loaded without its functions of time"),
    "threshold": (lambda: threshold({"threshold": True}), "threshold is True, expected a number between 0 and 1"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_in_one_sentence(case: str) -> None:
    call, sentence = CASES[case]
    with refused(sentence):
        call()
