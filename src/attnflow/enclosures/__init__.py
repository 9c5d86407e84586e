"""Proofs by computation: balls that hold the tokens of flows, and states at rest."""

from attnflow.enclosures.basins import Stability, stability
from attnflow.enclosures.fixed_points import FixedPoint, fixed_point
from attnflow.enclosures.flows import Enclosure, enclose, field_of
from attnflow.enclosures.limits import Locked, locked
from attnflow.enclosures.mirrors import Mirrors

__all__ = [
    "Enclosure",
    "FixedPoint",
    "Locked",
    "Mirrors",
    "Stability",
    "enclose",
    "field_of",
    "fixed_point",
    "locked",
    "stability",
]
