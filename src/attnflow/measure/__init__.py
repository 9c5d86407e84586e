"""What happened: clusters, leaders, rank, diameter, energy."""

from attnflow.measure.attention import Leaders, Rank, energy, leaders, rank
from attnflow.measure.configuration import Clusters, clusters, diameter
from attnflow.measure.summary import Summary, summary

__all__ = [
    "Clusters",
    "Leaders",
    "Rank",
    "Summary",
    "clusters",
    "diameter",
    "energy",
    "leaders",
    "rank",
    "summary",
]
