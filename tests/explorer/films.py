"""Movies as pixels, read by ffmpeg."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attnflow.figures.mp4 import program


def frames_of(path: Path) -> NDArray[np.uint8]:
    """Return the frames (T, h, w, 3) of an MP4 movie."""
    about = subprocess.run([program(), "-i", str(path)], capture_output=True, text=True, check=False).stderr
    size = re.search(r"Video: h264 .*?, (\d+)x(\d+)", about)
    assert size, about
    words = [program(), "-loglevel", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "pipe:"]
    pixels = subprocess.run(words, capture_output=True, check=True).stdout
    return np.frombuffer(pixels, dtype=np.uint8).reshape(-1, int(size[2]), int(size[1]), 3)
