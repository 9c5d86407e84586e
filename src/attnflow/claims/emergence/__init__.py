"""Claims of *The emergence of clusters in self-attention dynamics* (arXiv 2305.05465), and of the talk on it."""

from attnflow.claims.emergence import codimension, flows, limits, line, measures, projections

__all__ = ["codimension", "flows", "limits", "line", "measures", "projections"]
