"""Movies as GIF files, with one palette for all frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A GIF has at most COLOURS colours.
COLOURS = 256
# How much a colour is missed: its distance from those chosen, times its number of pixels to this power, which is low
# so that the few pixels of a small dot count.
RARE = 0.25


@dataclass
class Gif:
    """Writes frames as the writers of Matplotlib do. A palette chosen anew for each frame would let colours shift."""

    rate: int
    figure: Any = None
    dpi: float = 100.0
    frames: list[NDArray[np.uint8]] = field(default_factory=list)

    @contextmanager
    def saving(self, figure: Any, path: str, dpi: float) -> Iterator[Gif]:
        """Collect the frames that are drawn in the block, and write them at its end."""
        self.figure, self.dpi = figure, dpi
        yield self
        write(path, alike(self.frames), 1000 // self.rate)

    def grab_frame(self) -> None:
        """Add the figure as it is now."""
        from PIL import Image

        file = BytesIO()
        self.figure.savefig(file, format="png", dpi=self.dpi, pil_kwargs={"compress_level": 1})
        self.frames.append(np.asarray(Image.open(file).convert("RGB")))


def write(path: Any, images: Sequence[Any], duration: int | list[int]) -> None:
    """Write images of one palette as a movie; `duration` is that of each, in milliseconds, or of all."""
    first, *rest = images
    # The palette is named, or each frame would bring a copy of its own.
    once = {"palette": bytes(first.getpalette()), "optimize": False}
    first.save(path, "GIF", save_all=True, append_images=rest, duration=duration, loop=0, **once)


def alike(frames: Sequence[NDArray[np.uint8]]) -> list[Any]:
    """Return frames (h, w, 3) as images of one palette, each pixel in the nearest of its colours."""
    from PIL import Image
    from scipy.spatial import cKDTree

    seen, counts = _census(frames)
    palette = _palette(seen, counts)
    nearest = np.zeros(2**24, dtype=np.uint8)
    nearest[seen] = cKDTree(palette).query(_rgb(seen))[1]
    images = [Image.fromarray(nearest[_codes(frame)], "P") for frame in frames]
    for image in images:
        image.putpalette(palette.astype(np.uint8).ravel().tolist())
    return images


def _codes(frame: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return each colour as one number."""
    return frame.astype(np.int64) @ np.array([65536, 256, 1])


def _rgb(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=-1)


def _census(frames: Sequence[NDArray[np.uint8]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the colours of all frames, and how many pixels have them."""
    found = [np.unique(_codes(frame), return_counts=True) for frame in frames]
    seen, which = np.unique(np.concatenate([codes for codes, _ in found]), return_inverse=True)
    return seen, np.bincount(which, np.concatenate([counts for _, counts in found])).astype(np.int64)


def _palette(seen: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return at most 256 colours (k, 3) of those seen: one after the other the one that is missed most."""
    rgb, weight = _rgb(seen), counts**RARE
    chosen, away = [int(counts.argmax())], np.full(len(seen), np.inf)
    while len(chosen) < min(COLOURS, len(seen)):
        away = np.minimum(away, np.linalg.norm(rgb - rgb[chosen[-1]], axis=1))
        chosen.append(int((away * weight).argmax()))
    return rgb[chosen]
