"""Proofs by computation: balls that hold the tokens of flows."""

from attnflow.enclosures.flows import Enclosure, enclose

__all__ = ["Enclosure", "enclose"]
