"""Experiments on claims, for tests that look at their states and margins."""

from typing import Any

from attnflow.claims import Experiment, get
from attnflow.claims.instances import read


def experiment(id: str, **instance: Any) -> Experiment:
    """Return the experiment of a claim on an instance, with the model of the claim."""
    claim = get(id)
    given = read(claim, instance)
    return Experiment(given, *claim.setting.model(given))
