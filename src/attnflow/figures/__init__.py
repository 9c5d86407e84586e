"""Pictures of runs: `plot`, `compare`, `animate`, `dashboard`; of long times: `staircase`, `exits`, `phases`; of many
systems: `phase_diagram`, `sweep`; of many tokens: `mean_field`; of densities: `density_run`, `branches`,
`density_diagram`; of transformers: `by_layer`, `cosine_histograms`, `stream`, `head_spectra`, `attention_map`,
`hypotheses`. `save` writes them to files.

Matplotlib is loaded when a picture is drawn, not before.
"""

from attnflow.figures.dashboard import dashboard
from attnflow.figures.densities import branches, density_diagram, density_run
from attnflow.figures.heads import attention_map, head_spectra
from attnflow.figures.hypotheses import hypotheses
from attnflow.figures.long_times import exits, phases, staircase
from attnflow.figures.mean_field import mean_field
from attnflow.figures.movie import animate
from attnflow.figures.phase_diagram import phase_diagram
from attnflow.figures.plot import plot
from attnflow.figures.saving import destination, save
from attnflow.figures.side_by_side import compare
from attnflow.figures.style import look
from attnflow.figures.sweep import sweep
from attnflow.figures.transformers import by_layer, cosine_histograms, stream

__all__ = [
    "animate", "attention_map", "branches", "by_layer", "compare", "cosine_histograms", "dashboard", "density_diagram",
    "density_run", "destination", "exits", "head_spectra", "hypotheses", "look", "mean_field", "phase_diagram",
    "phases", "plot", "save", "staircase", "stream", "sweep",
]  # fmt: skip
