"""The automatic engine for many tokens, against dense sums at sampled queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.engines import dense, fast, separable, tree

RNG = np.random.default_rng(0)
N = 20_000
CLOUDS: dict[str, Array] = {
    "normal": RNG.standard_normal((N, 2)),
    "disc": (lambda r, t: np.column_stack([r * np.cos(t), r * np.sin(t)]))(
        np.sqrt(RNG.random(N)), 2 * np.pi * RNG.random(N)
    ),
    "heavy tails": RNG.standard_t(3, (N, 2)),
    "two clusters": np.repeat([[3.0, 1.0], [-2.0, -2.0]], N // 2, axis=0) + 1e-3 * RNG.standard_normal((N, 2)),
    "line": np.outer(RNG.standard_normal(N), [1.0, 0.5]),
    "outlier": np.vstack([RNG.standard_normal((N - 1, 2)), [[300.0, 20.0]]]),
    "space": RNG.standard_normal((N, 3)),
}


@pytest.mark.parametrize("beta", [0.01, 1.0, 30.0, 3000.0])
@pytest.mark.parametrize("name", CLOUDS)
def test_sampled_rows_agree_with_dense_sums(name: str, beta: float) -> None:
    x = CLOUDS[name]
    log_masses = np.linspace(-20.0, 5.0, N)[np.random.default_rng(1).permutation(N)] if beta > 1 else None
    mean, log_total = fast.softmax(x, x, x, log_masses, beta)
    norms = np.linalg.norm(x, axis=1)
    rows = np.unique(np.concatenate([np.argsort(norms)[[0, 1, N // 2, -2, -1]], np.arange(0, N, N // 40)]))
    expected, total = dense.softmax(x[rows], x, x, log_masses, beta)
    size = 2 * float(norms.max())
    # Beside the tolerance, scores of size beta |x|^2 round.
    rounding = 64 * np.finfo(float).eps * beta * float(norms.max()) ** 2
    np.testing.assert_allclose(mean[rows], expected, rtol=0, atol=size * (1e-10 + rounding))
    np.testing.assert_allclose(log_total[rows], total, rtol=1e-13, atol=2e-10 + rounding)


def test_every_plan_is_made() -> None:
    x = 3 * np.tanh(np.random.default_rng(2).standard_normal((100_000, 2)))
    plans = {fast.plan(x, x, beta)[0] for beta in (0.1, 30.0, 3000.0)}
    assert plans == {"separable", "tree"}
    assert fast.plan(x[:50], x[:50], 1.0)[0] == "fused"
    assert fast.name(x, x, 3000.0) == "tree"


@pytest.mark.parametrize("beta", [0.01, 0.3, 3.0, 10.0, 100.0])
@pytest.mark.parametrize("name", CLOUDS)
def test_a_sample_refuses_no_plan_that_would_be_taken(name: str, beta: float) -> None:
    x = CLOUDS[name]
    made = separable.plan(x, x, beta)
    cost, spread = (np.inf, 0.0) if made is None else (made.cost(N, N), made.spread)

    def others(spread: float) -> float:
        """The work of the others, the tree only in the plane."""
        tree = fast.TREE_CALL + fast.TREE_TOKEN * 2 * N
        tree += fast.TREE_SPREAD * np.sqrt(N * max(0.0, spread - fast.COMPACT))
        return float(min(N * N, tree) if x.shape[1] == 2 else N * N)

    known = others(spread)
    assert (separable.plan(x, x, beta, lambda spread: known) is not None) or cost >= known
    # The spread of a sample decides: nearly that of all.
    if x.shape[1] == 2 and (cost < others(0.9 * spread) or cost >= others(1.1 * spread)):
        assert (fast.name(x, x, beta) == "separable") == (cost < known)


@pytest.mark.parametrize(("name", "beta", "boxes"), [("disc", 90.0, np.pi / 4 * 45**2), ("line", 3.0, 13.8)])
def test_over_how_many_boxes_tokens_are_spread_decides(name: str, beta: float, boxes: float) -> None:
    """A disc fills pi / 4 of its 45 by 45 boxes; normal ones are spread over 2 sqrt(pi) s / h of a line."""
    x = CLOUDS[name]
    made = separable.plan(x, x, beta)
    assert made is not None
    assert 0.8 * boxes < made.spread < 1.1 * boxes
    cost = 1.1 * made.cost(N, N)
    assert separable.plan(x, x, beta, lambda spread: cost if spread > 0.7 * boxes else 0.0) is not None
    assert separable.plan(x, x, beta, lambda spread: cost if spread > 1.3 * boxes else 0.0) is None


def test_a_disc_is_left_to_separable_sums_because_it_is_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    x = np.sqrt(rng.random((100_000, 1))) * af.tokens.sphere(n=100_000, d=2, seed=5)
    assert fast.name(x, x, 100.0) == "separable"
    monkeypatch.setattr(fast, "TREE_SPREAD", 0.0)
    assert fast.name(x, x, 100.0) == "tree"


@pytest.mark.parametrize(("beta", "engines"), [(1.0, ["separable"]), (30.0, ["tree"]), (3e3, ["tree"])])
def test_the_engine_that_is_named_is_taken(beta: float, engines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """And the plan is made once."""
    taken: list[str] = []
    plans: list[int] = []
    carry_out, walk, plan = separable.carry_out, tree.softmax, separable.plan

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            taken.append(name)
            return function(*arguments)

        return call

    def counted(queries: Array, keys: Array, gain: float, *most: Any) -> Any:
        if most:
            plans.append(len(keys))
        return plan(queries, keys, gain, *most)

    monkeypatch.setattr(separable, "carry_out", noted("separable", carry_out))
    monkeypatch.setattr(tree, "softmax", noted("tree", walk))
    monkeypatch.setattr(separable, "plan", counted)
    x = np.random.default_rng(3).standard_normal((60_000, 2))
    x /= np.maximum(1, np.linalg.norm(x, axis=1) / 3)[:, None]
    fast.softmax(x, x, x, None, beta)
    assert taken == engines
    assert plans == [len(x)]
    assert fast.name(x, x, beta) == engines[0]


def test_laws_use_it_for_many_tokens() -> None:
    law = af.Softmax(beta=2.0, B=[[1.0, 0.3], [-0.5, 0.7]])
    x = CLOUDS["normal"]
    assert law.uses("auto", N, 2) == "fast"
    assert law.uses("precise", N, 2) == "fused"
    fused = law.hear(x, engine="precise")
    np.testing.assert_allclose(law.attend(x), fused.mean, atol=1e-9)
    with pytest.raises(af.InputError, match="serves Softmax alone"):
        af.simulate(x, af.Hardmax(), af.Layers(gamma=0.1), until=1, engine="fast")
    with pytest.raises(af.InputError, match="in up to 3 dimensions"):
        af.simulate(np.ones((3, 5)), af.Softmax(), af.Layers(gamma=0.1), until=1, engine="separable")


def test_tight_flows_hear_exact_sums() -> None:
    """A flow whose tolerance is below that of the fast engine would choke on its noise."""
    x = CLOUDS["normal"][:6000]
    run = af.simulate(x, af.Softmax(), af.RescaledFlow(rtol=1e-10), until=0.02)
    again = af.simulate(x, af.Softmax(), af.RescaledFlow(rtol=1e-10), until=0.02, engine="fused")
    np.testing.assert_array_equal(run.final, again.final)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_no_queries(d: int) -> None:
    keys = np.random.default_rng(d).standard_normal((20_000, d))
    mean, log_total = fast.softmax(keys[:0], keys, keys, None, 1.0)
    assert mean.shape == (0, d)
    assert log_total.shape == (0,)


@pytest.mark.parametrize("m", [1, 5, 20])
def test_few_queries_of_many_keys(m: int) -> None:
    """So few that a sixteenth of them is none."""
    keys = CLOUDS["normal"][:4000]
    mean, _ = fast.softmax(keys[:m].copy(), keys, keys, None, 1e3)
    np.testing.assert_allclose(mean, dense.softmax(keys[:m], keys, keys, None, 1e3)[0], rtol=0, atol=1e-9)
