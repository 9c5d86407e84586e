"""Claims of the hardmax paper: its cases, proofs of limits, hypotheses and input."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.claims.exact import rational
from attnflow.claims.experiment import Experiment
from attnflow.claims.hardmax import leaders_persist, leads, norms
from attnflow.claims.settled import Settled, closed_groups, limit, settled, stays_above
from attnflow.core.schedules import Schedule

EMERGING = np.array(
    [[1, 1 / 3], [-1 / 12, 1 / 12], [-1, -1], [0, 1 / 4], [-0.3, -0.7], [-0.6, -0.9], [0.8, 0.1], [0.6, 0.15]]
)
SQUARE = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.5, 0.0], [-0.5, 0.0]])
IDS = [claim.id for claim in af.claims.all() if claim.id.startswith("hardmax/")]


def exactly(tokens: Any, law: Any = None, steps: int = 60, **motion: Any) -> Experiment:
    return Experiment({"tokens": np.asarray(tokens), "B": None, "alpha": 0.5, "steps": steps},
                      law or af.Hardmax(), af.Layers(**(motion or {"alpha": 0.5})), "exact")  # fmt: skip


def after(tokens: Any, law: Any, **motion: Any) -> Settled | None:
    """What is proved from these tokens alone."""
    e = exactly(tokens, law, **motion)
    vars(e)["states"] = e.tokens[None]
    return settled(e)


@pytest.mark.parametrize("id", IDS)
def test_own_samples_hold(id: str) -> None:
    verdict = af.check(id, seed=3)
    assert verdict.outcome == "holds"
    assert verdict.certified == "exact"
    assert verdict.tried == 16


def test_emerging_leader() -> None:
    e = exactly(EMERGING, steps=12)
    leaders = [np.flatnonzero(leads(e, x) > 0).tolist() for x in e.states]
    assert leaders[0] == [0, 2]
    assert leaders[1:] == [[0, 1, 2]] * 12
    assert (e.states[1:, 1] == e.states[1, 1]).all()
    np.testing.assert_allclose(e.states[1, 1].astype(float), [-1 / 18, 5 / 36], rtol=1e-15)


@pytest.mark.parametrize("id", IDS)
def test_emerging_leader_keeps_every_claim(id: str) -> None:
    verdict = af.check(id, tokens=EMERGING, alpha=0.5, steps=20)
    assert (verdict.outcome, verdict.certified) == ("holds", "exact")


def test_limits_on_faces() -> None:
    end = settled(exactly(SQUARE))
    assert end is not None
    assert end.limits[4:].tolist() == [[1, 0], [-1, 0]]
    assert end.never.tolist() == [False] * 4 + [True] * 2
    assert af.check("hardmax/limits", tokens=SQUARE).outcome == "holds"


def test_resting_at_the_origin() -> None:
    end = settled(exactly([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]]))
    assert end is not None
    assert end.limits.tolist() == [[1, 0], [-1, 0], [0, 0]]


@pytest.mark.parametrize("seed", range(6))
def test_proved_limits_are_stationary_points_and_the_end_of_runs(seed: int) -> None:
    B = [[2.0, 0.5], [0.5, 1.0]]
    x = af.tokens.gaussian(n=7, d=2, seed=seed)
    e = Experiment({"tokens": x, "B": B, "steps": 40}, af.Hardmax(B=B), af.Layers(alpha=1.0), "exact")
    end = settled(e)
    assert end is not None
    limits = end.limits.astype(float)
    S = af.geometry.stationary_points(limits, B).points
    assert max(np.linalg.norm(S - x, axis=1).min() for x in limits) < 1e-12
    late = e.states[-1].astype(float)
    np.testing.assert_allclose(late, limits, atol=1e-9)


def test_what_is_not_proved_is_undecided() -> None:
    # At the start token 1 of the emerging leader's cloud moves, and is listened to.
    assert after(EMERGING, af.Hardmax()) is None
    assert settled(exactly(EMERGING, steps=1, alpha=lambda t: 0.5)) is None
    for id in ("limits", "vertices-in-finite-time", "leaders-are-vertices"):
        verdict = af.check(f"hardmax/{id}", tokens=SQUARE, law=af.HegselmannKrause(eps=0.125), steps=3)
        assert verdict.outcome == "undecided"
        assert verdict.where == (3, None)


def test_a_tie_that_will_not_last_proves_nothing() -> None:
    # (1/2, 0) ties between (1, 2) and (1, -1); half way to their mean it follows (1, 2).
    tokens = [[1.0, 2.0], [1.0, -1.0], [0.5, 0.0], [-3.0, 0.0]]
    assert after(tokens, af.Hardmax()) is None
    end = settled(exactly(tokens))
    assert end is not None
    assert end.limits[2].tolist() == [1, 2]


def test_others_overtake_on_the_way() -> None:
    # From (0, 1) on, <x, p> > <x, q>; at p itself q scores higher, and nobody rests there.
    p, q = [1.0, 1.0], [4.0, -1.0]
    assert after([p, q, [0.0, 1.0]], af.Hardmax()) is None


def test_a_follower_of_a_vanishing_delta_is_never_heard() -> None:
    tokens = [[1.0], [-1.0], [0.5]]
    fast, slow = (af.Localmax(delta=Schedule(f"0.125 * {ratio} ** t")) for ratio in (0.5, 0.75))
    end = after(tokens, fast, gamma=0.5)
    assert end is not None
    assert end.limits.ravel().tolist() == [1, -1, 1]
    assert after(tokens, slow, gamma=0.5) is None
    relative = af.Localmax(delta=Schedule("0.125 * 0.5 ** t"), threshold="relative")
    assert after(tokens, relative, gamma=0.5) is not None


def test_limits_of_linear_layers() -> None:
    W = rational([[0.5, 0.5, 0, 0], [0.25, 0.75, 0, 0], [0.25, 0.25, 0.25, 0.25], [0, 0, 0.5, 0.5]])
    found = limit(W, rational([[3], [0], [5], [7]]))
    assert found.ravel().tolist() == [1] * 4  # the stationary weights of the first two are 1/3 and 2/3
    assert closed_groups([[0, 1], [0, 1], [0, 1, 2, 3], [2, 3]]) == [[0, 1]]
    P = np.linalg.matrix_power(W.astype(float), 200)
    np.testing.assert_allclose(P @ [3, 0, 5, 7], 1)


def test_followers_shrink_exactly() -> None:
    e = exactly([[1.0], [-1.0], [0.25]], steps=5)
    assert [1 - x[2, 0] for x in e.states] == [Fraction(3, 4) * Fraction(2, 3) ** k for k in range(6)]
    verdict = af.check("hardmax/follower-rate", tokens=[[1.0], [-1.0], [0.25]], steps=100)
    assert (verdict.outcome, verdict.certified) == ("holds", "exact")
    assert af.check("hardmax/follower-rate", tokens=[[1.0], [-1.0]]).outcome == "undecided"


@pytest.mark.parametrize(
    ("id", "instance", "name", "where"),
    [
        ("norms", {"tokens": SQUARE, "B": [[1.0, 0.0], [0.0, -1.0]]}, "A > 0", (0, None)),
        ("limits", {"tokens": SQUARE, "B": [[1.0, 1.0], [0.0, 1.0]]}, "A > 0", (0, None)),
        ("limits", {"tokens": SQUARE, "alpha": "1 / (t + 1) ** 2"}, "alpha is constant", (0, None)),
        ("first-leaders", {"tokens": [[1.0], [2.0], [2.0]]}, "tokens distinct", (0, 1)),
        ("leaders-persist", {"tokens": [[1.0], [2.0], [0.0]]}, "tokens distinct and not 0", (0, 2)),
    ],
)
def test_hypotheses_not_met(id: str, instance: dict[str, Any], name: str, where: Any) -> None:
    verdict = af.check(f"hardmax/{id}", **instance)
    assert verdict.outcome == "hypotheses not met"
    assert verdict.where == where
    assert name in verdict.because


def test_violations_say_where() -> None:
    broken = af.check("hardmax/leaders-persist", tokens=[[1.0], [-1.0], [0.1], [-0.1]], law=af.Localmax(delta=0.05))
    assert broken.where == (8, 0)
    assert "a leader rests fails at step 8, token 0" in broken.because
    # The sum of the steps is a statement of its own: exact at each layer, it adds up.
    gain = af.check("hardmax/norms", tokens=[[1.0], [0.5]], alpha=1.0, steps=1)
    assert gain.margin == 0
    lost = af.check("hardmax/norms", tokens=[[1.0], [0.5], [-0.25]], law=af.Hardmax(B=[[-1.0]]), steps=1)
    assert lost.outcome == "violated"


def test_leaders_are_vertices_of_later_hulls() -> None:
    # Under another form tokens 0 and 1 stop leading and fall into the hull of the others.
    law = af.Hardmax(B=[[-1.0, 0.0], [0.0, -1.0]])
    broken = af.check("hardmax/leaders-are-vertices", tokens=EMERGING, law=law, steps=3)
    assert broken.outcome == "violated"
    assert "a leader is a vertex" in broken.because


def test_norms_count_steps() -> None:
    e = exactly([[1.0], [0.5]], steps=1, alpha=1.0)
    found: Any = norms(e)
    gain, total = found
    assert gain.values.tolist() == [[0, Fraction(1, 4)]]  # 9/16 - 1/4 - 1/16
    assert total.values.tolist() == [[0, Fraction(1, 4)]]
    # Token 0 gains norm by stepping over 0, but less than its step.
    broken = af.check("hardmax/norms", tokens=[[0.125], [-3.0]], law=af.Hardmax(B=[[-1.0]]), steps=1)
    assert (broken.outcome, broken.where) == ("violated", (0, 0))


def test_a_leader_that_rests_may_be_overtaken_by_a_wrong_model() -> None:
    e = exactly([[1.0], [0.5]], steps=1)
    vars(e)["states"] = rational([[[1], [0.5]], [[1], [2]]])
    found: Any = leaders_persist(e)
    rests, stays = found
    assert rests.held.all()
    assert stays.failed.tolist() == [[True, False]]


@pytest.mark.parametrize("gap", [(-1, 3, 0), (1, -5, 5), (1, 0, -2), (0, 0, 0)])
def test_gaps_that_close(gap: tuple[int, int, int]) -> None:
    assert not stays_above(gap, Fraction(0))
    assert stays_above((0, 1, 1), Fraction(1))
    assert not stays_above((0, 1, 1), Fraction(2))


def test_many_tokens_in_floats() -> None:
    x = af.tokens.gaussian(n=40, d=3, seed=0)
    for id in ("hull", "norms", "first-leaders", "leaders-persist", "follower-rate"):
        verdict = af.check(f"hardmax/{id}", tokens=x, steps=15)
        assert (verdict.outcome, verdict.certified) == ("holds", "float")
    assert af.check("hardmax/limits", tokens=x[:, :2], steps=60).certified == "exact"


def test_bad_input() -> None:
    with refused("hardmax/limits has no parameter 'delta'"):
        af.check("hardmax/limits", tokens=SQUARE, delta=0.5)
    with refused("alpha is -1, expected a finite number above 0"):
        af.check("hardmax/hull", tokens=SQUARE, alpha=-1.0)
    with refused("B has shape"):
        af.check("hardmax/norms", tokens=SQUARE, B=[[1.0]])
