"""Movies as MP4 files, written by ffmpeg from frames that are pixels already."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import InputError

# No dates or versions in the file, and its index in front, so that browsers play it while it loads.
EXACT = ["-fflags", "+bitexact", "-flags:v", "+bitexact", "-map_metadata", "-1", "-movflags", "+faststart"]
# The colours of high definition, said in the file: players guess others for small pictures.
COLOURS = ["-vf", "scale=out_color_matrix=bt709:out_range=tv", "-colorspace", "bt709"]
COLOURS += ["-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "tv"]
# How much is lost, from 0 for nothing: thin lines on flat paper show more of it than photographs.
LOSS = "16"


def program() -> str:
    """Return where ffmpeg is."""
    try:
        from imageio_ffmpeg import get_ffmpeg_exe
    except ImportError:
        raise InputError("MP4 movies need imageio-ffmpeg: pip install 'attnflow[plot]', or ask for a .gif") from None
    try:
        return str(get_ffmpeg_exe())
    except RuntimeError:
        raise InputError("no ffmpeg program was found: install ffmpeg, or ask for a .gif") from None


@dataclass(frozen=True)
class Mp4:
    """A movie that is being written."""

    pipe: IO[bytes]

    def add(self, frame: NDArray[np.uint8], repeat: int = 1) -> None:
        """Add a frame (h, w, 3), shown for some ticks of the movie."""
        pixels = frame.tobytes()
        for _ in range(repeat):
            self.pipe.write(pixels)


@contextmanager
def writing(path: Path, width: int, height: int, rate: int) -> Iterator[Mp4]:
    """Write a movie of even width and height while the block lasts; when it fails, ffmpeg is ended.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with writing(Path(folder) / "grey.mp4", 16, 16, rate=25) as movie:
    ...         movie.add(np.full((16, 16, 3), 128, dtype=np.uint8), repeat=3)
    ...     (Path(folder) / "grey.mp4").read_bytes()[4:8]
    b'ftyp'
    """
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-framerate", str(rate), "-i", "pipe:"]
    made = ["-c:v", "h264", "-pix_fmt", "yuv420p", *COLOURS, *EXACT, "-crf", LOSS]
    words = [program(), "-loglevel", "error", *raw, *made, "-y", str(path)]
    nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=nothing, stderr=pipe) as ffmpeg:
        assert ffmpeg.stdin is not None
        assert ffmpeg.stderr is not None
        try:
            with suppress(BrokenPipeError):  # it ended by itself, and says why
                yield Mp4(ffmpeg.stdin)
                ffmpeg.stdin.close()
            said = ffmpeg.stderr.read().decode(errors="replace")
            if ffmpeg.wait() != 0:
                raise InputError(f"ffmpeg could not write the movie ({' '.join(said.split())[:120]}): ask for a GIF")
        except BaseException:
            ffmpeg.kill()
            with suppress(BrokenPipeError):
                ffmpeg.stdin.close()
            raise
