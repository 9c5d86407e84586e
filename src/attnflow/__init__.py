"""attnflow, the laboratory for self-attention dynamics: tokens as interacting particles.

>>> import attnflow as af
>>> x0 = af.tokens.gaussian(n=20, d=2, seed=0)
>>> run = af.simulate(x0, af.Hardmax(), af.Layers(alpha=0.5), until=100)
>>> run.stopped
'reached step 100, as asked'
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from attnflow import catalogue, densities, figures, geometry, measure, tokens, watch
from attnflow.core import calls, progress
from attnflow.core.inputs import InputError
from attnflow.core.schedules import Schedule
from attnflow.densities import MeanField
from attnflow.laws import (
    Attention,
    Entmax,
    Hardmax,
    Heads,
    HegselmannKrause,
    Law,
    Linear,
    Localmax,
    Masked,
    Positional,
    SelfAdjusted,
    Sigmoid,
    Sinkhorn,
    Softmax,
    Sparsemax,
    Unnormalized,
)
from attnflow.motions import (
    Block,
    FeedForward,
    Flow,
    HardmaxFlow,
    Jumps,
    Layers,
    Leaps,
    Motion,
    Noisy,
    Norm,
    Perceptron,
    RandomHeads,
    RescaledFlow,
    RescaledLayers,
    Residual,
    SphereFlow,
    SphereLayers,
    Transformer,
)
from attnflow.runs.ensemble_results import Ensemble
from attnflow.runs.ensembles import ensemble
from attnflow.runs.loading import load
from attnflow.runs.simulate import simulate
from attnflow.runs.trajectory import Trajectory

if TYPE_CHECKING:
    from attnflow import checkpoints, claims
    from attnflow.app.sweep import sweep
    from attnflow.claims.certificates import certify
    from attnflow.claims.check import check
    from attnflow.claims.search import search
    from attnflow.explorer.notebook import explore

__version__ = "0.2.0"

__all__ = [
    "Attention", "Block", "Ensemble", "Entmax", "FeedForward", "Flow", "Hardmax", "HardmaxFlow", "Heads",
    "HegselmannKrause", "InputError", "Jumps", "Law", "Layers", "Leaps", "Linear", "Localmax", "Masked",
    "MeanField", "Motion", "Noisy", "Norm", "Perceptron", "Positional", "RandomHeads", "RescaledFlow",
    "RescaledLayers", "Residual", "Schedule", "SelfAdjusted", "Sigmoid", "Sinkhorn", "Softmax", "Sparsemax",
    "SphereFlow", "SphereLayers", "Trajectory", "Transformer", "Unnormalized",
    "catalogue", "certify", "check", "checkpoints", "claims", "densities", "ensemble", "explore", "figures", "geometry",
    "load", "measure", "progress", "search", "simulate", "sweep", "tokens", "watch",
]  # fmt: skip

for _module in (densities, figures, geometry, measure, tokens, watch, sys.modules[__name__]):
    calls.speak(_module)


def __getattr__(name: str) -> Any:
    """Load claims and readers of weights when they are first asked for; look others up in the catalogue."""
    if name == "checkpoints":
        return import_module("attnflow.checkpoints")
    if name in ("claims", "certify", "check", "search"):
        module = import_module("attnflow.claims")
        return module if name == "claims" else getattr(module, name)
    if name == "sweep":
        return import_module("attnflow.app.sweep").sweep
    if name == "explore":
        return import_module("attnflow.explorer.notebook").explore
    try:
        if name[:1].isupper():
            return catalogue.class_named(name)
    except KeyError:
        pass
    raise AttributeError(f"module 'attnflow' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List what users of the library call by its name: no module of its own, no import."""
    return sorted(__all__)
