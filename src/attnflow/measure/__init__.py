"""What happened: measurements of one configuration, or of all recorded states of a run."""

from attnflow.measure.attention import Leaders, Rank, entropy, influence, leaders, rank
from attnflow.measure.configuration import Clusters, clusters, distance_to_limits
from attnflow.measure.energies import energy, pair_energy
from attnflow.measure.farthest import diameter
from attnflow.measure.over_time import OverTime
from attnflow.measure.rates import Rate, contraction_rate
from attnflow.measure.summary import Summary, summary

__all__ = [
    "Clusters", "Leaders", "OverTime", "Rank", "Rate", "Summary", "clusters", "contraction_rate", "diameter",
    "distance_to_limits", "energy", "entropy", "influence", "leaders", "pair_energy", "rank", "summary",
]  # fmt: skip
