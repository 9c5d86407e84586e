"""Proofs by computation: balls that hold the tokens of flows."""

from attnflow.enclosures.flows import Enclosure, enclose, field_of
from attnflow.enclosures.limits import Locked, locked
from attnflow.enclosures.mirrors import Mirrors

__all__ = ["Enclosure", "Locked", "Mirrors", "enclose", "field_of", "locked"]
