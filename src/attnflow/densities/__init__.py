"""Densities of infinitely many tokens on the circle and on spheres: how they move, where they rest, when they cluster.

>>> import numpy as np
>>> model = MeanField(beta=3.0, kappa=1.0, normalized=False)
>>> model.stationary(lambda theta: np.exp(3 * np.cos(theta))).density
Density on the circle: 64 modes, order parameter 0.911615
"""

from attnflow.densities.branches import Branch, BranchCurve, Transition
from attnflow.densities.density import Density, moments
from attnflow.densities.diagram import Diagram, critical_beta, diagram
from attnflow.densities.evolution import Balance, DensityRun
from attnflow.densities.mean_field import MeanField
from attnflow.densities.stationary import Stationary

__all__ = [
    "Balance", "Branch", "BranchCurve", "Density", "DensityRun", "Diagram", "MeanField", "Stationary", "Transition",
    "critical_beta", "diagram", "moments",
]  # fmt: skip
