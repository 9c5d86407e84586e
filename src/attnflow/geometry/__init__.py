"""The geometry of a cloud of tokens: hulls, cells, limits of tokens, quiescent sets, and which theorem applies."""

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
