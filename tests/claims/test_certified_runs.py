"""Runs with a proved error: it is at least the true one, and not much more."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.claims.certificates import runs

X = [[1.0, 0.5], [-0.5, 0.25], [0.0, -1.0]]


def test_a_closed_form() -> None:
    """At beta = 0 all tokens move by x' = their mean m, so that m = m_0 e^t and x = x_0 + m_0 (e^t - 1)."""
    run = af.simulate([[1.0], [0.0]], af.Softmax(beta=0.0), af.Flow(), until=1.0)
    found = af.certify(run)
    true = np.array([1.0, 0.0]) + (np.e - 1) / 2
    off = float(np.abs(run.final.ravel() - true).max())
    assert found.reached
    assert found.certified == "ball"
    assert found.radius < 1e-15
    assert off - 1e-15 <= found.error <= off + 1e-15
    assert all(abs(one - value) < 1e-15 for one, value in zip(found.tokens.ravel(), true, strict=True))


@pytest.mark.parametrize("motion", [af.Flow(), af.RescaledFlow()])
def test_the_bound_is_above_what_a_rougher_run_is_wrong_by(motion: af.Motion) -> None:
    law, rough = af.Softmax(beta=1.5), motion.with_rtol(1e-5)
    fine, coarse = (af.simulate(X, law, one, until=0.5) for one in (motion.with_rtol(1e-12), rough))
    off = float(np.abs(fine.final - coarse.final).max())
    assert off > 1e-9
    assert af.certify(coarse).error == pytest.approx(off, rel=1e-2)


def test_tokens_on_the_circle() -> None:
    """Two tokens at right angles have cos = tanh t at beta = 0, as cos' = 1 - cos^2."""
    run = af.simulate([[1.0, 0.0], [0.0, 1.0]], af.Softmax(beta=0.0), af.SphereFlow(), until=0.5)
    found = af.certify(run)
    assert found.error < 1e-10
    assert abs(found.tokens[0] @ found.tokens[1] - np.tanh(0.5)) < 1e-15


def test_layers_in_fractions_and_in_balls() -> None:
    hard = af.certify(af.simulate([[1.0], [-1.0], [0.5]], af.Hardmax(), af.Layers(gamma=0.5), until=3))
    assert (hard.certified, hard.error < 1e-300, hard.tokens[2, 0], hard.radius) == ("exact", True, Fraction(15, 16), 0)
    soft = af.certify(af.simulate(X, af.Softmax(beta=2.0), af.Layers(gamma=0.3), until=6))
    assert soft.certified == "ball"
    assert 0 < soft.error < 1e-14
    assert soft.radius < 1e-60


def test_a_wrong_record_is_measured() -> None:
    run = af.simulate(X, af.Softmax(), af.Layers(gamma=0.3), until=2)
    run.tokens[-1, 0, 0] += 0.25
    assert af.certify(run).error == pytest.approx(0.25)


def test_how_far_it_came_and_why_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    from attnflow.enclosures import enclose

    def short(x: object, law: object, motion: object, until: float) -> object:
        whole = enclose(x, law, motion, until / 2)  # type: ignore[arg-type]
        return whole.__class__(whole.times, whole.states, whole.between, whole.steps, "no step can be enclosed", False)

    monkeypatch.setattr(runs, "enclose", short)
    run = af.simulate(X, af.Softmax(), af.Flow(), until=0.5)
    found = af.certify(run)
    assert (found.time, found.reached, found.stopped) == (0.25, False, "no step can be enclosed")
    assert found.error < 1e-7  # against the run at that time, not at its end


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    with refused("expected what check or simulate returns"):
        af.certify(3)  # type: ignore[call-overload]
    with refused("the run has masses"):
        af.certify(af.simulate(X, af.Softmax(), af.Layers(gamma=0.3), until=2, masses=[1.0, 2.0, 1.0]))
    with refused("is not certified"):
        af.certify(af.simulate(X, af.Sparsemax(), af.Layers(gamma=0.3), until=2))
    with refused("take too long"):
        af.certify(af.simulate(X, af.Softmax(), af.Layers(gamma=0.3), until=4000))


def test_a_run_that_does_not_say_what_it_is_is_refused() -> None:
    run = af.simulate([[1.0], [-1.0]], af.Softmax(), af.Flow(), until=0.1)
    run.law = None
    with refused("the run does not say its law and motion: give one from simulate"):
        af.certify(run)
