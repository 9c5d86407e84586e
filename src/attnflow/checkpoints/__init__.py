"""Trained weights: models read from their files, whose heads are laws of attnflow."""

import sys

from attnflow.checkpoints.checkpoint import Checkpoint, Head, Layer
from attnflow.checkpoints.loading import load
from attnflow.core import calls

__all__ = ["Checkpoint", "Head", "Layer", "load"]

calls.speak(sys.modules[__name__])
