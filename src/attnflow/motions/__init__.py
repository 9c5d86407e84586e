"""How tokens move: each motion is a small frozen object that is given to `simulate`."""

from attnflow.motions.blocks import Block, Norm, Perceptron
from attnflow.motions.feed_forward import FeedForward
from attnflow.motions.flows import ContinuousMotion, Flow, RescaledFlow, SphereFlow
from attnflow.motions.hardmax_flow import HardmaxFlow
from attnflow.motions.jumps import Jumps
from attnflow.motions.layers import Layers, Leaps, RescaledLayers, Residual
from attnflow.motions.motion import DiscreteMotion, MatrixForm, Motion, check_motion
from attnflow.motions.noisy import Noisy
from attnflow.motions.random_heads import RandomHeads
from attnflow.motions.random_steps import RandomSteps
from attnflow.motions.sphere_layers import SphereLayers
from attnflow.motions.stepper import Stepper, Stretch
from attnflow.motions.transformer import Transformer

# Motions in the order of menus and lists.
__all__ = [  # noqa: RUF022
    "Layers", "Residual", "RescaledLayers", "SphereLayers", "Leaps", "Jumps",
    "Flow", "RescaledFlow", "SphereFlow", "HardmaxFlow",
    "Noisy", "RandomHeads", "Transformer", "Block", "Norm", "Perceptron",
    "FeedForward", "Motion", "DiscreteMotion", "ContinuousMotion", "RandomSteps", "Stepper", "Stretch", "MatrixForm",
    "check_motion",
]  # fmt: skip
