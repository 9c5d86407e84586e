"""The laws of nature of attention sums, and independence of the number of threads: one suite for every engine.

Each case is an engine on tokens and a parameter for which it does the work itself. Queries, keys and values are first
one array, as tokens that hear each other are, and then three, with masses.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from attnflow.engines import ENGINES, SOFTMAX, module

pytestmark = pytest.mark.usefixtures("all_threads")

Array = NDArray[np.float64]
# Means and, for engines that have them, logarithms of totals or top scores.
Sums = tuple[Array, Array | None]


class Case(NamedTuple):
    """An engine, the kind of its sums, the number of tokens and their dimension, and a gain, a slack or a radius."""

    engine: str
    kind: str
    n: int
    d: int
    size: float
    served_by: str = ""

    def __call__(self, q: Array, k: Array, v: Array, w: Array) -> Sums:
        """Return the sums of the engine."""
        sums = module(self.engine)
        if self.kind == "softmax":
            with np.errstate(divide="ignore"):
                mean, log_total = sums.softmax(q, k, v, None if (w == 1).all() else np.log(w), self.size)
            return mean, log_total
        if self.kind == "top":
            mean, best, _ = sums.top(q, k, v, w, np.full(len(q), self.size), 0.0)
            return mean, best
        return sums.ball(q, k, v, w, self.size), None

    @property
    def tolerance(self) -> float:
        """What means may differ by, of the diameter of the values: rounding, or twice what the engine promises."""
        return 2e-10 if self.engine in ("separable", "tree", "fast") else 1e-12


CASES = [
    Case("dense", "softmax", 90, 2, 4.0),
    Case("dense", "softmax", 60, 40, 1.0),
    Case("fused", "softmax", 150, 2, 4.0),  # pairs in the plane, by one core
    Case("fused", "softmax", 1900, 2, 4.0),  # by all
    Case("fused", "softmax", 200, 2, 300.0),  # exponents that need a shift
    Case("fused", "softmax", 200, 3, 4.0),
    Case("blocked", "softmax", 333, 12, 2.0),
    Case("separable", "softmax", 700, 1, 3.0, "separable"),
    Case("separable", "softmax", 700, 2, 3.0, "separable"),
    Case("separable", "softmax", 400, 3, 0.5, "separable"),
    Case("tree", "softmax", 900, 2, 300.0, "tree"),
    Case("tree", "softmax", 700, 3, 300.0, "tree"),
    Case("fast", "softmax", 200, 2, 1.0, "fused"),
    Case("fast", "softmax", 6000, 2, 0.5, "separable"),
    Case("fast", "softmax", 6000, 2, 3000.0, "tree"),
    Case("dense", "top", 90, 2, 0.0),
    Case("dense", "top", 90, 2, 0.5),
    Case("fused", "top", 300, 3, 0.0),
    Case("fused", "top", 300, 2, 0.5),
    Case("vertices", "top", 300, 1, 0.0),
    Case("vertices", "top", 3000, 2, 0.0),
    Case("vertices", "top", 1000, 3, 0.0),
    Case("dense", "ball", 90, 2, 0.7),
    Case("fused", "ball", 300, 2, 0.7),
    Case("neighbours", "top", 300, 1, 0.5),
    Case("neighbours", "top", 3000, 2, 0.5),
    Case("neighbours", "ball", 3000, 2, 0.2),
    Case("neighbours", "ball", 500, 3, 0.7),
]


class Tokens(NamedTuple):
    """Queries (m, d), keys (n, d), values (n, c) and masses (n,)."""

    q: Array
    k: Array
    v: Array
    w: Array


@cache
def tokens(case: Case, apart: bool) -> tuple[Tokens, Sums]:
    """Return tokens and what the engine finds; queries, keys and values are one array unless they are `apart`."""
    rng = np.random.default_rng(case.n + case.d)
    x = rng.standard_normal((case.n, case.d))
    given = Tokens(x, x, x, np.ones(case.n))
    if apart:
        # Queries of a ball hear at least the key that they are near to.
        q = x[::2] + 0.1 if case.kind == "ball" else rng.standard_normal((case.n // 2, case.d))
        given = Tokens(q, x, rng.standard_normal((case.n, 3)), rng.uniform(0.2, 5.0, case.n))
    return given, case(*given)


@pytest.fixture(params=CASES, ids=lambda case: "-".join(map(str, case)).rstrip("-"))
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(params=[False, True], ids=["among themselves", "apart"])
def known(request: pytest.FixtureRequest, case: Case) -> tuple[Tokens, Sums]:
    return tokens(case, request.param)


def agree(case: Case, given: Tokens, found: Sums, expected: Sums) -> None:
    """Compare means in units of the diameter of the values, and totals."""
    diameter = float(np.linalg.norm(np.ptp(given.v, axis=0)))
    np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=case.tolerance * diameter)
    if found[1] is not None and expected[1] is not None:
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-12, atol=2 * case.tolerance)


def test_every_engine_is_here_and_does_the_work_itself() -> None:
    assert {case.engine for case in CASES} == {*ENGINES, *SOFTMAX, "vertices", "neighbours"}
    for case in CASES:
        given, _ = tokens(case, False)
        if case.served_by:
            assert module(case.engine).name(given.q, given.k, case.size) == case.served_by


def test_rows_are_convex_combinations(case: Case, known: tuple[Tokens, Sums]) -> None:
    """No mean is farther in any direction than all values are, and what is the same for all sources stays so."""
    given, (mean, _) = known
    directions = np.random.default_rng(0).standard_normal((50, given.v.shape[1]))
    room = case.tolerance * float(np.linalg.norm(np.ptp(given.v, axis=0))) * np.linalg.norm(directions, axis=1)
    assert ((mean @ directions.T).max(axis=0) <= (given.v @ directions.T).max(axis=0) + room).all()
    same, _ = case(given.q, given.k, np.full((len(given.k), 2), 0.7), given.w)
    np.testing.assert_allclose(same, 0.7, rtol=0, atol=case.tolerance)


def test_order_of_sources_and_queries(case: Case, known: tuple[Tokens, Sums]) -> None:
    """Sources in another order give the same sums; queries in another order give them in this order."""
    given, (mean, total) = known
    order = np.random.default_rng(1).permutation(len(given.k))
    k, v, w = given.k[order], given.v[order], given.w[order]
    if given.q is given.k:
        agree(case, given, case(k, k, k, w), (mean[order], None if total is None else total[order]))
    else:
        rows = np.random.default_rng(2).permutation(len(given.q))
        agree(case, given, case(given.q[rows], k, v, w), (mean[rows], None if total is None else total[rows]))


def test_each_row_depends_on_its_query_alone(case: Case, known: tuple[Tokens, Sums]) -> None:
    given, (mean, total) = known
    some = slice(3, len(given.q), 5)
    found = case(given.q[some].copy(), given.k, given.v, given.w)
    agree(case, given, found, (mean[some], None if total is None else total[some]))


def test_a_shift_of_the_keys_shifts_scores_alone(case: Case, known: tuple[Tokens, Sums]) -> None:
    """e^{g <q, k + c>} = e^{g <q, c>} e^{g <q, k>}; distances stay if queries are shifted too."""
    given, (mean, total) = known
    c = np.cos(np.arange(1.0, given.k.shape[1] + 1))
    if case.kind == "ball":
        agree(case, given, case(given.q + c, given.k + c, given.v, given.w), (mean, None))
        return
    assert total is not None
    rise = given.q @ c * (case.size if case.kind == "softmax" else 1.0)
    agree(case, given, case(given.q, given.k + c, given.v, given.w), (mean, total + rise))


def test_a_rotation_of_queries_and_keys_changes_nothing(case: Case, known: tuple[Tokens, Sums]) -> None:
    given, sums = known
    d = given.k.shape[1]
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((d, d)))[0]
    k = given.k @ turn.T
    q = k if given.q is given.k else given.q @ turn.T
    agree(case, given, case(q, k, given.v, given.w), sums)


def test_means_are_linear_in_the_values(case: Case, known: tuple[Tokens, Sums]) -> None:
    given, (mean, total) = known
    found, again = case(given.q, given.k, 2.0 * given.v[:, ::-1] - 3.0, given.w)
    agree(case, given, (found / 2.0 + 1.5, again), (mean[:, ::-1], total))


def test_copies_count_as_masses(case: Case, known: tuple[Tokens, Sums]) -> None:
    """A source of mass w may be split into copies whose masses sum to w, with values whose weighted mean is its own."""
    given, (mean, total) = known
    rng = np.random.default_rng(4)
    copies = np.repeat(np.arange(len(given.k)), rng.integers(1, 4, len(given.k)))
    shares = rng.uniform(0.5, 1.0, len(copies))
    shares /= np.bincount(copies, weights=shares)[copies]
    k, w = given.k[copies], given.w[copies] * shares
    if given.q is given.k:
        found = case(k, k, k, w)
        agree(case, given, found, (mean[copies], None if total is None else total[copies]))
    else:
        noise = rng.standard_normal((len(copies), given.v.shape[1]))
        noise -= np.stack([np.bincount(copies, weights=shares * column) for column in noise.T], axis=1)[copies]
        agree(case, given, case(given.q, k, given.v[copies] + noise, w), (mean, total))


def test_sources_without_mass_are_absent(case: Case, known: tuple[Tokens, Sums]) -> None:
    """Also those that would have had the top scores."""
    given, _ = known
    if case.kind == "ball":
        pytest.skip("a law gives every token in a ball a mass")
    w = np.where(np.linalg.norm(given.k, axis=1) < 1.2 * np.sqrt(case.d), given.w, 0.0)
    here = w > 0
    expected = case(given.q, given.k[here], given.v[here], w[here])
    agree(case, given, case(given.q, given.k, given.v, w), expected)


def test_given_arrays_stay_as_they_are_in_any_layout(case: Case, known: tuple[Tokens, Sums]) -> None:
    given, sums = known
    if case.kind != "softmax":
        pytest.skip("sums over neighbours would be compiled once more for each layout")
    strided = [np.repeat(np.asfortranarray(part), 2, axis=0)[::2] for part in given]
    for part in strided:
        part.setflags(write=False)
    q, k, v, w = strided
    found = case(k if given.q is given.k else q, k, k if given.v is given.k else v, w)
    agree(case, given, found, sums)


def test_no_bit_depends_on_the_number_of_threads(case: Case, known: tuple[Tokens, Sums]) -> None:
    given, sums = known
    most = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        alone = case(*given)
    finally:
        numba.set_num_threads(most)
    assert alone[0].tobytes() == sums[0].tobytes()
    assert alone[1] is None or sums[1] is None or alone[1].tobytes() == sums[1].tobytes()


@pytest.mark.parametrize("gain", [1e6, 1e200, 1e308, np.inf])
@pytest.mark.parametrize("engine", [*ENGINES, *SOFTMAX])
def test_huge_gains_leave_the_mean_of_the_top_scores(engine: str, gain: float) -> None:
    """Whole coordinates, whose scores are exact, so that ties are ties."""
    rng = np.random.default_rng(0)
    k = rng.integers(-3, 4, (300, 2)).astype(float)
    for q in (k, rng.integers(-3, 4, (40, 2)).astype(float)):
        mean, _ = module(engine).softmax(q, k, k, None, gain)
        expected, _, _ = module("dense").top(q, k, k, np.ones(300), np.zeros(len(q)), 0.0)
        np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("lightest", [-60.0, -300.0, -345.0, -1400.0, -np.inf])
@pytest.mark.parametrize("engine", [*ENGINES, *SOFTMAX])
def test_the_lightest_source_may_decide_a_row(engine: str, lightest: float) -> None:
    """The last token scores the others so low that it hears itself alone, however light it is, unless it is absent."""
    rng = np.random.default_rng(5)
    x = np.concatenate([np.tile([20.0, 0.0], (99, 1)), [[-20.0, 0.0]]])
    v, log_masses = rng.standard_normal((100, 2)), np.append(np.zeros(99), lightest)
    expected = v[99] if lightest > -np.inf else v[:99].mean(axis=0)
    for queries in (x, x.copy()):
        for gain in (3.0, 1e3):
            mean, _ = module(engine).softmax(queries, x, v, log_masses, gain)
            np.testing.assert_allclose(mean[99], expected, rtol=0, atol=1e-9)
