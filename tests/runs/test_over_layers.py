"""Weights that differ by layer: sequences, matrices Q and K, biases; in every motion, stored, and read from TOML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.core.inputs import Array, InputError
from attnflow.motions.solvers import ensemble_flow
from attnflow.serialise import describe, rebuild

RNG = np.random.default_rng(8)
L, N, D, K_ROWS = 4, 11, 3, 2
X = RNG.standard_normal((N, D))
SPHERE = X / np.linalg.norm(X, axis=1, keepdims=True)
B = RNG.standard_normal((L, D, D))
V = RNG.standard_normal((L, D, D)) / 3
Q, K = RNG.standard_normal((2, L, K_ROWS, D))
b, c = RNG.standard_normal((2, L, D))
BETA, GAMMA = [0.5, 1.0, -2.0, 4.0], [0.1, 0.5, 1.0, 0.25]
MASSES = RNG.uniform(0.5, 2.0, N)


def softmax(x: Array, B: Array, beta: float = 1.0, b: Any = 0.0, masses: Any = 1.0) -> Array:
    """Return the weights in plain NumPy."""
    s = beta * (x @ B.T + b) @ x.T
    w = np.exp(s - s.max(axis=1, keepdims=True)) * masses
    return np.asarray(w / w.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("given", [B, list(B), tuple(map(np.ndarray.tolist, B))], ids=["array", "list", "lists"])
def test_each_layer_has_its_own_weights(given: Any) -> None:
    x, states = X, []
    for t in range(L):
        x = x + GAMMA[t] * (softmax(x, B[t], BETA[t], b[t], MASSES) @ x - x)
        states.append(x)
    law = af.Softmax(beta=BETA, B=given, b=b)
    for engine in ("auto", "dense", "blocked"):
        run = af.simulate(X, law, af.Layers(gamma=GAMMA), until=L, masses=MASSES, engine=engine)
        np.testing.assert_allclose(run.tokens[1:], states, atol=1e-12)
    found = af.ensemble(np.stack([X, -X]), law, af.Layers(gamma=GAMMA), until=L, masses=MASSES)
    np.testing.assert_allclose(found.final[0], states[-1], atol=1e-12)


def test_queries_and_keys_in_place_of_their_form() -> None:
    for law in (af.Softmax, af.Hardmax, af.Localmax):
        for t in range(L):
            expected = law(B=K[t].T @ Q[t]).weights(X)
            for given in (
                {"Q": Q[t], "K": K[t]},
                {"Q": Q, "K": K},
                {"Q": list(Q), "K": lambda t: K[t]},
                {"Q": lambda t: Q[t], "K": K[t]},
            ):
                np.testing.assert_allclose(law(**given).weights(X, t), expected, atol=1e-14)


def test_biases_of_queries_and_keys() -> None:
    """Scores <Q x + b_Q, K y + b_K>: the first is b = K^T b_Q, the second drops out."""
    b_Q, b_K = RNG.standard_normal((2, K_ROWS))
    scores = (X @ Q[0].T + b_Q) @ (X @ K[0].T + b_K).T
    w = np.exp(2.0 * scores)
    bias = K[0].T @ b_Q
    found = af.Softmax(beta=2.0, Q=Q[0], K=K[0], b=bias).weights(X)
    np.testing.assert_allclose(found, w / w.sum(axis=1, keepdims=True), atol=1e-12)
    hard = af.Hardmax(Q=Q[0], K=K[0], b=bias)
    np.testing.assert_array_equal(hard.weights(X).argmax(axis=1), scores.argmax(axis=1))
    np.testing.assert_allclose(hard.attend(X), X[scores.argmax(axis=1)], atol=1e-14)
    near = scores >= scores.max(axis=1, keepdims=True) - 0.7
    local = af.Localmax(delta=0.7, Q=Q[0], K=K[0], b=bias)
    np.testing.assert_allclose(local.attend(X), near / near.sum(axis=1, keepdims=True) @ X, atol=1e-12)
    run = af.simulate(X, local, af.Layers(gamma=1.0), until=1)
    np.testing.assert_allclose(run.final, local.weights(X) @ X, atol=1e-12)
    pulled = af.Softmax(beta=2.0, b=bias).pull(X).mean
    np.testing.assert_allclose(pulled, softmax(X, np.eye(D), 2.0, bias) @ X - X, atol=1e-12)


def test_a_bias_in_a_moving_frame_is_that_of_the_tokens_themselves() -> None:
    """The frame divides growth out of the tokens, not out of b."""
    for law in (af.Softmax(beta=0.3, b=b[0]), af.Softmax(beta=-0.3, B=B[0], b=b[0]), af.Localmax(delta=0.4, b=b[0])):
        grown = af.simulate(X, law, af.Residual(dt=0.1), until=5).final / 1.1**5
        framed = af.simulate(X, law, af.RescaledLayers(dt=0.1), until=5).final
        np.testing.assert_allclose(framed, grown, atol=1e-11)
        found = af.ensemble(X[None], law, af.RescaledLayers(dt=0.1), until=5).final[0]
        np.testing.assert_allclose(found, grown, atol=1e-11)


def test_values_and_their_biases() -> None:
    law = af.Softmax(B=B)
    x, y = X, SPHERE
    for t in range(L):
        x = x + 0.5 * (softmax(x, B[t]) @ x @ V[t].T + c[t])
        y = y + 0.5 * (softmax(y, B[t]) @ y @ V[t].T + c[t])
        y /= np.linalg.norm(y, axis=1, keepdims=True)
    for motion, start, expected in (
        (af.Residual(V=V, dt=0.5, b=c), X, x),
        (af.SphereLayers(V=list(V), dt=[0.5] * L, b=list(c)), SPHERE, y),
    ):
        np.testing.assert_allclose(af.simulate(start, law, motion, until=L).final, expected, atol=1e-12)
        found = af.ensemble(start[None], law, motion, until=L)
        np.testing.assert_allclose(found.final[0], expected, atol=1e-12)
    constant = af.Residual(V=V[0], dt=0.5, b=c[0])
    assert ensemble_flow.paths(X[None], af.Softmax(), constant, None, np.array([0, 1])) is None
    step = af.ensemble(X[None], af.Softmax(), constant, until=1).final[0]
    np.testing.assert_allclose(step, X + 0.5 * (softmax(X, np.eye(D)) @ X @ V[0].T + c[0]), atol=1e-12)


def test_heads_and_feed_forward_layers_over_layers() -> None:
    W = RNG.standard_normal((L, D, D))
    law = af.Heads([af.Softmax(B=B), af.Softmax(Q=Q, K=K)], V=[V, None])
    x = X
    for t in range(L):
        m = softmax(x, B[t]) @ x @ V[t].T + softmax(x, K[t].T @ Q[t]) @ x
        x = x + 0.1 * np.tanh(m) @ W[t].T
    motion = af.Residual(dt=0.1, feed_forward=af.FeedForward(W=W, activation="tanh"))
    np.testing.assert_allclose(af.simulate(X, law, motion, until=L).final, x, atol=1e-12)


def test_chains_take_the_weights_of_each_step() -> None:
    """With a large beta each step is certain: token i goes to the source with the top score of its layer."""
    x = X
    for t in range(L):
        x = x + 0.5 * (x[((x @ B[t].T) @ x.T).argmax(axis=1)] - x)
    run = af.simulate(X, af.Softmax(beta=1e9, B=B), af.Jumps(gamma=0.5), until=L, seed=0)
    np.testing.assert_allclose(run.final, x, atol=1e-14)


def test_after_the_last_layer_a_run_is_measured_with_its_weights() -> None:
    run = af.simulate(X, af.Softmax(B=B), af.Layers(gamma=0.5), until=L)
    last = af.measure.leaders(af.Softmax(B=B[-1]), run.final).index
    np.testing.assert_array_equal(af.measure.leaders(run.law, run)[L].index, last)
    assert af.measure.summary(run).leaders == len(np.unique(last))
    with refused("B has 4 entries, one for each layer, but was asked for at t = 5"):
        af.Softmax(B=B).attend(X, t=5)


# Stores and files


@pytest.mark.parametrize(
    "part",
    [
        af.Softmax(beta=BETA, B=B, b=b),
        af.Softmax(beta=2.0, Q=Q, K=K, b=b[0]),
        af.Hardmax(B=list(B), ties="first"),
        af.Localmax(delta=[0.1, 0.2], B=B[0]),
        af.Layers(gamma=GAMMA),
        af.Layers(V=V),
        af.Residual(V=V, dt=[0.1] * L, b=c),
        af.Heads([af.Softmax(B=B)], V=[V]),
    ],
)
def test_what_is_described_comes_back(part: Any) -> None:
    data = describe(part)
    again = rebuild(data)
    assert type(again) is type(part)
    assert describe(again) == data


def test_stored_runs_go_on_and_are_told_apart(tmp_path: Path, dies: Any) -> None:
    sequence = np.linspace(0.5, 2.0, 6000).tolist()
    law, motion = af.Softmax(beta=sequence, B=B[0]), af.Layers(gamma=0.01)
    whole = af.simulate(X, law, motion, until=6000)
    with pytest.raises(KeyboardInterrupt):
        af.simulate(X, law, motion, 6000, store=tmp_path / "a.zarr", watch=[af.watch.Checkpoint(seconds=0), dies(1)])
    resumed = af.simulate(X, law, motion, until=6000, store=tmp_path / "a.zarr")
    assert resumed.tokens.tobytes() == whole.tokens.tobytes()
    again = af.load(tmp_path / "a.zarr")
    assert again.law is not None
    np.testing.assert_array_equal(again.law.attend(X, t=5999), law.attend(X, t=5999))
    other = af.Softmax(beta=[*sequence[:-1], 3.0], B=B[0])
    with pytest.raises(InputError):
        af.simulate(X, other, motion, until=6000, store=tmp_path / "a.zarr")


def test_very_many_weights_are_told_by_their_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnflow.serialise.MOST_NUMBERS", 10)
    said = describe(af.Softmax(B=B))["B"]["over layers"]
    assert (said["layers"], said["numbers"]) == (L, L * D * D)
    changed = B.copy()
    changed[-1, 0, 0] += 1e-12
    assert describe(af.Softmax(B=changed))["B"]["over layers"] != said
    assert rebuild(describe(af.Softmax(B=B))) is None


def test_weights_over_layers_from_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "B.npy", B[:, :2, :2])
    np.savetxt(tmp_path / "b.csv", b[:, :2], delimiter=",")
    text = """
until = 4
[tokens]
cloud = "polygon"
k = 5
[law]
name = "softmax"
beta = [0.5, 1.0, -2.0, 4.0]
B = "B.npy"
b = "b.csv"
[motion]
name = "residual"
dt = 0.1
b = [1.0, 0.5]
"""
    (tmp_path / "run.toml").write_text(text)
    from attnflow.app.config import read

    found = af.simulate(**read(tmp_path / "run.toml").arguments())
    law = af.Softmax(beta=BETA, B=B[:, :2, :2], b=b[:, :2])
    expected = af.simulate(af.tokens.polygon(5), law, af.Residual(dt=0.1, b=[1.0, 0.5]), until=4)
    np.testing.assert_allclose(found.final, expected.final, atol=1e-12)
    (tmp_path / "keys.toml").write_text(
        text.replace('B = "B.npy"', "Q = [[1.0, 2.0]]\nK = [[0.5, 0.0]]").replace("[0.5, 1.0, -2.0, 4.0]", "2.0")
    )
    found = af.simulate(**read(tmp_path / "keys.toml").arguments())
    law = af.Softmax(beta=2.0, B=[[0.5, 1.0], [0.0, 0.0]], b=b[:, :2])
    expected = af.simulate(af.tokens.polygon(5), law, af.Residual(dt=0.1, b=[1.0, 0.5]), until=4)
    np.testing.assert_allclose(found.final, expected.final, atol=1e-12)


def test_exact_replay_takes_the_values_of_each_layer() -> None:
    from attnflow.claims import exact

    law, motion = af.Hardmax(B=[[[-1.0]], [[2.0]]]), af.Layers(gamma=[0.5, 0.25])
    states = exact.replay(exact.rational([[3.0], [-1.0]]), law, motion, 2)
    run = af.simulate([[3.0], [-1.0]], law, motion, until=2)
    np.testing.assert_array_equal(states.astype(float), run.tokens)
    assert exact.replayable(law, motion)
    assert not exact.replayable(af.Hardmax(b=[1.0]), motion)


def test_derivatives_in_the_weights_of_each_layer() -> None:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):

        def final(B: Any, beta: Any, b: Any) -> Any:
            law = af.Softmax(beta=beta, B=B, b=b)
            run = af.simulate(jax.numpy.asarray(X), law, af.Layers(gamma=0.5), until=L)
            return (run.final**2).sum()

        # Compiled as a whole: operation by operation JAX compiles hundreds of small programs.
        given = [jax.numpy.asarray(value) for value in (B, np.array(BETA), b)]
        gradients, value = jax.jit(jax.grad(final, argnums=(0, 1, 2)))(*given), jax.jit(final)
        for k, gradient in enumerate(gradients):
            step = 1e-5 * RNG.standard_normal(given[k].shape)
            plus, minus = list(given), list(given)
            plus[k], minus[k] = given[k] + step, given[k] - step
            difference = float(value(*plus) - value(*minus)) / 2
            assert (np.asarray(gradient) * step).sum() == pytest.approx(difference, rel=1e-5)


# Refusals

LAW, MOTION = af.Softmax(B=B), af.Layers(gamma=0.5)


class Inner(af.Law):
    """A law of one's own that holds another, whose sequences nobody counts before the run."""

    def __init__(self, law: af.Law) -> None:
        self.law = law

    def log_weights(self, x: Array, t: float = 0, *, sources: Any = None, masses: Any = None) -> Array:
        return self.law.log_weights(x, t, sources=sources, masses=masses)


def wide(*axes: int) -> Array:
    return np.ones((*axes, K_ROWS, D + 1))


REFUSED: dict[str, tuple[Any, str]] = {
    "too long": (
        lambda: af.simulate(X, LAW, MOTION, 9),
        "B has 4 entries, one for each layer, but the run has 9 layers: give at least 9 entries, or until=4 at most",
    ),
    "too long for one": (lambda: af.simulate(X, af.Softmax(beta=[1.0]), MOTION, 2), "beta has 1 entry, one for each"),
    "too long a law of one's own": (
        lambda: af.simulate(X, Inner(LAW), MOTION, 9),
        "B has 4 entries, one for each layer, but was asked for at t = 5: give at least 6 entries",
    ),
    "too long a motion": (
        lambda: af.simulate(X, af.Softmax(), af.Layers(gamma=GAMMA), 9),
        "gamma has 4 entries",
    ),
    "too long a head": (lambda: af.simulate(X, af.Heads([LAW]), MOTION, 5), "B has 4 entries"),
    "flow": (
        lambda: af.simulate(X, LAW, af.Flow(), 1.0),
        "B is given layer by layer, but Flow moves in continuous time",
    ),
    "flow V": (lambda: af.simulate(X, af.Softmax(), af.Flow(V=V), 1.0), "V is given layer by layer, but Flow"),
    "sphere": (lambda: af.simulate(SPHERE, LAW, af.SphereFlow(), 1.0), "layer by layer, but SphereFlow"),
    "hardmax": (lambda: af.simulate(X, af.Hardmax(B=B), af.HardmaxFlow(), 1.0), "layer by layer, but HardmaxFlow"),
    "hardmax b": (lambda: af.simulate(X, af.Hardmax(b=b[0]), af.HardmaxFlow(), 1.0), "b was given: leave b out"),
    "frame": (lambda: af.RescaledLayers(dt=[0.1, 0.2]), "RescaledLayers take a constant dt"),  # type: ignore[arg-type]
    "frame V": (lambda: af.RescaledFlow(V=V), "expected a square matrix"),
    "leaps": (lambda: af.simulate(X, LAW, af.Leaps(gamma=0.5), 4), "Leaps need a constant law"),
    "leaps gamma": (lambda: af.Leaps(gamma=[0.5, 0.1]), "expected a number"),  # type: ignore[arg-type]
    "half a layer": (lambda: LAW.attend(X, t=0.5), "B is given layer by layer, but was asked for at t = 0.5"),
    "other shapes": (lambda: af.Softmax(B=[np.eye(2), np.eye(3)]), r"B of layer 1 has shape \(3, 3\), that of layer 0"),
    "one bad entry": (lambda: af.Softmax(B=[np.eye(2), np.eye(2) * np.nan]), "B of layer 1 holds a value"),
    "no layers": (lambda: af.Softmax(beta=[]), "beta is an empty sequence"),
    "no matrices": (lambda: af.Softmax(B=np.ones((0, 2, 2))), "B is an empty sequence"),
    "bad number": (lambda: af.Layers(gamma=[0.5, 1.5]), "gamma of layer 1 is 1.5, expected a finite number above 0"),
    "Q alone": (lambda: af.Softmax(Q=Q[0]), r"Q came without K: give both, for B = K\.T @ Q, or B"),
    "K alone": (lambda: af.Hardmax(K=K[0]), "K came without Q"),
    "B and Q": (lambda: af.Softmax(B=B[0], Q=Q[0], K=K[0]), "B came with Q or K"),
    "shapes of Q": (lambda: af.Softmax(Q=Q[0], K=np.ones((5, D))), r"Q has shape \(2, 3\) and K \(5, 3\)"),
    **{
        f"columns of Q in {name}": (call, r"Q has shape \(2, 4\) and K \(2, 4\), but the tokens have dimension 3: give")
        for name, call in {
            "softmax": lambda: af.Softmax(Q=wide(), K=wide()).attend(X),
            "hardmax": lambda: af.Hardmax(Q=wide(), K=wide()).weights(X),
            "layers": lambda: af.simulate(X, af.Localmax(Q=wide(L), K=wide(L)), MOTION, 3),
            "functions": lambda: af.simulate(X, af.Softmax(Q=lambda t: wide().tolist(), K=wide()), MOTION, 3),
            "flow": lambda: af.simulate(X, af.Hardmax(Q=wide(), K=wide()), af.HardmaxFlow(), 1.0),
            "ensemble": lambda: af.ensemble(X[None], af.Softmax(Q=wide(), K=wide()), MOTION, 3),
        }.items()
    },
    "lengths": (lambda: af.Softmax(Q=Q[:3], K=K), "Q has 3 entries, one for each layer, and K 4: give both"),
    "dimension": (lambda: af.Softmax(b=[1.0, 2.0]).attend(X), "b holds 2 numbers, but the tokens have dimension 3"),
    "no vector": (lambda: af.Softmax(b=[[[1.0]]]), "b has shape"),
    "claim": (
        lambda: af.check("fw/own-cell", tokens=X, law=af.Hardmax(b=b[0])),
        "claims are about scores <B x_i, x_j>, but the law has a bias",
    ),
    "array": (lambda: af.Softmax(beta=np.ones(3)).attend(X), "array of 3 numbers, one for each system: use ensemble"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_in_a_sentence(name: str) -> None:
    call, words = REFUSED[name]
    with refused(words):
        call()
