"""Limits of the rescaled flow: the polytope, hyperplanes, products and the codimension conjecture."""

import json
import os
from typing import Any

import numpy as np
import pytest
from experiments import experiment
from refusals import refused

import attnflow as af
from attnflow.claims.check import decide
from attnflow.claims.emergence import codimension, projections
from attnflow.claims.emergence.codimension import left_space
from attnflow.claims.emergence.limits import Settled, attention, frame_of, settled
from attnflow.claims.emergence.settling import Discounted, Frame, final, leaders, rows
from attnflow.claims.emergence.symmetry import Group
from attnflow.claims.experiment import Experiment
from attnflow.claims.instances import read

FLIP: Any = [{"matrix": [[-1.0]], "permutation": [2, 1, 0]}]
TRIPLE: Any = {"tokens": [[-1.0], [0.0], [1.0]], "symmetry": FLIP}
KITE = [[2.0, 0.1], [-1.3, 1.6], [-1.1, -1.9], [0.4, 0.3]]


def mirrors(n_axis: int) -> list[dict[str, Any]]:
    """Return the symmetry of (+-1, 0), (0, +-s)."""
    first = {"matrix": [[-1.0, 0.0], [0.0, 1.0]], "permutation": [1, 0, 2, 3]}
    second = {"matrix": [[1.0, 0.0], [0.0, -1.0]], "permutation": [0, 1, 3, 2]}
    return [first, second][:n_axis]


def test_the_symmetric_triple_refutes_the_rank() -> None:
    verdict = af.check("emergence/polytope/rank", **TRIPLE)
    assert (verdict.outcome, verdict.certified) == ("violated", "ball")
    assert verdict.margin == pytest.approx(-1 / 3)
    assert af.check("emergence/polytope/rank", **TRIPLE, until=24.0).outcome == "violated"
    assert af.check("emergence/polytope/rank/repaired", **TRIPLE).outcome == "hypotheses not met"
    assert json.dumps(verdict.instance["symmetry"])


def test_the_middle_row_of_the_triple() -> None:
    claim = af.claims.get("emergence/polytope/rank")
    instance = read(claim, TRIPLE)
    e = Experiment(instance, *claim.setting.model(instance))
    found = settled(e, frame_of(e))
    assert isinstance(found, Settled)
    P = attention(e, found)
    assert np.allclose(P, [[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.0, 0.0, 1.0]], atol=1e-12)


def test_without_reduction_the_tie_is_undecided() -> None:
    assert af.check("emergence/polytope/rank", tokens=TRIPLE["tokens"]).outcome == "undecided"


def test_tokens_that_lack_the_symmetry_do_not_meet_the_hypotheses() -> None:
    verdict = af.check("emergence/polytope", tokens=[[-1.0], [0.2], [1.0]], symmetry=FLIP)
    assert verdict.outcome == "hypotheses not met"
    assert "symmetry" in verdict.because


def test_the_polytope_of_a_kite() -> None:
    assert af.check("emergence/polytope", tokens=KITE).outcome == "holds"
    assert af.check("emergence/polytope", tokens=KITE, until=24.0).outcome == "holds"
    # Leaders are not final yet: nothing is said of the limit.
    assert af.check("emergence/polytope", tokens=KITE, until=1.0).outcome == "undecided"
    assert af.check("emergence/polytope", tokens=KITE, B=[[1.0, 0.5], [0.0, 1.0]]).outcome == "hypotheses not met"


def test_tokens_on_one_side_end_at_one_point() -> None:
    far = np.array([[10.0, 0.0]]) + 0.3 * np.array(KITE)
    assert af.check("emergence/polytope", tokens=far).outcome == "holds"
    verdict = af.check("emergence/polytope/rank/repaired", tokens=far)
    assert verdict.outcome == "holds"


def test_leaders_are_final_only_if_they_stay_ahead() -> None:
    frame = Frame(np.eye(2), np.eye(2), 1.0, Group.generated(None, 4, 2))
    found = final(np.array(KITE), frame, 6.0)
    assert found is not None
    assert rows(found.heard)[3].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert np.allclose(found.limit[3], KITE[0], atol=1e-12)
    assert final(np.array(KITE), frame, 0.0) is None
    tied = np.array([[1.0, 1.0], [-1.0, 1.0], [0.0, 1.0]])
    assert final(tied, Frame(np.eye(2), np.eye(2), 1.0, Group.generated(None, 3, 2)), 6.0) is None


def test_symmetric_leaders_tie_exactly() -> None:
    swap = [{"matrix": [[-1.0, 0.0], [0.0, 1.0]], "permutation": [1, 0, 2]}]
    group = Group.generated(swap, 3, 2)
    x = np.array([[1.0, 1.0], [-1.0, 1.0], [0.0, 0.5]])
    found = final(x, Frame(np.eye(2), np.eye(2), 1.0, group), 6.0)
    assert found is not None
    assert np.allclose(found.limit[2], [0.0, 1.0])
    assert leaders(x, Frame(np.eye(2), np.eye(2), 1.0, group))[2].tolist() == [True, True, False]


@pytest.mark.parametrize("eps", [0.5, 1.0, 2.0])
def test_the_pair_does_not_collapse(eps: float) -> None:
    verdict = af.check("emergence/polytope/pair", tokens=[[1.0, eps], [1.0, -eps]], until=16.0)
    assert (verdict.outcome, verdict.certified) == ("violated", "ball")
    if eps == 1.0:
        assert -verdict.margin == pytest.approx(0.9483, abs=5e-5)


def test_a_small_pair_only_looks_collapsed() -> None:
    assert af.check("emergence/polytope/pair", tokens=[[1.0, 0.1], [1.0, -0.1]]).outcome == "undecided"
    assert af.check("emergence/polytope/pair", tokens=[[1.0, 0.1], [1.0, 0.1]]).outcome == "hypotheses not met"
    assert af.check("emergence/polytope/pair", tokens=[[1.0, 0.1]]).outcome == "hypotheses not met"


V2 = [[0.64709742, 0.81911926], [0.61210449, 0.63263484]]
V3 = [[0.2362413, 0.0599536, 0.40506019], [0.81321448, 0.49948705, 0.33754772], [0.2160645, 0.38505272, 0.14588075]]


@pytest.mark.parametrize("V", [V2, V3])
def test_hyperplanes_of_the_figures(V: Any) -> None:
    x = af.tokens.uniform(n=10, d=len(V), seed=1, low=-3, high=3)
    assert af.check("emergence/hyperplanes", tokens=x, V=V, until=20.0).outcome == "holds"
    assert af.check("emergence/hyperplanes", tokens=x, V=V, until=2.0).outcome == "undecided"


def test_one_sign_one_hyperplane_and_a_token_at_zero() -> None:
    V = [[1.0, 0.0], [0.0, 0.2]]
    positive = np.abs(af.tokens.gaussian(n=6, d=2, seed=0)) + 0.3
    assert af.check("emergence/hyperplanes", tokens=positive, V=V, until=20.0).outcome == "holds"
    x = [[1.0, 0.3], [-1.0, 0.3], [0.0, 0.8], [0.0, -0.4]]
    mirror = [{"matrix": [[-1.0, 0.0], [0.0, 1.0]], "permutation": [1, 0, 2, 3]}]
    assert af.check("emergence/hyperplanes", tokens=x, V=V, until=20.0, symmetry=mirror).outcome == "holds"


@pytest.mark.parametrize("V", [[[1.0, 0.0], [0.0, 1.0]], [[0.0, -1.0], [1.0, 0.0]], [[-1.0, 0.0], [0.0, 0.5]]])
def test_hyperplanes_need_a_dominant_eigenvalue(V: Any) -> None:
    verdict = af.check("emergence/hyperplanes", tokens=KITE, V=V, until=20.0)
    assert verdict.outcome == "hypotheses not met"
    assert "lambda_1" in verdict.because


def test_hyperplanes_need_a_positive_form_along_the_eigenvector() -> None:
    verdict = af.check("emergence/hyperplanes", tokens=KITE, V=[[1.0, 0.0], [0.0, 0.2]], B=-np.eye(2), until=20.0)
    assert verdict.outcome == "hypotheses not met"


def test_the_product_of_the_figure() -> None:
    x = af.tokens.uniform(n=10, d=3, seed=2, low=-3, high=3)
    V = np.diag([1.0, 1.0, -0.5])
    assert af.check("emergence/polytope-times-subspace", tokens=x, V=V, until=26.0).outcome == "holds"
    # Leaders are final by then, but (lambda - rho) t = 10 is too early.
    assert af.check("emergence/polytope-times-subspace", tokens=x, V=V, until=20.0).outcome == "undecided"
    assert af.check("emergence/polytope-times-subspace/projected", tokens=x, V=V, until=26.0).outcome == "holds"


def test_a_form_that_mixes_the_spaces_refutes_the_projected_theorem() -> None:
    """On F the form B is diag(10, 1), and the square of the part of A in F is the identity."""
    B = [[10.0, 0.0, 33.0], [0.0, 1.0, 0.0], [33.0, 0.0, 109.0]]
    given: Any = {"tokens": [[2.0, 2.0, 0.0], [1.6, 5.0, 0.0]], "B": B, "V": np.diag([1.0, 1.0, 0.0]), "until": 14.0}
    verdict = af.check("emergence/polytope-times-subspace/projected", **given)
    assert (verdict.outcome, verdict.certified) == ("violated", "ball")
    assert af.check("emergence/polytope-times-subspace", **given).outcome == "holds"


def test_a_symmetry_up_to_rounding_proves_nothing() -> None:
    """The centre is then only near 0, and would be left in the end."""
    moved: Any = {"tokens": [[-1.0], [1e-15], [1.0]], "symmetry": FLIP}
    verdict = af.check("emergence/polytope/rank", **moved)
    assert (verdict.outcome, verdict.certified) == ("violated", "float")


@pytest.mark.skipif("ATTNFLOW_EXAMPLES" not in os.environ, reason="long, and test_search has seeds: make test-all")
@pytest.mark.parametrize(
    "id",
    [
        "polytope/rank",
        "polytope/pair",
        "polytope-times-subspace/projected",
        "codimension-k/a",
        "codimension-k/b",
        "codimension-k/c",
    ],
)
def test_samples_refute_what_is_false_as_printed_and_longer_runs_confirm(id: str) -> None:
    claim = af.claims.get(f"emergence/{id}")
    for k in range(40):
        instance = read(claim, claim.setting.sample(np.random.default_rng([0, k]), k))
        longer = {**instance, "until": 2 * instance["until"]}
        if all(decide(claim, one).outcome == "violated" for one in (instance, longer)):
            return
    pytest.fail("no counterexample")


def test_four_mirrored_limits() -> None:
    # (+-1, 0) and (0, +-1): the second pair has first coordinate 0 for ever, and four limits.
    given: Any = {"tokens": [[2.0, 0.0], [-2.0, 0.0], [0.0, 2.0], [0.0, -2.0]], "V": np.diag([1.0, 0.8]), "until": 16.0}
    verdict = af.check("emergence/codimension-k/c", **given, symmetry=mirrors(2))
    assert (verdict.outcome, verdict.certified) == ("violated", "ball")
    assert "no symmetry is imposed" in verdict.because
    assert af.check("emergence/codimension-k/repaired", **given, symmetry=mirrors(2)).outcome == "hypotheses not met"


def test_a_square_refutes_the_conjecture_for_equal_eigenvalues() -> None:
    given: Any = {"tokens": [[2.0, 0.1], [-0.2, 2.0], [-2.1, 0.0], [0.0, -2.2]], "V": np.eye(2), "until": 14.0}
    verdict = af.check("emergence/codimension-k/b", **given)
    assert (verdict.outcome, verdict.certified) == ("violated", "ball")
    assert af.check("emergence/codimension-k/c", **given).outcome == "hypotheses not met"


def test_a_neutral_coordinate_never_moves() -> None:
    x = [[2.0, 0.1], [-0.2, 2.0], [-2.1, 0.0], [1.0, -2.2]]
    given: Any = {"tokens": x, "V": np.diag([1.0, 0.0]), "until": 14.0}
    verdict = af.check("emergence/codimension-k/a", **given)
    assert (verdict.outcome, verdict.certified) == ("violated", "ball")
    assert af.check("emergence/codimension-k/b", **given).outcome == "holds"


def test_runs_that_are_too_short_are_undecided() -> None:
    x = af.tokens.gaussian(n=6, d=2, seed=0)
    for id in ("a", "b", "c", "repaired"):
        verdict = af.check(f"emergence/codimension-k/{id}", tokens=x, V=np.diag([1.0, 0.8]), until=3.0)
        assert verdict.outcome == "undecided"


def test_the_slowest_coordinate_must_have_had_its_time() -> None:
    x = [[1.8, 0.2], [-1.6, 0.4], [-0.5, -0.2], [0.9, 0.4], [0.7, -0.1]]
    given: Any = {"tokens": x, "V": [[1.0, 0.1], [0.0, 0.9]], "B": [[1.0, 0.2], [0.2, 0.8]]}
    assert af.check("emergence/codimension-k/c", **given, until=14.0).outcome == "holds"
    assert af.check("emergence/codimension-k/c", **given, until=13.0).outcome == "undecided"


def test_left_spaces_are_invariant() -> None:
    V = np.random.default_rng(0).standard_normal((5, 5))
    L, C = left_space(V, neutral=False)
    assert len(L) == (np.linalg.eigvals(V).real > 0).sum()
    assert np.allclose(L @ V, C @ L)


def test_the_discounted_flow_is_the_flow() -> None:
    V = np.array([[1.0, 0.3], [0.0, 0.4]])
    x = np.array(KITE) / 2
    plain = af.simulate(x, af.Softmax(), af.Flow(V=V, rtol=1e-11), until=2.0).final
    y = af.simulate(x, af.Softmax(), Discounted(V=V, growth=1.0, rtol=1e-11), until=2.0)
    assert np.allclose(np.exp(2.0) * y.final, plain, rtol=1e-8)
    assert y.motion is not None
    assert np.allclose(y.motion.seen(y.final, 2.0), plain, rtol=1e-8)


@pytest.mark.parametrize("V", [None, [[1.0]], lambda t: np.eye(2)])
def test_values_that_do_not_fit_are_refused(V: Any) -> None:
    with refused(r"V has shape|constant V|needs V"):
        af.check("emergence/hyperplanes", tokens=KITE, V=V)


def test_roots_are_those_of_matrices_that_are_proved_to_be_positive() -> None:
    from attnflow.claims.emergence.proofs import square_root

    assert square_root(np.array([[-1.0]])) is None
    assert square_root(np.array([[1.0, 0.5], [0.0, 1.0]])) is None
    root = square_root(np.array([[2.0, 1.0], [1.0, 2.0]]))
    assert root is not None
    np.testing.assert_allclose((root @ root).astype(float), [[2.0, 1.0], [1.0, 2.0]], atol=1e-14)


def test_without_a_growing_eigenvalue_nothing_is_known_of_limits() -> None:
    x, shrinking = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]], -np.eye(2)
    e = experiment("emergence/codimension-k/b", tokens=x, V=shrinking, until=1.0)
    assert codimension._subspaces(e, neutral=False).undecided is codimension.NO_GROWTH
    e = experiment("emergence/hyperplanes", tokens=x, V=shrinking, until=1.0)
    assert projections.along(e) is None
    assert projections.ends_along(e) is projections.NO_SPACE
    assert projections.NO_SPACE in [one.undecided for one in list(projections.hyperplanes(e))]
