"""Positions that turn queries and keys: the angles of a configuration, and the order of coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.checkpoints.architectures.settings import Settings
from attnflow.core.inputs import Array


def angles(settings: Settings, size: int, base: float) -> list[float]:
    """Return the angles by which a position turns `size` / 2 pairs of coordinates: base^(-2 i / size), or scaled.

    How they are scaled, to reach longer texts than a model was first trained with, is a setting: not at all, divided by
    one number ("linear"), or as Llama 3.1 does.

    >>> angles(Settings({}, "config.json"), 4, 100.0)
    [1.0, 0.1]
    """
    scaling = settings.part("rope_parameters") or settings.part("rope_scaling")
    plain = (base if scaling is None else scaling.number("rope_theta", base, above=0.0)) ** (
        -np.arange(0, size, 2) / size
    )
    if scaling is None:
        return [float(one) for one in plain]
    key = "rope_type" if "rope_type" in scaling.values else "type"
    return [float(one) for one in scaling.choice(key, SCALINGS, "default")(scaling, plain)]


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
