"""Runs whose tokens tend to parallel planes: the normal of these, and which token is on which."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from attnflow import measure
from attnflow.core.inputs import Array, varies_in_time
from attnflow.figures.groups import Groups, ranked
from attnflow.geometry.spectra import classify
from attnflow.measure.clusters import CLOSE

if TYPE_CHECKING:
    from attnflow.runs.trajectory import Trajectory

# Tokens tend to at most three planes; the values at which their groups are looked for may still have others between.
MOST_LEVELS = 7


def planes(run: Trajectory) -> Array | None:
    """Return the common normal of the hyperplanes to which tokens of a rescaled motion tend, or None without a theorem.

    That is the left eigenvector phi_1*, of length 1, of an eigenvalue of V that is positive, simple and strictly
    dominant: then each phi_1*(z_i) tends to one of at most three values.

    >>> import attnflow as af
    >>> flow = af.RescaledFlow(V=np.diag([1.0, 0.5, 0.25]))
    >>> planes(af.simulate(np.eye(3), af.Softmax(), flow, until=1.0))
    array([1., 0., 0.])

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465), Theorem 3.
    """
    V = getattr(run.motion, "V", None) if run.motion is not None and run.motion.moving_frame else None
    if V is None or varies_in_time(V):
        return None
    found = classify(V)
    if "hyperplanes" not in found.applies or found.dominant.left is None:
        return None
    phi = signed(found.dominant.left[:1].T)[:, 0]
    # An eigenvector has no length of its own.
    normal: Array = phi / np.linalg.norm(phi)
    return normal


def signed(axes: Array) -> Array:
    """Return axes (d, k), which have no sign of their own, with their largest entries positive, for equal pictures.

    >>> signed(np.array([[1.0, 0.0], [-2.0, 1.0]]))
    array([[-1.,  0.],
           [ 2.,  1.]])
    """
    found: Array = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    return found


def levelled(found: Groups, heights: Array) -> Groups:
    """Return groups whose colours tell the planes apart: tokens of one height (n,), while heights are few.

    >>> one = np.ones(4, dtype=np.int64)
    >>> levelled(Groups(np.arange(4), one), np.array([0.0, 2.0, 2.001, 2.0])).labels
    array([1, 0, 0, 0])
    """
    spread = float(np.ptp(heights))
    levels = measure.clusters(heights[:, None], CLOSE * spread)
    if levels.count > MOST_LEVELS:
        return found
    return replace(found, labels=ranked(levels.labels))
