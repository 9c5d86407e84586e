"""Trained weights: models read from their files, whose heads are laws of attnflow."""

import sys

from attnflow.checkpoints.checkpoint import Checkpoint, Head, Layer
from attnflow.checkpoints.hypotheses import Hypotheses, hypotheses
from attnflow.checkpoints.loading import load
from attnflow.checkpoints.nulls import null, without
from attnflow.core import calls

__all__ = ["Checkpoint", "Head", "Hypotheses", "Layer", "hypotheses", "load", "null", "without"]

calls.speak(sys.modules[__name__])
