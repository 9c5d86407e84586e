"""Instances of a claim as users give them: parameters checked, defaults added."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import inf, nextafter
from typing import Any

import numpy as np

from attnflow.claims.claim import Claim
from attnflow.core import inputs
from attnflow.core.inputs import InputError
from attnflow.core.schedules import Schedule


def read(claim: Claim, instance: Mapping[str, Any], seed: int = 0) -> dict[str, Any]:
    """Check the parameters of an instance and add the defaults of the others."""
    parameters = claim.setting.parameters
    for name, sentence in claim.setting.former.items():
        if name in instance:
            raise InputError(f"{claim.id} has no parameter {name!r} any more: {sentence}")
    instance = _renamed(instance, parameters)
    for name in instance:
        if name not in parameters:
            raise InputError(f"{claim.id} has no parameter {name!r}: it takes {', '.join(parameters)}")
    values = {**parameters, **({"seed": seed} if "seed" in parameters else {}), **instance}
    for name, value in values.items():
        if value is ... or (value is None and parameters[name] is ...):
            raise InputError(f"{claim.id} needs {name}: give {name}, or no parameter at all to check its samples")
        values[name] = READERS[name](value, name) if name in READERS else _like(parameters[name], value, name)
        if name in ("B", "V") and inputs.varies_in_time(values[name]) and name not in claim.setting.varying:
            varies = (
                "is given layer by layer" if isinstance(values[name], inputs.OverLayers) else "is a function of time"
            )
            raise InputError(f"{name} {varies}, but {claim.id} is about a constant {name}: give a matrix")
        if isinstance(values[name], inputs.OverLayers) and "steps" in parameters:
            values[name].check_length(instance.get("steps", parameters["steps"]), "steps")
    # Forms of another dimension than the tokens' are refused.
    for name in ("B", "V"):
        if values.get("tokens") is not None and not inputs.varies_in_time(values.get(name)):
            inputs.matrix_at(values.get(name), 0, values["tokens"].shape[1], name)
    return values


def _renamed(instance: Mapping[str, Any], parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Let gamma = alpha / (1 + alpha) be given by either name where a claim has the other."""
    for given, wanted, formula in (
        ("alpha", "gamma", "({0}) / (1 + ({0}))"),
        ("gamma", "alpha", "({0}) / (1 - ({0}))"),
    ):
        if given in instance and given not in parameters and parameters.get(wanted) is not None:
            value = instance[given]
            if wanted in instance or inputs.varies_in_time(value):
                raise InputError(f"{given} was given, but this claim is about {wanted}: give {wanted} alone")
            if isinstance(value, str):
                Schedule(value, given)
            else:
                inputs.number(value, given, above=0.0, most=inf if given == "alpha" else nextafter(1, 0))
            step = Schedule(formula.format(value))
            rest = {name: other for name, other in instance.items() if name != given}
            return {**rest, wanted: step.text if isinstance(value, str) else step(0)}
    return instance


def _like(default: Any, value: Any, name: str) -> Any:
    """Check a parameter by the kind of its default: a yes or no, a whole number, a number, or anything."""
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise InputError(f"{name} is {value!r}, expected True or False")
        return value
    if isinstance(default, int):
        return inputs.whole(value, name, least=0)
    return inputs.number(value, name) if isinstance(default, float) else value


def _cloud(value: Any, name: str) -> Any:
    return None if value is None else inputs.cloud(value, name)


def _scalar(value: Any, name: str) -> Any:
    if isinstance(value, str):
        schedule = Schedule(value, name)
        return schedule(0) if schedule.constant else schedule
    if isinstance(value, np.ndarray) and value.ndim:
        raise InputError(
            f"{name} is an array, one number for each system, but a claim is about one system: give a number, a list "
            "with one for each step, a function of time, or a formula in t"
        )
    return None if value is None else inputs.constant_number(value, name)


READERS: dict[str, Callable[[Any, str], Any]] = {
    **dict.fromkeys(("tokens", "vertices"), _cloud),
    **dict.fromkeys(("B", "V"), inputs.constant_matrix),
    **dict.fromkeys(("beta", "gamma", "alpha", "delta", "dt"), _scalar),
    "steps": partial(inputs.whole, least=1),
    **dict.fromkeys(("until", "eps", "c", "C"), partial(inputs.number, above=0.0)),
}
