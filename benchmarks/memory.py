"""Peak memory of one attention sum, each in a process of its own, beyond what importing takes."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from clouds import clipped_normal
from contenders import CONTENDERS, installed

import attnflow as af

# attnflow for moderate and for large beta, which other engines compute.
ATTNFLOW = {"attnflow": 1.0, "attnflow, beta = 300": 300.0}


def peak() -> float:
    """Return the largest amount of memory this process ever had, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # on Linux the other number counts what the parent had, too
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / (1 << 10)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def used(name: str, n: int) -> float:
    """Compute one sum of n tokens and return how much the peak has risen since a sum of 100."""
    small, large = clipped_normal(100, 2), clipped_normal(n, 2)
    if name in ATTNFLOW:
        law = af.Softmax(beta=ATTNFLOW[name])
        # The compiled code is loaded first.
        law.attend(clipped_normal(5_000, 2))
        before = peak()
        law.attend(large)
    else:
        CONTENDERS[name][1](small, small, 1.0)()
        before = peak()
        CONTENDERS[name][1](large, large, 1.0)()
    return peak() - before


def peaks() -> tuple[list[str], list[list[str]]]:
    """Return a table of peaks in MB: everybody at 10,000 tokens, attnflow alone up to a million."""
    rows = []
    for name in [*ATTNFLOW, *installed()]:
        row = [name]
        for n in (10_000, 1_000_000):
            if n > 10_000 and name not in ATTNFLOW:
                row.append("")
                continue
            alone = [sys.executable, __file__, name, str(n)]
            said = subprocess.run(alone, capture_output=True, text=True, check=True).stdout
            row.append(f"{float(said.split()[-1]):.0f} MB")
        rows.append(row)
        print("  ".join(row), flush=True)
    return ["", "n = 10,000", "n = 1,000,000"], rows


if __name__ == "__main__":
    print(used(sys.argv[1], int(sys.argv[2])))
