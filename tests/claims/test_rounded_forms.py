"""Forms that are symmetric up to the rounding of K.T @ Q are judged as their symmetric part, and verdicts say so."""

import os
from typing import Any

import numpy as np
import pytest

import attnflow as af
from attnflow.claims import Experiment, exact
from attnflow.claims.hypotheses import OF_SYMMETRIC_FORMS
from attnflow.core.inputs import Array
from attnflow.geometry import forms

ABOUT_SYMMETRIC = [c.id for c in af.claims.all() if OF_SYMMETRIC_FORMS.intersection(c.given.values())]
SAID = "B differs from its transpose by"
PLANE = np.array([[1.5, 0.2], [-1.0, 1.1], [-0.4, -1.3], [0.6, 0.1]])
SPACE = np.array([[1.0, 0.2, -0.3], [-0.9, 1.1, 0.2], [-0.4, -1.3, 0.7], [0.3, 0.1, -1.2], [0.2, 0.1, 0.3]])


def product(seed: int, d: int = 2) -> Array:
    """Return a definite B = K.T @ Q with Q = R^T (R K), R orthogonal: Q = K up to rounding, B symmetric up to that."""
    for attempt in range(100):
        rng = np.random.default_rng([seed, attempt])
        K, R = rng.standard_normal((d + 2, d)), np.linalg.qr(rng.standard_normal((d + 2, d + 2)))[0]
        B = K.T @ (R.T @ (R @ K))
        if (B != B.T).any() and np.linalg.eigvalsh((B + B.T) / 2).min() > 0.05 * np.abs(B).max():
            return np.asarray(B)
    raise AssertionError("no product came out asymmetric")


def instance(id: str, B: Any, tokens: Array) -> dict[str, Any]:
    """Return a short instance of a claim with this form."""
    parameters = af.claims.get(id).setting.parameters
    given: dict[str, Any] = {"tokens": tokens, "B": B}
    if parameters.get("V", 0) is ...:
        given["V"] = np.diag(np.linspace(1.0, 0.3, tokens.shape[1]))
    if "steps" in parameters:
        given["steps"] = 12
    return given


def same(id: str, B: Array, tokens: Array) -> None:
    """Assert that B and its symmetric part have one verdict, and that the one on B says what was judged."""
    rounded = af.check(id, **instance(id, B, tokens))
    plain = af.check(id, **instance(id, (B + B.T) / 2, tokens))
    assert (rounded.outcome, rounded.certified, rounded.margin) == (plain.outcome, plain.certified, plain.margin)
    assert rounded.because.partition(f"; {SAID}")[0] == plain.because
    assert SAID in rounded.because
    assert "(B + B^T)/2 was judged in its place" in rounded.because
    assert (rounded.instance["B"] == B).all()


def test_most_claims_with_a_form_ask_for_a_symmetric_one() -> None:
    assert {"hardmax/limits", "hardmax/norms", "fw/own-cell/repaired", "localmax/vanishing"} < set(ABOUT_SYMMETRIC)
    assert {"emergence/polytope", "emergence/no-consensus", "fw/voronoi", "fw/duality-gap"} < set(ABOUT_SYMMETRIC)


# Those left out take a second or more each, and share their hypotheses with others.
QUICK = [
    id
    for id in ABOUT_SYMMETRIC
    if not {"codimension", "projected", "times", "rank"} & set(id.replace("-", "/").split("/"))
]


@pytest.mark.parametrize("id", QUICK)
def test_a_product_is_judged_as_its_symmetric_part(id: str) -> None:
    same(id, product(ABOUT_SYMMETRIC.index(id)), PLANE)


@pytest.mark.parametrize("id", ["hardmax/limits", "hardmax/norms", "fw/own-cell/repaired", "localmax/vanishing"])
def test_our_own_recipe_is_positive_definite(id: str) -> None:
    for seed in range(50):
        verdict = af.check(id, **instance(id, product(seed), PLANE))
        assert (verdict.outcome, verdict.certified) == ("holds", "exact"), verdict.because


@pytest.mark.skipif("ATTNFLOW_EXAMPLES" not in os.environ, reason="long: make test-all")
@pytest.mark.parametrize("id", ABOUT_SYMMETRIC)
def test_fifty_products_are_judged_as_their_symmetric_parts(id: str) -> None:
    for seed in range(25):
        same(id, product(seed), PLANE)
        same(id, product(seed, d=3), SPACE)


@pytest.mark.parametrize("off", [1e-9, 1e-11])
@pytest.mark.parametrize("id", ["hardmax/limits", "fw/duality-gap", "fw/voronoi", "emergence/polytope"])
def test_a_form_that_is_not_symmetric_is_not_taken_for_one(id: str, off: float) -> None:
    B = product(0)
    skew = (B + B.T) / 2 + off * np.abs(B).max() * np.array([[0.0, 1.0], [0.0, 0.0]])
    verdict = af.check(id, **instance(id, skew, PLANE))
    assert verdict.outcome == "hypotheses not met"
    assert SAID not in verdict.because
    assert f"; B is not symmetric: it differs from its transpose by {off:.1g} of its largest entry" in verdict.because


@pytest.mark.parametrize(("B", "named"), [([[1.0, 0.5], [0.0, 1.0]], True), ([[1.0, 0.0], [0.0, -1.0]], False)])
def test_a_verdict_names_the_lost_symmetry_where_that_is_the_reason(B: list[list[float]], named: bool) -> None:
    """The first form has a definite symmetric part, the second is symmetric and indefinite."""
    verdict = af.check("hardmax/limits", tokens=PLANE, B=np.array(B))
    assert verdict.outcome == "hypotheses not met"
    assert ("by 0.5 of its largest entry, give (B + B.T)/2 if that is rounding" in verdict.because) is named
    assert ("not symmetric" in verdict.because) is named


def test_definiteness_below_the_asymmetry_is_undecided_in_fractions_too() -> None:
    """The symmetric part of a singular product may be definite by 1e-17: the rest of B could undo that."""
    B = np.array([[1.0, 1.0], [1.0 + 4 * forms.EPS, 1.0 + 6 * forms.EPS]])
    part = (B + B.T) / 2
    assert af.check("hardmax/norms", tokens=PLANE, B=part).outcome == "holds"
    verdict = af.check("hardmax/norms", tokens=PLANE, B=B)
    assert verdict.outcome == "undecided"
    assert "B > 0" in verdict.because
    assert SAID in verdict.because
    assert not forms.positive_definite(B)
    assert forms.symmetric(B)


def test_a_form_that_varies_in_time_is_symmetrised_at_every_step() -> None:
    B = -product(3)
    verdict = af.check("fw/cluster-rate", tokens=np.vstack([PLANE, -PLANE]), B=lambda t: B / (1 + float(t)), steps=6)
    assert verdict.outcome == "holds"
    assert SAID in verdict.because


def test_symmetric_forms_and_claims_about_any_form_are_left_alone() -> None:
    B = product(1)
    symmetric = af.check("hardmax/norms", **instance("hardmax/norms", (B + B.T) / 2, PLANE))
    whatever = af.check("fw/hull-shrinks/repaired", **instance("fw/hull-shrinks/repaired", B, PLANE))
    assert symmetric.outcome == whatever.outcome == "holds"
    assert SAID not in symmetric.because + whatever.because
    e = Experiment({"tokens": PLANE, "B": None}, af.Hardmax(), af.Layers(gamma=0.5))
    assert e.symmetrised() is e


def test_geometry_judges_products_as_their_symmetric_parts() -> None:
    for seed in range(50):
        B = product(seed)
        part = (B + B.T) / 2
        assert af.geometry.classify(np.eye(2), B).theorem == "polytope"
        found, wanted = (af.geometry.stationary_points(PLANE, form).points for form in (B, part))
        np.testing.assert_allclose(found, wanted, atol=1e-12)
        one, other = (af.geometry.cells(PLANE[:3], form) for form in (B, part))
        np.testing.assert_allclose(one.own_margins(neighbours=True), other.own_margins(neighbours=True), atol=1e-12)
        assert (one.voronoi_label(PLANE / 3) == other.voronoi_label(PLANE / 3)).all()
        assert af.geometry.genericity(PLANE, B=B).generic == af.geometry.genericity(PLANE, B=part).generic


@pytest.mark.parametrize("id", ["emergence/polytope", "emergence/no-consensus"])
def test_a_form_of_lower_rank_is_named_as_the_cause(id: str) -> None:
    """Heads have fewer rows than columns: neither the time nor the tokens are to blame, and full rank decides it."""
    rng = np.random.default_rng(0)
    K, x = rng.standard_normal((1, 2)), rng.standard_normal((6, 2))
    verdict = af.check(id, tokens=x, B=K.T @ K)
    assert verdict.outcome == "undecided"
    assert verdict.undecided is not None
    assert "singular up to rounding" in verdict.undecided.cause
    assert "full rank" in verdict.undecided.remedy
    full = af.check(id, tokens=x, B=K.T @ K + 0.1 * np.eye(2))
    assert full.undecided is None or "singular" not in full.undecided.cause


@pytest.mark.parametrize(
    ("id", "given", "remedy"),
    [
        ("hardmax/limits", {}, "B + 1e-6 I"), ("hardmax/norms", {}, "B + 1e-6 I"), ("localmax/norms", {}, "B + 1e-6 I"),
        ("fw/own-cell/repaired", {}, "B + 1e-6 I"), ("fw/duality-gap", {}, "B + 1e-6 I"),
        ("fw/cluster-rate", {"sign": -1}, "B - 1e-6 I"),
    ],
)  # fmt: skip
def test_exact_proofs_name_a_form_of_lower_rank_as_the_cause(id: str, given: dict[str, int], remedy: str) -> None:
    """In fractions the sign of an eigenvalue that should be 0 is known, but it is that of a rounding error."""
    B = given.get("sign", 1) * np.outer([0.3, 0.7], [0.3, 0.7])
    (a, b), (c, d) = exact.rational(B)
    assert a * d < b * c
    x = np.array([[1.0, 0.5], [-1.0, 0.25], [0.5, -1.0]])
    verdict = af.check(id, tokens=x, B=B)
    assert (verdict.outcome, verdict.certified) == ("hypotheses not met", "exact")
    assert verdict.because.endswith(
        "; B is singular up to rounding, as where B = K.T @ K and K has fewer rows than columns: give a B of full "
        f"rank, such as {remedy}"
    )
    assert "singular" not in af.check(id, tokens=x, B=given.get("sign", 1) * np.diag([1.0, -1.0])).because
