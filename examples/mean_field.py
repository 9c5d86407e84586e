"""The mean-field limit in the plane: how far n tokens are from a million, as they all move.

python examples/mean_field.py out            a million tokens, some minutes
python examples/mean_field.py out 20000      fewer, in less than a minute
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import attnflow as af


def main(folder: Path, reference: int) -> None:
    """Measure W_2 at four times, print the table, and draw it with the density of the many."""
    square = partial(af.tokens.uniform, d=2)
    sizes = [n for n in (32, 64, 128, 256, 512, 1024, 2048) if 64 * n <= reference]
    motion, times = af.RescaledFlow(rtol=1e-6), [0, 1, 2, 3]
    found = af.measure.mean_field(square, af.Softmax(beta=1.0), motion, times, sizes=sizes, reference=reference)
    print(found)
    folder.mkdir(parents=True, exist_ok=True)
    # By the last time the middle of the square is empty.
    af.figures.save(af.figures.mean_field(found, gap=[False, False, False, True]), folder / "mean_field.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out"), int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
