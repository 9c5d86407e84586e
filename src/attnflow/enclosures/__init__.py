"""Proofs by computation: balls that hold the tokens of flows."""

from attnflow.enclosures.flows import Enclosure, enclose
from attnflow.enclosures.limits import Locked, locked

__all__ = ["Enclosure", "Locked", "enclose", "locked"]
