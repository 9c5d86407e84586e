"""The tree engine against references: errors stay below the tolerance on every input."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from larger import larger, leave_tree_to_larger
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from refusals import refused

import attnflow as af
from attnflow.engines import Memory, dense, fast, fused, module, tree, tree_trie, tree_walk

Array = NDArray[np.float64]
Generator = np.random.Generator


def disc(rng: Generator, n: int, d: int) -> Array:
    x = rng.standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True) * rng.uniform(0, 1, (n, 1)) ** (1 / d)


def clusters(rng: Generator, n: int, d: int) -> Array:
    centres = 5 * rng.standard_normal((2, d))
    return centres[rng.integers(0, 2, n)] + 1e-3 * rng.standard_normal((n, d))


def stragglers(rng: Generator, n: int, d: int) -> Array:
    x = clusters(rng, n, d)
    x[: n // 20] = 3 * rng.standard_normal((n // 20, d))
    return x


def outlier(rng: Generator, n: int, d: int) -> Array:
    x = rng.standard_normal((n, d))
    x[n // 2] = 1e3
    return x


CLOUDS: dict[str, Callable[[Generator, int, int], Array]] = {
    "normal": lambda rng, n, d: rng.standard_normal((n, d)),
    "disc": disc,
    "heavy tails": lambda rng, n, d: rng.standard_t(3, (n, d)),
    "two clusters": clusters,
    "stragglers": stragglers,
    "line": lambda rng, n, d: rng.standard_normal((n, 1)) * rng.standard_normal(d) + rng.standard_normal(d),
    "outlier": outlier,
    "equal": lambda rng, n, d: np.tile(rng.standard_normal(d), (n, 1)),
    "copies": lambda rng, n, d: rng.standard_normal((5, d))[rng.integers(0, 5, n)],
    "lattice": lambda rng, n, d: rng.integers(-4, 5, (n, d)).astype(float),
    "far away": lambda rng, n, d: rng.standard_normal((n, d)) + 1e3,
}
FORMS: dict[str, Callable[[int], Array]] = {
    "identity": np.eye,
    "minus identity": lambda d: -np.eye(d),
    "any": lambda d: np.random.default_rng(d).standard_normal((d, d)),
}


def diameter(values: Array) -> float:
    return float(np.linalg.norm(values.max(axis=0) - values.min(axis=0)))


def rounding(q: Array, k: Array, gain: float) -> float:
    """What rounding does to exponents, here or in the reference."""
    return 8 * 2.0**-53 * gain * float((np.abs(q).max(axis=0) * np.abs(k).max(axis=0)).sum())


def assert_close(q: Array, k: Array, v: Array, log_masses: Array | None, gain: float, rows: Any = slice(None)) -> float:
    """Compare some rows with the reference; return the error of the mean in units of the diameter."""
    mean, log_total = tree.softmax(q, k, v, log_masses, gain)
    expected, expected_total = dense.softmax(q[rows], k, v, log_masses, gain)
    assert mean.shape == (len(q), v.shape[1])
    error = np.linalg.norm(mean[rows] - expected, axis=1).max()
    fuzz = rounding(q, k, gain)
    size = max(diameter(v), 1e-300)
    # Ties that rounding breaks are broken anew by every order of additions.
    assert error <= size * (tree.TOLERANCE + min(fuzz, 1.0)) + 1e-13 * np.abs(v).max()
    assert (
        np.abs(log_total[rows] - expected_total).max() <= tree.TOLERANCE + fuzz + 1e-13 * np.abs(expected_total).max()
    )
    return float(error / size)


@pytest.mark.parametrize("d", [1, 2, 3, 6])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_against_the_reference(cloud: str, d: int) -> None:
    leave_tree_to_larger("tree", d)
    rng = np.random.default_rng(d)
    x = CLOUDS[cloud](rng, 603, d)
    for gain in (1e-6, 1.0, 30.0, 1e3, 1e6):
        assert_close(x, x, x, None, gain, slice(1, None, 3))  # the outlier among them


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cloud", CLOUDS)
def test_queries_masses_and_values_of_their_own(cloud: str, form: str) -> None:
    rng = np.random.default_rng(7)
    x = CLOUDS[cloud](rng, 501, 2)
    q = np.concatenate([x, 0.1 * x[:50]]) @ FORMS[form](2).T
    log_masses = np.log(10.0) * rng.uniform(-6, 6, len(x))
    for gain, c in ((1.0, 2), (40.0, 1), (40.0, 3), (40.0, 2), (1e4, 2)):
        assert_close(q, x, rng.standard_normal((len(x), c)), log_masses, gain, slice(1, None, 3))
        assert_close(q[:77], x, x, log_masses, gain)


@pytest.mark.parametrize("n", [1, 2, 15, 64, 65, 127, 128, 129, 1023, 1024, 1025, 8193])
def test_any_number_of_tokens(n: int) -> None:
    x = np.random.default_rng(n).standard_normal((n, 2))
    rows = np.arange(0, n, 1 + n // 300)
    assert_close(x, x, x, None, 200.0, rows)
    assert_close(x[:1], x, x, None, 200.0)
    assert_close(x[: n // 2 + 1], x, x, None, 200.0, slice(100))


def crowd(exponent: float, n: int) -> tuple[Array, Array, Array]:
    """One source ahead of n - 1 that are that much fainter, and one that nobody hears, for 40 equal queries."""
    k, v = np.tile([-exponent, 0.0], (n + 1, 1)), np.zeros((n + 1, 2))
    k[0], k[n], v[0] = 0.0, -100.0, 1.0
    return np.tile([1.0, 0.0], (40, 1)), k, v


def test_a_crowd_at_the_threshold_costs_less_than_the_tolerance() -> None:
    """Together they count, and whether they are heard or left out is decided by their sum."""
    n = 2000
    edge = math.log(n / tree.TOLERANCE)
    for exponent in np.arange(edge - 6, edge + 6, 0.5):
        q, k, v = crowd(exponent, n)
        assert assert_close(q, k, v, None, 1.0) <= tree.TOLERANCE


@pytest.mark.parametrize("d", [2, 3])
def test_a_crowd_that_some_queries_hear_costs_less_than_the_tolerance(d: int) -> None:
    """Queries that are not equal know lower bounds of their totals from those before them; the keys are the values."""
    rng, n = np.random.default_rng(0), tree_trie.LEAF - 1  # so few that no expansion serves them
    q, k = 0.2 * rng.standard_normal((203, d)), np.zeros((n + 1, d))
    q[:, 0] += 1.0
    for exponent in np.arange(20.0, 45.0, 0.5):
        k[0, 1], k[1:, 0], k[1:, 1] = 1.0, -exponent, -1.0
        mean, log_total = tree.softmax(q, k, k, None, 1.0)
        expected, expected_total = dense.softmax(q, k, k, None, 1.0)
        # Only the second coordinate is compared with its own extent, 2; the crowd is far away along the first one.
        assert np.abs(mean - expected)[:, 1].max() <= 2 * tree.TOLERANCE
        assert np.abs(mean - expected).max() <= exponent * tree.TOLERANCE
        assert np.abs(log_total - expected_total).max() <= 1.1 * tree.TOLERANCE


@pytest.mark.parametrize("d", [1, 2, 3])
def test_huge_gains_leave_the_top_score_alone(d: int) -> None:
    """Scores of tokens anywhere round; the top one of each query is still the top one, at distance 0."""
    x = np.random.default_rng(0).standard_normal((300, d))
    scores = x @ x.T
    top = np.sort(scores, axis=1)
    clear = top[:, -1] - top[:, -2] > 1e-12
    for gain in (1e17, 1e20, 1e100, 1e300):
        for values in (x, x.copy()):
            mean = tree.softmax(x, x, values, None, gain)[0]
            np.testing.assert_allclose(mean[clear], x[scores.argmax(axis=1)][clear], rtol=0, atol=1e-14)


def test_on_a_circle() -> None:
    """As flows end: a thin ring of tokens, of whom each hears some on the rim in front of it."""
    rng, n, gain = np.random.default_rng(0), 20_000, 1e5
    angle, radius = rng.uniform(0, 2 * np.pi, n), 2.7 + 0.02 * rng.uniform(0, 1, n)
    x = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    assert_close(x, x, x, None, gain, slice(None, None, 400))


def test_a_memory_changes_nothing_but_the_choice() -> None:
    rng, n = np.random.default_rng(0), 6000
    x, memory = rng.standard_normal((n, 2)), Memory()
    first = fast.softmax(x, x, x, None, 2e3, memory)
    assert memory.engine == "tree"
    for here, there in zip(first, tree.softmax(x, x, x, None, 2e3), strict=True):
        np.testing.assert_array_equal(here, there)
    # Where another engine would be taken, the tree is within the tolerance.
    mean, _ = fast.softmax(x, x, x, None, 0.5, memory)
    np.testing.assert_allclose(mean[::37], dense.softmax(x[::37], x, x, None, 0.5)[0], atol=1e-9)
    memory.forget()
    fast.softmax(x, x, x, None, 0.5, memory)
    assert memory.engine == "separable"


def test_faint_sources_are_heard_if_they_are_heavy() -> None:
    """A mass of 1e12 far behind the top score takes over."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3000, 2))
    log_masses = np.where(np.arange(3000) == 17, 12 * math.log(10.0), 0.0)
    assert_close(x, x, x, log_masses, 5.0)
    x = disc(rng, 3000, 2)
    assert_close(x, x, x, np.log(10.0) * rng.uniform(-12, 0, 3000), 80.0)


@pytest.mark.parametrize("logarithm", [1e6, 1e12, -1e9])
def test_a_factor_of_all_masses_leaves_the_means_alone(logarithm: float) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((3000, 2)), rng.standard_normal((3000, 2))
    masses = rng.uniform(-1, 1, 3000)
    # What is left of the masses beside a large logarithm, without rounding.
    rest = (masses + logarithm) - logarithm
    for values in (x, y):
        mean, log_total = tree.softmax(x, x, values, masses + logarithm, 20.0)
        expected, total = tree.softmax(x, x, values, rest, 20.0)
        np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-9)
        np.testing.assert_allclose(log_total, total + logarithm, rtol=1e-15, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-303, 1e-120, 1e115, 1e140])
@pytest.mark.parametrize("gain", [0.0, 1.0])
def test_clouds_of_extreme_sizes_give_what_all_pairs_give(scale: float, gain: float) -> None:
    rng = np.random.default_rng(2)
    x = scale * rng.standard_normal((200, 2))
    expected = x.mean(axis=0) if gain == 0.0 or scale < 1 else x[np.argmax(x @ x.T, axis=1)]
    np.testing.assert_allclose(tree.softmax(x, x, x, None, gain)[0] / scale, expected / scale + 0 * x, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-45, 1e-52, 1e-60, 1e-120])
def test_tiny_keys_are_heard_by_huge_queries(scale: float) -> None:
    rng = np.random.default_rng(3)
    y, z = rng.standard_normal((3000, 2)), rng.standard_normal((100, 2))
    mean, log_total = tree.softmax(z / scale, y * scale, y * scale, None, 2.0)
    expected, total = dense.softmax(z, y, y, None, 2.0)
    np.testing.assert_allclose(mean / scale, expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(log_total, total, rtol=0, atol=1e-9)


def test_scores_that_overflow_are_handed_over() -> None:
    x = 1e180 * np.random.default_rng(0).standard_normal((200, 2))
    with np.errstate(over="ignore", invalid="ignore"):
        ours, theirs = tree.softmax(x, x, x, None, 1.0), fused.softmax(x, x, x, None, 1.0)
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert tree.name(x, x, 1.0) == "fused"


@pytest.mark.parametrize("d", [2, 3, 5])
def test_nodes_of_a_trie_hold_their_points(d: int) -> None:
    """Boxes and cells hold the points; cells of children are halves of those of their parents, or smaller."""
    rng = np.random.default_rng(d)
    x, masses = rng.standard_normal((2000, d)), rng.uniform(-40, 0, 2000)
    x[500:600] = x[500]
    made = tree_trie.trie(x, masses, np.full(d, -8.0), 8.0)
    np.testing.assert_array_equal(made.points[:, :2000].T, x[made.order])
    np.testing.assert_array_equal(np.sort(made.order), np.arange(2000))
    for v, (first, last, right, end) in enumerate(made.nodes.tolist()):
        inside, w = x[made.order[first:last]], 2.0 ** masses[made.order[first:last]]
        np.testing.assert_array_equal(made.boxes[v, : 2 * d], np.concatenate([inside.min(axis=0), inside.max(axis=0)]))
        np.testing.assert_allclose(made.boxes[v, 2 * d : 3 * d], w @ inside / w.sum(), atol=1e-12)
        np.testing.assert_allclose(made.boxes[v, 3 * d], np.log2(w.sum()), atol=1e-12)
        centre, half = made.cells[v, :d], made.cells[v, d:]
        assert (np.abs(inside - centre) <= half * (1 + 1e-12)).all()
        if right < 0:
            assert last - first <= tree_trie.LEAF
            assert end == v + 1
        else:
            for child in (v + 1, right):
                assert (np.abs(made.cells[child, :d] - centre) + made.cells[child, d:] <= half * (1 + 1e-12)).all()
            assert made.nodes[v + 1, 1] == made.nodes[right, 0]


@pytest.mark.parametrize("gain", [1e200, 1e300])
@pytest.mark.parametrize("scale", [1e10, 1e60, 1e99])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_gains_and_sizes_whose_product_overflows(d: int, scale: float, gain: float) -> None:
    x = np.random.default_rng(0).standard_normal((64, d)) * scale
    for q in (x, -x, 1e-3 * x, x[:3] / scale):
        # With such gains the top score alone counts.
        expected = x[np.argmax(q @ x.T, axis=1)]
        np.testing.assert_allclose(tree.softmax(q, x, x, None, gain)[0], expected, atol=1e-10 * scale)


@pytest.mark.parametrize(("n", "gain"), [(20_000, 10.0), (20_000, 300.0), (20_000, 1e4)])
def test_large_boxes_are_halved(n: int, gain: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums are right without that too, and take twenty times as long: boxes are counted, because times are noisy."""
    x, parts = disc(np.random.default_rng(0), n, 2), []
    walk = tree_walk.walk

    def watched(*args: Any) -> Any:
        left, doubts = walk(*args)
        if args[7]:  # the most queries that a box may have
            parts.append(left.boxes[:, 3:])
        return left, doubts

    monkeypatch.setattr(tree, "walk", watched)
    monkeypatch.setattr("numba.get_num_threads", lambda: 2)
    tree.softmax(x, x, x, None, gain)
    # A box that is not halved is handed on in parts, each with its first query and the one after its last.
    assert len(parts) == 3
    assert sum(map(len, parts[1:])) >= 2 * tree.TASKS
    assert not np.concatenate(parts).any()


@pytest.mark.parametrize("z", [0.1, 0.5, 1.0, 2.1])
@pytest.mark.parametrize("p", [8, 16])
def test_interpolation_errs_by_less_than_its_bound(p: int, z: float) -> None:
    """Of e^{z x y} and of its derivative, against the coefficient of degree p - 2, as `tree` says."""
    nodes, x = np.cos(np.pi * (np.arange(p) + 0.5) / p), np.linspace(-1, 1, 401)
    for y in (0.3, 0.8, 1.0):
        f = chebyshev.Chebyshev(chebyshev.chebfit(nodes, np.exp(z * y * nodes), p - 1))
        high = chebyshev.chebinterpolate(lambda t, y=y: np.exp(z * y * t), p + 8)  # type: ignore[misc]
        bound = abs(f.coef[p - 2]) * z * z / (8 * p * (p - 1))
        noise = 1e-14 * np.exp(z)
        assert np.abs(f(x) - np.exp(z * y * x)).max() <= 4.2 * bound + noise
        slope = np.abs(f.deriv()(x) - z * y * np.exp(z * y * x)).max()
        assert slope <= 2.6 * p * p * bound + p * p * noise
        assert abs(high[p]) <= 2.1 * bound + noise


def copies() -> Array:
    """Boxes of many queries that are not halved: each thread takes some of them."""
    return np.tile(np.random.default_rng(0).standard_normal((5, 2)), (4000, 1))


def one_narrow_cluster() -> Array:
    """Boxes of many queries that are not halved, and are done again."""
    rng = np.random.default_rng(0)
    return np.concatenate([0.03 * rng.standard_normal((7800, 3)), 3 * rng.standard_normal((200, 3))])


@pytest.mark.parametrize("beta", [1.0, 10.0, 50.0, 2e3])
@pytest.mark.parametrize("cloud", ["copies", "one narrow cluster", "normal", "heavy tails"])
def test_results_do_not_depend_on_the_number_of_threads(
    cloud: str, beta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {"copies": copies, "one narrow cluster": one_narrow_cluster}
    x = made[cloud]() if cloud in made else CLOUDS[cloud](np.random.default_rng(0), 20_000, 2)
    monkeypatch.setattr("numba.get_num_threads", lambda: 1)
    alone, few = tree.prepare(x, x, None, beta).hear(x), fused.softmax(x[:5], x, x, None, beta)
    for here, there in zip(alone, few, strict=True):
        np.testing.assert_allclose(here[:5], there, rtol=1e-10, atol=1e-9)
    for threads in (2, 3, 7):
        monkeypatch.setattr("numba.get_num_threads", lambda threads=threads: threads)
        for here, there in zip(alone, tree.prepare(x, x, None, beta).hear(x), strict=True):
            np.testing.assert_array_equal(here, there)


def test_what_is_no_number_stays_so() -> None:
    """A value that is infinite has no mean; the others have theirs."""
    x = np.random.default_rng(0).standard_normal((3000, 2))
    values = np.column_stack([np.r_[np.inf, np.zeros(2999)], np.ones(3000)])
    with np.errstate(invalid="ignore"):
        mean, _ = tree.prepare(x, values, None, 1.0).hear(x[:9])
    assert not np.isfinite(mean[:, 0]).any()
    np.testing.assert_allclose(mean[:, 1], 1.0)


@pytest.mark.parametrize("engine", ["tree", "separable", "fast", "fused"])
def test_no_queries_hear_nothing(engine: str) -> None:
    x = np.random.default_rng(0).standard_normal((20_000, 2))
    mean, log_total = module(engine).softmax(x[:0], x, x, None, 1.0)
    assert mean.shape == (0, 2)
    assert log_total.shape == (0,)
    assert tree.prepare(x, x, None, 1.0).hear(x[:0])[0].shape == (0, 2)
    line = x[:, :1].copy()
    assert tree.prepare(line, line, None, 1.0).hear(line[:0])[0].shape == (0, 1)
    assert tree.prepare(x, line, None, 1.0).hear(x[:0])[0].shape == (0, 1)
    assert fast.for_others(fast.plan(x, x, 1.0), x[:0], x, 1.0).work >= 0.0
    assert af.Entmax().hear(x[:0], sources=x, values=x).mean.shape == (0, 2)


@pytest.mark.parametrize("engine", ["fused", "separable", "tree", "fast", "blocked"])
def test_values_of_other_length_are_refused(engine: str) -> None:
    x = np.random.default_rng(0).standard_normal((10, 2))
    with refused("values have 3 rows, expected 10: one for each source"):
        module(engine).softmax(x, x, x[:3], None, 1.0)


@pytest.mark.parametrize("gain", [0.0, 1e-12, 1e-3, 5.0, 80.0, 2e3])
@pytest.mark.parametrize("cloud", ["normal", "disc", "heavy tails", "stragglers", "line", "corner"])
def test_expansions_are_within_the_tolerance(cloud: str, gain: float) -> None:
    """So many tokens that most of the work is done by expansions; in the last cloud all mass is in corners of cells."""
    rng, n = np.random.default_rng(1), 12_000
    if cloud == "corner":
        x = np.where(rng.random((n, 2)) < 0.5, 1.0, -1.0) * (1 - 10 ** rng.uniform(-4, -1, (n, 2)))
    else:
        x = CLOUDS[cloud](rng, n, 2)
        x /= np.quantile(np.linalg.norm(x, axis=1), 0.95)
    rows = np.arange(0, n, 301)
    assert assert_close(x, x, x, None, gain, rows) <= tree.TOLERANCE
    assert_close(x[::3] + 0.2, x, rng.standard_normal((n, 3)), rng.uniform(-9, 9, n), gain, np.arange(0, n // 3, 203))


@pytest.mark.parametrize("d", [2, 3])
def test_one_narrow_cluster_among_tokens_far_apart(d: int) -> None:
    """Boxes of a few sources beside others that are heard 2^1000 times as well."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = np.concatenate([1e-3 * rng.standard_normal((5803, d)), 3 * rng.standard_normal((200, d))])
        for gain in (20.0, 300.0):
            assert_close(x, x, x, None, gain, np.arange(0, len(x), 301))


def test_sources_are_prepared_once() -> None:
    rng = np.random.default_rng(0)
    x, v = rng.standard_normal((3000, 2)), rng.standard_normal((3000, 3))
    sources = tree.prepare(x, v, None, 20.0)
    for q in (x, x[:10] + 1.0, 3 * x[:1]):
        np.testing.assert_allclose(sources.hear(q)[0], dense.softmax(q, x, v, None, 20.0)[0], rtol=0, atol=1e-9)


def random_case(seed: int) -> tuple[Array, Array, Array, Array | None, float]:
    """Return queries, keys, values, masses and a gain of any kind."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 401)), int(rng.integers(1, 3))
    x = rng.standard_normal((n, d))
    kind = rng.integers(7)
    if kind == 1:
        x = rng.standard_t(2, (n, d))
    if kind == 2:
        x = 3 * rng.standard_normal((4, d))[rng.integers(4, size=n)] + 10.0 ** rng.uniform(-8, -1) * x
    if kind == 3:
        x = x[rng.integers(max(1, n // 10), size=n)]
    if kind == 4:
        x = np.outer(x[:, 0], rng.standard_normal(d))
    if kind == 5:
        x = rng.integers(-3, 4, (n, d)).astype(float)
    if kind == 6:
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    x *= 10.0 ** rng.uniform(-3, 3)
    size = float(np.abs(x).max()) or 1.0
    if rng.random() < 0.3:
        x = x + rng.standard_normal(d) * size * 10.0 ** rng.uniform(-1, 2)
    size = float(np.abs(x).max()) or 1.0
    q, turn = x, rng.random()
    if turn < 0.2:
        q = -x
    elif turn < 0.5:
        q = size * 10.0 ** rng.uniform(-1.5, 1) * rng.standard_normal((int(rng.integers(1, 200)), d))
    v = x if rng.random() < 0.6 else rng.standard_normal((n, int(rng.integers(1, 5))))
    log_masses = None if rng.random() < 0.5 else rng.uniform(-1, 1, n) * 10.0 ** rng.uniform(-1, 1.5)
    return q, x, v, log_masses, 10.0 ** rng.uniform(-5, 5) / size**2


@pytest.mark.parametrize("first", [0, *(pytest.param(300 + 1000 * k, marks=larger) for k in range(10))])
def test_random_clouds_against_long_doubles(first: int) -> None:
    for seed in range(first, first + (1000 if first else 300)):
        q, k, v, log_masses, gain = random_case(seed)
        rows = np.arange(0, len(q), 1 + len(q) // 12)
        mean, log_total = tree.softmax(q, k, v, log_masses, gain)
        s = gain * (q[rows].astype(np.longdouble) @ k.T.astype(np.longdouble))
        s += 0.0 if log_masses is None else log_masses
        top, centre = s.max(axis=1, keepdims=True), v.mean(axis=0)
        w = np.exp(s - top)
        expected = centre + (w @ (v - centre)) / w.sum(axis=1)[:, None]
        exponents = rounding(q, k, gain)
        bound = diameter(v) * (tree.TOLERANCE + min(1.0, 8 * exponents)) + 1e-13 * np.abs(v).max()
        assert np.abs(mean[rows] - expected).max() <= bound, seed
        logs = top[:, 0] + np.log(w.sum(axis=1))
        close = 2 * tree.TOLERANCE + 8 * exponents + 1e-13 * np.abs(logs).max()
        assert np.abs(log_total[rows] - logs).max() <= close, seed
