"""The mean-field limit in the plane: how far n tokens are from a million, as they all move.

python examples/mean_field.py                      a million tokens, some minutes
python examples/mean_field.py --reference 20000    fewer, in less than a minute
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import attnflow as af


def main(folder: Path, reference: int) -> None:
    """Measure W_2 at four times, print the table, and draw it with the density of the many."""
    square = partial(af.tokens.uniform, d=2)
    sizes = [n for n in (32, 64, 128, 256, 512, 1024, 2048) if 64 * n <= reference]
    motion, times = af.RescaledFlow(rtol=1e-6), [0, 1, 2, 3]
    print(f"{reference} tokens until t = {times[-1]}, and {len(sizes)} sizes of smaller clouds...", flush=True)
    found = af.measure.mean_field(square, af.Softmax(beta=1.0), motion, times, sizes=sizes, reference=reference)
    print(found)
    folder.mkdir(parents=True, exist_ok=True)
    # By the last time the middle of the square is empty.
    af.figures.save(af.figures.mean_field(found, gap=[False, False, False, True]), folder / "mean_field.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="W_2 from n tokens to many, as they move.")
    parser.add_argument("--reference", type=int, default=1_000_000, help="how many the many are")
    parser.add_argument("--folder", type=Path, default=Path("out"), help="where the picture goes")
    given = parser.parse_args()
    main(given.folder, given.reference)
