"""Watchers of a run: rules that end it, progress, checkpoints; and rules that say which states are recorded."""

from attnflow.runs.recording import At, Every, Geometric, Recorder, Recording
from attnflow.runs.recording import Record as Record
from attnflow.runs.watch import Checkpoint, Clustered, Converged, Progress, Start, WallClock, Watcher, When

__all__ = [
    "At", "Checkpoint", "Clustered", "Converged", "Every", "Geometric", "Progress", "Recorder", "Recording",
    "Start", "WallClock", "Watcher", "When",
]  # fmt: skip
