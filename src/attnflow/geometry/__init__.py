"""The geometry of a cloud of tokens."""

from attnflow.geometry.linkage import single_linkage

__all__ = ["single_linkage"]
