"""Masks against loops over pairs, torch's own causal attention, sub-clouds, and their limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from larger import larger
from numpy.typing import NDArray
from refusals import refused

import attnflow as af
from attnflow.catalogue import Entry, entries
from attnflow.core.indices import weights
from attnflow.laws import Law, species

N = 7
RNG = np.random.default_rng(3)
X = RNG.standard_normal((N, 2))
MASSES = RNG.uniform(0.5, 3.0, N)
B = RNG.standard_normal((2, 2))
GRAPH = (RNG.random((N, N)) < 0.5) | np.eye(N, dtype=bool)


def allowed(causal: bool, window: int | None, graph: NDArray[np.bool_] | None, n: int = N) -> list[list[int]]:
    """Return the tokens that each token may hear, by the definition."""
    heard: list[list[int]] = []
    for i in range(n):
        heard.append([])
        for j in range(n):
            by_order = j <= i if causal else True
            by_window = True if window is None else (i - window < j < i + window)
            if by_order and by_window and (graph is None or graph[i][j]):
                heard[i].append(j)
    return heard


MASKS: dict[str, dict[str, Any]] = {
    "causal": {"causal": True},
    "window": {"window": 3},
    "causal window": {"causal": True, "window": 2},
    "graph": {"graph": GRAPH},
    "all": {"causal": True, "window": 4, "graph": GRAPH},
}


def softmax(i: int, j: int, beta: float) -> float:
    return math.exp(beta * sum(B[k, el] * X[i, el] * X[j, k] for k in range(2) for el in range(2)))


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("beta", [2.0, 0.0, -1.5])
def test_masked_softmax_is_a_sum_over_the_tokens_that_are_heard(name: str, beta: float) -> None:
    heard = allowed(**{"causal": False, "window": None, "graph": None, **MASKS[name]})
    P = np.zeros((N, N))
    for i in range(N):
        total = sum(MASSES[k] * softmax(i, k, beta) for k in heard[i])
        for j in heard[i]:
            P[i, j] = MASSES[j] * softmax(i, j, beta) / total
    law = af.Masked(af.Softmax(beta=beta, B=B), **MASKS[name])
    np.testing.assert_allclose(law.weights(X, masses=MASSES), P, atol=1e-14)
    np.testing.assert_allclose(law.attend(X, masses=MASSES), P @ X, atol=1e-14)
    assert ((law.weights(X) > 0) == [[j in heard[i] for j in range(N)] for i in range(N)]).all()


@pytest.mark.parametrize("name", MASKS)
def test_masked_top_scores_are_sought_among_the_tokens_that_are_heard(name: str) -> None:
    heard = allowed(**{"causal": False, "window": None, "graph": None, **MASKS[name]})
    scores = (X @ B.T) @ X.T
    for delta, law in ((0.0, af.Hardmax(B=B)), (0.8, af.Localmax(delta=0.8, B=B))):
        P = np.zeros((N, N))
        for i in range(N):
            top = max(scores[i, j] for j in heard[i])
            near = [j for j in heard[i] if scores[i, j] >= top - delta]
            for j in near:
                P[i, j] = MASSES[j] / sum(MASSES[k] for k in near)
        np.testing.assert_allclose(af.Masked(law, **MASKS[name]).weights(X, masses=MASSES), P, atol=1e-15)


def test_tied_points_are_counted_among_those_that_are_heard() -> None:
    x = np.array([[1.0], [1.0], [2.0], [2.0], [0.5]])
    graph = np.ones((5, 5))
    graph[4, 2] = 0
    law = af.Masked(af.Hardmax(B=[[0.0]], ties="points"), graph=graph)
    np.testing.assert_allclose(law.weights(x)[[0, 4]], [[1 / 3, 0, 1 / 3, 0, 1 / 3], [1 / 3, 0, 0, 1 / 3, 1 / 3]])
    first = af.Masked(af.Hardmax(B=[[0.0]], ties="first"), graph=np.triu(np.ones((5, 5))))
    np.testing.assert_array_equal(first.weights(x), np.eye(5))
    with refused("ties between token 0 and another point"):
        af.Masked(af.Hardmax(B=[[0.0]], ties="error"), causal=True).weights(x)


def test_weights_of_a_law_without_scores_are_restricted_and_divided_by_their_sum() -> None:
    eps, n = 1.2, N
    P = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            P[i, j] = np.linalg.norm(X[i] - X[j]) <= eps
        P[i] /= P[i].sum()
    np.testing.assert_allclose(af.Masked(af.HegselmannKrause(eps=eps), causal=True).weights(X), P, atol=1e-15)


EVERY = [found for found in entries("law").values() if not found.around and found.name != "heads"]
LAWS = [af.Softmax(beta=1.5, B=B), af.Hardmax(B=B), af.Localmax(delta=0.4), af.HegselmannKrause(eps=1.0)]
MASKED = LAWS + [found.make() for found in EVERY if found.make().rows_apart]


@pytest.mark.parametrize("law", MASKED, ids=repr)
def test_a_causal_token_hears_what_the_last_of_the_first_tokens_hears(law: Law) -> None:
    heard = af.Masked(law, causal=True).attend(X, masses=MASSES)
    for k in range(N):
        np.testing.assert_allclose(heard[k], law.attend(X[: k + 1], masses=MASSES[: k + 1])[k], atol=1e-13)


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("law", MASKED, ids=repr)
def test_a_masked_row_is_that_of_the_tokens_which_are_heard(law: Law, name: str) -> None:
    P = af.Masked(law, **MASKS[name]).weights(X, masses=MASSES)
    for i, heard in enumerate(allowed(**{"causal": False, "window": None, "graph": None, **MASKS[name]})):
        alone = weights(law, X[[i]], sources=X[heard], masses=MASSES[heard])[0]
        np.testing.assert_allclose(P[i, heard], alone, atol=1e-13)


@pytest.mark.parametrize("around", [af.Masked, af.Positional])
def test_a_law_whose_rows_need_all_tokens_is_refused(around: Any) -> None:
    with refused(rf"{around.__name__} came with Sinkhorn, whose .* depend on all tokens together.*: give"):
        around(af.Sinkhorn(beta=2.0))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_limits_of_windows(law: Law) -> None:
    np.testing.assert_allclose(af.Masked(law, window=1).attend(X), X)
    np.testing.assert_allclose(
        af.Masked(law, causal=True, window=N).weights(X), af.Masked(law, causal=True).weights(X), atol=1e-15
    )
    np.testing.assert_allclose(af.Masked(law, window=N).weights(X), law.weights(X), atol=1e-15)
    np.testing.assert_allclose(
        af.Masked(af.Masked(law, window=3), causal=True).weights(X),
        af.Masked(law, causal=True, window=3).weights(X),
        atol=1e-15,
    )


def test_tokens_in_another_order_are_other_tokens() -> None:
    law, order = af.Masked(af.Softmax(beta=1.0), causal=True), np.arange(N)[::-1]
    assert abs(law.attend(X[order])[order] - law.attend(X)).max() > 0.1
    turned = af.Masked(af.Softmax(beta=1.0), graph=np.triu(np.ones((N, N))))
    np.testing.assert_allclose(turned.attend(X[order])[order], law.attend(X), atol=1e-14)


@pytest.mark.parametrize("window", [3, 300])
def test_many_tokens_look_at_their_window_alone(window: int) -> None:
    x = af.tokens.gaussian(n=1500, d=2, seed=1)
    for causal in (True, False):
        heard = af.Masked(af.Softmax(beta=1.0), causal=causal, window=window).attend(x)
        for i in (0, 1, 2, 255, 256, 1000, 1499):
            near = slice(max(0, i - window + 1), i + 1 if causal else i + window)
            w = np.exp(x[near] @ x[i])
            np.testing.assert_allclose(heard[i], w @ x[near] / w.sum(), atol=1e-13)


def test_the_causal_attention_of_torch() -> None:
    torch: Any = pytest.importorskip("torch")
    x = torch.tensor(X)
    expected = torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True, scale=0.7)
    law = af.Masked(af.Softmax(beta=0.7), causal=True)
    np.testing.assert_allclose(law.attend(X), expected.numpy(), atol=1e-14)
    np.testing.assert_allclose(law.attend(x).numpy(), expected.numpy(), atol=1e-14)


@larger
def test_masks_and_positions_take_other_libraries_and_their_derivatives() -> None:
    jax = pytest.importorskip("jax")

    def law(beta: Any) -> Law:
        positional = af.Positional(af.Softmax(beta=beta), rope=0.3, alibi=0.2, bias=GRAPH)
        return af.Masked(positional, causal=True, graph=GRAPH)

    def total(beta: Any) -> Any:
        return law(beta).attend(jax.numpy.asarray(X)).sum()

    step = 1e-4
    ahead, behind = (law(0.7 + s).attend(X).sum() for s in (step, -step))
    np.testing.assert_allclose(float(total(0.7)), law(0.7).attend(X).sum(), atol=1e-5)
    np.testing.assert_allclose(float(jax.grad(total)(0.7)), (ahead - behind) / (2 * step), rtol=1e-4)


def test_scores_of_a_far_cloud_are_seen_from_its_centre() -> None:
    far = X + 1e7
    P = np.tril(np.exp(1e-7 * far @ (far - 1e7).T))
    law = af.Masked(af.Softmax(beta=1e-7), causal=True)
    np.testing.assert_allclose(law.weights(far), P / P.sum(axis=1, keepdims=True), atol=1e-13)


MOTIONS: list[af.Motion] = [
    af.Layers(gamma=0.5), af.Residual(dt=0.1), af.RescaledLayers(dt=0.1), af.Flow(), af.RescaledFlow(),
    af.SphereFlow(), af.SphereLayers(dt=0.5), af.Jumps(gamma=0.5), af.Leaps(gamma=0.5),
]  # fmt: skip


@pytest.mark.parametrize("motion", MOTIONS, ids=lambda motion: motion.name)
def test_the_first_causal_tokens_move_as_if_there_were_no_others(motion: af.Motion) -> None:
    if motion.random:
        pytest.skip("draws of the other tokens come in between")
    x = X / np.linalg.norm(X, axis=1, keepdims=True)
    law = af.Masked(af.Softmax(beta=1.5), causal=True)
    run, part = (af.simulate(tokens, law, motion, until=2) for tokens in (x, x[:3]))
    np.testing.assert_allclose(run.final[:3], part.final, atol=1e-7)
    if not isinstance(motion, af.Leaps):
        many = af.ensemble(np.stack([x, x[::-1]]), law, motion, until=2)
        np.testing.assert_allclose(many.final[0], run.final, atol=1e-7)


def test_chains_jump_to_tokens_that_are_heard() -> None:
    law = af.Masked(af.Softmax(beta=0.0), causal=True)
    final = af.simulate(X, law, af.Jumps(gamma=0.5), until=20, seed=0).final
    np.testing.assert_array_equal(final[0], X[0])
    assert (final[1] != X[1]).any()


def test_heads_with_masks_of_their_own() -> None:
    past, near = af.Masked(af.Softmax(beta=1.0), causal=True), af.Masked(af.Hardmax(), window=2)
    heads = af.Heads([past, near], V=[2 * np.eye(2), None])
    np.testing.assert_allclose(heads.attend(X), 2 * past.attend(X) + near.attend(X), atol=1e-14)
    np.testing.assert_array_equal(heads.weights(X), [past.weights(X), near.weights(X)])
    assert heads.positional


def test_a_graph_may_change_in_time_or_from_layer_to_layer() -> None:
    graphs = [np.eye(N), np.ones((N, N)), np.tril(np.ones((N, N)))]
    layers = af.Masked(af.Softmax(), graph=graphs)
    times = af.Masked(af.Softmax(), graph=lambda t: graphs[int(t)])
    run = af.simulate(X, layers, af.Layers(gamma=0.5), until=3)
    np.testing.assert_array_equal(run.tokens[1], X)
    np.testing.assert_array_equal(run.tokens, af.simulate(X, times, af.Layers(gamma=0.5), until=3).tokens)
    np.testing.assert_array_equal(times.weights(X, t=2), af.Masked(af.Softmax(), causal=True).weights(X))
    with refused("but the run has 4 layers"):
        af.simulate(X, layers, af.Layers(gamma=0.5), until=4)


@pytest.mark.parametrize("found", [found for found in EVERY if found.make().rows_apart], ids=lambda found: found.name)
def test_every_law_of_the_catalogue_can_be_masked(found: Entry) -> None:
    law, masked = found.make(), af.Masked(found.make(), causal=True)
    every = af.Masked(law, window=N)
    np.testing.assert_allclose(every.weights(X, masses=MASSES), law.weights(X, masses=MASSES), atol=1e-14)
    np.testing.assert_allclose(masked.attend(X, masses=MASSES), masked.weights(X, masses=MASSES) @ X, atol=1e-13)
    assert not np.triu(masked.weights(X), 1).any()
    assert masked.stochastic == law.stochastic


@dataclass(frozen=True, eq=False)
class Products(Law):
    """Signed weights x_i x_j / n of numbers x_i, written without scores."""

    stochastic: ClassVar[bool] = False

    def signed_weights(self, x: Any, t: float = 0, *, sources: Any = None, masses: Any = None) -> Any:
        y = x if sources is None else sources
        w = np.ones(len(y)) if masses is None else masses
        return w / w.sum() * (x @ y.T)


@pytest.mark.parametrize("law", [af.Linear(), Products()], ids=repr)
def test_signed_weights_are_divided_by_the_mass_that_is_heard(law: Law) -> None:
    for mask in (af.Masked(law, causal=True, graph=GRAPH), af.Masked(af.Masked(law, graph=GRAPH), causal=True)):
        for i, heard in enumerate(allowed(True, None, GRAPH)):
            expected = np.zeros(N)
            for j in heard:
                expected[j] = MASSES[j] * (X[i] @ X[j]) / sum(MASSES[k] for k in heard)
            np.testing.assert_allclose(mask.weights(X, masses=MASSES)[i], expected, atol=1e-14)
    with refused("token 0 may hear nobody"):
        af.Masked(law, graph=np.zeros((N, N))).weights(X)


@pytest.mark.parametrize("wrap", [lambda law: af.Masked(law, causal=True), lambda law: af.Positional(law, rope=0.1)])
def test_motions_that_refuse_a_law_name_the_one_inside(wrap: Callable[[Law], Law]) -> None:
    x, jumping = X / np.linalg.norm(X, axis=1, keepdims=True), wrap(af.Hardmax())
    for motion, sentence in (
        (af.Flow(), "Flow integrates continuous laws, but Hardmax jumps as tokens move"),
        (af.Leaps(gamma=0.1), "Leaps need a continuous law, but Hardmax jumps as tokens move"),
        (af.HardmaxFlow(), "under Hardmax alone, without .* around it: use Layers with a small gamma"),
    ):
        with refused(sentence):
            af.simulate(x, jumping, motion, until=1)
    with refused(r"SphereFlow(normalized=False) needs softmax weights"):
        af.simulate(x, wrap(af.Softmax()), af.SphereFlow(normalized=False), until=1)


def test_several_species() -> None:
    graph = species(["a", "b", "a", "c"], {"a": ["b", "c"], "b": ["b"]})
    np.testing.assert_array_equal(graph, [[0, 1, 0, 1], [0, 1, 0, 0], [0, 1, 0, 1], [0, 0, 0, 1]])
    with refused("hears names the species 'd', but the labels are"):
        species(["a", "b"], {"a": ["d"]})
    with refused("hears names the species \\['b'\\], but the labels are"):
        species(["a", "b"], {"a": [["b"]]})
    for labels in (3, None, [], [["a"], ["b"]]):
        with refused("labels are .*, expected a list with the name of a species for each token"):
            species(labels, {"a": ["b"]})  # type: ignore[arg-type]
    for given in (None, {"a": None}, {"a": "b"}):
        with refused("hears is .*, expected a table with a list of species for each species that hears some"):
            species(["a", "b"], given)  # type: ignore[arg-type]


def test_what_is_refused() -> None:
    law, alone = af.Softmax(), np.eye(N)
    alone[4, 4] = 0
    with refused("token 4 may hear nobody: let it hear itself at least"):
        af.Masked(law, graph=alone).weights(X)
    with refused("token 4 may hear nobody: let it hear itself at least"):
        af.Masked(law, graph=alone).attend(X)
    with refused("token 0 may hear nobody at t = 2: let it hear itself at least"):
        af.simulate(X, af.Masked(law, graph=lambda t: np.eye(N) * (t < 2)), af.Layers(gamma=0.5), until=5)
    with refused("token 4 may hear nobody"):
        af.Masked(af.Masked(law, graph=np.ones((N, N)) - np.eye(N) * (np.arange(N) == 4)), window=1).weights(X)
    with refused("token 0 may hear nobody"):
        af.Masked(af.HegselmannKrause(eps=0.01), graph=1 - np.eye(N)).weights(X)
    with refused("graph has shape (6, 6), but there are 7 tokens: give 7 rows of 7 numbers"):
        af.simulate(X, af.Masked(law, graph=np.ones((6, 6))), af.Layers(gamma=0.5), until=1)
    with refused("graph has shape (8, 8), but there are 7 tokens"):
        af.Masked(af.Masked(law, graph=np.ones((8, 8))), causal=True).attend(X)
    with refused("graph holds 0.5, expected numbers 0 or 1"):
        af.Masked(law, graph=[[1.0, 0.5], [0.0, 1.0]])
    with refused("graph has shape (2, 3), expected a square array"):
        af.Masked(law, graph=np.ones((2, 3)))
    with refused("window is 0, expected a finite number at least 1"):
        af.Masked(law, window=0)
    with refused("causal is 1, expected True or False"):
        af.Masked(law, causal=1)  # type: ignore[arg-type]
    with refused("law is 3, expected a law such as Softmax"):
        af.Masked(3)  # type: ignore[arg-type]
    with refused("Masked was given a law alone, without a mask: give causal=True, window or graph too"):
        af.Masked(law)
    np.testing.assert_array_equal(af.Masked(law, causal=False).weights(X), af.Masked(law, window=N).weights(X))
    with refused(r"Masked came with 2 heads: put it around each of them, Heads\(\[Masked"):
        af.Masked(af.Heads([law, law]), causal=True)


def test_scores_are_those_of_queries_and_keys() -> None:
    """Q and K with a bias of the queries: b = K^T b_Q."""
    Q, K = RNG.standard_normal((2, 3, 2))
    for make in (af.Softmax, af.Hardmax, af.Localmax):
        law, same = (make(**given) for given in ({"Q": Q, "K": K, "b": K.T @ [1.0, 2.0, 3.0]}, {}))
        queries, keys = law.products(X)
        np.testing.assert_allclose((queries - X @ Q.T) @ K, np.tile(K.T @ [1.0, 2.0, 3.0], (N, 1)), atol=1e-12)
        np.testing.assert_allclose(keys, X @ K.T)
        np.testing.assert_allclose(af.Masked(law, window=N).weights(X), law.weights(X), atol=1e-13)
        assert same.products(X).keys is X
    with refused("b is not K.T @ b_Q for any bias b_Q"):
        af.Masked(af.Softmax(Q=Q[:1], K=K[:1], b=[1.0, 5.0]), causal=True).weights(X)


def test_a_masked_law_takes_the_arrays_of_the_law_inside() -> None:
    for inside in (af.Softmax(), af.Hardmax(), af.HegselmannKrause(eps=1.0)):
        assert af.Masked(inside, causal=True).array_api == inside.array_api
