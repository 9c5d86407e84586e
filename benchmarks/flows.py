"""A flow of many tokens with local steps, against the same flow in which all tokens take common steps.

python benchmarks/flows.py 30000 8
"""

from __future__ import annotations

import sys
import time

import numpy as np
from clouds import RADIUS, clipped_normal

import attnflow as af
from attnflow.motions.solvers import integrate

# From this many coordinates on no flow takes local steps.
NEVER = 1 << 60
# Tokens further apart than this part of the diameter count as different: they are on a separatrix.
DIFFERENT = 1e-6


def timed(tokens: np.ndarray, until: float, many: int) -> tuple[float, af.Trajectory]:
    """Return the CPU time of a run, and the run."""
    usual, integrate.MANY = integrate.MANY, many
    try:
        begin = time.process_time()
        run = af.simulate(tokens, af.Softmax(), af.RescaledFlow(), until, record=[until / 2])
        return time.process_time() - begin, run
    finally:
        integrate.MANY = usual


def main(n: int, until: float) -> None:
    """Print what both ways cost, and how many tokens end in different places."""
    x = clipped_normal(n, 2)
    timed(x, 0.1, integrate.MANY)
    local, ours = timed(x, until, integrate.MANY)
    common, theirs = timed(x, until, NEVER)
    apart = np.abs(ours.final - theirs.final).max(axis=1) / (2 * RADIUS)
    print(
        f"RescaledFlow, {n} tokens, beta 1, until t = {until:g}: {local:.4g} s of CPU time and "
        f"{ours.report['evaluations']} sums of all tokens with local steps, {common:.4g} s and "
        f"{theirs.report['evaluations']} with common steps: {common / local:.3g} times; largest difference "
        f"{apart.max():.1e} of the diameter, above {DIFFERENT:g}: {(apart > DIFFERENT).sum()} tokens"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
