"""Watchers of a run: rules that end it, progress, checkpoints; and rules that say which states are recorded."""

from attnflow.runs.watch import (
    At,
    Checkpoint,
    Clustered,
    Converged,
    Every,
    Geometric,
    Progress,
    Recorder,
    Recording,
    Start,
    WallClock,
    Watcher,
    When,
)
from attnflow.runs.watch import (
    Record as Record,
)

__all__ = [
    "At", "Checkpoint", "Clustered", "Converged", "Every", "Geometric", "Progress", "Recorder", "Recording",
    "Start", "WallClock", "Watcher", "When",
]  # fmt: skip
