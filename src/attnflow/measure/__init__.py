"""What happened: measurements of one configuration, or of all recorded states of a run."""

from attnflow.measure.attention import Leaders, Rank, entropy, influence, leaders, rank
from attnflow.measure.clusters import Clusters, clusters, distance_to_limits
from attnflow.measure.cosines import CosineHistogram, cosine_histogram, mean_cosine
from attnflow.measure.diameter import diameter
from attnflow.measure.energies import energy, pair_energy
from attnflow.measure.exits import ExitRate, ExitTimes, GeometricLaw, exit_rate, exit_times
from attnflow.measure.mean_field import MeanFieldDistances, SizeRate, mean_field, sampling_rate
from attnflow.measure.merges import Merge, Merges, Plateau, Staircase, merge_times, staircase
from attnflow.measure.next_change import NextChange, next_change
from attnflow.measure.over_time import OverTime
from attnflow.measure.phase_diagram import PhaseDiagram, phase_diagram
from attnflow.measure.phases import Course, Phases, phases
from attnflow.measure.power_law import PowerLaw, power_law
from attnflow.measure.ranks import effective_rank, stable_rank
from attnflow.measure.rates import Rate, contraction_rate
from attnflow.measure.splitting import RareEvent, exit_probability
from attnflow.measure.summary import Summary, summary
from attnflow.measure.transport import Quantisation, quantise, wasserstein

__all__ = [
    "Clusters", "CosineHistogram", "Course", "ExitRate", "ExitTimes", "GeometricLaw", "Leaders", "MeanFieldDistances",
    "Merge", "Merges", "NextChange", "OverTime", "PhaseDiagram", "Phases", "Plateau", "PowerLaw", "Quantisation",
    "Rank", "RareEvent", "Rate", "SizeRate", "Staircase", "Summary", "clusters", "contraction_rate", "cosine_histogram",
    "diameter", "distance_to_limits", "effective_rank", "energy", "entropy", "exit_probability", "exit_rate",
    "exit_times", "influence", "leaders", "mean_cosine", "mean_field", "merge_times", "next_change", "pair_energy",
    "phase_diagram", "phases", "power_law", "quantise", "rank", "sampling_rate", "stable_rank", "staircase", "summary",
    "wasserstein",
]  # fmt: skip
