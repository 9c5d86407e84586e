"""Claims of the Frank-Wolfe paper on cells: convexity, Voronoi cells, owners of their cells."""

import math
from typing import Any

import numpy as np
import pytest
from experiments import experiment
from frank_wolfe_instances import ALL, INSIDE, TRIANGLE, lattice
from scipy.stats import norm

import attnflow as af
from attnflow.claims import Experiment, exact, get
from attnflow.claims.frank_wolfe import cells


def strict_and_weak_owners(x: Any, B: Any) -> tuple[list[int], list[bool], list[bool]]:
    """Return the vertices, and whether each is above all others, or at least as high, by brute force."""
    points = exact.rational(x)
    form = exact.rational(B)
    rows = [i for i in range(len(x)) if exact.separated(np.delete(points, i, axis=0), points[i]) is not None]
    G = points[rows] @ form.T @ points[rows].T
    strict = [all(row[j] < row[i] for j in range(len(rows)) if j != i) for i, row in enumerate(G)]
    weak = [all(row[j] <= row[i] for j in range(len(rows)) if j != i) for i, row in enumerate(G)]
    return rows, strict, weak


def test_own_cells_of_lattices_by_brute_force() -> None:
    outcomes = []
    for seed in range(240 if ALL else 96):
        rng = np.random.default_rng(seed)
        d = 1 + seed % 3
        x = lattice(rng, d)
        A = rng.integers(-2, 3, (d, d))
        B = (A @ A.T + np.eye(d)).astype(float) if seed % 4 == 0 else np.eye(d)
        rows, strict, weak = strict_and_weak_owners(x, B)
        printed, repaired = (af.check(f"fw/{name}", tokens=x, B=B) for name in ("own-cell", "own-cell/repaired"))
        if (x[rows] == 0).all(axis=1).any():
            assert printed.outcome == repaired.outcome == "hypotheses not met"
            assert printed.because == "v_i != 0 fails at step 0"
            continue
        assert (repaired.outcome, repaired.certified) == ("holds", "exact"), seed
        assert printed.outcome == ("holds" if strict == weak else "violated"), seed
        outcomes.append(printed.outcome)
    assert len(outcomes) / 10 < outcomes.count("violated") < 0.9 * len(outcomes)


def test_own_cells_ask_for_a_positive_form() -> None:
    assert af.check("fw/own-cell/repaired", tokens=INSIDE, B=[[1.0, 0.0], [0.0, -1.0]]).outcome == "hypotheses not met"
    assert af.check("fw/own-cell/repaired", tokens=INSIDE, B=[[1.0, 0.0], [0.0, 0.0]]).outcome != "holds"


def test_cells_of_an_indefinite_form() -> None:
    assert af.check("fw/cells", tokens=INSIDE, B=[[1.0, 2.0], [-3.0, -1.0]]).outcome == "holds"
    # Minus a direction: where everything ties, several cells meet, and only a positive form separates them.
    assert af.check("fw/cells", tokens=INSIDE, B=np.zeros((2, 2))).outcome == "holds"


class Folded(af.Hardmax):
    """Hardmax of |<x, y>|: its cells are pairs of opposite cones."""

    def log_weights(self, x: Any, t: float = 0, *, sources: Any = None, masses: Any = None) -> Any:
        scores = np.abs(x @ (x if sources is None else sources).T)
        with np.errstate(divide="ignore"):
            return np.log((scores == scores.max(axis=1, keepdims=True)).astype(float))


def test_cells_that_are_not_convex_or_overlap_are_seen() -> None:
    square = [[1.0, 1.1], [-1.0, 1.0], [-1.2, -1.0], [1.0, -1.3]]
    e = experiment("fw/cells", tokens=square)
    right = get("fw/cells").conclusion(e)
    assert [m.held.all() for m in right] == [True] * 3  # type: ignore[union-attr]
    folded = get("fw/cells").conclusion(Experiment(e.instance, Folded(), e.motion))
    assert folded[1].failed.any()  # type: ignore[index]
    everyone = get("fw/cells").conclusion(Experiment(e.instance, af.Softmax(), e.motion))
    assert everyone[2].failed.all()  # type: ignore[index]


def test_voronoi_cells() -> None:
    assert af.check("fw/voronoi", tokens=TRIANGLE).outcome == "holds"
    s = np.array([-1.0, -0.2, 0.4, 1.1])
    branch = np.column_stack([np.cosh(s), np.sinh(s)])  # all of energy 1/2 for x^2 - y^2
    assert af.check("fw/voronoi", tokens=branch, B=[[1.0, 0.0], [0.0, -1.0]]).outcome == "holds"
    wrong = af.check("fw/voronoi", tokens=branch, B=[[1.0, 0.0], [0.0, -1.0]], law=af.Hardmax(ties="points"))
    assert wrong.outcome == "violated"


@pytest.mark.parametrize(
    ("instance", "because"),
    [
        ({"tokens": [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], "B": [[1.0, 1.0], [-1.0, 1.0]]}, "B = B^T fails at step 0"),
        ({"tokens": [[3.0, 1.0], [-1.0, 1.0], [0.0, 0.0]]}, "all J(v_i) are equal fails at step 0"),
    ],
)
def test_voronoi_cells_ask_for_symmetry_and_equal_energies(instance: dict[str, Any], because: str) -> None:
    verdict = af.check("fw/voronoi", **instance)
    assert verdict.outcome == "hypotheses not met"
    assert verdict.because.startswith(because)


@pytest.mark.parametrize(("d", "p"), [(1, 0.25), (2, 0.146447), (3, 0.090845)])
def test_probability_that_a_gaussian_pair_fails(d: int, p: float) -> None:
    assert cells.failure_bound(2, d, 1.0, 1.0) / 2 == pytest.approx(p, abs=1e-6)
    assert cells.failure_bound(5, d, 1.0, 1.0) == pytest.approx(20 * p, abs=2e-5)
    x, y = np.random.default_rng(d).standard_normal((2, 200_000, d))
    fails = ((x * y).sum(axis=1) >= (x * x).sum(axis=1)).mean()
    assert abs(fails - p) < 5 * math.sqrt(p / 200_000)


def test_the_gaussian_bound_for_other_spectra() -> None:
    x, B = np.random.default_rng(0).standard_normal((100_000, 3)), np.diag([0.2, 0.6, 1.0])
    given = norm.sf(((x @ B) * x).sum(axis=1) / np.linalg.norm(x @ B, axis=1)).mean()
    assert given < cells.failure_bound(2, 3, 0.2, 1.0) / 2 < 4 * given
    assert cells.failure_bound(2, 3, 0.2, 1.0) > cells.failure_bound(2, 3, 1.0, 1.0)


def test_gaussian_draws_are_those_of_the_form() -> None:
    e = experiment("fw/gaussian-own-cell/explicit", k=2, d=3, low=0.2, high=1.0, runs=4000)
    x, y = np.random.default_rng(7).standard_normal((2, 20_000, 3)) * np.sqrt([0.2, 0.6, 1.0])
    own = ((x * x).sum(axis=1) > (x * y).sum(axis=1)) & ((y * y).sum(axis=1) > (x * y).sum(axis=1))
    assert abs(cells.owners(e, 3) / 4000 - own.mean()) < 0.04


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (1.0, 0.5), (0.0, 1.0)])
def test_gaussian_spectra_are_bounded(low: float, high: float) -> None:
    verdict = af.check("fw/gaussian-own-cell", low=low, high=high)
    assert (verdict.outcome, verdict.because) == ("hypotheses not met", "0 < low <= high fails at step 0")
