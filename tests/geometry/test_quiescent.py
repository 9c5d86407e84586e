"""Quiescent sets against reachability by brute force, and what the certificate promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

import attnflow as af
from attnflow.geometry import quiescent_sets
from attnflow.laws import Neighbourhood


def smallest_closed_sets(P: np.ndarray) -> list[list[int]]:
    """Close each token under "hears"; the smallest closures that contain no other are the answer."""
    heard = P > 0
    closures = set()
    for i in range(len(P)):
        reached = {i}
        while True:
            more = reached | {int(j) for k in reached for j in np.flatnonzero(heard[k])}
            if more == reached:
                break
            reached = more
        closures.add(frozenset(reached))
    return sorted(sorted(c) for c in closures if not any(other < c for other in closures))


@given(st.integers(0, 10**6), st.integers(1, 25), st.sampled_from(["localmax", "hardmax", "relative", "hk", "softmax"]))
def test_sets_against_closures(seed: int, n: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, size=(n, 2)) / 2 if seed % 2 else rng.standard_normal((n, 2))
    law = {
        "localmax": af.Localmax(delta=0.3),
        "hardmax": af.Hardmax(B=np.array([[1.0, 0.4], [-0.2, 0.7]])),
        "relative": af.Localmax(delta=0.1, threshold="relative"),
        "hk": af.HegselmannKrause(eps=0.7),
        "softmax": af.Softmax(beta=50.0),
    }[name]
    found = quiescent_sets(law, x)
    assert [group.members.tolist() for group in found] == smallest_closed_sets(np.exp(law.log_weights(x)) > 0)
    for group in found:
        if group.certificate is not None and group.certificate.holds:
            heard = law.weights(x)[group.members] > 0
            assert not np.delete(heard, group.members, axis=1).any()


def test_softmax_hears_everybody_however_cold() -> None:
    (everyone,) = quiescent_sets(af.Softmax(beta=1e8), [[1.0], [-1.0], [3.0]])
    assert everyone.members.tolist() == [0, 1, 2]
    assert everyone.certificate is None


@pytest.mark.parametrize("threshold", ["additive", "relative", "normalized"])
def test_certified_groups_stay_closed_and_contract_exactly(threshold: str) -> None:
    """Two tight groups far apart: 2 r R <= delta, so each shrinks to its centroid by 1 - gamma per layer."""
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [[2.0, 0.0] + 1e-3 * rng.standard_normal((6, 2)), [-2.0, 0.5] + 1e-3 * rng.standard_normal((5, 2))]
    )
    law = af.Localmax(delta=0.1, threshold=threshold)
    groups = quiescent_sets(law, x)
    assert [group.members.tolist() for group in groups] == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    after = af.simulate(x, law, af.Layers(gamma=0.25), until=1).final
    for group in groups:
        assert group.certificate is not None
        assert group.certificate.holds
        assert group.certificate.contracts
        before = x[group.members] - x[group.members].mean(axis=0)
        np.testing.assert_allclose(after[group.members] - after[group.members].mean(axis=0), 0.75 * before, atol=1e-15)
        np.testing.assert_allclose(after[group.members].mean(axis=0), x[group.members].mean(axis=0), atol=1e-15)


def test_the_certificate_is_sharp_in_its_numbers() -> None:
    """One token at distance r of another, everything in d = 1, by hand: v = 1 (a member), mu = 1 - 1 * .2 = .8."""
    x = [[1.0], [0.9], [0.2], [-1.0]]
    groups = quiescent_sets(af.Localmax(delta=0.15), x)
    assert [group.members.tolist() for group in groups] == [[0, 1], [3]]
    certificate = groups[0].certificate
    assert certificate is not None
    best = max((v * v - v * 0.2 - 0.15 - 3 * r, v, r) for v, r in ((1.0, 0.1), (0.9, 0.1), (0.95, 0.05)))
    assert certificate.margin == pytest.approx(best[0])
    assert certificate.centre.item() == pytest.approx(best[1])
    assert certificate.radius == pytest.approx(best[2])
    assert certificate.contracts  # 2 * .05 * 1 <= .15


def test_no_certificate_without_a_metric() -> None:
    x = [[1.0, 0.0], [-1.0, 0.0]]
    assert quiescent_sets(af.Hardmax(B=np.diag([1.0, -1.0])), x)[0].certificate is None
    assert quiescent_sets(af.HegselmannKrause(eps=0.1), x)[0].certificate is None
    law = af.Localmax(delta=lambda t: 0.1 * t, B=lambda t: (1 + t) * np.eye(2))
    certificate = quiescent_sets(law, x, t=2)[0].certificate
    assert certificate is not None
    assert certificate.margin == pytest.approx(3 + 3 - 0.2)


def test_groups_are_those_at_the_start_unless_a_time_is_given() -> None:
    """At time 0 both tokens hear each other, at time 1 nobody else."""
    law, x = af.Localmax(delta=lambda t: 4.0 if t == 0 else 0.0), [[1.0], [-1.0]]
    assert [group.members.tolist() for group in quiescent_sets(law, x)] == [[0, 1]]
    assert [group.members.tolist() for group in quiescent_sets(law, x, t=1)] == [[0], [1]]
    assert [group.tolist() for group in af.geometry.quiescent.closed_sets(law, x)] == [[0, 1]]
    assert [group.tolist() for group in af.geometry.quiescent.closed_sets(law, x, t=1)] == [[0], [1]]


@pytest.mark.parametrize(("n", "refuses"), [(5, False), (6, True)])
def test_influences_are_counted_over_all_blocks(n: int, refuses: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Softmax has n (n - 1) of them, 20 or 30, of which a block of two rows has at most 10."""
    monkeypatch.setattr("attnflow.geometry.quiescent.MOST_ARCS", 24)
    monkeypatch.setattr("attnflow.geometry.quiescent.weight_rows", lambda law, x, t, sources: (
        (slice(i, min(i + 2, n)), law.log_weights(x[i : i + 2], t, sources=sources)) for i in range(0, n, 2)
    ))  # fmt: skip
    x = af.tokens.gaussian(n, 2, seed=0)
    if refuses:
        with refused("more than 24 arcs"):
            quiescent_sets(af.Softmax(), x)
    else:
        assert [group.members.tolist() for group in quiescent_sets(af.Softmax(), x)] == [list(range(n))]


def test_heads_are_heard_together() -> None:
    heads = af.Heads([af.Hardmax(), af.Hardmax(B=-np.eye(1))])
    assert [g.members.tolist() for g in quiescent_sets(heads, [[1.0], [-1.0], [0.5]])] == [[0, 1]]


@pytest.mark.parametrize("threshold", ["relative", "normalized"])
def test_the_certificate_takes_the_widest_slack_and_contraction_the_narrowest(threshold: str) -> None:
    """Members of different size have different slacks: by hand in d = 1, tokens 2 and 1.5, delta .6."""
    law = af.Localmax(delta=0.6, threshold=threshold)
    groups = quiescent_sets(law, [[2.0], [1.5], [-3.0]])
    members = next(group for group in groups if 0 in group.members)
    assert members.members.tolist() == [0, 1]
    slack = {"relative": [0.6 * 4.0, 0.6 * 3.0], "normalized": [0.6 * 2.0, 0.6 * 1.5]}[threshold]
    found = members.certificate
    assert found is not None
    r, v = found.radius, found.centre.item()
    assert found.margin == pytest.approx(v * v + 3 * v - max(slack) - 3 * r * 3.0, abs=1e-12)
    assert found.contracts == (2 * r * 3.0 <= min(slack))


def test_a_group_whose_narrowest_member_is_deaf_does_not_contract() -> None:
    """2 r R = 1.6 lies between the slacks 1.44 and 2.4 of the two members."""
    x, law = [[2.0], [1.2], [-2.0]], af.Localmax(delta=0.6, threshold="relative")
    found = {tuple(group.members.tolist()): group.certificate for group in quiescent_sets(law, x)}[(0, 1)]
    assert found is not None
    assert found.radius == pytest.approx(0.4)
    assert not found.contracts


def test_rounding_does_not_hold_as_a_proof() -> None:
    """In exact arithmetic token 2 hears others; its computed margin is 3e-14, and rounding is more."""
    x = [[8.000000000000002, 7.999999999999999], [12.0, 9.000000000000002], [9.0, 11.999999999999998]]
    x.append([13.0, 8.999999999999998])
    found = {tuple(group.members.tolist()): group.certificate for group in quiescent_sets(af.Hardmax(), x)}[(2,)]
    assert found is not None
    assert abs(found.margin) < 1e-11
    assert not found.holds


def test_only_a_law_that_says_its_neighbourhood_has_a_certificate() -> None:
    class Uniform(af.Localmax):
        def log_weights(self, x, t=0, *, sources=None, masses=None):  # type: ignore[no-untyped-def]
            return np.full((len(x), len(x if sources is None else sources)), -np.log(len(x)))

    class Mine(af.Law):
        neighbourhood = Neighbourhood(0.05, "additive")

        def log_weights(self, x, t=0, *, sources=None, masses=None):  # type: ignore[no-untyped-def]
            return af.Localmax(delta=0.05).log_weights(x, t, sources=sources, masses=masses)

    x = [[1.0, 0.0], [-1.0, 0.0]]
    assert [group.certificate for group in quiescent_sets(Uniform(delta=0.05), x)] == [None]
    wanted = [group.certificate.margin for group in quiescent_sets(af.Localmax(delta=0.05), x) if group.certificate]
    assert wanted == [group.certificate.margin for group in quiescent_sets(Mine(), x) if group.certificate]
    assert len(wanted) == 2


def test_bad_input_is_refused() -> None:
    with refused("expected a law"):
        quiescent_sets(af.Localmax, [[1.0]])  # type: ignore[arg-type]
    with refused("t is"):
        quiescent_sets(af.Hardmax(), [[1.0]], t=np.nan)
    with refused("expected a law"):
        quiescent_sets("softmax", [[1.0]])  # type: ignore[arg-type]
    with refused("not finite"):
        quiescent_sets(af.Hardmax(), [[np.nan]])
