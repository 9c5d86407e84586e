"""Classes of one's own that lack what their kind has to write: one sentence says what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from refusals import refused

import attnflow as af
from attnflow.laws.hearing import Hearing
from attnflow.laws.scored import Scored
from attnflow.motions.flows import ContinuousMotion
from attnflow.motions.motion import DiscreteMotion, Motion
from attnflow.motions.random_steps import RandomSteps

X = np.array([[1.0], [-1.0]])


def own(base: type, **written: Any) -> Any:
    """An object of a class that is called Own and writes this much."""
    made: Any = type("Own", (base,), written)
    return dataclass(frozen=True, eq=False)(made)()


HEARING = Hearing(af.Softmax(), None, "auto", None)
CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "weights": (lambda: own(af.Law).weights(X), "Own does not say its weights: a law must write log_weights"),
    "products": (lambda: own(af.Law).products(X), "Own has no scores <q_i, k_j>, as Softmax and Hardmax have"),
    "of_scores": (lambda: own(af.Law).of_scores(X, X), "Own has no scores <q_i, k_j>"),
    "scored": (lambda: own(Scored).weights(X), "Own does not say its weights: it must write of_scores"),
    "motion": (lambda: own(Motion).start(HEARING, X, 0), "Own does not say how tokens move: let it be a subclass of"),
    "step": (
        lambda: own(DiscreteMotion).step(HEARING, X, 0),
        "Own does not say its step: a discrete motion must write",
    ),
    "velocity": (lambda: own(ContinuousMotion).velocity(HEARING, X, 0), "Own does not say its velocity"),
    "some": (
        lambda: own(ContinuousMotion).velocity_among(HEARING, X, 0, X),
        "does not say how some of its tokens move",
    ),
    "random step": (
        lambda: own(RandomSteps).random_step(HEARING, X, 0, 1.0, None),
        "Own does not say its step: a motion in random steps writes random_step",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_not_written_is_named(case: str) -> None:
    call, sentence = CASES[case]
    with refused(sentence):
        call()
