"""The geometry of a cloud of tokens: hulls, cells, limits of tokens, quiescent sets, and which theorem applies."""

from typing import Any

from attnflow.core.deprecated import Renamed
from attnflow.geometry.cells import Cells, cells
from attnflow.geometry.generic import Broken, Genericity, genericity
from attnflow.geometry.hull import Hull, hull
from attnflow.geometry.quiescent import Certificate, QuiescentSet, quiescent_sets
from attnflow.geometry.region import Region
from attnflow.geometry.spectra import Classification, Dominant, classify
from attnflow.geometry.stationary import StationaryPoints, stationary_points

__all__ = [
    "Broken", "Cells", "Certificate", "Classification", "Dominant", "Genericity", "Hull", "QuiescentSet", "Region",
    "StationaryPoints", "cells", "classify", "genericity", "hull", "quiescent_sets", "stationary_points",
]  # fmt: skip

# Names of earlier releases, kept for one more.
_earlier = Renamed(
    {"single_linkage": "attnflow.geometry.linkage:single_linkage"}, use="measure.clusters(x, tol).labels"
)


def __getattr__(name: str) -> Any:
    """Look up a name of an earlier release."""
    return _earlier.get(__name__, name)
