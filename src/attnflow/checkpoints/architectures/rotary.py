"""Positions that turn queries and keys: the angles of a configuration, and the order of coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.checkpoints.architectures.settings import Settings
from attnflow.core.inputs import Array, InputError, quoted


def angles(settings: Settings, size: int, base: float) -> list[float]:
    """Return the angles by which a position turns `size` / 2 pairs of coordinates: base^(-2 i / size), or scaled.

    How they are scaled, to reach longer texts than a model was first trained with, is a setting: not at all, divided by
    one number ("linear"), or as Llama 3.1 does.

    >>> angles(Settings({}, "config.json"), 4, 100.0)
    [1.0, 0.1]
    """
    scaling = rope_settings(settings)
    plain = (base if scaling is None else scaling.number("rope_theta", base, above=0.0)) ** (
        -np.arange(0, size, 2) / size
    )
    if scaling is None:
        return [float(one) for one in plain]
    key = "rope_type" if "rope_type" in scaling.values else "type"
    return [float(one) for one in scaling.choice(key, SCALINGS, "default")(scaling, plain)]


def rope_settings(settings: Settings) -> Settings | None:
    """Return the settings of angles, which newer configurations call rope_parameters and older ones rope_scaling."""
    named = {name: settings.part(name) for name in ("rope_parameters", "rope_scaling")}
    given = {name: one for name, one in named.items() if one is not None and one.values}
    newer, older = given.get("rope_parameters"), given.get("rope_scaling")
    # Versions of the reference library differ in which of the two they take.
    if newer is not None and older is not None and newer.values != older.values:
        raise InputError(
            f"{settings.source} has rope_parameters and rope_scaling, which differ: leave the one that the model was "
            "trained with"
        )
    found = newer or older
    for name, value in {} if found is None else found.values.items():
        if isinstance(value, Mapping):
            raise InputError(
                f"{settings.source} has angles of their own for {quoted(name)}, which attnflow does not compute: give "
                "a model whose layers all turn by the same angles"
            )
    return found


def consecutive(weights: NDArray[Any], turned: int) -> NDArray[Any]:
    """Return the rows (heads, k, ...) of queries or keys in another order: pairs (i, i + turned / 2) one by one.

    >>> consecutive(np.array([[0, 1, 2, 3, 4]]), 4)
    array([[0, 2, 1, 3, 4]])
    """
    order = np.arange(weights.shape[1])
    order[:turned] = order[:turned].reshape(2, -1).T.ravel()
    return weights[:, order]


def _linear(settings: Settings, plain: Array) -> Array:
    return plain / settings.number("factor", above=0.0)


def _llama3(settings: Settings, plain: Array) -> Array:
    """Divide the angles of long waves by a factor, leave short ones, and go from one to the other in between."""
    factor = settings.number("factor", above=0.0)
    low, high = settings.number("low_freq_factor", above=0.0), settings.number("high_freq_factor", above=0.0)
    turns = settings.count("original_max_position_embeddings") * plain / (2 * math.pi)
    share = np.clip((turns - low) / max(high - low, 1e-300), 0, 1)
    mixed: Array = (1 - share) * plain / factor + share * plain
    return mixed


SCALINGS: dict[str, Callable[[Settings, Array], Array]] = {
    "default": lambda settings, plain: plain, "linear": _linear, "llama3": _llama3,
}  # fmt: skip
