"""How many clusters there are to the eye: tokens whose dots look merged in the picture of the page are one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow import measure
from attnflow.core.inputs import Array

# The picture that fits a cloud has about PICTURE pixels for its longer side, on the usual screen.
PICTURE = 500.0
# A run that goes farther than this many times the start is not seen as a whole: the picture goes with the tokens.
RUNAWAY = 4.0


def radius(n: int) -> float:
    """Return the radius of a dot in pixels, as the page draws n of them."""
    return min(max(38 / math.sqrt(n), 2.0), 6.5)


class MergedDots:
    """Clusters of the states of a run, as its picture shows them.

    Two dots look merged when the middle of each lies in the other: when they are nearer than a radius, `part` of the
    longer side of the picture. The picture shows the start and all frames; of a run that goes too far for that, the
    start and the state that is looked at.

    >>> x = np.array([[0.0, 0.0], [0.01, 0.0], [0.02, 0.0], [1.0, 1.0]])
    >>> dots = MergedDots([x])
    >>> round(dots.part, 3), dots.count(x)
    (0.013, 2)
    """

    def __init__(self, frames: Sequence[NDArray[np.floating[Any]]], sphere: bool = False) -> None:
        boxes = np.array([(x.min(axis=0), x.max(axis=0)) for x in frames])
        self.part = radius(len(frames[0])) / PICTURE
        self.start = boxes[0]
        self.whole = np.array([boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)])
        self.sphere = sphere

    def side(self, x: Array) -> float:
        """Return the longer side of the picture in which a state is seen."""
        if self.sphere:
            return 2.0
        side = float(np.ptp(self.whole, axis=0).max())
        if side <= RUNAWAY * float(np.ptp(self.start, axis=0).max()):
            return side
        both = np.concatenate([self.start, x])
        return float(np.ptp(both, axis=0).max())

    def count(self, x: Array) -> int:
        """Return the number of clusters of a state."""
        return measure.clusters(x, self.tolerance(x)).count

    def tolerance(self, x: Array) -> float:
        """Return the distance below which two dots look merged."""
        return self.part * self.side(x)
