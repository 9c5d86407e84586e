"""Arrays of torch and JAX: the numbers of NumPy, the type, precision and device of the user, and derivatives."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.catalogue import entries
from attnflow.core import arrays, inputs, query_key
from attnflow.core.inputs import Array
from attnflow.runs.recording import Geometric, Record

RNG = np.random.default_rng(5)
X = RNG.normal(size=(9, 3))
B = RNG.normal(size=(3, 3))
W = RNG.uniform(0.5, 2.0, size=9)
PROBE = RNG.normal(size=(9, 3))
SPHERE = X / np.linalg.norm(X, axis=1, keepdims=True)
SOFT, LAYERS = af.Softmax(), af.Layers(gamma=0.5)
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
# Single precision in all its forms is looked at where there is time for it.
MORE = "ATTNFLOW_EXAMPLES" in os.environ


@dataclass(frozen=True)
class Library:
    """What the tests need of a library: its arrays, and the derivative of a function of several of them."""

    name: str
    array: Callable[..., Any]
    gradients: Callable[..., list[Array]]


def _jax() -> Library:
    import jax
    import jax.numpy as jnp

    def gradients(f: Callable[..., Any], *at: Any) -> list[Array]:
        found = jax.grad(f, argnums=tuple(range(len(at))))(*(jnp.asarray(value) for value in at))
        return [np.asarray(value) for value in found]

    return Library("jax", lambda value, kind="float64": jnp.asarray(value, dtype=kind), gradients)


def _torch() -> Library:
    torch = pytest.importorskip("torch")

    def array(value: Any, kind: str = "float64") -> Any:
        return torch.tensor(value, dtype=getattr(torch, kind))

    def gradients(f: Callable[..., Any], *at: Any) -> list[Array]:
        leaves = [array(value).requires_grad_() for value in at]
        return [np.asarray(value) for value in torch.autograd.grad(f(*leaves), leaves)]

    return Library("torch", array, gradients)


@pytest.fixture(params=[_jax, _torch], ids=["jax", "torch"])
def lib(request: pytest.FixtureRequest) -> Iterator[Library]:
    import jax

    with jax.enable_x64(True):
        yield request.param()


@pytest.fixture
def jax() -> Iterator[Any]:
    import jax

    with jax.enable_x64(True):
        yield jax


def differences(f: Callable[..., float], *at: Any, h: float = 1e-6) -> list[Array]:
    """Central differences of a function of NumPy arrays, in each entry of each argument."""
    found = []
    for k, value in enumerate(at):
        slope = np.empty(np.shape(value))
        for index in np.ndindex(slope.shape):
            both = []
            for side in (h, -h):
                moved = np.array(value, dtype=float)
                moved[index] += side
                both.append(f(*at[:k], moved if slope.shape else float(moved), *at[k + 1 :]))
            slope[index] = (both[0] - both[1]) / (2 * h)
        found.append(slope)
    return found


LAWS = {
    "softmax": af.Softmax(beta=2.0),
    "negative beta": af.Softmax(beta=-1.5, B=B),
    "beta in time": af.Softmax(beta=lambda t: 3.0 - t, B=lambda t: t * B),
    "largest beta": af.Softmax(beta=1e300),
    "hardmax": af.Hardmax(B=B),
    "first": af.Hardmax(ties="first"),
    "additive": af.Localmax(delta=0.5),
    "relative": af.Localmax(delta=0.2, B=B, threshold="relative"),
    "normalized": af.Localmax(delta=0.2, B=B, threshold="normalized"),
    "confidence": af.HegselmannKrause(eps=1.5),
    "heads": af.Heads([af.Softmax(), af.Hardmax(B=B), af.Softmax(beta=-2.0)], V=[B, None, lambda t: B.T]),
}


SINGLE = ("softmax", "largest beta", "normalized", "confidence") if MORE else ("softmax", "largest beta")


@pytest.mark.parametrize(
    ("name", "kind", "masses"), [*((k, "float64", W) for k in LAWS), *((k, "float32", None) for k in SINGLE)]
)
def test_every_law_hears_what_it_hears_in_numpy(lib: Library, name: str, kind: str, masses: Array | None) -> None:
    law, x = LAWS[name], lib.array(X, kind)
    for wanted, found in (
        (law.attend(X, 1, masses), law.attend(x, 1, masses)),
        (law.weights(X, 1, masses), law.weights(x, 1, None if masses is None else lib.array(masses))),
    ):
        assert type(found) is type(x)
        assert found.dtype == x.dtype
        assert found.device == x.device
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=0, atol=TOLERANCE[kind])


def test_first_of_tied_tokens(lib: Library) -> None:
    x = np.array([[1.0, 0.5, 0.0], [1.0, -0.5, 0.0], *[[0.5, 0.0, 0.0]] * 7])
    found = af.Hardmax(ties="first").attend(lib.array(x))
    np.testing.assert_array_equal(np.asarray(found)[2], x[0])
    np.testing.assert_array_equal(np.asarray(af.Hardmax().attend(lib.array(x)))[2], [1.0, 0.0, 0.0])


def test_many_tokens_go_in_blocks_of_rows(lib: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    widest: list[int] = []
    softmax = af.Softmax.log_weights

    def spied(self: af.Softmax, x: Any, *arguments: Any, **keywords: Any) -> Any:
        widest.append(len(x))
        return softmax(self, x, *arguments, **keywords)

    monkeypatch.setattr(af.Softmax, "log_weights", spied)
    monkeypatch.setattr("attnflow.laws.law.ARRAY_BYTES", 8 * 3 * len(X))
    found = af.Softmax(beta=2.0, B=B).attend(lib.array(X))
    assert widest == [3, 3, 3]
    np.testing.assert_allclose(np.asarray(found), af.Softmax(beta=2.0, B=B).attend(X), atol=1e-12)


@pytest.mark.parametrize("beta", [1.7, 0.0, -1.2])
def test_derivative_in_beta_is_a_covariance(lib: Library, beta: float) -> None:
    P = af.Softmax(beta=beta, B=B).weights(X, masses=W)
    scores = X @ B.T @ X.T
    covariance = P * (scores - (P * scores).sum(axis=1, keepdims=True)) @ X
    probe = lib.array(PROBE)

    def heard(beta: Any) -> Any:
        return (probe * af.Softmax(beta=beta, B=B).attend(lib.array(X), masses=W)).sum()

    (slope,) = lib.gradients(heard, beta)
    np.testing.assert_allclose(slope, (PROBE * covariance).sum(), atol=1e-12)


def test_derivatives_in_tokens_form_and_masses(lib: Library) -> None:
    def heard(x: Any, form: Any, masses: Any) -> Any:
        probe = lib.array(PROBE) if arrays.foreign(x) else PROBE
        return (probe * af.Softmax(beta=-1.3, B=form).attend(x, masses=masses)).sum()

    for found, wanted in zip(lib.gradients(heard, X, B, W), differences(heard, X, B, W), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-7)


@pytest.mark.parametrize("name", ["hardmax", "first", "normalized", "confidence", "heads"])
def test_derivatives_of_laws_that_jump(lib: Library, name: str) -> None:
    def heard(x: Any, masses: Any) -> Any:
        probe = lib.array(PROBE) if arrays.foreign(x) else PROBE
        return (probe * LAWS[name].attend(x, 1, masses)).sum()

    for found, wanted in zip(lib.gradients(heard, X, W), differences(heard, X, W), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-7)


@pytest.mark.parametrize("beta", [1e3, -1e4])
def test_derivatives_stay_finite_where_attention_is_sharp(lib: Library, beta: float) -> None:
    def heard(beta: Any, x: Any) -> Any:
        return af.Softmax(beta=beta).attend(x).sum()

    slope, matrix = lib.gradients(heard, beta, X)
    assert abs(slope) < 1e-12
    heard_by = af.Softmax(beta=beta).weights(X).sum(axis=0)
    np.testing.assert_allclose(matrix, np.repeat(heard_by[:, None], 3, axis=1), atol=1e-12)


MOTIONS = {
    "gamma": (af.Layers(gamma=0.3), X),
    "all the way": (af.Layers(gamma=1.0), X),
    "alpha in time": (af.Layers(alpha=lambda t: 1 / (t + 1)), X),
    "matrix": (af.Layers(V=B + 3 * np.eye(3)), X),
    "residual": (af.Residual(V=B / 5, dt=0.1), X),
    "relu": (af.Residual(dt=0.1, feed_forward=af.FeedForward(W=B / 5)), X),
    "tanh": (af.Residual(V=B, dt=0.1, feed_forward=af.FeedForward(activation="tanh")), X),
    "sphere": (af.SphereLayers(V=B, dt=lambda t: 0.2 / (t + 1)), SPHERE),
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((k, "float64") for k in MOTIONS),
        *((k, "float32") for k in (("gamma", "matrix", "sphere") if MORE else ("matrix",))),
    ],
)
def test_every_motion_moves_as_in_numpy(lib: Library, name: str, kind: str) -> None:
    motion, start = MOTIONS[name]
    wanted = af.simulate(start, LAWS["negative beta"], motion, until=6, masses=W)
    x = lib.array(start, kind)
    run = af.simulate(x, LAWS["negative beta"], motion, until=6, masses=W, seed=3)
    assert type(run.tokens) is type(run.final) is type(x)
    assert run.tokens.dtype == run.final.dtype == x.dtype
    assert run.tokens.device == x.device
    assert (run.stopped, run.seed, run.report) == (wanted.stopped, 3, {"engine": "dense", "arrays": lib.name})
    np.testing.assert_array_equal(run.times, wanted.times)
    np.testing.assert_allclose(np.asarray(run.tokens), wanted.tokens, rtol=0, atol=10 * TOLERANCE[kind])


@pytest.mark.parametrize("record", [None, 1, 4, [0, 3, 7], Geometric(per_decade=3)])
def test_records_are_those_of_numpy(lib: Library, record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnflow.runs.recording.RECORD_BYTES", 5 * X.nbytes)
    wanted = af.simulate(X, af.Softmax(), af.Layers(gamma=0.1), until=29, record=record)
    run = af.simulate(lib.array(X), af.Softmax(), af.Layers(gamma=0.1), until=29, record=record)
    assert run.times.tolist() == wanted.times.tolist()
    np.testing.assert_allclose(np.asarray(run.tokens), wanted.tokens, atol=1e-12)


def test_derivatives_through_ten_layers(lib: Library) -> None:
    def end(x: Any, beta: Any, gamma: Any, masses: Any) -> Any:
        probe = lib.array(PROBE) if arrays.foreign(x) else PROBE
        run = af.simulate(x, af.Softmax(beta=beta, B=B), af.Layers(gamma=gamma), until=10, masses=masses)
        return (probe * run.final).sum()

    at = (X, -0.8, 0.2, W)
    for found, wanted in zip(lib.gradients(end, *at), differences(end, *at), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-7)


@pytest.mark.parametrize(
    "motion",
    [
        lambda V, c: af.Residual(V=V, dt=c, feed_forward=af.FeedForward(W=V, activation="tanh")),
        lambda V, c: af.SphereLayers(V=lambda t: V / (1 + t), dt=lambda t: c),
        lambda V, c: af.Layers(V=c * V),
    ],
    ids=["residual", "sphere", "matrix"],
)
def test_derivatives_in_the_parameters_of_motions(lib: Library, motion: Callable[..., af.Motion]) -> None:
    def middle(V: Any, c: Any) -> Any:
        known = lib.array if arrays.foreign(V) else np.asarray
        run = af.simulate(known(SPHERE), af.Heads([af.Softmax()], V=[V]), motion(V, c), until=3)
        return (known(PROBE) * run.tokens[2]).sum()

    at = (B + 3 * np.eye(3), 0.1)
    for found, wanted in zip(lib.gradients(middle, *at), differences(middle, *at), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_compiled_by_jax(jax: Any) -> None:
    def end(x: Any, beta: Any, form: Any, gamma: Any, masses: Any) -> Any:
        law = af.Softmax(beta=beta, B=form)
        return law.attend(x, masses=masses), af.simulate(x, law, af.Layers(gamma=gamma), 4, masses=masses).tokens

    law = af.Softmax(beta=-1.1, B=B)
    heard, states = jax.jit(end)(X, -1.1, B, 0.3, W)
    np.testing.assert_allclose(np.asarray(heard), law.attend(X, masses=W), atol=1e-12)
    np.testing.assert_allclose(states, af.simulate(X, law, af.Layers(gamma=0.3), 4, masses=W).tokens, atol=1e-12)
    for name in ("first", "normalized", "heads"):
        np.testing.assert_allclose(jax.jit(LAWS[name].attend)(X), LAWS[name].attend(X), atol=1e-12, err_msg=name)


def test_every_token_hears_its_top_score_when_compiled() -> None:
    """XLA computes scores once for their maximum and once to compare with it, and may round them differently."""
    import jax

    x, masses = RNG.normal(size=(32, 4)), RNG.uniform(0.5, 2.0, size=32)
    for law in (af.Hardmax(), af.Localmax(delta=0.1, threshold="relative")):
        found = jax.jit(law.weights)(np.float32(x), masses=np.float32(masses))
        np.testing.assert_allclose(found, law.weights(x, masses=masses), atol=1e-6)


def test_values_that_are_not_known_are_not_checked(jax: Any) -> None:
    broken = X.copy()
    broken[2, 1] = np.nan
    assert np.isnan(jax.jit(lambda x, beta: af.Softmax(beta=beta).attend(x))(broken, np.inf)).any()
    jax.jit(lambda x: af.simulate(x, af.Softmax(), af.SphereLayers(), 2).final)(X)
    with refused("not finite"):
        jax.grad(lambda x: af.Softmax().attend(x).sum())(broken)


def test_many_clouds_at_once(jax: Any) -> None:
    clouds = RNG.normal(size=(4, 5, 2))
    wanted = np.stack([LAWS["softmax"].attend(x) for x in clouds])
    np.testing.assert_allclose(jax.vmap(LAWS["softmax"].attend)(clouds), wanted, atol=1e-12)
    torch = pytest.importorskip("torch")
    found = torch.func.vmap(LAWS["softmax"].attend)(torch.tensor(clouds))
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-12)


def test_nothing_leaves_the_device() -> None:
    """The arrays of torch's device "meta" have a shape and no values: whoever looked at them would fail."""
    torch = pytest.importorskip("torch")
    x = torch.empty((9, 3), device="meta", dtype=torch.float32)
    found = [found for law in LAWS.values() for found in (law.attend(x, 1, W), law.weights(x, 1, W))]
    found += [af.simulate(x, SOFT, motion, 3, masses=W).tokens for motion, _ in MOTIONS.values()]
    assert {(str(y.device), y.dtype) for y in found} == {("meta", torch.float32)}


def test_precision_of_the_tokens_decides(lib: Library) -> None:
    law = af.Softmax(beta=lib.array(2.0), B=lib.array(B))
    run = af.simulate(lib.array(X, "float32"), law, af.Layers(gamma=lib.array(0.5)), 2, masses=lib.array(W))
    assert run.tokens.dtype == lib.array(X, "float32").dtype


def test_numpy_tokens_take_parameters_of_any_library(lib: Library, tmp_path: Path) -> None:
    beta, form = lib.array(2.0), lib.array(B)
    if lib.name == "torch":
        beta.requires_grad_()
        form.requires_grad_()
    for law in (af.Softmax(beta=beta, B=form), af.Softmax(beta=lambda t: beta, B=lambda t: form)):
        found = law.attend(X, masses=lib.array(W))
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, af.Softmax(beta=2.0, B=B).attend(X, masses=W))
    run = af.simulate(X, af.Softmax(beta=beta, B=form), af.Layers(gamma=lib.array(0.5)), 2, store=tmp_path / "run.zarr")
    assert type(run.tokens) is np.ndarray
    kept = af.load(tmp_path / "run.zarr").law
    assert isinstance(kept, af.Softmax)
    assert kept.beta == 2.0


def test_a_run_as_numpy(lib: Library, tmp_path: Path) -> None:
    x, beta = lib.array(X), lib.array(2.0)
    if lib.name == "torch":
        x.requires_grad_()
    run = af.simulate(x, af.Softmax(beta=beta), af.Layers(gamma=0.5), until=4, masses=W, record=2)
    plain, wanted = run.to_numpy(), af.simulate(X, af.Softmax(beta=2.0), af.Layers(gamma=0.5), until=4, masses=W)
    assert type(plain.tokens) is type(plain.masses) is np.ndarray
    assert type(plain.law.beta) is float  # type: ignore[union-attr]
    np.testing.assert_allclose(plain.at(3), wanted.at(3), atol=1e-12)
    np.testing.assert_allclose(af.measure.diameter(run), af.measure.diameter(wanted)[::2], atol=1e-12)
    run.save(tmp_path / "run.zarr")
    np.testing.assert_array_equal(af.load(tmp_path / "run.zarr").tokens, plain.tokens)
    assert run.to_xarray().sizes == {"time": 3, "token": 9, "coordinate": 3}
    assert run.plot() is not None
    assert "3 states of 9 tokens in dimension 3; reached step 4" in repr(run)
    with refused(rf"arrays of {lib.name}: take that of run.to_numpy"):
        run.at(3)


def test_tokens_that_leave_the_range_of_their_precision(lib: Library) -> None:
    run = af.simulate(lib.array(X, "float32"), af.Softmax(), af.Residual(dt=9.0), until=99, record=50)
    assert run.stopped.startswith("tokens left the range of float32 at step ")
    assert np.isfinite(np.asarray(run.tokens)).all()
    last = int(run.stopped.split("at step ")[1].split(";")[0]) - 1
    assert run.times.tolist() == [0, last]


class Causal(af.Law):
    """Softmax over the tokens up to the one that asks, for the arrays of any library."""

    array_api = True

    def log_weights(self, x, t=0, *, sources=None, masses=None, rows=None, columns=None):  # type: ignore[no-untyped-def]
        xp = arrays.namespace(x)
        s = xp.where(columns[None, :] <= rows[:, None], x @ sources.T, -np.inf)
        return s - xp.log(xp.exp(s).sum(axis=-1, keepdims=True))


def test_indices_are_arrays_of_the_library_of_the_tokens(lib: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnflow.laws.law.ARRAY_BYTES", 8 * 9 * 4)  # blocks of four rows
    expected = [sum(np.exp(X[i] @ y) * y for y in X[: i + 1]) / np.exp(X[: i + 1] @ X[i]).sum() for i in range(9)]
    found = Causal().attend(lib.array(X))
    np.testing.assert_allclose(np.asarray(found), expected, atol=1e-12)
    run = af.simulate(lib.array(X), Causal(), LAYERS, until=1)
    np.testing.assert_allclose(np.asarray(run.final), (X + expected) / 2, atol=1e-12)


class HiddenOrder(af.Law):
    array_api = True

    def log_weights(self, x, t=0, *, sources=None, masses=None):  # type: ignore[no-untyped-def]
        y = x if sources is None else sources
        xp = arrays.namespace(x)
        s = xp.tril(xp.ones((len(x), len(y)))) * (x @ y.T)
        return s - xp.log(xp.exp(s).sum(axis=-1, keepdims=True))


def test_an_order_that_is_not_told_is_refused(lib: Library) -> None:
    with refused("HiddenOrder depend on the order of the tokens"):
        af.simulate(lib.array(X), HiddenOrder(), LAYERS, until=1)


class OwnLaw(af.Law):
    def log_weights(self, x: Any, t: float = 0, *, sources: Any = None, masses: Any = None) -> Any:
        return np.log(np.full((len(x), len(x)), 1 / len(x)))


REFUSED: dict[str, tuple[Callable[[Library, Any], Any], str]] = {
    "flow": (lambda lib, x: af.simulate(x, SOFT, af.Flow(), 1.0), "Flow takes NumPy arrays alone"),
    "chain": (lambda lib, x: af.simulate(x, SOFT, af.Jumps(gamma=0.1), 5, seed=0), "Jumps takes NumPy arrays alone"),
    "leaps": (lambda lib, x: af.simulate(x, SOFT, af.Leaps(gamma=0.1), 5), "convert them with numpy.asarray"),
    "frame": (lambda lib, x: af.simulate(x, SOFT, af.RescaledLayers(), 5), "RescaledLayers takes NumPy arrays alone"),
    "hardmax flow": (lambda lib, x: af.simulate(x, af.Hardmax(), af.HardmaxFlow(), 1.0), "HardmaxFlow takes NumPy"),
    "own law": (lambda lib, x: OwnLaw().attend(x), "OwnLaw takes NumPy arrays alone"),
    "own law in a run": (lambda lib, x: af.simulate(x, OwnLaw(), LAYERS, 2), "OwnLaw takes NumPy arrays alone"),
    "own law in a head": (lambda lib, x: af.Heads([SOFT, OwnLaw()]).weights(x), "Heads takes NumPy arrays alone"),
    "points": (
        lambda lib, x: af.Hardmax(ties="points").attend(x),
        "Hardmax with ties='points' takes NumPy arrays alone",
    ),
    "refused ties": (
        lambda lib, x: af.Hardmax(ties="error").attend(x),
        "Hardmax with ties='error' takes NumPy arrays alone",
    ),
    "store": (
        lambda lib, x: af.simulate(x, SOFT, LAYERS, 2, store="run.zarr"),
        "no watchers, store, engine or precision",
    ),
    "watcher": (
        lambda lib, x: af.simulate(x, SOFT, LAYERS, 2, watch=[af.watch.Converged(1e-9)]),
        "no watchers, store, engine or precision",
    ),
    "engine": (lambda lib, x: af.simulate(x, SOFT, LAYERS, 2, engine="fused"), "leave these out, or convert"),
    "whole numbers": (lambda lib, x: SOFT.attend(lib.array([[1, 2]], "int32")), "tokens are int32, expected floating"),
    "one axis": (lambda lib, x: SOFT.attend(x[0]), r"have shape \(3,\), expected \(n, d\)"),
    "no tokens": (lambda lib, x: SOFT.attend(x[:0]), r"are empty, with shape \(0, 3\)"),
    "nan": (lambda lib, x: SOFT.attend(x / 0), "not finite"),
    "overflow": (lambda lib, x: SOFT.attend(lib.array(1e30 * X, "float32")), "leave the range of float32"),
    "wrong B": (lambda lib, x: af.Softmax(B=lib.array(B[:2])), r"B has shape \(2, 3\), expected a square"),
    "small B": (lambda lib, x: af.Softmax(B=lib.array(B[:2, :2])).attend(x), "give a 3 by 3 matrix"),
    "nan in B": (lambda lib, x: af.Softmax(B=lib.array(B / 0)), "B holds a value that is not finite"),
    "nan beta": (lambda lib, x: af.Softmax(beta=lib.array(np.nan)), "beta is nan"),
    "matrix beta": (lambda lib, x: af.Softmax(beta=lib.array([[1.0, 2.0]])), r"beta is an array of shape \(1, 2\)"),
    "beta of two layers": (
        lambda lib, x: af.simulate(x, af.Softmax(beta=lib.array([1.0, 2.0])), LAYERS, 3),
        "beta has 2 entries, one for each layer, but the run has 3 layers",
    ),
    "gamma": (lambda lib, x: af.Layers(gamma=lib.array(1.5)), "gamma is 1.5, expected a finite number above 0"),
    "gamma in time": (
        lambda lib, x: af.simulate(x, SOFT, af.Layers(gamma=lambda t: lib.array(0.0)), 2),
        r"gamma\(0\) is 0",
    ),
    "singular": (lambda lib, x: af.Layers(V=lib.array(-np.eye(2))), r"I \+ V is singular"),
    "masses": (lambda lib, x: SOFT.attend(x, masses=lib.array(W[:4])), "masses are not 9 positive finite numbers"),
    "no mass": (lambda lib, x: SOFT.attend(x, masses=lib.array(0 * W)), "masses are not 9 positive finite numbers"),
    "no mass in numpy": (lambda lib, x: SOFT.attend(x, masses=0 * W), "mass 0 is 0.0"),
    "off the sphere": (lambda lib, x: af.simulate(2 * x, SOFT, af.SphereLayers(), 2), "expected 1"),
    "antipodes": (
        lambda lib, x: af.simulate(lib.array(SPHERE), af.Localmax(), af.SphereLayers(V=-np.eye(3)), 1),
        "met its antipode at step 0",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_one_sentence(lib: Library, name: str) -> None:
    given, sentence = REFUSED[name]
    with np.errstate(all="ignore"), refused(sentence):
        given(lib, lib.array(X))


def test_two_libraries_do_not_mix(jax: Any) -> None:
    torch = pytest.importorskip("torch")
    with refused("B is of jax, the tokens are of torch: give both in one library"):
        af.Softmax(B=jax.numpy.asarray(B)).attend(torch.tensor(X))


def test_traced_parameters_want_traced_tokens(jax: Any) -> None:
    with refused("beta is traced by jax, expected a number that is known, or tokens"):
        jax.grad(lambda beta: af.Softmax(beta=beta).attend(X).sum())(1.0)
    with refused("a parameter is traced by jax, expected a number that is known, or tokens"):
        jax.grad(lambda b: af.simulate(X, af.Softmax(beta=b), af.Layers(gamma=0.1), until=3).final.sum())(1.0)
    with refused("delta is traced by jax"):
        jax.jit(lambda delta, x: af.Localmax(delta=delta).attend(x))(0.1, X)


def test_numpy_users_import_no_other_library() -> None:
    code = (
        "import sys, attnflow as af; "
        "af.Softmax().attend([[1.0], [2.0]]); af.Hardmax().weights([[1.0], [2.0]]); "
        "af.simulate([[1.0], [2.0]], af.Softmax(), af.Layers(gamma=0.5), 3).to_numpy(); "
        "print([name for name in ('torch', 'jax', 'cupy', 'array_api_compat') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_page_lists_the_laws_and_motions_that_take_arrays_of_other_libraries() -> None:
    page = (Path(__file__).parents[2] / "docs/many_tokens.md").read_text()
    laws, motions = re.findall(r"\*\*(?:Laws|Motions)\*\*: ([^.]*)\.", page)
    for kind, listed in (("law", laws), ("motion", motions)):
        # Some laws take them unless their parameters say otherwise: a property says that.
        taking = {found.make.__name__ for found in entries(kind).values() if getattr(found.make, "array_api", False)}
        assert set(re.findall(r"`([A-Z]\w+)`", listed)) == taking


def test_what_is_known_and_what_is_not(jax: Any) -> None:
    class Broken:
        def all(self) -> bool:
            raise TypeError("no truth here")

    with pytest.raises(TypeError, match="no truth here"):
        arrays.holds(Broken())

    def traced(value: Any) -> Any:
        assert arrays.holds(value > 0)
        with refused("gamma is traced by jax, expected a number that is known"):
            inputs.number(value, "gamma")
        return value

    jax.jit(traced)(1.0)


def test_matrices_of_another_library_stay_as_they_are(jax: Any) -> None:
    Q = jax.numpy.eye(2)
    assert query_key._any_rectangle(Q, "Q") is Q
    with refused("Q"):
        query_key._any_rectangle(jax.numpy.full((2, 2), jax.numpy.nan), "Q")


def test_layers_of_another_library_that_lose_a_direction_end_the_run(jax: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from attnflow.motions.stepper import NoDirection

    step = af.Layers.step

    def lost(self: Any, hearing: Any, x: Any, t: Any) -> Any:
        if t == 2:
            raise NoDirection("token 0 has no direction at step 2")
        return step(self, hearing, x, t)

    monkeypatch.setattr(af.Layers, "step", lost)
    run = af.simulate(jax.numpy.array([[1.0], [0.0]]), af.Softmax(), af.Layers(gamma=0.5), until=5)
    assert run.stopped == "token 0 has no direction at step 2"
    assert run.times[-1] == 2
